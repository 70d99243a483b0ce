//! `Decimal128`: IEEE 754-2008 decimal numbers of 34 digits, as BSON stores them (binary integer
//! encoding).
//!
//! This file knows the bits, the rounding into them and the order; `text` reads and prints,
//! `convert` goes to and from integers and doubles, `arithmetic` has the basic operations,
//! `functions` roots, logarithms and powers; `wide` are the integers underneath. By hand, because no
//! maintained crate has this encoding with correctly rounded functions.

mod arithmetic;
mod convert;
mod functions;
mod text;
mod trig;
mod wide;

pub use text::Signals;

use std::cmp::Ordering;
use wide::Wide;

/// Most digits of a coefficient.
const DIGITS: u32 = 34;
/// Largest coefficient: 34 nines.
const COEFFICIENT_MAX: u128 = 10u128.pow(DIGITS) - 1;
/// Smallest exponent; it is stored as zero.
const EXPONENT_MIN: i32 = -6176;
/// Largest exponent of a full coefficient.
const EXPONENT_MAX: i32 = 6111;

const SIGN: u128 = 1 << 127;
/// The five bits that mark infinities and, with the lowest one, NaN.
const SPECIAL: u128 = 0b11111 << 122;
const INFINITE: u128 = 0b11110 << 122;

/// Intermediates: products of two coefficients have 68 digits, sums are aligned over at most 100
/// places, fixed-point functions multiply 384-bit numbers. 768 bits hold all of them.
type Intermediate = Wide<12>;

/// A decimal number of 34 digits. Equality (`==`) is that of the bits: 1.0 and 1.00 differ, NaN
/// equals itself. Use `compare` for equality by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal128(u128);

/// A finite number taken apart: `(-1)^negative * coefficient * 10^exponent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Whether the sign is minus; zero may have one.
    pub negative: bool,
    /// The digits, below 10^34.
    pub coefficient: u128,
    /// The power of ten, -6176 to 6111.
    pub exponent: i32,
}

impl Decimal128 {
    /// Zero.
    pub const ZERO: Decimal128 = Decimal128::from_parts_const(0);
    /// One.
    pub const ONE: Decimal128 = Decimal128::from_parts_const(1);
    /// Not a number.
    pub const NAN: Decimal128 = Decimal128(SPECIAL);
    /// Positive infinity.
    pub const INFINITY: Decimal128 = Decimal128(INFINITE);
    /// Negative infinity.
    pub const NEG_INFINITY: Decimal128 = Decimal128(INFINITE | SIGN);
    /// The largest finite number.
    pub const MAX: Decimal128 =
        Decimal128((EXPONENT_MAX - EXPONENT_MIN) as u128 * (1 << 113) + COEFFICIENT_MAX);

    const fn from_parts_const(coefficient: u128) -> Decimal128 {
        Decimal128((-EXPONENT_MIN as u128) << 113 | coefficient)
    }

    /// Takes the 16 bytes as BSON stores them.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Decimal128 {
        Decimal128(u128::from_le_bytes(bytes))
    }

    /// The 16 bytes as BSON stores them.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Whether this is not a number.
    #[inline]
    #[must_use]
    pub fn is_nan(self) -> bool {
        self.0 & SPECIAL == SPECIAL
    }

    /// Whether this is one of the infinities.
    #[inline]
    #[must_use]
    pub fn is_infinite(self) -> bool {
        self.0 & SPECIAL == INFINITE
    }

    /// Whether this is a number that is not infinite.
    #[inline]
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.0 & INFINITE != INFINITE
    }

    /// Whether this is zero of either sign and any exponent.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.is_finite() && self.parts().coefficient == 0
    }

    /// Whether the sign bit is set; that of zero and NaN counts too.
    #[inline]
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.0 & SIGN != 0
    }

    /// Sign, coefficient and exponent. Infinities and NaN have none and give zeros; bit patterns
    /// with a coefficient above 34 digits are zeros by definition.
    #[must_use]
    pub fn parts(self) -> Parts {
        let negative = self.is_negative();
        if !self.is_finite() {
            return Parts { negative, coefficient: 0, exponent: 0 };
        }
        // Two leading ones announce a coefficient of 114 bits, which is always too large.
        let (field, coefficient) = if self.0 >> 125 & 0b11 == 0b11 {
            (self.0 >> 111 & 0x3FFF, 0)
        } else {
            (self.0 >> 113 & 0x3FFF, self.0 & ((1 << 113) - 1))
        };
        let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
        Parts { negative, coefficient, exponent: field as i32 + EXPONENT_MIN }
    }

    /// Puts parts together, rounding half even and going to infinity or towards zero where the
    /// exponent does not fit.
    #[must_use]
    pub fn from_parts(parts: Parts) -> Decimal128 {
        if parts.coefficient <= COEFFICIENT_MAX
            && (EXPONENT_MIN..=EXPONENT_MAX).contains(&parts.exponent)
        {
            return Decimal128::pack(parts.negative, parts.coefficient, parts.exponent);
        }
        let coefficient = Intermediate::from_u128(parts.coefficient);
        round(parts.negative, coefficient, i64::from(parts.exponent), false).0
    }

    /// The bits of parts that are known to fit.
    #[inline]
    fn pack(negative: bool, coefficient: u128, exponent: i32) -> Decimal128 {
        let sign = if negative { SIGN } else { 0 };
        Decimal128(sign | ((exponent - EXPONENT_MIN) as u128) << 113 | coefficient)
    }

    fn infinity(negative: bool) -> Decimal128 {
        if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY }
    }

    /// The opposite sign.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "stands with the other named operations")]
    pub fn neg(self) -> Decimal128 {
        Decimal128(self.0 ^ SIGN)
    }

    /// Without sign.
    #[must_use]
    pub fn abs(self) -> Decimal128 {
        Decimal128(self.0 & !SIGN)
    }

    /// MongoDB's order, by value: NaN equals NaN and is below -Infinity, -0 equals 0, 1.0 equals
    /// 1.00.
    #[must_use]
    pub fn compare(self, other: Decimal128) -> Ordering {
        if self.is_nan() || other.is_nan() {
            return other.is_nan().cmp(&self.is_nan());
        }
        match (self.signum(), other.signum()) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (1, _) => self.compare_magnitude(other),
            _ => other.compare_magnitude(self),
        }
    }

    /// -1, 0 or 1. Not called with NaN.
    fn signum(self) -> i8 {
        match (self.is_zero(), self.is_negative()) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    /// Compares two non-zero numbers without their signs.
    fn compare_magnitude(self, other: Decimal128) -> Ordering {
        if self.is_infinite() || other.is_infinite() {
            return self.is_infinite().cmp(&other.is_infinite());
        }
        let (a, b) = (self.parts(), other.parts());
        if a.exponent < b.exponent {
            return other.compare_magnitude(self).reverse();
        }
        // A coefficient that outgrows 128 bits when aligned is above any other of 34 digits.
        10u128
            .checked_pow((a.exponent - b.exponent) as u32)
            .and_then(|scale| a.coefficient.checked_mul(scale))
            .map_or(Ordering::Greater, |aligned| aligned.cmp(&b.coefficient))
    }
}

/// Rounds `coefficient * 10^exponent` half even into a decimal. `sticky` says that the true value
/// is a little above: then the coefficient has more than 34 digits. Also says whether digits were
/// lost.
fn round(
    negative: bool,
    coefficient: Intermediate,
    exponent: i64,
    sticky: bool,
) -> (Decimal128, bool) {
    if coefficient.is_zero() && !sticky {
        let exponent = exponent.clamp(i64::from(EXPONENT_MIN), i64::from(EXPONENT_MAX));
        return (Decimal128::pack(negative, 0, exponent as i32), false);
    }
    let digits = coefficient.digits();
    let too_long = i64::from(digits.saturating_sub(DIGITS));
    let too_small = i64::from(EXPONENT_MIN).saturating_sub(exponent);
    let drop = too_long.max(too_small).max(0);
    let mut exponent = exponent.saturating_add(drop);
    let (mut kept, inexact) = drop_digits(coefficient, drop, digits, sticky);
    if kept > COEFFICIENT_MAX {
        kept /= 10;
        exponent += 1;
    }
    if exponent > i64::from(EXPONENT_MAX) {
        // A short coefficient can take zeros to bring the exponent down.
        let pad = exponent - i64::from(EXPONENT_MAX);
        let padded = u32::try_from(pad)
            .ok()
            .and_then(|pad| 10u128.checked_pow(pad))
            .and_then(|scale| kept.checked_mul(scale))
            .filter(|padded| *padded <= COEFFICIENT_MAX);
        return match padded {
            Some(padded) => (Decimal128::pack(negative, padded, EXPONENT_MAX), inexact),
            None => (Decimal128::infinity(negative), true),
        };
    }
    (Decimal128::pack(negative, kept, exponent as i32), inexact)
}

/// Takes `drop` digits off the end, rounding half even; says whether anything but zeros went.
fn drop_digits(value: Intermediate, drop: i64, digits: u32, sticky: bool) -> (u128, bool) {
    if drop > i64::from(digits) {
        return (0, true);
    }
    let (kept, rest) = if drop == 0 {
        (value, Intermediate::ZERO)
    } else {
        let scale = Intermediate::pow10(drop as u32);
        let (kept, rest) = value.div_rem(&scale);
        let half = scale.shr(1);
        let up = match rest.cmp(&half) {
            Ordering::Greater => true,
            Ordering::Equal => sticky || kept.is_odd(),
            Ordering::Less => false,
        };
        (if up { kept.add(&Intermediate::from_u128(1)) } else { kept }, rest)
    };
    (kept.to_u128().unwrap_or(u128::MAX), sticky || !rest.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal128 {
        Decimal128::parse(text).unwrap()
    }

    #[test]
    fn constants_print_as_what_they_are() {
        assert_eq!(Decimal128::ZERO.to_string(), "0");
        assert_eq!(Decimal128::ONE.to_string(), "1");
        assert_eq!(Decimal128::NAN.to_string(), "NaN");
        assert_eq!(Decimal128::NEG_INFINITY.to_string(), "-Infinity");
        assert_eq!(Decimal128::MAX.to_string(), "9.999999999999999999999999999999999E+6144");
    }

    #[test]
    fn order_is_by_value() {
        let ascending = [
            "NaN",
            "-Infinity",
            "-1E+6144",
            "-1.01",
            "-1.00",
            "-1E-6176",
            "0",
            "1E-6176",
            "0.999",
            "1.0",
            "1.000000000000000000000000000000001",
            "2",
            "10",
            "1E+2",
            "1E+6144",
            "Infinity",
        ];
        for (at, a) in ascending.iter().enumerate() {
            for (other, b) in ascending.iter().enumerate() {
                assert_eq!(number(a).compare(number(b)), at.cmp(&other), "{a} {b}");
            }
        }
        for (a, b) in [("0", "-0"), ("0E+100", "-0E-100"), ("1.0", "1.00"), ("1E+3", "1000")] {
            assert_eq!(number(a).compare(number(b)), Ordering::Equal, "{a} {b}");
        }
    }

    #[test]
    fn oversized_coefficients_are_zeros() {
        let long = Decimal128(0b11 << 125 | 5);
        assert!(long.is_zero() && long.is_finite());
        let nines = Decimal128::pack(false, COEFFICIENT_MAX + 1, 0);
        assert!(nines.is_zero());
    }
}
