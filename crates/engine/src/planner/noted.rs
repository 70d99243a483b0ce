//! Describes the access of a plan for the profiler and the log.

use super::Access;
use crate::catalog::Index;
use crate::operation::Operation;
use smallvec::SmallVec;
use std::sync::Arc;

impl Access {
    /// Records the access of this plan in an operation.
    pub fn note_in(&self, op: &Operation) {
        op.note_indexes(|indexes| note(self, indexes));
    }
}

/// The name of an access; adds the indexes that it reads.
fn note(access: &Access, indexes: &mut SmallVec<[Arc<Index>; 1]>) -> &'static str {
    match access {
        Access::Nothing => "EOF",
        Access::Id(_) => "IDHACK",
        Access::Collection(_) => "COLLSCAN",
        Access::Index(candidate) => {
            indexes.push(candidate.index.clone());
            "IXSCAN"
        }
        Access::Near(plan) => {
            indexes.push(plan.index.clone());
            plan.stage()
        }
        Access::Walk(walk) => {
            indexes.push(walk.index.clone());
            "TREE_WALK"
        }
        Access::Either(either) => {
            indexes.extend(either.branches.iter().map(|branch| branch.index.clone()));
            "OR"
        }
    }
}
