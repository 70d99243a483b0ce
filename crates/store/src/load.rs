//! Bringing in many entries at once, beside running commits: the entries of a new index for all
//! documents that were there before it.
//!
//! Commits go on to write keys of the same prefixes meanwhile. What they wrote is newer than what
//! is brought in, so such keys are noted (`written`) and keep what the commits made of them.

use crate::{Bytes, MAX_KEY_BYTES, Result, Space, StoreError};

/// Entries in ascending order of their keys, each key once.
pub type Entries<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send + 'a>;

/// Entries that are being brought in; see [`crate::Store::load`]. Dropped before its end it leaves
/// nothing behind.
pub trait Load: Send + Sync {
    /// Writes the entries, once. The parts follow each other in the order of keys; each has a
    /// thread of its own. Nobody sees them yet.
    fn write(&self, parts: Vec<Entries<'_>>) -> Result<()>;

    /// Makes all entries visible at once, except those whose keys commits wrote since the load
    /// began. They are on disk when a later commit is. Returns how many entries commits have put
    /// meanwhile.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// Refuses a key that the trees could not hold.
pub(crate) fn check_key(space: Space, key: &[u8]) -> Result<()> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) {
        return Ok(());
    }
    let (length, name) = (key.len(), space.name());
    Err(StoreError::TooLarge {
        what: format!("a key of {length} bytes in {name}; keys have 1 to {MAX_KEY_BYTES} bytes"),
    })
}
