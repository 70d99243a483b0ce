//! Where stages may be: first, last, or not in a nested pipeline.

use super::row::{Position, Source};
use super::{StageRow, Within};
use value::{Code, Error, Result};

/// Refuses misplaced stages.
pub(super) fn check(rows: &[&StageRow], within: Within) -> Result<()> {
    for (at, row) in rows.iter().enumerate() {
        let name = row.name;
        let (first, writes) = (row.position == Position::First, row.position == Position::Last);
        if within == Within::Facet && (first || writes || !row.in_facet) {
            return Err(Error::new(
                Code(40600),
                format!("{name} is not allowed to be used within a $facet stage"),
            ));
        }
        if writes {
            let (code, what) = match within {
                Within::Command | Within::Facet => (0, ""),
                Within::View => (Code::OPTION_NOT_SUPPORTED_ON_VIEW.0, "a view definition"),
                Within::Lookup => (51047, "a $lookup's sub-pipeline"),
                Within::Union => (31441, "a $unionWith's sub-pipeline"),
            };
            if code != 0 {
                return Err(Error::new(Code(code), format!("{name} is not allowed within {what}")));
            }
        }
        if first && at > 0 {
            let code = if name == "$geoNear" { 40603 } else { 40602 };
            return Err(Error::new(
                Code(code),
                format!("{name} is only valid as the first stage in a pipeline"),
            ));
        }
        if writes && at + 1 < rows.len() {
            return Err(Error::new(
                Code(40601),
                format!("{name} can only be the final stage in the pipeline"),
            ));
        }
    }
    Ok(())
}

/// Refuses a pipeline without a collection that needs one, and the reverse. `first` is the name of
/// its first stage.
///
/// # Errors
/// InvalidNamespace.
pub(crate) fn check_source(first: Option<&str>, has_collection: bool) -> Result<()> {
    let source = first.and_then(super::find).map_or(Source::Collection, |row| row.source);
    let message = match (source, has_collection, first) {
        (Source::Collection, false, Some(name)) => {
            format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required.")
        }
        (Source::Collection, false, None) => {
            "{aggregate: 1} is not valid for an empty pipeline.".to_owned()
        }
        (Source::Nothing, true, Some(name)) => {
            format!("'{name}' can only be run with {{aggregate: 1}}")
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code::INVALID_NAMESPACE, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(names: &[&str], within: Within) -> i32 {
        let rows: Vec<_> =
            names.iter().map(|name| super::super::find(name).expect("a stage")).collect();
        check(&rows, within).map_or_else(|error| error.code().0, |()| 0)
    }

    #[test]
    fn stages_are_refused_where_they_may_not_be() {
        assert_eq!(code(&["$match", "$out"], Within::Command), 0);
        assert_eq!(code(&["$out", "$match"], Within::Command), 40601);
        assert_eq!(code(&["$match", "$documents"], Within::Command), 40602);
        assert_eq!(code(&["$facet"], Within::Facet), 40600);
        assert_eq!(code(&["$merge"], Within::Facet), 40600);
        assert_eq!(code(&["$merge"], Within::Lookup), 51047);
        assert_eq!(code(&["$out"], Within::Union), 31441);
        assert_eq!(code(&["$out"], Within::View), 167);
    }
}
