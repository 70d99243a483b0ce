//! The ends of intervals in the form of explain: `[1, inf.0]`, `("a", {})`, `new Date(0)`.

use super::bounds::Interval;
use std::fmt::Write as _;
use std::sync::Arc;
use value::{Collation, ObjectId, OwnedVal, RawDoc, Type, Val, Writer};

/// One end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    at: At,
    /// Whether the end belongs to the interval.
    pub inclusive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    /// The smallest value of a type.
    Low(Type),
    /// The largest value of a type, or else the first value of the next type.
    High(Type),
    Value(OwnedVal),
    /// The collation key of a text.
    Collated(Box<[u8]>),
    /// Text that is not a value.
    Text(Box<str>),
}

impl Edge {
    /// The lower end of a type.
    #[must_use]
    pub fn low(kind: Type, inclusive: bool) -> Edge {
        Edge { at: At::Low(kind), inclusive }
    }

    /// The upper end of a type. Types without a largest value end before the next type.
    #[must_use]
    pub fn high(kind: Type, inclusive: bool) -> Edge {
        let inclusive = inclusive && has_largest(kind);
        Edge { at: At::High(kind), inclusive }
    }

    /// A value; text under a collation is shown as its collation key.
    #[must_use]
    pub fn value(value: Val<'_>, collation: Option<&Collation>, inclusive: bool) -> Edge {
        let at = match (value, collation) {
            (Val::String(text), Some(collation)) => At::Collated(collation.key(text).into()),
            _ => At::Value(OwnedVal::new(value)),
        };
        Edge { at, inclusive }
    }

    /// Text that is not a value.
    #[must_use]
    pub fn text(text: &str) -> Edge {
        Edge { at: At::Text(text.into()), inclusive: true }
    }

    /// The same point as the opposite end of an adjacent interval.
    #[must_use]
    pub fn flipped(&self) -> Edge {
        Edge { at: self.at.clone(), inclusive: !self.inclusive }
    }

    /// Whether a type has only one value.
    #[must_use]
    pub fn is_single(kind: Type) -> bool {
        matches!(kind, Type::MinKey | Type::MaxKey | Type::Null | Type::Undefined)
    }

    /// Appends the value at this end.
    pub fn append(&self, out: &mut Writer<'_>, name: &str) {
        match &self.at {
            At::Value(value) => {
                out.raw(name, value.raw());
            }
            At::Collated(key) => {
                out.append(name, Val::Binary(0, key));
            }
            At::Text(text) => {
                out.str(name, text);
            }
            At::Low(kind) => {
                out.append(name, low_value(*kind));
            }
            At::High(kind) => {
                out.append(name, high_value(*kind));
            }
        }
    }

    fn to_text(&self) -> String {
        match &self.at {
            At::Value(value) => text(value.get()),
            At::Collated(key) => format!("CollationKey(0x{})", hex(key)),
            At::Text(text) => text.to_string(),
            At::Low(kind) => text(low_value(*kind)),
            At::High(kind) => text(high_value(*kind)),
        }
    }
}

/// An interval as text, in the direction in which it is read.
#[must_use]
pub fn interval_text(interval: &Interval, backwards: bool) -> String {
    let (first, last) = match backwards {
        false => (&interval.low, &interval.high),
        true => (&interval.high, &interval.low),
    };
    let open = if first.inclusive { '[' } else { '(' };
    let close = if last.inclusive { ']' } else { ')' };
    format!("{open}{}, {}{close}", first.to_text(), last.to_text())
}

fn has_largest(kind: Type) -> bool {
    kind.is_number()
        || Edge::is_single(kind)
        || matches!(kind, Type::Bool | Type::DateTime | Type::Timestamp | Type::ObjectId)
}

fn low_value(kind: Type) -> Val<'static> {
    match kind {
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal => Val::Double(f64::NEG_INFINITY),
        Type::String | Type::Symbol => Val::String(""),
        Type::Document => Val::Document(RawDoc::empty()),
        Type::Array => Val::Array(RawDoc::empty()),
        Type::Binary => Val::Binary(0, &[]),
        Type::ObjectId => Val::ObjectId(ObjectId([0; 12])),
        Type::Bool => Val::Bool(false),
        Type::DateTime => Val::DateTime(i64::MIN),
        Type::Timestamp => Val::Timestamp(0),
        Type::Regex => Val::Regex("", ""),
        Type::Null => Val::Null,
        Type::Undefined => Val::Undefined,
        Type::MaxKey => Val::MaxKey,
        Type::Code | Type::CodeWithScope | Type::DbPointer => Val::Code(""),
        Type::MinKey | Type::Missing => Val::MinKey,
    }
}

fn high_value(kind: Type) -> Val<'static> {
    match kind {
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal => Val::Double(f64::INFINITY),
        Type::String | Type::Symbol => low_value(Type::Document),
        Type::Document => low_value(Type::Array),
        Type::Array => low_value(Type::Binary),
        Type::Binary => low_value(Type::ObjectId),
        Type::ObjectId => Val::ObjectId(ObjectId([0xFF; 12])),
        Type::Bool => Val::Bool(true),
        Type::DateTime => Val::DateTime(i64::MAX),
        Type::Timestamp => Val::Timestamp(u64::MAX),
        Type::MinKey => Val::MinKey,
        Type::Null => Val::Null,
        Type::Undefined => Val::Undefined,
        _ => Val::MaxKey,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A value as text, in the form of MongoDB's explain.
fn text(value: Val<'_>) -> String {
    match value {
        Val::MinKey => "MinKey".to_owned(),
        Val::MaxKey => "MaxKey".to_owned(),
        Val::Undefined => "undefined".to_owned(),
        Val::Null | Val::Missing => "null".to_owned(),
        Val::Bool(truth) => truth.to_string(),
        Val::Int32(n) => n.to_string(),
        Val::Int64(n) => n.to_string(),
        Val::Double(n) => double(n),
        Val::Decimal(n) => n.to_string(),
        Val::DateTime(ms) => format!("new Date({ms})"),
        Val::ObjectId(id) => format!("ObjectId('{id}')"),
        Val::Timestamp(time) => format!("Timestamp({}, {})", time >> 32, time & 0xFFFF_FFFF),
        Val::Binary(kind, bytes) => {
            format!("BinData({kind}, {})", hex(bytes).to_uppercase())
        }
        Val::Regex(pattern, options) => format!("/{pattern}/{options}"),
        Val::Document(doc) if doc.is_empty() => "{}".to_owned(),
        Val::Array(doc) if doc.is_empty() => "[]".to_owned(),
        Val::Document(doc) => {
            let fields = doc.iter().map(|(name, value)| format!("{name}: {}", text(value.get())));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Val::Array(doc) => {
            let values = doc.iter().map(|(_, value)| text(value.get()));
            format!("[ {} ]", values.collect::<Vec<_>>().join(", "))
        }
        value => value::ejson::print_value(value, value::ejson::Format::Shell),
    }
}

fn double(n: f64) -> String {
    if n.is_nan() {
        "nan.0".to_owned()
    } else if n.is_infinite() {
        if n < 0.0 { "-inf.0".to_owned() } else { "inf.0".to_owned() }
    } else if n.fract() == 0.0 && n.abs() < 1e15 {
        format!("{n:.1}")
    } else {
        n.to_string()
    }
}

/// The intervals of several fields with their names; shared.
pub type Columns = Arc<[(String, Vec<Interval>)]>;
