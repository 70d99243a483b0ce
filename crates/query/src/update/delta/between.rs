//! The delta between two whole documents, for updates by pipelines: fields in the order of the old
//! document stay where they are, all others go to the end.

use super::{ArrayDelta, DocDelta, FieldChange, LoggedUpdate};
use smallvec::SmallVec;
use value::{RawDoc, RawVal, writer};

/// What MongoDB adds to the length of a delta before it compares it with the document.
const PADDING_BYTES: usize = 15;

/// The record of the change from `old` to `new`: a delta if that is shorter than the document.
/// Clients see the difference, as `update` or `replace`, so the limit is MongoDB's.
#[must_use]
pub fn between(old: RawDoc<'_>, new: RawDoc<'_>) -> LoggedUpdate {
    let delta = values(old, new).unwrap_or_else(|| documents(old, new));
    let length = new.bytes().len();
    let is_shorter = delta.len() + PADDING_BYTES < length
        || delta.len() + PADDING_BYTES < length + nested(RawDoc::new(&delta));
    if is_shorter { LoggedUpdate::Delta(delta) } else { LoggedUpdate::Replacement }
}

/// The number of deltas inside a delta; MongoDB counts each a byte shorter than it is.
fn nested(delta: RawDoc<'_>) -> usize {
    let inner = delta.iter().filter(|(name, _)| name.starts_with('s'));
    inner.filter_map(|(_, delta)| delta.as_doc()).map(|delta| 1 + nested(delta)).sum()
}

/// The delta of documents that differ in plain values of the same length alone, as sums and counts do;
/// `None` for others.
fn values(old: RawDoc<'_>, new: RawDoc<'_>) -> Option<Vec<u8>> {
    if old.bytes().len() != new.bytes().len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(96);
    let start = writer::open(&mut bytes);
    bytes.extend_from_slice(&[0x03, b'u', 0]);
    let inner = writer::open(&mut bytes);
    let (mut olds, mut news) = (old.iter(), new.iter());
    let mut changed = false;
    loop {
        match (olds.next_bytes(), news.next_bytes()) {
            (None, None) => break,
            (Some((name, before)), Some((same, after))) if name == same => {
                if before == after {
                    continue;
                }
                let plain = before.kind == after.kind && before.bytes.len() == after.bytes.len();
                if !plain || matches!(after.kind, 0x03 | 0x04) {
                    return None;
                }
                changed = true;
                bytes.push(after.kind);
                bytes.extend_from_slice(name);
                bytes.push(0);
                bytes.extend_from_slice(after.bytes);
            }
            _ => return None,
        }
    }
    writer::close(&mut bytes, inner);
    writer::close(&mut bytes, start);
    changed.then_some(bytes)
}

fn documents(old: RawDoc<'_>, new: RawDoc<'_>) -> Vec<u8> {
    let mut delta = DocDelta::default();
    let mut removed: SmallVec<[&str; 4]> = SmallVec::new();
    let mut afters = new.iter().peekable();
    for (name, before) in old {
        match afters.peek() {
            Some((found, after)) if *found == name => {
                delta.add(name, value(before, *after));
                afters.next();
            }
            // It comes later in the new document, so it goes to the end like what precedes it.
            _ if new.find(name).is_some() => {}
            _ => removed.push(name),
        }
    }
    // Change events list them in this order.
    removed.sort_unstable();
    for name in removed {
        delta.add(name, FieldChange::Removed);
    }
    for (name, after) in afters {
        delta.add(name, FieldChange::Inserted(after));
    }
    delta.finish()
}

fn value<'v>(old: RawVal<'v>, new: RawVal<'v>) -> FieldChange<'v> {
    if old == new {
        return FieldChange::Same;
    }
    let nested = if let Some((old, new)) = old.as_doc().zip(new.as_doc()) {
        documents(old, new)
    } else if let Some((old, new)) = old.as_array().zip(new.as_array()) {
        arrays(old, new)
    } else {
        return FieldChange::Updated(new);
    };
    if nested.len() < new.bytes.len() {
        FieldChange::Nested(nested)
    } else {
        FieldChange::Updated(new)
    }
}

fn arrays(old: RawDoc<'_>, new: RawDoc<'_>) -> Vec<u8> {
    let mut delta = ArrayDelta::default();
    let mut befores = old.iter();
    let mut length = 0;
    for (place, (_, after)) in new.iter().enumerate() {
        length = place + 1;
        match befores.next() {
            Some((_, before)) => delta.add(place, value(before, after)),
            None => delta.add(place, FieldChange::Updated(after)),
        }
    }
    if befores.next().is_some() {
        delta.length = Some(length);
    }
    delta.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn plain_values_of_the_same_length_are_told_as_any_others() {
        let doc = |text: &str| ejson::parse_doc(text).expect("test text");
        let old = doc("{_id: 1, a: 1, s: 'xy', o: {b: 1}, l: [1], z: 1.5}");
        for (new, plain) in [
            ("{_id: 1, a: 2, s: 'xy', o: {b: 1}, l: [1], z: 1.5}", true),
            ("{_id: 1, a: 2, s: 'yz', o: {b: 1}, l: [1], z: 2.5}", true),
            ("{_id: 1, a: 1, s: 'xy', o: {b: 1}, l: [1], z: 1.5}", false),
            ("{_id: 1, a: 1, s: 'xy', o: {b: 2}, l: [1], z: 1.5}", false),
            ("{_id: 1, a: 1, s: 'xy', o: {b: 1}, l: [2], z: 1.5}", false),
            ("{_id: 1, a: 1, z: 1.5, s: 'xy', o: {b: 1}, l: [1]}", false),
            ("{_id: 1, a: 1, s: 'xy', o: {b: 1}, l: [1], y: 1.5}", false),
            ("{_id: 1, a: 1, s: 'xyz', o: {b: 1}, l: [1], z: 1.5}", false),
        ] {
            let new = doc(new);
            let found = values(old.as_doc(), new.as_doc());
            assert_eq!(found.is_some(), plain, "{new:?}");
            let all = documents(old.as_doc(), new.as_doc());
            assert!(found.is_none_or(|found| found == all), "{new:?}");
        }
    }
}
