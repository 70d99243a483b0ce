//! Indexes: the keys of a document (`keys`, and one file for each kind of index), keeping entries
//! right on writes (`maintain`), building an index beside running writes (`build`, `fill`, `runs`), and checking
//! specifications (`spec`).

pub mod build;
mod fill;
pub mod geo;
pub mod hashed;
pub mod keys;
pub mod maintain;
pub mod options;
pub mod ordered;
mod resume;
mod runs;
pub mod spec;
pub mod text;
pub mod wildcard;

use crate::catalog::{IndexField, IndexKind};
use value::{RawDoc, Result, Val};

pub use resume::resume;

/// The kind of index that a (checked) specification describes.
///
/// # Errors
/// When its options are not understood.
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

/// For each encoded value of a key, whether it runs from largest to smallest.
#[must_use]
pub fn columns(kind: &IndexKind, fields: &[IndexField]) -> Vec<bool> {
    let mut columns: Vec<bool> = fields.iter().map(|field| field.descending).collect();
    match kind {
        IndexKind::Ordered | IndexKind::Hashed(_) | IndexKind::Geo(_) | IndexKind::Text(_) => {}
        // The path stands before its value, always ascending.
        IndexKind::Wildcard(wildcard) => columns.insert(wildcard.at.min(columns.len()), false),
    }
    columns
}
