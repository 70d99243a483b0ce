//! A find whose filter, sort and projection use only fields of its index is answered from the
//! entries of that index.

use crate::planner::cover;
use crate::planner::logical::access::Draft;
use crate::planner::logical::{Apply, Needs, Rule};

pub(super) static RULE: Rule = Rule {
    name: "covered_find",
    help: "Answers a find from the entries of an index that has all its fields.",
    apply: Apply::Plan(apply),
};

fn apply(draft: &mut Draft<'_, '_>) -> bool {
    let plan = &mut draft.decision.plan;
    let (filter, sort) = (draft.question.filter, draft.question.sort);
    match draft.needs {
        Needs::Projection(projection) => cover::apply(plan, filter, sort, *projection),
        Needs::Keys => cover::apply_keys(plan, filter, sort),
        _ => return false,
    }
    plan.is_covered()
}
