//! Values with their bounds, as clients see them.

use value::writer::{ArrayWriter, write_array};
use value::{DocBuf, OwnedVal, RawDoc, Val, Writer};

/// The confidence of bounds that always hold.
pub(super) const EXACTLY: f64 = 1.0;
/// How many standard errors the other bounds are away, and their confidence.
pub(super) const PROBABLY: (f64, f64) = (2.0, 0.95);

/// A value and its bounds.
#[derive(Clone, Debug)]
pub struct BoundedValue {
    /// The value.
    pub value: OwnedVal,
    /// The true value is not below this.
    pub low: OwnedVal,
    /// The true value is not above this.
    pub high: OwnedVal,
    /// How often the bounds hold.
    pub confidence: f64,
}

/// The value of a field, and its bounds.
#[derive(Clone, Debug)]
pub enum Bounded {
    /// One value.
    One(BoundedValue),
    /// A list of values.
    Many(Vec<BoundedValue>),
    /// Values with their exact counts.
    Counted(Vec<(OwnedVal, i64)>),
}

impl BoundedValue {
    /// A value without an error.
    #[must_use]
    pub fn exactly(value: Val<'_>) -> BoundedValue {
        let value = OwnedVal::new(value);
        BoundedValue { low: value.clone(), high: value.clone(), value, confidence: EXACTLY }
    }

    fn write(&self, out: &mut Writer<'_>, at: Option<i64>) {
        out.raw("value", self.value.raw());
        out.raw("low", self.low.raw());
        out.raw("high", self.high.raw());
        out.f64("confidence", self.confidence);
        out.append("asOf", at.map_or(Val::Null, Val::DateTime));
    }
}

impl Bounded {
    /// The value alone.
    #[must_use]
    pub fn into_value(self) -> OwnedVal {
        match self {
            Bounded::One(one) => one.value,
            Bounded::Many(list) => {
                array(|out| list.iter().for_each(|one| out.push_raw(one.value.raw())))
            }
            Bounded::Counted(list) => counted(&list, false),
        }
    }

    /// The value with its bounds, and the time at which it was computed.
    #[must_use]
    pub fn into_document(self, at: Option<i64>) -> OwnedVal {
        match self {
            Bounded::One(one) => {
                let doc = DocBuf::build(|out| one.write(out, at));
                OwnedVal::new(Val::Document(doc.as_doc()))
            }
            Bounded::Many(list) => {
                array(|out| list.iter().for_each(|one| out.push_doc(|out| one.write(out, at))))
            }
            Bounded::Counted(list) => counted(&list, true),
        }
    }
}

fn array(write: impl FnOnce(&mut ArrayWriter<'_>)) -> OwnedVal {
    let mut bytes = Vec::new();
    write_array(&mut bytes, write);
    OwnedVal::new(Val::Array(RawDoc::new(&bytes)))
}

fn counted(list: &[(OwnedVal, i64)], bounds: bool) -> OwnedVal {
    let names: &[&str] = if bounds { &["count", "low", "high"] } else { &["count"] };
    array(|out| {
        for (value, count) in list {
            out.push_doc(|out| {
                out.raw("value", value.raw());
                for name in names {
                    out.append(name, whole_number(*count));
                }
            });
        }
    })
}

/// A count in the type that `$count` returns.
pub fn whole_number(number: i64) -> Val<'static> {
    i32::try_from(number).map_or(Val::Int64(number), Val::Int32)
}
