//! Tracks open snapshots and the last published commit.
//!
//! Every point read opens and drops a snapshot, so the counts are spread over shards by thread.
//! Only garbage collection, which is rare, reads all shards.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::Seqno;

const SHARDS: usize = 16;

/// One shard, on its own cache lines so that threads do not slow each other down.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    /// Open seqnos with their number of snapshots. There are few at a time, so a list is fastest.
    open: Mutex<Vec<(Seqno, u32)>>,
}

/// Counts of open snapshots, and the newest seqno that a snapshot may have.
#[derive(Default)]
pub(crate) struct Tracker {
    published: AtomicU64,
    shards: [Shard; SHARDS],
}

impl Tracker {
    pub(crate) fn new(published: Seqno) -> Tracker {
        Tracker { published: AtomicU64::new(published), shards: Default::default() }
    }

    /// The last published commit.
    pub(crate) fn published(&self) -> Seqno {
        self.published.load(Ordering::Acquire)
    }

    /// Makes `seqno` visible. Only the writer that holds the commit lock may call this.
    pub(crate) fn publish(&self, seqno: Seqno) {
        self.published.store(seqno, Ordering::Release);
    }

    /// Registers a snapshot of the newest commit. Returns its seqno and its shard, for `close`.
    pub(crate) fn open(&self) -> (Seqno, u8) {
        let shard = own_shard();
        let mut open = self.shards[shard].open.lock();
        // Read under the shard's lock: a watermark computed before this lock was taken is at most
        // what is read here, one computed later sees the registration.
        let seqno = self.published();
        add(&mut open, seqno);
        (seqno, shard as u8)
    }

    /// Registers a snapshot of an earlier commit. Returns its shard. Its data may be gone already;
    /// what still exists is kept from now on.
    pub(crate) fn open_at(&self, seqno: Seqno) -> u8 {
        let shard = own_shard();
        add(&mut self.shards[shard].open.lock(), seqno);
        shard as u8
    }

    /// Registers another holder of a seqno that is held already.
    pub(crate) fn open_again(&self, seqno: Seqno, shard: u8) {
        add(&mut self.shards[usize::from(shard) % SHARDS].open.lock(), seqno);
    }

    /// Unregisters what [`Tracker::open`] registered.
    pub(crate) fn close(&self, seqno: Seqno, shard: u8) {
        let mut open = self.shards[usize::from(shard) % SHARDS].open.lock();
        if let Some(position) = open.iter().rposition(|entry| entry.0 == seqno) {
            open[position].1 -= 1;
            if open[position].1 == 0 {
                open.swap_remove(position);
            }
        }
    }

    /// Versions that are not the newest of their key at this seqno or above may be dropped.
    pub(crate) fn watermark(&self) -> Seqno {
        let published = self.published();
        self.oldest().map_or(published, |oldest| oldest.min(published))
    }

    /// The seqno of the oldest open snapshot.
    pub(crate) fn oldest(&self) -> Option<Seqno> {
        self.shards
            .iter()
            .filter_map(|shard| shard.open.lock().iter().map(|entry| entry.0).min())
            .min()
    }

    /// The seqnos of all open snapshots, sorted.
    pub(crate) fn open_numbers(&self) -> Vec<Seqno> {
        let mut numbers: Vec<Seqno> = Vec::new();
        for shard in &self.shards {
            numbers.extend(shard.open.lock().iter().map(|entry| entry.0));
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// How many snapshots are open.
    pub(crate) fn count(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.open.lock().iter().map(|entry| u64::from(entry.1)).sum::<u64>())
            .sum()
    }
}

fn add(open: &mut Vec<(Seqno, u32)>, seqno: Seqno) {
    match open.iter_mut().rev().find(|entry| entry.0 == seqno) {
        Some(entry) => entry.1 += 1,
        None => open.push((seqno, 1)),
    }
}

/// Threads are assigned to shards in turn.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermark_follows_the_oldest_snapshot() {
        let tracker = Tracker::new(5);
        assert_eq!(tracker.watermark(), 5);
        let first = tracker.open();
        tracker.publish(9);
        let second = tracker.open();
        tracker.open_again(second.0, second.1);
        assert_eq!((first.0, second.0, tracker.watermark(), tracker.count()), (5, 9, 5, 3));
        tracker.close(first.0, first.1);
        assert_eq!(tracker.watermark(), 9);
        tracker.publish(12);
        tracker.close(second.0, second.1);
        assert_eq!(tracker.oldest(), Some(9));
        tracker.close(second.0, second.1);
        assert_eq!((tracker.watermark(), tracker.count()), (12, 0));
    }
}
