//! Sums of doubles without rounding errors: added values can be subtracted again, and the order
//! does not matter. The sum is kept as doubles that do not overlap (Shewchuk's expansions, as in
//! Python's `fsum`) and is rounded once, when it is read.

use smallvec::SmallVec;

/// Larger values are kept separately and scaled down, because their sums could overflow.
const LARGE: f64 = 1.0e300;
/// Sums of two values below this stay below `LARGE`.
const SIMPLE: f64 = 1.0e299;
/// The scale of large values: a power of two, so that scaling is exact.
const SCALE: f64 = 1.0 / (1_u128 << 100) as f64;

/// Doubles that do not overlap, smallest first. Most sums have no more than three.
type Parts = SmallVec<[f64; 3]>;

/// An exact sum of doubles. There may be one per group, so rare parts are allocated separately.
#[derive(Clone, Debug, Default)]
pub struct ExactSum {
    small: Parts,
    rare: Option<Box<RareParts>>,
}

impl PartialEq for ExactSum {
    /// Empty rare parts equal absent ones.
    fn eq(&self, other: &ExactSum) -> bool {
        let is_empty = |rare: &Option<Box<RareParts>>| {
            rare.as_ref().is_none_or(|rare| **rare == RareParts::default())
        };
        self.small == other.small
            && (self.rare == other.rare || (is_empty(&self.rare) && is_empty(&other.rare)))
    }
}

/// Parts that most sums do not need, allocated on first use.
#[derive(Clone, Debug, Default, PartialEq)]
struct RareParts {
    /// The parts of large values, scaled.
    large: Parts,
    /// How many of the values are NaN, infinite, negative infinite.
    nan: i64,
    infinite: i64,
    negative_infinite: i64,
}

impl ExactSum {
    /// The empty sum.
    #[must_use]
    pub fn new() -> ExactSum {
        ExactSum::default()
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        // The sum of the current sum and the value is often a single double.
        if let [sum] = self.small.as_mut_slice()
            && value.abs() < SIMPLE
            && sum.abs() < SIMPLE
        {
            let next = *sum + value;
            let (high, low) = if sum.abs() < value.abs() { (value, *sum) } else { (*sum, value) };
            if low - (next - high) == 0.0 && next != 0.0 {
                *sum = next;
                return;
            }
        }
        self.change(value, 1);
    }

    /// Subtracts a value that was added before.
    pub fn subtract(&mut self, value: f64) {
        self.change(value, -1);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        other.small.iter().for_each(|part| self.add(*part));
        if let Some(other) = &other.rare {
            let rare = self.rare();
            other.large.iter().for_each(|part| grow(&mut rare.large, *part));
            rare.nan += other.nan;
            rare.infinite += other.infinite;
            rare.negative_infinite += other.negative_infinite;
        }
    }

    /// Adds a whole number, in pieces that doubles hold exactly.
    pub fn add_whole(&mut self, whole: i128) {
        for shift in [0, 32, 64, 96] {
            let piece = (whole.unsigned_abs() >> shift) as u32;
            if piece != 0 {
                let piece = f64::from(piece) * 2_f64.powi(shift);
                self.add(if whole < 0 { -piece } else { piece });
            }
        }
    }

    fn rare(&mut self) -> &mut RareParts {
        self.rare.get_or_insert_default()
    }

    fn change(&mut self, value: f64, times: i64) {
        if value.is_nan() {
            self.rare().nan += times;
        } else if value.is_infinite() {
            let rare = self.rare();
            if value > 0.0 {
                rare.infinite += times;
            } else {
                rare.negative_infinite += times;
            }
        } else {
            let value = if times < 0 { -value } else { value };
            if value.abs() >= LARGE {
                grow(&mut self.rare().large, value * SCALE);
            } else {
                grow(&mut self.small, value);
                if let Some(last) = self.small.last().copied()
                    && last.abs() >= LARGE
                {
                    self.small.pop();
                    grow(&mut self.rare().large, last * SCALE);
                }
            }
        }
    }

    /// The sum, rounded once to the nearest double.
    #[must_use]
    pub fn value(&self) -> f64 {
        let Some(rare) = &self.rare else { return rounded(&self.small) };
        if rare.nan > 0 || (rare.infinite > 0 && rare.negative_infinite > 0) {
            return f64::NAN;
        }
        if rare.infinite > 0 {
            return f64::INFINITY;
        }
        if rare.negative_infinite > 0 {
            return f64::NEG_INFINITY;
        }
        if rare.large.is_empty() {
            return rounded(&self.small);
        }
        let mut all = rare.large.clone();
        for part in &self.small {
            grow(&mut all, part * SCALE);
        }
        rounded(&all) / SCALE
    }

    /// The sum as two doubles: the nearest one, and the nearest one to the remainder.
    #[must_use]
    pub fn value_and_rest(&self) -> (f64, f64) {
        let value = self.value();
        if !value.is_finite() {
            return (value, 0.0);
        }
        let mut rest = self.clone();
        rest.subtract(value);
        (value, rest.value())
    }

    /// The numbers that `from_parts` makes the same sum of: parts, large parts, special values.
    #[must_use]
    pub fn parts(&self) -> (&[f64], &[f64], [i64; 3]) {
        match &self.rare {
            None => (&self.small, &[], [0; 3]),
            Some(rare) => {
                (&self.small, &rare.large, [rare.nan, rare.infinite, rare.negative_infinite])
            }
        }
    }

    /// The sum that had these `parts`.
    #[must_use]
    pub fn from_parts(small: Vec<f64>, large: Vec<f64>, special: [i64; 3]) -> ExactSum {
        let [nan, infinite, negative_infinite] = special;
        let rare = RareParts { large: large.into(), nan, infinite, negative_infinite };
        let has_rare = rare != RareParts::default();
        ExactSum { small: small.into(), rare: has_rare.then(|| Box::new(rare)) }
    }
}

/// Adds a double to doubles that do not overlap; they do not overlap afterwards.
fn grow(parts: &mut Parts, value: f64) {
    let mut sum = value;
    let mut kept = 0;
    for at in 0..parts.len() {
        let Some(part) = parts.get(at).copied() else { break };
        let (high, low) = if sum.abs() < part.abs() { (part, sum) } else { (sum, part) };
        sum = high + low;
        let rest = low - (sum - high);
        if rest != 0.0 {
            if let Some(slot) = parts.get_mut(kept) {
                *slot = rest;
            }
            kept += 1;
        }
    }
    parts.truncate(kept);
    if sum != 0.0 {
        parts.push(sum);
    }
}

/// The sum of doubles that do not overlap, rounded half to even.
fn rounded(parts: &[f64]) -> f64 {
    let mut left = parts.iter().rev().copied();
    let Some(mut high) = left.next() else { return 0.0 };
    let mut low = 0.0;
    for part in left.by_ref() {
        let sum = high + part;
        low = part - (sum - high);
        high = sum;
        if low != 0.0 {
            break;
        }
    }
    // Exactly between two doubles the next part decides, not the even one.
    if let Some(next) = left.next()
        && low != 0.0
        && (low < 0.0) == (next < 0.0)
    {
        let twice = low * 2.0;
        let sum = high + twice;
        if sum - high == twice {
            high = sum;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::new();
        values.iter().for_each(|value| sum.add(*value));
        sum
    }

    #[test]
    fn sums_are_rounded_once() {
        assert_eq!(sum(&[0.1; 10]).value(), 1.0);
        assert_eq!(sum(&[1e100, 1.0, -1e100]).value(), 1.0);
        assert_eq!(sum(&[1e16, 1.0, 1e-16]).value(), 10_000_000_000_000_002.0);
        assert_eq!(sum(&[1e308, 1e308, -1e308]).value(), 1e308);
        assert_eq!(sum(&[1e308, 1e308]).value(), f64::INFINITY);
        assert_eq!(sum(&[]).value(), 0.0);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).value().is_nan());
        assert_eq!(sum(&[1e16, 1.0]).value_and_rest(), (1e16, 1.0));
    }

    #[test]
    fn what_was_added_can_be_taken_away() {
        let mut all = sum(&[1e16, 0.1, 0.1, 0.1, f64::INFINITY, f64::NAN]);
        [1e16, f64::NAN, f64::INFINITY].iter().for_each(|value| all.subtract(*value));
        assert_eq!(all.value().to_bits(), sum(&[0.1, 0.1, 0.1]).value().to_bits());
    }

    proptest! {
        #[test]
        fn order_does_not_matter(
            values in prop::collection::vec(any::<f64>(), 0..20),
            other in prop::collection::vec(any::<f64>(), 0..20),
        ) {
            let plain = sum(&values).value();
            let mut turned = ExactSum::new();
            other.iter().for_each(|value| turned.add(*value));
            values.iter().rev().for_each(|value| turned.add(*value));
            other.iter().rev().for_each(|value| turned.subtract(*value));
            prop_assert_eq!(plain.to_bits(), turned.value().to_bits());
            let (small, large, special) = turned.parts();
            let again = ExactSum::from_parts(small.to_vec(), large.to_vec(), special);
            prop_assert_eq!(again.value().to_bits(), plain.to_bits());
        }
    }
}
