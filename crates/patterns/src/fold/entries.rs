//! The records of rankings and sets for each child, besides the record of its group: an entry in
//! the order of the ranking, or the number of children that have a value.

use super::accumulators::{AccumulatorState, Contribution};
use crate::documents::Documents;
use crate::pattern::Pattern;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, keys};

/// A value of the result, with its position.
type Listed = (Vec<u8>, OwnedVal);

/// The position of the last value in a ranking's result, from its list in a record; `None` while
/// the result is shorter than its limit.
pub(super) fn last_listed(list: RawDoc<'_>, limit: usize) -> Option<&[u8]> {
    let mut elements = list.iter();
    // Each place is followed by its value.
    for _ in 0..limit.checked_sub(1)?.checked_mul(2)? {
        elements.next_bytes()?;
    }
    match elements.next_bytes()?.1.get() {
        Val::Binary(_, place) => Some(place),
        _ => None,
    }
}

/// Stores the entry of a child at its position; without a value it is removed.
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

/// Applies changes to a ranking: its entries, and the list that is its result. With `anew` the
/// list is read from the updated entries, instead of applying each change to it.
pub(super) fn rank<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    limit: usize,
    anew: bool,
    state: &mut AccumulatorState,
    changes: impl Iterator<Item = (&'c Contribution, bool)>,
) -> Result<()> {
    let mut list = match std::mem::take(state) {
        AccumulatorState::List(list) if !anew => list,
        _ => Vec::new(),
    };
    // All other entries are after the last one of the result; if the list is not full there are
    // none.
    let full = list.len() >= limit;
    let last = if full { list.last().map(|(place, _)| place.clone()) } else { None };
    for (part, adds) in changes {
        let Contribution::Ranked(place, value) = part else { continue };
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
    *state = list_of(list);
    Ok(())
}

/// A value of a set that changed children have.
struct Member {
    /// How many children have it.
    count: i64,
    /// How many had it before.
    before: i64,
    /// The value to list, if no child had it before or in between.
    value: Option<OwnedVal>,
}

/// Applies changes to a set: the number of children with each value, and the list of values or
/// their number. The entry of a value is read and written once, for any number of changes.
pub(super) fn collect<'c>(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    prefix: &[u8],
    listed: bool,
    state: &mut AccumulatorState,
    changes: impl Iterator<Item = (&'c Contribution, bool)>,
) -> Result<()> {
    let mut members: BTreeMap<Vec<u8>, Member> = BTreeMap::new();
    for (part, adds) in changes {
        let Contribution::Value(value) = part else { continue };
        let member = match members.entry(keys::key(value.get())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let known = documents.state(pattern.id, &[prefix, place.key()].concat())?;
                let count = known.and_then(|doc| doc.as_doc().get("c").and_then(Val::as_i64_exact));
                let count = count.unwrap_or(0);
                place.insert(Member { count, before: count, value: None })
            }
        };
        member.count += if adds { 1 } else { -1 };
        // Of several equal values the first one is listed.
        if adds && member.count == 1 {
            member.value = Some(value.clone());
        }
    }
    for (encoded, member) in members.iter().filter(|(_, m)| m.count != m.before) {
        let doc = (member.count > 0).then(|| {
            DocBuf::build(|out| {
                out.i64("c", member.count);
            })
        });
        documents.set_state(pattern.id, &[prefix, encoded].concat(), doc)?;
    }
    *state = match (listed, std::mem::take(state)) {
        (true, AccumulatorState::List(list)) => list_of(merged(list, members)),
        (true, _) => list_of(merged(Vec::new(), members)),
        (false, known) => {
            let had = if let AccumulatorState::Number(number) = known { number } else { 0 };
            let change = |m: &Member| i64::from(m.count > 0) - i64::from(m.before > 0);
            match had + members.values().map(change).sum::<i64>() {
                distinct @ 1.. => AccumulatorState::Number(distinct),
                _ => AccumulatorState::Empty,
            }
        }
    };
    Ok(())
}

/// The list of a set after some of its members changed.
fn merged(list: Vec<Listed>, members: BTreeMap<Vec<u8>, Member>) -> Vec<Listed> {
    let mut merged = Vec::with_capacity(list.len() + members.len());
    let mut list = list.into_iter().peekable();
    for (encoded, member) in members {
        while let Some(before) = list.next_if(|(known, _)| *known < encoded) {
            merged.push(before);
        }
        let known = list.next_if(|(known, _)| *known == encoded);
        let value = member.value.or(known.map(|(_, value)| value));
        if let Some(value) = value.filter(|_| member.count > 0) {
            merged.push((encoded, value));
        }
    }
    merged.extend(list);
    merged
}

fn list_of(list: Vec<Listed>) -> AccumulatorState {
    if list.is_empty() { AccumulatorState::Empty } else { AccumulatorState::List(list) }
}
