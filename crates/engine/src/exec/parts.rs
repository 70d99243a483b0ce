//! Which parts of documents an update needs, where a layout stores parts apart and can write a
//! document that was read in part.

use super::modify::Target;
use crate::catalog::{Collection, Index};
use crate::changes;
use crate::planner::cover;
use crate::records::resolve;
use patterns::layout::Demand;
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
}

impl Reads {
    /// What an update of the documents that a filter selects reads; `None` for whole documents.
    #[must_use]
    pub fn of(update: &Update, filter: &Filter, sort: Option<&SortSpec>) -> Option<Reads> {
        let changed = update.touched_paths()?;
        let all = cover::read_paths(Some(filter), sort, changed.clone())?;
        Some(Reads { changed: Some(changed), all })
    }

    /// What a deletion of the documents that a filter selects reads; `None` for whole documents.
    #[must_use]
    pub fn of_delete(filter: &Filter, sort: Option<&SortSpec>) -> Option<Reads> {
        let all = cover::read_paths(Some(filter), sort, Vec::new())?;
        Some(Reads { changed: None, all })
    }

    /// The same if documents are also returned, with a projection; `None` for whole documents.
    #[must_use]
    pub fn returning(mut self, projection: Option<&Projection>) -> Option<Reads> {
        let reads = projection?.reads().filter(|reads| !reads.passes)?;
        self.all.extend(reads.paths);
        Some(self)
    }
}

/// What must be read of the documents that a statement changes; `None` for whole documents. Nobody
/// else may need more of them: no validator, no other pattern, no image in the change log.
#[must_use]
pub(super) fn demand(collection: &Collection, target: &Target<'_>) -> Option<Arc<Demand>> {
    let paths = needed(collection, target.reads.as_ref()?)?;
    Some(Arc::new(Demand::of(paths)))
}

/// The paths that must be read of the documents that a statement changes; `None` for whole
/// documents.
#[must_use]
pub fn needed(collection: &Collection, reads: &Reads) -> Option<Vec<String>> {
    collection.layouts.as_ref()?.part_writer()?;
    if resolve::is_needed(collection)
        || collection.validator.is_some()
        || collection.time_series.is_some()
        || changes::logs_images(collection)
    {
        return None;
    }
    let mut paths = reads.all.clone();
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
        add_index(index, reads.changed.as_deref(), &mut paths)?;
    }
    // The empty path is the whole document.
    (!paths.iter().any(String::is_empty)).then_some(paths)
}

/// Adds what is read to maintain an index when these paths change, or the whole document.
/// `None` if that is not known.
fn add_index(index: &Index, changed: Option<&[String]>, paths: &mut Vec<String>) -> Option<()> {
    let first = |path: &str| path.split('.').next().unwrap_or("").to_owned();
    let fields = index.read_fields()?;
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
