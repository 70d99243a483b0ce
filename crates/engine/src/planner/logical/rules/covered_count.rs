//! A count whose filter reads only fields of its index tests the entries of that index, also where
//! the bounds alone do not decide (null, `$exists`).

use crate::planner::cover;
use crate::planner::logical::access::Draft;
use crate::planner::logical::{Apply, Needs, Rule};

pub(super) static RULE: Rule = Rule {
    name: "covered_count",
    help: "Tests the filter of a count on the entries of an index that has all its fields.",
    apply: Apply::Plan(apply),
};

fn apply(draft: &mut Draft<'_, '_>) -> bool {
    if !matches!(draft.needs, Needs::Count)
        || draft.decision.counts_entries
        || draft.question.filter.is_empty()
    {
        return false;
    }
    let plan = &mut draft.decision.plan;
    cover::apply_needed(plan, draft.question.filter, Vec::new());
    plan.is_covered()
}
