//! The `$match`, `$sort` and `$limit` at the front of a pipeline, or its `$geoNear`, become a find
//! with a plan.

use crate::planner::logical::{Apply, Front, Rule, Shape, Shapes};

pub(super) static RULE: Rule = Rule {
    name: "find_in_front",
    help: "Makes a find with a plan of the $match, $sort and $limit at the front.",
    apply: Apply::Front(apply),
};

fn apply(stages: &dyn Shapes) -> Front {
    let mut front = Front::default();
    match stages.shape(0) {
        Some(Shape::Near) => return Front { is_near: true, ..front },
        Some(Shape::Match) => front.filters = true,
        _ => {}
    }
    front.sorts = stages.shape(front.len()) == Some(Shape::Sort);
    front.limits = stages.shape(front.len()) == Some(Shape::Limit);
    front
}
