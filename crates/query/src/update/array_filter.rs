//! `arrayFilters`: the elements that `$[name]` selects.

use super::modifier::{show_update, wrap};
use crate::ParseContext;
use crate::filter::Filter;
use value::{Code, Error, RawDoc, RawVal, Result};

/// The filters of an update by identifier.
#[derive(Debug)]
pub(super) struct ArrayFilters {
    filters: Vec<ArrayFilter>,
}

#[derive(Debug)]
struct ArrayFilter {
    name: Box<str>,
    filter: Filter,
    used: bool,
}

impl ArrayFilters {
    pub(super) fn parse(filters: &[RawDoc<'_>], ctx: &ParseContext<'_>) -> Result<ArrayFilters> {
        let mut parsed: Vec<ArrayFilter> = Vec::new();
        for doc in filters {
            let wrong = |e: Error| e.context("Error parsing array filter :: caused by :: ");
            refuse_top_level(*doc)?;
            if mentions_special(*doc) {
                Filter::parse_for_documents(*doc, ctx).map_err(wrong)?;
            }
            let mut name = None;
            find_name(*doc, &mut name)?;
            let Some(name) = name else {
                return Err(Error::failed_to_parse(
                    "Cannot use an expression without a top-level field name in arrayFilters",
                ));
            };
            let mut characters = name.chars();
            let plain = characters.next().is_some_and(|c| c.is_ascii_lowercase())
                && characters.all(|c| c.is_ascii_alphanumeric());
            if !plain {
                return Err(Error::bad_value(format!(
                    "Error parsing array filter :: caused by :: The top-level field name must be an \
                     alphanumeric string beginning with a lowercase letter, found '{name}'"
                )));
            }
            if parsed.iter().any(|known| *known.name == *name) {
                return Err(Error::failed_to_parse(format!(
                    "Found multiple array filters with the same top-level field name {name}"
                )));
            }
            let filter = Filter::parse_for_documents(*doc, ctx).map_err(wrong)?;
            parsed.push(ArrayFilter { name: name.into(), filter, used: false });
        }
        Ok(ArrayFilters { filters: parsed })
    }

    /// Notes that a path uses an identifier; the empty one needs no filter.
    pub(super) fn mark_used(&mut self, name: &str, path: &str) -> Result<()> {
        if name.is_empty() {
            return Ok(());
        }
        match self.filters.iter_mut().find(|filter| *filter.name == *name) {
            Some(filter) => {
                filter.used = true;
                Ok(())
            }
            None => Err(Error::bad_value(format!(
                "No array filter found for identifier '{name}' in path '{path}'"
            ))),
        }
    }

    pub(super) fn check_all_used(&self, update: RawDoc<'_>) -> Result<()> {
        match self.filters.iter().find(|filter| !filter.used) {
            None => Ok(()),
            Some(unused) => Err(Error::failed_to_parse(format!(
                "The array filter for identifier '{}' was not used in the update {}",
                unused.name,
                show_update(update)
            ))),
        }
    }

    /// Whether the filter of this identifier chooses the element; the empty one chooses all.
    pub(super) fn matches(&self, name: &str, element: RawVal<'_>) -> Result<bool> {
        if name.is_empty() {
            return Ok(true);
        }
        match self.filters.iter().find(|filter| *filter.name == *name) {
            Some(filter) => filter.filter.matches(wrap(name, element).as_doc()),
            None => Ok(false),
        }
    }
}

/// Refuses conditions on the whole document.
fn refuse_top_level(doc: RawDoc<'_>) -> Result<()> {
    let refused = |name: &str| {
        format!("Error parsing array filter :: caused by :: {name} is not allowed in this context")
    };
    match doc.iter().map(|(name, _)| name).find(|name| matches!(*name, "$where" | "$expr")) {
        Some("$where") => Err(Error::bad_value(refused("$where"))),
        Some(name) => Err(Error::new(Code::QUERY_FEATURE_NOT_ALLOWED, refused(name))),
        None => Ok(()),
    }
}

/// Whether a filter has a `$text`, which has no path.
fn mentions_special(doc: RawDoc<'_>) -> bool {
    doc.iter().any(|(name, value)| {
        name == "$text"
            || name.starts_with('$')
                && value.as_array().is_some_and(|branches| {
                    branches.iter().any(|(_, branch)| branch.as_doc().is_some_and(mentions_special))
                })
    })
}

/// The one name that all paths of a filter begin with.
fn find_name<'d>(doc: RawDoc<'d>, found: &mut Option<&'d str>) -> Result<()> {
    for (name, value) in doc {
        if name.starts_with('$') {
            if let Some(branches) = value.as_array() {
                for (_, branch) in branches {
                    if let Some(branch) = branch.as_doc() {
                        find_name(branch, found)?;
                    }
                }
            }
            continue;
        }
        let name = name.split('.').next().unwrap_or(name);
        match found {
            None => *found = Some(name),
            Some(known) if *known == name => {}
            Some(known) => {
                return Err(Error::failed_to_parse(format!(
                    "Error parsing array filter :: caused by :: Expected a single top-level field \
                     name, found '{known}' and '{name}'"
                )));
            }
        }
    }
    Ok(())
}
