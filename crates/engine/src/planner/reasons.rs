//! Explains why a plan was chosen, and suggests a better index.

use super::{Access, Plan, Question, unused};
use crate::catalog::Collection;
use query::filter::{Filter, Node, Test};
use query::sort::SortSpec;
use std::fmt::Write as _;
use value::{DocBuf, Val};

/// Why a plan uses its access. Without a question (there is no collection) nothing is known about
/// indexes.
#[must_use]
pub fn why(
    plan: &Plan,
    filter: &Filter,
    sort: Option<&SortSpec>,
    question: Option<&Question<'_>>,
) -> String {
    let mut text = match &plan.access {
        Access::Nothing => "No document can match, so nothing is read.".to_owned(),
        Access::Id(_) => {
            "The filter asks for one _id, so one document is read by its key.".to_owned()
        }
        Access::Collection(_) if filter.is_empty() => {
            "There is no filter, so all documents are read.".to_owned()
        }
        Access::Collection(_) => {
            let why = question.and_then(|question| scan_reason(plan, question));
            let why = why.unwrap_or_else(|| "No index can be used".to_owned());
            format!("{why}, so all documents are read and filtered.")
        }
        Access::Near(_) => {
            "The geospatial index is read outwards from the place, nearest first.".to_owned()
        }
        Access::Walk(walk) => format!(
            "The pattern {} resolves what the filter asks for, so the nodes that can match are \
             found by walking down index {}.",
            walk.pattern.name, walk.index.name
        ),
        Access::Either(either) => format!(
            "Each of the {} branches of $or is answered by an index; the results are united.",
            either.branches.len()
        ),
        Access::Index(chosen) => {
            let index = &chosen.index;
            let mut text = if chosen.bounded == 0 {
                format!("Index {} is read whole", index.name)
            } else {
                format!(
                    "Index {} is read where the filter bounds {} of its {} fields",
                    index.name,
                    chosen.bounded.min(index.fields.len()),
                    index.fields.len()
                )
            };
            if sort.is_some() && plan.sorted && chosen.merge.is_empty() {
                text.push_str(", because it has the order of the sort");
            } else if sort.is_some() && plan.sorted {
                text.push_str(
                    ", a range for each value side by side, to keep the order of the sort",
                );
            }
            text.push('.');
            if let Some(estimate) = chosen.estimate
                && !plan.rejected.is_empty()
            {
                let _ = write!(text, " It would read about {estimate} entries");
                let others: Vec<String> = plan.rejected.iter().filter_map(other).collect();
                if !others.is_empty() {
                    let _ = write!(text, ", {}", others.join(", "));
                }
                text.push('.');
            }
            text
        }
    };
    if sort.is_some() && !plan.sorted {
        text.push_str(" What is found is then sorted.");
    }
    text
}

/// Why no index is used for a filter, if there are reasons of more than one kind only that.
fn scan_reason(plan: &Plan, question: &Question<'_>) -> Option<String> {
    let natural = |hint: Val<'_>| hint.as_doc().is_some_and(|doc| doc.find("$natural").is_some());
    if question.hint.is_some_and(natural) {
        return Some("The query asks for the natural order".to_owned());
    }
    let considered = plan.rejected.iter().any(|access| matches!(access, Access::Index(_)));
    if considered {
        return Some("Reading everything costs less than by an index".to_owned());
    }
    if let Some(branch) = unused::unserved_branch(question) {
        return Some(format!("Branch {branch} of $or has no usable index"));
    }
    match unused::of(question, plan).as_slice() {
        [] => Some("There is no index besides that of _id".to_owned()),
        [(name, why)] => Some(format!("Index {name} is not used ({why})")),
        _ => Some("None of the indexes can be used (see unusedIndexes)".to_owned()),
    }
}

/// The indexes that a plan does not use, and why.
#[must_use]
pub fn unused_indexes(plan: &Plan, question: &Question<'_>) -> Vec<(String, String)> {
    unused::of(question, plan)
}

fn other(access: &Access) -> Option<String> {
    let Access::Index(candidate) = access else { return None };
    let name = &candidate.index.name;
    Some(match candidate.estimate {
        Some(estimate) => format!("{name} about {estimate}"),
        None => format!("{name} was not looked at"),
    })
}

/// The key of an index that would serve the query better than the plan: equality fields first, then
/// sort fields, then ranges.
#[must_use]
pub fn index_that_would_help(
    plan: &Plan,
    collection: &Collection,
    filter: &Filter,
    sort: Option<&SortSpec>,
) -> Option<DocBuf> {
    let blocking = sort.is_some() && !plan.sorted;
    let whole = match &plan.access {
        Access::Collection(_) => true,
        Access::Index(candidate) => candidate.bounded == 0 && !plan.sorted,
        _ => false,
    };
    if !whole && !blocking {
        return None;
    }
    let mut equal: Vec<&str> = Vec::new();
    let mut ranges: Vec<&str> = Vec::new();
    collect(filter.root(), &mut equal, &mut ranges);
    let mut fields: Vec<(&str, bool)> = Vec::new();
    let mut add = |path, descending| {
        if !fields.iter().any(|(known, _)| *known == path) {
            fields.push((path, descending));
        }
    };
    equal.into_iter().for_each(|path| add(path, false));
    for field in sort.map_or(&[][..], |sort| sort.fields.as_slice()) {
        add(field.path.text(), field.descending);
    }
    ranges.into_iter().for_each(|path| add(path, false));
    // The collection is itself the index of `_id`; and an index can have at most 32 fields.
    if fields.is_empty() || fields.len() > 32 || matches!(fields.as_slice(), [("_id", _)]) {
        return None;
    }
    let exists = collection.indexes.iter().any(|index| {
        index.fields.len() >= fields.len()
            && index.fields.iter().zip(&fields).all(|(a, b)| (a.path.text(), a.descending) == *b)
    });
    (!exists).then(|| {
        DocBuf::build(|out| {
            for (path, descending) in &fields {
                out.i32(path, if *descending { -1 } else { 1 });
            }
        })
    })
}

/// Collects the paths that a filter bounds to single values, and those it bounds to ranges.
fn collect<'f>(node: &'f Node, equal: &mut Vec<&'f str>, ranges: &mut Vec<&'f str>) {
    match node {
        Node::And(nodes) => nodes.iter().for_each(|node| collect(node, equal, ranges)),
        Node::Leaf(leaf) if !leaf.path.text().is_empty() => match &leaf.test {
            Test::Eq(_) => equal.push(leaf.path.text()),
            Test::Lt(_) | Test::Lte(_) | Test::Gt(_) | Test::Gte(_) | Test::In { .. } => {
                ranges.push(leaf.path.text());
            }
            _ => {}
        },
        _ => {}
    }
}
