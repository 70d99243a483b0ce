//! A pipeline of an optional `$match` and a counting stage, as drivers send it to count documents,
//! is answered like the command `count`: from the counters of the collection or the entries of an
//! index, where possible.

use crate::planner::logical::{Apply, Rule, Shape, Shapes};

pub(super) static RULE: Rule = Rule {
    name: "count_only",
    help: "Answers a pipeline that only counts as the command count does.",
    apply: Apply::Count(apply),
};

fn apply(stages: &dyn Shapes) -> bool {
    let counts = |at| stages.shape(at) == Some(Shape::Count) && stages.shape(at + 1).is_none();
    counts(0) || (stages.shape(0) == Some(Shape::Match) && counts(1))
}
