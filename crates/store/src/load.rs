//! Bulk loads of many entries during commits: the entries of a new index for all documents that
//! existed before it.
//!
//! Commits may write keys of the same prefixes during the load. Their values are newer than those
//! of the load, so such keys are recorded (`written`) and keep the values of the commits.

use crate::{Bytes, MAX_KEY_BYTES, Result, Space, StoreError};

/// Entries in ascending order of their keys, each key once.
pub type Entries<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send + 'a>;

/// A running bulk load; see [`crate::Store::load`]. If dropped before its end, it changes nothing.
pub trait Load: Send + Sync {
    /// Writes the entries. Call it once. The parts are in key order; each is written by its own
    /// thread. The entries are not visible yet.
    fn write(&self, parts: Vec<Entries<'_>>) -> Result<()>;

    /// Makes all entries visible at once, except those whose keys commits wrote since the load
    /// began. They are durable when a later commit is. Returns how many entries commits have put
    /// during the load.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// Refuses a key above the limit of the trees.
pub(crate) fn check_key(space: Space, key: &[u8]) -> Result<()> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) {
        return Ok(());
    }
    let (length, name) = (key.len(), space.name());
    Err(StoreError::TooLarge {
        what: format!("a key of {length} bytes in {name}; keys have 1 to {MAX_KEY_BYTES} bytes"),
    })
}
