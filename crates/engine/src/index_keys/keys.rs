//! Document to index keys: one front for all kinds of indexes.
//!
//! A key is one encoded value after another (`Index::columns` says how many and which way each
//! runs), so entries of all kinds can be split and ranged over alike. What the values are is the
//! business of a kind: `ordered`, `hashed`, `wildcard`, `geo`, `text`.

use super::{Index, IndexKind};
use super::{geo, hashed, ordered, text, wildcard};
use value::{Code, Error, RawDoc, Result, limits};

/// One key of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Encoded values, without the index prefix and the record's key.
    pub values: Vec<u8>,
    /// What the encoding does not tell of them (`value::key_types`): the value of the entry.
    pub types: Vec<u8>,
}

/// The keys of one document in one index.
#[derive(Default)]
pub struct Keys {
    /// Sorted by their values, each once.
    pub keys: Vec<Key>,
    /// Bit n is set when field n went through an array.
    pub multikey: u32,
}

impl Keys {
    /// The key with these values.
    #[must_use]
    pub fn get(&self, values: &[u8]) -> Option<&Key> {
        let at = self.keys.binary_search_by(|key| key.values.as_slice().cmp(values)).ok()?;
        self.keys.get(at)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// When it is longer than the store takes.
    pub(super) fn add(&mut self, index: &Index, key: Key) -> Result<()> {
        if key.values.len() > limits::KEY_BYTES_MAX {
            return Err(Error::new(
                Code::OBSOLETE_KEY_TOO_LONG,
                format!(
                    "key of index '{}' has {} bytes, the limit is {}",
                    index.name,
                    key.values.len(),
                    limits::KEY_BYTES_MAX
                ),
            ));
        }
        self.keys.push(key);
        Ok(())
    }
}

/// All keys of a document; none when a partial index does not want it.
///
/// # Errors
/// CannotIndexParallelArrays and what else a kind refuses, or a key that is longer than the store
/// takes.
pub fn keys(index: &Index, doc: RawDoc<'_>) -> Result<Keys> {
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
        IndexKind::Geo(fields) => geo::keys(index, fields, doc, &mut out)?,
        IndexKind::Text(fields) => text::keys(index, fields, doc, &mut out)?,
    }
    if out.keys.is_empty() {
        // Arrays of documents without entries are none of the index's.
        out.multikey = 0;
    }
    if out.keys.len() > 1 {
        out.keys.sort_unstable_by(|a, b| a.values.cmp(&b.values));
        out.keys.dedup_by(|a, b| a.values == b.values);
    }
    Ok(out)
}
