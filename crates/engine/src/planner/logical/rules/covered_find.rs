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
    let projection = match draft.needs {
        Needs::Projection(projection) => *projection,
        _ => return false,
    };
    let plan = &mut draft.decision.plan;
    cover::apply(plan, draft.question.filter, draft.question.sort, projection);
    plan.is_covered()
}
