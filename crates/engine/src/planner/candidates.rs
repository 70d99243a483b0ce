//! What each index could do for a query: bounds from the predicates on its leading fields, and
//! whether its order is the order asked for.

use super::Question;
use super::bounds::{self, Interval, after};
use super::cover::Cover;
use super::implies::implies;
use crate::catalog::{Index, IndexKind, IndexState};
use crate::index::hashed;
use crate::index::text::key_term;
use crate::index::wildcard::Wildcard;
use query::filter::{Node, Test};
use std::sync::Arc;
use store::Direction;
use value::{Type, Val};

/// A range of whole keys: from the first, up to and without the second.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// First key inside.
    pub from: Vec<u8>,
    /// First key outside.
    pub to: Vec<u8>,
}

/// A use of an index.
#[derive(Clone)]
pub struct Candidate {
    /// The index.
    pub index: Arc<Index>,
    /// The ranges to read, ascending, apart from each other.
    pub ranges: Vec<KeyRange>,
    /// The way to read them.
    pub direction: Direction,
    /// How many leading fields are bound to single values.
    pub equalities: usize,
    /// How many fields are bound at all.
    pub bounded: usize,
    /// Whether documents come in the order asked for.
    pub sorted: bool,
    /// The name of each encoded value of a key and its intervals, for explain.
    pub shown: Vec<(String, Vec<String>)>,
    /// Entries in the ranges, counted up to a limit.
    pub estimate: Option<u64>,
    /// Set when the ranges are read side by side, to keep the order of what follows the values
    /// that they begin with: the length of those values in each range.
    pub merge: Vec<usize>,
    /// How documents are made from entries, if none need be fetched.
    pub cover: Option<Arc<Cover>>,
}

/// Ranges beyond which an index is read by its leading fields only.
const RANGES_MAX: usize = 4096;

/// Ranges beyond which they are not read side by side.
const MERGED_MAX: usize = 200;

/// Every index that can answer the query better than a scan of the collection.
pub fn of(question: &Question<'_>) -> Vec<Candidate> {
    of_node(question, question.filter.root())
}

/// The same for one branch of the filter.
pub fn of_node(question: &Question<'_>, node: &Node) -> Vec<Candidate> {
    let mut facts = Vec::new();
    collect(node, "", &mut facts);
    let indexes = question.collection.indexes.iter();
    indexes
        .filter(|index| index.state == IndexState::Ready && !index.hidden)
        .filter(|index| !index.sparse || index.kind.is_special() || sparse_allows(index, &facts))
        .filter(|index| has_all(question, index, node))
        .flat_map(|index| uses(question, index, node, &facts))
        .filter(|candidate| candidate.bounded > 0 || (candidate.sorted && question.sort.is_some()))
        .filter(|candidate| {
            // The clustered index without bounds is the collection itself.
            candidate.bounded > 0 || !candidate.index.is_clustered()
        })
        .collect()
}

/// Whether every document that can match has entries, as far as a partial filter goes.
fn has_all(question: &Question<'_>, index: &Index, node: &Node) -> bool {
    let Some(partial) = &index.partial else { return true };
    implies(&[question.filter.root(), node], partial.root())
}

/// The use of an index that a hint asks for, bounded or not; nothing for a wildcard index without
/// a path to look up. An index that lacks documents is read whole, as MongoDB does.
pub fn forced(question: &Question<'_>, index: &Arc<Index>) -> Option<Candidate> {
    let mut facts = Vec::new();
    collect(question.filter.root(), "", &mut facts);
    let sparse = index.sparse && !index.kind.is_special() && !sparse_allows(index, &facts);
    if sparse || !has_all(question, index, question.filter.root()) {
        facts.clear();
    }
    if index.kind.is_special() {
        let columns = special_columns(index, question.filter.root(), &facts);
        return Some(assemble(question, index, columns));
    }
    uses(question, index, question.filter.root(), &facts).into_iter().next()
}

/// A predicate on a path that holds for every match.
struct Fact<'n> {
    path: String,
    intervals: Vec<Interval>,
    /// What the intervals were made of.
    tests: Vec<&'n Test>,
    /// Facts of one `$elemMatch` speak of the same array element.
    group: usize,
}

impl Fact<'_> {
    /// Whether it only says that there is a value.
    fn is_existence(&self) -> bool {
        matches!(self.tests.as_slice(), [Test::Exists])
    }

    /// Whether keys of the index can be bounded by it, as far as collations go. That a value
    /// exists says something only of an index that lacks documents without one.
    fn fits(&self, index: &Index) -> bool {
        (index.sparse || !self.is_existence())
            && self.tests.iter().all(|test| bounds::fits(test, index.collation.as_deref()))
    }
}

/// Collects the predicates that every match fulfils.
fn collect<'n>(node: &'n Node, prefix: &str, facts: &mut Vec<Fact<'n>>) {
    let group = facts.len() + 1;
    collect_grouped(node, prefix, if prefix.is_empty() { 0 } else { group }, facts);
    // Of several predicates on an array the first bounds it: those that say more come first.
    facts.sort_by_key(Fact::is_existence);
}

fn collect_grouped<'n>(node: &'n Node, prefix: &str, group: usize, facts: &mut Vec<Fact<'n>>) {
    let join = |path: &str| {
        if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") }
    };
    match node {
        Node::And(nodes) => {
            for node in nodes {
                collect_grouped(node, prefix, group, facts);
            }
        }
        Node::Leaf(leaf) => {
            let path = join(leaf.path.text());
            let tests = vec![&leaf.test];
            if let Some(intervals) = bounds::of_test(&leaf.test) {
                facts.push(Fact { path, intervals, tests, group });
            } else if matches!(leaf.test, Test::Exists) && prefix.is_empty() {
                facts.push(Fact { path, intervals: vec![Interval::all()], tests, group });
            }
        }
        Node::Expr(expr) if prefix.is_empty() => {
            for leaf in &expr.implied {
                let Some(intervals) = bounds::of_test(&leaf.test) else { continue };
                let (path, tests) = (leaf.path.text().to_owned(), vec![&leaf.test]);
                facts.push(Fact { path, intervals, tests, group });
            }
        }
        Node::ElemMatchObject { path, filter } => {
            let path = join(path.text());
            let group = facts.len() + 1;
            collect_grouped(filter, &path, group, facts);
        }
        Node::ElemMatchValue { path, ops } => {
            let mut known: Option<Vec<Interval>> = None;
            let mut tests = Vec::new();
            for test in ops {
                let Some(found) = bounds::of_test(test) else { continue };
                tests.push(test);
                known = Some(match known {
                    None => found,
                    Some(known) => bounds::intersect(&known, &found),
                });
            }
            if let Some(intervals) = known {
                facts.push(Fact { path: join(path.text()), intervals, tests, group });
            }
        }
        _ => {}
    }
}

/// A sparse index lacks documents without its fields: it may answer only when one of its fields
/// is bound to something that is not null.
fn sparse_allows(index: &Index, facts: &[Fact<'_>]) -> bool {
    index.fields.iter().any(|field| {
        facts.iter().any(|fact| {
            let not_null = |interval: &Interval| {
                interval.from.first().is_some_and(|first| *first > value::Type::Null.rank())
            };
            fact.path == field.path.text()
                && (fact.is_existence() || fact.intervals.iter().all(not_null))
        })
    })
}

/// What one encoded value of the keys is bounded to.
struct Column {
    /// The name that explain gives it.
    name: String,
    descending: bool,
    intervals: Option<Vec<Interval>>,
}

/// The ways in which an index can be used, bounded or not.
fn uses(
    question: &Question<'_>,
    index: &Arc<Index>,
    node: &Node,
    facts: &[Fact<'_>],
) -> Vec<Candidate> {
    match &index.kind {
        IndexKind::Geo(geo) => {
            // Documents without a location are not in the index.
            let columns = special_columns(index, node, facts);
            let located = geo
                .at
                .iter()
                .any(|at| columns.get(*at).is_some_and(|column| column.intervals.is_some()));
            if located { vec![assemble(question, index, columns)] } else { Vec::new() }
        }
        IndexKind::Text(text) => {
            let columns = special_columns(index, node, facts);
            let is_bound = |column: &Column| column.intervals.is_some();
            // MongoDB asks for an equality with each field in front of the text.
            let whole = columns.iter().take(text.at + 1).all(is_bound);
            let front = columns.iter().take(text.at).filter_map(|column| column.intervals.as_ref());
            let equal = front.flatten().all(|interval| interval.point);
            if whole && equal { vec![assemble(question, index, columns)] } else { Vec::new() }
        }
        IndexKind::Ordered => vec![assemble(question, index, columns(index, facts))],
        IndexKind::Hashed(hashed) => {
            let mut columns = columns(index, facts);
            if let Some(column) = columns.get_mut(hashed.at) {
                column.intervals = column.intervals.take().and_then(|known| hash_points(&known));
            }
            vec![assemble(question, index, columns)]
        }
        IndexKind::Wildcard(wildcard) => wildcard_uses(question, index, wildcard, facts),
    }
}

/// The columns of an index whose keys are the values of its fields.
fn columns(index: &Index, facts: &[Fact<'_>]) -> Vec<Column> {
    let paths: Vec<&str> = index.fields.iter().map(|field| field.path.text()).collect();
    let bound = bind(index, &paths, facts).into_iter().zip(&index.fields);
    let columns = bound.map(|(intervals, field)| Column {
        name: field.path.text().to_owned(),
        descending: field.descending,
        intervals,
    });
    columns.collect()
}

/// The columns of an index on locations or text, whose cells or terms the filter tells.
fn special_columns(index: &Index, node: &Node, facts: &[Fact<'_>]) -> Vec<Column> {
    let mut columns = columns(index, facts);
    let conjuncts = match node {
        Node::And(nodes) => nodes.as_slice(),
        node => std::slice::from_ref(node),
    };
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
            for (at, column) in columns.iter_mut().enumerate().skip(text.at).take(2) {
                column.intervals = terms.filter(|_| at == text.at).map(|terms| {
                    terms.iter().map(|term| Interval::point(Val::String(key_term(term)))).collect()
                });
            }
        }
        _ => {}
    }
    columns
}

/// Whether a partial index has all documents that match.
pub(super) fn answers(question: &Question<'_>, index: &Index) -> bool {
    has_all(question, index, question.filter.root())
}

/// The keys in front of a field when all fields before it are bound to single values.
pub(super) fn prefixes(
    question: &Question<'_>,
    index: &Index,
    place: usize,
) -> Option<Vec<Vec<u8>>> {
    let mut facts = Vec::new();
    collect(question.filter.root(), "", &mut facts);
    let mut prefixes = vec![index.prefix().to_vec()];
    for column in columns(index, &facts).into_iter().take(place) {
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
fn bind(index: &Index, paths: &[&str], facts: &[Fact<'_>]) -> Vec<Option<Vec<Interval>>> {
    // Bounds on two paths into one array speak of different elements unless one `$elemMatch`
    // holds both; so at most one such path is bounded outside of a common group.
    let mut array_group: Option<usize> = None;
    let mut bound = Vec::with_capacity(paths.len());
    for (at, path) in paths.iter().enumerate() {
        let mut intervals: Option<Vec<Interval>> = None;
        let mut used_group = None;
        for fact in facts.iter().filter(|fact| fact.path == *path && fact.fits(index)) {
            let multikey = index.is_multikey_at(at);
            if multikey && array_group.is_some_and(|group| group == 0 || group != fact.group) {
                continue;
            }
            intervals = Some(match intervals {
                None => {
                    used_group = Some(fact.group);
                    fact.intervals.clone()
                }
                // Two predicates on an array may hold for different elements.
                Some(known) if multikey => known,
                Some(known) => bounds::intersect(&known, &fact.intervals),
            });
        }
        if index.is_multikey_at(at) && array_group.is_none() {
            array_group = used_group;
        }
        bound.push(intervals);
    }
    bound
}

/// Single values become their hashes; ranges of values are no ranges of hashes.
fn hash_points(intervals: &[Interval]) -> Option<Vec<Interval>> {
    let hash = |interval: &Interval| {
        interval.point.then(|| Interval::point(Val::Int64(hashed::hash(&interval.from))))
    };
    let mut points: Vec<Interval> = intervals.iter().map(hash).collect::<Option<_>>()?;
    bounds::normalise(&mut points);
    Some(points)
}

/// One use for each path that the wildcard covers and the query bounds; and one for the other
/// fields of a compound index.
fn wildcard_uses(
    question: &Question<'_>,
    index: &Arc<Index>,
    wildcard: &Wildcard,
    facts: &[Fact<'_>],
) -> Vec<Candidate> {
    let mut paths: Vec<Option<&str>> = Vec::new();
    for fact in facts {
        let usable =
            fact.fits(index) && wildcard.covers(&fact.path) && fact.intervals.iter().all(is_scalar);
        if usable && !paths.contains(&Some(&fact.path)) {
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
        for (at, intervals) in bind(index, &fields, facts).into_iter().enumerate() {
            let descending = index.fields.get(at).is_some_and(|field| field.descending);
            let field = fields.get(at).copied().unwrap_or("").to_owned();
            let mut intervals = intervals;
            if at == wildcard.at {
                let point = path.map(|path| vec![Interval::point(Val::String(path))]);
                columns.push(Column {
                    name: "$_path".to_owned(),
                    descending: false,
                    intervals: point,
                });
                intervals = intervals.filter(|known| path.is_some() && known.iter().all(is_scalar));
            }
            columns.push(Column { name: field, descending, intervals });
        }
        let mut candidate = assemble(question, index, columns);
        // Documents come once for each of their paths, in no useful order.
        candidate.sorted = question.sort.is_none();
        candidate.direction = Direction::Forward;
        candidate
    };
    paths.iter().map(make).collect()
}

/// Whether an interval holds only values that stand in a wildcard index as they are: not what is
/// missing, nor documents and arrays.
fn is_scalar(interval: &Interval) -> bool {
    const DOCUMENT: u8 = 70;
    const ARRAY: u8 = 80;
    interval
        .from
        .first()
        .is_some_and(|rank| *rank > Type::Null.rank() && !matches!(*rank, DOCUMENT | ARRAY | 240..))
}

/// The ranges of keys that the columns' intervals make together.
fn assemble(question: &Question<'_>, index: &Arc<Index>, columns: Vec<Column>) -> Candidate {
    let prefix = if index.is_clustered() { question.collection.prefix() } else { index.prefix() };
    let mut prefixes = vec![prefix.to_vec()];
    let mut ranges: Option<Vec<KeyRange>> = None;
    let mut shown = Vec::new();
    let (mut equalities, mut bounded, mut points_bound) = (0, 0, 0);
    for column in &columns {
        let Some(intervals) = &column.intervals else { break };
        bounded += 1;
        shown.push(intervals.iter().map(|interval| interval.shown.clone()).collect());
        let stored: Vec<Interval> = if column.descending {
            intervals.iter().rev().map(Interval::descending).collect()
        } else {
            intervals.clone()
        };
        let points = stored.iter().all(|interval| interval.point);
        if points && prefixes.len() * stored.len() <= RANGES_MAX {
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
    while shown.len() < columns.len() {
        shown.push(vec!["[MinKey, MaxKey]".to_owned()]);
    }
    let shown = columns.into_iter().map(|column| column.name).zip(shown).collect();
    // Ranges one after another are in the order of the whole index.
    let ordered = matches!(index.kind, IndexKind::Ordered);
    let (mut direction, mut sorted) = (Direction::Forward, false);
    if prefixes.len() == 1 || ordered || question.sort.is_none() {
        (direction, sorted) = order(question, index, equalities, equalities);
    }
    let mut merge = Vec::new();
    let many = (2..=MERGED_MAX).contains(&ranges.len()) && prefixes.len() > 1;
    if !sorted && ordered && many && !index.is_clustered() {
        (direction, sorted) = order(question, index, equalities, points_bound);
        if sorted {
            let each = ranges.len() / prefixes.len();
            let length = |prefix: &Vec<u8>| std::iter::repeat_n(prefix.len(), each);
            merge = prefixes.iter().flat_map(length).collect();
        }
    }
    let index = index.clone();
    let (estimate, cover) = (None, None);
    Candidate {
        index,
        ranges,
        direction,
        equalities,
        bounded,
        sorted,
        shown,
        estimate,
        cover,
        merge,
    }
}

fn join<T>(
    prefixes: &[Vec<u8>],
    intervals: &[Interval],
    make: impl Fn(&[u8], &Interval) -> T,
) -> Vec<T> {
    let pairs = prefixes.iter().flat_map(|p| intervals.iter().map(move |i| (p, i)));
    pairs.map(|(prefix, interval)| make(prefix, interval)).collect()
}

/// Whether reading the index one way gives the order of the sort: its fields must stand in the
/// index one after another from field `start` on; the first `equalities` fields are bound to one
/// value.
fn order(
    question: &Question<'_>,
    index: &Index,
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
        // A field that has one value everywhere sorts nothing.
        if fixed(wanted.path.text()) {
            continue;
        }
        at = at.max(start);
        let Some(field) = index.fields.get(at) else { return (Direction::Forward, false) };
        let hashed = matches!(index.kind, IndexKind::Hashed(hashed) if hashed.at == at);
        if field.path.text() != wanted.path.text() || index.is_multikey_at(at) || hashed {
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
