//! The predicates of a filter on single paths that hold for every match, as bounds.

use super::bounds::{self, Bounds, Interval, Tightness};
use crate::catalog::{Index, IndexKind, Shapes};
use query::filter::{Leaf, Node, Test};
use value::collation::applies_to;
use value::path::array_index;
use value::{Collation, RawDoc, Val};

/// A predicate on a path that holds for every match.
pub struct Fact<'n> {
    /// The path.
    pub path: String,
    /// The values that it allows.
    pub bounds: Bounds,
    /// The tests that the bounds come from.
    tests: Vec<&'n Test>,
    /// The `$elemMatch`es around it, the outermost first.
    pub within: Vec<ElemMatch>,
    /// The position of the filter's condition, if the fact expresses all of it.
    pub condition: Option<usize>,
    kind: Kind,
}

/// An `$elemMatch` around a predicate. All predicates in it refer to the same array element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ElemMatch {
    /// Its number in the filter.
    number: usize,
    /// The number of names of the array's path.
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Some value passes the tests.
    Some,
    /// No value passes the test.
    Not,
    /// No value is null or missing.
    NotNull,
    /// The field is missing.
    Missing,
    /// The value as a whole, including arrays, satisfies a comparison of `$expr`.
    Whole {
        /// Whether the comparison depends on the collation.
        text: bool,
    },
}

impl Fact<'_> {
    /// Whether it only requires that the field exists.
    pub fn is_existence(&self) -> bool {
        self.kind == Kind::Some && matches!(self.tests.as_slice(), [Test::Exists])
    }

    /// Whether some value of the field itself must pass, so that a sparse index contains the
    /// document. For an expression, an empty array on the path also counts as a value.
    pub fn needs_value(&self) -> bool {
        !matches!(self.kind, Kind::Whole { .. })
    }

    /// Whether it can bound column `at` of the index. A predicate on existence bounds only an index
    /// that lacks documents without the field.
    pub fn fits(&self, index: &Index, at: usize) -> bool {
        let collation = index.collation.as_deref();
        let kind = match self.kind {
            // `{"a.0": null}` holds for an array of documents without a field `0` too, whose key is
            // that of its first element.
            Kind::Some if self.names_position() && self.allows_null() => false,
            // The array [MinKey] is above MinKey, and its entry is not. The same for MaxKey.
            Kind::Some if index.is_multikey_at(at) => !self.tests.iter().any(|test| match test {
                Test::Gt(value) => value.get() == Val::MinKey,
                Test::Lt(value) => value.get() == Val::MaxKey,
                _ => false,
            }),
            Kind::Some | Kind::Not | Kind::Missing => true,
            // An empty array has the key of undefined.
            Kind::NotNull => !index.is_multikey_at(at),
            // An array on the path counts as a value here, and a sparse index lacks documents in
            // which it is empty.
            Kind::Whole { text } => {
                let collated = text && collation.is_some();
                let lacks = index.sparse || !matches!(index.kind, IndexKind::Ordered);
                !collated && !lacks && !index.is_multikey_at(at)
            }
        };
        kind && (index.sparse || !self.is_existence())
            && self.tests.iter().all(|test| bounds::fits(test, collation))
    }

    /// Whether the path has a number, which may be a position in an array.
    fn names_position(&self) -> bool {
        self.path.split('.').any(|part| array_index(part).is_some())
    }

    /// Whether null, the value of a missing field, is inside the bounds.
    fn allows_null(&self) -> bool {
        let null = value::keys::key(Val::Null);
        self.bounds.intervals.iter().any(|interval| interval.from <= null && null < interval.to)
    }

    /// The number of names of the longest path whose array elements are the same for both
    /// predicates; 0 without a common `$elemMatch`.
    pub fn common_depth(&self, other: &Fact<'_>) -> usize {
        let pairs = self.within.iter().zip(&other.within);
        pairs.take_while(|(a, b)| a == b).last().map_or(0, |(common, _)| common.depth)
    }

    /// What must still be tested when column `at` of the index is inside the bounds.
    pub fn tightness(&self, index: &Index, at: usize) -> Tightness {
        let places = self.names_position();
        let negated = self.kind != Kind::Some && index.is_multikey_at(at);
        // All entries of a sparse index with one field belong to documents that have the field.
        if self.is_existence() && index.fields.len() == 1 && !places {
            return Tightness::Exact;
        }
        if places || negated || !self.within.is_empty() {
            return Tightness::Document;
        }
        self.bounds.tightness
    }

    /// The priority of facts on an array, of which only one can be used: the most selective first.
    fn weight(&self) -> u8 {
        let points = self.bounds.intervals.iter().all(|interval| interval.point);
        match self.kind {
            Kind::Some if self.is_existence() => 4,
            Kind::Some if points => 0,
            Kind::Some => 1,
            Kind::Whole { .. } => 2,
            Kind::Not | Kind::NotNull | Kind::Missing => 3,
        }
    }
}

/// The predicates that every match of a node satisfies, the most selective first.
pub fn collect<'n>(
    node: &'n Node,
    collation: Option<&Collation>,
    shapes: Option<&Shapes>,
) -> Vec<Fact<'n>> {
    let mut facts = Vec::new();
    let mut search = Search { facts: &mut facts, collation, shapes, elem_matches: 0 };
    for (at, condition) in node.conditions().iter().enumerate() {
        search.node(condition, "", &[], Some(at));
    }
    facts.sort_by_key(Fact::weight);
    facts
}

/// What a path passes that exists.
static EXISTS: Test = Test::Exists;

struct Search<'s, 'n> {
    facts: &'s mut Vec<Fact<'n>>,
    collation: Option<&'s Collation>,
    /// What shows values as pairs.
    shapes: Option<&'s Shapes>,
    /// The number of `$elemMatch`es so far.
    elem_matches: usize,
}

impl<'n> Search<'_, 'n> {
    fn node(
        &mut self,
        node: &'n Node,
        prefix: &str,
        within: &[ElemMatch],
        condition: Option<usize>,
    ) {
        let join = |path: &str| {
            if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") }
        };
        match node {
            Node::And(nodes) => {
                nodes.iter().for_each(|node| self.node(node, prefix, within, None));
            }
            Node::Leaf(leaf) => {
                if let (Some((face, "k")), Test::Eq(key), "") =
                    (leaf.path.text().split_once('.'), &leaf.test, prefix)
                {
                    self.key(face, key.get());
                }
                let path = join(leaf.path.text());
                let existence = matches!(leaf.test, Test::Exists) && prefix.is_empty();
                let everything =
                    || Bounds { intervals: vec![Interval::all()], tightness: Tightness::Document };
                let bounds = bounds::of_test(&leaf.test).or_else(|| existence.then(everything));
                let Some(bounds) = bounds else { return };
                let tests = vec![&leaf.test];
                let (within, kind) = (within.to_vec(), Kind::Some);
                self.facts.push(Fact { path, bounds, tests, within, condition, kind });
            }
            Node::Not(inner) if prefix.is_empty() => {
                if let Node::Leaf(leaf) = &**inner {
                    self.negation(leaf, condition);
                }
            }
            Node::Nor(nodes) if prefix.is_empty() => {
                for node in nodes {
                    if let Node::Leaf(leaf) = node {
                        self.negation(leaf, None);
                    }
                }
            }
            Node::ElemMatchObject { path, filter } => {
                if prefix.is_empty() {
                    self.pair(path.text(), filter);
                }
                let path = join(path.text());
                let depth = path.split('.').count();
                self.elem_matches += 1;
                let inner = ElemMatch { number: self.elem_matches, depth };
                self.node(filter, &path, &[within, &[inner]].concat(), None);
            }
            Node::ElemMatchValue { path, ops } => {
                let mut known: Option<Bounds> = None;
                let mut tests = Vec::new();
                for test in ops {
                    let Some(found) = bounds::of_test(test) else { continue };
                    tests.push(test);
                    known = Some(match known {
                        None => found,
                        Some(known) => known.and(&found),
                    });
                }
                if let Some(bounds) = known {
                    let bounds = Bounds { tightness: Tightness::Document, ..bounds };
                    let path = join(path.text());
                    let (within, kind) = (within.to_vec(), Kind::Some);
                    self.facts.push(Fact { path, bounds, tests, within, condition: None, kind });
                }
            }
            Node::Expr(expr) if prefix.is_empty() => {
                for leaf in &expr.implied {
                    let Some(bounds) = bounds::of_test(&leaf.test) else { continue };
                    let bounds = Bounds { tightness: Tightness::Document, ..bounds };
                    let (path, tests) = (leaf.path.text().to_owned(), vec![&leaf.test]);
                    let (condition, kind) = (None, Kind::Some);
                    self.facts.push(Fact {
                        path,
                        bounds,
                        tests,
                        within: Vec::new(),
                        condition,
                        kind,
                    });
                }
                if let Val::Document(doc) = expr.source.get() {
                    self.expression(doc, 0);
                }
            }
            _ => {}
        }
    }

    /// Adds what a predicate on one pair of a face says about the path that the pair shows.
    fn pair(&mut self, face: &str, filter: &'n Node) {
        let leaves = filter.conditions().iter().filter_map(|node| match node {
            Node::Leaf(leaf) => Some(leaf),
            _ => None,
        });
        let key = leaves.clone().find_map(|leaf| match &leaf.test {
            Test::Eq(key) if leaf.path.text() == "k" => Some(key.get()),
            _ => None,
        });
        let Some(key) = key else { return };
        let Some(path) = self.shown_path(face, key) else { return };
        let values: Vec<&Leaf> = leaves.filter(|leaf| leaf.path.text() == "v").collect();
        self.elem_matches += 1;
        // The pairs of an array are its elements, and both are one value for all predicates.
        let within = ElemMatch { number: self.elem_matches, depth: path.split('.').count() };
        let before = self.facts.len();
        for leaf in values {
            let Some(bounds) = bounds::of_test(&leaf.test) else { continue };
            self.facts.push(Fact {
                path: path.clone(),
                bounds: Bounds { tightness: Tightness::Document, ..bounds },
                tests: vec![&leaf.test],
                within: vec![within],
                condition: None,
                kind: Kind::Some,
            });
        }
        if self.facts.len() == before {
            self.key(face, key);
        }
    }

    /// Adds that the path exists which a face shows under a key.
    fn key(&mut self, face: &str, key: Val<'_>) {
        let Some(path) = self.shown_path(face, key) else { return };
        let intervals = vec![Interval::all()];
        self.facts.push(Fact {
            path,
            bounds: Bounds { intervals, tightness: Tightness::Document },
            tests: vec![&EXISTS],
            within: Vec::new(),
            condition: None,
            kind: Kind::Some,
        });
    }

    /// The path of the values that a face shows under a key.
    fn shown_path(&self, face: &str, key: Val<'_>) -> Option<String> {
        let Val::String(key) = key else { return None };
        self.shapes?.path_of_pair(face, key)
    }

    /// Adds a predicate that no value at the path may pass.
    fn negation(&mut self, leaf: &'n Leaf, condition: Option<usize>) {
        let (kind, bounds) = match &leaf.test {
            Test::Exists => {
                let points = vec![Interval::point(Val::Undefined), Interval::point(Val::Null)];
                let tightness = Tightness::Document;
                (Kind::Missing, Some(Bounds { intervals: points, tightness }))
            }
            Test::Eq(value) if value.get().is_nullish() => {
                (Kind::NotNull, Bounds::null().complement())
            }
            Test::Regex(_) => return,
            test => (Kind::Not, bounds::of_test(test).and_then(Bounds::complement)),
        };
        let Some(bounds) = bounds else { return };
        let (path, tests) = (leaf.path.text().to_owned(), vec![&leaf.test]);
        self.facts.push(Fact { path, bounds, tests, within: Vec::new(), condition, kind });
    }

    /// Adds comparisons of fields with constants inside `$expr`, except equalities.
    fn expression(&mut self, doc: RawDoc<'n>, depth: usize) {
        let Some((operator, value)) = doc.first().filter(|_| doc.count() == 1) else { return };
        let Val::Array(list) = value.get() else { return };
        if operator == "$and" && depth < 10 {
            for (_, part) in list {
                if let Val::Document(part) = part.get() {
                    self.expression(part, depth + 1);
                }
            }
            return;
        }
        let mut parts = list.iter().map(|(_, value)| value.get());
        let (Some(first), Some(second), None) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        let (path, value, operator) = match (field(first), field(second)) {
            (Some(path), None) => (path, constant(second), operator),
            (None, Some(path)) => (path, constant(first), mirrored(operator)),
            _ => return,
        };
        let Some(value) = value else { return };
        let text = applies_to(value);
        if text && self.collation.is_some() {
            return;
        }
        if let Some(bounds) = bounds::of_expression(operator, value, None) {
            let (path, tests, kind) = (path.to_owned(), Vec::new(), Kind::Whole { text });
            self.facts.push(Fact {
                path,
                bounds,
                tests,
                within: Vec::new(),
                condition: None,
                kind,
            });
        }
    }
}

/// The path of a field reference in an expression.
fn field(value: Val<'_>) -> Option<&str> {
    let Val::String(text) = value else { return None };
    let path = text.strip_prefix('$')?;
    (!path.starts_with('$')).then_some(path)
}

/// A constant in an expression.
fn constant(value: Val<'_>) -> Option<Val<'_>> {
    match value {
        Val::Document(doc) => {
            let (name, value) = doc.first().filter(|_| doc.count() == 1)?;
            let value = value.get();
            let scalar = !matches!(value, Val::Document(_) | Val::Array(_)) && !value.is_nullish();
            (matches!(name, "$const" | "$literal") && scalar).then_some(value)
        }
        Val::String(text) => (!text.starts_with('$')).then_some(value),
        Val::Array(_) | Val::Regex(..) => None,
        value => (!value.is_nullish()).then_some(value),
    }
}

fn mirrored(operator: &str) -> &str {
    match operator {
        "$gt" => "$lt",
        "$gte" => "$lte",
        "$lt" => "$gt",
        "$lte" => "$gte",
        other => other,
    }
}
