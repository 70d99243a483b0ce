//! A cache of the newest values of keys that are repeatedly read and then written: sums that a
//! pattern maintains, the record of a session. A search in the memtables costs more than
//! everything else that is done with such a value.
//!
//! A reader that is about to write a key and misses here marks the key; the next commit that
//! writes it stores its value here. A reader that finds the mark without a value stores the value
//! that it read, if nothing was committed since. Both happen inside the commit lock, and each
//! commit updates the values stored before. So a cached value is the newest one, and valid for
//! every snapshot that is not older than it.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Batch, Bytes, Operation, Seqno, Space};

/// The number of sets, and of places per set. A key belongs to one set and may use any of its
/// places.
const SETS: usize = 2048;
const PLACES: usize = 4;
/// Larger values are not cached, so that the cache takes at most 16 MB.
const VALUE_BYTES_MAX: usize = 2048;

/// The newest values of some keys.
pub(super) struct Hot {
    /// The marks of each set, adjacent: every written key checks them, and few go further.
    marks: Box<[Marks]>,
    sets: Box<[Mutex<Values>]>,
}

/// Parts of the hashes of the keys that are cached or wanted in a set; zero for none. Changed only
/// under the lock of the set's values.
type Marks = [AtomicU32; PLACES];

/// One of the sets.
struct Set<'h> {
    marks: &'h Marks,
    values: &'h Mutex<Values>,
}

#[derive(Default)]
struct Values {
    held: [Option<CachedValue>; PLACES],
    /// The place that the next key takes.
    next: usize,
}

struct CachedValue {
    key: Bytes,
    value: Bytes,
    /// The commit that wrote it.
    seqno: Seqno,
}

impl Set<'_> {
    fn place_of(&self, mark: u32) -> Option<usize> {
        self.marks.iter().position(|known| known.load(Ordering::Acquire) == mark)
    }
}

/// Whether values of a space are cached. In the others few keys are read in order to be written.
fn is_kept(space: Space) -> bool {
    matches!(space, Space::Documents | Space::Catalog)
}

impl Hot {
    pub(super) fn new() -> Hot {
        Hot {
            marks: (0..SETS).map(|_| Marks::default()).collect(),
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
        }
    }

    fn find(&self, space: Space, key: &[u8]) -> Option<(Set<'_>, u32)> {
        let hash = xxh3_64_with_seed(key, space as u64);
        let at = hash as usize % SETS;
        let set = Set { marks: self.marks.get(at)?, values: self.sets.get(at)? };
        Some((set, (hash >> 32) as u32 | 1))
    }

    /// Returns the value of a key that a snapshot sees, if it is cached.
    pub(super) fn get(&self, space: Space, key: &[u8], seqno: Seqno) -> Option<Bytes> {
        if !is_kept(space) {
            return None;
        }
        let (set, mark) = self.find(space, key)?;
        let place = set.place_of(mark)?;
        let values = set.values.lock();
        let held = values.held.get(place)?.as_ref()?;
        (held.seqno <= seqno && *held.key == *key).then(|| held.value.clone())
    }

    /// Asks the next commit that writes a key to store its value here. Returns whether the key was
    /// marked already.
    pub(super) fn want(&self, space: Space, key: &[u8], value: &[u8]) -> bool {
        if !is_kept(space) || value.len() > VALUE_BYTES_MAX {
            return false;
        }
        let Some((set, mark)) = self.find(space, key) else { return false };
        if set.place_of(mark).is_some() {
            return true;
        }
        let mut values = set.values.lock();
        if set.place_of(mark).is_some() {
            return true;
        }
        let place = values.next % PLACES;
        values.next = place + 1;
        if let (Some(held), Some(known)) = (values.held.get_mut(place), set.marks.get(place)) {
            *held = None;
            known.store(mark, Ordering::Release);
        }
        false
    }

    /// Stores a value that a snapshot read. Called inside the commit lock, when the snapshot is of
    /// the last commit.
    pub(super) fn leave(&self, space: Space, key: &[u8], value: &[u8], seqno: Seqno) {
        let Some((set, mark)) = self.find(space, key) else { return };
        let Some(place) = set.place_of(mark) else { return };
        let mut values = set.values.lock();
        // Another key may have taken the place since.
        if set.place_of(mark) != Some(place) {
            return;
        }
        if let Some(held @ None) = values.held.get_mut(place) {
            // A copy: the value may be a part of a large buffer.
            let (key, value) = (Bytes::copy_from(key), Bytes::copy_from(value));
            *held = Some(CachedValue { key, value, seqno });
        }
    }

    /// Updates the cache with the writes of a commit. Called inside the commit lock, before the
    /// commit is published.
    pub(super) fn write(&self, batch: &Batch, seqno: Seqno) {
        for operation in batch.operations().iter().filter(|operation| is_kept(operation.space)) {
            self.note(operation, batch, seqno);
        }
    }

    fn note(&self, operation: &Operation, batch: &Batch, seqno: Seqno) {
        let Some((set, mark)) = self.find(operation.space, &operation.key) else { return };
        // A key that is being marked now waits for the next commit.
        let Some(place) = set.place_of(mark) else { return };
        let mut values = set.values.lock();
        if set.place_of(mark) != Some(place) {
            return;
        }
        let Some(held) = values.held.get_mut(place) else { return };
        if held.as_ref().is_some_and(|held| held.key != operation.key) {
            return;
        }
        let small = operation.value.as_ref().filter(|value| value.len() <= VALUE_BYTES_MAX);
        *held = small.map(|value| CachedValue {
            key: operation.key.clone(),
            // A cached value must not keep a large buffer alive of which it is a part.
            value: if batch.shares(value) { Bytes::copy_from(value) } else { value.clone() },
            seqno,
        });
    }

    /// Removes all values.
    pub(super) fn clear(&self) {
        for (marks, values) in self.marks.iter().zip(&self.sets) {
            let mut values = values.lock();
            *values = Values::default();
            marks.iter().for_each(|mark| mark.store(0, Ordering::Release));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space = Space::Documents;

    fn write(hot: &Hot, key: &[u8], value: Option<&[u8]>, seqno: Seqno) {
        let mut batch = Batch::new();
        match value {
            Some(value) => batch.put(SPACE, key, value),
            None => batch.delete(SPACE, key),
        }
        hot.write(&batch, seqno);
    }

    #[test]
    fn a_value_is_known_from_the_commit_on_that_left_it() {
        let hot = Hot::new();
        write(&hot, b"k", Some(b"1"), 1);
        assert_eq!(hot.get(SPACE, b"k", 9), None, "nobody wanted it");
        hot.want(SPACE, b"k", b"1");
        assert_eq!(hot.get(SPACE, b"k", 9), None, "nothing was written since");
        write(&hot, b"k", Some(b"2"), 5);
        assert_eq!(hot.get(SPACE, b"k", 4), None, "the snapshot is older");
        assert_eq!(hot.get(SPACE, b"k", 5).as_deref(), Some(b"2".as_slice()));
        assert_eq!(hot.get(Space::Log, b"k", 5), None);
        write(&hot, b"k", Some(b"3"), 6);
        assert_eq!(hot.get(SPACE, b"k", 5), None);
        assert_eq!(hot.get(SPACE, b"k", 7).as_deref(), Some(b"3".as_slice()));
        write(&hot, b"k", Some(&[0; VALUE_BYTES_MAX + 1]), 8);
        assert_eq!(hot.get(SPACE, b"k", 9), None, "it is too large");
        write(&hot, b"k", Some(b"4"), 10);
        write(&hot, b"k", None, 11);
        assert_eq!(hot.get(SPACE, b"k", 12), None, "it was deleted");
        write(&hot, b"k", Some(b"5"), 13);
        hot.clear();
        assert_eq!(hot.get(SPACE, b"k", 13), None);
    }

    #[test]
    fn what_is_read_again_and_not_written_is_left_by_its_reader() {
        let hot = Hot::new();
        assert!(!hot.want(SPACE, b"k", b"1"));
        assert!(hot.want(SPACE, b"k", b"1"), "it is marked");
        hot.leave(SPACE, b"other", b"1", 3);
        assert_eq!(hot.get(SPACE, b"other", 9), None, "nobody wanted it");
        hot.leave(SPACE, b"k", b"1", 3);
        assert_eq!(hot.get(SPACE, b"k", 2), None, "the snapshot is older");
        assert_eq!(hot.get(SPACE, b"k", 3).as_deref(), Some(b"1".as_slice()));
        write(&hot, b"k", Some(b"2"), 4);
        hot.leave(SPACE, b"k", b"1", 3);
        assert_eq!(
            hot.get(SPACE, b"k", 9).as_deref(),
            Some(b"2".as_slice()),
            "what is there stays"
        );
        assert!(!hot.want(SPACE, b"large", &[0; VALUE_BYTES_MAX + 1]));
    }

    #[test]
    fn more_keys_than_places_take_turns() {
        let hot = Hot::new();
        let count = (SETS * PLACES * 2) as u32;
        for round in 0..3_u64 {
            for number in 0..count {
                let (key, seqno) =
                    (number.to_be_bytes(), round * u64::from(count) + u64::from(number) + 1);
                hot.want(SPACE, &key, b"x");
                write(&hot, &key, Some(&seqno.to_be_bytes()), seqno);
                // Other keys may have taken the place; if a value is found, it is the newest.
                let found = hot.get(SPACE, &key, u64::MAX);
                assert!(found.is_none_or(|found| *found == seqno.to_be_bytes()));
            }
        }
        let newest = |number: u32| 2 * u64::from(count) + u64::from(number) + 1;
        let known = (0..count).filter(|number| {
            let found = hot.get(SPACE, &number.to_be_bytes(), u64::MAX);
            found.is_some_and(|found| {
                assert_eq!(*found, newest(*number).to_be_bytes());
                true
            })
        });
        assert!(known.count() > SETS * PLACES / 2);
    }
}
