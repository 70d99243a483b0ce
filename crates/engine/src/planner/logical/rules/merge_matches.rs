//! `$match`, `$match` becomes one `$match`, so that the planner sees all conditions at once.

use crate::planner::logical::pipeline::Pipeline;
use crate::planner::logical::stage::Stage;
use crate::planner::logical::{Apply, Rule};
use value::{DocBuf, RawDoc};

pub(super) static RULE: Rule = Rule {
    name: "merge_matches",
    help: "Makes one $match of two that follow each other.",
    apply: Apply::Written(apply),
};

fn apply(pipeline: &mut Pipeline<'_>, at: usize) -> bool {
    let Some((before, stage)) = pipeline.pair(at) else { return false };
    let (Some(first), Some(second)) = (before.movable_filter(), stage.movable_filter()) else {
        return false;
    };
    let both = merged(first, before.merged_filters(), second);
    pipeline.stages.remove(at);
    pipeline.replace(at - 1, both);
    true
}

/// A `$match` of both filters. `list` holds the conditions of the first one if it was merged
/// before: the new filter is added to it, so that filters do not nest.
fn merged<'p>(first: RawDoc<'_>, list: Option<RawDoc<'_>>, second: RawDoc<'_>) -> Stage<'p> {
    Stage::new_merged_match(DocBuf::build(|out| {
        out.doc("$match", |out| {
            out.array("$and", |out| {
                match list {
                    Some(parts) => parts.iter().for_each(|(_, part)| out.push_raw(part)),
                    None => out.push_doc_bytes(first.bytes()),
                }
                out.push_doc_bytes(second.bytes());
            });
        });
    }))
}
