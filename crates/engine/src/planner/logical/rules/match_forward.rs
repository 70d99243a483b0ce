//! `$match` moves before a stage that does not change the fields it reads, so that fewer documents
//! are processed and the planner sees the filter.

use crate::planner::logical::pipeline::Pipeline;
use crate::planner::logical::stage::{Kind, Stage};
use crate::planner::logical::{Apply, Rule, fields};
use value::RawDoc;

pub(super) static RULE: Rule = Rule {
    name: "match_forward",
    help: "Moves $match in front of stages that do not change what it reads.",
    apply: Apply::Written(apply),
};

fn apply(pipeline: &mut Pipeline<'_>, at: usize) -> bool {
    let Some((before, stage)) = pipeline.pair(at) else { return false };
    let fires = stage.movable_filter().is_some_and(|filter| may_pass(before, filter));
    fires && pipeline.swap_with_previous(at)
}

/// Whether a filter has the same result before a stage as after it.
fn may_pass(stage: &Stage<'_>, filter: RawDoc<'_>) -> bool {
    if stage.kind == Kind::Sort {
        return stage.spec().as_doc().is_some_and(|order| !order.is_empty());
    }
    let mut read = Vec::new();
    fields::read_by(filter, &mut read) && fields::are_kept(stage, &read)
}
