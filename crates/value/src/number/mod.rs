//! Numbers across types: exact conversions and exact comparison of int, long, double and decimal.
//!
//! `arithmetic` computes with MongoDB's promotion rules, `sum` adds up many numbers, `exact` doubles
//! without rounding.

mod arithmetic;
mod exact;
mod sum;

pub use arithmetic::{
    add, checked_add, checked_multiply, divide, is_zero, multiply, remainder, subtract, to_decimal,
    to_i64_truncated,
};
pub use exact::ExactSum;
pub use sum::Sum;

use crate::{Decimal128, Val};
use std::cmp::Ordering;

/// 2^63 as a double: the first one that is too large for a long.
const LONG_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// The whole number that a double is, if it is one and fits into a long.
#[must_use]
pub fn double_to_i64_exact(n: f64) -> Option<i64> {
    if n.trunc() == n && (-LONG_LIMIT..LONG_LIMIT).contains(&n) { Some(n as i64) } else { None }
}

/// Compares a long with a double exactly; NaN is below everything.
#[must_use]
pub fn compare_i64_f64(long: i64, double: f64) -> Ordering {
    if double.is_nan() || double < -LONG_LIMIT {
        return Ordering::Greater;
    }
    if double >= LONG_LIMIT {
        return Ordering::Less;
    }
    let whole = double.trunc();
    long.cmp(&(whole as i64)).then_with(|| {
        let fraction = double - whole;
        0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)
    })
}

/// Compares doubles as MongoDB does: NaN equals NaN and is below everything, -0 equals 0.
#[must_use]
pub fn compare_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

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
