//! `$project`, `$limit` becomes `$limit`, `$project`: fields of documents beyond the limit are not
//! computed.

use crate::planner::logical::pipeline::Pipeline;
use crate::planner::logical::{Apply, Rule};

pub(super) static RULE: Rule = Rule {
    name: "limit_before_projection",
    help: "Moves $skip and $limit in front of stages that give one document for each.",
    apply: Apply::Written(apply),
};

fn apply(pipeline: &mut Pipeline<'_>, at: usize) -> bool {
    let Some((before, stage)) = pipeline.pair(at) else { return false };
    let fires = stage.is_skip_or_limit() && before.kind.is_one_to_one();
    fires && pipeline.swap_with_previous(at)
}
