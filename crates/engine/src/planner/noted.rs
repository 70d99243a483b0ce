//! Describes the access of a plan for the profiler, `currentOp` and the log.

use super::cache_key::hashes;
use super::{Access, Plan, Question};
use crate::catalog::Collection;
use crate::operation::Operation;
use crate::plan_cache::shape::Rest;
use crate::report::PlanSummary;
use query::filter::Filter;

impl Plan {
    /// Records this plan of a query in an operation. `scan` is the stage that reads an index.
    pub fn note_in(&self, question: &Question<'_>, scan: &'static str, op: &Operation) {
        let Question { collection, filter, .. } = *question;
        let scan = (scan, question.hint.is_some());
        self.note_query(collection, filter, &question.rest(), scan, op);
    }

    /// The same for a query in its parts.
    pub fn note_query(
        &self,
        collection: &Collection,
        filter: &Filter,
        rest: &Rest<'_>,
        (scan, is_hinted): (&'static str, bool),
        op: &Operation,
    ) {
        op.note_plan(|summary| note(&self.access, scan, summary));
        if matches!(self.access, Access::Collection(_)) {
            op.count_collection_scan();
        }
        let sorts = rest.sort.is_some() && !self.sorted;
        if sorts {
            op.count_blocking_sort();
        }
        if op.is_profiled() {
            let mut shape = match (&self.access, scan) {
                (_, "DISTINCT_SCAN") => None,
                _ => Some(hashes(Some(collection), filter, rest, self)),
            };
            // MongoDB caches neither plans by `_id` nor by a hint.
            if let Some(shape) = &mut shape
                && (is_hinted || matches!(self.access, Access::Id(_)))
            {
                shape.key = None;
            }
            op.report(|report| (report.shape, report.sorts) = (shape, sorts));
        }
    }
}

fn note(access: &Access, scan: &'static str, out: &mut PlanSummary) {
    match access {
        Access::Nothing => out.add("EOF", None),
        Access::Id(_) => out.add("IDHACK", None),
        Access::Collection(_) => out.add("COLLSCAN", None),
        Access::Index(candidate) => {
            let stage = if candidate.index.is_clustered() { "CLUSTERED_IXSCAN" } else { scan };
            out.add(stage, Some(candidate.index.summary.clone()));
        }
        Access::Near(plan) => out.add(plan.stage(), Some(plan.index.summary.clone())),
        Access::Walk(walk) => out.add("TREE_WALK", Some(walk.index.summary.clone())),
        Access::Either(either) => {
            for branch in &either.branches {
                out.add("IXSCAN", Some(branch.index.summary.clone()));
            }
        }
    }
}
