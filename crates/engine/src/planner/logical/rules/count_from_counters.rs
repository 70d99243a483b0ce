//! A count of all documents in the newest state is the number that the collection keeps.

use crate::planner::logical::access::CountQuery;
use crate::planner::logical::{Apply, Rule};

pub(super) static RULE: Rule = Rule {
    name: "count_from_counters",
    help: "Answers a count of all documents from the counters of the collection.",
    apply: Apply::Counters(apply),
};

fn apply(count: &CountQuery<'_>) -> bool {
    // While a new version of a pattern is written, the documents that belong to it may differ from
    // the state that is read.
    count.is_of_all && count.reads_newest && !count.collection.is_owned()
}
