//! `$sort`, `$sort`: the first sort is removed, because only the last order counts.

use crate::planner::logical::pipeline::Pipeline;
use crate::planner::logical::{Apply, Rule};

pub(super) static RULE: Rule = Rule {
    name: "drop_overridden_sort",
    help: "Drops a sort that another sort follows at once.",
    apply: Apply::Written(apply),
};

fn apply(pipeline: &mut Pipeline<'_>, at: usize) -> bool {
    let Some((first, second)) = pipeline.pair(at) else { return false };
    let fires = first.is_plain_sort() && second.is_plain_sort();
    if fires {
        pipeline.stages.remove(at - 1);
    }
    fires
}
