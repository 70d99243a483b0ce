//! Flushing: memtables are sealed and written to tables, and their log segments are released.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lsm_tree::{AbstractTree, Memtable, SeqNo, TableId};

use super::Shared;
use super::around::RUNS_MAX;
use super::dropped::{holds, joined};
use super::history::Limits;
use super::trees::tree_error;
use crate::{Result, Space, StoreError};

/// The minimum limit of the kept past, however small the store is, ...
const HISTORY_BYTES_MIN: u64 = 256 << 20;
/// ... and its maximum as a share of the store.
const HISTORY_SHARE: u64 = 4;

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
    /// Of each tree, if it was not empty. Kept until all are in tables, so that their memory is
    /// freed here, outside of all locks.
    memtables: [Option<Arc<Memtable>>; 4],
}

impl Shared {
    /// Writes all memory to tables and releases the log segments that held it.
    pub(super) fn flush(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let mut state = self.flushing.lock();
        if self.options.log_device.as_ref().is_some_and(|device| device.has_failed()) {
            return Err(StoreError::Poisoned { reason: "the log's device has failed".to_string() });
        }
        self.wait_for_merging()?;
        // The memtables that a failed attempt sealed are flushed first, so that they do not pile
        // up.
        if state.sealed.is_some() {
            self.flush_sealed(&mut state)?;
        }
        {
            let mut commit = self.commit.lock();
            // Trees with empty memory get no table; if all are empty, nothing is sealed.
            let memtables = self.trees.each_ref().map(|tree| tree.rotate_memtable());
            for (tree, active) in self.trees.iter().zip(&mut commit.memtables) {
                *active = tree.active_memtable();
            }
            if memtables.iter().any(Option::is_some) {
                let last = self.tracker.published();
                self.history.seal(&self.trees, &memtables, &self.tracker, last);
            }
            let bytes = self.active_bytes.swap(0, Ordering::Relaxed);
            self.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
            let (generation, last) = (log.cut(), log.last());
            state.sealed = Some(Sealed { generation, last, bytes, memtables });
        }
        self.flush_sealed(&mut state)
    }

    /// Waits while a tree has as many young tables as it may have. Writers are slowed down long
    /// before, so this happens only if merging fails or stands still.
    ///
    /// # Errors
    /// The failure of merging; `Closed` if the store closes.
    fn wait_for_merging(&self) -> Result<()> {
        let is_full = |space: &Space| self.trees[space.index()].l0_run_count() >= RUNS_MAX;
        while let Some(space) = Space::ALL.into_iter().find(is_full) {
            self.work.want_merge(space);
            if let Some(error) = self.why_not_merged(space) {
                return Err(error);
            }
            if self.work.is_stopping() {
                return Err(StoreError::Closed);
            }
            self.work.wait_for_progress(Duration::from_millis(20));
        }
        Ok(())
    }

    fn flush_sealed(&self, state: &mut FlushState) -> Result<()> {
        let (Some(log), Some(sealed)) = (&self.log, &state.sealed) else { return Ok(()) };
        // A batch spans trees, which are written one after the other. After a crash in between
        // only the log makes it whole, so it must be on disk first.
        log.sync(sealed.last)?;
        for space in Space::ALL {
            let tree = &self.trees[space.index()];
            // A memtable that is no longer sealed was written by an attempt that failed later.
            if tree.sealed_memtable_count() > 0
                && let Some(memtable) = &sealed.memtables[space.index()]
            {
                let written =
                    self.write_tables(space, memtable).map_err(|error| tree_error(tree, &error))?;
                self.history.written(space, tree, &written);
                self.advice.note_tables(space, tree);
                self.note_debt(space);
                self.work.want_merge(space);
            } else if self.dropped.has_any(space) {
                self.work.want_merge(space);
            }
        }
        self.dropped.save(&self.path)?;
        self.sealed_bytes.fetch_sub(sealed.bytes, Ordering::Relaxed);
        let generation = sealed.generation;
        let memtables = state.sealed.take().map(|sealed| sealed.memtables);
        let has_written = memtables.iter().flatten().any(Option::is_some);
        self.let_go();
        drop(memtables);
        log.release(generation)?;
        if has_written {
            self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes a sealed memtable to tables with all its versions: older snapshots may need them
    /// until merging drops them.
    fn write_tables(&self, space: Space, memtable: &Memtable) -> lsm_tree::Result<Vec<TableId>> {
        let tree = &self.trees[space.index()];
        if let Some(device) = &self.options.log_device {
            device.flush_tables()?;
        }
        let attempt = self.leftovers[space.index()].begin(tree);
        let _lock = tree.get_flush_lock();
        let device = self.options.log_device.as_deref();
        // What was dropped is not read again. On a full disk there may be no room for it.
        let dropped = joined(self.dropped.of(space));
        let entries = memtable.iter().filter(|entry| !holds(&dropped, &entry.key.user_key));
        let written = tree.flush_to_tables(entries.map(|entry| {
            device.map_or(Ok(()), |device| device.flush_entry())?;
            Ok(entry)
        }))?;
        let tables = written.map(|(tables, _)| tables).unwrap_or_default();
        let watermark = self.history.merge_watermark();
        {
            let _registering = self.registering[space.index()].lock();
            tree.register_tables(&tables, None, None, &[memtable.id()], watermark)?;
        }
        self.versions[space.index()].set(0);
        let written: Vec<TableId> = tables.iter().map(|table| table.id()).collect();
        attempt.succeed(written.iter().copied());
        Ok(written)
    }

    /// Releases memtables and tables that are no longer needed.
    pub(super) fn let_go(&self) {
        self.readers.give_up_all();
        self.history.fit(&self.tracker, self.history_limits());
    }

    fn history_limits(&self) -> Limits {
        let live: u64 = self.trees.iter().map(|tree| tree.disk_space()).sum();
        let share = (live / HISTORY_SHARE).max(HISTORY_BYTES_MIN);
        let room = if self.reserve.is_scarce() { 0 } else { self.reserve.free_bytes() / 2 };
        Limits {
            history_bytes: self.options.history_bytes.min(share).min(room),
            snapshots: *self.snapshot_limits.lock(),
        }
    }
}
