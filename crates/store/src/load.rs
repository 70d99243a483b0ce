//! Bringing in many entries at once, beside running commits: the entries of a new index for all
//! documents that were there before it.
//!
//! Commits go on to write keys of the same prefixes meanwhile. What they wrote is newer than what
//! is brought in, so such keys are noted ([`Written`]) and keep what the commits made of them.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::{Batch, Bytes, MAX_KEY_BYTES, Result, Space, StoreError};

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

/// What commits write to the prefixes of a load.
pub(crate) struct Written {
    pub(crate) space: Space,
    pub(crate) prefixes: Vec<[u8; 4]>,
    noted: Mutex<Noted>,
}

/// Keys that were written, with what they became.
pub(crate) type Keys = HashMap<Bytes, Option<Bytes>>;

#[derive(Default)]
struct Noted {
    keys: Keys,
    puts: u64,
}

impl Written {
    pub(crate) fn new(space: Space, prefixes: &[[u8; 4]]) -> Written {
        Written { space, prefixes: prefixes.to_vec(), noted: Mutex::default() }
    }

    /// Notes what a commit writes.
    pub(crate) fn note(&self, batch: &Batch) {
        let mut noted = None;
        for operation in batch.operations() {
            let own = operation.space == self.space
                && operation.key.first_chunk().is_some_and(|own| self.prefixes.contains(own));
            if own {
                let noted = noted.get_or_insert_with(|| self.noted.lock());
                noted.keys.insert(operation.key.clone(), operation.value.clone());
                noted.puts += u64::from(operation.value.is_some());
            }
        }
    }

    /// Takes out what was noted so far.
    pub(crate) fn take(&self) -> Keys {
        std::mem::take(&mut self.noted.lock().keys)
    }

    /// How many entries were put since the load began.
    pub(crate) fn puts(&self) -> u64 {
        self.noted.lock().puts
    }
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
