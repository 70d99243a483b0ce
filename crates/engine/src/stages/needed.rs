//! Which paths of the documents of a collection the stages of a pipeline read, for layouts that store
//! parts of documents apart.

use super::{Role, Stage};
use crate::planner::cover;
use patterns::paths::meet;
use query::filter::Filter;
use query::sort::SortSpec;

/// What a stage reads of the documents that it gets, for stages whose role does not tell.
pub struct StageReads {
    /// The paths.
    pub paths: Vec<String>,
    /// Whether the rest of the documents goes on to the next stage.
    pub passes: bool,
}

/// The paths that stages read of the documents that the first of them gets; `None` for whole
/// documents, or if that is not known. `after` is what is read of their results, `None` for all.
pub(super) fn by(stages: &[Box<dyn Stage>], after: Option<&[String]>) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    for stage in stages {
        match stage.role() {
            Role::Match(filter) => add(Some(filter), None, &mut paths)?,
            Role::Sort(sort) => add(None, Some(sort), &mut paths)?,
            Role::Limit(_) => {}
            Role::Unwind(unwind) => paths.push(unwind.path.text().to_owned()),
            Role::Project(projection) => {
                let reads = projection.reads()?;
                paths.extend(reads.paths);
                if !reads.passes {
                    return Some(paths);
                }
            }
            Role::Group(group) => {
                let group = group.fused(None, None, None)?;
                paths.extend(group.reads()?.iter().map(|read| read.path.clone()));
                return Some(paths);
            }
            Role::Count(_) => return Some(paths),
            Role::Lookup { .. } | Role::Other => {
                let reads = stage.reads()?;
                paths.extend(reads.paths);
                if !reads.passes {
                    return Some(paths);
                }
            }
            Role::Near(_) | Role::Source | Role::Output(_) => return None,
        }
    }
    paths.extend_from_slice(after?);
    Some(paths)
}

/// The paths that are read of documents which stand in a field, or in an array in it, if these are
/// read of the outer document; `None` for whole documents.
pub(super) fn within(field: &str, after: &[String]) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    for read in after.iter().filter(|read| meet(read, field)) {
        let below = read.strip_prefix(field)?.strip_prefix('.')?;
        // A number may be a place in the array.
        if below.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        paths.push(below.to_owned());
    }
    Some(paths)
}

/// Adds what a filter or a sort reads.
fn add(filter: Option<&Filter>, sort: Option<&SortSpec>, paths: &mut Vec<String>) -> Option<()> {
    *paths = cover::read_paths(filter, sort, std::mem::take(paths))?;
    Some(())
}
