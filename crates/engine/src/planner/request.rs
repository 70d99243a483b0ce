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

/// The error for a sort key without a sort.
#[must_use]
pub fn no_sort() -> Error {
    Error::bad_value("cannot use sortKey $meta projection without a sort")
}
