//! What rankings and sets keep for each child, behind the record of its group: an entry in the order
//! of the ranking, or how many children have a value.

use super::fold::{Part, State};
use crate::documents::Documents;
use crate::pattern::Pattern;
use std::collections::BTreeMap;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, keys};

/// The place of the last one that a ranking shows, from its list in a record; `None` while it shows
/// less than it could.
pub(super) fn last_shown(list: RawDoc<'_>, limit: usize) -> Option<&[u8]> {
    let mut places = list.iter().step_by(2);
    match places.nth(limit.checked_sub(1)?)?.1.get() {
        Val::Binary(_, place) => Some(place),
        _ => None,
    }
}

/// Keeps the entry of a child at its place; with no value it goes.
pub(super) fn keep(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    place: &[u8],
    value: Option<&OwnedVal>,
) -> Result<()> {
    let doc = value.map(|value| {
        DocBuf::build(|out| {
            out.raw("v", value.raw());
        })
    });
    documents.set_state(pattern.id, &[prefix, place].concat(), doc)
}

/// Follows changes of a ranking: its entries, and the list of those that are shown. With `anew` the list
/// is read from the entries once they are right, instead of following change by change.
pub(super) fn rank<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    limit: usize,
    anew: bool,
    state: &mut State,
    changes: impl Iterator<Item = (&'c Part, bool)>,
) -> Result<()> {
    let mut list = match std::mem::take(state) {
        State::List(list) if !anew => list,
        _ => Vec::new(),
    };
    // All others stand behind the last one that is shown; a list that is not full has no others.
    let full = list.len() >= limit;
    let last = if full { list.last().map(|(place, _)| place.clone()) } else { None };
    for (part, adds) in changes {
        let Part::Place(place, value) = part else { continue };
        keep(pattern, documents, prefix, place, adds.then_some(value))?;
        if anew {
            continue;
        }
        let at = list.binary_search_by(|(known, _)| known.cmp(place));
        if adds {
            if last.as_ref().is_none_or(|last| place <= last) {
                match at {
                    Ok(at) => {
                        if let Some(slot) = list.get_mut(at) {
                            slot.1 = value.clone();
                        }
                    }
                    Err(at) => list.insert(at, (place.clone(), value.clone())),
                }
            }
        } else if let Ok(at) = at {
            list.remove(at);
        }
    }
    if anew || (full && list.len() < limit) {
        list.clear();
        documents.states(pattern.id, prefix, &[], &mut |key, doc| {
            let place = key.get(prefix.len()..).unwrap_or(&[]).to_vec();
            list.push((place, OwnedVal::new(doc.get("v").unwrap_or(Val::Null))));
            Ok(list.len() < limit)
        })?;
    }
    list.truncate(limit);
    *state = if list.is_empty() { State::Empty } else { State::List(list) };
    Ok(())
}

/// The values of a set, by their encoded keys, while changes are followed.
struct Members {
    list: BTreeMap<Vec<u8>, OwnedVal>,
    /// How many children have each value that was met, and how many had it before.
    counts: BTreeMap<Vec<u8>, (i64, i64)>,
}

/// Follows changes of a set: how many children have each value, and the list of values, or how
/// many there are. However many children come and go with a value, its entry is read and written once.
pub(super) fn collect<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    listed: bool,
    state: &mut State,
    changes: impl Iterator<Item = (&'c Part, bool)>,
) -> Result<()> {
    let (list, mut distinct) = match std::mem::take(state) {
        State::List(list) => (list.into_iter().collect(), 0),
        State::Number(number) => (BTreeMap::new(), number),
        _ => (BTreeMap::new(), 0),
    };
    let mut members = Members { list, counts: BTreeMap::new() };
    for (part, adds) in changes {
        let Part::Value(value) = part else { continue };
        let encoded = keys::key(value.get());
        let known = match members.counts.get(&encoded) {
            Some(known) => *known,
            None => {
                let known = documents.state(pattern.id, &[prefix, &encoded].concat())?;
                let count = known.and_then(|doc| doc.as_doc().get("c").and_then(Val::as_i64_exact));
                let count = count.unwrap_or(0);
                (count, count)
            }
        };
        let count = known.0 + if adds { 1 } else { -1 };
        members.counts.insert(encoded.clone(), (count, known.1));
        if !listed {
            distinct += i64::from(adds && count == 1) - i64::from(!adds && count == 0);
        } else if count <= 0 {
            members.list.remove(&encoded);
        } else {
            // Of several equal values the first one stands for all.
            members.list.entry(encoded).or_insert_with(|| value.clone());
        }
    }
    for (encoded, (count, before)) in members.counts {
        if count == before {
            continue;
        }
        let doc = (count > 0).then(|| {
            DocBuf::build(|out| {
                out.i64("c", count);
            })
        });
        documents.set_state(pattern.id, &[prefix, &encoded].concat(), doc)?;
    }
    *state = match (listed, members.list.is_empty(), distinct) {
        (true, false, _) => State::List(members.list.into_iter().collect()),
        (false, _, 1..) => State::Number(distinct),
        _ => State::Empty,
    };
    Ok(())
}
