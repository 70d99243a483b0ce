//! Numbers of variable length, and lists of whole numbers in few bytes.

use value::{Error, Result};

/// Bytes that are read from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

/// The error for a record that cannot be read.
pub(super) fn damaged() -> Error {
    Error::internal("a record of a bucket cannot be read")
}

impl<'a> Reader<'a> {
    /// The next bytes.
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.0.split_first().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// A number that `number` wrote.
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    /// A number that counts something in memory.
    pub(super) fn length(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| damaged())
    }

    /// Bytes with their length in front.
    pub(super) fn sized(&mut self) -> Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// Eight bytes, in the order of memory.
    pub(super) fn eight(&mut self) -> Result<u64> {
        let bytes = self.take(8)?.first_chunk::<8>().ok_or_else(damaged)?;
        Ok(u64::from_le_bytes(*bytes))
    }
}

/// Appends a number in groups of seven bits, the lowest first.
#[inline]
pub(super) fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes with their length in front.
pub(super) fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Small numbers of both signs become small numbers.
fn folded(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unfolded(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// How the numbers of a list are written.
const OF_DIFFERENCES: u8 = 0;
const DIFFERENCES: u8 = 1;
const PLAIN: u8 = 2;

/// Appends a list of whole numbers: themselves, their differences or the differences of those,
/// whatever is shortest; equal ones in a row once with their number.
pub(super) fn list(out: &mut Vec<u8>, values: &[i64]) {
    let start = out.len();
    out.push(OF_DIFFERENCES);
    let (mut last, mut step) = (0_i64, 0_i64);
    runs(
        out,
        values.iter().map(|value| {
            let next = value.wrapping_sub(last);
            let turn = next.wrapping_sub(step);
            (last, step) = (*value, next);
            turn
        }),
    );
    if out.len() - start <= 12 + values.len() / 8 {
        return;
    }
    let mut best = out.split_off(start);
    let mut other = vec![DIFFERENCES];
    let mut last = 0_i64;
    runs(
        &mut other,
        values.iter().map(|value| {
            let next = value.wrapping_sub(last);
            last = *value;
            next
        }),
    );
    if other.len() < best.len() {
        best = other;
    }
    let mut other = vec![PLAIN];
    runs(&mut other, values.iter().copied());
    if other.len() < best.len() {
        best = other;
    }
    out.extend_from_slice(&best);
}

/// Appends numbers. Each is doubled, plus one if its count follows; the count zero stands before a
/// number that is too large to be doubled.
fn runs(out: &mut Vec<u8>, mut values: impl Iterator<Item = i64>) {
    let Some(mut current) = values.next() else { return };
    let mut count = 1_u64;
    loop {
        let next = values.next();
        if next == Some(current) {
            count += 1;
            continue;
        }
        let value = folded(current);
        if value >= 1 << 63 {
            for _ in 0..count {
                out.extend_from_slice(&[1, 0]);
                out.extend_from_slice(&value.to_le_bytes());
            }
        } else if count == 1 {
            number(out, value << 1);
        } else {
            number(out, value << 1 | 1);
            number(out, count);
        }
        let Some(next) = next else { return };
        (current, count) = (next, 1);
    }
}

/// Reads a list of so many numbers.
pub(super) fn read_list(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>> {
    let form = reader.byte()?;
    let mut values = Vec::with_capacity(count.min(1 << 16));
    let (mut last, mut step) = (0_i64, 0_i64);
    while values.len() < count {
        let (value, times) = match reader.number()? {
            token if token & 1 == 0 => (unfolded(token >> 1), 1),
            token => match reader.number()? {
                0 => (unfolded(reader.eight()?), 1),
                times => (unfolded(token >> 1), times),
            },
        };
        if times > (count - values.len()) as u64 {
            return Err(damaged());
        }
        for _ in 0..times {
            let next = match form {
                OF_DIFFERENCES => {
                    step = step.wrapping_add(value);
                    last.wrapping_add(step)
                }
                DIFFERENCES => last.wrapping_add(value),
                _ => value,
            };
            last = next;
            values.push(next);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_come_back(values in prop::collection::vec(
            prop_oneof![any::<i64>(), -3..3_i64, Just(i64::MIN), Just(i64::MAX)], 0..200))
        {
            let mut out = Vec::new();
            list(&mut out, &values);
            let mut reader = Reader(&out);
            prop_assert_eq!(read_list(&mut reader, values.len()).expect("whole"), values);
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn damaged_lists_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_list(&mut Reader(&bytes), 40);
        }
    }

    #[test]
    fn regular_times_take_next_to_nothing() {
        let times: Vec<i64> = (0..1000).map(|n| 1_700_000_000_000 + n * 30_000).collect();
        let mut out = Vec::new();
        list(&mut out, &times);
        assert!(out.len() < 25, "{}", out.len());
    }
}
