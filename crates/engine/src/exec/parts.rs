//! Which parts of documents an update needs, where a layout stores parts apart and can write a
//! document that was read in part.

use super::modify::Target;
use crate::catalog::{Collection, Index, IndexKind};
use crate::changes;
use crate::planner::cover;
use crate::records::resolve;
use patterns::layout::Demand;
use patterns::paths::{is_within, meet};
use query::filter::Filter;
use query::project::Projection;
use query::sort::SortSpec;
use query::update::Update;
use std::sync::Arc;

/// What a statement reads of documents by itself.
#[derive(Clone, Debug)]
pub struct Reads {
    /// The paths that its update reads and changes; `None` for all of a document that goes.
    changed: Option<Vec<String>>,
    /// All paths that it reads.
    all: Vec<String>,
    /// Arrays to whose end it only adds elements, each with all other paths that it reads.
    appended: Vec<(String, Vec<String>)>,
}

impl Reads {
    /// What an update of the documents that a filter selects reads; `None` for whole documents.
    #[must_use]
    pub fn of(update: &Update, filter: &Filter, sort: Option<&SortSpec>) -> Option<Reads> {
        let changed = update.touched_paths()?;
        let all = cover::read_paths(Some(filter), sort, changed.clone())?;
        let mut appended = Vec::new();
        for array in update.appended_paths() {
            let others = changed.iter().filter(|path| **path != array).cloned().collect();
            appended.push((array, cover::read_paths(Some(filter), sort, others)?));
        }
        Some(Reads { changed: Some(changed), all, appended })
    }

    /// What a deletion of the documents that a filter selects reads; `None` for whole documents.
    #[must_use]
    pub fn of_delete(filter: &Filter, sort: Option<&SortSpec>) -> Option<Reads> {
        let all = cover::read_paths(Some(filter), sort, Vec::new())?;
        Some(Reads { changed: None, all, appended: Vec::new() })
    }

    /// The same if documents are also returned, with a projection; `None` for whole documents.
    #[must_use]
    pub fn returning(mut self, projection: Option<&Projection>) -> Option<Reads> {
        let reads = projection?.reads().filter(|reads| !reads.passes)?;
        for (_, others) in &mut self.appended {
            others.extend(reads.paths.iter().cloned());
        }
        self.all.extend(reads.paths);
        Some(self)
    }
}

/// What must be read of the documents that a statement changes; `None` for whole documents. Nobody
/// else may need more of them: no validator, no other pattern, no image in the change log.
#[must_use]
pub(super) fn demand(collection: &Collection, target: &Target<'_>) -> Option<Arc<Demand>> {
    let reads = target.reads.as_ref()?;
    let demand = tail(collection, reads);
    Some(Arc::new(demand.or_else(|| needed(collection, reads).map(Demand::of))?))
}

/// What must be read if elements are added to an array without reading all that it has.
fn tail(collection: &Collection, reads: &Reads) -> Option<Demand> {
    let array = collection.layouts.as_ref()?.part_writer()?.tailed()?;
    let (_, others) = reads.appended.iter().find(|(path, _)| path == array)?;
    let mut kept = collection.patterns.iter().flat_map(|bound| &bound.targets);
    if kept.any(|pattern| pattern.kept.iter().any(|path| !path.is_single())) {
        return None;
    }
    let paths = all_needed(collection, others.clone(), reads.changed.as_deref(), Some(array))?;
    let demand = Demand { tail: Some(array.to_owned()), ..Demand::of(paths) };
    (!demand.reads(array)).then_some(demand)
}

/// The paths that must be read of the documents that a statement changes; `None` for whole
/// documents.
#[must_use]
pub fn needed(collection: &Collection, reads: &Reads) -> Option<Vec<String>> {
    all_needed(collection, reads.all.clone(), reads.changed.as_deref(), None)
}

/// Adds to the paths that a statement reads those that are read when it changes documents. Of the
/// array `tail` only the end is read.
fn all_needed(
    collection: &Collection,
    mut paths: Vec<String>,
    changed: Option<&[String]>,
    tail: Option<&str>,
) -> Option<Vec<String>> {
    collection.layouts.as_ref()?.part_writer()?;
    if resolve::is_needed(collection)
        || collection.validator.is_some()
        || collection.time_series.is_some()
        || changes::logs_images(collection)
    {
        return None;
    }
    if let Some(bound) = &collection.patterns {
        if bound.targets.iter().any(|pattern| pattern.layout().is_none()) {
            return None;
        }
        for pattern in &bound.sources {
            if !pattern.traits.exact_reads {
                return None;
            }
            let read = pattern.reads().into_iter().filter(|(name, _)| **name == *collection.name);
            paths.extend(read.map(|(_, path)| path));
        }
    }
    for index in collection.indexes.iter().filter(|index| !index.is_clustered()) {
        add_index(index, changed, tail, &mut paths)?;
    }
    // The empty path is the whole document.
    (!paths.iter().any(String::is_empty)).then_some(paths)
}

/// Adds what is read to maintain an index when these paths change, or the whole document.
/// `None` if that is not known.
fn add_index(
    index: &Index,
    changed: Option<&[String]>,
    tail: Option<&str>,
    paths: &mut Vec<String>,
) -> Option<()> {
    let first = |path: &str| path.split('.').next().unwrap_or("").to_owned();
    let mut fields = index.read_fields()?;
    if let Some(tail) = tail.filter(|tail| fields.iter().any(|field| meet(field, tail))) {
        let changed = changed?;
        // The entries of elements that are not read must stay as they are.
        let depends = |field: &String| match is_within(field, tail) {
            true => field.split('.').any(|part| part.bytes().all(|byte| byte.is_ascii_digit())),
            false => meet(field, tail) || changed.iter().any(|path| first(path) == first(field)),
        };
        let is_plain = matches!(index.kind, IndexKind::Ordered) && index.partial.is_none();
        if !is_plain || fields.iter().any(depends) {
            return None;
        }
        fields.retain(|field| !is_within(field, tail));
        paths.extend(fields);
        return Some(());
    }
    let is_concerned = index.partial.is_some()
        || changed.is_none_or(|changed| {
            fields.iter().any(|field| changed.iter().any(|path| first(path) == first(field)))
        });
    if is_concerned {
        *paths = cover::read_paths(index.partial.as_deref(), None, std::mem::take(paths))?;
        paths.extend(fields);
    }
    Some(())
}
