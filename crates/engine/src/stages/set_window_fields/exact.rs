//! Sums of doubles without rounding errors, from which numbers can be subtracted again.
//!
//! The sum is one long fixed-point number that holds every double exactly; it is rounded only when
//! it is read. So it depends neither on the order of the numbers nor on earlier contents.

/// Used bits of a limb; the others hold the carries of many additions.
const LIMB_BITS: u32 = 32;

/// Limbs for every double, and for the carries of the largest possible count.
const LIMBS: usize = 70;

/// The exponent of the lowest bit of the first limb, as a power of two.
const LOWEST: i64 = -1074;

/// Additions after which carries must be propagated.
const CARRY_AFTER: u32 = 1 << 29;

/// An exact sum of doubles.
#[derive(Clone)]
pub(super) struct ExactSum {
    limbs: [i64; LIMBS],
    steps: u32,
    infinite: i64,
    negative_infinite: i64,
    not_a_number: i64,
}

impl Default for ExactSum {
    fn default() -> ExactSum {
        ExactSum { limbs: [0; LIMBS], steps: 0, infinite: 0, negative_infinite: 0, not_a_number: 0 }
    }
}

impl ExactSum {
    /// Adds a number.
    pub(super) fn add(&mut self, number: f64) {
        self.change(number, 1);
    }

    /// Subtracts a number that was added before.
    pub(super) fn subtract(&mut self, number: f64) {
        self.change(number, -1);
    }

    /// Adds a whole number.
    pub(super) fn add_whole(&mut self, number: i128) {
        // Parts that doubles represent exactly.
        let low = number & 0xFFFF_FFFF_FFFF;
        let middle = (number >> 48) & 0xFFFF_FFFF_FFFF;
        let high = number >> 96;
        self.add(high as f64 * 2f64.powi(96));
        self.add(middle as f64 * 2f64.powi(48));
        self.add(low as f64);
    }

    fn change(&mut self, number: f64, by: i64) {
        if !number.is_finite() {
            let counter = match number {
                _ if number.is_nan() => &mut self.not_a_number,
                _ if number > 0.0 => &mut self.infinite,
                _ => &mut self.negative_infinite,
            };
            *counter += by;
            return;
        }
        let bits = number.to_bits();
        let exponent = (bits >> 52) & 0x7FF;
        let fraction = bits & ((1 << 52) - 1);
        // Subnormal numbers have no hidden bit, and the exponent of the smallest normal number.
        let (mantissa, place) = match exponent {
            0 => (fraction, 0),
            _ => (fraction | (1 << 52), (exponent - 1) as u32),
        };
        let by = if number.is_sign_negative() { -by } else { by };
        let mut rest = u128::from(mantissa) << (place % LIMB_BITS);
        let first = (place / LIMB_BITS) as usize;
        for limb in self.limbs.iter_mut().skip(first).take(3) {
            *limb += by * i64::from(rest as u32);
            rest >>= LIMB_BITS;
        }
        self.steps += 1;
        if self.steps >= CARRY_AFTER {
            carry(&mut self.limbs);
            self.steps = 0;
        }
    }

    /// The sum as the nearest double.
    pub(super) fn value(&self) -> f64 {
        match (self.not_a_number > 0, self.infinite > 0, self.negative_infinite > 0) {
            (true, _, _) | (_, true, true) => return f64::NAN,
            (_, true, false) => return f64::INFINITY,
            (_, false, true) => return f64::NEG_INFINITY,
            _ => {}
        }
        let mut limbs = self.limbs;
        carry(&mut limbs);
        let negative = limbs.last().is_some_and(|last| *last < 0);
        if negative {
            limbs.iter_mut().for_each(|limb| *limb = -*limb);
            carry(&mut limbs);
        }
        let magnitude = rounded(&limbs);
        if negative { -magnitude } else { magnitude }
    }
}

/// Propagates carries to the next limb, so that all limbs but the last are positive.
fn carry(limbs: &mut [i64; LIMBS]) {
    let mut carried = 0;
    let last = limbs.len() - 1;
    for (at, limb) in limbs.iter_mut().enumerate() {
        let sum = *limb + carried;
        if at == last {
            *limb = sum;
        } else {
            *limb = sum & 0xFFFF_FFFF;
            carried = sum >> LIMB_BITS;
        }
    }
}

/// The nearest double to a positive number in limbs; ties go to even.
fn rounded(limbs: &[i64; LIMBS]) -> f64 {
    let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
    let limb = |at: usize| limbs.get(at).map_or(0, |limb| *limb as u128);
    // The four top limbs hold at least 53 bits, wherever the highest bit is.
    let base = top.saturating_sub(3);
    let window = (base..=top).rev().fold(0_u128, |sum, at| (sum << LIMB_BITS) | limb(at));
    let lower = limbs.iter().take(base).any(|limb| *limb != 0);
    let highest = 127 - window.leading_zeros();
    if highest < 53 {
        // Only numbers at the low end have so few bits, and these are exact.
        return f64::from_bits(window as u64);
    }
    let shift = highest - 52;
    let mut mantissa = (window >> shift) as u64;
    let half = 1_u128 << (shift - 1);
    let rest = window & ((1_u128 << shift) - 1);
    let above = rest > half || (rest == half && lower);
    if above || (rest == half && mantissa & 1 == 1) {
        mantissa += 1;
    }
    // The hidden bit adds one to the exponent.
    let exponent = base as u64 * u64::from(LIMB_BITS) + u64::from(shift);
    if exponent >= 2046 {
        return f64::INFINITY;
    }
    debug_assert_eq!(LOWEST, -1074, "the place of a bit is its power of two above the lowest");
    f64::from_bits((exponent << 52) + mantissa)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(numbers: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|number| sum.add(*number));
        sum.value()
    }

    #[test]
    fn sums_are_rounded_once() {
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
        assert_eq!(sum(&[1.0, 2f64.powi(-53)]), 1.0);
        assert_eq!(sum(&[1.0, 2f64.powi(-53), 5e-324]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[-1.5, 0.25]), -1.25);
        assert_eq!(sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[f64::NAN, 1.0]).is_nan());
    }

    #[test]
    fn whole_numbers_are_added_exactly() {
        for number in [0, 1, -1, i128::from(i64::MAX), i128::from(i64::MIN), 1 << 100, -(1 << 90)] {
            let mut sum = ExactSum::default();
            sum.add_whole(number);
            assert_eq!(sum.value(), number as f64, "{number}");
        }
    }

    proptest! {
        #[test]
        fn one_number_is_itself(number: f64) {
            let found = sum(&[number]);
            prop_assert!(found == number || (found.is_nan() && number.is_nan()));
        }

        #[test]
        fn two_numbers_are_added_as_the_machine_does(a: f64, b: f64) {
            let (found, expected) = (sum(&[a, b]), a + b);
            prop_assert!(found == expected || (found.is_nan() && expected.is_nan()));
        }

        #[test]
        fn what_is_taken_away_leaves_no_trace(kept: Vec<f64>, gone: Vec<f64>) {
            let mut all = ExactSum::default();
            kept.iter().chain(&gone).for_each(|number| all.add(*number));
            gone.iter().for_each(|number| all.subtract(*number));
            let (found, expected) = (all.value(), sum(&kept));
            prop_assert!(found == expected || (found.is_nan() && expected.is_nan()));
        }

        #[test]
        fn order_does_not_matter(mut numbers: Vec<f64>) {
            let forward = sum(&numbers);
            numbers.reverse();
            let backward = sum(&numbers);
            prop_assert!(forward == backward || (forward.is_nan() && backward.is_nan()));
        }
    }
}
