//! Arithmetic across the number types, with MongoDB's promotions: the wider type of the operands,
//! and 64 bits (then double, or an error) where 32 bits overflow.

use crate::show::show;
use std::cmp::Ordering;
use value::{Code, Decimal128, Error, Result, Val, number};

/// A number as decimal.
pub(crate) fn to_decimal(value: Val<'_>) -> Decimal128 {
    match value {
        Val::Int32(n) => Decimal128::from_i32(n),
        Val::Int64(n) => Decimal128::from_i64(n),
        Val::Double(n) => Decimal128::from_f64(n),
        Val::Decimal(n) => n,
        _ => Decimal128::NAN,
    }
}

/// A number as double; NaN for other values.
pub(crate) fn to_double(value: Val<'_>) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// The whole numbers of two operands, if both are int or long.
fn longs(a: Val<'_>, b: Val<'_>) -> Option<(i64, i64)> {
    let long = |value: Val<'_>| match value {
        Val::Int32(n) => Some(i64::from(n)),
        Val::Int64(n) => Some(n),
        _ => None,
    };
    Some((long(a)?, long(b)?))
}

/// A 64-bit result in the type of its operands: 32 bits stay where they fit.
fn narrow(result: i64, a: Val<'_>, b: Val<'_>) -> Val<'static> {
    match (a, b, i32::try_from(result)) {
        (Val::Int32(_), Val::Int32(_), Ok(small)) => Val::Int32(small),
        _ => Val::Int64(result),
    }
}

fn combine(
    a: Val<'_>,
    b: Val<'_>,
    whole: fn(i64, i64) -> Option<i64>,
    double: fn(f64, f64) -> f64,
    decimal: fn(Decimal128, Decimal128) -> Decimal128,
) -> Option<Val<'static>> {
    if let Some((x, y)) = longs(a, b) {
        return whole(x, y).map(|result| narrow(result, a, b));
    }
    if matches!(a, Val::Decimal(_)) || matches!(b, Val::Decimal(_)) {
        return Some(Val::Decimal(decimal(to_decimal(a), to_decimal(b))));
    }
    Some(Val::Double(double(to_double(a), to_double(b))))
}

/// The sum of two numbers; `None` where 64 bits overflow.
pub(crate) fn checked_add(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    combine(a, b, i64::checked_add, |x, y| x + y, Decimal128::add)
}

/// The difference of two numbers; `None` where 64 bits overflow.
pub(crate) fn checked_sub(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    combine(a, b, i64::checked_sub, |x, y| x - y, Decimal128::sub)
}

/// The product of two numbers; `None` where 64 bits overflow.
pub(crate) fn checked_mul(a: Val<'_>, b: Val<'_>) -> Option<Val<'static>> {
    combine(a, b, i64::checked_mul, |x, y| x * y, Decimal128::mul)
}

/// Whether a number is zero.
pub(crate) fn is_zero(value: Val<'_>) -> bool {
    number::compare(value, Val::Int32(0)) == Some(Ordering::Equal)
}

/// Whether a number is below zero.
pub(crate) fn is_negative(value: Val<'_>) -> bool {
    number::compare(value, Val::Int32(0)) == Some(Ordering::Less) && !is_nan(value)
}

/// Whether a value is NaN.
pub(crate) fn is_nan(value: Val<'_>) -> bool {
    match value {
        Val::Double(n) => n.is_nan(),
        Val::Decimal(n) => n.is_nan(),
        _ => false,
    }
}

/// Refuses NaN where a whole number is needed.
pub(crate) fn refuse_nan(value: Val<'_>) -> Result<()> {
    if is_nan(value) {
        return Err(Error::new(Code(31109), "Can't coerce out of range value NaN to long"));
    }
    Ok(())
}

/// A whole number in 32 bits, if the value is a number that is one (`1.0` is).
pub(crate) fn to_i32_exact(value: Val<'_>) -> Option<i32> {
    i32::try_from(value.as_i64_exact()?).ok()
}

/// The number of values to keep: `n` of `$firstN` and the like.
pub(crate) fn check_count(value: Val<'_>) -> Result<usize> {
    if !value.is_number() {
        return Err(Error::new(
            Code(5787902),
            format!("Value for 'n' must be of integral type, but found {}", show(value)),
        ));
    }
    refuse_nan(value)?;
    let Some(count) = value.as_i64_exact() else {
        return Err(Error::new(
            Code(5787903),
            format!("Value for 'n' must be of integral type, but found {}", show(value)),
        ));
    };
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Error::new(
            Code(5787908),
            format!("'n' must be greater than 0, found {}", show(value)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_products_promote() {
        assert_eq!(checked_add(Val::Int32(i32::MAX), Val::Int32(1)), Some(Val::Int64(1 << 31)));
        assert_eq!(checked_add(Val::Int64(i64::MAX), Val::Int32(1)), None);
        assert_eq!(checked_mul(Val::Int32(2), Val::Double(1.5)), Some(Val::Double(3.0)));
        assert_eq!(checked_sub(Val::Int64(2), Val::Int32(3)), Some(Val::Int64(-1)));
    }
}
