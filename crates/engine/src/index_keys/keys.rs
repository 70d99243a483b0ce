//! Index keys of a document, for all kinds of indexes.
//!
//! A key is a sequence of encoded values. `Index::columns` gives their number and directions, so
//! entries of all kinds can be split and scanned in the same way. Each kind determines its values:
//! `ordered`, `hashed`, `wildcard`, `geo`, `text`.

use super::{Index, IndexKind};
use super::{geo, hashed, ordered, text, wildcard};
use query::interrupt;
use value::{Code, Error, RawDoc, Result};

/// One key of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Encoded values, without the index prefix and the record key.
    pub values: Vec<u8>,
    /// The type information that the encoding lacks (`value::key_types`): the value of the entry.
    pub types: Vec<u8>,
}

/// The keys of one document in one index.
#[derive(Default)]
pub struct Keys {
    /// Sorted by their values, without duplicates.
    pub keys: Vec<Key>,
    /// The paths that went through arrays, as bits of `super::multikey`.
    pub multikey: u64,
    /// Whether a number in a path is both a position of an array and a field name in it. New
    /// documents of this kind are refused; older ones keep their entries.
    pub ambiguous: bool,
    /// The memory of the keys.
    bytes: usize,
}

impl Keys {
    /// Refuses a new document in which a path of the index is ambiguous.
    ///
    /// # Errors
    /// 16746.
    pub fn refuse_ambiguous(&self) -> Result<()> {
        if self.ambiguous {
            return Err(Error::new(
                Code(16746),
                "Ambiguous field name found in array: a number in the path of an index is a \
                 position and a field name",
            ));
        }
        Ok(())
    }

    /// The memory of the keys.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the key with these values.
    #[must_use]
    pub fn get(&self, values: &[u8]) -> Option<&Key> {
        let at = self.keys.binary_search_by(|key| key.values.as_slice().cmp(values)).ok()?;
        self.keys.get(at)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// TransactionTooLargeForCache when the keys of the document need too much memory.
    pub(super) fn add(&mut self, key: Key) -> Result<()> {
        self.bytes += KEY_BYTES + key.values.len() + key.types.len();
        if self.bytes > ENTRIES_BYTES_MAX {
            return Err(too_many_entries());
        }
        self.keys.push(key);
        Ok(())
    }
}

/// The memory that a key takes besides its bytes.
const KEY_BYTES: usize = 64;

/// The most memory for the entries of one document in all indexes.
pub const ENTRIES_BYTES_MAX: usize = 512 * 1024 * 1024;

/// The error for a document whose entries need more memory than that.
#[must_use]
pub fn too_many_entries() -> Error {
    Error::new(
        Code::TRANSACTION_TOO_LARGE_FOR_CACHE,
        "the index entries of the document need more memory than one write may use",
    )
}

/// Whether values that cannot be indexed are refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// They are.
    All,
    /// The document is in the index already.
    None,
}

/// Returns all keys of a document; none if the filter of a partial index does not match it.
///
/// # Errors
/// CannotIndexParallelArrays and other errors of a kind, or TransactionTooLargeForCache.
pub fn keys(index: &Index, doc: RawDoc<'_>) -> Result<Keys> {
    keys_with(index, doc, Checks::All)
}

/// Returns the keys of a document that is in the index, also of one that earlier versions accepted
/// but `keys` refuses.
///
/// # Errors
/// As `keys`.
pub fn stored_keys(index: &Index, doc: RawDoc<'_>) -> Result<Keys> {
    keys_with(index, doc, Checks::None)
}

fn keys_with(index: &Index, doc: RawDoc<'_>, checks: Checks) -> Result<Keys> {
    let mut out = Keys::default();
    if let Some(partial) = &index.partial
        && !partial.matches(doc)?
    {
        return Ok(out);
    }
    match &index.kind {
        IndexKind::Ordered => ordered::keys(index, doc, &mut out)?,
        IndexKind::Hashed(hashed) => hashed::keys(index, *hashed, doc, &mut out)?,
        IndexKind::Wildcard(wildcard) => wildcard::keys(index, wildcard, doc, &mut out)?,
        IndexKind::Geo(fields) => geo::keys(index, fields, doc, checks, &mut out)?,
        IndexKind::Text(fields) => text::keys(index, fields, doc, checks, &mut out)?,
    }
    if out.keys.is_empty() {
        // Arrays in documents without entries do not make the index multikey.
        out.multikey = 0;
    }
    if out.keys.len() > 1 {
        interrupt::sort_by(&mut out.keys, |a, b| a.values.cmp(&b.values))?;
        out.keys.dedup_by(|a, b| a.values == b.values);
    }
    Ok(out)
}
