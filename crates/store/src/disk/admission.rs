//! Admission: commits wait for memory before their caller takes any lock.
//!
//! What counts is the memory that is not flushed yet; a flush frees it entry by entry, so writers
//! go on smoothly while it runs. A large commit waits in a queue until others have left room for
//! it, at [`LARGE_MEMORY_MAX`] times the memory for commits, and reserves its bytes until it is
//! written. So however many writers there are, memory stays bounded, and each waits for the bytes
//! of those who came before it. Small commits do not queue, and have room up to [`MEMORY_MAX`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::pressure::{LARGE_MEMORY_MAX, MEMORY_MAX, SMALL_BYTES};
use super::{Shared, reserve};
use crate::{Batch, Result, StoreError};

/// Commits that were not admitted, or come while flushing fails, are taken until memory has this
/// multiple of its size.
const UNADMITTED_MEMORY_MAX: u64 = 4;
/// The interval at which a waiting commit checks again.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A place in memory for a commit, until it is dropped.
#[derive(Default)]
pub struct Admission<'a>(Option<(&'a AtomicU64, u64)>);

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Some((reserved, bytes)) = self.0 {
            reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// The large commits that wait, and those that are admitted and not written yet.
#[derive(Default)]
pub(super) struct Queue {
    /// Bytes of admitted commits that are not in memory yet.
    reserved: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Numbers of those who wait, the first first.
    numbers: VecDeque<u64>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.lock().numbers.is_empty()
    }

    fn join(&self) -> u64 {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.numbers.push_back(number);
        number
    }

    fn is_first(&self, number: u64) -> bool {
        self.waiting.lock().numbers.front() == Some(&number)
    }

    fn leave(&self, number: u64) {
        self.waiting.lock().numbers.retain(|waiting| *waiting != number);
    }

    /// Reserves `bytes` if not more than `most` are in use: `used`, and what is reserved. A commit
    /// that is larger than half of that needs half of it.
    fn reserve(&self, bytes: u64, used: impl Fn() -> u64, most: u64) -> bool {
        let room = most - bytes.min(most / 2);
        let fits = |reserved| (used() + reserved <= room).then_some(reserved + bytes);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

impl Shared {
    /// Bytes in memory that are not written to tables yet.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        let sealed = self.sealed_bytes.load(Ordering::Relaxed);
        let written = self.written_bytes.load(Ordering::Relaxed);
        self.active_bytes.load(Ordering::Relaxed) + sealed.saturating_sub(written)
    }

    /// The same as a share of the memory for commits.
    pub(super) fn memory_share(&self) -> f64 {
        self.unflushed_bytes() as f64 / self.options.memtable_bytes.max(1) as f64
    }

    /// Waits until there is memory for a commit of `bytes`, and `is_wanted` says so; returns `None`
    /// if that ended it. Errors are left to the writers.
    pub(super) fn admit(
        &self,
        bytes: usize,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Admission<'_>> {
        if bytes > SMALL_BYTES {
            return self.admit_large(bytes as u64, is_wanted);
        }
        if self.has_room_for_small() || self.wait_for_small(is_wanted) {
            return Some(Admission::default());
        }
        None
    }

    fn has_room_for_small(&self) -> bool {
        self.unflushed_bytes() as f64 <= self.memory_limit() as f64 * MEMORY_MAX
    }

    /// Whether waiting for memory makes no sense: writers get the error.
    fn cannot_flush(&self) -> bool {
        self.closed.load(Ordering::Acquire) || self.work.flush_failure().is_some()
    }

    fn wait_for_small(&self, is_wanted: &dyn Fn() -> bool) -> bool {
        self.counters.stalls.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        let mut goes_on = true;
        while goes_on && !self.has_room_for_small() && !self.cannot_flush() {
            self.work.want_flush();
            self.work.wait_for_progress(CHECK_INTERVAL);
            goes_on = is_wanted();
        }
        let waited = begun.elapsed().as_micros() as u64;
        self.pressure.longest_micros.fetch_max(waited, Ordering::Relaxed);
        goes_on
    }

    fn admit_large(&self, bytes: u64, is_wanted: &dyn Fn() -> bool) -> Option<Admission<'_>> {
        if !self.pressure.repay(|| self.memory_share(), || is_wanted() && !self.cannot_flush())
            && !self.cannot_flush()
        {
            return None;
        }
        let queue = &self.queue;
        let reserve = || {
            let most = (self.memory_limit() as f64 * LARGE_MEMORY_MAX) as u64;
            queue.reserve(bytes, || self.unflushed_bytes(), most)
        };
        let admission = || Some(Admission(Some((&queue.reserved, bytes))));
        if queue.is_empty() && reserve() {
            return admission();
        }
        let begun = Instant::now();
        let number = queue.join();
        let admitted = loop {
            if queue.is_first(number) && reserve() {
                break admission();
            }
            if self.cannot_flush() {
                break Some(Admission::default());
            }
            if !is_wanted() {
                break None;
            }
            self.work.want_flush();
            self.work.wait_for_progress(CHECK_INTERVAL);
        };
        queue.leave(number);
        self.pressure.note_large_wait(begun);
        admitted
    }

    /// Refuses a commit if memory is used up and cannot be flushed. Commits that were admitted find
    /// room; others may have to wait here, as long as `is_wanted` returns true. Background threads
    /// need no lock that a writer may hold, so they always make progress.
    pub(super) fn check_room(&self, batch: &Batch, is_wanted: &dyn Fn() -> bool) -> Result<()> {
        let limit = self.options.memtable_bytes.saturating_mul(UNADMITTED_MEMORY_MAX);
        let is_used_up = || {
            let sealed = self.sealed_bytes.load(Ordering::Relaxed);
            self.active_bytes.load(Ordering::Relaxed) + sealed > limit
        };
        if !is_used_up() {
            return Ok(());
        }
        self.counters.stalls.fetch_add(1, Ordering::Relaxed);
        while is_used_up() && !self.cannot_flush() {
            self.work.want_flush();
            self.work.wait_for_progress(CHECK_INTERVAL);
            if !is_wanted() {
                return Err(StoreError::Interrupted);
            }
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        match self.work.flush_failure() {
            Some(error) if is_used_up() && !reserve::frees_space(batch) => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_commits_are_admitted_in_their_order() {
        let queue = Queue::default();
        let [first, second, third] = [queue.join(), queue.join(), queue.join()];
        assert!(queue.is_first(first) && !queue.is_first(second) && !queue.is_empty());
        // A commit that gives up does not block those after it.
        queue.leave(second);
        queue.leave(first);
        assert!(queue.is_first(third));
        queue.leave(third);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_is_admitted_and_not_written_yet_counts() {
        let queue = Queue::default();
        assert!(queue.reserve(400, || 500, 1000));
        assert!(!queue.reserve(400, || 500, 1000));
        drop(Admission(Some((&queue.reserved, 400))));
        assert!(queue.reserve(400, || 500, 1000));
        drop(Admission(Some((&queue.reserved, 400))));
        // A commit that never fits is admitted while half of the memory is free.
        assert!(!queue.reserve(5000, || 501, 1000));
        assert!(queue.reserve(5000, || 500, 1000));
        assert!(!queue.reserve(1, || 0, 1000));
    }
}
