//! The uses of a wildcard index for a query: an equality or range on any path that it contains, or
//! the existence of a path.

use super::Question;
use super::bounds::{Interval, Tightness};
use super::candidates::{Candidate, Column, ColumnBounds, assemble, bind};
use super::facts::Fact;
use super::probes::Probes;
use crate::catalog::{Index, IndexKind};
use crate::index_keys::wildcard::Wildcard;
use query::filter::{Node, Test};
use query::sort::SortSpec;
use std::sync::Arc;
use store::Direction;
use value::{RawDoc, Type, Val};

/// One use per path that the wildcard covers and the query bounds, and one for the other fields of
/// a compound index.
pub(super) fn uses(
    question: &Question<'_>,
    whole: bool,
    index: &Arc<Index>,
    wildcard: &Wildcard,
    facts: &[Fact<'_>],
) -> Vec<Candidate> {
    let mut paths: Vec<Option<&str>> = Vec::new();
    let usable = |fact: &Fact<'_>| {
        fact.fits(index, wildcard.at)
            && wildcard.covers(&fact.path)
            && fact.bounds.intervals.iter().all(is_stored)
    };
    for fact in facts {
        if usable(fact) && !paths.contains(&Some(&fact.path)) {
            paths.push(Some(&fact.path));
        }
    }
    if paths.is_empty() && wildcard.at > 0 {
        paths.push(None);
    }
    let make = |path: &Option<&str>| {
        let name = path.unwrap_or("$_value");
        let fields: Vec<&str> = index
            .fields
            .iter()
            .enumerate()
            .map(|(at, field)| if at == wildcard.at { name } else { field.path.text() })
            .collect();
        let mut columns = Vec::new();
        for (at, bound) in bind(index, &fields, facts).into_iter().enumerate() {
            let descending = index.fields.get(at).is_some_and(|field| field.descending);
            let name = fields.get(at).copied().unwrap_or("").to_owned();
            let ColumnBounds { mut intervals, mut used } = bound;
            if at == wildcard.at {
                let point = path.map(|path| vec![Interval::point(Val::String(path))]);
                columns.push(Column {
                    name: "$_path".to_owned(),
                    descending: false,
                    intervals: point,
                    used: Vec::new(),
                });
                intervals = intervals.filter(|known| path.is_some() && known.iter().all(is_stored));
                if intervals.is_none() {
                    used.clear();
                }
            }
            columns.push(Column { name, descending, intervals, used });
        }
        let mut candidate = assemble(question, whole, index, columns);
        if let Some(path) = path.filter(|_| wildcard.at == 0 && question.collection.keeps(index)) {
            let others = facts.iter().filter(|fact| fact.path != *path && usable(fact));
            let probes = Probes::of(index, others, |fact| {
                let exact = matches!(fact.tightness(index, wildcard.at), Tightness::Exact);
                if let Some(condition) = fact.condition.filter(|_| exact) {
                    candidate.implied.add(condition);
                }
            });
            candidate.probes = probes.map(Arc::new);
        }
        (candidate.direction, candidate.sorted) = match (question.sort, path) {
            (None, _) => (Direction::Forward, true),
            (Some(sort), Some(path)) if !index.is_multikey() && index.fields.len() == 1 => {
                path_order(sort, index, path)
            }
            (Some(sort), Some(path)) if !index.is_multikey() && wildcard.at == 0 => {
                suffix_order(sort, index, path, &candidate)
            }
            // A document appears once for each of its paths, in no useful order.
            _ => (Direction::Forward, false),
        };
        candidate
    };
    let existing =
        facts.iter().filter_map(|fact| existence(question, whole, index, wildcard, fact));
    paths.iter().map(make).chain(existing).collect()
}

/// The path whose entries are read, if the index has only a wildcard.
pub(super) fn only_path<'c>(index: &Index, columns: &'c [Column]) -> Option<&'c str> {
    let [paths, values] = columns else { return None };
    let one = matches!(paths.intervals.as_deref(), Some([only]) if only.point);
    let alone = matches!(index.kind, IndexKind::Wildcard(_)) && index.fields.len() == 1;
    (alone && one).then_some(&*values.name)
}

/// The use of a hinted index for a predicate on types that bounds do not express: all entries of the
/// path. A missing field has no type.
pub(super) fn of_types(question: &Question<'_>, index: &Arc<Index>) -> Option<Candidate> {
    let IndexKind::Wildcard(wildcard) = &index.kind else { return None };
    let typed = question.filter.root().conditions().iter().find_map(|node| match node {
        Node::Leaf(leaf) if matches!(leaf.test, Test::Type(_)) => Some(leaf.path.text()),
        _ => None,
    });
    let path = typed.filter(|path| index.fields.len() == 1 && wildcard.covers_below(path))?;
    Some(below(question, true, index, path, None))
}

/// The entries of a path and of all paths below it, for a predicate on existence: every document
/// that has the path has such an entry.
fn existence(
    question: &Question<'_>,
    whole: bool,
    index: &Arc<Index>,
    wildcard: &Wildcard,
    fact: &Fact<'_>,
) -> Option<Candidate> {
    if !fact.is_existence() || index.fields.len() > 1 || !wildcard.covers_below(&fact.path) {
        return None;
    }
    let implied = fact.condition.map(|condition| (condition, Tightness::Exact));
    Some(below(question, whole, index, &fact.path, implied))
}

/// The entries of a path and of all paths below it, which make `implied` certain.
fn below(
    question: &Question<'_>,
    whole: bool,
    index: &Arc<Index>,
    path: &str,
    implied: Option<(usize, Tightness)>,
) -> Candidate {
    let (from, to) = (format!("{path}."), format!("{path}/"));
    let below = Interval::between(Val::String(&from), Val::String(&to));
    let paths = Column {
        name: "$_path".to_owned(),
        descending: false,
        intervals: Some(vec![Interval::point(Val::String(path)), below]),
        used: implied.into_iter().collect(),
    };
    let values = Column {
        name: path.to_owned(),
        descending: index.fields.first().is_some_and(|field| field.descending),
        intervals: None,
        used: Vec::new(),
    };
    let mut candidate = assemble(question, whole, index, vec![paths, values]);
    (candidate.direction, candidate.sorted) = (Direction::Forward, question.sort.is_none());
    candidate
}

/// Whether the entries of one path have the order of a sort. They belong only to documents that
/// have the path.
fn path_order(sort: &SortSpec, index: &Index, path: &str) -> (Direction, bool) {
    let [only] = sort.fields.as_slice() else { return (Direction::Forward, false) };
    let descending = index.fields.first().is_some_and(|field| field.descending);
    let sorted = only.path.text() == path && sort.collation == index.collation;
    match sorted && only.descending != descending {
        true => (Direction::Reverse, true),
        false => (Direction::Forward, sorted),
    }
}

/// Whether the entries of one path have the order of a sort, in an index that has other fields
/// behind the values.
fn suffix_order(
    sort: &SortSpec,
    index: &Index,
    path: &str,
    candidate: &Candidate,
) -> (Direction, bool) {
    let unordered = (Direction::Forward, false);
    let points = |at: usize| match candidate.columns.get(at) {
        Some((_, intervals)) => matches!(intervals.as_slice(), [only] if only.point),
        None => false,
    };
    if sort.collation != index.collation || candidate.ranges.len() != 1 {
        return unordered;
    }
    let mut reverse = None;
    let mut left = index.fields.iter().enumerate().peekable();
    for wanted in &sort.fields {
        let name = |at: usize| {
            index.fields.get(at).map_or(path, |field| match at {
                0 => path,
                _ => field.path.text(),
            })
        };
        let is_wanted = |at: usize| name(at) == wanted.path.text();
        // A field with a single value does not affect the order. The first column is the path.
        if (0..index.fields.len()).any(|at| is_wanted(at) && points(at + 1)) {
            continue;
        }
        while left.next_if(|(at, _)| points(at + 1)).is_some() {}
        let Some((_, field)) = left.next_if(|(at, _)| is_wanted(*at)) else { return unordered };
        let opposite = field.descending != wanted.descending;
        if reverse.is_some_and(|known| known != opposite) {
            return unordered;
        }
        reverse = Some(opposite);
    }
    let direction = if reverse == Some(true) { Direction::Reverse } else { Direction::Forward };
    (direction, true)
}

/// Whether an interval has only values that a wildcard index contains as they are: scalars, and
/// empty documents and arrays. An empty array that is a field's value has an entry of undefined.
fn is_stored(interval: &Interval) -> bool {
    let empty = |value: Val<'_>| interval.from == value::keys::key(value);
    let is_empty = interval.point
        && (empty(Val::Undefined)
            || empty(Val::Document(RawDoc::empty()))
            || empty(Val::Array(RawDoc::empty())));
    is_empty || is_scalar(interval)
}

/// Whether an interval has neither missing values nor documents or arrays.
fn is_scalar(interval: &Interval) -> bool {
    const DOCUMENTS: &[u8] = &[70];
    const BEHIND_ARRAYS: &[u8] = &[81];
    let (from, to) = (interval.from.as_slice(), interval.to.as_slice());
    let apart = to <= DOCUMENTS || from >= BEHIND_ARRAYS;
    apart && from.first().is_some_and(|rank| *rank > Type::Null.rank() && *rank < 240)
}
