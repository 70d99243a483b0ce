//! Converts predicates into intervals of key bytes.
//!
//! An interval is a half-open range of encoded values, compared as prefixes: every key that starts
//! with `from` is inside, no key that starts with `to` is. An interval may be wider than the
//! predicate, never narrower. `Tightness` says whether it is exactly as wide, so that values inside
//! it need not be tested again.

use super::edge::Edge;
use query::filter::Test;
use query::interrupt;
use query::regex::Regex;
use value::collation::applies_to;
use value::{Collation, OwnedVal, Type, Val, keys};

/// A range of encoded values of one field, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The first key bytes inside.
    pub from: Vec<u8>,
    /// The first key bytes outside.
    pub to: Vec<u8>,
    /// Whether it contains exactly one value.
    pub point: bool,
    /// Its lower end, for explain.
    pub low: Edge,
    /// Its upper end, for explain.
    pub high: Edge,
}

/// What must still be tested on a value whose key is inside the intervals of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tightness {
    /// Nothing: the predicate holds.
    Exact,
    /// The predicate, for which the value in the key is enough.
    Key,
    /// The predicate, on the document.
    Document,
}

/// The intervals of a predicate.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Sorted and disjoint.
    pub intervals: Vec<Interval>,
    /// How precisely they represent the predicate, for values that are not arrays.
    pub tightness: Tightness,
}

/// The smallest byte string above all strings that begin with `bytes`.
#[must_use]
pub fn after(bytes: &[u8]) -> Vec<u8> {
    let mut next = bytes.to_vec();
    while let Some(last) = next.pop() {
        if last < 0xFF {
            next.push(last + 1);
            return next;
        }
    }
    vec![0xFF]
}

impl Interval {
    /// The interval of all values.
    #[must_use]
    pub fn all() -> Interval {
        Interval {
            from: Vec::new(),
            to: vec![0xFF],
            point: false,
            low: Edge::low(Type::MinKey, true),
            high: Edge::high(Type::MaxKey, true),
        }
    }

    /// Whether it contains all values.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.from.is_empty() && self.to == [0xFF]
    }

    /// The interval of one value.
    #[must_use]
    pub fn point(value: Val<'_>) -> Interval {
        Interval::point_with(value, None)
    }

    /// The interval of one value, in keys of a collation.
    fn point_with(value: Val<'_>, collation: Option<&Collation>) -> Interval {
        let from = keys::key_with(value, collation);
        let edge = Edge::value(value, collation, true);
        Interval { to: after(&from), from, point: true, low: edge.clone(), high: edge }
    }

    /// From one value (inclusive) to another (exclusive).
    #[must_use]
    pub fn between(low: Val<'_>, high: Val<'_>) -> Interval {
        Interval {
            from: keys::key(low),
            to: keys::key(high),
            point: false,
            low: Edge::value(low, None, true),
            high: Edge::value(high, None, false),
        }
    }

    /// All values of one type, and of types that sort together with it.
    fn of_type(kind: Type) -> Interval {
        let (low, high) = bracket(kind);
        let point = low + 1 == high && Edge::is_single(kind);
        let (from, to) = (vec![low], vec![high]);
        Interval { from, to, point, low: Edge::low(kind, true), high: Edge::high(kind, true) }
    }

    /// All numbers, including NaN.
    fn numbers() -> Interval {
        let nan = Edge::value(Val::Double(f64::NAN), None, true);
        Interval { low: nan, ..Interval::of_type(Type::Double) }
    }

    /// The same values in a descending field.
    #[must_use]
    pub fn descending(&self) -> Interval {
        let flip = |bytes: &[u8]| {
            let mut flipped = bytes.to_vec();
            keys::invert(&mut flipped);
            flipped
        };
        let from = if self.to == [0xFF] { Vec::new() } else { after(&flip(&self.to)) };
        let to = if self.from.is_empty() { vec![0xFF] } else { after(&flip(&self.from)) };
        Interval { from, to, ..self.clone() }
    }

    /// The intersection of two intervals.
    #[must_use]
    pub fn intersect(&self, other: &Interval) -> Option<Interval> {
        let (from, low) = (&self.from, &self.low).max_by_key(other);
        let (to, high) = (&self.to, &self.high).min_by_key(other);
        if from >= to {
            return None;
        }
        Some(Interval {
            from: from.clone(),
            to: to.clone(),
            point: self.point || other.point,
            low: low.clone(),
            high: high.clone(),
        })
    }
}

/// Chooses the tighter of two ends.
trait Tighter<'i> {
    fn max_by_key(self, other: &'i Interval) -> Self;
    fn min_by_key(self, other: &'i Interval) -> Self;
}

impl<'i> Tighter<'i> for (&'i Vec<u8>, &'i Edge) {
    fn max_by_key(self, other: &'i Interval) -> Self {
        if other.from > *self.0 { (&other.from, &other.low) } else { self }
    }

    fn min_by_key(self, other: &'i Interval) -> Self {
        if other.to < *self.0 { (&other.to, &other.high) } else { self }
    }
}

impl Bounds {
    fn exact(intervals: Vec<Interval>) -> Bounds {
        Bounds { intervals, tightness: Tightness::Exact }
    }

    /// The interval of null and undefined, which are adjacent.
    #[must_use]
    pub fn null() -> Bounds {
        let (low, high) = (Interval::point(Val::Undefined), Interval::point(Val::Null));
        let both = Interval { to: high.to, high: high.high, point: false, ..low };
        Bounds::exact(vec![both])
    }

    fn inexact(intervals: Vec<Interval>) -> Bounds {
        Bounds { intervals, tightness: Tightness::Document }
    }

    /// The complement: values for which the predicate does not hold. `None` if the intervals are
    /// not exact.
    #[must_use]
    pub fn complement(self) -> Option<Bounds> {
        if self.tightness != Tightness::Exact {
            return None;
        }
        let mut rest = Interval::all();
        let mut out = Vec::new();
        for interval in self.intervals {
            if interval.from > rest.from {
                let high = interval.low.flipped();
                out.push(Interval { to: interval.from, high, ..rest.clone() });
            }
            rest.from = interval.to;
            rest.low = interval.high.flipped();
        }
        if rest.from < rest.to {
            out.push(rest);
        }
        Some(Bounds::exact(out))
    }

    /// The intersection of two predicates.
    #[must_use]
    pub fn and(self, other: &Bounds) -> Bounds {
        Bounds {
            intervals: intersect(&self.intervals, &other.intervals),
            tightness: self.tightness.max(other.tightness),
        }
    }
}

/// Steps that it takes to make the interval of a value.
const STEPS_OF_INTERVAL: usize = 16;

/// The intervals of keys that can pass a test; `None` if the test bounds nothing. They are valid
/// only for indexes that `fits` accepts for the test.
#[must_use]
pub fn of_test(test: &Test) -> Option<Bounds> {
    of_collated(test, None)
}

/// Whether a test can bound the keys of an index with this collation. Text requires the collation
/// of the query; other values have the same keys in every index.
#[must_use]
pub fn fits(test: &Test, collation: Option<&Collation>) -> bool {
    let plain = |value: &OwnedVal| collation.is_none() || !applies_to(value.get());
    match test {
        Test::Collated(collated) => collation == Some(&*collated.collation),
        Test::Eq(value)
        | Test::Lt(value)
        | Test::Lte(value)
        | Test::Gt(value)
        | Test::Gte(value) => plain(value),
        Test::In { values, regexes } => {
            values.iter().all(plain) && (regexes.is_empty() || collation.is_none())
        }
        Test::Regex(_) => collation.is_none(),
        Test::And(tests) | Test::ElemMatchValue(tests) => {
            tests.iter().all(|test| fits(test, collation))
        }
        Test::Not(inner) => fits(inner, collation),
        _ => true,
    }
}

fn of_collated(test: &Test, collation: Option<&Collation>) -> Option<Bounds> {
    let mut out = match test {
        Test::Collated(collated) => of_collated(&collated.test, Some(&collated.collation))?,
        Test::Eq(value) => of_equality(value.get(), collation),
        Test::Lt(value) => range(value.get(), false, false, collation)?,
        Test::Lte(value) => range(value.get(), false, true, collation)?,
        Test::Gt(value) => range(value.get(), true, false, collation)?,
        Test::Gte(value) => range(value.get(), true, true, collation)?,
        Test::In { values, regexes } => {
            let mut all = Bounds::exact(Vec::new());
            let values = values.iter().map(|value| of_equality(value.get(), collation));
            for found in values.chain(regexes.iter().map(of_regex)) {
                // `decide` asks whether the operation ended.
                if interrupt::should_stop(STEPS_OF_INTERVAL) {
                    break;
                }
                all.intervals.extend(found.intervals);
                all.tightness = all.tightness.max(found.tightness);
            }
            all
        }
        Test::Regex(regex) => of_regex(regex),
        Test::Mod { .. } => {
            Bounds { intervals: vec![Interval::numbers()], tightness: Tightness::Key }
        }
        Test::Type(types) => of_types(types)?,
        Test::And(tests) => {
            let mut known: Option<Bounds> = None;
            for test in tests {
                let Some(found) = of_collated(test, collation) else {
                    // A part without bounds must still be tested.
                    known = known.map(|known| Bounds { tightness: Tightness::Document, ..known });
                    continue;
                };
                known = Some(match known {
                    None => found,
                    Some(known) => known.and(&found),
                });
            }
            Bounds { tightness: Tightness::Document, ..known? }
        }
        _ => return None,
    };
    normalise(&mut out.intervals);
    Some(out)
}

/// The intervals of a regular expression: matching texts, and the regular expression itself as a
/// value.
fn of_regex(regex: &Regex) -> Bounds {
    let same = Interval::point(Val::Regex(regex.pattern(), regex.options()));
    let Some(prefix) = regex.prefix() else {
        let intervals = vec![Interval::of_type(Type::String), same];
        return Bounds { intervals, tightness: Tightness::Key };
    };
    let mut from = vec![Type::String.rank()];
    // Texts with zero bytes are encoded differently, so such a prefix gives no bounds.
    let plain = !prefix.as_bytes().iter().any(|byte| *byte < 2);
    if plain {
        from.extend_from_slice(prefix.as_bytes());
    }
    let texts = Interval {
        to: after(&from),
        from,
        point: false,
        low: Edge::value(Val::String(prefix), None, true),
        high: Edge::value(Val::String(&next_text(prefix)), None, false),
    };
    let exact = regex.is_prefix_only() && plain;
    let tightness = if exact { Tightness::Exact } else { Tightness::Key };
    Bounds { intervals: vec![texts, same], tightness }
}

/// The text of an upper bound for a prefix, as explain shows it.
fn next_text(prefix: &str) -> String {
    let mut chars: Vec<char> = prefix.chars().collect();
    if let Some(last) = chars.pop() {
        chars.push(char::from_u32(last as u32 + 1).unwrap_or(last));
    }
    chars.into_iter().collect()
}

/// The intervals of `$type`; `None` for types whose values are not encoded as themselves.
fn of_types(types: &query::filter::TypeSet) -> Option<Bounds> {
    let mut intervals = Vec::new();
    let mut tightness = Tightness::Exact;
    if types.has_number() {
        intervals.push(Interval::numbers());
    }
    for kind in types.types() {
        match kind {
            Type::Array | Type::Undefined | Type::Missing => return None,
            Type::Null => {
                intervals.push(Interval::point(Val::Null));
                tightness = Tightness::Document;
            }
            kind if kind.is_number() => {
                intervals.push(Interval::numbers());
                if !types.has_number() {
                    tightness = tightness.max(Tightness::Key);
                }
            }
            kind => {
                intervals.push(Interval::of_type(*kind));
                // Symbols sort with the texts.
                if matches!(kind, Type::String | Type::Symbol) {
                    tightness = tightness.max(Tightness::Key);
                }
            }
        }
    }
    Some(Bounds { intervals, tightness })
}

/// Sorts intervals and merges those that overlap.
pub fn normalise(intervals: &mut Vec<Interval>) {
    // `decide` asks whether the operation ended.
    let order = |a: &Interval, b: &Interval| a.from.cmp(&b.from).then(b.to.cmp(&a.to));
    if interrupt::sort_by(intervals, order).is_err() {
        return;
    }
    intervals.dedup_by(|next, known| {
        if next.from >= known.to {
            return false;
        }
        if next.to > known.to {
            known.to = std::mem::take(&mut next.to);
            known.high = next.high.clone();
            known.point = false;
        }
        true
    });
}

/// The intersection of two lists of intervals.
#[must_use]
pub fn intersect(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let mut out = Vec::new();
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        out.extend(one.intersect(other));
        if one.to <= other.to {
            left.next();
        } else {
            right.next();
        }
    }
    out
}

fn of_equality(value: Val<'_>, collation: Option<&Collation>) -> Bounds {
    match value {
        // Null also matches missing and undefined.
        Val::Null | Val::Undefined => {
            Bounds::inexact(vec![Interval::point(Val::Undefined), Interval::point(Val::Null)])
        }
        // An array has one entry per element; an array inside another array has one entry as a
        // whole.
        Val::Array(array) => {
            let first = array.first().map_or(Val::Undefined, |(_, element)| element.get());
            let mut points = vec![Interval::point_with(value, collation)];
            if array.is_empty() {
                points.push(Interval::point(Val::Undefined));
            } else if matches!(first, Val::Null | Val::Undefined) {
                points.push(Interval::point(Val::Null));
                points.push(Interval::point(Val::Undefined));
            } else {
                points.push(Interval::point_with(first, collation));
            }
            Bounds::inexact(points)
        }
        Val::Regex(..) => Bounds::inexact(vec![Interval::point(value)]),
        _ => Bounds::exact(vec![Interval::point_with(value, collation)]),
    }
}

/// The interval of a comparison: from the value to the end of its type.
fn range(
    value: Val<'_>,
    above: bool,
    inclusive: bool,
    collation: Option<&Collation>,
) -> Option<Bounds> {
    let is_nan = match value {
        Val::Double(n) => n.is_nan(),
        Val::Decimal(n) => n.is_nan(),
        _ => false,
    };
    let (low, high) = match value {
        // All keys lie between MinKey and MaxKey.
        Val::MinKey | Val::MaxKey => (Interval::all(), Interval::all()),
        // Inclusive comparisons with null match null only, those with NaN match NaN only.
        Val::Null | Val::Undefined if inclusive => return Some(of_equality(Val::Null, collation)),
        _ if is_nan && inclusive => return Some(of_equality(value, collation)),
        Val::Null | Val::Undefined => return Some(Bounds::exact(Vec::new())),
        _ if is_nan => return Some(Bounds::exact(Vec::new())),
        Val::Array(_) | Val::Missing => return None,
        value if value.is_number() => {
            let least = Interval::point(Val::Double(f64::NEG_INFINITY));
            (least, Interval::of_type(Type::Double))
        }
        _ => (Interval::of_type(value.kind()), Interval::of_type(value.kind())),
    };
    let key = keys::key_with(value, collation);
    let edge = Edge::value(value, collation, inclusive);
    let (from, to, low, high) = if above {
        let from = if inclusive { key } else { after(&key) };
        (from, high.to, edge, high.high)
    } else {
        let to = if inclusive { after(&key) } else { key };
        (low.from, to, low.low, edge)
    };
    let empty = from >= to;
    let interval = Interval { from, to, point: false, low, high };
    Some(Bounds::exact(if empty { Vec::new() } else { vec![interval] }))
}

/// The first key byte of a type, and the first one after it.
fn bracket(kind: Type) -> (u8, u8) {
    let rank = kind.rank();
    match kind {
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal => (rank, rank + 22),
        Type::Bool => (rank, rank + 2),
        _ => (rank, rank + 1),
    }
}

/// The bounds of a comparison in `$expr`: values compare across types. A missing value is below all
/// others.
#[must_use]
pub fn of_expression(
    operator: &str,
    value: Val<'_>,
    collation: Option<&Collation>,
) -> Option<Bounds> {
    let point = Interval::point_with(value, collation);
    let all = Interval::all();
    let low = || point.low.flipped();
    let interval = match operator {
        "$gt" => Interval { from: point.to, low: low(), ..all },
        "$gte" => Interval { from: point.from, low: point.low, ..all },
        "$lt" => Interval { high: low(), to: point.from, ..all },
        "$lte" => Interval { high: point.high, to: point.to, ..all },
        _ => return None,
    };
    Some(Bounds::inexact(vec![interval]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bounds: &Bounds) -> Vec<String> {
        bounds
            .intervals
            .iter()
            .map(|interval| super::super::edge::interval_text(interval, false))
            .collect()
    }

    #[test]
    fn complements() {
        let test = |value| Test::Eq(OwnedVal::new(value));
        let other = of_test(&test(Val::Int32(3))).and_then(Bounds::complement).expect("is exact");
        assert_eq!(texts(&other), ["[MinKey, 3)", "(3, MaxKey]"]);
        let all = Bounds::exact(vec![Interval::all()]).complement().expect("is exact");
        assert!(all.intervals.is_empty());
        assert!(of_test(&test(Val::Null)).and_then(Bounds::complement).is_none());
    }

    #[test]
    fn overlapping_intervals_become_one() {
        let regex = Regex::new("^s", "").expect("a pattern");
        let text = |text| OwnedVal::new(Val::String(text));
        let values = vec![text("sa"), text("t")];
        let test = Test::In { values, regexes: vec![regex] };
        let bounds = of_test(&test).expect("bounds");
        assert_eq!(texts(&bounds), ["[\"s\", \"t\")", "[\"t\", \"t\"]", "[/^s/, /^s/]"]);
    }

    #[test]
    fn shared_parts() {
        let range = |test: Test| of_test(&test).expect("bounds");
        let number = |n| OwnedVal::new(Val::Int32(n));
        let both = range(Test::Gte(number(1))).and(&range(Test::Lt(number(5))));
        assert_eq!(texts(&both), ["[1, 5)"]);
        assert_eq!(super::super::edge::interval_text(&both.intervals[0], true), "(5, 1]");
        assert!(range(Test::Gt(number(5))).and(&range(Test::Lt(number(3)))).intervals.is_empty());
    }
}
