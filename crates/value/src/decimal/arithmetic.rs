//! The basic operations on decimals: exact on wide integers, then rounded once, half even.
//!
//! Results keep the exponent that the standard prefers (that of the finer operand in a sum, the
//! sum of both in a product), as MongoDB shows trailing zeros.

use super::{
    COEFFICIENT_MAX, DIGITS, Decimal128, EXPONENT_MAX, EXPONENT_MIN, Intermediate, Parts,
    drop_digits, round,
};

/// Operands further apart than this are not aligned digit by digit.
const ALIGN_MAX: u32 = 100;

/// How a value is rounded to fewer places.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    HalfEven,
    TowardsZero,
    Up,
    Down,
}

impl Decimal128 {
    /// Sum.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "operators would hide the rounding")]
    pub fn add(self, other: Decimal128) -> Decimal128 {
        if self.is_nan() || other.is_nan() {
            return Decimal128::NAN;
        }
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) if self.is_negative() != other.is_negative() => return Decimal128::NAN,
            (true, _) => return Decimal128::infinity(self.is_negative()),
            (_, true) => return Decimal128::infinity(other.is_negative()),
            _ => {}
        }
        let (mut a, mut b) = (self.parts(), other.parts());
        if a.exponent < b.exponent {
            (a, b) = (b, a);
        }
        let distance = (a.exponent - b.exponent) as u32;
        if distance <= 19 && a.negative == b.negative {
            // The usual case in machine arithmetic.
            let sum = a.coefficient.checked_mul(10u128.pow(distance));
            if let Some(sum) = sum.and_then(|a| a.checked_add(b.coefficient))
                && sum <= COEFFICIENT_MAX
            {
                return Decimal128::pack(a.negative, sum, b.exponent);
            }
        }
        add_aligned(a, b, distance)
    }

    /// Difference.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "operators would hide the rounding")]
    pub fn sub(self, other: Decimal128) -> Decimal128 {
        self.add(other.neg())
    }

    /// Product.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "operators would hide the rounding")]
    pub fn mul(self, other: Decimal128) -> Decimal128 {
        if self.is_nan() || other.is_nan() {
            return Decimal128::NAN;
        }
        let negative = self.is_negative() != other.is_negative();
        if self.is_infinite() || other.is_infinite() {
            let zero = self.is_zero() || other.is_zero();
            return if zero { Decimal128::NAN } else { Decimal128::infinity(negative) };
        }
        let (a, b) = (self.parts(), other.parts());
        let product =
            Intermediate::from_u128(a.coefficient).mul(&Intermediate::from_u128(b.coefficient));
        round(negative, product, i64::from(a.exponent) + i64::from(b.exponent), false).0
    }

    /// Quotient. 0 / 0 is NaN; any other number divided by 0 is an infinity.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "operators would hide the rounding")]
    pub fn div(self, other: Decimal128) -> Decimal128 {
        if self.is_nan() || other.is_nan() || (self.is_infinite() && other.is_infinite()) {
            return Decimal128::NAN;
        }
        let negative = self.is_negative() != other.is_negative();
        if self.is_infinite() {
            return Decimal128::infinity(negative);
        }
        if other.is_infinite() {
            return Decimal128::pack(negative, 0, EXPONENT_MIN);
        }
        let (a, b) = (self.parts(), other.parts());
        let preferred = i64::from(a.exponent) - i64::from(b.exponent);
        match (a.coefficient == 0, b.coefficient == 0) {
            (true, true) => return Decimal128::NAN,
            (_, true) => return Decimal128::infinity(negative),
            (true, _) => return round(negative, Intermediate::ZERO, preferred, false).0,
            _ => {}
        }
        // Seventy digits over at most 34 leave more than 34 in the quotient.
        let divisor = Intermediate::from_u128(b.coefficient);
        let dividend = Intermediate::from_u128(a.coefficient).mul_pow10(2 * DIGITS + 2);
        let (quotient, rest) = dividend.div_rem(&divisor);
        let exponent = preferred - i64::from(2 * DIGITS + 2);
        if rest.is_zero() {
            let (quotient, exponent) = strip_zeros(quotient, exponent, preferred);
            return round(negative, quotient, exponent, false).0;
        }
        round(negative, quotient, exponent, true).0
    }

    /// Remainder of the division truncated towards zero; it has the sign of `self`.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "operators would hide the rounding")]
    pub fn rem(self, other: Decimal128) -> Decimal128 {
        if self.is_nan() || other.is_nan() || self.is_infinite() || other.is_zero() {
            return Decimal128::NAN;
        }
        if other.is_infinite() {
            return self;
        }
        let (a, b) = (self.parts(), other.parts());
        let exponent = a.exponent.min(b.exponent);
        let rest = if a.exponent >= b.exponent {
            // a * 10^k mod b, without ever writing down 10^k.
            let modulus = b.coefficient;
            let scale = power_modulo(10, (a.exponent - b.exponent) as u32, modulus);
            multiply_modulo(a.coefficient % modulus, scale, modulus)
        } else {
            // a mod b * 10^k: with a k beyond 34 digits, b is larger than any coefficient.
            10u128
                .checked_pow((b.exponent - a.exponent) as u32)
                .and_then(|scale| b.coefficient.checked_mul(scale))
                .map_or(a.coefficient, |modulus| a.coefficient % modulus)
        };
        Decimal128::pack(a.negative, rest, exponent)
    }

    /// The largest whole number that is not above.
    #[must_use]
    pub fn floor(self) -> Decimal128 {
        self.with_exponent(0, Direction::Down)
    }

    /// The smallest whole number that is not below.
    #[must_use]
    pub fn ceil(self) -> Decimal128 {
        self.with_exponent(0, Direction::Up)
    }

    /// The whole part.
    #[must_use]
    pub fn trunc(self) -> Decimal128 {
        self.with_exponent(0, Direction::TowardsZero)
    }

    /// Rounds half even to `places` digits after the point (before it if negative), as `$round`
    /// does: the result has that many places, or as many as 34 digits allow.
    #[must_use]
    pub fn round_to(self, places: i32) -> Decimal128 {
        self.with_exponent(places.saturating_neg(), Direction::HalfEven)
    }

    /// Cuts to `places` digits after the point (before it if negative).
    #[must_use]
    pub fn trunc_to(self, places: i32) -> Decimal128 {
        self.with_exponent(places.saturating_neg(), Direction::TowardsZero)
    }

    /// The value with the exponent of `pattern`, rounded half even; NaN if it does not fit.
    #[must_use]
    pub fn quantize(self, pattern: Decimal128) -> Decimal128 {
        match (self.is_infinite(), pattern.is_infinite()) {
            (true, true) => self,
            (false, false) if !pattern.is_nan() => {
                let exponent = pattern.parts().exponent;
                let result = self.with_exponent(exponent, Direction::HalfEven);
                if result.parts().exponent == exponent { result } else { Decimal128::NAN }
            }
            _ => Decimal128::NAN,
        }
    }

    fn with_exponent(self, exponent: i32, direction: Direction) -> Decimal128 {
        if self.is_nan() {
            return Decimal128::NAN;
        }
        if self.is_infinite() {
            return self;
        }
        let exponent = exponent.clamp(EXPONENT_MIN, EXPONENT_MAX);
        let Parts { negative, coefficient, exponent: current } = self.parts();
        if coefficient == 0 {
            return Decimal128::pack(negative, 0, exponent);
        }
        if current >= exponent {
            // Zeros at the end, as many as fit.
            let room = DIGITS - 1 - coefficient.ilog10();
            let zeros = room.min((current - exponent) as u32);
            let padded = coefficient * 10u128.pow(zeros);
            return Decimal128::pack(negative, padded, current - zeros as i32);
        }
        let drop = (exponent - current) as u32;
        let away = match direction {
            Direction::HalfEven => {
                let wide = Intermediate::from_u128(coefficient);
                let (kept, _) = drop_digits(wide, i64::from(drop), wide.digits(), false);
                return Decimal128::pack(negative, kept, exponent);
            }
            Direction::TowardsZero => false,
            Direction::Up => !negative,
            Direction::Down => negative,
        };
        let (kept, rest) = match 10u128.checked_pow(drop) {
            Some(scale) => (coefficient / scale, coefficient % scale),
            None => (0, coefficient),
        };
        let kept = kept + u128::from(away && rest != 0);
        Decimal128::pack(negative, kept, exponent)
    }
}

/// Sum of two finite numbers, the first with the larger exponent.
fn add_aligned(a: Parts, b: Parts, distance: u32) -> Decimal128 {
    let (mut coefficient, mut exponent) =
        (Intermediate::from_u128(b.coefficient), i64::from(b.exponent));
    let mut shift = distance;
    if distance > ALIGN_MAX {
        if a.coefficient == 0 {
            return Decimal128::pack(b.negative, b.coefficient, b.exponent).unsigned_zero(a);
        }
        // The operand with the smaller exponent is too small to affect more than rounding: any
        // other small value rounds the same way. A zero only affects the exponent.
        shift = ALIGN_MAX;
        exponent = i64::from(a.exponent) - i64::from(ALIGN_MAX);
        coefficient = Intermediate::from_u128(u128::from(b.coefficient != 0));
    }
    let aligned = Intermediate::from_u128(a.coefficient).mul_pow10(shift);
    if a.negative == b.negative {
        return round(a.negative, aligned.add(&coefficient), exponent, false).0;
    }
    match aligned.cmp(&coefficient) {
        // An exact zero is positive when the signs differ.
        std::cmp::Ordering::Equal => round(false, Intermediate::ZERO, exponent, false).0,
        std::cmp::Ordering::Greater => {
            round(a.negative, aligned.sub(&coefficient), exponent, false).0
        }
        std::cmp::Ordering::Less => round(b.negative, coefficient.sub(&aligned), exponent, false).0,
    }
}

impl Decimal128 {
    /// A sum with the zero `other`: zeros of different signs add up to a positive one.
    fn unsigned_zero(self, other: Parts) -> Decimal128 {
        if self.is_zero() && self.is_negative() != other.negative { self.abs() } else { self }
    }
}

/// Takes off trailing zeros until the exponent reaches `preferred`.
pub(super) fn strip_zeros(
    mut value: Intermediate,
    mut exponent: i64,
    preferred: i64,
) -> (Intermediate, i64) {
    for step in [16u32, 4, 1] {
        while exponent + i64::from(step) <= preferred {
            let (shorter, rest) = value.div_small(10u64.pow(step));
            if rest != 0 {
                break;
            }
            value = shorter;
            exponent += i64::from(step);
        }
    }
    (value, exponent)
}

fn multiply_modulo(a: u128, b: u128, modulus: u128) -> u128 {
    if let Some(product) = a.checked_mul(b) {
        return product % modulus;
    }
    let product = Intermediate::from_u128(a).mul(&Intermediate::from_u128(b));
    product.div_rem(&Intermediate::from_u128(modulus)).1.low_u128()
}

fn power_modulo(base: u128, mut exponent: u32, modulus: u128) -> u128 {
    let (mut result, mut square) = (1 % modulus, base % modulus);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply_modulo(result, square, modulus);
        }
        square = multiply_modulo(square, square, modulus);
        exponent >>= 1;
    }
    result
}
