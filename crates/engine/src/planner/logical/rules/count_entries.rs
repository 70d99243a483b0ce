//! A count whose filter is expressed exactly by the bounds of an index counts the entries.

use crate::planner::cover::entries_are_matches;
use crate::planner::logical::access::Draft;
use crate::planner::logical::{Apply, Needs, Rule};

pub(super) static RULE: Rule = Rule {
    name: "count_entries",
    help: "Counts entries of an index instead of documents.",
    apply: Apply::Plan(apply),
};

fn apply(draft: &mut Draft<'_, '_>) -> bool {
    let fires = matches!(draft.needs, Needs::Count)
        && entries_are_matches(&draft.decision.plan, draft.question.filter);
    draft.decision.counts_entries |= fires;
    fires
}
