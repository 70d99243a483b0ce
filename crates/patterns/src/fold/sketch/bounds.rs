//! Values with their bounds, as clients see them.

use value::{DocBuf, OwnedVal, Val};

/// The confidence of bounds that always hold.
pub(super) const EXACTLY: f64 = 1.0;
/// How many standard errors the other bounds are away, and their confidence.
pub(super) const PROBABLY: (f64, f64) = (2.0, 0.95);

/// A value and its bounds.
#[derive(Clone, Debug)]
pub enum Bounded {
    /// One value.
    One {
        /// The value.
        value: OwnedVal,
        /// The true value is not below this.
        low: OwnedVal,
        /// The true value is not above this.
        high: OwnedVal,
        /// How often the bounds hold.
        confidence: f64,
    },
}

impl Bounded {
    /// The value alone.
    #[must_use]
    pub fn into_value(self) -> OwnedVal {
        match self {
            Bounded::One { value, .. } => value,
        }
    }

    /// The value with its bounds, and the time at which it was computed.
    #[must_use]
    pub fn into_document(self, at: Option<i64>) -> OwnedVal {
        match self {
            Bounded::One { value, low, high, confidence } => {
                let doc = DocBuf::build(|out| {
                    out.raw("value", value.raw());
                    out.raw("low", low.raw());
                    out.raw("high", high.raw());
                    out.f64("confidence", confidence);
                    out.append("asOf", at.map_or(Val::Null, Val::DateTime));
                });
                OwnedVal::new(Val::Document(doc.as_doc()))
            }
        }
    }
}
