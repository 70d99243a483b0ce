//! A covered `$group` whose key follows the order of the index returns each group as soon as its
//! entries end, and keeps only one group in memory.

use crate::planner::logical::access::Draft;
use crate::planner::logical::{Apply, Needs, Rule};

pub(super) static RULE: Rule = Rule {
    name: "ordered_group",
    help: "Gives groups one by one where the index has the entries of each side by side.",
    apply: Apply::Plan(apply),
};

fn apply(draft: &mut Draft<'_, '_>) -> bool {
    let Needs::Group(needs) = draft.needs else { return false };
    let plan = &draft.decision.plan;
    let together = needs.key_path.is_some_and(|path| plan.access.keeps_together(path));
    if !together || needs.is_limited || (draft.question.sort.is_some() && !plan.sorted) {
        return false;
    }
    // The entries are the matches only if nothing is left to test.
    let filter = draft.question.filter;
    let fires = filter.is_empty() || filter.without(plan.implied).is_empty();
    draft.decision.is_grouped |= fires;
    fires
}
