//! What must hold for every document that the database makes.

use value::ejson::{self, Format};
use value::{RawDoc, Val, limits};

/// Deeper than clients may write: replies wrap documents once more.
const DEPTH_MAX: usize = limits::DEPTH_MAX_WIRE + 20;

/// Whatever comes out is proper BSON of which every value can be read and shown.
///
/// # Panics
/// When it is not.
pub fn is_proper(bytes: &[u8]) {
    let doc = value::validate::validate(bytes, DEPTH_MAX).expect("what comes out is proper BSON");
    walk(doc);
}

/// Reads every value of a document.
pub fn walk(doc: RawDoc<'_>) -> usize {
    doc.iter()
        .map(|(name, value)| match value.get() {
            Val::Document(inner) | Val::Array(inner) => walk(inner),
            _ => name.len(),
        })
        .sum()
}

/// A document in words, for messages about broken laws.
#[must_use]
pub fn show(doc: RawDoc<'_>) -> String {
    ejson::print(doc, Format::Shell)
}
