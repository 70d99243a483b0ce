//! Work requests for the background threads, and their failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::{Result, Space, StoreError};

/// A failed flush, for instance on a full disk, is retried after this time.
pub(super) const FLUSH_RETRY: Duration = Duration::from_secs(1);
/// After a failed merge its tree is not merged for this time, which doubles with each further
/// failure, ...
const MERGE_RETRY: Duration = Duration::from_secs(1);
/// ... up to this, if a table is damaged ...
const DAMAGED_RETRY_MAX: Duration = Duration::from_secs(3600);
/// ... and up to this, if the disk is full or fails.
const FAILED_RETRY_MAX: Duration = Duration::from_secs(60);
/// A lasting failure is logged this often.
pub(super) const LOG_AGAIN: Duration = Duration::from_secs(60);

/// Signals between writers and background threads.
#[derive(Default)]
pub(super) struct Work {
    signals: Mutex<Signals>,
    pub(super) flush_wanted: Condvar,
    pub(super) merge_wanted: Condvar,
    sync_wanted: Condvar,
    progress: Condvar,
    /// Set when commits wait for the log thread, so that writers need not take the lock.
    pub(super) unsynced: AtomicBool,
    /// Shared with the merge filter, which stops running merges.
    stopping: Arc<AtomicBool>,
}

#[derive(Default)]
struct Signals {
    flush: bool,
    sync: bool,
    stop: bool,
    /// When memory is to be flushed in order to reclaim dropped ranges.
    reclaim_at: Option<Instant>,
    flush_failure: Option<Failure>,
    merges: [TreeSignals; 4],
}

/// The merge state of one tree.
#[derive(Default)]
struct TreeSignals {
    wanted: bool,
    /// Whether a thread merges it now.
    busy: bool,
    failure: Option<Failure>,
    /// Consecutive failures.
    failures: u32,
    retry_at: Option<Instant>,
}

struct Failure {
    error: StoreError,
    logged: Instant,
}

/// The next task of a merging thread.
pub(super) enum Next {
    Merge(Space),
    Stop,
}

impl Work {
    /// `stopping` is set when the store closes.
    pub(super) fn new(stopping: Arc<AtomicBool>) -> Work {
        Work { stopping, ..Work::default() }
    }

    pub(super) fn want_flush(&self) {
        let mut signals = self.signals.lock();
        if !signals.flush {
            signals.flush = true;
            self.flush_wanted.notify_one();
        }
    }

    /// Requests merging of a tree.
    pub(super) fn want_merge(&self, space: Space) {
        self.signals.lock().merges[space.index()].wanted = true;
        self.merge_wanted.notify_all();
    }

    pub(super) fn want_sync(&self) {
        if !self.unsynced.swap(true, Ordering::AcqRel) {
            self.signals.lock().sync = true;
            self.sync_wanted.notify_one();
        }
    }

    /// Requests reclaiming of dropped ranges after a delay: ranges are often dropped in series.
    pub(super) fn want_reclaim(&self, delay: Duration) {
        self.signals.lock().reclaim_at.get_or_insert_with(|| Instant::now() + delay);
        self.sync_wanted.notify_one();
    }

    /// Waits until a flush is wanted; false when the store closes.
    pub(super) fn wait_for_flush(&self) -> bool {
        let mut signals = self.signals.lock();
        while !signals.flush && !signals.stop {
            self.flush_wanted.wait(&mut signals);
        }
        signals.flush = false;
        !signals.stop
    }

    /// After a failed flush: waits, then requests it again.
    pub(super) fn rest_before_flush(&self) {
        let mut signals = self.signals.lock();
        if !signals.stop {
            self.flush_wanted.wait_for(&mut signals, FLUSH_RETRY);
        }
        signals.flush = true;
    }

    /// Waits for a tree to merge: the one with the highest `debt`. A `helper` takes only trees
    /// whose debt is at least `helper_from`.
    pub(super) fn next_merge(
        &self,
        debt: impl Fn(Space) -> usize,
        helper_from: Option<usize>,
    ) -> Next {
        let mut signals = self.signals.lock();
        loop {
            if signals.stop {
                return Next::Stop;
            }
            let now = Instant::now();
            let rests = |tree: &TreeSignals| tree.retry_at.filter(|at| *at > now);
            let ready = |space: &Space| {
                let tree = &signals.merges[space.index()];
                tree.wanted
                    && !tree.busy
                    && rests(tree).is_none()
                    && helper_from.is_none_or(|least| debt(*space) >= least)
            };
            if let Some(space) = Space::ALL.into_iter().filter(ready).max_by_key(|s| debt(*s)) {
                let tree = &mut signals.merges[space.index()];
                (tree.wanted, tree.busy) = (false, true);
                return Next::Merge(space);
            }
            let wake = signals.merges.iter().filter(|tree| tree.wanted).filter_map(rests).min();
            match wake {
                Some(time) => drop(self.merge_wanted.wait_until(&mut signals, time)),
                None => self.merge_wanted.wait(&mut signals),
            }
        }
    }

    /// Called when a merging thread has finished with a tree; `again` if there is more to do.
    pub(super) fn end_merge(&self, space: Space, again: bool, result: &Result<()>) {
        let mut signals = self.signals.lock();
        let stopping = signals.stop;
        let tree = &mut signals.merges[space.index()];
        tree.busy = false;
        tree.wanted |= again;
        match result {
            Ok(()) => {
                (tree.failure, tree.failures, tree.retry_at) = (None, 0, None);
            }
            Err(_) if stopping => {}
            Err(error) => {
                let longest = match error {
                    StoreError::Corrupt { .. } => DAMAGED_RETRY_MAX,
                    _ => FAILED_RETRY_MAX,
                };
                let pause = MERGE_RETRY.saturating_mul(1 << tree.failures.min(16)).min(longest);
                tree.failures += 1;
                tree.wanted = true;
                tree.retry_at = Some(Instant::now() + pause);
                let is_damage = matches!(error, StoreError::Corrupt { .. });
                let what = format!("merging tables of the tree {}", space.name());
                note(&mut tree.failure, error, &what, is_damage);
            }
        }
        self.progress.notify_all();
        self.merge_wanted.notify_all();
    }

    /// Returns why the last merge of a tree failed, if it did.
    pub(super) fn merge_failure(&self, space: Space) -> Option<StoreError> {
        let signals = self.signals.lock();
        signals.merges[space.index()].failure.as_ref().map(|failure| failure.error.clone())
    }

    /// Returns the trees whose merging fails: the failure, and the number of attempts.
    pub(super) fn merge_failures(&self) -> Vec<(Space, StoreError, u32)> {
        let signals = self.signals.lock();
        Space::ALL
            .into_iter()
            .filter_map(|space| {
                let tree = &signals.merges[space.index()];
                let error = tree.failure.as_ref()?.error.clone();
                Some((space, error, tree.failures))
            })
            .collect()
    }

    /// Allows trees that wait after a failure to be merged at once: there may be room again.
    pub(super) fn retry_merges(&self) {
        for tree in &mut self.signals.lock().merges {
            tree.retry_at = None;
        }
        self.merge_wanted.notify_all();
    }

    /// Waits for work of the log thread; false when the store closes.
    pub(super) fn wait_for_sync(&self, interval: Duration) -> bool {
        let mut signals = self.signals.lock();
        while !signals.sync && !signals.stop {
            match signals.reclaim_at {
                Some(time) if time <= Instant::now() => {
                    signals.reclaim_at = None;
                    signals.flush = true;
                    self.flush_wanted.notify_one();
                }
                Some(time) => drop(self.sync_wanted.wait_until(&mut signals, time)),
                None => self.sync_wanted.wait(&mut signals),
            }
        }
        let end = Instant::now() + interval;
        while !signals.stop && !self.sync_wanted.wait_until(&mut signals, end).timed_out() {}
        signals.sync = false;
        !signals.stop
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.signals.lock().stop = true;
        self.flush_wanted.notify_all();
        self.merge_wanted.notify_all();
        self.sync_wanted.notify_all();
        self.progress.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns why memory cannot be written to tables, if the last attempt failed.
    pub(super) fn flush_failure(&self) -> Option<StoreError> {
        self.signals.lock().flush_failure.as_ref().map(|failure| failure.error.clone())
    }

    /// Whether background work has failed because the disk is full.
    pub(super) fn is_full(&self) -> bool {
        let signals = self.signals.lock();
        let merges = signals.merges.iter().map(|tree| &tree.failure);
        let mut failures = merges.chain([&signals.flush_failure]).flatten();
        failures.any(|failure| matches!(failure.error, StoreError::Full))
    }

    /// Records the result of a flush.
    pub(super) fn end_flush(&self, result: &Result<()>) {
        let mut signals = self.signals.lock();
        match result {
            Ok(()) => signals.flush_failure = None,
            Err(error) => {
                note(&mut signals.flush_failure, error, "writing memory to tables", false);
            }
        }
        self.progress.notify_all();
    }

    pub(super) fn wait_for_progress(&self, time: Duration) {
        let mut signals = self.signals.lock();
        if !signals.stop {
            self.progress.wait_for(&mut signals, time);
        }
    }
}

/// Records a failure and logs it if it is new; then once a minute while it lasts, unless `once`.
fn note(kept: &mut Option<Failure>, error: &StoreError, what: &str, once: bool) {
    let now = Instant::now();
    let due = kept.as_ref().is_none_or(|kept| !once && kept.logged + LOG_AGAIN <= now);
    if due {
        tracing::error!("{what} failed, it will be tried again: {error}");
    }
    let logged = match kept {
        Some(kept) if !due => kept.logged,
        _ => now,
    };
    *kept = Some(Failure { error: error.clone(), logged });
}
