//! Counting distinct values with bounded memory, by their hashes (HyperLogLog).
//!
//! The first bits of a hash choose a register, the position of the first one among the others is
//! its rank. How many registers have each highest rank is enough for an estimate (O. Ertl, New
//! cardinality estimation algorithms for HyperLogLog sketches, 2017, algorithm 6). Here, that
//! histogram is all that is kept in one piece; what is below the highest rank of a register is kept
//! apart (`distinct`), so that values can be removed.

use value::{Val, keys};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The seed of the hashes. It is part of the stored format.
const SEED: u64 = 0x6d6f_7469_6600_0001;
/// The fewest and the most bits that choose a register.
const BITS: std::ops::RangeInclusive<u8> = 4..=18;
/// The standard error of an estimate, times the root of the number of registers.
const ERROR: f64 = 1.04;

/// The hash of a value. Values that compare as equal have the same hash, whatever their types.
pub fn hash_of(value: Val<'_>) -> u64 {
    xxh3_64_with_seed(&keys::key(value), SEED)
}

/// The number of bits that choose a register, such that the standard error is at most this;
/// `None` if it would take too many registers, or the error is no useful one.
#[must_use]
pub fn bits_for(error: f64) -> Option<u8> {
    let useful = error > 0.0 && error <= standard_error(*BITS.start());
    useful.then(|| BITS.into_iter().find(|bits| standard_error(*bits) <= error)).flatten()
}

/// The standard error of estimates with this many bits.
#[must_use]
pub fn standard_error(bits: u8) -> f64 {
    ERROR / registers(bits).sqrt()
}

fn registers(bits: u8) -> f64 {
    f64::from(1_u32 << bits)
}

/// The register of a hash, and its rank, which is at least 1.
#[must_use]
pub fn place_of(hash: u64, bits: u8) -> (u32, u8) {
    let register = (hash >> (64 - bits)) as u32;
    let rest = hash << bits;
    let rank = if rest == 0 { rank_max(bits) } else { rest.leading_zeros() as u8 + 1 };
    (register, rank)
}

fn rank_max(bits: u8) -> u8 {
    65 - bits
}

/// How many registers have each highest rank. Those without a rank are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bits: u8,
    /// The number of registers by rank, from rank 1; without zeros at the end.
    counts: Vec<u32>,
}

impl Histogram {
    /// A histogram of empty registers.
    #[must_use]
    pub fn new(bits: u8) -> Histogram {
        Histogram { bits, counts: Vec::new() }
    }

    /// The number of bits that choose a register.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether all registers are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Records that the highest rank of a register changed; zero means that it is empty.
    pub fn change(&mut self, before: u8, after: u8) {
        if before == after {
            return;
        }
        if let Some(at) = usize::from(after).checked_sub(1) {
            if self.counts.len() <= at {
                self.counts.resize(at + 1, 0);
            }
            if let Some(count) = self.counts.get_mut(at) {
                *count = count.saturating_add(1);
            }
        }
        let at = usize::from(before).checked_sub(1);
        if let Some(count) = at.and_then(|at| self.counts.get_mut(at)) {
            *count = count.saturating_sub(1);
        }
        while self.counts.last() == Some(&0) {
            self.counts.pop();
        }
    }

    /// The estimated number of distinct values.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        let all = registers(self.bits);
        let count = |rank: u8| {
            let at = usize::from(rank).checked_sub(1);
            f64::from(at.and_then(|at| self.counts.get(at)).copied().unwrap_or(0))
        };
        let used: f64 = self.counts.iter().copied().map(f64::from).sum();
        let highest = rank_max(self.bits);
        let mut sum = all * tau(1.0 - count(highest) / all);
        for rank in (1..highest).rev() {
            sum = 0.5 * (sum + count(rank));
        }
        sum += all * sigma((all - used) / all);
        all * all / (2.0 * std::f64::consts::LN_2 * sum)
    }

    /// The histogram as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.counts.iter().flat_map(|count| count.to_le_bytes()).collect()
    }

    /// Reads what `to_bytes` wrote.
    #[must_use]
    pub fn from_bytes(bits: u8, bytes: &[u8]) -> Histogram {
        let (counts, _) = bytes.as_chunks::<4>();
        Histogram { bits, counts: counts.iter().map(|count| u32::from_le_bytes(*count)).collect() }
    }
}

/// The share of empty registers: `x + Σ x^(2^k) 2^(k-1)`.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum <= before {
            return sum;
        }
    }
}

/// The share of full registers: `(1 - x - Σ (1 - x^(2^-k))² 2^-k) / 3`.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum >= before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{Decimal128, ejson};

    /// Numbers that look random, the same for each seed.
    struct Dice(u64);

    impl Dice {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }
    }

    fn estimate(bits: u8, hashes: impl Iterator<Item = u64>) -> f64 {
        let mut highest = vec![0_u8; 1 << bits];
        for hash in hashes {
            let (register, rank) = place_of(hash, bits);
            let known = &mut highest[register as usize];
            *known = rank.max(*known);
        }
        let mut histogram = Histogram::new(bits);
        highest.into_iter().for_each(|rank| histogram.change(0, rank));
        histogram.estimate()
    }

    #[test]
    fn values_that_are_equal_have_the_same_hash() {
        let hash = |text: &str| hash_of(ejson::parse_value(text).expect("test text").get());
        for same in ["1.0", "NumberLong(1)", "NumberDecimal('1.00')"] {
            assert_eq!(hash(same), hash("1"), "{same}");
        }
        let different = ["2", "'1'", "true", "null", "[1]", "{a: 1}", "''", "1.5"];
        for (at, other) in different.iter().enumerate() {
            assert_ne!(hash(other), hash("1"), "{other}");
            assert!(different[..at].iter().all(|known| hash(known) != hash(other)), "{other}");
        }
        // What is stored depends on these hashes.
        assert_eq!(hash_of(Val::Int32(1)), hash_of(Val::Decimal(Decimal128::from_i64(1))));
        assert_eq!(hash("'alice'"), 11_623_986_283_136_365_643);
    }

    #[test]
    fn a_smaller_error_takes_more_registers() {
        assert_eq!(bits_for(0.01), Some(14));
        assert_eq!(bits_for(0.0082), Some(14));
        assert_eq!(bits_for(0.005), Some(16));
        assert_eq!(bits_for(0.26), Some(4));
        assert_eq!(bits_for(0.0025), Some(18));
        for error in [0.002, 0.0, -0.01, 0.27, 1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(bits_for(error), None, "{error}");
        }
    }

    #[test]
    fn every_hash_has_a_register_and_a_rank() {
        assert_eq!(place_of(0, 14), (0, 51));
        assert_eq!(place_of(u64::MAX, 14), ((1 << 14) - 1, 1));
        assert_eq!(place_of(1, 14), (0, 50));
        assert_eq!(place_of(1 << 49, 14), (0, 1));
        assert_eq!(place_of(1, 4), (0, 60));
    }

    #[test]
    fn a_histogram_follows_its_registers_and_its_bytes() {
        let mut histogram = Histogram::new(4);
        assert!(histogram.is_empty());
        assert_eq!(histogram.estimate(), 0.0);
        histogram.change(0, 3);
        histogram.change(0, 1);
        histogram.change(3, 5);
        assert_eq!(Histogram::from_bytes(4, &histogram.to_bytes()), histogram);
        histogram.change(5, 0);
        histogram.change(1, 0);
        assert_eq!(histogram, Histogram::new(4));
    }

    /// The errors of many estimates have the promised spread, from small sets to large ones.
    #[test]
    fn estimates_are_as_close_as_promised() {
        for (bits, count, runs) in
            [(14, 200, 200), (14, 5_000, 100), (14, 50_000, 60), (10, 20_000, 200), (6, 1_000, 300)]
        {
            let promised = standard_error(bits);
            let (mut squares, mut beyond) = (0.0, 0);
            for run in 0..runs {
                let mut dice = Dice(run);
                let found = estimate(bits, (0..count).map(|_| dice.next()));
                let error = found / f64::from(count) - 1.0;
                squares += error * error;
                beyond += u32::from(error.abs() > 3.0 * promised);
            }
            let spread = (squares / runs as f64).sqrt();
            assert!(spread <= promised * 1.2, "{bits} {count}: {spread} instead of {promised}");
            assert!(f64::from(beyond) <= 0.01 * runs as f64, "{bits} {count}: {beyond} beyond");
        }
    }

    /// A million distinct values at an error of 0.01: the highest ranks of the registers are drawn
    /// from their distribution, which takes the same numbers as a million hashes would.
    #[test]
    fn a_million_values_are_within_three_times_the_error_in_99_of_100_runs() {
        let (bits, count) = (14, 1_000_000.0);
        let runs = 1_000;
        let mut beyond = 0;
        for run in 0..runs {
            let mut dice = Dice(run << 20);
            let mut histogram = Histogram::new(bits);
            // Each register has a Poisson number of values, so P(rank <= k) = exp(-load / 2^k).
            let load = count / registers(bits);
            for _ in 0..1 << bits {
                let chance = (dice.next() >> 11) as f64 / (1_u64 << 53) as f64;
                let rank = (0..rank_max(bits))
                    .find(|k| (-load / 2_f64.powi(i32::from(*k))).exp() >= chance);
                histogram.change(0, rank.unwrap_or(rank_max(bits)));
            }
            beyond += u64::from((histogram.estimate() / count - 1.0).abs() > 0.03);
        }
        assert!(beyond * 100 <= runs, "{beyond} of {runs}");
    }
}
