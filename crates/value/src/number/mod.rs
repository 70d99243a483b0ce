//! Numbers across types: exact conversions and exact comparison of int, long, double and decimal.
//!
//! `arithmetic` computes with MongoDB's promotion rules, `sum` adds up many numbers, `exact` doubles
//! without rounding.

mod arithmetic;
mod exact;
mod sum;

pub use crate::double::{compare_f64, compare_i64_f64, double_to_i64_exact};
pub use arithmetic::{
    add, checked_add, checked_multiply, divide, is_zero, multiply, remainder, subtract, to_decimal,
    to_i64_truncated,
};
pub use exact::ExactSum;
pub use sum::Sum;

use crate::{Decimal128, Val};
use std::cmp::Ordering;

/// Compares two numbers of any types by value; `None` unless both are numbers.
#[must_use]
pub fn compare(a: Val<'_>, b: Val<'_>) -> Option<Ordering> {
    Some(match (a, b) {
        (Val::Int32(a), Val::Int32(b)) => a.cmp(&b),
        (Val::Int64(a), Val::Int64(b)) => a.cmp(&b),
        (Val::Int32(a), Val::Int64(b)) => i64::from(a).cmp(&b),
        (Val::Int64(a), Val::Int32(b)) => a.cmp(&i64::from(b)),
        (Val::Double(a), Val::Double(b)) => compare_f64(a, b),
        (Val::Int32(a), Val::Double(b)) => compare_i64_f64(i64::from(a), b),
        (Val::Int64(a), Val::Double(b)) => compare_i64_f64(a, b),
        (Val::Double(a), Val::Int32(b)) => compare_i64_f64(i64::from(b), a).reverse(),
        (Val::Double(a), Val::Int64(b)) => compare_i64_f64(b, a).reverse(),
        (Val::Decimal(a), Val::Decimal(b)) => a.compare(b),
        (Val::Decimal(a), Val::Double(b)) => a.compare_f64(b),
        (Val::Double(a), Val::Decimal(b)) => b.compare_f64(a).reverse(),
        (Val::Decimal(a), Val::Int32(b)) => a.compare(Decimal128::from_i64(i64::from(b))),
        (Val::Decimal(a), Val::Int64(b)) => a.compare(Decimal128::from_i64(b)),
        (Val::Int32(a), Val::Decimal(b)) => Decimal128::from_i64(i64::from(a)).compare(b),
        (Val::Int64(a), Val::Decimal(b)) => Decimal128::from_i64(a).compare(b),
        _ => return None,
    })
}
