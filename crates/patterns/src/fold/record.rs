//! What a fold keeps for itself, and under which keys: a record for each group, and entries behind it.

use super::accumulators::AccumulatorState;
use smallvec::SmallVec;
use value::{DocBuf, RawDoc, RawVal, Val};

/// The record of a group.
#[derive(Default)]
pub(super) struct Record {
    /// How many children it has; if they are not counted, how many the first ranking shows.
    pub(super) children: i64,
    /// What each field keeps.
    pub(super) states: Vec<AccumulatorState>,
}

/// The records of groups stand under this byte and their encoded keys.
pub const GROUP: u8 = 1;
/// Entries of rankings stand under this byte, the number of the field, the group and their place.
pub(super) const PLACE: u8 = 2;
/// Entries of sets, in the same way.
pub(super) const MEMBER: u8 = 3;

impl Record {
    /// The record that `to_doc` made.
    pub(super) fn of(doc: RawDoc<'_>, fields: usize) -> Record {
        let list = doc.get("f").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let mut states: Vec<AccumulatorState> =
            list.iter().map(|(_, state)| AccumulatorState::read(state.get())).collect();
        states.resize(fields, AccumulatorState::Empty);
        let children = doc.get("n").and_then(Val::as_i64_exact).unwrap_or(0);
        Record { children, states }
    }

    /// What is kept of a group whose target shows the rest: its key, and what its fields are sums of.
    pub(super) fn in_target(key: Val<'_>, sums: &[u8]) -> DocBuf {
        DocBuf::build(|out| {
            out.append("k", key).append("s", Val::Binary(0, sums));
        })
    }

    /// Key and sums, if nothing else is kept.
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

    /// Where the number of children and the states stand in what `to_doc` made.
    pub(super) fn places(doc: RawDoc<'_>) -> Option<(RawVal<'_>, RawDoc<'_>)> {
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

/// The beginning of the keys of a field's entries.
pub(super) fn entry_prefix(kind: u8, field: usize, encoded: &[u8]) -> Vec<u8> {
    let mut key = vec![kind, field as u8];
    key.extend_from_slice(encoded);
    key
}
