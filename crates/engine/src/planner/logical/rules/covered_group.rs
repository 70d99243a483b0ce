//! A `$group` that reads only fields of an index takes their values from its entries.

use crate::planner::cover;
use crate::planner::logical::access::Draft;
use crate::planner::logical::{Apply, Needs, Rule};

pub(super) static RULE: Rule = Rule {
    name: "covered_group",
    help: "Feeds a $group from the entries of an index that has all its fields.",
    apply: Apply::Plan(apply),
};

fn apply(draft: &mut Draft<'_, '_>) -> bool {
    let Needs::Group(needs) = draft.needs else { return false };
    let Some(reads) = needs.reads else { return false };
    let mut needed: Vec<String> = reads.iter().map(|read| read.path.clone()).collect();
    if let Some(sort) = draft.question.sort {
        if sort.needs_score() {
            return false;
        }
        needed.extend(sort.fields.iter().map(|field| field.path.text().to_owned()));
    }
    let plan = &mut draft.decision.plan;
    cover::apply_needed(plan, draft.question.filter, needed);
    plan.is_covered()
}
