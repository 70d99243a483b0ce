//! Flushing: memtables are sealed and written to tables, and their log segments are released.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lsm_tree::{AbstractTree, Memtable, SeqNo, TableId};

use super::Shared;
use super::around::RUNS_MAX;
use super::dropped::{holds, joined};
use super::history::Limits;
use super::replaced::ReplacedValues;
use super::spread::Spread;
use super::trees::{TABLES, tree_error};
use super::view::{Newest, Tables};
use crate::{Result, Space, StoreError};

/// The minimum limit of the kept past, however small the store is, ...
pub(super) const HISTORY_BYTES_MIN: u64 = 256 << 20;
/// ... and its maximum as a share of the store.
const HISTORY_SHARE: u64 = 4;

/// How often the progress of a flush is recorded.
const COUNTED_BYTES: usize = 32 << 10;

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
            for (newest, active) in self.newest.iter().zip(&mut commit.memtables) {
                if let Some(next) = newest.seal() {
                    *active = next;
                }
            }
            let memtables = self.newest.each_ref().map(Newest::sealed);
            commit.replaced = ReplacedValues::default();
            let removed = self.removed_bytes[0].swap(0, Ordering::Relaxed);
            self.removed_bytes[1].fetch_add(removed, Ordering::Relaxed);
            if memtables.iter().any(Option::is_some) {
                self.history.seal(&self.newest, &self.tracker, self.tracker.published());
            }
            let bytes = self.active_bytes.swap(0, Ordering::Relaxed);
            self.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
            let (generation, last) = (log.cut(), log.last());
            state.sealed = Some(Sealed { generation, last, bytes, memtables });
        }
        self.flush_sealed(&mut state)
    }

    /// Flushes; on a full disk, everything that is not needed gives way, then the reserve. Tables
    /// take less space than the log segments that they release.
    pub(super) fn flush_in_any_case(&self) -> Result<()> {
        match self.flush() {
            Err(StoreError::Full) => {
                self.give_way();
                self.make_room_by_drops();
                self.reserve.release();
                self.flush()
            }
            result => result,
        }
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
        self.written_bytes.store(0, Ordering::Relaxed);
        for space in Space::ALL {
            let tree = &self.trees[space.index()];
            // A memtable that is no longer sealed was written by an attempt that failed later.
            if let Some(memtable) = self.newest[space.index()].sealed() {
                let written = self
                    .write_tables(space, &memtable)
                    .map_err(|error| tree_error(tree, &error))?;
                let tables = Tables::of(tree);
                self.newest[space.index()].note_flush(tables.clone());
                self.history.written(space, &tables, &written);
                self.advice.note_tables(space, tree);
                self.lay_ground(space);
                self.note_debt(space);
                self.work.want_merge(space);
            } else if self.dropped.has_any(space) {
                self.work.want_merge(space);
            }
        }
        self.dropped.save(&self.path)?;
        self.sealed_bytes.fetch_sub(sealed.bytes, Ordering::Relaxed);
        self.written_bytes.store(0, Ordering::Relaxed);
        self.removed_bytes[1].store(0, Ordering::Relaxed);
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
        let mut spread = Spread::new(&tree.tree_config().path.join(TABLES));
        let mut uncounted = 0;
        let written = tree.flush_to_tables(entries.map(|entry| {
            device.map_or(Ok(()), |device| device.flush_entry())?;
            // As memory counts it.
            uncounted += entry.key.user_key.len() + entry.value.len() + size_of_val(&entry);
            if uncounted >= COUNTED_BYTES {
                self.written_bytes.fetch_add(uncounted as u64, Ordering::Relaxed);
                spread.note(uncounted);
                uncounted = 0;
            }
            Ok(entry)
        }))?;
        let tables = written.map(|(tables, _)| tables).unwrap_or_default();
        let watermark = self.history.merge_watermark();
        {
            let _registering = self.registering[space.index()].lock();
            tree.register_tables(&tables, None, None, &[], watermark)?;
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
