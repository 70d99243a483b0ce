//! `$sort`, `$limit`: the sort keeps no more documents than the limit passes.

use crate::planner::logical::{Apply, Joined, Rule, Shape, Shapes};

pub(super) static RULE: Rule = Rule {
    name: "sort_with_limit",
    help: "Keeps only the documents of a $sort that the $limit behind it passes.",
    apply: Apply::Join(apply),
};

fn apply(stages: &dyn Shapes, at: usize) -> Option<Joined> {
    let sorts = stages.shape(at) == Some(Shape::Sort);
    (sorts && stages.shape(at + 1) == Some(Shape::Limit)).then_some(Joined::SortLimit)
}
