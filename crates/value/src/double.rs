//! Doubles and whole numbers: exact conversion and comparison.

use std::cmp::Ordering;

/// 2^63 as a double: the first one that is too large for a long.
const LONG_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// The integer that a double equals, if it is one and fits into a long.
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
