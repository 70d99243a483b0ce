//! From a predicate to intervals of key bytes.
//!
//! An interval is a half-open range of encoded values, seen as prefixes: every key that continues
//! `from` is inside, none that continues `to` is. An interval may be wider than the predicate,
//! never narrower: the filter runs on what is found.

use query::filter::Test;
use value::collation::applies_to;
use value::{Collation, OwnedVal, Type, Val, ejson, keys};

/// A range of encoded values of one field, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First key bytes inside.
    pub from: Vec<u8>,
    /// First key bytes outside.
    pub to: Vec<u8>,
    /// Whether it holds one value only.
    pub point: bool,
    /// How explain shows it.
    pub shown: String,
}

/// The smallest byte string above everything that begins with `bytes`.
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
    /// Everything.
    #[must_use]
    pub fn all() -> Interval {
        Interval {
            from: Vec::new(),
            to: vec![0xFF],
            point: false,
            shown: "[MinKey, MaxKey]".to_owned(),
        }
    }

    /// One value.
    #[must_use]
    pub fn point(value: Val<'_>) -> Interval {
        Interval::point_with(value, None)
    }

    /// One value, in keys of a collation.
    fn point_with(value: Val<'_>, collation: Option<&Collation>) -> Interval {
        let from = keys::key_with(value, collation);
        let shown = show(value, collation);
        Interval { to: after(&from), from, point: true, shown: format!("[{shown}, {shown}]") }
    }

    /// The same values in a field that is stored descending.
    #[must_use]
    pub fn descending(&self) -> Interval {
        let flip = |bytes: &[u8]| {
            let mut flipped = bytes.to_vec();
            keys::invert(&mut flipped);
            flipped
        };
        let from = if self.to == [0xFF] { Vec::new() } else { after(&flip(&self.to)) };
        let to = if self.from.is_empty() { vec![0xFF] } else { after(&flip(&self.from)) };
        Interval { from, to, point: self.point, shown: self.shown.clone() }
    }

    /// What two intervals share.
    #[must_use]
    pub fn intersect(&self, other: &Interval) -> Option<Interval> {
        let from = self.from.clone().max(other.from.clone());
        let to = self.to.clone().min(other.to.clone());
        if from >= to {
            return None;
        }
        if self.point || other.point {
            let point = if self.point { self } else { other };
            return Some(point.clone());
        }
        let half = |shown: &str, at: usize| shown.split(", ").nth(at).unwrap_or("").to_owned();
        let lower = if from == self.from { &self.shown } else { &other.shown };
        let upper = if to == self.to { &self.shown } else { &other.shown };
        let shown = format!("{}, {}", half(lower, 0), half(upper, 1));
        Some(Interval { from, to, point: false, shown })
    }
}

fn show(value: Val<'_>, collation: Option<&Collation>) -> String {
    if let (Val::String(text), Some(collation)) = (value, collation) {
        let digits: String = collation.key(text).iter().map(|b| format!("{b:02x}")).collect();
        return format!("CollationKey(0x{digits})");
    }
    let doc = value::DocBuf::build(|out| {
        out.append("v", value);
    });
    let text = ejson::print(doc.as_doc(), ejson::Format::Shell);
    let inner = text.trim().trim_start_matches('{').trim_end_matches('}').trim();
    inner.strip_prefix("v:").unwrap_or(inner).trim().to_owned()
}

/// The intervals of keys that can pass a test; `None` when the test bounds nothing. They are for
/// indexes that `fits` the test.
#[must_use]
pub fn of_test(test: &Test) -> Option<Vec<Interval>> {
    of_collated(test, None)
}

/// Whether the keys of an index of this collation can be bounded by a test. Text needs the
/// collation of the query; all else stands in every index alike.
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
        Test::In { values, .. } => values.iter().all(plain),
        Test::Regex(_) => collation.is_none(),
        Test::And(tests) | Test::ElemMatchValue(tests) => {
            tests.iter().all(|test| fits(test, collation))
        }
        Test::Not(inner) => fits(inner, collation),
        _ => true,
    }
}

fn of_collated(test: &Test, collation: Option<&Collation>) -> Option<Vec<Interval>> {
    let mut out = match test {
        Test::Collated(collated) => of_collated(&collated.test, Some(&collated.collation))?,
        Test::Eq(value) => of_equality(value.get(), collation),
        Test::Lt(value) => vec![range(value.get(), false, false, collation)?],
        Test::Lte(value) => vec![range(value.get(), false, true, collation)?],
        Test::Gt(value) => vec![range(value.get(), true, false, collation)?],
        Test::Gte(value) => vec![range(value.get(), true, true, collation)?],
        Test::In { values, regexes } if regexes.is_empty() => {
            values.iter().flat_map(|value| of_equality(value.get(), collation)).collect()
        }
        Test::Regex(regex) => {
            let prefix = regex.prefix()?;
            let mut from = vec![Type::String.rank()];
            from.extend_from_slice(prefix.as_bytes());
            let stored = Val::Regex(regex.pattern(), regex.options());
            let shown = format!("[\"{prefix}\", \"{}\")", next_text(prefix));
            vec![Interval { to: after(&from), from, point: false, shown }, Interval::point(stored)]
        }
        Test::And(tests) => {
            let mut known: Option<Vec<Interval>> = None;
            for test in tests {
                let Some(found) = of_test(test) else { continue };
                known = Some(match known {
                    None => found,
                    Some(known) => intersect(&known, &found),
                });
            }
            known?
        }
        _ => return None,
    };
    normalise(&mut out);
    Some(out)
}

/// The text of an upper bound for a prefix, as explain shows it.
fn next_text(prefix: &str) -> String {
    let mut chars: Vec<char> = prefix.chars().collect();
    if let Some(last) = chars.pop() {
        chars.push(char::from_u32(last as u32 + 1).unwrap_or(last));
    }
    chars.into_iter().collect()
}

/// Sorts intervals and drops duplicates.
pub fn normalise(intervals: &mut Vec<Interval>) {
    intervals.sort_by(|a, b| a.from.cmp(&b.from));
    intervals.dedup();
}

/// What two lists of intervals share.
#[must_use]
pub fn intersect(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    a.iter().flat_map(|a| b.iter().filter_map(move |b| a.intersect(b))).collect()
}

fn of_equality(value: Val<'_>, collation: Option<&Collation>) -> Vec<Interval> {
    match value {
        // Null is also what is missing, and undefined.
        Val::Null | Val::Undefined => {
            vec![Interval::point(Val::Undefined), Interval::point(Val::Null)]
        }
        // An array stands in the index by its elements; inside another array, as a whole.
        Val::Array(array) => {
            let first = array.first().map_or(Val::Undefined, |(_, element)| element.get());
            let mut points = vec![Interval::point_with(value, collation)];
            if matches!(first, Val::Null | Val::Undefined) {
                points.push(Interval::point(Val::Null));
                points.push(Interval::point(Val::Undefined));
            } else {
                points.push(Interval::point_with(first, collation));
            }
            points
        }
        _ => vec![Interval::point_with(value, collation)],
    }
}

/// The interval of a comparison: from the value to the end of its type.
fn range(
    value: Val<'_>,
    above: bool,
    inclusive: bool,
    collation: Option<&Collation>,
) -> Option<Interval> {
    let (low, high) = match value {
        Val::MinKey | Val::MaxKey => return Some(Interval::all()),
        // Comparisons with null mean null itself; with arrays and undefined, no simple range.
        Val::Null | Val::Array(_) | Val::Undefined | Val::Missing => return None,
        _ => bracket(value.kind()),
    };
    let key = keys::key_with(value, collation);
    let shown = show(value, collation);
    let (open, close) = if inclusive { ("[", "]") } else { ("(", ")") };
    let (lowest, highest) = edges(value);
    Some(if above {
        let from = if inclusive { key } else { after(&key) };
        Interval { from, to: vec![high], point: false, shown: format!("{open}{shown}, {highest}") }
    } else {
        let to = if inclusive { after(&key) } else { key };
        Interval { from: vec![low], to, point: false, shown: format!("{lowest}, {shown}{close}") }
    })
}

/// First key byte of a type and first one behind it.
fn bracket(kind: Type) -> (u8, u8) {
    let rank = kind.rank();
    match kind {
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal => (rank, rank + 22),
        Type::Bool => (rank, rank + 2),
        _ => (rank, rank + 1),
    }
}

/// How explain shows the ends of a type.
fn edges(value: Val<'_>) -> (&'static str, &'static str) {
    match value {
        Val::String(_) | Val::Symbol(_) => ("[\"\"", "{})"),
        Val::Document(_) => ("[{}", "[])"),
        Val::Bool(_) => ("[false", "true]"),
        Val::DateTime(_) => ("[new Date(-9223372036854775808)", "new Date(9223372036854775807)]"),
        Val::ObjectId(_) => {
            ("[ObjectId('000000000000000000000000')", "ObjectId('ffffffffffffffffffffffff')]")
        }
        Val::Timestamp(_) => ("[Timestamp(0, 0)", "Timestamp(4294967295, 4294967295)]"),
        _ => ("[-inf.0", "inf.0]"),
    }
}
