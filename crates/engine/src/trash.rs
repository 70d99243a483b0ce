//! Key ranges of dropped collections and indexes that wait to be deleted.
//!
//! A reader that began before the drop may still scan a range, so it is kept until all older
//! snapshots are closed. Ranges that remain when the process ends are found at the next start:
//! their prefixes are not in the catalog.
//!
//! Layer: catalog.

use crate::store_failed;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::{Duration, Instant};
use store::{Direction, Seqno, Space, Store};
use value::Result;

/// The longest time between a reader's look at the catalog and its snapshot.
const GRACE: Duration = Duration::from_secs(1);

/// Ranges that wait to be deleted.
#[derive(Default)]
pub struct Trash(Mutex<Vec<Piece>>);

struct Piece {
    space: Space,
    id: u32,
    dropped: Instant,
    /// Snapshots up to this one may still read the range; unknown during the grace period.
    readers: Option<Seqno>,
}

/// The range of all keys with a prefix.
#[must_use]
pub fn range_of(id: u32) -> ([u8; 4], [u8; 4]) {
    (id.to_be_bytes(), id.saturating_add(1).to_be_bytes())
}

impl Trash {
    /// Adds the range of a dropped collection or index.
    pub fn discard(&self, space: Space, id: u32) {
        self.0.lock().push(Piece { space, id, dropped: Instant::now(), readers: None });
    }

    /// The number of waiting ranges.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }
}

/// Deletes the ranges that no snapshot can read.
///
/// # Errors
/// When the store fails; ranges that were not deleted stay in the list.
pub fn empty(trash: &Trash, store: &dyn Store) -> Result<()> {
    if trash.0.lock().is_empty() {
        return Ok(());
    }
    let stats = store.stats();
    let mut free = Vec::new();
    trash.0.lock().retain_mut(|piece| match piece.readers {
        None => {
            if piece.dropped.elapsed() >= GRACE {
                piece.readers = Some(stats.published);
            }
            true
        }
        Some(readers) if stats.oldest_snapshot.is_some_and(|oldest| oldest <= readers) => true,
        Some(_) => {
            free.push((piece.space, piece.id));
            false
        }
    });
    let mut failure = Ok(());
    for (space, id) in free {
        let (from, to) = range_of(id);
        if failure.is_ok() {
            failure = store.delete_range(space, &from, &to).map_err(store_failed);
        }
        if failure.is_err() {
            trash.discard(space, id);
        }
    }
    failure
}

/// Deletes ranges left by an earlier process: prefixes that are neither in `documents` nor in
/// `indexes`. Costs one seek per collection and index.
///
/// # Errors
/// When the store fails.
pub fn sweep(store: &dyn Store, documents: &BTreeSet<u32>, indexes: &BTreeSet<u32>) -> Result<()> {
    sweep_space(store, Space::Documents, documents)?;
    sweep_space(store, Space::Indexes, indexes)
}

fn sweep_space(store: &dyn Store, space: Space, known: &BTreeSet<u32>) -> Result<()> {
    let snapshot = store.snapshot();
    let mut from = 0_u32;
    loop {
        let start = from.to_be_bytes();
        let mut range = snapshot
            .range(space, Bound::Included(&start), Bound::Unbounded, Direction::Forward)
            .map_err(store_failed)?;
        let Some((key, _)) = range.next().map_err(store_failed)? else { return Ok(()) };
        let Some(prefix) = key.first_chunk::<4>() else { return Ok(()) };
        let id = u32::from_be_bytes(*prefix);
        if !known.contains(&id) {
            let (first, last) = range_of(id);
            store.delete_range(space, &first, &last).map_err(store_failed)?;
        }
        let Some(next) = id.checked_add(1) else { return Ok(()) };
        from = next;
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use crate::trash;
    use std::time::Duration;
    use store::{Batch, Space};

    #[test]
    fn a_range_stays_while_an_old_snapshot_may_read_it() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let inner = engine.inner();
        let mut batch = Batch::new();
        batch.put(Space::Documents, &[0, 0, 0, 9, 1], b"x");
        inner.data.store.write(&batch).expect("writes");
        let reader = inner.data.store.snapshot();
        inner.data.trash.discard(Space::Documents, 9);
        let there = || {
            let snapshot = inner.data.store.snapshot();
            snapshot.get(Space::Documents, &[0, 0, 0, 9, 1]).expect("reads").is_some()
        };
        std::thread::sleep(trash::GRACE + Duration::from_millis(50));
        trash::empty(&inner.data.trash, &*inner.data.store).expect("notes the readers");
        trash::empty(&inner.data.trash, &*inner.data.store).expect("waits");
        assert!(there(), "a reader is still there");
        drop(reader);
        let mut other = Batch::new();
        other.put(Space::Documents, &[0, 0, 0, 8, 1], b"y");
        inner.data.store.write(&other).expect("writes");
        // The engine's own thread may run first.
        for _ in 0..100 {
            trash::empty(&inner.data.trash, &*inner.data.store).expect("deletes");
            if inner.data.trash.count() == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!there(), "nobody reads it any more");
    }

    #[test]
    fn what_the_catalog_does_not_know_goes_at_the_start() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let inner = engine.inner();
        let mut batch = Batch::new();
        batch.put(Space::Documents, &[0, 0, 0, 9, 1], b"x");
        batch.put(Space::Indexes, &[0, 0, 1, 0, 1], b"x");
        inner.data.store.write(&batch).expect("writes");
        inner.data.sweep_trash().expect("sweeps");
        let snapshot = inner.data.store.snapshot();
        assert!(snapshot.get(Space::Documents, &[0, 0, 0, 9, 1]).expect("reads").is_none());
        assert!(snapshot.get(Space::Indexes, &[0, 0, 1, 0, 1]).expect("reads").is_none());
    }
}
