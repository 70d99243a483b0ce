//! The planner: chooses how a query is executed.
//!
//! `bounds` turns predicates into intervals. `candidates` lists the uses of each index; `implies`
//! checks whether a partial index has all matches, `cover` whether documents must be fetched.
//! `choose` compares them by estimated cost (`sample`). `walk` traverses trees that are not stored,
//! `logical` rewrites pipelines by rules before they are compiled, `explain` shows the choice. All
//! plans return the same results: conditions that bounds do not express exactly are tested on the
//! documents found.
//!
//! Layer: queries.

pub mod bounds;
pub mod cache_key;
mod candidates;
mod choose;
pub mod cover;
mod edge;
pub mod explain;
pub mod explain_query;
mod explain_text;
mod facts;
mod geo;
mod implies;
pub mod key_check;
pub mod logical;
pub mod min_max;
mod noted;
pub mod probes;
pub mod reasons;
pub mod request;
pub mod restrictions;
pub mod run;
pub mod sample;
mod unused;
pub mod walk;
mod wildcard;

pub use candidates::{Candidate, KeyRange};
pub use geo::NearPlan;

use crate::catalog::{Collection, Index};
use query::filter::{Conditions, Filter, Node, Test};
use query::geo::Near;
use query::sort::SortSpec;
use query::text::TextQuery;
use restrictions::Restrictions;
use std::sync::Arc;
use store::{Direction, Snapshot};
use value::path::Path;
use value::{Code, Error, RawDoc, Result, Val, keys};

/// How a query reaches documents.
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
    /// Documents in order of distance from a point.
    Near(Box<NearPlan>),
    /// The union of several accesses, without duplicates.
    Either(Either),
    /// The nodes of a tree below others.
    Walk(Box<walk::Walk>),
}

/// Several accesses for the branches of an `$or`.
#[derive(Clone)]
pub struct Either {
    /// The position of the `$or` among the conditions of the filter.
    pub at: usize,
    /// One access per branch, in the order of `Filter::branches`.
    pub branches: Vec<Candidate>,
    /// The `$or`, if the accesses find exactly its matches.
    pub implied: Conditions,
    /// The requested order, if each access has it: then they are merged.
    pub merge: Option<Arc<SortSpec>>,
}

/// A chosen plan.
#[derive(Clone)]
pub struct Plan {
    /// How documents are found.
    pub access: Access,
    /// Whether they come in the requested order.
    pub sorted: bool,
    /// The conditions of the filter that hold for everything the access finds, and need not be
    /// tested.
    pub implied: Conditions,
    /// The plans that were not chosen.
    pub rejected: Vec<Access>,
}

/// A query to plan.
pub struct Question<'q> {
    /// The collection.
    pub collection: &'q Collection,
    /// The filter.
    pub filter: &'q Filter,
    /// The requested order, if any.
    pub sort: Option<&'q SortSpec>,
    /// The hint: an index name, a key pattern or `{$natural: 1}`.
    pub hint: Option<Val<'q>>,
    /// The snapshot for estimates.
    pub snapshot: &'q Snapshot,
    /// The projection as it was written, if the query has one.
    pub projection: Option<RawDoc<'q>>,
    /// The filter as it was written, where it is known.
    pub written: Option<RawDoc<'q>>,
}

/// Chooses a plan for a query that needs its documents.
///
/// # Errors
/// BadValue for a hint that names no index.
fn plan(question: &Question<'_>) -> Result<Plan> {
    plan_for_entries(question).map(|plan| settle(question, plan))
}

/// Replaces a plan that reads most of the collection through an index by a collection scan, which
/// is cheaper when documents are needed.
#[must_use]
pub fn settle(question: &Question<'_>, mut plan: Plan) -> Plan {
    let Access::Index(candidate) = &mut plan.access else { return plan };
    if question.hint.is_some()
        || question.filter.text().is_some()
        || Restrictions::current().no_scans
        || !choose::is_worse_than_all(question, candidate)
    {
        return plan;
    }
    let mut rejected = vec![plan.access];
    rejected.append(&mut plan.rejected);
    Plan { rejected, ..collection_scan(question) }
}

/// Chooses a plan for a query that index entries alone may answer.
///
/// # Errors
/// BadValue for a hint that names no index.
fn plan_for_entries(question: &Question<'_>) -> Result<Plan> {
    if let Some((path, near)) = question.filter.near() {
        return plan_near(question, path, near);
    }
    if let Some(query) = question.filter.text() {
        return text_search(question, query);
    }
    let filters = &question.collection.counters.plans;
    let filtered = filters.has_filters() && filters.has_filter(question.shape());
    if let Some(hint) = question.hint.filter(|_| !filtered) {
        return hinted(question, hint);
    }
    if matches!(question.filter.root(), Node::Const(false)) {
        return Ok(simple(Access::Nothing, true));
    }
    if let Some(record) = id_equality(question) {
        return Ok(simple(Access::Id(record), true));
    }
    let mut found = candidates::of(question);
    let either = either(question)?;
    if let Some(best) = choose::best(question, question.filter.root(), &mut found) {
        let mut chosen = found.swap_remove(best);
        let mut rejected: Vec<Access> = found.into_iter().map(Access::Index).collect();
        if let Some(either) = either {
            if choose::is_better_apart(question, &either, &mut chosen) {
                rejected.insert(0, Access::Index(chosen));
                let sorted = question.sort.is_none() || either.merge.is_some();
                return Ok(Plan { rejected, ..simple(Access::Either(either), sorted) });
            }
            rejected.push(Access::Either(either));
        }
        let sorted = chosen.sorted;
        return Ok(Plan { rejected, ..simple(Access::Index(chosen), sorted) });
    }
    if let Some(either) = either {
        let sorted = question.sort.is_none() || either.merge.is_some();
        return Ok(simple(Access::Either(either), sorted));
    }
    if let Some(walk) = walk::of(question) {
        return Ok(simple(Access::Walk(Box::new(walk)), question.sort.is_none()));
    }
    if let Some(access) = choose::skipping(question) {
        let sorted = matches!(&access, Access::Index(candidate) if candidate.sorted);
        return Ok(simple(access, sorted));
    }
    Ok(collection_scan(question))
}

/// The next best plan, and the number of entries that may be read before switching to it. `None`
/// for plans that were not compared with others.
#[must_use]
pub fn fallback(question: &Question<'_>, plan: &Plan) -> Option<(u64, Plan)> {
    const FACTOR: u64 = 10;
    /// Reading fewer entries is faster than starting another plan.
    const FEW: u64 = 1000;
    let Access::Index(chosen) = &plan.access else { return None };
    let most = chosen.estimate?.max(FEW).saturating_mul(FACTOR);
    if question.hint.is_some()
        || most >= question.collection.counters.documents()
        || Restrictions::current().no_scans
    {
        return None;
    }
    let estimate = |access: &&Access| match access {
        Access::Index(candidate) => candidate.estimate.unwrap_or(u64::MAX),
        _ => u64::MAX,
    };
    let rival = plan.rejected.iter().filter(|access| matches!(access, Access::Index(_)));
    let other = match rival.min_by_key(estimate) {
        Some(access @ Access::Index(candidate)) => simple(access.clone(), candidate.sorted),
        _ => collection_scan(question),
    };
    Some((most, other))
}

/// `$near` requires an index, and determines the order.
fn plan_near(question: &Question<'_>, path: &Path, near: &Near) -> Result<Plan> {
    let hinted = match question.hint {
        Some(Val::Document(doc)) if doc.is_empty() => None,
        Some(hint) => Some(find_index(question.collection, hint)?.ok_or_else(hint_not_found)?),
        None => None,
    };
    let plan = geo::near(question, path, near, hinted.as_ref())?;
    plan.index.uses.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Ok(simple(Access::Near(Box::new(plan)), question.sort.is_none()))
}

/// `$text` requires the collection's text index; in an `$or`, every other branch requires an index.
fn text_search(question: &Question<'_>, query: &TextQuery) -> Result<Plan> {
    match question.hint {
        Some(Val::Document(doc)) if doc.is_empty() => {}
        Some(Val::Document(doc)) if doc.find("$natural").is_some() => {
            return Err(Error::bad_value("text expression not allowed with $natural sort order"));
        }
        Some(_) => return Err(Error::bad_value("text and hint not allowed in same query")),
        None => {}
    }
    let Some((index, text)) = question.collection.text_index() else {
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
            Some(either) => Ok(simple(Access::Either(either), question.sort.is_none())),
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

/// The use of one index for a query, whether or not it is the best.
#[must_use]
pub fn use_of(question: &Question<'_>, index: &Arc<Index>) -> Option<Candidate> {
    let ready = index.state == crate::catalog::IndexState::Ready && !index.hidden;
    if ready && Restrictions::current().allow(index) {
        candidates::forced(question, index)
    } else {
        None
    }
}

fn simple(access: Access, sorted: bool) -> Plan {
    Plan { implied: access.implied(), access, sorted, rejected: Vec::new() }
}

impl Plan {
    /// Whether the plan is covered.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        matches!(&self.access, Access::Index(candidate) if candidate.cover.is_some())
    }
}

impl Access {
    /// The conditions of the filter that hold for everything the access finds.
    #[must_use]
    pub fn implied(&self) -> Conditions {
        match self {
            // The only condition is the equality with `_id`.
            Access::Id(_) => {
                let mut only = Conditions::default();
                only.add(0);
                only
            }
            Access::Index(candidate) => candidate.all_implied(),
            Access::Near(plan) => plan.implied,
            Access::Nothing | Access::Collection(_) | Access::Walk(_) => Conditions::default(),
            Access::Either(either) => either.implied,
        }
    }
}

fn collection_scan(question: &Question<'_>) -> Plan {
    let (direction, sorted) = natural_order(question);
    simple(Access::Collection(direction), sorted)
}

/// The direction of a collection scan, and whether its order is the requested one.
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

/// The record key, if the filter is only an equality on `_id`.
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
    // Arrays and null may match values that are not equal to them.
    let plain = !matches!(value, Val::Array(_) | Val::Null | Val::Undefined | Val::Regex(..));
    (leaf.path.text() == "_id" && plain).then(|| keys::key_with(value, collation))
}

/// The plan of an `$or` in which an index answers every branch.
fn either(question: &Question<'_>) -> Result<Option<Either>> {
    either_by(question, None)
}

/// The same by one index, if it is given.
fn either_by(question: &Question<'_>, index: Option<&Index>) -> Result<Option<Either>> {
    let mut ors = question.filter.root().conditions().iter().enumerate();
    let Some((at, _)) = ors.find(|(_, node)| matches!(node, Node::Or(_))) else {
        return Ok(None);
    };
    let mut branches = Vec::new();
    // The same in the requested order, while every branch has an index with it.
    let mut ordered = can_merge(question).then(Vec::new);
    for node in question.filter.branches(at) {
        let mut found = candidates::of_node(question, node);
        found.retain(|candidate| index.is_none_or(|index| candidate.index.id == index.id));
        if let Some(known) = &mut ordered {
            let mut sorted: Vec<_> = found.iter().filter(|c| c.sorted).cloned().collect();
            match choose::best(question, node, &mut sorted) {
                Some(best) => known.push(sorted.swap_remove(best)),
                None => ordered = None,
            }
        }
        let Some(best) = choose::best(question, node, &mut found) else { return Ok(None) };
        branches.push(found.swap_remove(best));
    }
    let ordered = ordered.filter(|ordered| choose::is_better_merged(question, ordered, &branches));
    let merge = ordered.is_some().then(|| question.sort.cloned().map(Arc::new)).flatten();
    let branches = ordered.unwrap_or(branches);
    let mut nodes = branches.iter().zip(question.filter.branches(at));
    let exact = nodes.all(|(branch, node)| branch.implied.has_all(node.conditions().len()));
    let mut implied = Conditions::default();
    if exact {
        implied.add(at);
    }
    Ok(Some(Either { at, branches, implied, merge }))
}

/// Whether branches of an `$or` may be merged in the requested order. Documents that are seen
/// otherwise than they are stored may have other values than the indexes.
fn can_merge(question: &Question<'_>) -> bool {
    let plain = |sort: &SortSpec| !sort.needs_score() && !sort.needs_distance();
    question.sort.is_some_and(plain)
        && question.filter.text().is_none()
        && question.collection.form.is_none()
        && question.collection.pointers.is_none()
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
            return plan_for_entries(&Question { hint: None, ..*question });
        }
    }
    let index = find_index(question.collection, hint)?.ok_or_else(hint_not_found)?;
    let Some(candidate) = candidates::forced(question, &index) else {
        let either = either_by(question, Some(&index))?.ok_or_else(|| {
            Error::new(
                Code::NO_QUERY_EXECUTION_PLANS,
                "error processing query: planner returned error :: caused by :: No query solutions",
            )
        })?;
        let sorted = question.sort.is_none() || either.merge.is_some();
        return Ok(simple(Access::Either(either), sorted));
    };
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
    let restrictions = Restrictions::current();
    let usable = |i: &&Arc<Index>| {
        i.state == crate::catalog::IndexState::Ready && !i.hidden && restrictions.allow(i)
    };
    let same =
        |key: RawDoc<'_>, index: &Index| value::compare::documents(key, index.key.as_doc()).is_eq();
    let found = match hint {
        Val::String(name) => collection.index(name),
        Val::Document(key) => {
            let mut named =
                collection.indexes.iter().filter(|index| usable(index) && same(key, index));
            let first = named.next();
            if let (Some(one), Some(other)) = (first, named.next()) {
                return Err(Error::new(
                    Code::INDEX_NOT_FOUND,
                    format!(
                        "the hint matches several indexes: '{}' and '{}'; name the index instead",
                        one.name, other.name
                    ),
                ));
            }
            first
        }
        _ => {
            return Err(Error::new(Code::FAILED_TO_PARSE, "Hint must be a string or an object"));
        }
    };
    let Some(found) = found.filter(usable) else { return Ok(None) };
    if !collection.readable_indexes().any(|index| index.id == found.id) {
        return Err(Error::bad_value(format!(
            "the hinted index '{}' has fields that this client sees in another form",
            found.name
        )));
    }
    Ok(Some(found.clone()))
}
