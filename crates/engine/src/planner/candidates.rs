//! Lists the ways in which each index can serve a query: the bounds from predicates on its leading
//! fields, and whether its order satisfies the sort.

use super::Question;
use super::bounds::{self, Interval, Tightness, after};
use super::cover::Cover;
use super::edge::Columns;
use super::facts::{Fact, collect};
use super::implies::implies;
use super::key_check::{KeyCheck, KeyFilter};
use super::probes::Probes;
use super::restrictions::Restrictions;
use super::wildcard;
use crate::catalog::{Index, IndexKind, IndexState};
use crate::index_keys::hashed;
use crate::index_keys::text::key_term;
use query::filter::{Conditions, Node, Test};
use query::sort::SortSpec;
use std::sync::Arc;
use store::Direction;
use value::Val;

/// A range of whole keys: from the first (inclusive) to the second (exclusive).
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// The first key inside.
    pub from: Vec<u8>,
    /// The first key outside.
    pub to: Vec<u8>,
}

/// A way to use an index.
#[derive(Clone)]
pub struct Candidate {
    /// The index.
    pub index: Arc<Index>,
    /// The ranges to read, ascending and disjoint.
    pub ranges: Vec<KeyRange>,
    /// The direction to read them in.
    pub direction: Direction,
    /// The number of leading fields bounded to single values.
    pub equalities: usize,
    /// The number of bounded fields.
    pub bounded: usize,
    /// Whether documents come in the requested order.
    pub sorted: bool,
    /// The name and the intervals of each column of the key, for explain.
    pub columns: Columns,
    /// Bounds on columns that the ranges do not express; entries outside are skipped.
    pub check: Option<Arc<KeyCheck>>,
    /// The conditions that the ranges and the check express exactly.
    pub implied: Conditions,
    /// Conditions that are tested on the values in the entries.
    pub key_filter: Option<Arc<KeyFilter>>,
    /// Other entries that a document must have.
    pub probes: Option<Arc<Probes>>,
    /// For each field, the prefixes of its path that are arrays in a sample of the documents; for
    /// explain.
    pub arrays: Vec<Vec<String>>,
    /// The number of entries in the ranges, counted up to a limit.
    pub estimate: Option<u64>,
    /// Not empty when the ranges are merged to keep the order of the columns after the values that
    /// the ranges begin with: the length of those values in each range.
    pub merge: Vec<usize>,
    /// The path whose entries are read, in a wildcard index.
    pub path: Option<Arc<str>>,
    /// How documents are built from entries, if the query is covered.
    pub cover: Option<Arc<Cover>>,
}

impl Candidate {
    /// A candidate that reads ranges starting with values of the index's first field, in any order.
    #[must_use]
    pub fn of_first_field(index: Arc<Index>, ranges: Vec<KeyRange>) -> Candidate {
        Candidate {
            index,
            ranges,
            direction: Direction::Forward,
            equalities: 1,
            bounded: 1,
            sorted: true,
            columns: Vec::new().into(),
            check: None,
            implied: Conditions::default(),
            key_filter: None,
            probes: None,
            arrays: Vec::new(),
            estimate: None,
            path: None,
            cover: None,
            merge: Vec::new(),
        }
    }

    /// The conditions that hold for all entries that are read.
    #[must_use]
    pub fn all_implied(&self) -> Conditions {
        self.key_filter.as_ref().map_or(self.implied, |test| self.implied.and(test.conditions))
    }
}

/// The most ranges; beyond this number only the leading fields give bounds.
const RANGES_MAX: usize = 4096;

/// The most ranges that are merged.
const MERGED_MAX: usize = 200;

/// All uses of indexes for the query that can be better than a collection scan.
pub fn of(question: &Question<'_>) -> Vec<Candidate> {
    of_node(question, question.filter.root())
}

/// The same for one branch of the filter.
pub fn of_node(question: &Question<'_>, node: &Node) -> Vec<Candidate> {
    let facts = facts_of(question, node);
    usable(question, node, &facts)
        .filter(|candidate| candidate.bounded > 0 || (candidate.sorted && question.sort.is_some()))
        .filter(|candidate| {
            // The clustered index without bounds is the same as a collection scan.
            candidate.bounded > 0 || !candidate.index.is_clustered()
        })
        .collect()
}

/// The predicates of a node of the question's filter. Faces exist in the form of the reader only.
pub(super) fn facts_of<'n>(question: &Question<'_>, node: &'n Node) -> Vec<Fact<'n>> {
    let collation = question.filter.collation().map(|collation| &**collation);
    let shapes = question.collection.form.as_ref().and(question.collection.shapes.as_deref());
    collect(node, collation, shapes)
}

/// The indexes whose leading field is not bounded while a later one is.
pub fn unbounded(question: &Question<'_>) -> Vec<Candidate> {
    let node = question.filter.root();
    let facts = facts_of(question, node);
    let found = usable(question, node, &facts);
    found.filter(|candidate| candidate.bounded == 0 && candidate.check.is_some()).collect()
}

/// The uses of the indexes that contain all documents matching a node.
fn usable<'u>(
    question: &'u Question<'_>,
    node: &'u Node,
    facts: &'u [Fact<'u>],
) -> impl Iterator<Item = Candidate> + 'u {
    let plans = &question.collection.counters.plans;
    let shape = plans.has_filters().then(|| question.shape());
    let restrictions = Restrictions::current();
    question
        .collection
        .readable_indexes()
        .filter(|index| index.state == IndexState::Ready && !index.hidden)
        .filter(move |index| restrictions.allow(index))
        .filter(move |index| shape.is_none_or(|shape| plans.filter_allows(shape, index)))
        .filter(move |index| {
            !index.sparse || index.kind.is_special() || sparse_allows(index, facts)
        })
        .filter(move |index| has_all(question, index, node))
        .flat_map(move |index| uses(question, index, node, facts))
}

/// Whether the index contains every document that can match, considering its partial filter.
pub(super) fn has_all(question: &Question<'_>, index: &Index, node: &Node) -> bool {
    let Some(partial) = &index.partial else { return true };
    implies(&[question.filter.root(), node], partial.root())
}

/// The use of a hinted index, bounded or not; `None` for a wildcard index without a bounded path.
/// An index that lacks documents is read whole, as in MongoDB.
pub fn forced(question: &Question<'_>, index: &Arc<Index>) -> Option<Candidate> {
    let mut facts = facts_of(question, question.filter.root());
    let sparse = index.sparse && !index.kind.is_special() && !sparse_allows(index, &facts);
    if sparse || !has_all(question, index, question.filter.root()) {
        facts.clear();
    }
    if index.kind.is_special() {
        let columns = special_columns(index, question.filter.root(), &facts);
        return Some(assemble(question, true, index, columns));
    }
    let bounded = uses(question, index, question.filter.root(), &facts).into_iter().next();
    bounded.or_else(|| wildcard::of_types(question, index))
}

/// A sparse index lacks documents without its fields. It can be used only when one of its fields is
/// bounded to values other than null.
pub(super) fn sparse_allows(index: &Index, facts: &[Fact<'_>]) -> bool {
    index.fields.iter().any(|field| {
        facts.iter().any(|fact| {
            let not_null = |interval: &Interval| {
                interval.from.first().is_some_and(|first| *first > value::Type::Null.rank())
            };
            fact.path == field.path.text()
                && fact.needs_value()
                && (fact.is_existence() || fact.bounds.intervals.iter().all(not_null))
        })
    })
}

/// The bounds on one encoded value of the keys.
pub(super) struct Column {
    /// Its name in explain.
    pub(super) name: String,
    pub(super) descending: bool,
    pub(super) intervals: Option<Vec<Interval>>,
    /// The conditions that the intervals come from, and what must still be tested of each.
    pub(super) used: Vec<(usize, Tightness)>,
}

/// The bounds on one column.
#[derive(Default)]
pub(super) struct ColumnBounds {
    pub(super) intervals: Option<Vec<Interval>>,
    pub(super) used: Vec<(usize, Tightness)>,
}

/// The ways in which an index can be used, bounded or not.
pub(super) fn uses(
    question: &Question<'_>,
    index: &Arc<Index>,
    node: &Node,
    facts: &[Fact<'_>],
) -> Vec<Candidate> {
    let whole = std::ptr::eq(node, question.filter.root());
    match &index.kind {
        IndexKind::Geo(geo) => {
            // Documents without a location are not in the index.
            let columns = special_columns(index, node, facts);
            let located = geo
                .at
                .iter()
                .any(|at| columns.get(*at).is_some_and(|column| column.intervals.is_some()));
            if located { vec![assemble(question, whole, index, columns)] } else { Vec::new() }
        }
        IndexKind::Text(text) => {
            let columns = special_columns(index, node, facts);
            let is_bound = |column: &Column| column.intervals.is_some();
            // MongoDB requires an equality on each field before the text.
            let whole = columns.iter().take(text.at + 1).all(is_bound);
            let front = columns.iter().take(text.at).filter_map(|column| column.intervals.as_ref());
            let equal = front.flatten().all(|interval| interval.point);
            if whole && equal {
                vec![assemble(question, whole, index, columns)]
            } else {
                Vec::new()
            }
        }
        IndexKind::Ordered => vec![assemble(question, whole, index, columns(index, facts))],
        IndexKind::Hashed(hashed) => {
            let mut columns = columns(index, facts);
            if let Some(column) = columns.get_mut(hashed.at) {
                column.intervals = column.intervals.take().and_then(|known| hash_points(&known));
                column.used.clear();
            }
            vec![assemble(question, whole, index, columns)]
        }
        IndexKind::Wildcard(wildcard) => {
            super::wildcard::uses(question, whole, index, wildcard, facts)
        }
    }
}

/// The columns of an index whose keys are the values of its fields.
fn columns(index: &Index, facts: &[Fact<'_>]) -> Vec<Column> {
    let paths: Vec<&str> = index.fields.iter().map(|field| field.path.text()).collect();
    let bound = bind(index, &paths, facts).into_iter().zip(&index.fields);
    let columns = bound.map(|(bound, field)| Column {
        name: field.path.text().to_owned(),
        descending: field.descending,
        intervals: bound.intervals,
        used: bound.used,
    });
    columns.collect()
}

/// The columns of a geospatial or text index without the cells or terms: the bounds of its other
/// fields.
fn other_columns(index: &Index, facts: &[Fact<'_>]) -> Vec<Column> {
    let mut columns = columns(index, facts);
    let is_special = |at: usize| match &index.kind {
        // Arrays are single values in the fields of a planar index.
        IndexKind::Geo(geo) => geo.plane.is_some() || geo.at.contains(&at),
        IndexKind::Text(text) => at == text.at || at == text.at + 1,
        _ => false,
    };
    for (at, column) in columns.iter_mut().enumerate() {
        // A document with an array has no entry for elements without the field.
        let null = value::Type::Null.rank();
        let has_null = column.intervals.iter().flatten().any(|interval| {
            interval.from.first().is_none_or(|from| *from <= null)
                && interval.to.first().is_none_or(|to| *to >= null)
        });
        if is_special(at) || (has_null && index.is_multikey_at(at)) {
            column.intervals = None;
            column.used.clear();
        }
        column.used.retain(|(_, tightness)| matches!(tightness, Tightness::Exact));
    }
    columns
}

/// A check of the entries of a geospatial index by its other fields, and the conditions that it
/// makes certain.
pub(super) fn entry_check(
    question: &Question<'_>,
    index: &Index,
) -> (Option<KeyCheck>, Conditions) {
    let facts = facts_of(question, question.filter.root());
    let columns = other_columns(index, &facts);
    let mut implied = Conditions::default();
    for (condition, _) in columns.iter().flat_map(|column| &column.used) {
        implied.add(*condition);
    }
    let bounds = columns.into_iter().map(|column| {
        let stored = stored_intervals(&column)?;
        if stored.iter().any(Interval::is_all) {
            return None;
        }
        Some(stored.into_iter().map(|interval| (interval.from, interval.to)).collect())
    });
    (KeyCheck::new(&index.columns, 0, bounds.collect()), implied)
}

/// The intervals of a column in the order of the index.
fn stored_intervals(column: &Column) -> Option<Vec<Interval>> {
    let intervals = column.intervals.as_ref()?;
    Some(if column.descending {
        intervals.iter().rev().map(Interval::descending).collect()
    } else {
        intervals.clone()
    })
}

/// The columns of a geospatial or text index, whose cells or terms come from the filter.
fn special_columns(index: &Index, node: &Node, facts: &[Fact<'_>]) -> Vec<Column> {
    let mut columns = other_columns(index, facts);
    let conjuncts = node.conditions();
    match &index.kind {
        IndexKind::Geo(geo) => {
            for at in &geo.at {
                let Some(column) = columns.get_mut(*at) else { continue };
                column.intervals = conjuncts.iter().find_map(|node| match node {
                    Node::Leaf(leaf) if leaf.path.text() == column.name => match &leaf.test {
                        Test::Geo(asked) => super::geo::intervals(geo, &asked.region),
                        _ => None,
                    },
                    _ => None,
                });
            }
        }
        IndexKind::Text(text) => {
            let terms = conjuncts.iter().find_map(|node| match node {
                Node::Text(query) => Some(&query.bind(&text.spec).terms),
                _ => None,
            });
            if let (Some(column), Some(terms)) = (columns.get_mut(text.at), terms) {
                let point = |term: &String| Interval::point(Val::String(key_term(term)));
                let mut points: Vec<Interval> = terms.iter().map(point).collect();
                bounds::normalise(&mut points);
                column.intervals = Some(points);
            }
        }
        _ => {}
    }
    columns
}

/// Whether a partial index contains all documents that match.
pub(super) fn answers(question: &Question<'_>, index: &Index) -> bool {
    has_all(question, index, question.filter.root())
}

/// The key prefixes before a field, if all fields before it are bounded to single values.
pub(super) fn prefixes(
    question: &Question<'_>,
    index: &Index,
    place: usize,
) -> Option<Vec<Vec<u8>>> {
    let facts = facts_of(question, question.filter.root());
    let mut prefixes = vec![index.prefix().to_vec()];
    for column in other_columns(index, &facts).into_iter().take(place) {
        let intervals = column.intervals?;
        if !intervals.iter().all(|interval| interval.point) {
            return None;
        }
        let descending = column.descending;
        prefixes = join(&prefixes, &intervals, |prefix, interval| {
            let interval = if descending { interval.descending() } else { interval.clone() };
            [prefix, interval.from.as_slice()].concat()
        });
        if prefixes.len() > RANGES_MAX {
            return None;
        }
    }
    Some(prefixes)
}

/// The intervals of each field, taken from the predicates on `paths`.
pub(super) fn bind(index: &Index, paths: &[&str], facts: &[Fact<'_>]) -> Vec<ColumnBounds> {
    let mut used: Vec<(usize, &Fact<'_>)> = Vec::new();
    let mut bound = Vec::with_capacity(paths.len());
    for (at, path) in paths.iter().enumerate() {
        let mut own = ColumnBounds::default();
        for fact in facts.iter().filter(|fact| fact.path == *path && fact.fits(index, at)) {
            let apart = |(other, known): &(usize, &Fact<'_>)| {
                may_be_apart(index, (*other, known), (at, fact))
            };
            if index.is_multikey_at(at) && used.iter().any(apart) {
                continue;
            }
            own.intervals = Some(match own.intervals {
                None => fact.bounds.intervals.clone(),
                Some(known) => bounds::intersect(&known, &fact.bounds.intervals),
            });
            if let Some(condition) = fact.condition {
                own.used.push((condition, fact.tightness(index, at)));
            }
            used.push((at, fact));
        }
        bound.push(own);
    }
    bound
}

/// Whether different elements of an array can satisfy two predicates, so that no single key needs
/// to be within the bounds of both: an array is on both paths, and no `$elemMatch` on it or below
/// it is around both.
fn may_be_apart(index: &Index, first: (usize, &Fact<'_>), second: (usize, &Fact<'_>)) -> bool {
    let names = first.1.path.split('.').zip(second.1.path.split('.'));
    let shared = names.take_while(|(a, b)| a == b).count();
    let same_element = first.1.common_depth(second.1);
    (same_element + 1..=shared).any(|depth| {
        index.is_multikey_up_to(first.0, depth) || index.is_multikey_up_to(second.0, depth)
    })
}

/// Replaces single values by their hashes; `None` for ranges, which hashing does not preserve.
fn hash_points(intervals: &[Interval]) -> Option<Vec<Interval>> {
    let hash = |interval: &Interval| {
        interval.point.then(|| Interval::point(Val::Int64(hashed::hash(&interval.from))))
    };
    let mut points: Vec<Interval> = intervals.iter().map(hash).collect::<Option<_>>()?;
    bounds::normalise(&mut points);
    Some(points)
}

/// Combines the intervals of the columns into key ranges, and into a check for bounds that ranges
/// cannot express. `whole` says that they come from the whole filter, not from a branch of it.
pub(super) fn assemble(
    question: &Question<'_>,
    whole: bool,
    index: &Arc<Index>,
    columns: Vec<Column>,
) -> Candidate {
    let prefix = if index.is_clustered() { question.collection.prefix() } else { index.prefix() };
    let mut prefixes = vec![prefix.to_vec()];
    let mut ranges: Option<Vec<KeyRange>> = None;
    let (mut equalities, mut bounded, mut points_bound) = (0, 0, 0);
    for column in &columns {
        let Some(stored) = stored_intervals(column) else { break };
        let count = prefixes.len().saturating_mul(stored.len());
        if prefixes.len() > 1 && count > RANGES_MAX {
            break;
        }
        bounded += 1;
        if stored.iter().all(|interval| interval.point) && count <= RANGES_MAX {
            if stored.len() == 1 && prefixes.len() == 1 {
                equalities += 1;
            }
            points_bound += 1;
            prefixes = join(&prefixes, &stored, |prefix, interval| {
                [prefix, interval.from.as_slice()].concat()
            });
        } else {
            ranges = Some(join(&prefixes, &stored, |prefix, interval| KeyRange {
                from: [prefix, interval.from.as_slice()].concat(),
                to: [prefix, interval.to.as_slice()].concat(),
            }));
            break;
        }
    }
    let ranges = ranges.unwrap_or_else(|| {
        let whole = |from: &Vec<u8>| KeyRange { from: from.clone(), to: after(from) };
        prefixes.iter().map(whole).collect()
    });
    let rest = columns.iter().skip(bounded).map(|column| {
        let bound = stored_intervals(column).filter(|list| !list.iter().any(Interval::is_all));
        bound.map(|list| list.into_iter().map(|interval| (interval.from, interval.to)).collect())
    });
    let check = KeyCheck::new(&index.columns, bounded, rest.collect()).map(Arc::new);
    let (implied, key_filter) = implied(question, whole, index, &columns);
    // Ranges that are read one after another have the order of the whole index.
    let ordered = matches!(index.kind, IndexKind::Ordered);
    let (mut direction, mut sorted) = (Direction::Forward, false);
    if prefixes.len() == 1 || ordered || question.sort.is_none() {
        (direction, sorted) = order(question, index, &columns, equalities, equalities);
    }
    let mut merge = Vec::new();
    let many = (2..=MERGED_MAX).contains(&ranges.len()) && prefixes.len() > 1;
    if !sorted && ordered && many && !index.is_clustered() {
        (direction, sorted) = order(question, index, &columns, equalities, points_bound);
        if sorted {
            let each = ranges.len() / prefixes.len();
            let length = |prefix: &Vec<u8>| std::iter::repeat_n(prefix.len(), each);
            merge = prefixes.iter().flat_map(length).collect();
        }
    }
    let path = wildcard::only_path(index, &columns).map(Arc::from);
    let all = || vec![Interval::all()];
    let columns = columns.into_iter().map(|c| (c.name, c.intervals.unwrap_or_else(all))).collect();
    Candidate {
        index: index.clone(),
        ranges,
        direction,
        equalities,
        bounded,
        sorted,
        columns,
        check,
        implied,
        key_filter,
        probes: None,
        arrays: Vec::new(),
        estimate: None,
        path,
        cover: None,
        merge,
    }
}

/// The conditions that the bounds express exactly, and the filter for those that can be tested on
/// entries.
fn implied(
    question: &Question<'_>,
    whole: bool,
    index: &Index,
    columns: &[Column],
) -> (Conditions, Option<Arc<KeyFilter>>) {
    let mut implied = Conditions::default();
    let mut on_keys = Conditions::default();
    let mut paths = Vec::new();
    for column in columns {
        for (condition, tightness) in &column.used {
            match tightness {
                Tightness::Exact => {
                    implied.add(*condition);
                }
                Tightness::Key => {
                    if on_keys.add(*condition) {
                        paths.push(column.name.clone());
                    }
                }
                Tightness::Document => {}
            }
        }
    }
    let few = question.filter.root().conditions().len() <= 64;
    let cover = (!paths.is_empty() && few && whole)
        .then(|| Cover::of(index, wildcard::only_path(index, columns), &paths))
        .flatten();
    let filter = cover.map(|cover| {
        Arc::new(KeyFilter { cover, filter: question.filter.only(on_keys), conditions: on_keys })
    });
    (implied, filter)
}

fn join<T>(
    prefixes: &[Vec<u8>],
    intervals: &[Interval],
    make: impl Fn(&[u8], &Interval) -> T,
) -> Vec<T> {
    let pairs = prefixes.iter().flat_map(|p| intervals.iter().map(move |i| (p, i)));
    pairs.map(|(prefix, interval)| make(prefix, interval)).collect()
}

/// Whether reading the index in one direction gives the order of the sort. The fields of the sort
/// must be adjacent in the index from field `start` on; the first `equalities` fields are bounded
/// to one value.
fn order(
    question: &Question<'_>,
    index: &Index,
    columns: &[Column],
    equalities: usize,
    start: usize,
) -> (Direction, bool) {
    let Some(sort) = question.sort else { return (Direction::Forward, true) };
    if sort.collation != index.collation {
        return (Direction::Forward, false);
    }
    let mut at = 0;
    let mut reverse: Option<bool> = None;
    for wanted in &sort.fields {
        let fixed = |name: &str| {
            index.fields.iter().take(equalities).any(|field| field.path.text() == name)
        };
        // A field with a single value does not affect the order.
        if fixed(wanted.path.text()) {
            continue;
        }
        at = at.max(start);
        let Some(field) = index.fields.get(at) else {
            // Entries of equal values have the order of their records.
            let opposite = wanted.descending;
            let by_record = ends_with_id(question, index, sort)
                && reverse.is_none_or(|known| known == opposite)
                && sort.fields.last().is_some_and(|last| std::ptr::eq(last, wanted));
            let direction = if opposite { Direction::Reverse } else { Direction::Forward };
            return if by_record { (direction, true) } else { (Direction::Forward, false) };
        };
        let hashed = matches!(index.kind, IndexKind::Hashed(hashed) if hashed.at == at);
        // A document with an array appears at its first value in key order. That value is its sort
        // key only if the bounds exclude none of the array's values.
        let array =
            index.is_multikey_at(at) && (start > equalities || bounds_array(index, columns));
        if field.path.text() != wanted.path.text() || array || hashed {
            return (Direction::Forward, false);
        }
        let opposite = field.descending != wanted.descending;
        if reverse.is_some_and(|known| known != opposite) {
            return (Direction::Forward, false);
        }
        reverse = Some(opposite);
        at += 1;
    }
    let direction = if reverse == Some(true) { Direction::Reverse } else { Direction::Forward };
    (direction, true)
}

/// Whether a sort ends with the `_id`, whose order records have.
fn ends_with_id(question: &Question<'_>, index: &Index, sort: &SortSpec) -> bool {
    let by_value = matches!(index.kind, IndexKind::Ordered | IndexKind::Hashed(_));
    by_value
        && question.collection.capped().is_none()
        && sort.collation == question.collection.collation
        && sort.fields.last().is_some_and(|last| last.path.text() == "_id")
}

/// Whether a multikey field is bounded.
fn bounds_array(index: &Index, columns: &[Column]) -> bool {
    let bounded = |(at, column): (usize, &Column)| {
        index.is_multikey_at(at)
            && column.intervals.as_ref().is_some_and(|list| !list.iter().all(Interval::is_all))
    };
    columns.iter().enumerate().any(bounded)
}
