//! Decimals to and from whole numbers and doubles.

use super::arithmetic::strip_zeros;
use super::wide::Wide;
use super::{Decimal128, Intermediate, Parts, round};
use crate::double;
use std::cmp::Ordering;

/// Holds any finite double times the power of ten that brings 40 digits before the point, and the
/// other way round: 1408 bits against at most 10^375 and 53 bits more.
type Scaled = Wide<22>;

/// Digits that MongoDB keeps when it makes a decimal of a double.
const DOUBLE_DIGITS: u32 = 15;

impl Decimal128 {
    /// The decimal of a whole number.
    #[must_use]
    pub fn from_i32(n: i32) -> Decimal128 {
        Decimal128::from_i64(i64::from(n))
    }

    /// The decimal of a whole number.
    #[inline]
    #[must_use]
    pub fn from_i64(n: i64) -> Decimal128 {
        Decimal128::pack(n < 0, u128::from(n.unsigned_abs()), 0)
    }

    /// The decimal of a whole number.
    #[must_use]
    pub fn from_u64(n: u64) -> Decimal128 {
        Decimal128::pack(false, u128::from(n), 0)
    }

    /// The decimal of a double as MongoDB converts it: to 15 significant digits.
    #[must_use]
    pub fn from_f64(n: f64) -> Decimal128 {
        from_double(n, DOUBLE_DIGITS)
    }

    /// The exact value of a double, rounded half even to 34 digits.
    #[must_use]
    pub fn from_f64_34_digits(n: f64) -> Decimal128 {
        let number = from_double(n, super::DIGITS);
        // Zeros after the point say nothing if the digits before them are the whole value.
        let (back, exact) = number.to_f64_truncated();
        let Parts { negative, coefficient, exponent } = number.parts();
        let whole_value = exact && back == n && n.is_finite();
        if !whole_value || coefficient == 0 {
            return number;
        }
        let wide = Intermediate::from_u128(coefficient);
        let (wide, exponent) = strip_zeros(wide, i64::from(exponent), 0);
        round(negative, wide, exponent, false).0
    }

    /// The whole number that this is, if it is one and fits.
    #[must_use]
    pub fn to_i64_exact(self) -> Option<i64> {
        let (whole, fraction) = self.split_whole()?;
        if fraction { None } else { signed(self.is_negative(), whole) }
    }

    /// The whole number towards zero, if it fits.
    #[must_use]
    pub fn to_i64_truncate(self) -> Option<i64> {
        let (whole, _) = self.split_whole()?;
        signed(self.is_negative(), whole)
    }

    /// The nearest whole number, halves to even, if it fits.
    #[must_use]
    pub fn to_i64_round(self) -> Option<i64> {
        self.round_to(0).to_i64_exact()
    }

    /// The whole part of the magnitude and whether there is a fraction, if the whole part has at
    /// most 34 digits.
    fn split_whole(self) -> Option<(u128, bool)> {
        if !self.is_finite() {
            return None;
        }
        let parts = self.parts();
        let scale = 10u128.checked_pow(parts.exponent.unsigned_abs());
        if parts.exponent >= 0 {
            if parts.coefficient == 0 {
                return Some((0, false));
            }
            return Some((parts.coefficient.checked_mul(scale?)?, false));
        }
        let Some(scale) = scale else { return Some((0, parts.coefficient != 0)) };
        Some((parts.coefficient / scale, !parts.coefficient.is_multiple_of(scale)))
    }

    /// The magnitude as whole part and fraction, the fraction times 10^34 and cut off there. Only
    /// for finite values with a whole part below 2^63.
    #[must_use]
    pub fn integer_and_fraction(self) -> Option<(u128, u128)> {
        let (whole, fraction) = self.split_whole()?;
        if whole >= 1 << 63 {
            return None;
        }
        if !fraction {
            return Some((whole, 0));
        }
        let parts = self.parts();
        // There is a fraction, so the exponent is negative.
        let places = parts.exponent.unsigned_abs();
        let rest = match 10u128.checked_pow(places) {
            Some(scale) => parts.coefficient % scale,
            None => parts.coefficient,
        };
        let scaled = if places <= super::DIGITS {
            // A rest below 10^places times 10^(34 - places) stays below 10^34.
            rest * 10u128.pow(super::DIGITS - places)
        } else {
            10u128.checked_pow(places - super::DIGITS).map_or(0, |scale| rest / scale)
        };
        Some((whole, scaled))
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        let sign = if self.is_negative() { -1.0 } else { 1.0 };
        if self.is_nan() {
            return f64::NAN;
        }
        if self.is_infinite() {
            return sign * f64::INFINITY;
        }
        let Parts { coefficient, exponent, .. } = self.parts();
        // The standard library reads decimal text correctly rounded.
        let magnitude = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
        sign * magnitude
    }

    /// The double next to this towards zero, and whether it is the same value. Magnitudes above
    /// the largest double give that one, magnitudes below the smallest one zero.
    #[must_use]
    pub fn to_f64_truncated(self) -> (f64, bool) {
        let sign = if self.is_negative() { -1.0 } else { 1.0 };
        if self.is_nan() {
            return (f64::NAN, true);
        }
        if self.is_infinite() {
            return (sign * f64::INFINITY, true);
        }
        let Parts { coefficient, exponent, .. } = self.parts();
        if coefficient == 0 {
            return (sign * 0.0, true);
        }
        let (magnitude, exact) = truncated(coefficient, exponent);
        (sign * magnitude, exact)
    }

    /// Compares with a double by exact value: NaN equals NaN and is below everything.
    #[must_use]
    pub fn compare_f64(self, double: f64) -> Ordering {
        if self.is_nan() || double.is_nan() {
            return double.is_nan().cmp(&self.is_nan());
        }
        let (near, exact) = self.to_f64_truncated();
        // Nothing lies between a truncated value and the decimal, so a tie is decided by what was
        // cut off, which points away from zero.
        double::compare_f64(near, double).then_with(|| match (exact, self.is_negative()) {
            (true, _) => Ordering::Equal,
            (false, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
        })
    }
}

fn signed(negative: bool, magnitude: u128) -> Option<i64> {
    let magnitude = i128::try_from(magnitude).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// A double's value in `digits` significant digits, all of them written.
fn from_double(n: f64, digits: u32) -> Decimal128 {
    if n.is_nan() {
        return Decimal128::NAN;
    }
    let negative = n.is_sign_negative();
    if n.is_infinite() {
        return Decimal128::infinity(negative);
    }
    if n == 0.0 {
        return Decimal128::pack(negative, 0, 0);
    }
    let bits = n.to_bits();
    let field = (bits >> 52 & 0x7FF) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) =
        if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
    // Bring at least 40 digits before the point, then cut what is after it.
    let bit_length = exponent + 64 - mantissa.leading_zeros() as i32;
    let magnitude = (f64::from(bit_length) * std::f64::consts::LOG10_2).floor() as i32;
    let scale = (40 - magnitude).max(0);
    let scaled = Scaled::from_u128(u128::from(mantissa)).mul_pow10(scale as u32);
    let (whole, sticky) = if exponent >= 0 {
        (scaled.shl(exponent as u32), false)
    } else {
        (scaled.shr(-exponent as u32), scaled.any_below(-exponent as u32))
    };
    let surplus = whole.digits().saturating_sub(60);
    let (kept, rest) = whole.div_rem(&Scaled::pow10(surplus));
    let sticky = sticky || !rest.is_zero();
    let low = kept.low_u128();
    let high = kept.shr(128).low_u128();
    let wide = Intermediate::from_u128(high).shl(128).add(&Intermediate::from_u128(low));
    finish_double(negative, wide, i64::from(surplus) - i64::from(scale), sticky, digits)
}

/// Rounds the digits of a double to the number that is wanted.
fn finish_double(
    negative: bool,
    wide: Intermediate,
    exponent: i64,
    sticky: bool,
    digits: u32,
) -> Decimal128 {
    let surplus = wide.digits().saturating_sub(digits);
    let (coefficient, _) = super::drop_digits(wide, i64::from(surplus), wide.digits(), sticky);
    let mut exponent = exponent + i64::from(surplus);
    let mut coefficient = coefficient;
    if coefficient == 10_u128.pow(digits) {
        // Rounded up to a digit more.
        coefficient /= 10;
        exponent += 1;
    }
    round(negative, Intermediate::from_u128(coefficient), exponent, false).0
}

/// `coefficient * 10^exponent`, not zero, cut to a double, and whether nothing was cut.
fn truncated(coefficient: u128, exponent: i32) -> (f64, bool) {
    // Far outside the range of doubles the exact powers would be too long.
    let scientific = exponent + coefficient.ilog10() as i32;
    if scientific > 308 {
        return (f64::MAX, false);
    }
    if scientific < -324 {
        return (0.0, false);
    }
    if (-19..=0).contains(&exponent) {
        // The usual case in machine arithmetic: at least 63 bits of quotient remain.
        let divisor = 10u128.pow(exponent.unsigned_abs());
        let shift = coefficient.leading_zeros();
        let dividend = coefficient << shift;
        return assemble(dividend / divisor, -(shift as i32), !dividend.is_multiple_of(divisor));
    }
    let wide = Scaled::from_u128(coefficient);
    if exponent >= 0 {
        let product = wide.mul_pow10(exponent as u32);
        let surplus = product.bits().saturating_sub(128);
        return assemble(
            product.shr(surplus).low_u128(),
            surplus as i32,
            product.any_below(surplus),
        );
    }
    let divisor = Scaled::pow10(exponent.unsigned_abs());
    let shift = (divisor.bits() + 100).saturating_sub(wide.bits());
    let (quotient, rest) = wide.shl(shift).div_rem(&divisor);
    assemble(quotient.low_u128(), -(shift as i32), !rest.is_zero())
}

/// The double of `mantissa * 2^exponent` cut towards zero; `more` says that digits follow.
fn assemble(mantissa: u128, exponent: i32, more: bool) -> (f64, bool) {
    let length = 128 - mantissa.leading_zeros() as i32;
    // The lowest bit that the double can hold: 53 below the top, or that of the subnormals.
    let lowest = (exponent + length - 53).max(-1074);
    let shift = lowest - exponent;
    let (kept, lost) = match u32::try_from(shift) {
        Ok(shift) if shift >= 128 => (0, true),
        Ok(shift) => (mantissa >> shift, mantissa & ((1 << shift) - 1) != 0),
        Err(_) => (mantissa << shift.unsigned_abs(), false),
    };
    let kept = kept as u64;
    if lowest > 971 {
        return (f64::MAX, false);
    }
    let bits = if kept >> 52 == 0 {
        // Only subnormals are short.
        kept
    } else {
        ((lowest + 1075) as u64) << 52 | (kept & ((1 << 52) - 1))
    };
    (f64::from_bits(bits), !(lost || more))
}
