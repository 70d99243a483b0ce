//! Collations: language-specific comparison of text.
//!
//! `parse` reads the document that clients write, `locale` knows the names, `collator` holds the
//! library that compares. Text in a key is replaced by its collation key, so that byte order stays
//! comparison order (`keys::encode_with`). Only strings are collated, also deep inside of
//! documents and arrays; never names of fields, patterns or code.

#[cfg(feature = "collation")]
mod collator;
#[cfg(not(feature = "collation"))]
#[path = "without.rs"]
mod collator;
mod locale;
mod parse;

pub use parse::CollationSource;

use crate::{DocBuf, RawDoc, Result, Type, Val};
use collator::Collator;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A collation other than the simple one, ready to compare.
pub struct Collation {
    document: DocBuf,
    collator: Collator,
}

impl Collation {
    /// Reads a `collation` document; `None` for the simple one.
    ///
    /// # Errors
    /// What MongoDB answers to one that is not valid: BadValue, TypeMismatch, 40414, 40415, 51024,
    /// IncompatibleCollationVersion.
    pub fn parse(doc: RawDoc<'_>, place: CollationSource) -> Result<Option<Arc<Collation>>> {
        let Some((spec, document)) = parse::parse(doc, place)? else { return Ok(None) };
        let collator = Collator::new(&spec)?;
        Ok(Some(Arc::new(Collation { document, collator })))
    }

    /// The full form, as `listIndexes` and explain show it.
    #[must_use]
    pub fn document(&self) -> RawDoc<'_> {
        self.document.as_doc()
    }

    /// The full form as messages show it.
    #[must_use]
    pub fn show(&self) -> String {
        parse::show(self.document())
    }

    /// Compares two texts.
    #[inline]
    #[must_use]
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        if a == b { Ordering::Equal } else { self.collator.compare(a, b) }
    }

    /// Bytes whose order is the order of the texts; equal texts have equal bytes.
    #[must_use]
    pub fn key(&self, text: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(text.len() + 8);
        self.collator.append_key(text, &mut key);
        key
    }
}

/// Collations are equal if all their options are.
impl PartialEq for Collation {
    fn eq(&self, other: &Collation) -> bool {
        self.document.bytes() == other.document.bytes()
    }
}

impl Eq for Collation {}

impl fmt::Debug for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.document.fmt(f)
    }
}

/// Whether two operations collate alike; `None` is the simple collation.
#[must_use]
pub fn same(a: Option<&Collation>, b: Option<&Collation>) -> bool {
    a == b
}

/// Whether a collation can affect the comparison of a value: text, documents and arrays.
#[inline]
#[must_use]
pub fn applies_to(value: Val<'_>) -> bool {
    matches!(value.kind(), Type::String | Type::Symbol | Type::Document | Type::Array)
}
