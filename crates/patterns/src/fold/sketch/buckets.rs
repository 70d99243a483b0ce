//! Percentiles with a relative error, from which numbers can be removed.
//!
//! A bucket holds the numbers that share their sign, their exponent and the first bits of their
//! fraction, so that its width is a fixed share of its numbers. There is an entry for each bucket
//! with numbers: how many there are. For each wanted rank the record keeps its bucket, and how many
//! numbers are before that; a change moves it by a step or two along the entries.

use super::bounds::{BoundedValue, EXACTLY};
use super::entry::{children_of, with_children};
use crate::documents::Documents;
use crate::fold::accumulators::{AccumulatorState, Contribution};
use crate::fold::ranks::Ranks;
use crate::pattern::Pattern;
use query::accumulate::rank_of;
use std::collections::BTreeMap;
use value::{OwnedVal, RawDoc, Result, Val};

/// The bits of a number's fraction.
const FRACTION: u8 = 52;
/// The fewest and the most of them that choose a bucket.
const BITS: std::ops::RangeInclusive<u8> = 1..=12;

/// The number of bits of the fraction, such that the relative error is at most this; `None` if it
/// would take too many buckets, or the error is no useful one.
#[must_use]
pub fn fraction_bits_for(error: f64) -> Option<u8> {
    let useful = error > 0.0 && error <= relative_error(*BITS.start());
    useful.then(|| BITS.into_iter().find(|bits| relative_error(*bits) <= error)).flatten()
}

/// The largest relative error with this many bits: in a bucket from 1 to `1 + 2^-bits`.
fn relative_error(bits: u8) -> f64 {
    1.0 / (f64::from(2_u32 << bits) + 1.0)
}

/// The bucket of a number that is not NaN. Buckets are in the order of their numbers.
pub(super) fn bucket_of(number: f64, bits: u8) -> u32 {
    // Nearer to zero the exponent is no measure of the size.
    let number = if number.abs() < f64::MIN_POSITIVE { 0.0 } else { number };
    let raw = number.to_bits();
    let ordered = if number.is_sign_negative() { !raw } else { raw | (1 << 63) };
    (ordered >> (FRACTION - bits)) as u32
}

/// The bounds of the numbers of a bucket, and the number that is shown for them: the one with the
/// same relative distance from both.
fn numbers_of(bucket: u32, bits: u8) -> (f64, f64, f64) {
    let shift = FRACTION - bits;
    let sign = 1_u32 << (11 + bits);
    if bucket & sign == 0 {
        let mask = (sign << 1).wrapping_sub(1);
        let (low, number, high) = numbers_of(!bucket & mask, bits);
        return (-high, -number, -low);
    }
    let raw = u64::from(bucket & !sign) << shift;
    let low = f64::from_bits(raw);
    if low == 0.0 || low.is_infinite() {
        return (low, low, low);
    }
    // Between 1 and 2, so that nothing overflows.
    let one = 1.0_f64.to_bits();
    let start = f64::from_bits(one | (raw & ((1 << FRACTION) - 1)));
    let end = start + f64::from_bits(one - (u64::from(bits) << FRACTION));
    let scale = f64::from_bits(raw & !((1 << FRACTION) - 1));
    let high = f64::from_bits(raw + (1 << shift));
    (low, scale * (2.0 * start * end / (start + end)), high)
}

/// Applies changes of children to the entries and the ranks of a group.
pub(super) fn apply_changes<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    wanted: &[f64],
    state: &mut AccumulatorState,
    changes: impl Iterator<Item = (&'c Contribution, bool)>,
) -> Result<()> {
    let mut net: BTreeMap<u32, i64> = BTreeMap::new();
    for (part, adds) in changes {
        let Contribution::Value(value) = part else { continue };
        let Val::Int32(bucket) = value.get() else { continue };
        *net.entry(bucket as u32).or_default() += if adds { 1 } else { -1 };
    }
    let mut ranks = match std::mem::take(state) {
        AccumulatorState::Ranks(ranks) => ranks,
        _ => Ranks::default(),
    };
    ranks.marks.resize_with(wanted.len(), || (0, Vec::new()));
    for (bucket, change) in net.into_iter().filter(|(_, change)| *change != 0) {
        let place = bucket.to_be_bytes();
        let key = [prefix, &place].concat();
        let known = documents.state(pattern.id, &key)?;
        let before = known.map_or(0, |doc| children_of(doc.as_doc()));
        let after = (before + change).max(0);
        documents.set_state(pattern.id, &key, with_children(after))?;
        ranks.count += after - before;
        let behind = ranks.marks.iter_mut().filter(|(_, mark)| place.as_slice() < mark.as_slice());
        behind.for_each(|(count, _)| *count += after - before);
    }
    if ranks.count <= 0 {
        return Ok(());
    }
    for (mark, wanted) in ranks.marks.iter_mut().zip(wanted) {
        let rank = rank_of(*wanted, ranks.count as usize) as i64;
        move_to(pattern, documents, prefix, rank, mark)?;
    }
    *state = AccumulatorState::Ranks(ranks);
    Ok(())
}

/// Moves a mark to the bucket of a rank.
fn move_to(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    rank: i64,
    mark: &mut (i64, Vec<u8>),
) -> Result<()> {
    let (before, place) = mark;
    let from = if place.is_empty() { Vec::new() } else { [prefix, place].concat() };
    let place_in = |key: &[u8]| key.get(prefix.len()..).unwrap_or(&[]).to_vec();
    if rank < *before {
        return documents.states_before(pattern.id, prefix, &from, &mut |key, doc: RawDoc<'_>| {
            *before -= children_of(doc);
            *place = place_in(key);
            Ok(rank < *before)
        });
    }
    let mut here = match from.is_empty() {
        true => 0,
        false => documents.state(pattern.id, &from)?.map_or(0, |doc| children_of(doc.as_doc())),
    };
    if rank < *before + here {
        return Ok(());
    }
    documents.states(pattern.id, prefix, &from, &mut |key, doc: RawDoc<'_>| {
        *before += here;
        here = children_of(doc);
        *place = place_in(key);
        Ok(rank >= *before + here)
    })
}

/// The numbers at the wanted ranks, with their bounds; null without any numbers.
pub(super) fn values(bits: u8, wanted: usize, state: &AccumulatorState) -> Vec<BoundedValue> {
    let AccumulatorState::Ranks(ranks) = state else {
        let none = || OwnedVal::new(Val::Null);
        let empty =
            || BoundedValue { value: none(), low: none(), high: none(), confidence: EXACTLY };
        return (0..wanted).map(|_| empty()).collect();
    };
    let value = |(_, place): &(i64, Vec<u8>)| {
        let bucket = place.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let (low, number, high) = numbers_of(bucket, bits);
        let double = |number| OwnedVal::new(Val::Double(number));
        let (value, low, high) = (double(number), double(low), double(high));
        BoundedValue { value, low, high, confidence: EXACTLY }
    };
    ranks.marks.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_smaller_error_takes_more_buckets() {
        assert_eq!(fraction_bits_for(0.01), Some(6));
        assert_eq!(fraction_bits_for(0.2), Some(1));
        assert_eq!(fraction_bits_for(0.0002), Some(12));
        for error in [0.0001, 0.0, -1.0, 0.21, f64::NAN] {
            assert_eq!(fraction_bits_for(error), None, "{error}");
        }
    }

    #[test]
    fn numbers_without_a_size_have_buckets_of_their_own() {
        for bits in BITS {
            for number in [0.0, f64::INFINITY, f64::NEG_INFINITY] {
                let (low, shown, high) = numbers_of(bucket_of(number, bits), bits);
                assert_eq!((low, shown, high), (number, number, number));
            }
            assert_eq!(bucket_of(-0.0, bits), bucket_of(0.0, bits));
            assert_eq!(bucket_of(f64::MIN_POSITIVE / 2.0, bits), bucket_of(0.0, bits));
            let (_, largest, _) = numbers_of(bucket_of(f64::MAX, bits), bits);
            assert!(largest.is_finite() && largest > f64::MAX / 2.0);
        }
    }

    proptest! {
        #[test]
        fn the_shown_number_is_within_the_error(
            number in prop_oneof![-1e6_f64..1e6, -1.0_f64..1.0, prop::num::f64::NORMAL],
            other in -1e6_f64..1e6,
            bits in BITS,
        ) {
            let (low, shown, high) = numbers_of(bucket_of(number, bits), bits);
            if number.abs() >= f64::MIN_POSITIVE {
                let error = relative_error(bits) * 1.000_001;
                prop_assert!((shown - number).abs() <= number.abs() * error, "{number} {shown}");
            }
            prop_assert!(low <= number && number <= high, "{low} {number} {high}");
            prop_assert_eq!(
                bucket_of(number, bits) <= bucket_of(other, bits),
                number <= other || bucket_of(number, bits) == bucket_of(other, bits)
            );
        }
    }
}
