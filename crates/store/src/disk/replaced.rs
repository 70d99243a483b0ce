//! Large values that were replaced while they were in memory only.
//!
//! Memory keeps every version of a key and a flush writes all of them, so that each commit since the
//! flush before stays readable. If a large document changes often, that is all that the store does:
//! every change of some bytes fills memory with another copy of the document, and a table. So where
//! large values are replaced so quickly that the past would be short anyway, the older ones are
//! removed from memory. The commits that only they could serve become a gap of the past (`history`);
//! a version that an open snapshot reads stays.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::InternalValue;

use super::Shared;
use super::commit::Commit;
use super::flush::HISTORY_BYTES_MIN;
use super::patch::Bases;
use crate::{Batch, Bytes, Seqno, Space};

/// Replaced values may be removed if the past would not reach back this far.
const SHORT_PAST: Duration = Duration::from_secs(10);
/// The time over which it is estimated at least how fast values are replaced.
const ESTIMATED_OVER: Duration = Duration::from_secs(1);
/// The share of memory that replaced values may take before the first is removed.
const KEPT_SHARE: u64 = 4;
/// After so many bytes of replaced values memory is flushed: recovery would have to make all of them
/// again from the log.
const REPLAYED_MAX: u64 = 1 << 30;

/// The replaced large values in the active memtable of the documents, oldest first.
#[derive(Default)]
pub(super) struct ReplacedValues {
    values: VecDeque<ReplacedValue>,
    /// Bytes of `values`.
    bytes: u64,
    /// Bytes of all values that were replaced since the memtable is active, and since when.
    total: u64,
    begun: Option<Instant>,
}

/// A value and the commits that read it: from `first` until before `next`.
struct ReplacedValue {
    key: Bytes,
    bytes: u64,
    first: Seqno,
    next: Seqno,
}

impl ReplacedValues {
    /// Adds the values that a commit has replaced.
    fn add(&mut self, batch: &Batch, bases: &Bases, next: Seqno) {
        for (operation, base) in bases.iter() {
            let Some(operation) = batch.operations().get(operation) else { continue };
            let bytes = (operation.key.len() + base.value.len()) as u64;
            let key = operation.key.clone();
            self.values.push_back(ReplacedValue { key, bytes, first: base.seqno, next });
            self.bytes += bytes;
            self.total += bytes;
            self.begun.get_or_insert_with(Instant::now);
        }
    }

    /// Takes the oldest value, if more than `kept` bytes are there and they came so quickly that a
    /// past of `history` bytes would be short.
    fn take(&mut self, kept: u64, history: u64) -> Option<ReplacedValue> {
        let elapsed = self.begun?.elapsed().max(ESTIMATED_OVER).as_secs_f64();
        let is_quick = self.total as f64 * SHORT_PAST.as_secs_f64() >= history as f64 * elapsed;
        if self.bytes <= kept || !is_quick {
            return None;
        }
        let value = self.values.pop_front()?;
        self.bytes -= value.bytes;
        Some(value)
    }

    /// Whether recovery would have to make too many values again.
    fn is_long(&self) -> bool {
        self.total > REPLAYED_MAX
    }
}

impl Shared {
    /// Removes values that a commit and those before it have replaced, where that is worthwhile. The
    /// commit is published, and its lock is held. Returns what is left to do without the lock.
    pub(super) fn note_replaced(
        &self,
        commit: &mut Commit,
        batch: &Batch,
        bases: &Bases,
        seqno: Seqno,
    ) -> AfterReplacing {
        let mut after = AfterReplacing { frees: false, flushes: false };
        if bases.is_empty() {
            return after;
        }
        commit.replaced.add(batch, bases, seqno);
        after.flushes = commit.replaced.is_long();
        let kept = self.options.memtable_bytes / KEPT_SHARE;
        let history = self.options.history_bytes.min(HISTORY_BYTES_MIN);
        while let Some(value) = commit.replaced.take(kept, history) {
            if !self.history.add_gap(value.first, value.next, &self.tracker) {
                continue;
            }
            let entry = InternalValue::new_tombstone(value.key.to_tree(), value.first);
            let memtable = &commit.memtables[Space::Documents.index()];
            // The same value may be there twice, if a batch has its key twice.
            if memtable.items.remove(&entry.key).is_some() {
                self.active_bytes.fetch_sub(value.bytes, Ordering::Relaxed);
                self.removed_bytes[0].fetch_add(value.bytes, Ordering::Relaxed);
                after.frees = true;
            }
        }
        after
    }
}

/// What is left to do after a commit, outside of its lock.
pub(super) struct AfterReplacing {
    /// Whether values were removed.
    frees: bool,
    /// Whether memory is to be flushed.
    flushes: bool,
}

impl AfterReplacing {
    pub(super) fn finish(self, shared: &Shared) {
        if self.frees {
            free_removed();
        }
        if self.flushes {
            shared.work.want_flush();
        }
    }
}

/// Frees what was removed from memtables, as far as no reader is at it. Otherwise each thread would
/// collect dozens of removed values first.
pub(super) fn free_removed() {
    crossbeam_epoch::pin().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: u64) -> ReplacedValues {
        let mut values = ReplacedValues { begun: Some(Instant::now()), ..Default::default() };
        for first in 0..count {
            let value = ReplacedValue { key: Bytes::default(), bytes: 10, first, next: first + 1 };
            values.values.push_back(value);
            values.bytes += 10;
            values.total += 10;
        }
        values
    }

    #[test]
    fn the_oldest_are_removed_until_the_rest_may_stay() {
        let mut all = values(10);
        let first: Vec<Seqno> =
            std::iter::from_fn(|| all.take(35, 0)).map(|value| value.first).collect();
        assert_eq!(first, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((all.bytes, all.total), (30, 100));
    }

    #[test]
    fn values_that_are_replaced_slowly_stay() {
        let mut all = values(10);
        assert!(all.take(0, 1001).is_none(), "1000 bytes in ten seconds");
        assert!(all.take(0, 999).is_some());
        assert!(values(0).take(0, 0).is_none());
    }
}
