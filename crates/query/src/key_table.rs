//! A table of keys: bytes that are numbered in the order in which they first came.
//!
//! Groups are found in it, and the members of sets. All keys lie in one buffer, so that a key costs
//! its bytes and a few more; the last key is remembered, because equal ones often follow each other.

use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Numbered keys.
pub struct KeyTable {
    /// Places in `keys`.
    places: HashTable<u32>,
    keys: Vec<Key>,
    bytes: Vec<u8>,
    hasher: foldhash::fast::FixedState,
    last: Option<usize>,
}

struct Key {
    hash: u64,
    /// Where its bytes end; they begin where those of the one before end.
    end: usize,
}

/// The hash of a key; equal in every table, so that partitions agree on it.
#[must_use]
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    foldhash::fast::FixedState::with_seed(SEED).hash_one(key)
}

const SEED: u64 = 0x6D6F_7469_6664_6221;

impl Default for KeyTable {
    fn default() -> KeyTable {
        KeyTable {
            places: HashTable::new(),
            keys: Vec::new(),
            bytes: Vec::new(),
            hasher: foldhash::fast::FixedState::with_seed(SEED),
            last: None,
        }
    }
}

impl std::fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyTable").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// The result of looking up or adding a key: its number, unless the table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// It existed already.
    Known(usize),
    /// It was added.
    New(usize),
    /// It would be one more than can be numbered.
    Full,
}

impl KeyTable {
    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The number of a key, which is added if it is new.
    #[inline]
    pub fn get_or_insert(&mut self, key: &[u8]) -> Insertion {
        if let Some(last) = self.last
            && same(self.key(last), key)
        {
            return Insertion::Known(last);
        }
        let hash = self.hasher.hash_one(key);
        self.get_or_insert_hashed(key, hash)
    }

    fn get_or_insert_hashed(&mut self, key: &[u8], hash: u64) -> Insertion {
        let KeyTable { places, keys, bytes, .. } = self;
        let is_it = |place: &u32| {
            let at = *place as usize;
            keys.get(at).is_some_and(|known| known.hash == hash)
                && same(bytes_of(keys, bytes, at), key)
        };
        if let Some(place) = places.find(hash, is_it) {
            let at = *place as usize;
            self.last = Some(at);
            return Insertion::Known(at);
        }
        let at = keys.len();
        let Ok(place) = u32::try_from(at) else { return Insertion::Full };
        bytes.extend_from_slice(key);
        keys.push(Key { hash, end: bytes.len() });
        let hash_of = |place: &u32| keys.get(*place as usize).map_or(0, |key| key.hash);
        places.insert_unique(hash, place, hash_of);
        self.last = Some(at);
        Insertion::New(at)
    }

    /// The number of a key if equal keys are always consecutive: only the last key is compared.
    #[inline]
    pub fn get_last_or_insert(&mut self, key: &[u8]) -> Insertion {
        let last = self.keys.len().checked_sub(1);
        if let Some(last) = last.filter(|last| same(self.key(*last), key)) {
            return Insertion::Known(last);
        }
        self.bytes.extend_from_slice(key);
        self.keys.push(Key { hash: 0, end: self.bytes.len() });
        Insertion::New(self.keys.len() - 1)
    }

    /// Removes all keys but keeps the memory.
    pub fn clear(&mut self) {
        self.places.clear();
        self.keys.clear();
        self.bytes.clear();
        self.last = None;
    }

    /// The bytes of the key with a number.
    #[inline]
    #[must_use]
    pub fn key(&self, at: usize) -> &[u8] {
        bytes_of(&self.keys, &self.bytes, at)
    }

    /// The hash of the key with a number.
    #[must_use]
    pub fn hash(&self, at: usize) -> u64 {
        self.keys.get(at).map_or(0, |key| key.hash)
    }

    /// Memory that the table takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.keys.capacity() * size_of::<Key>()
            + self.places.capacity() * (size_of::<u32>() + 1)
    }
}

#[inline]
fn bytes_of<'b>(keys: &[Key], bytes: &'b [u8], at: usize) -> &'b [u8] {
    let from = match at.checked_sub(1) {
        Some(before) => keys.get(before).map_or(0, |key| key.end),
        None => 0,
    };
    let to = keys.get(at).map_or(from, |key| key.end);
    bytes.get(from..to).unwrap_or(&[])
}

/// Whether two keys are equal. Most are short: a few words at once instead of a call.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let word = |bytes: Option<&[u8; 8]>| bytes.map(|bytes| u64::from_le_bytes(*bytes));
    let half = |bytes: Option<&[u8; 4]>| bytes.map(|bytes| u32::from_le_bytes(*bytes));
    match one.len() {
        // The words overlap where there are less than sixteen bytes.
        8..=16 => {
            word(one.first_chunk()) == word(other.first_chunk())
                && word(one.last_chunk()) == word(other.last_chunk())
        }
        4..8 => {
            half(one.first_chunk()) == half(other.first_chunk())
                && half(one.last_chunk()) == half(other.last_chunk())
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Keys of all lengths that often differ in one byte only.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(0_u8..4, 0..5),
            (0_usize..20, 0_usize..20, 0_u8..2).prop_map(|(length, at, byte)| {
                (0..length).map(|place| if place == at { byte } else { 7 }).collect()
            }),
        ]
    }

    proptest! {
        #[test]
        fn keys_are_numbered_in_the_order_in_which_they_came(
            keys in proptest::collection::vec(any_key(), 0..200)
        ) {
            let mut table = KeyTable::default();
            let mut model: HashMap<Vec<u8>, usize> = HashMap::new();
            for key in &keys {
                let next = model.len();
                let expected = match model.get(key) {
                    Some(at) => Insertion::Known(*at),
                    None => Insertion::New(next),
                };
                model.entry(key.clone()).or_insert(next);
                prop_assert_eq!(table.get_or_insert(key), expected);
            }
            prop_assert_eq!(table.len(), model.len());
            for (key, at) in &model {
                prop_assert_eq!(table.key(*at), key.as_slice());
                prop_assert_eq!(table.hash(*at), hash(key));
            }
        }
    }
}
