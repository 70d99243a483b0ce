//! What happens behind the writers' backs: memory goes to tables, log segments are released,
//! tables are merged, spare segments are made, commits that nobody waits for reach the disk, and so
//! does what loads have noted.
//!
//! Three threads: one flushes memtables, one merges tables (which takes longer and must not delay
//! flushing), one keeps the log. They never call back into the caller.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, Memtable, SeqNo, TableId, Tree};
use parking_lot::{Condvar, Mutex};

use super::Shared;
use super::dropped::DroppedRange;
use super::trees::{approximate_bytes, tree_error};
use crate::{Result, Space, StoreError};

/// The size of a table after merging.
const TABLE_BYTES: u64 = 64 << 20;
/// So many tables that were written from memory are merged at once: each merge reads what the older
/// ones hold, too. Reads that no page answers look into all of them, by their filters.
const YOUNG_TABLES: u8 = 8;
/// After a failure, for instance on a full disk, work is tried again this often.
const RETRY: Duration = Duration::from_secs(1);
/// So many recovered log segments are turned into tables at once.
const MANY_SEGMENTS: u64 = 4;
/// A tree up to this size is merged as a whole whenever something of it was dropped; a larger one
/// if a dropped range still takes so much, or an eighth of it.
const RECLAIM_BYTES: u64 = 16 << 20;

/// Who wants what from the background threads.
#[derive(Default)]
pub(super) struct Work {
    signals: Mutex<Signals>,
    flush_wanted: Condvar,
    merge_wanted: Condvar,
    sync_wanted: Condvar,
    progress: Condvar,
    /// Set when commits wait for the log keeper, so that writers need not take the lock.
    unsynced: AtomicBool,
    overlapping: AtomicUsize,
}

#[derive(Default)]
struct Signals {
    flush: bool,
    merge: bool,
    sync: bool,
    stop: bool,
    /// When memory is to be flushed for the sake of dropped ranges.
    reclaim_at: Option<Instant>,
    /// The last failures that have not been made good since: of flushing, of merging.
    failures: [Option<StoreError>; 2],
}

/// The two kinds of work that can fail and are tried again.
#[derive(Clone, Copy)]
enum Task {
    Flush = 0,
    Merge = 1,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Task::Flush => "writing memory to tables",
            Task::Merge => "merging tables",
        }
    }
}

impl Work {
    pub(super) fn want_flush(&self) {
        let mut signals = self.signals.lock();
        if !signals.flush {
            signals.flush = true;
            self.flush_wanted.notify_one();
        }
    }

    pub(super) fn want_merge(&self) {
        self.signals.lock().merge = true;
        self.merge_wanted.notify_one();
    }

    pub(super) fn want_sync(&self) {
        if !self.unsynced.swap(true, Ordering::AcqRel) {
            self.signals.lock().sync = true;
            self.sync_wanted.notify_one();
        }
    }

    /// Asks for the space of dropped ranges, after a while: ranges are often dropped in rows.
    pub(super) fn want_reclaim(&self, delay: Duration) {
        self.signals.lock().reclaim_at.get_or_insert_with(|| Instant::now() + delay);
        self.sync_wanted.notify_one();
    }

    /// Waits for something to do for the log keeper; false when the store closes.
    fn wait_for_sync(&self, interval: Duration) -> bool {
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
        self.signals.lock().stop = true;
        self.flush_wanted.notify_all();
        self.merge_wanted.notify_all();
        self.sync_wanted.notify_all();
        self.progress.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.signals.lock().stop
    }

    /// The last failure of background work that has not succeeded since.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.signals.lock().failures.iter().flatten().next().cloned()
    }

    fn report(&self, task: Task, result: &Result<()>) {
        let mut signals = self.signals.lock();
        let failure = &mut signals.failures[task as usize];
        if let (Err(error), None) = (result, &*failure) {
            tracing::error!("{} failed, it will be tried again: {error}", task.name());
        }
        *failure = result.as_ref().err().cloned();
        self.progress.notify_all();
    }

    pub(super) fn wait_for_progress(&self, time: Duration) {
        let mut signals = self.signals.lock();
        if !signals.stop {
            self.progress.wait_for(&mut signals, time);
        }
    }

    /// The most tables of one tree that a read may have to look into.
    pub(super) fn overlapping_tables(&self) -> usize {
        self.overlapping.load(Ordering::Relaxed)
    }

    pub(super) fn note_overlapping(&self, trees: &[Tree; 4]) {
        let most = trees.iter().map(|tree| tree.l0_run_count()).max().unwrap_or(0);
        self.overlapping.store(most, Ordering::Relaxed);
    }
}

/// Memtables that are sealed but not in tables yet.
#[derive(Default)]
pub(super) struct FlushState {
    sealed: Option<Sealed>,
}

struct Sealed {
    /// Log segments before this one hold nothing newer than the sealed memtables.
    generation: u64,
    last: SeqNo,
    bytes: u64,
    /// Of each tree, if there was anything in it. Kept until all are in tables, so that their
    /// memory is freed here, outside of all locks.
    memtables: [Option<Arc<Memtable>>; 4],
}

/// Starts the background threads.
pub(super) fn start(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>> {
    shared.work.note_overlapping(&shared.trees);
    // Restarts after crashes leave a segment each; they must not pile up.
    if shared.log.as_ref().is_some_and(|log| log.sizes().1 > MANY_SEGMENTS) {
        shared.work.want_flush();
    }
    if !shared.dropped.is_empty() {
        shared.work.want_reclaim(shared.options.reclaim_interval);
    }
    let shared_path = shared.path.clone();
    let spawn = |name: &str, run: fn(&Shared)| {
        let shared = shared.clone();
        std::thread::Builder::new()
            .name(name.to_string())
            .spawn(move || run(&shared))
            .map_err(|error| StoreError::io("start threads for", &shared_path, &error))
    };
    Ok(vec![
        spawn("store-flush", flush_loop)?,
        spawn("store-merge", merge_loop)?,
        spawn("store-log", log_loop)?,
    ])
}

fn flush_loop(shared: &Shared) {
    loop {
        {
            let mut signals = shared.work.signals.lock();
            while !signals.flush && !signals.stop {
                shared.work.flush_wanted.wait(&mut signals);
            }
            if signals.stop {
                return;
            }
            signals.flush = false;
        }
        let result = guarded(Task::Flush, || shared.flush());
        shared.report(Task::Flush, &result);
        if result.is_err() {
            let mut signals = shared.work.signals.lock();
            signals.flush = true;
            if !signals.stop {
                shared.work.flush_wanted.wait_for(&mut signals, RETRY);
            }
        }
    }
}

fn merge_loop(shared: &Shared) {
    let mut reclaimed = BTreeSet::new();
    loop {
        {
            let mut signals = shared.work.signals.lock();
            while !signals.merge && !signals.stop {
                shared.work.merge_wanted.wait(&mut signals);
            }
            if signals.stop {
                return;
            }
            signals.merge = false;
        }
        let result = guarded(Task::Merge, || shared.merge(&mut reclaimed));
        shared.report(Task::Merge, &result);
        if result.is_err() {
            let mut signals = shared.work.signals.lock();
            signals.merge = true;
            if !signals.stop {
                shared.work.merge_wanted.wait_for(&mut signals, RETRY);
            }
        }
    }
}

fn log_loop(shared: &Shared) {
    let Some(log) = &shared.log else { return };
    let mut refill_failed = false;
    loop {
        match log.refill() {
            Ok(()) => refill_failed = false,
            Err(error) => {
                if !refill_failed {
                    tracing::warn!("no spare log segment could be made: {error}");
                }
                refill_failed = true;
            }
        }
        if !shared.work.wait_for_sync(shared.options.sync_interval) {
            return;
        }
        shared.work.unsynced.store(false, Ordering::Release);
        // A failure is kept by the log itself and told to every later writer.
        let _ = log.sync(log.last());
        let loads = shared.commit.lock().loads.clone();
        loads.iter().for_each(|load| load.keep_small());
        let (live, _, _) = log.sizes();
        if live > shared.options.memtable_bytes.max(shared.options.segment_bytes).saturating_mul(4)
        {
            shared.work.want_flush();
        }
    }
}

/// A bug in the trees must not end a background thread silently.
fn guarded(task: Task, work: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(StoreError::Io {
            action: task.name(),
            file: "the store".into(),
            kind: std::io::ErrorKind::Other,
            message: "the background thread panicked".to_string(),
        })
    })
}

impl Shared {
    fn report(&self, task: Task, result: &Result<()>) {
        if matches!(result, Err(StoreError::Full)) {
            // Room for the present.
            self.history.forget();
        }
        self.work.report(task, result);
    }

    /// Writes everything in memory to tables and releases the log segments that held it.
    pub(super) fn flush(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let mut state = self.flushing.lock();
        if self.options.log_device.as_ref().is_some_and(|device| device.has_failed()) {
            return Err(StoreError::Poisoned { reason: "power is gone".to_string() });
        }
        // What a failed attempt has sealed goes first, so that sealed memtables do not pile up.
        if state.sealed.is_some() {
            self.flush_sealed(&mut state)?;
        }
        {
            let mut commit = self.commit.lock();
            let memtables = self.trees.each_ref().map(|tree| tree.rotate_memtable());
            for (tree, active) in self.trees.iter().zip(&mut commit.memtables) {
                *active = tree.active_memtable();
            }
            self.history.seal(&self.trees, self.tracker.published());
            let bytes = self.active_bytes.swap(0, Ordering::Relaxed);
            self.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
            let (generation, last) = (log.cut(), log.last());
            state.sealed = Some(Sealed { generation, last, bytes, memtables });
        }
        self.flush_sealed(&mut state)
    }

    fn flush_sealed(&self, state: &mut FlushState) -> Result<()> {
        let (Some(log), Some(sealed)) = (&self.log, &state.sealed) else { return Ok(()) };
        // A batch spans trees, which are written one after the other: only the log makes it whole
        // after a crash in between, so it must be on disk first.
        log.sync(sealed.last)?;
        for space in Space::ALL {
            let tree = &self.trees[space.index()];
            // What is not sealed any more was written by an attempt that failed later.
            if tree.sealed_memtable_count() > 0
                && let Some(memtable) = &sealed.memtables[space.index()]
            {
                let written =
                    self.write_tables(tree, memtable).map_err(|error| tree_error(tree, &error))?;
                self.history.written(space, tree, &written);
            }
        }
        self.dropped.save(&self.path)?;
        self.sealed_bytes.fetch_sub(sealed.bytes, Ordering::Relaxed);
        let generation = sealed.generation;
        let memtables = state.sealed.take().map(|sealed| sealed.memtables);
        self.forget_old_views();
        drop(memtables);
        log.release(generation)?;
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.work.note_overlapping(&self.trees);
        self.work.want_merge();
        Ok(())
    }

    /// Writes a sealed memtable to tables, with all versions in it: the past may be asked for them
    /// until merging leaves them out.
    fn write_tables(&self, tree: &Tree, memtable: &Memtable) -> lsm_tree::Result<Vec<TableId>> {
        let _lock = tree.get_flush_lock();
        let written = tree.flush_to_tables(memtable.iter().map(Ok))?;
        let tables = written.map(|(tables, _)| tables).unwrap_or_default();
        let watermark = self.tracker.watermark() + 1;
        tree.register_tables(&tables, None, None, &[memtable.id()], watermark)?;
        Ok(tables.iter().map(|table| table.id()).collect())
    }

    /// Lets go of memtables and tables that are older than the oldest open snapshot. A cursor that
    /// stays open so keeps every memtable since its start; cursors end when they are idle.
    fn forget_old_views(&self) {
        {
            // A new number above that of the newest view, so that snapshots opened from now on
            // use that view and the ones before it can go, even if nothing is committed.
            let _commit = self.commit.lock();
            self.tracker.publish_empty(self.counter.next());
        }
        self.history.fit(&self.trees, self.options.history_bytes);
        let watermark = self.tracker.watermark() + 1;
        for tree in &self.trees {
            let path = &tree.tree_config().path;
            if let Err(error) = tree.get_version_history_lock().maintenance(path, watermark) {
                tracing::warn!("old views of a tree are kept: {error:?}");
            }
        }
    }

    /// Merges tables until every tree is in shape, and takes back the space of dropped ranges.
    fn merge(&self, reclaimed: &mut BTreeSet<DroppedRange>) -> Result<()> {
        let strategy = Arc::new(
            Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(YOUNG_TABLES),
        );
        for space in Space::ALL {
            let tree = &self.trees[space.index()];
            if !self.dropped.is_empty() {
                self.reclaim(space, tree, reclaimed)?;
            }
            while !self.work.is_stopping() {
                let before = tree.current_version().id();
                let watermark = self.tracker.watermark() + 1;
                tree.compact(strategy.clone(), watermark)
                    .map_err(|error| tree_error(tree, &error))?;
                if tree.current_version().id() == before {
                    break;
                }
                self.counters.compactions.fetch_add(1, Ordering::Relaxed);
                self.forget_old_views();
                self.work.note_overlapping(&self.trees);
                self.work.progress.notify_all();
            }
        }
        Ok(())
    }

    fn reclaim(
        &self,
        space: Space,
        tree: &Tree,
        reclaimed: &mut BTreeSet<DroppedRange>,
    ) -> Result<()> {
        let failed = |error: lsm_tree::Error| tree_error(tree, &error);
        let mut worthwhile = Vec::new();
        for range in self.dropped.of(space) {
            let (from, to): (&[u8], &[u8]) = (&range.from, &range.to);
            tree.drop_range::<&[u8], _>(from..to).map_err(failed)?;
            let left = approximate_bytes(tree, SeqNo::MAX, from, to);
            if left == 0 {
                self.dropped.remove(&range);
                reclaimed.remove(&range);
                continue;
            }
            let size = tree.disk_space();
            // Once is enough: afterwards only commits from before the drop can be left in memory,
            // and those are left out when they are merged.
            if (size <= RECLAIM_BYTES || left >= RECLAIM_BYTES || left >= size / 8)
                && !reclaimed.contains(&range)
            {
                worthwhile.push(range);
            }
        }
        if !worthwhile.is_empty() && !self.work.is_stopping() {
            let watermark = self.tracker.watermark() + 1;
            tree.major_compact(TABLE_BYTES, watermark).map_err(failed)?;
            self.counters.compactions.fetch_add(1, Ordering::Relaxed);
            for range in worthwhile {
                if approximate_bytes(tree, SeqNo::MAX, &range.from, &range.to) == 0 {
                    self.dropped.remove(&range);
                } else {
                    reclaimed.insert(range);
                }
            }
        }
        self.forget_old_views();
        self.dropped.save(&self.path)
    }
}
