//! The keys that open transactions of sessions have written but not committed.
//!
//! A transaction of a session that writes a key of another open transaction conflicts at once. A
//! single statement waits until the other transaction has ended.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes of keys, with the transactions that wrote them.
#[derive(Default)]
pub(super) struct Intents {
    owners: HashMap<u64, u64, BuildHasherDefault<KeepHash>>,
}

/// The keys of the tables are hashes already.
#[derive(Default)]
pub(super) struct KeepHash(u64);

impl Hasher for KeepHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Intents {
    /// The first of these keys that belongs to a transaction other than `owner`.
    pub(super) fn foreign(&self, owner: Option<u64>, keys: &[u64]) -> Option<u64> {
        if self.owners.is_empty() {
            return None;
        }
        let foreign = |key: &&u64| self.owners.get(key).is_some_and(|who| Some(*who) != owner);
        keys.iter().find(foreign).copied()
    }

    /// Whether the key belongs to any transaction.
    pub(super) fn holds(&self, key: u64) -> bool {
        self.owners.contains_key(&key)
    }

    /// Assigns keys to a transaction.
    pub(super) fn add(&mut self, owner: u64, keys: &[u64]) {
        self.owners.extend(keys.iter().map(|key| (*key, owner)));
    }

    /// Releases keys of a transaction.
    pub(super) fn release(&mut self, owner: u64, keys: &[u64]) {
        for key in keys {
            if self.owners.get(key) == Some(&owner) {
                self.owners.remove(key);
            }
        }
    }
}
