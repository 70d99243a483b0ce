//! MongoDB's comparison order of all values: total, by type rank first, then by content.

use crate::{Collation, RawDoc, Val, number};
use std::cmp::Ordering;

/// Compares two values of any types.
#[must_use]
pub fn compare(a: Val<'_>, b: Val<'_>) -> Ordering {
    match (a, b) {
        (Val::Int32(a), Val::Int32(b)) => a.cmp(&b),
        (Val::String(a) | Val::Symbol(a), Val::String(b) | Val::Symbol(b)) => {
            a.as_bytes().cmp(b.as_bytes())
        }
        _ => a.kind().rank().cmp(&b.kind().rank()).then_with(|| same_rank(a, b)),
    }
}

/// Compares with a collation for all text; `None` compares bytes.
#[must_use]
pub fn compare_with(a: Val<'_>, b: Val<'_>, collation: Option<&Collation>) -> Ordering {
    let Some(collation) = collation else { return compare(a, b) };
    match (a, b) {
        (Val::String(a) | Val::Symbol(a), Val::String(b) | Val::Symbol(b)) => {
            collation.compare(a, b)
        }
        (Val::Document(a), Val::Document(b)) => documents_by(a, b, Some(collation)),
        (Val::Array(a), Val::Array(b)) => arrays_by(a, b, Some(collation)),
        (Val::CodeWithScope(a, a_scope), Val::CodeWithScope(b, b_scope)) => {
            let order = a.as_bytes().cmp(b.as_bytes());
            order.then_with(|| documents_by(a_scope, b_scope, Some(collation)))
        }
        _ => compare(a, b),
    }
}

/// Whether two values are equal in MongoDB's order (1 equals 1.0 and NumberLong(1)).
#[must_use]
pub fn equal(a: Val<'_>, b: Val<'_>) -> bool {
    compare(a, b) == Ordering::Equal
}

fn same_rank(a: Val<'_>, b: Val<'_>) -> Ordering {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(&b),
        (Val::Document(a), Val::Document(b)) => documents(a, b),
        (Val::Array(a), Val::Array(b)) => arrays(a, b),
        (Val::Binary(a_type, a), Val::Binary(b_type, b)) => {
            a.len().cmp(&b.len()).then(a_type.cmp(&b_type)).then_with(|| a.cmp(b))
        }
        (Val::ObjectId(a), Val::ObjectId(b)) => a.cmp(&b),
        (Val::DateTime(a), Val::DateTime(b)) => a.cmp(&b),
        (Val::Timestamp(a), Val::Timestamp(b)) => a.cmp(&b),
        (Val::Regex(a, a_options), Val::Regex(b, b_options)) => {
            a.as_bytes().cmp(b.as_bytes()).then_with(|| a_options.cmp(b_options))
        }
        (Val::DbPointer(a, a_id), Val::DbPointer(b, b_id)) => {
            a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes())).then(a_id.cmp(&b_id))
        }
        (Val::Code(a), Val::Code(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Val::CodeWithScope(a, a_scope), Val::CodeWithScope(b, b_scope)) => {
            a.as_bytes().cmp(b.as_bytes()).then_with(|| documents(a_scope, b_scope))
        }
        _ => number::compare(a, b).unwrap_or(Ordering::Equal),
    }
}

/// Compares arrays element by element; a prefix is smaller. Names are ignored, because clients may
/// send other names than indexes.
#[must_use]
pub fn arrays(a: RawDoc<'_>, b: RawDoc<'_>) -> Ordering {
    arrays_by(a, b, None)
}

fn arrays_by(a: RawDoc<'_>, b: RawDoc<'_>, collation: Option<&Collation>) -> Ordering {
    let (mut a, mut b) = (a.iter(), b.iter());
    loop {
        match (a.next_bytes(), b.next_bytes()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((_, a)), Some((_, b))) => match compare_with(a.get(), b.get(), collation) {
                Ordering::Equal => {}
                order => return order,
            },
        }
    }
}

/// Compares documents field by field: type rank, then name, then value; a prefix is smaller.
#[must_use]
pub fn documents(a: RawDoc<'_>, b: RawDoc<'_>) -> Ordering {
    documents_by(a, b, None)
}

fn documents_by(a: RawDoc<'_>, b: RawDoc<'_>, collation: Option<&Collation>) -> Ordering {
    let (mut a, mut b) = (a.iter(), b.iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((a_name, a)), Some((b_name, b))) => {
                let order = (a.kind().rank().cmp(&b.kind().rank()))
                    .then_with(|| a_name.as_bytes().cmp(b_name.as_bytes()))
                    .then_with(|| compare_with(a.get(), b.get(), collation));
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}
