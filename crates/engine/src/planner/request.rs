//! Parts of a request that are read before planning: the sort and the requested metadata.

use query::sort::SortSpec;
use std::sync::Arc;
use value::{Code, Collation, Error, RawDoc, Result, Val};

/// Parses a sort specification, or the natural order in the form of a hint.
pub fn parse_sort<'s>(
    sort: Option<RawDoc<'s>>,
    collation: Option<&Arc<Collation>>,
) -> Result<(Option<SortSpec>, Option<Val<'s>>)> {
    let Some(sort) = sort.filter(|sort| !sort.is_empty()) else { return Ok((None, None)) };
    if let Some(direction) = sort.get("$natural") {
        if sort.count() > 1 {
            let sort = query::expr::show_doc(sort);
            return Err(Error::bad_value(format!(
                "Cannot include '$natural' in compound sort: {sort}"
            )));
        }
        if !matches!(direction.as_f64(), Some(n) if n == 1.0 || n == -1.0) {
            return Err(Error::bad_value(
                "$natural sort cannot be set to a value other than -1 or 1.",
            ));
        }
        return Ok((None, Some(Val::Document(sort))));
    }
    Ok((Some(SortSpec::parse(sort)?.with_collation(collation)), None))
}

/// Refuses the hint of an index together with a sort by the natural order.
///
/// # Errors
/// BadValue.
pub fn refuse_index_with_natural(hint: Option<Val<'_>>, natural: Option<Val<'_>>) -> Result<()> {
    let names_index = match hint {
        Some(Val::Document(hint)) => !hint.is_empty() && hint.find("$natural").is_none(),
        Some(_) => true,
        None => false,
    };
    if natural.is_some() && names_index {
        return Err(Error::bad_value("index hint not allowed with $natural sort order"));
    }
    Ok(())
}

/// Whether a document requests one of these metadata at any depth.
#[must_use]
pub fn mentions_meta(doc: RawDoc<'_>, keywords: &[&str], depth: usize) -> bool {
    doc.iter().any(|(name, value)| match value.get() {
        Val::String(text) => name == "$meta" && keywords.contains(&text),
        Val::Document(inner) | Val::Array(inner) => {
            depth < value::limits::DEPTH_MAX_WIRE && mentions_meta(inner, keywords, depth + 1)
        }
        _ => false,
    })
}

/// The error for a text score without `$text`.
#[must_use]
pub fn no_score() -> Error {
    Error::new(Code(40218), "query requires text score metadata, but it is not available")
}

/// The error for the distance or the nearest point without a `$near`.
#[must_use]
pub fn no_distance(keyword: &str) -> Error {
    let what = if keyword == "geoNearPoint" { "point" } else { "distance" };
    Error::new(
        Code(40218),
        format!("query requires $geoNear {what} metadata, but it is not available"),
    )
}

/// Refuses `$meta` where no stage of a pipeline provides the metadata. Pipelines over other
/// collections inside of it are checked when they run.
///
/// # Errors
/// 40218, `BadValue`.
pub fn check_metadata(pipeline: RawDoc<'_>) -> Result<()> {
    let keywords = ["textScore", "geoNearDistance", "geoNearPoint", "sortKey"];
    if !mentions_meta(pipeline, &keywords, 0) {
        return Ok(());
    }
    let own = || {
        let stages = pipeline.iter().filter_map(|(_, stage)| stage.as_doc());
        stages.filter_map(|stage| match stage.first()? {
            ("$lookup", join) => join.as_doc()?.get("let")?.as_doc(),
            ("$unionWith", _) => None,
            _ => Some(stage),
        })
    };
    let has = |name: &[u8]| {
        own().any(|stage| stage.bytes().windows(name.len()).any(|bytes| bytes == name))
    };
    let asks = |keyword: &str| own().any(|stage| mentions_meta(stage, &[keyword], 0));
    if asks("textScore") && !has(b"$text\0") {
        return Err(no_score());
    }
    if asks("sortKey") && !has(b"$sort\0") {
        return Err(no_sort());
    }
    for keyword in ["geoNearDistance", "geoNearPoint"] {
        if asks(keyword) && !has(b"$geoNear\0") {
            return Err(no_distance(keyword));
        }
    }
    Ok(())
}

/// The error for a sort key without a sort.
#[must_use]
pub fn no_sort() -> Error {
    Error::bad_value("cannot use sortKey $meta projection without a sort")
}
