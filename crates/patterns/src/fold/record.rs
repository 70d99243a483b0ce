//! The internal records of a fold and their keys: a record for each group, and entries for its
//! children.

use super::accumulators::AccumulatorState;
use smallvec::SmallVec;
use value::{DocBuf, RawDoc, RawVal, Val};

/// The record of a group.
#[derive(Default)]
pub(super) struct Record {
    /// The number of its children; if they are not counted, the length of the first ranking's
    /// result.
    pub(super) children: i64,
    /// The state of each field.
    pub(super) states: Vec<AccumulatorState>,
    /// When it last changed, if its fields show that.
    pub(super) at: Option<i64>,
    /// How many changes its targets do not show yet.
    pub(super) held: i64,
}

/// Key prefix of the records of groups; the encoded group key follows.
pub const GROUP: u8 = 1;
/// Key prefix of ranking entries; the index of the field, the group and the position follow.
pub(super) const PLACE: u8 = 2;
/// Key prefix of set entries, with the same layout.
pub(super) const MEMBER: u8 = 3;

impl Record {
    /// Reads a record that `to_doc` wrote.
    pub(super) fn of(doc: RawDoc<'_>, fields: usize) -> Record {
        let list = doc.get("f").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let mut states: Vec<AccumulatorState> =
            list.iter().map(|(_, state)| AccumulatorState::read(state.get())).collect();
        states.resize(fields, AccumulatorState::Empty);
        let children = doc.get("n").and_then(Val::as_i64_exact).unwrap_or(0);
        let at = doc.get("t").and_then(Val::as_i64_exact);
        let held = doc.get("u").and_then(Val::as_i64_exact).unwrap_or(0);
        Record { children, states, at, held }
    }

    /// The record of a group whose state is in its target: its key, and the types of its fields.
    pub(super) fn in_target(key: Val<'_>, sums: &[u8]) -> DocBuf {
        DocBuf::build(|out| {
            out.append("k", key).append("s", Val::Binary(0, sums));
        })
    }

    /// Returns the key and the types of such a record; `None` for others.
    pub(super) fn as_in_target(doc: RawDoc<'_>) -> Option<(Val<'_>, &[u8])> {
        let mut elements = doc.iter();
        let (Some((b"k", key)), Some((b"s", sums))) =
            (elements.next_bytes(), elements.next_bytes())
        else {
            return None;
        };
        match sums.get() {
            Val::Binary(_, sums) => Some((key.get(), sums)),
            _ => None,
        }
    }

    /// The number of children and the states in a document that `to_doc` wrote.
    pub(super) fn count_and_states(doc: RawDoc<'_>) -> Option<(RawVal<'_>, RawDoc<'_>)> {
        let mut elements = doc.iter();
        let (Some((b"k", _)), Some((b"n", children)), Some((b"f", states))) =
            (elements.next_bytes(), elements.next_bytes(), elements.next_bytes())
        else {
            return None;
        };
        Some((children, states.as_array()?))
    }

    /// The record as a document.
    pub(super) fn to_doc(&self, key: Val<'_>) -> DocBuf {
        DocBuf::build(|out| {
            out.append("k", key);
            out.i64("n", self.children);
            out.array("f", |list| self.states.iter().for_each(|state| state.write(list)));
            if let Some(at) = self.at {
                out.i64("t", at);
            }
            if self.held != 0 {
                out.i64("u", self.held);
            }
        })
    }
}

/// The key under which the record of a group is kept.
pub(super) fn record_key(encoded: &[u8]) -> SmallVec<[u8; 32]> {
    let mut key = SmallVec::with_capacity(encoded.len() + 1);
    key.push(GROUP);
    key.extend_from_slice(encoded);
    key
}

/// The key prefix of a field's entries.
pub(super) fn entry_prefix(kind: u8, field: usize, encoded: &[u8]) -> Vec<u8> {
    let mut key = vec![kind, field as u8];
    key.extend_from_slice(encoded);
    key
}
