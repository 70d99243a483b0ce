//! The number of distinct values of a group's children, from which values can be removed.
//!
//! Up to `EXACT_MAX` distinct values there is an entry for each: its hash, and how many children
//! have it. Beyond, there is an entry for each register of a HyperLogLog: how many children have
//! each rank. The state in the record is the number of values, or the histogram of the highest
//! ranks. A group that had more values remains with registers until it is empty.

use super::entry::{children_of, with_children};
use super::hyperloglog::{Histogram, place_of};
use crate::documents::Documents;
use crate::fold::accumulators::{AccumulatorState, Contribution};
use crate::pattern::Pattern;
use std::collections::BTreeMap;
use value::{DocBuf, RawDoc, Result, Val};

/// Up to this many distinct values the number is exact.
pub const EXACT_MAX: i64 = 128;

/// How many children more have each hash.
type Changes = BTreeMap<u64, i64>;

/// Applies changes of children to the entries and the state of a group.
pub(super) fn apply_changes<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    bits: u8,
    state: &mut AccumulatorState,
    changes: impl Iterator<Item = (&'c Contribution, bool)>,
) -> Result<()> {
    let mut net = Changes::new();
    for (part, adds) in changes {
        let Contribution::Value(value) = part else { continue };
        let Some(hash) = value.get().as_i64_exact() else { continue };
        *net.entry(hash as u64).or_default() += if adds { 1 } else { -1 };
    }
    net.retain(|_, change| *change != 0);
    let values = match std::mem::take(state) {
        AccumulatorState::Registers(histogram) => {
            *state = change_registers(pattern, documents, prefix, histogram, &net)?;
            return Ok(());
        }
        AccumulatorState::Number(values) => values,
        _ => 0,
    };
    let mut members = Vec::with_capacity(net.len());
    let mut now = values;
    for (hash, change) in &net {
        let known = documents.state(pattern.id, &member_key(prefix, *hash))?;
        let before = known.map_or(0, |doc| children_of(doc.as_doc()));
        let after = (before + change).max(0);
        now += i64::from(after > 0) - i64::from(before > 0);
        members.push((*hash, after));
    }
    for (hash, after) in members {
        documents.set_state(pattern.id, &member_key(prefix, hash), with_children(after))?;
    }
    *state = match now {
        EXACT_BEYOND.. => to_registers(pattern, documents, prefix, bits)?,
        1.. => AccumulatorState::Number(now),
        _ => AccumulatorState::Empty,
    };
    Ok(())
}

const EXACT_BEYOND: i64 = EXACT_MAX + 1;

/// Replaces the entries of values by registers.
pub(super) fn to_registers(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    bits: u8,
) -> Result<AccumulatorState> {
    let mut all = Changes::new();
    documents.states(pattern.id, prefix, &[], &mut |key, doc| {
        if let Some(hash) = key.get(prefix.len()..).and_then(|hash| hash.try_into().ok()) {
            all.insert(u64::from_be_bytes(hash), children_of(doc));
        }
        Ok(true)
    })?;
    for hash in all.keys() {
        documents.set_state(pattern.id, &member_key(prefix, *hash), None)?;
    }
    change_registers(pattern, documents, prefix, Histogram::new(bits), &all)
}

fn change_registers(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    mut histogram: Histogram,
    changes: &Changes,
) -> Result<AccumulatorState> {
    let mut registers: BTreeMap<u32, Vec<(u8, i64)>> = BTreeMap::new();
    for (hash, change) in changes {
        let (register, rank) = place_of(*hash, histogram.bits());
        registers.entry(register).or_default().push((rank, *change));
    }
    for (register, changes) in registers {
        let key = register_key(prefix, register);
        let known = documents.state(pattern.id, &key)?;
        let mut ranks = known.map(|doc| Ranks::of(doc.as_doc())).unwrap_or_default();
        let before = ranks.highest();
        changes.iter().for_each(|(rank, change)| ranks.change(*rank, *change));
        histogram.change(before, ranks.highest());
        documents.set_state(pattern.id, &key, ranks.to_doc())?;
    }
    Ok(match histogram.is_empty() {
        true => AccumulatorState::Empty,
        false => AccumulatorState::Registers(histogram),
    })
}

/// The key of a value's entry.
fn member_key(prefix: &[u8], hash: u64) -> Vec<u8> {
    [prefix, &hash.to_be_bytes()].concat()
}

/// The key of a register's entry. It is shorter than that of a value.
fn register_key(prefix: &[u8], register: u32) -> Vec<u8> {
    [prefix, &register.to_be_bytes()].concat()
}

/// The ranks of one register: how many children have each.
#[derive(Debug, Default, PartialEq)]
struct Ranks(BTreeMap<u8, u64>);

impl Ranks {
    fn highest(&self) -> u8 {
        self.0.last_key_value().map_or(0, |(rank, _)| *rank)
    }

    fn change(&mut self, rank: u8, by: i64) {
        let count = self.0.entry(rank).or_default();
        *count = count.saturating_add_signed(by);
        if *count == 0 {
            self.0.remove(&rank);
        }
    }

    /// As bytes: each rank, and its count in groups of seven bits.
    fn to_doc(&self) -> Option<DocBuf> {
        let mut bytes = Vec::with_capacity(2 * self.0.len());
        for (rank, count) in &self.0 {
            bytes.push(*rank);
            let mut rest = *count;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        let write = || {
            DocBuf::build(|out| {
                out.append("r", Val::Binary(0, &bytes));
            })
        };
        (!self.0.is_empty()).then(write)
    }

    fn of(doc: RawDoc<'_>) -> Ranks {
        let Some(Val::Binary(_, bytes)) = doc.get("r") else { return Ranks::default() };
        let mut bytes = bytes.iter().copied();
        let mut ranks = BTreeMap::new();
        while let Some(rank) = bytes.next() {
            let (mut count, mut shift) = (0_u64, 0_u32);
            for byte in bytes.by_ref() {
                count |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            ranks.insert(rank, count);
        }
        Ranks(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_register_can_be_written_and_undone() {
        let mut ranks = Ranks::default();
        for (rank, by) in [(3, 1), (51, 1), (1, 127), (2, 128), (4, 1 << 40), (3, 4)] {
            ranks.change(rank, by);
        }
        assert_eq!(ranks.highest(), 51);
        let stored = ranks.to_doc().expect("it has ranks");
        assert_eq!(Ranks::of(stored.as_doc()), ranks);
        ranks.change(51, -1);
        assert_eq!(ranks.highest(), 4);
        for (rank, by) in [(1, -127), (2, -128), (4, -(1 << 40)), (3, -5)] {
            ranks.change(rank, by);
        }
        assert_eq!((ranks.highest(), ranks.to_doc()), (0, None));
    }
}
