//! The most frequent values of a group's children, with exact counts.
//!
//! There are two entries for each distinct value: its count, by the value, and the value, in the
//! order of the counts. The state in the record is the beginning of that order.

use super::entry::{children_of, with_children};
use crate::documents::Documents;
use crate::edit;
use crate::fold::accumulators::{AccumulatorState, Contribution};
use crate::fold::entries;
use crate::pattern::Pattern;
use std::collections::BTreeMap;
use value::path::Path;
use value::{OwnedVal, Result, keys};

/// Applies changes of children to the entries and the state of a group. `counts` and `order` are
/// the prefixes of the entries.
pub(super) fn apply_changes<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    (counts, order): (&[u8], &[u8]),
    limit: usize,
    state: &mut AccumulatorState,
    changes: impl Iterator<Item = (&'c Contribution, bool)>,
) -> Result<()> {
    let mut net: BTreeMap<Vec<u8>, (i64, &OwnedVal)> = BTreeMap::new();
    for (part, adds) in changes {
        let Contribution::Value(value) = part else { continue };
        let (change, _) = net.entry(keys::key(value.get())).or_insert((0, value));
        *change += if adds { 1 } else { -1 };
    }
    let mut moves: Vec<(Contribution, bool)> = Vec::new();
    for (encoded, (change, value)) in net.iter().filter(|(_, (change, _))| *change != 0) {
        let key = [counts, encoded].concat();
        let known = documents.state(pattern.id, &key)?;
        let before = known.as_ref().map_or(0, |doc| children_of(doc.as_doc()));
        let after = (before + change).max(0);
        // Of several equal values the first one is shown.
        let shown = known.and_then(|doc| doc.as_doc().get("v").map(OwnedVal::new));
        let shown = shown.unwrap_or_else(|| (*value).clone());
        let entry = match with_children(after) {
            Some(entry) => {
                Some(edit::assign(entry.as_doc(), &[(Path::new("v"), Some(shown.clone()))])?)
            }
            None => None,
        };
        documents.set_state(pattern.id, &key, entry)?;
        for (count, adds) in [(before, false), (after, true)] {
            if count > 0 {
                moves.push((Contribution::Ranked(place_of(count, encoded), shown.clone()), adds));
            }
        }
    }
    let moves = moves.iter().map(|(part, adds)| (part, *adds));
    entries::rank(pattern, documents, order, limit, false, state, moves)
}

/// The position of a value: the larger count first, then the smaller value.
fn place_of(count: i64, encoded: &[u8]) -> Vec<u8> {
    [&(!count).to_be_bytes(), encoded].concat()
}

/// The values with their counts.
pub(super) fn values(state: &AccumulatorState) -> Vec<(OwnedVal, i64)> {
    let AccumulatorState::List(list) = state else { return Vec::new() };
    let listed = |(place, value): &(Vec<u8>, OwnedVal)| {
        let count = place.first_chunk().map_or(0, |bytes| !i64::from_be_bytes(*bytes));
        (value.clone(), count)
    };
    list.iter().map(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::Val;

    #[test]
    fn larger_counts_come_first() {
        let key = |number| keys::key(Val::Int32(number));
        let places = [
            place_of(1 << 40, &key(9)),
            place_of(300, &key(1)),
            place_of(300, &key(2)),
            place_of(2, &key(0)),
            place_of(1, &key(0)),
        ];
        assert!(places.is_sorted());
        let list = AccumulatorState::List(vec![(places[1].clone(), Val::Int32(1).into())]);
        assert_eq!(values(&list), [(OwnedVal::new(Val::Int32(1)), 300)]);
        assert_eq!(values(&AccumulatorState::Empty), []);
    }
}
