//! What rankings and sets keep for each child, behind the record of its group: an entry in the order
//! of the ranking, or how many children have a value.

use super::fold::{Part, State};
use crate::documents::Documents;
use crate::pattern::Pattern;
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

/// Follows changes of a ranking: its entries, and the list of those that are shown.
pub(super) fn rank<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    limit: usize,
    state: &mut State,
    changes: impl Iterator<Item = (&'c Part, bool)>,
) -> Result<()> {
    let mut list = match std::mem::take(state) {
        State::List(list) => list,
        _ => Vec::new(),
    };
    // All others stand behind the last one that is shown; a list that is not full has no others.
    let full = list.len() >= limit;
    let last = if full { list.last().map(|(place, _)| place.clone()) } else { None };
    for (part, adds) in changes {
        let Part::Place(place, value) = part else { continue };
        keep(pattern, documents, prefix, place, adds.then_some(value))?;
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
    if full && list.len() < limit {
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

/// Follows changes of a set: how many children have each value, and the list of values, or how
/// many there are.
pub(super) fn collect<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    listed: bool,
    state: &mut State,
    changes: impl Iterator<Item = (&'c Part, bool)>,
) -> Result<()> {
    let (mut list, mut distinct) = match std::mem::take(state) {
        State::List(list) => (list, 0),
        State::Number(number) => (Vec::new(), number),
        _ => (Vec::new(), 0),
    };
    for (part, adds) in changes {
        let Part::Value(value) = part else { continue };
        let encoded = keys::key(value.get());
        let entry = [prefix, &encoded].concat();
        let known = documents.state(pattern.id, &entry)?;
        let count = known.and_then(|doc| doc.as_doc().get("c").and_then(Val::as_i64_exact));
        let count = count.unwrap_or(0) + if adds { 1 } else { -1 };
        let doc = (count > 0).then(|| {
            DocBuf::build(|out| {
                out.i64("c", count);
            })
        });
        documents.set_state(pattern.id, &entry, doc)?;
        if !listed {
            distinct += i64::from(adds && count == 1) - i64::from(!adds && count == 0);
            continue;
        }
        match (list.binary_search_by(|(known, _)| known.cmp(&encoded)), count > 0) {
            (Err(at), true) => list.insert(at, (encoded, value.clone())),
            (Ok(at), false) => {
                list.remove(at);
            }
            _ => {}
        }
    }
    *state = match (listed, list.is_empty(), distinct) {
        (true, false, _) => State::List(list),
        (false, _, 1..) => State::Number(distinct),
        _ => State::Empty,
    };
    Ok(())
}
