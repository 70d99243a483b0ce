//! The planner: which index answers a query, and how.
//!
//! `bounds` turns predicates into intervals, `candidates` lists what each index could do (`implies`
//! says for which queries a partial one has all, `cover` whether documents are needed at all), this
//! file chooses, `explain` shows the choice. All plans give the same results: the filter always
//! runs on what was found.

pub mod bounds;
pub mod cache;
mod candidates;
pub mod cover;
pub mod explain;
mod explain_text;
mod geo;
mod implies;
pub mod min_max;
pub mod reasons;
pub mod shape;

pub use candidates::{Candidate, KeyRange};
pub use geo::NearPlan;

use crate::catalog::{Collection, Index};
use crate::exec::scan::estimate;
use query::filter::{Filter, Node, Test};
use query::geo::Near;
use query::sort::SortSpec;
use query::text::TextQuery;
use std::sync::Arc;
use store::{Direction, Snapshot};
use value::path::Path;
use value::{Code, Error, RawDoc, Result, Val, keys};

/// How a query gets at documents.
#[derive(Clone)]
pub enum Access {
    /// Nothing can match.
    Nothing,
    /// The one document with this record key.
    Id(Vec<u8>),
    /// All documents, in the order of their keys.
    Collection(Direction),
    /// Documents through an index.
    Index(Candidate),
    /// Documents by their distance from a place.
    Near(Box<NearPlan>),
    /// Documents that any of several accesses finds, each once.
    Either(Vec<Access>),
}

/// A chosen plan.
#[derive(Clone)]
pub struct Plan {
    /// How documents are found.
    pub access: Access,
    /// Whether they come in the order that the query sorts by.
    pub sorted: bool,
    /// Whether the access finds exactly what the filter asks for, so that it need not run.
    pub exact: bool,
    /// The plans that were not chosen.
    pub rejected: Vec<Access>,
}

/// What is asked of the planner.
pub struct Question<'q> {
    /// The collection.
    pub collection: &'q Collection,
    /// Which documents.
    pub filter: &'q Filter,
    /// In which order, if any.
    pub sort: Option<&'q SortSpec>,
    /// What the client insists on: an index name, a key pattern or `{$natural: 1}`.
    pub hint: Option<Val<'q>>,
    /// Where estimates are taken.
    pub snapshot: &'q Snapshot,
}

/// Chooses a plan.
///
/// # Errors
/// BadValue for a hint that names no index.
pub fn plan(question: &Question<'_>) -> Result<Plan> {
    if let Some((path, near)) = question.filter.near() {
        return near_place(question, path, near);
    }
    if let Some(query) = question.filter.text() {
        return text_search(question, query);
    }
    if let Some(hint) = question.hint {
        return hinted(question, hint);
    }
    if matches!(question.filter.root(), Node::Const(false)) {
        return Ok(simple(Access::Nothing, true));
    }
    if let Some(record) = id_equality(question) {
        return Ok(Plan { exact: true, ..simple(Access::Id(record), true) });
    }
    let mut found = candidates::of(question);
    if let Some(best) = choose(question, question.filter.root(), &mut found) {
        let chosen = found.swap_remove(best);
        let sorted = chosen.sorted;
        let rejected = found.into_iter().map(Access::Index).collect();
        return Ok(Plan { access: Access::Index(chosen), sorted, exact: false, rejected });
    }
    if let Some(either) = either(question)? {
        return Ok(simple(either, question.sort.is_none()));
    }
    Ok(collection_scan(question))
}

/// `$near` needs an index, and gives its order.
fn near_place(question: &Question<'_>, path: &Path, near: &Near) -> Result<Plan> {
    let hinted = match question.hint {
        Some(Val::Document(doc)) if doc.is_empty() => None,
        Some(hint) => Some(find_index(question.collection, hint)?.ok_or_else(hint_not_found)?),
        None => None,
    };
    let plan = geo::near(question, path, near, hinted.as_ref())?;
    plan.index.uses.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Ok(simple(Access::Near(Box::new(plan)), question.sort.is_none()))
}

/// `$text` needs the collection's text index; beside it in an `$or`, every branch needs one.
fn text_search(question: &Question<'_>, query: &TextQuery) -> Result<Plan> {
    match question.hint {
        Some(Val::Document(doc)) if doc.is_empty() => {}
        Some(Val::Document(doc)) if doc.find("$natural").is_some() => {
            return Err(Error::bad_value("text expression not allowed with $natural sort order"));
        }
        Some(_) => return Err(Error::bad_value("text and hint not allowed in same query")),
        None => {}
    }
    let Some((index, text)) = crate::index::text::find(question.collection) else {
        return Err(query::text::query::no_index());
    };
    query.bind(&text.spec);
    let no_plan = |why: &str| {
        Error::new(
            Code::NO_QUERY_EXECUTION_PLANS,
            format!("error processing query: planner returned error :: caused by :: {why}"),
        )
    };
    let at_top = match question.filter.root() {
        Node::Text(_) => true,
        Node::And(nodes) => nodes.iter().any(|node| matches!(node, Node::Text(_))),
        _ => false,
    };
    if !at_top {
        return match either(question)? {
            Some(either) => Ok(simple(either, question.sort.is_none())),
            None => Err(no_plan(
                "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR \
                 have to be indexed as well.",
            )),
        };
    }
    let mut found = candidates::of(question);
    found.retain(|candidate| candidate.index.id == index.id);
    match found.pop() {
        Some(mut candidate) => {
            candidate.sorted = question.sort.is_none();
            let sorted = candidate.sorted;
            Ok(simple(Access::Index(candidate), sorted))
        }
        None => Err(no_plan(
            "failed to use text index to satisfy $text query (if text index is compound, are \
             equality predicates given for all prefix fields?)",
        )),
    }
}

/// What an index could do for a query, whether or not that is best.
#[must_use]
pub fn use_of(question: &Question<'_>, index: &Arc<Index>) -> Option<Candidate> {
    let ready = index.state == crate::catalog::IndexState::Ready && !index.hidden;
    if ready { candidates::forced(question, index) } else { None }
}

fn simple(access: Access, sorted: bool) -> Plan {
    Plan { access, sorted, exact: false, rejected: Vec::new() }
}

fn collection_scan(question: &Question<'_>) -> Plan {
    let (direction, sorted) = natural_order(question);
    simple(Access::Collection(direction), sorted)
}

/// Whether the order of the documents' keys is the order asked for.
fn natural_order(question: &Question<'_>) -> (Direction, bool) {
    let Some(sort) = question.sort else { return (Direction::Forward, true) };
    let by_id = question.collection.capped().is_none();
    match sort.fields.as_slice() {
        [only]
            if by_id
                && only.path.text() == "_id"
                && sort.collation == question.collection.collation =>
        {
            (if only.descending { Direction::Reverse } else { Direction::Forward }, true)
        }
        _ => (Direction::Forward, false),
    }
}

/// The record key when the filter is nothing but an equality on `_id`.
fn id_equality(question: &Question<'_>) -> Option<Vec<u8>> {
    if question.collection.capped().is_some() {
        return None;
    }
    let leaf = match question.filter.root() {
        Node::Leaf(leaf) => leaf,
        Node::And(nodes) => match nodes.as_slice() {
            [Node::Leaf(leaf)] => leaf,
            _ => return None,
        },
        _ => return None,
    };
    let collation = question.collection.collation.as_deref();
    if !bounds::fits(&leaf.test, collation) {
        return None;
    }
    let test = match &leaf.test {
        Test::Collated(collated) => &collated.test,
        test => test,
    };
    let Test::Eq(value) = test else { return None };
    let value = value.get();
    // Arrays and null may match in other ways than by equality of the whole.
    let plain = !matches!(value, Val::Array(_) | Val::Null | Val::Undefined | Val::Regex(..));
    (leaf.path.text() == "_id" && plain).then(|| keys::key_with(value, collation))
}

/// The best of several candidates: most exact bounds first, then the fewest entries.
fn choose(question: &Question<'_>, node: &Node, found: &mut [Candidate]) -> Option<usize> {
    match found {
        [] => return None,
        [_] => return Some(0),
        _ => {}
    }
    let unique = |c: &Candidate| c.index.unique && c.equalities == c.index.fields.len();
    if let Some(at) = found.iter().position(|c| unique(c) && c.ranges.len() == 1) {
        return Some(at);
    }
    let (plans, version) = (&question.collection.counters.plans, question.collection.version);
    let shape = shape::of(node, question.sort);
    let look = |candidate: &mut Candidate| {
        let entries = estimate(question.snapshot, question.collection, candidate);
        candidate.estimate = Some(entries);
        entries
    };
    if let Some((at, before)) = plans.find(shape, version, found)
        && let Some(kept) = found.get_mut(at)
        && cache::PlanCache::holds(before, look(kept))
    {
        return Some(at);
    }
    for candidate in found.iter_mut() {
        look(candidate);
    }
    let cost = |c: &Candidate| {
        let entries = c.estimate.unwrap_or(u64::MAX) as f64;
        // A blocking sort reads everything and then orders it.
        let sorting = if c.sorted { 1.0 } else { 1.2 + entries.max(1.0).log2() * 0.05 };
        entries * sorting
    };
    let better = |a: &Candidate, b: &Candidate| {
        (cost(a).total_cmp(&cost(b)))
            .then(b.equalities.cmp(&a.equalities))
            .then(b.sorted.cmp(&a.sorted))
            .then(b.bounded.cmp(&a.bounded))
            .then(a.index.fields.len().cmp(&b.index.fields.len()))
            .then(a.index.id.cmp(&b.index.id))
    };
    let best = (0..found.len()).min_by(|&a, &b| match (found.get(a), found.get(b)) {
        (Some(a), Some(b)) => better(a, b),
        _ => std::cmp::Ordering::Equal,
    });
    if let Some(chosen) = best.and_then(|best| found.get(best)) {
        plans.keep(shape, version, chosen);
    }
    best
}

/// `$or` whose every branch an index can answer.
fn either(question: &Question<'_>) -> Result<Option<Access>> {
    let branches = match question.filter.root() {
        Node::Or(branches) => branches,
        Node::And(nodes) => {
            let or = nodes.iter().find_map(|node| match node {
                Node::Or(branches) => Some(branches),
                _ => None,
            });
            match or {
                Some(branches) => branches,
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let mut accesses = Vec::new();
    for branch in branches {
        let mut found = candidates::of_node(question, branch);
        let Some(best) = choose(question, branch, &mut found) else { return Ok(None) };
        accesses.push(Access::Index(found.swap_remove(best)));
    }
    Ok(Some(Access::Either(accesses)))
}

fn hinted(question: &Question<'_>, hint: Val<'_>) -> Result<Plan> {
    if let Val::Document(doc) = hint {
        if let Some(direction) = doc.get("$natural") {
            let reverse = direction.as_f64().is_some_and(|n| n < 0.0);
            let direction = if reverse { Direction::Reverse } else { Direction::Forward };
            let (natural, sorted) = natural_order(question);
            let sorted = sorted && (natural == direction || question.sort.is_none());
            return Ok(simple(Access::Collection(direction), sorted));
        }
        if doc.is_empty() {
            return plan(&Question { hint: None, ..*question });
        }
    }
    let index = find_index(question.collection, hint)?.ok_or_else(hint_not_found)?;
    let candidate = candidates::forced(question, &index).ok_or_else(|| {
        Error::new(
            Code::NO_QUERY_EXECUTION_PLANS,
            "error processing query: planner returned error :: caused by :: No query solutions",
        )
    })?;
    let sorted = candidate.sorted;
    Ok(simple(Access::Index(candidate), sorted))
}

fn hint_not_found() -> Error {
    Error::new(
        Code::BAD_VALUE,
        "error processing query: planner returned error :: caused by :: hint provided does not \
         correspond to an existing index",
    )
}

/// The index that a hint names.
fn find_index(collection: &Collection, hint: Val<'_>) -> Result<Option<Arc<Index>>> {
    let same =
        |key: RawDoc<'_>, index: &Index| value::compare::documents(key, index.key.as_doc()).is_eq();
    let found = match hint {
        Val::String(name) => collection.index(name),
        Val::Document(key) => collection.indexes.iter().find(|index| same(key, index)),
        _ => {
            return Err(Error::new(Code::FAILED_TO_PARSE, "Hint must be a string or an object"));
        }
    };
    let usable = |i: &&Arc<Index>| i.state == crate::catalog::IndexState::Ready && !i.hidden;
    Ok(found.filter(usable).cloned())
}
