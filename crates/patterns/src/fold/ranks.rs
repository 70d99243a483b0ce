//! `$median` and `$percentile`: the values at ranks of the sorted numbers of a group.
//!
//! The numbers are in the entries of the group, in order. For each wanted rank the record keeps
//! how many numbers are before it, and its position. An added or removed number moves a rank by a
//! step or two along the entries, however many there are.

use super::accumulators::{AccumulatorState, Contribution};
use super::entries;
use crate::documents::Documents;
use crate::pattern::Pattern;
use query::accumulate::rank_of;
use value::{RawDoc, Result, Val, Writer, keys};

/// The positions of the wanted ranks of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranks {
    /// The number of numbers.
    pub(super) count: i64,
    /// For each rank: how many numbers are before it, and its position.
    pub(super) marks: Vec<(i64, Vec<u8>)>,
}

/// The field that distinguishes ranks from other documents.
const COUNT: &str = "ranked";

impl Ranks {
    /// Whether a document holds ranks.
    pub(super) fn is_in(doc: RawDoc<'_>) -> bool {
        doc.find(COUNT).is_some()
    }

    /// Appends them to a document.
    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.i64(COUNT, self.count);
        out.array("marks", |list| {
            for (before, place) in &self.marks {
                list.push(Val::Int64(*before));
                list.push(Val::Binary(0, place));
            }
        });
    }

    /// Reads ranks that `write` wrote.
    pub(super) fn from_doc(doc: RawDoc<'_>) -> Ranks {
        let list = doc.get("marks").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let mut parts = list.iter().map(|(_, part)| part.get());
        let mut marks = Vec::new();
        while let (Some(before), Some(Val::Binary(_, place))) = (parts.next(), parts.next()) {
            marks.push((before.as_i64_exact().unwrap_or(0), place.to_vec()));
        }
        Ranks { count: doc.get(COUNT).and_then(Val::as_i64_exact).unwrap_or(0), marks }
    }

    /// The numbers at the ranks.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Val<'static>> + '_ {
        self.marks.iter().map(|(_, place)| number_at(place).map_or(Val::Null, Val::Double))
    }
}

/// The position of a child's number: by number, then by child.
pub(super) fn rank_key(number: f64, id: Val<'_>) -> Vec<u8> {
    let bits = number.to_bits();
    // Inverts negative numbers, whose bits are in reverse order.
    let ordered = if number.is_sign_negative() { !bits } else { bits | (1 << 63) };
    let mut place = ordered.to_be_bytes().to_vec();
    keys::encode(&mut place, id, false);
    place
}

/// The number at a position.
fn number_at(place: &[u8]) -> Option<f64> {
    let ordered = u64::from_be_bytes(*place.first_chunk()?);
    let bits = if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered };
    Some(f64::from_bits(bits))
}

/// Applies changes to the numbers of a group: their entries, and the positions of the wanted
/// ranks.
pub(super) fn apply_changes<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    wanted: &[f64],
    state: &mut AccumulatorState,
    changes: impl Iterator<Item = (&'c Contribution, bool)>,
) -> Result<()> {
    let mut ranks = match std::mem::take(state) {
        AccumulatorState::Ranks(ranks) => ranks,
        _ => Ranks::default(),
    };
    let known = ranks.marks.len() == wanted.len();
    // Whether the number of each mark still exists.
    let mut there = vec![known; wanted.len()];
    ranks.marks.resize_with(wanted.len(), || (0, Vec::new()));
    for (part, adds) in changes {
        let Contribution::Ranked(place, value) = part else { continue };
        entries::keep(pattern, documents, prefix, place, adds.then_some(value))?;
        let step = if adds { 1 } else { -1 };
        ranks.count += step;
        for ((before, mark), there) in ranks.marks.iter_mut().zip(&mut there) {
            match place.cmp(mark) {
                std::cmp::Ordering::Less => *before += step,
                std::cmp::Ordering::Equal => *there = adds,
                std::cmp::Ordering::Greater => {}
            }
        }
    }
    if ranks.count <= 0 {
        return Ok(());
    }
    for (((before, mark), there), wanted) in ranks.marks.iter_mut().zip(there).zip(wanted) {
        let rank = rank_of(*wanted, ranks.count as usize) as i64;
        let steps = rank - *before;
        if steps == 0 && there {
            continue;
        }
        let from = if mark.is_empty() { Vec::new() } else { [prefix, mark].concat() };
        let mut found = Vec::new();
        // Forward, the next number is one step away, unless the mark's own number was removed.
        let mut left = if steps >= 0 { steps + i64::from(!there) } else { -steps };
        let mut visit = |key: &[u8], _: RawDoc<'_>| {
            left -= 1;
            if left == 0 {
                found = key.get(prefix.len()..).unwrap_or(&[]).to_vec();
            }
            Ok(left > 0)
        };
        match steps >= 0 {
            true => documents.states(pattern.id, prefix, &from, &mut visit)?,
            false => documents.states_before(pattern.id, prefix, &from, &mut visit)?,
        }
        (*before, *mark) = (rank, found);
    }
    *state = AccumulatorState::Ranks(ranks);
    Ok(())
}
