//! A `$group` by a field that takes at most the first document of each group reads one entry of an
//! index per group, if the index has all fields that it reads and the requested order.

use super::distinct_scan::reads_once;
use crate::planner::cover::{Cover, entries_are_matches};
use crate::planner::logical::{Apply, Decision, GroupNeeds, Needs, Rule};
use crate::planner::{self, Access, Plan, Question};
use std::sync::Arc;

pub(super) static RULE: Rule = Rule {
    name: "distinct_group",
    help: "Reads one entry of an index for each group.",
    apply: Apply::Instead(apply),
};

fn apply(question: &Question<'_>, needs: &Needs<'_>) -> Option<Decision> {
    let Needs::Group(GroupNeeds { reads, key_path, is_limited: false, firsts: Some(firsts) }) =
        needs
    else {
        return None;
    };
    let (reads, key) = ((*reads)?, (*key_path)?);
    let filter = question.filter;
    let plain = question.hint.is_none() && filter.collation().is_none();
    if !plain || filter.text().is_some() || filter.near().is_some() {
        return None;
    }
    // The first document of a group is that of the requested order.
    let order = question.sort.filter(|_| *firsts);
    if *firsts && order.is_none_or(|sort| sort.needs_score() || sort.collation.is_some()) {
        return None;
    }
    let mut needed: Vec<String> = reads.iter().map(|read| read.path.clone()).collect();
    needed.extend(order.iter().flat_map(|sort| &sort.fields).map(|f| f.path.text().to_owned()));
    // An entry does not tell which of the documents around a missing field exist.
    if needed.iter().any(|path| path.contains('.')) {
        return None;
    }
    let asked = Question { sort: order, ..*question };
    question.collection.readable_indexes().find_map(|index| {
        // Documents without the field are a group.
        if index.sparse || index.is_multikey() {
            return None;
        }
        let mut candidate = planner::use_of(&asked, index)?;
        let column = reads_once(&candidate, key)?;
        // Of several ranges each has its own first entry of a group.
        let ordered = candidate.sorted && candidate.ranges.len() == 1;
        if !candidate.merge.is_empty() || (*firsts && !ordered) {
            return None;
        }
        let cover = Cover::of(index, None, &needed)?;
        candidate.cover = Some(Arc::new(cover));
        let access = Access::Index(candidate);
        let plan = Plan { implied: access.implied(), access, sorted: true, rejected: Vec::new() };
        let exact = filter.is_empty() || entries_are_matches(&plan, filter);
        exact.then(|| Decision { column: Some(column), ..Decision::new(plan) })
    })
}
