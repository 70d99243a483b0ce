//! Why the indexes of a collection are not used by a plan.

use super::candidates::{facts_of, has_all, sparse_allows, uses};
use super::facts::Fact;
use super::{Access, Candidate, Plan, Question, candidates, choose};
use crate::catalog::{Index, IndexKind, IndexState};
use query::filter::Node;
use std::sync::Arc;
use value::Val;

/// The indexes that a plan does not use, and why.
pub(super) fn of(question: &Question<'_>, plan: &Plan) -> Vec<(String, String)> {
    let asks = !question.filter.is_empty() || question.sort.is_some();
    if !asks || matches!(plan.access, Access::Nothing | Access::Id(_) | Access::Near(_)) {
        return Vec::new();
    }
    let used: Vec<u32> = match &plan.access {
        Access::Index(candidate) => vec![candidate.index.id],
        Access::Either(either) => either.branches.iter().map(|branch| branch.index.id).collect(),
        Access::Walk(walk) => vec![walk.index.id],
        _ => Vec::new(),
    };
    let indexes = question.collection.indexes.iter();
    let unused = indexes.filter(|index| !index.is_clustered() && !used.contains(&index.id));
    unused.map(|index| (index.name.to_string(), why_not(question, plan, index))).collect()
}

/// The first branch of an `$or`, counted from 1, that no index serves.
pub(super) fn unserved_branch(question: &Question<'_>) -> Option<usize> {
    let (at, _) = or_of(question)?;
    let mut branches = question.filter.branches(at).into_iter();
    branches.position(|node| candidates::of_node(question, node).is_empty()).map(|at| at + 1)
}

fn or_of<'q>(question: &Question<'q>) -> Option<(usize, &'q Node)> {
    let conditions = question.filter.root().conditions();
    conditions.iter().enumerate().find(|(_, node)| matches!(node, Node::Or(_)))
}

fn why_not(question: &Question<'_>, plan: &Plan, index: &Arc<Index>) -> String {
    let collection = question.collection;
    if index.state != IndexState::Ready {
        return "it is still being built".to_owned();
    }
    if index.hidden {
        return "it is hidden".to_owned();
    }
    if !collection.readable_indexes().any(|readable| readable.id == index.id) {
        return "this client sees its fields in another form".to_owned();
    }
    match question.hint {
        Some(Val::Document(doc)) if doc.find("$natural").is_some() => {
            return "the query asks for the natural order".to_owned();
        }
        Some(Val::Document(doc)) if doc.is_empty() => {}
        Some(_) => return "the hint names another index".to_owned(),
        None => {}
    }
    let plans = &collection.counters.plans;
    if plans.has_filters() && !plans.filter_allows(question.shape(), index) {
        return "an index filter excludes it".to_owned();
    }
    let node = question.filter.root();
    let facts = facts_of(question, node);
    if !has_all(question, index, node) {
        return "it is partial, and the query does not imply its filter".to_owned();
    }
    if index.sparse && !index.kind.is_special() && !sparse_allows(index, &facts) {
        return "it is sparse, and the query may want documents without its fields".to_owned();
    }
    let found = uses(question, index, node, &facts);
    let serves = |c: &&Candidate| c.bounded > 0 || (c.sorted && question.sort.is_some());
    match found.iter().find(serves) {
        Some(candidate) => by_cost(question, plan, candidate),
        None => unbounded(question, index, &facts),
    }
}

/// Why an index has no bounds.
fn unbounded(question: &Question<'_>, index: &Arc<Index>, facts: &[Fact<'_>]) -> String {
    let first = index.fields.first().map_or("", |field| field.path.text());
    let mentions = facts.iter().any(|fact| fact.path == first);
    let collation = question.filter.collation().map(|collation| &**collation);
    if mentions && index.collation.as_deref() != collation {
        return "its collation differs from that of the query".to_owned();
    }
    match &index.kind {
        IndexKind::Text(_) => return "it only serves $text".to_owned(),
        IndexKind::Geo(_) => return "it only serves conditions on places".to_owned(),
        IndexKind::Wildcard(_) => return "the filter bounds none of its paths".to_owned(),
        IndexKind::Hashed(_) if mentions => {
            return format!("it is hashed, and the filter does not ask for values of '{first}'");
        }
        _ => {}
    }
    if mentions {
        return format!("the condition on its first field '{first}' gives no bounds");
    }
    if let Some((at, _)) = or_of(question) {
        let serves = |node: &Node| {
            candidates::of_node(question, node).iter().any(|c| c.index.id == index.id)
        };
        let served = question.filter.branches(at).into_iter().position(serves);
        if let (Some(served), Some(other)) = (served, unserved_branch(question)) {
            return format!(
                "it serves branch {} of $or, but branch {other} has no usable index",
                served + 1
            );
        }
    }
    format!("the filter does not bound its first field '{first}'")
}

/// The costs of an index that could have been used and of what is used instead.
fn by_cost(question: &Question<'_>, plan: &Plan, candidate: &Candidate) -> String {
    let considered = plan.rejected.iter().find_map(|access| match access {
        Access::Index(known) if known.index.id == candidate.index.id => Some(known),
        _ => None,
    });
    let estimate = |c: &Candidate| {
        c.estimate.unwrap_or_else(|| choose::estimate(question.snapshot, question.collection, c))
    };
    let entries = estimate(considered.unwrap_or(candidate));
    match &plan.access {
        Access::Collection(_) => {
            let documents = question.collection.counters.documents();
            format!(
                "it was rejected by cost: it would read about {entries} entries and fetch their \
                 documents (cost {:.0}), reading all documents costs {documents}",
                choose::fetched(entries)
            )
        }
        Access::Index(chosen) => {
            let cost = |c: &Candidate| {
                let estimated = Candidate { estimate: Some(estimate(c)), ..c.clone() };
                choose::cost(&estimated)
            };
            format!(
                "it was rejected by cost: it would cost {:.0} (about {entries} entries), {} costs \
                 {:.0} (about {} entries)",
                cost(considered.unwrap_or(candidate)),
                chosen.index.name,
                cost(chosen),
                estimate(chosen)
            )
        }
        _ => format!("it was rejected by cost: it would read about {entries} entries"),
    }
}
