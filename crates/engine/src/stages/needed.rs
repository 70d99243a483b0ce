//! Which paths of the documents of a collection the stages of a pipeline read, for layouts that store
//! parts of documents apart.

use super::{Role, Stage};
use crate::planner::cover;
use query::filter::Filter;
use query::sort::SortSpec;

/// The paths that stages read of the documents that the first of them gets; `None` for whole
/// documents, or if that is not known.
pub(super) fn by(stages: &[Box<dyn Stage>]) -> Option<Vec<String>> {
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
            Role::Near(_) | Role::Source | Role::Output(_) | Role::Lookup { .. } | Role::Other => {
                return None;
            }
        }
    }
    None
}

/// Adds what a filter or a sort reads.
fn add(filter: Option<&Filter>, sort: Option<&SortSpec>, paths: &mut Vec<String>) -> Option<()> {
    *paths = cover::needed_paths(filter, sort, std::mem::take(paths))?;
    Some(())
}
