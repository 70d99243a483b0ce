//! The definition of an index (`definition`) and its keys for a document (`keys`, and one file for
//! each kind of index). Nothing here depends on collections, transactions or the store.
//!
//! Layer: catalog.

mod definition;
pub mod geo;
pub mod hashed;
pub mod keys;
pub mod multikey;
pub mod ordered;
pub mod text;
pub mod wildcard;

pub use definition::{Index, IndexField, IndexKind, IndexState};

use value::ejson::{self, Format};
use value::{RawDoc, Result, Val};

/// Returns the kind of index that a (checked) specification describes.
///
/// # Errors
/// When its options are invalid.
pub fn kind(spec: RawDoc<'_>) -> Result<IndexKind> {
    let key = spec.get("key").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    if let Some(wildcard) = wildcard::Wildcard::of(spec)? {
        return Ok(IndexKind::Wildcard(wildcard));
    }
    if let Some(geo) = geo::GeoFields::of(spec) {
        return Ok(IndexKind::Geo(geo));
    }
    if let Some(text) = text::TextFields::of(spec) {
        return Ok(IndexKind::Text(text));
    }
    if let Some(hashed) = hashed::Hashed::of(key) {
        return Ok(IndexKind::Hashed(hashed));
    }
    Ok(IndexKind::Ordered)
}

/// Returns for each encoded value of a key whether it is descending.
#[must_use]
pub fn columns(kind: &IndexKind, fields: &[IndexField]) -> Vec<bool> {
    let mut columns: Vec<bool> = fields.iter().map(|field| field.descending).collect();
    match kind {
        IndexKind::Ordered | IndexKind::Hashed(_) | IndexKind::Geo(_) | IndexKind::Text(_) => {}
        // The path comes before its value and is always ascending.
        IndexKind::Wildcard(wildcard) => columns.insert(wildcard.at.min(columns.len()), false),
    }
    columns
}

/// Returns a key pattern as plan summaries show it. Whole numbers have no decimal point.
#[must_use]
pub fn summary(key: RawDoc<'_>) -> String {
    let mut text = String::from("{");
    for (at, (name, value)) in key.iter().enumerate() {
        text.push_str(if at == 0 { " " } else { ", " });
        text.push_str(name);
        text.push_str(": ");
        match value.get().as_i64_exact() {
            Some(number) => text.push_str(&number.to_string()),
            None => text.push_str(&value_text(value.get())),
        }
    }
    text.push_str(" }");
    text
}

/// Returns a value as messages show it.
#[must_use]
pub fn value_text(value: Val<'_>) -> String {
    ejson::print_value(value, Format::Shell)
}

/// Returns a document as messages show it.
#[must_use]
pub fn doc_text(doc: RawDoc<'_>) -> String {
    ejson::print(doc, Format::Shell)
}
