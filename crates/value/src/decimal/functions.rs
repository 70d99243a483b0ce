//! Roots, logarithms and powers of decimals.
//!
//! Roots are integer roots. The rest is computed in binary fixed point with 320 bits (96 decimal
//! digits) after the point, so that what cancels or is multiplied up still leaves the 34 digits
//! that are rounded to at the end.

use super::arithmetic::strip_zeros;
use super::{DIGITS, Decimal128, EXPONENT_MIN, Intermediate, Parts, round};
use std::sync::LazyLock;

/// Bits after the binary point.
pub(super) const FRACTION: u32 = 320;
/// Digits that are brought before the point before rounding: 34 and some that decide.
const DIGITS_WANTED: i64 = 41;
/// Results this close to a number of that many digits are that number.
const EXACT_BITS: u32 = 120;

pub(super) static ONE: LazyLock<Intermediate> =
    LazyLock::new(|| Intermediate::from_u128(1).shl(FRACTION));
pub(super) static LN_2: LazyLock<Intermediate> = LazyLock::new(|| inverse_artanh(3).shl(1));
/// ln 10 = 3 ln 2 + ln 1.25
static LN_10: LazyLock<Intermediate> =
    LazyLock::new(|| LN_2.mul_small(3).add(&inverse_artanh(9).shl(1)));

impl Decimal128 {
    /// Square root; NaN for negative numbers.
    #[must_use]
    pub fn sqrt(self) -> Decimal128 {
        if self.is_nan() || (self.is_negative() && !self.is_zero()) {
            return Decimal128::NAN;
        }
        if self.is_infinite() {
            return self;
        }
        let Parts { negative, coefficient, exponent } = self.parts();
        let preferred = i64::from(exponent.div_euclid(2));
        if coefficient == 0 {
            return Decimal128::pack(negative, 0, preferred as i32);
        }
        // An even number of zeros more, so that the root has at least 36 digits.
        let odd = exponent.rem_euclid(2) as u32;
        let square = Intermediate::from_u128(coefficient).mul_pow10(2 * (DIGITS + 2) + odd);
        let root = integer_root(square);
        let exponent = preferred - i64::from(DIGITS + 2);
        if root.mul(&root) == square {
            let (root, exponent) = strip_zeros(root, exponent, preferred);
            return round(false, root, exponent, false).0;
        }
        round(false, root, exponent, true).0
    }

    /// e to the power of this.
    #[must_use]
    pub fn exp(self) -> Decimal128 {
        if self.is_nan() {
            return Decimal128::NAN;
        }
        if self.is_infinite() {
            return if self.is_negative() { Decimal128::ZERO } else { Decimal128::INFINITY };
        }
        let parts = self.parts();
        match magnitude(parts) {
            None => Decimal128::ONE,
            // Too small to show in 34 digits.
            Some(scientific) if scientific < -40 => Decimal128::ONE,
            Some(scientific) if scientific > 5 => out_of_range_power(parts.negative),
            Some(_) => exponential(parts.negative, fixed(parts.coefficient, parts.exponent)),
        }
    }

    /// Natural logarithm; NaN for negative numbers.
    #[must_use]
    pub fn ln(self) -> Decimal128 {
        self.logarithm_by(None)
    }

    /// Logarithm to base 10, exact for powers of ten; NaN for negative numbers.
    #[must_use]
    pub fn log10(self) -> Decimal128 {
        let parts = self.parts();
        if self.is_finite() && !parts.negative && parts.coefficient != 0 {
            let zeros = parts.coefficient.ilog10();
            if parts.coefficient == 10u128.pow(zeros) {
                return Decimal128::from_i64(i64::from(parts.exponent) + i64::from(zeros));
            }
        }
        self.logarithm_by(Some(&LN_10))
    }

    /// Logarithm to base 2, exact for powers of two; NaN for negative numbers.
    #[must_use]
    pub fn log2(self) -> Decimal128 {
        match self.power_of_two() {
            Some(power) => Decimal128::from_i64(power),
            None => self.logarithm_by(Some(&LN_2)),
        }
    }

    /// Logarithm to any base.
    #[must_use]
    pub fn log(self, base: Decimal128) -> Decimal128 {
        if base.compare(Decimal128::from_i32(2)).is_eq() {
            self.log2()
        } else if base.compare(Decimal128::from_i32(10)).is_eq() {
            self.log10()
        } else {
            self.ln().div(base.ln())
        }
    }

    /// This to the power of `exponent`, with all 34 digits written out as MongoDB does. NaN for
    /// fractional powers of negative numbers.
    #[must_use]
    pub fn pow(self, exponent: Decimal128) -> Decimal128 {
        if exponent.is_zero() || self.compare(Decimal128::ONE).is_eq() {
            return padded_one();
        }
        if self.is_nan() || exponent.is_nan() {
            return Decimal128::NAN;
        }
        if exponent.is_infinite() {
            return match self.abs().compare(Decimal128::ONE) {
                std::cmp::Ordering::Equal => padded_one(),
                order => out_of_range_power(order.is_gt() == exponent.is_negative()),
            };
        }
        let whole = exponent.trunc_to(0).compare(exponent).is_eq();
        let odd = whole && exponent.is_odd();
        if self.is_zero() {
            return out_of_range_power(!exponent.is_negative());
        }
        if self.is_infinite() {
            let result = out_of_range_power(exponent.is_negative());
            return if self.is_negative() && odd && !exponent.is_negative() {
                result.neg()
            } else {
                result
            };
        }
        if self.is_negative() && !whole {
            return Decimal128::NAN;
        }
        let result = self.abs().positive_power(exponent);
        if self.is_negative() && odd { result.neg() } else { result }
    }

    /// Whether a whole number is odd.
    fn is_odd(self) -> bool {
        let parts = self.parts();
        match u32::try_from(-parts.exponent) {
            // A multiple of ten.
            Err(_) => false,
            Ok(places) => {
                10u128.checked_pow(places).is_some_and(|scale| parts.coefficient / scale % 2 == 1)
            }
        }
    }

    /// A power of a positive finite number that is not one.
    fn positive_power(self, exponent: Decimal128) -> Decimal128 {
        let (negative, logarithm) = logarithm(self.parts());
        let power = exponent.parts();
        let down = negative != power.negative;
        // How large the product is, roughly: what leaves the range need not be computed.
        let scientific = f64::from(logarithm.bits()) * std::f64::consts::LOG10_2
            - f64::from(FRACTION) * std::f64::consts::LOG10_2
            + f64::from(power.coefficient.max(1).ilog10())
            + f64::from(power.exponent);
        if scientific > 7.0 {
            return out_of_range_power(down);
        }
        if scientific < -40.0 {
            return padded_one();
        }
        let product = logarithm.mul(&Intermediate::from_u128(power.coefficient));
        let product = if power.exponent >= 0 {
            product.mul_pow10(power.exponent as u32)
        } else {
            product.div_rem(&Intermediate::pow10(power.exponent.unsigned_abs().min(200))).0
        };
        exponential(down, product)
    }

    /// The power of two that this is, if it is one.
    fn power_of_two(self) -> Option<i64> {
        let parts = self.parts();
        if !self.is_finite() || parts.negative || parts.coefficient == 0 {
            return None;
        }
        let (mut coefficient, mut exponent) = (parts.coefficient, parts.exponent);
        while exponent > 0 && coefficient < 1 << 120 {
            coefficient *= 10;
            exponent -= 1;
        }
        while exponent < 0 && coefficient % 10 == 0 {
            coefficient /= 10;
            exponent += 1;
        }
        // c / 10^k is a power of two if c is one times 5^k.
        let fives = u32::try_from(-exponent).ok()?;
        let scale = 5u128.checked_pow(fives)?;
        let rest = coefficient / scale;
        (coefficient % scale == 0 && rest.is_power_of_two())
            .then(|| i64::from(rest.ilog2()) - i64::from(fives))
    }

    fn logarithm_by(self, divisor: Option<&Intermediate>) -> Decimal128 {
        if self.is_zero() {
            return Decimal128::NEG_INFINITY;
        }
        if self.is_nan() || self.is_negative() {
            return Decimal128::NAN;
        }
        if self.is_infinite() {
            return self;
        }
        if self.compare(Decimal128::ONE).is_eq() {
            return Decimal128::ZERO;
        }
        let (negative, natural) = logarithm(self.parts());
        let value = match divisor {
            Some(divisor) => natural.shl(FRACTION).div_rem(divisor).0,
            None => natural,
        };
        from_fixed(negative, value, 0)
    }
}

/// What a power is that leaves the range: infinity, or zero if it goes down.
fn out_of_range_power(down: bool) -> Decimal128 {
    if down { Decimal128::pack(false, 0, EXPONENT_MIN) } else { Decimal128::INFINITY }
}

fn padded_one() -> Decimal128 {
    Decimal128::pack(false, 10u128.pow(DIGITS - 1), 1 - DIGITS as i32)
}

/// Power of ten of the first digit; `None` for zero.
pub(super) fn magnitude(parts: Parts) -> Option<i32> {
    Some(parts.exponent + parts.coefficient.checked_ilog10()? as i32)
}

/// The largest whole number whose square is not above.
pub(super) fn integer_root(square: Intermediate) -> Intermediate {
    // Newton's iteration comes down from a power of two above the root.
    let mut root = Intermediate::from_u128(1).shl(square.bits().div_ceil(2));
    loop {
        let next = root.add(&square.div_rem(&root).0).shr(1);
        if next >= root {
            return root;
        }
        root = next;
    }
}

/// `coefficient * 10^exponent` in fixed point; the callers keep it between 10^-40 and 10^6.
pub(super) fn fixed(coefficient: u128, exponent: i32) -> Intermediate {
    let wide = Intermediate::from_u128(coefficient);
    if exponent >= 0 {
        return wide.mul_pow10(exponent as u32).shl(FRACTION);
    }
    wide.shl(FRACTION).div_rem(&Intermediate::pow10(exponent.unsigned_abs())).0
}

pub(super) fn multiply(a: &Intermediate, b: &Intermediate) -> Intermediate {
    a.mul(b).shr(FRACTION)
}

/// artanh(1/n) by its series.
fn inverse_artanh(n: u64) -> Intermediate {
    let mut power = ONE.div_small(n).0;
    let mut sum = power;
    for odd in (3..).step_by(2) {
        power = power.div_small(n * n).0;
        if power.is_zero() {
            break;
        }
        sum = sum.add(&power.div_small(odd).0);
    }
    sum
}

/// e^x in fixed point for x from 0 to 2.4.
pub(super) fn exponential_series(x: &Intermediate) -> Intermediate {
    // Halve until the series converges fast, then square as often.
    const HALVINGS: u32 = 20;
    let small = x.shr(HALVINGS);
    let mut term = *ONE;
    let mut sum = *ONE;
    for n in 1.. {
        term = multiply(&term, &small).div_small(n).0;
        if term.is_zero() {
            break;
        }
        sum = sum.add(&term);
    }
    for _ in 0..HALVINGS {
        sum = multiply(&sum, &sum);
    }
    sum
}

/// e to the power of a fixed-point number with a sign.
fn exponential(negative: bool, x: Intermediate) -> Decimal128 {
    // Take whole powers of ten out.
    let (tens, rest) = x.div_rem(&LN_10);
    let tens = tens.to_u128().and_then(|tens| i64::try_from(tens).ok()).unwrap_or(i64::MAX / 4);
    if tens > 20_000 {
        return out_of_range_power(negative);
    }
    if negative {
        let value = exponential_series(&LN_10.sub(&rest));
        return from_fixed(false, value, -tens - 1);
    }
    from_fixed(false, exponential_series(&rest), tens)
}

/// ln of a positive number: its sign and its magnitude.
fn logarithm(parts: Parts) -> (bool, Intermediate) {
    let zeros = parts.coefficient.max(1).ilog10() as i32;
    let mantissa = fixed(parts.coefficient, -zeros);
    let natural = logarithm_of_mantissa(&mantissa);
    let tens = parts.exponent + zeros;
    let whole = LN_10.mul_small(u64::from(tens.unsigned_abs()));
    if tens >= 0 {
        (false, natural.add(&whole))
    } else {
        // The mantissa's logarithm is below that of ten.
        (true, whole.sub(&natural))
    }
}

/// ln in fixed point for 1 to 10: Halley's iteration over the exponential from a double.
pub(super) fn logarithm_of_mantissa(mantissa: &Intermediate) -> Intermediate {
    let approximate = mantissa.shr(FRACTION - 60).low_u128() as f64 / (1u64 << 60) as f64;
    let start = (approximate.ln().max(0.0) * (1u64 << 60) as f64) as u128;
    let mut result = Intermediate::from_u128(start).shl(FRACTION - 60);
    // Each step triples the correct digits: 53 bits, 159, 477.
    for _ in 0..2 {
        let power = exponential_series(&result);
        let sum = mantissa.add(&power);
        let step = |difference: Intermediate| difference.shl(FRACTION + 1).div_rem(&sum).0;
        result = if *mantissa >= power {
            result.add(&step(mantissa.sub(&power)))
        } else {
            let step = step(power.sub(mantissa));
            if step > result { Intermediate::ZERO } else { result.sub(&step) }
        };
    }
    result
}

/// Rounds a fixed-point number times a power of ten.
pub(super) fn from_fixed(negative: bool, value: Intermediate, tens: i64) -> Decimal128 {
    let whole_bits = i64::from(value.bits()) - i64::from(FRACTION);
    let digits = whole_bits * 30_103 / 100_000;
    let scale = (DIGITS_WANTED - digits).max(0);
    let scaled = value.mul_pow10(scale as u32);
    let coefficient = scaled.shr(FRACTION);
    let rest = scaled.sub(&coefficient.shl(FRACTION)).shr(FRACTION - EXACT_BITS).low_u128();
    let exponent = tens - scale;
    // Results that are whole in these digits come out a hair above or below.
    if rest == (1 << EXACT_BITS) - 1 {
        let coefficient = coefficient.add(&Intermediate::from_u128(1));
        return round(negative, coefficient, exponent, false).0;
    }
    round(negative, coefficient, exponent, rest != 0).0
}
