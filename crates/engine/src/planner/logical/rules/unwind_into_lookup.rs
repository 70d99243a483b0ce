//! `$lookup`, `$unwind` of its result: the `$lookup` returns joined documents one by one, without
//! building an array.

use crate::planner::logical::{Apply, Rule, Shape};

pub(super) static RULE: Rule = Rule {
    name: "unwind_into_lookup",
    help: "Lets $lookup do the $unwind of its result.",
    apply: Apply::Absorb(apply),
};

fn apply(stage: &Shape<'_>, next: &Shape<'_>) -> bool {
    match (stage, next) {
        (Shape::Lookup { field, unwinds: false }, Shape::Unwind(path)) => field == path,
        _ => false,
    }
}
