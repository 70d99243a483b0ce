//! Two numbers of any types, computed as MongoDB does: int widens to long, long to double, and
//! everything to decimal where one operand is a decimal.
//!
//! The plain functions are those of aggregation, where a long that overflows becomes a double; the
//! checked ones are those of updates, where it is an error. `None` means that an operand is no
//! number (or, checked, that a long overflowed).

use crate::{Decimal128, Val};

/// Two operands brought to one type.
enum Pair {
    Int(i32, i32),
    Long(i64, i64),
    Double(f64, f64),
    Decimal(Decimal128, Decimal128),
}

fn pair(a: Val<'_>, b: Val<'_>) -> Option<Pair> {
    Some(match (a, b) {
        (Val::Int32(a), Val::Int32(b)) => Pair::Int(a, b),
        (Val::Int32(_) | Val::Int64(_), Val::Int32(_) | Val::Int64(_)) => {
            Pair::Long(a.as_i64_exact()?, b.as_i64_exact()?)
        }
        (Val::Decimal(_), _) | (_, Val::Decimal(_)) => {
            Pair::Decimal(to_decimal(a)?, to_decimal(b)?)
        }
        _ => Pair::Double(a.as_f64()?, b.as_f64()?),
    })
}

/// The number as a decimal; a double keeps 15 digits.
#[must_use]
pub fn to_decimal(value: Val<'_>) -> Option<Decimal128> {
    Some(match value {
        Val::Int32(n) => Decimal128::from_i32(n),
        Val::Int64(n) => Decimal128::from_i64(n),
        Val::Double(n) => Decimal128::from_f64(n),
        Val::Decimal(n) => n,
        _ => return None,
    })
}

/// The whole part as a long, if this is a number and it fits; NaN does not.
#[must_use]
pub fn to_i64_truncated(value: Val<'_>) -> Option<i64> {
    match value {
        Val::Double(n) => super::double_to_i64_exact(n.trunc()),
        Val::Decimal(n) => n.to_i64_truncate(),
        _ => value.as_i64_exact(),
    }
}

/// Whether this is a number that is zero.
#[must_use]
pub fn is_zero(value: Val<'_>) -> bool {
    value.is_number() && !value.truthy()
}

/// The operation on each type; a long that overflows goes to `widened`.
fn compute(
    pair: Pair,
    long: fn(i64, i64) -> Option<i64>,
    widened: fn(f64, f64) -> Option<f64>,
    decimal: fn(Decimal128, Decimal128) -> Decimal128,
) -> Option<Val<'static>> {
    match pair {
        // Two ints never overflow a long.
        Pair::Int(a, b) => long(i64::from(a), i64::from(b)).map(int_or_long),
        Pair::Long(a, b) => match long(a, b) {
            Some(n) => Some(Val::Int64(n)),
            None => widened(a as f64, b as f64).map(Val::Double),
        },
        Pair::Double(a, b) => widened(a, b).map(Val::Double),
        Pair::Decimal(a, b) => Some(Val::Decimal(decimal(a, b))),
    }
}

fn int_or_long(n: i64) -> Val<'static> {
    i32::try_from(n).map_or(Val::Int64(n), Val::Int32)
}

/// As `compute`, but a long that overflows is nothing.
fn compute_checked(
    pair: Pair,
    long: fn(i64, i64) -> Option<i64>,
    double: fn(f64, f64) -> Option<f64>,
    decimal: fn(Decimal128, Decimal128) -> Decimal128,
) -> Option<Val<'static>> {
    match pair {
        Pair::Long(a, b) => long(a, b).map(Val::Int64),
        pair => compute(pair, long, double, decimal),
    }
}

/// Sum of two. For more than two use `Sum`, which keeps what doubles lose.
#[must_use]
pub fn add(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    compute(pair(a, b)?, i64::checked_add, |a, b| Some(a + b), Decimal128::add)
}

/// Difference.
#[must_use]
pub fn subtract(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    compute(pair(a, b)?, i64::checked_sub, |a, b| Some(a - b), Decimal128::sub)
}

/// Product.
#[must_use]
pub fn multiply(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    compute(pair(a, b)?, i64::checked_mul, |a, b| Some(a * b), Decimal128::mul)
}

/// Sum for `$inc`: `None` also when a long overflows.
#[must_use]
pub fn checked_add(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    compute_checked(pair(a, b)?, i64::checked_add, |a, b| Some(a + b), Decimal128::add)
}

/// Product for `$mul`: `None` also when a long overflows.
#[must_use]
pub fn checked_multiply(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    compute_checked(pair(a, b)?, i64::checked_mul, |a, b| Some(a * b), Decimal128::mul)
}

/// Quotient, always a double or a decimal. By zero it is infinite or NaN; MongoDB refuses that,
/// so ask `is_zero` before.
#[must_use]
pub fn divide(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    Some(match pair(a, b)? {
        Pair::Int(a, b) => Val::Double(f64::from(a) / f64::from(b)),
        Pair::Long(a, b) => Val::Double(a as f64 / b as f64),
        Pair::Double(a, b) => Val::Double(a / b),
        Pair::Decimal(a, b) => Val::Decimal(a.div(b)),
    })
}

/// Remainder with the sign of `a`. By zero it is NaN; MongoDB refuses that, so ask `is_zero`
/// before.
#[must_use]
pub fn remainder(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    // A whole double that fits an int counts as one when it divides a whole number.
    let b = match (a, b) {
        (Val::Int32(_) | Val::Int64(_), Val::Double(n)) => {
            match super::double_to_i64_exact(n).and_then(|n| i32::try_from(n).ok()) {
                Some(whole) => Val::Int32(whole),
                None => b,
            }
        }
        _ => b,
    };
    if is_zero(b) && !matches!((a, b), (Val::Decimal(_), _) | (_, Val::Decimal(_))) {
        return a.is_number().then_some(Val::Double(f64::NAN));
    }
    Some(match pair(a, b)? {
        Pair::Int(a, b) => Val::Int32(a.wrapping_rem(b)),
        Pair::Long(a, b) => Val::Int64(a.wrapping_rem(b)),
        Pair::Double(a, b) => Val::Double(a % b),
        Pair::Decimal(a, b) => Val::Decimal(a.rem(b)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Val<'static> {
        Val::Decimal(Decimal128::parse(text).unwrap())
    }

    #[test]
    fn whole_numbers_widen() {
        let max = Val::Int32(i32::MAX);
        assert_eq!(add(max, Val::Int32(1)), Some(Val::Int64(1 << 31)));
        assert_eq!(subtract(Val::Int32(i32::MIN), Val::Int32(1)), Some(Val::Int64(-(1 << 31) - 1)));
        assert_eq!(multiply(max, max), Some(Val::Int64(4_611_686_014_132_420_609)));
        assert_eq!(add(Val::Int64(1), Val::Int32(2)), Some(Val::Int64(3)));
        let top = Val::Int64(i64::MAX);
        assert_eq!(add(top, Val::Int32(1)), Some(Val::Double(9.223_372_036_854_776e18)));
        assert_eq!(checked_add(top, Val::Int32(1)), None);
        assert_eq!(checked_add(max, Val::Int32(1)), Some(Val::Int64(1 << 31)));
        assert_eq!(checked_add(top, Val::Double(1.0)), Some(Val::Double(9.223_372_036_854_776e18)));
        assert_eq!(checked_multiply(Val::Int64(1 << 62), Val::Int32(2)), None);
        assert_eq!(
            multiply(Val::Int64(1 << 62), Val::Int32(4)),
            Some(Val::Double(1.844_674_407_370_955_2e19))
        );
    }

    #[test]
    fn doubles_become_decimals_of_fifteen_digits() {
        let tenth = Val::Double(0.1);
        assert_eq!(subtract(tenth, decimal("1")), Some(decimal("-0.900000000000000")));
        assert_eq!(multiply(tenth, decimal("1")), Some(decimal("0.100000000000000")));
        assert_eq!(checked_add(decimal("1"), tenth), Some(decimal("1.100000000000000")));
        assert_eq!(divide(decimal("1"), tenth), Some(decimal("1E+1")));
        assert_eq!(remainder(decimal("1"), Val::Double(0.3)), Some(decimal("0.100000000000000")));
    }

    #[test]
    fn remainders_keep_the_type_of_whole_numbers() {
        let seven = Val::Int32(7);
        assert_eq!(remainder(seven, Val::Int32(3)), Some(Val::Int32(1)));
        assert_eq!(remainder(Val::Int32(-7), Val::Int32(3)), Some(Val::Int32(-1)));
        assert_eq!(remainder(seven, Val::Double(3.0)), Some(Val::Int32(1)));
        assert_eq!(remainder(Val::Int64(7), Val::Double(3.0)), Some(Val::Int64(1)));
        assert_eq!(remainder(seven, Val::Double(3.5)), Some(Val::Double(0.0)));
        assert_eq!(remainder(Val::Double(7.0), Val::Int32(3)), Some(Val::Double(1.0)));
        let far = Val::Double(1_099_511_627_776.0);
        assert_eq!(remainder(seven, far), Some(Val::Double(7.0)));
        assert_eq!(remainder(Val::Int32(i32::MIN), Val::Int32(-1)), Some(Val::Int32(0)));
        assert_eq!(remainder(Val::Int64(i64::MIN), Val::Int64(-1)), Some(Val::Int64(0)));
        assert!(matches!(remainder(seven, Val::Int32(0)), Some(Val::Double(n)) if n.is_nan()));
    }

    #[test]
    fn quotients_are_never_whole_types() {
        assert_eq!(divide(Val::Int32(6), Val::Int32(3)), Some(Val::Double(2.0)));
        assert_eq!(divide(decimal("1"), Val::Int32(8)), Some(decimal("0.125")));
        assert_eq!(divide(Val::Null, Val::Int32(3)), None);
        assert_eq!(add(Val::Int32(3), Val::String("x")), None);
    }
}
