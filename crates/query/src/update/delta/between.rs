//! The delta between two whole documents, for updates by pipelines: fields in the order of the old
//! document stay where they are, all others go to the end.

use super::{ArrayDelta, DocDelta, Piece, Told};
use value::{RawDoc, RawVal};

/// How the change from `old` to `new` is told: by a delta if that is shorter than the document.
#[must_use]
pub fn between(old: RawDoc<'_>, new: RawDoc<'_>) -> Told {
    let delta = documents(old, new);
    if delta.len() < new.bytes().len() { Told::Delta(delta) } else { Told::Replacement }
}

fn documents(old: RawDoc<'_>, new: RawDoc<'_>) -> Vec<u8> {
    let mut delta = DocDelta::default();
    let mut afters = new.iter().peekable();
    for (name, before) in old {
        match afters.peek() {
            Some((found, after)) if *found == name => {
                delta.add(name, value(before, *after));
                afters.next();
            }
            // It comes later in the new document, so it goes to the end like what precedes it.
            _ if new.find(name).is_some() => {}
            _ => delta.add(name, Piece::Removed),
        }
    }
    for (name, after) in afters {
        delta.add(name, Piece::Inserted(after));
    }
    delta.finish()
}

fn value<'v>(old: RawVal<'v>, new: RawVal<'v>) -> Piece<'v> {
    if old == new {
        return Piece::Same;
    }
    let nested = if let Some((old, new)) = old.as_doc().zip(new.as_doc()) {
        documents(old, new)
    } else if let Some((old, new)) = old.as_array().zip(new.as_array()) {
        arrays(old, new)
    } else {
        return Piece::Updated(new);
    };
    if nested.len() < new.bytes.len() { Piece::Nested(nested) } else { Piece::Updated(new) }
}

fn arrays(old: RawDoc<'_>, new: RawDoc<'_>) -> Vec<u8> {
    let mut delta = ArrayDelta::default();
    let mut befores = old.iter();
    let mut length = 0;
    for (place, (_, after)) in new.iter().enumerate() {
        length = place + 1;
        match befores.next() {
            Some((_, before)) => delta.add(place, value(before, after)),
            None => delta.add(place, Piece::Updated(after)),
        }
    }
    if befores.next().is_some() {
        delta.length = Some(length);
    }
    delta.finish()
}
