//! A bulk load writes tables directly, without the log and memtables.
//!
//! Its entries have the lowest seqno, so every commit to the same key is newer. But its tables are
//! above older ones in the tree, where a point read looks first, and a delete below them may be
//! dropped when tables are merged. So no key may be in both: keys that were written before the
//! tables are left out of them; keys written later are written again, in the same step that makes
//! the tables visible.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lsm_tree::{AbstractTree, InternalValue, Table, ValueType};
use parking_lot::Mutex;

use super::Shared;
use super::around::RUNS_MAX;
use super::commit::insert;
use super::patch::Bases;
use super::record::{Kind, Payload, encode_batch};
use super::trees::tree_error;
use super::view::Tables;
use crate::load::{Entries, Load, check_key};
use crate::written::{Ordered, Spill, Written};
use crate::{Batch, Bytes, Result, Space, StoreError};

/// Keys written during the load go to the log in records of this many bytes.
const RECORD_BYTES: usize = 4 << 20;
/// The seqno of loaded entries: so low that every snapshot sees them.
const LOWEST: u64 = 0;
/// With this many runs of young tables a load fails; see [`RUNS_MAX`].
const LOADED_RUNS_MAX: usize = RUNS_MAX + 10;

/// Tables that are not part of the tree yet.
pub(super) struct DiskLoad {
    shared: Arc<Shared>,
    written: Arc<Written>,
    tables: Mutex<Vec<Table>>,
}

/// The tables of one part, and whether all of it was written.
type Part = (Vec<Table>, Result<()>);

impl DiskLoad {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        space: Space,
        prefixes: &[[u8; 4]],
    ) -> Result<DiskLoad> {
        shared.writable_log()?;
        let spill =
            Spill { scratch: shared.scratch.clone(), bytes_max: shared.options.noted_bytes };
        let written = Arc::new(Written::new(space, prefixes, Some(spill)));
        shared.commit.lock().loads.push(written.clone());
        Ok(DiskLoad { shared: shared.clone(), written, tables: Mutex::default() })
    }

    fn check_power(&self) -> Result<()> {
        if self.shared.options.log_device.as_ref().is_some_and(|device| device.has_failed()) {
            return Err(StoreError::Poisoned { reason: "power is gone".to_string() });
        }
        Ok(())
    }

    /// Writes one part. Returns the written tables, also those before an error.
    fn write_part(
        &self,
        entries: Entries<'_>,
        mut is_early: impl FnMut(&Bytes) -> Result<bool>,
    ) -> Part {
        let space = self.written.space;
        let mut failure = Ok(());
        let stream = entries
            .map_while(|entry| {
                let checked = entry.and_then(|(key, value)| {
                    check_key(space, &key)?;
                    is_early(&key).map(|early| (!early).then_some((key, value)))
                });
                // Ending the input, rather than failing, leaves complete tables that can be
                // removed.
                checked.map_err(|error| failure = Err(error)).ok()
            })
            .flatten()
            .map(|(key, value)| {
                let (key, value) = (key.into_tree(), value.into_tree());
                Ok(InternalValue::from_components(key, value, LOWEST, ValueType::Value))
            });
        let tree = &self.shared.trees[space.index()];
        let attempt = self.shared.leftovers[space.index()].begin(tree);
        match tree.flush_to_tables(stream) {
            Ok(written) => {
                let tables = written.map_or_else(Vec::new, |(tables, _)| tables);
                attempt.succeed(tables.iter().map(|table| table.id()));
                (tables, failure)
            }
            Err(error) => (Vec::new(), Err(tree_error(tree, &error))),
        }
    }

    fn forget(&self) {
        let mut commit = self.shared.commit.lock();
        commit.loads.retain(|load| !Arc::ptr_eq(load, &self.written));
    }
}

impl Load for DiskLoad {
    fn write(&self, mut parts: Vec<Entries<'_>>) -> Result<()> {
        self.check_power()?;
        let early = self.written.take()?;
        let Some(early) = early.in_memory() else {
            // The keys in files are read once, in order.
            let mut early = early.into_ordered()?;
            let all = Box::new(parts.into_iter().flatten());
            let (tables, result) = self.write_part(all, |key| early.has(key));
            self.tables.lock().extend(tables);
            return result;
        };
        let last = parts.pop();
        let mut results = std::thread::scope(|scope| {
            let is_early = |key: &Bytes| Ok(!early.is_empty() && early.contains_key(key));
            let threads: Vec<_> = parts
                .into_iter()
                .map(|part| scope.spawn(move || self.write_part(part, is_early)))
                .collect();
            let last = last.map(|part| self.write_part(part, is_early));
            let failed = || (Vec::new(), Err(panicked()));
            let mut results: Vec<_> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| failed()))
                .collect();
            results.extend(last);
            results
        });
        let mut tables = self.tables.lock();
        for (written, _) in &mut results {
            tables.append(written);
        }
        results.into_iter().try_for_each(|(_, result)| result)
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let shared = &self.shared;
        let _inside = shared.writers.pass();
        let log = shared.writable_log()?;
        self.check_power()?;
        let space = self.written.space;
        let tree = &shared.trees[space.index()];
        if tree.l0_run_count() >= LOADED_RUNS_MAX {
            return Err(shared.why_not_merged(space).unwrap_or_else(too_many_tables));
        }
        // Before the commit lock: this waits while a merge finishes. Nobody reads the loaded
        // prefixes yet.
        // From here on the files belong to the tree, also on failure.
        let tables = std::mem::take(&mut *self.tables.lock());
        if !tables.is_empty() {
            let watermark = shared.history.merge_watermark();
            let _registering = shared.registering[space.index()].lock();
            tree.register_tables(&tables, None, None, &[], watermark)
                .map_err(|error| tree_error(tree, &error))?;
            shared.versions[space.index()].set(0);
        }
        shared.newest[space.index()].note_tables(Tables::of(tree));
        let mut commit = shared.commit.lock();
        if shared.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        commit.loads.retain(|load| !Arc::ptr_eq(load, &self.written));
        for prefix in &self.written.prefixes {
            let end = u32::from_be_bytes(*prefix).checked_add(1).map(u32::to_be_bytes);
            let end = end.as_ref().map_or(&[0xFF; 5][..], |end| end);
            shared.pages.drop_range(self.written.space, prefix, end);
        }
        let mut buffer = Vec::new();
        let mut late = self.written.take()?.into_ordered()?;
        while let Some(batch) = next_batch(self.written.space, &mut late)? {
            buffer.clear();
            encode_batch(&mut buffer, &batch, &Bases::default());
            let payload = Payload::new(Kind::Batch, &buffer);
            let seqno = log.append(&payload, || shared.counter.next())?;
            let insert = |operation| insert(&commit.memtables, operation, seqno);
            let bytes = batch.operations().iter().map(insert).sum();
            shared.active_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        shared.tracker.publish(shared.counter.next());
        drop(commit);
        shared.lay_ground(self.written.space);
        shared.history.note_tables(space, &shared.newest[space.index()].tables(), &[]);
        shared.advice.note_tables(self.written.space, tree);
        shared.note_debt(self.written.space);
        shared.work.want_merge(self.written.space);
        shared.work.want_sync();
        Ok(self.written.puts())
    }
}

impl Drop for DiskLoad {
    fn drop(&mut self) {
        self.forget();
        for table in self.tables.lock().drain(..) {
            if let Err(error) = std::fs::remove_file(&*table.path) {
                tracing::warn!(file = %table.path.display(), %error, "cannot remove a table");
            }
        }
    }
}

/// Returns the final values of the next keys, as many as fit into a log record.
fn next_batch(space: Space, keys: &mut Ordered) -> Result<Option<Batch>> {
    let mut batch = Batch::new();
    while batch.bytes() < RECORD_BYTES
        && let Some((key, value)) = keys.next().transpose()?
    {
        batch.push_stored(space, key, value);
    }
    Ok((!batch.is_empty()).then_some(batch))
}

fn too_many_tables() -> StoreError {
    let what = "the number of tables that wait to be merged; try again later".to_string();
    StoreError::TooLarge { what }
}

fn panicked() -> StoreError {
    StoreError::Io {
        action: "write tables to",
        file: "the store".into(),
        kind: std::io::ErrorKind::Other,
        message: "the thread panicked".to_string(),
    }
}
