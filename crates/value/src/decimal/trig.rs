//! Trigonometry of decimals, in the fixed point of `functions`.
//!
//! Angles beyond 10^40 give NaN: their digits are not significant.

use super::functions::{
    FRACTION, LN_2, ONE, exponential_series, fixed, from_fixed, integer_root,
    logarithm_of_mantissa, magnitude, multiply,
};
use super::{Decimal128, Intermediate};
use std::cmp::Ordering;
use std::sync::LazyLock;

/// Powers of ten between which numbers are computed; what is smaller is its own sine, what is
/// larger is treated apart.
const SMALLEST: i32 = -40;
const LARGEST: i32 = 40;

/// pi = 16 arctan(1/5) - 4 arctan(1/239)
static PI: LazyLock<Intermediate> =
    LazyLock::new(|| inverse_arctan(5).shl(4).sub(&inverse_arctan(239).shl(2)));

fn half_pi() -> Intermediate {
    PI.shr(1)
}

/// arctan(1/n) by its series.
fn inverse_arctan(n: u64) -> Intermediate {
    let mut power = ONE.div_small(n).0;
    let mut sum = power;
    for (step, odd) in (3..).step_by(2).enumerate() {
        power = power.div_small(n * n).0;
        if power.is_zero() {
            break;
        }
        let term = power.div_small(odd).0;
        sum = if step % 2 == 0 { sum.sub(&term) } else { sum.add(&term) };
    }
    sum
}

/// The root of a fixed-point number.
fn root(x: &Intermediate) -> Intermediate {
    integer_root(x.shl(FRACTION))
}

fn divide(a: &Intermediate, b: &Intermediate) -> Intermediate {
    a.shl(FRACTION).div_rem(b).0
}

/// Sine and cosine for 0 to pi/4, where no sum of the first terms goes below zero.
fn sine_and_cosine(x: &Intermediate) -> (Intermediate, Intermediate) {
    let series = |first: Intermediate, start: u64| {
        let square = multiply(x, x);
        let (mut term, mut sum) = (first, first);
        for (step, n) in (start..).step_by(2).enumerate() {
            term = multiply(&term, &square).div_small(n * (n + 1)).0;
            if term.is_zero() {
                break;
            }
            sum = if step % 2 == 0 { sum.sub(&term) } else { sum.add(&term) };
        }
        sum
    };
    (series(*x, 2), series(*ONE, 1))
}

/// arctan for zero and above.
fn arctangent(x: &Intermediate) -> Intermediate {
    if x.is_zero() {
        return Intermediate::ZERO;
    }
    if *x > *ONE {
        return half_pi().sub(&arctangent(&divide(&ONE, x)));
    }
    // Halve the angle until the series converges fast.
    const HALVINGS: u32 = 4;
    let mut small = *x;
    for _ in 0..HALVINGS {
        let hypotenuse = root(&ONE.add(&multiply(&small, &small)));
        small = divide(&small, &ONE.add(&hypotenuse));
    }
    let square = multiply(&small, &small);
    let (mut power, mut sum) = (small, small);
    for (step, odd) in (3..).step_by(2).enumerate() {
        power = multiply(&power, &square);
        if power.is_zero() {
            break;
        }
        let term = power.div_small(odd).0;
        sum = if step % 2 == 0 { sum.sub(&term) } else { sum.add(&term) };
    }
    sum.shl(HALVINGS)
}

/// ln for one and above.
fn logarithm_from_one(x: &Intermediate) -> Intermediate {
    let twos = x.bits().saturating_sub(FRACTION + 1);
    let natural = logarithm_of_mantissa(&x.shr(twos));
    natural.add(&LN_2.mul_small(u64::from(twos)))
}

/// e to the power of x, and of -x, for x up to 60.
fn exponentials(x: &Intermediate) -> (Intermediate, Intermediate) {
    let (twos, rest) = x.div_rem(&LN_2);
    let twos = twos.to_u128().and_then(|twos| u32::try_from(twos).ok()).unwrap_or(0);
    let up = exponential_series(&rest).shl(twos);
    (up, divide(&ONE, &up))
}

/// The magnitude of a decimal for these functions.
enum Size {
    NotANumber,
    Zero,
    /// Its own sine, tangent and so on, to the last digit.
    Tiny,
    /// In fixed point, without sign.
    Ordinary(Intermediate),
    Huge,
}

impl Decimal128 {
    fn size(self) -> Size {
        if self.is_nan() {
            return Size::NotANumber;
        }
        if self.is_infinite() {
            return Size::Huge;
        }
        let parts = self.parts();
        match magnitude(parts) {
            None => Size::Zero,
            Some(scientific) if scientific < SMALLEST => Size::Tiny,
            Some(scientific) if scientific > LARGEST => Size::Huge,
            Some(_) => {
                let exponent = parts.exponent.clamp(-120, LARGEST);
                Size::Ordinary(fixed(parts.coefficient, exponent))
            }
        }
    }

    /// The sine and the cosine, each with its sign.
    fn circle(x: &Intermediate) -> ((bool, Intermediate), (bool, Intermediate)) {
        let (quarters, rest) = x.div_rem(&half_pi());
        let (sine, cosine) = if rest > half_pi().shr(1) {
            let (sine, cosine) = sine_and_cosine(&half_pi().sub(&rest));
            (cosine, sine)
        } else {
            sine_and_cosine(&rest)
        };
        match quarters.low_u128() % 4 {
            0 => ((false, sine), (false, cosine)),
            1 => ((false, cosine), (true, sine)),
            2 => ((true, sine), (true, cosine)),
            _ => ((true, cosine), (false, sine)),
        }
    }

    /// Sine of an angle in radians.
    #[must_use]
    pub fn sin(self) -> Decimal128 {
        match self.size() {
            Size::NotANumber | Size::Huge => Decimal128::NAN,
            Size::Zero | Size::Tiny => self,
            Size::Ordinary(x) => {
                let ((negative, sine), _) = Self::circle(&x);
                from_fixed(negative != self.is_negative(), sine, 0)
            }
        }
    }

    /// Cosine of an angle in radians.
    #[must_use]
    pub fn cos(self) -> Decimal128 {
        match self.size() {
            Size::NotANumber | Size::Huge => Decimal128::NAN,
            Size::Zero | Size::Tiny => from_fixed(false, *ONE, 0),
            Size::Ordinary(x) => {
                let (_, (negative, cosine)) = Self::circle(&x);
                from_fixed(negative, cosine, 0)
            }
        }
    }

    /// Tangent of an angle in radians.
    #[must_use]
    pub fn tan(self) -> Decimal128 {
        match self.size() {
            Size::NotANumber | Size::Huge => Decimal128::NAN,
            Size::Zero | Size::Tiny => self,
            Size::Ordinary(x) => {
                let ((down, sine), (left, cosine)) = Self::circle(&x);
                let negative = (down != left) != self.is_negative();
                from_fixed(negative, divide(&sine, &cosine), 0)
            }
        }
    }

    /// The angle between minus and plus a quarter turn with this sine; NaN beyond one.
    #[must_use]
    pub fn asin(self) -> Decimal128 {
        match self.size() {
            Size::Zero | Size::Tiny => self,
            Size::Ordinary(x) if x == *ONE => from_fixed(self.is_negative(), half_pi(), 0),
            Size::Ordinary(x) if x < *ONE => {
                let other = root(&ONE.sub(&multiply(&x, &x)));
                from_fixed(self.is_negative(), arctangent(&divide(&x, &other)), 0)
            }
            _ => Decimal128::NAN,
        }
    }

    /// The angle between zero and a half turn with this cosine; NaN beyond one.
    #[must_use]
    pub fn acos(self) -> Decimal128 {
        let x = match self.size() {
            Size::Zero | Size::Tiny => return from_fixed(false, half_pi(), 0),
            Size::Ordinary(x) if x <= *ONE => x,
            _ => return Decimal128::NAN,
        };
        let (inner, outer) = (ONE.sub(&x), ONE.add(&x));
        let (above, below) = if self.is_negative() { (outer, inner) } else { (inner, outer) };
        if below.is_zero() {
            return from_fixed(false, *PI, 0);
        }
        if above.is_zero() {
            return Decimal128::ZERO;
        }
        from_fixed(false, arctangent(&root(&divide(&above, &below))).shl(1), 0)
    }

    /// The angle between minus and plus a quarter turn with this tangent.
    #[must_use]
    pub fn atan(self) -> Decimal128 {
        match self.size() {
            Size::NotANumber => Decimal128::NAN,
            Size::Zero | Size::Tiny => self,
            Size::Huge => from_fixed(self.is_negative(), half_pi(), 0),
            Size::Ordinary(x) => from_fixed(self.is_negative(), arctangent(&x), 0),
        }
    }

    /// The angle of the point `(x, self)`.
    #[must_use]
    pub fn atan2(self, x: Decimal128) -> Decimal128 {
        if self.is_nan() || x.is_nan() {
            return Decimal128::NAN;
        }
        let sign = |angle: Decimal128| if self.is_negative() { angle.neg() } else { angle };
        let part = |quarters: u64| from_fixed(false, PI.mul_small(quarters).shr(2), 0);
        match (self.is_infinite(), x.is_infinite()) {
            (true, true) => return sign(part(if x.is_negative() { 3 } else { 1 })),
            (true, false) => return sign(part(2)),
            (false, true) if x.is_negative() => return sign(part(4)),
            (false, true) => return sign(Decimal128::ZERO),
            (false, false) => {}
        }
        if self.is_zero() {
            return if x.is_negative() { sign(part(4)) } else { self };
        }
        if x.is_zero() {
            return sign(part(2));
        }
        let angle = match self.abs().div(x.abs()).size() {
            Size::Huge => half_pi(),
            Size::Ordinary(ratio) => arctangent(&ratio),
            _ if x.is_negative() => Intermediate::ZERO,
            _ => return self.div(x),
        };
        let angle = if x.is_negative() { PI.sub(&angle) } else { angle };
        from_fixed(self.is_negative(), angle, 0)
    }

    /// Hyperbolic sine.
    #[must_use]
    pub fn sinh(self) -> Decimal128 {
        match self.hyperbolic() {
            Hyperbolic::Small(x) => {
                let (up, down) = exponentials(&x);
                from_fixed(self.is_negative(), up.sub(&down).shr(1), 0)
            }
            Hyperbolic::Large => {
                let half = self.abs().exp().div(Decimal128::from_i32(2));
                if self.is_negative() { half.neg() } else { half }
            }
            Hyperbolic::Itself => self,
        }
    }

    /// Hyperbolic cosine.
    #[must_use]
    pub fn cosh(self) -> Decimal128 {
        match self.hyperbolic() {
            Hyperbolic::Small(x) => {
                let (up, down) = exponentials(&x);
                from_fixed(false, up.add(&down).shr(1), 0)
            }
            Hyperbolic::Large => self.abs().exp().div(Decimal128::from_i32(2)),
            Hyperbolic::Itself if self.is_nan() => self,
            Hyperbolic::Itself => from_fixed(false, *ONE, 0),
        }
    }

    /// Hyperbolic tangent.
    #[must_use]
    pub fn tanh(self) -> Decimal128 {
        match self.hyperbolic() {
            Hyperbolic::Small(x) => {
                let (up, down) = exponentials(&x);
                from_fixed(self.is_negative(), divide(&up.sub(&down), &up.add(&down)), 0)
            }
            Hyperbolic::Large if self.is_negative() => Decimal128::ONE.neg(),
            Hyperbolic::Large => Decimal128::ONE,
            Hyperbolic::Itself => self,
        }
    }

    fn hyperbolic(self) -> Hyperbolic {
        // From here on the smaller exponential does not show in 34 digits.
        let large = self.abs().compare(Decimal128::from_i32(50)) == Ordering::Greater;
        match self.size() {
            Size::NotANumber | Size::Zero | Size::Tiny => Hyperbolic::Itself,
            Size::Ordinary(x) if !large => Hyperbolic::Small(x),
            _ => Hyperbolic::Large,
        }
    }

    /// Inverse of the hyperbolic sine.
    #[must_use]
    pub fn asinh(self) -> Decimal128 {
        let magnitude = match self.size() {
            Size::NotANumber | Size::Zero | Size::Tiny => return self,
            Size::Ordinary(x) if x.bits() < FRACTION + 60 => {
                let other = root(&ONE.add(&multiply(&x, &x)));
                from_fixed(false, logarithm_from_one(&x.add(&other)), 0)
            }
            _ => self.abs().twice_logarithm(),
        };
        if self.is_negative() { magnitude.neg() } else { magnitude }
    }

    /// Inverse of the hyperbolic cosine; NaN below one.
    #[must_use]
    pub fn acosh(self) -> Decimal128 {
        if self.is_negative() {
            return Decimal128::NAN;
        }
        match self.size() {
            Size::Ordinary(x) if x == *ONE => Decimal128::ZERO,
            Size::Ordinary(x) if x < *ONE => Decimal128::NAN,
            Size::Ordinary(x) if x.bits() < FRACTION + 60 => {
                let other = root(&multiply(&x, &x).sub(&ONE));
                from_fixed(false, logarithm_from_one(&x.add(&other)), 0)
            }
            Size::Ordinary(_) | Size::Huge => self.twice_logarithm(),
            Size::NotANumber | Size::Zero | Size::Tiny => Decimal128::NAN,
        }
    }

    /// Inverse of the hyperbolic tangent; infinite at one, NaN beyond.
    #[must_use]
    pub fn atanh(self) -> Decimal128 {
        match self.size() {
            Size::Zero | Size::Tiny => self,
            Size::Ordinary(x) if x == *ONE => {
                if self.is_negative() {
                    Decimal128::NEG_INFINITY
                } else {
                    Decimal128::INFINITY
                }
            }
            Size::Ordinary(x) if x < *ONE => {
                let ratio = divide(&ONE.add(&x), &ONE.sub(&x));
                from_fixed(self.is_negative(), logarithm_from_one(&ratio).shr(1), 0)
            }
            _ => Decimal128::NAN,
        }
    }

    /// ln(2x), to which the inverse hyperbolic functions of large numbers reduce.
    fn twice_logarithm(self) -> Decimal128 {
        if self.is_infinite() {
            return self;
        }
        self.ln().add(Decimal128::from_i32(2).ln())
    }
}

/// How the hyperbolic functions of a number are computed.
enum Hyperbolic {
    /// From both exponentials.
    Small(Intermediate),
    /// From the larger exponential alone.
    Large,
    /// Not at all: zero, next to zero, or no number.
    Itself,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        type Function = fn(Decimal128) -> Decimal128;
        let cases: [(Function, &str, &str); 13] = [
            (Decimal128::sin, "1", "0.8414709848078965066525023216302990"),
            (Decimal128::sin, "3", "0.1411200080598672221007448028081103"),
            (Decimal128::cos, "1", "0.5403023058681397174009366074429766"),
            (Decimal128::tan, "-1", "-1.557407724654902230506974807458360"),
            (Decimal128::asin, "1", "1.570796326794896619231321691639751"),
            (Decimal128::acos, "-1", "3.141592653589793238462643383279503"),
            (Decimal128::acos, "0.5", "1.047197551196597746154214461093168"),
            (Decimal128::atan, "0.5", "0.4636476090008061162142562314612144"),
            (Decimal128::sinh, "1", "1.175201193643801456882381850595601"),
            (Decimal128::cosh, "-1", "1.543080634815243778477905620757062"),
            (Decimal128::tanh, "-1", "-0.7615941559557648881194582826047936"),
            (Decimal128::asinh, "-1", "-0.8813735870195430252326093249797923"),
            (Decimal128::acosh, "180", "5.886096315311465311135584188786604"),
        ];
        for (function, argument, expected) in cases {
            let argument = Decimal128::parse(argument).unwrap();
            assert_eq!(function(argument).to_string(), expected, "of {argument}");
        }
    }
}
