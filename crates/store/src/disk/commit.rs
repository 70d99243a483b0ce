//! Commits. One lock orders them. Each commit gets a seqno, a log record and its entries in the
//! memtables before it is published, so a snapshot never sees half a commit.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::{InternalValue, Memtable, ValueType};

use super::log::Log;
use super::patch::{Bases, may_have_patches};
use super::record::{Kind, Payload, encode_batch, pack};
use super::replaced::ReplacedValues;
use super::{Shared, pressure, reserve};
use crate::written::Written;
use crate::{Batch, Bytes, Operation, Result, Seqno, Space, StoreError};

/// Encoding buffers larger than this are freed after use.
const KEEP_BUFFER: usize = 2 << 20;
/// However little space is free, this much memory is filled before it is flushed.
const MEMORY_LEAST: u64 = 4 << 20;

/// The state that the commit lock protects.
pub(super) struct Commit {
    /// The active memtable of each tree, cached: fetching it from the tree costs several atomic
    /// operations.
    pub(super) memtables: [Arc<Memtable>; 4],
    /// The running loads. Each commit reports its writes to them.
    pub(super) loads: Vec<Arc<Written>>,
    /// The large values in the active memtable that were replaced.
    pub(super) replaced: ReplacedValues,
}

/// Puts one operation into its memtable; returns the bytes that it takes there.
pub(super) fn insert(memtables: &[Arc<Memtable>; 4], operation: &Operation, seqno: Seqno) -> u64 {
    insert_as(memtables, operation, operation.value.clone(), seqno)
}

/// Like `insert`, with another handle of the value.
fn insert_as(
    memtables: &[Arc<Memtable>; 4],
    operation: &Operation,
    value: Option<Bytes>,
    seqno: Seqno,
) -> u64 {
    let key = operation.key.to_tree();
    let item = match value {
        Some(value) => {
            InternalValue::from_components(key, value.into_tree(), seqno, ValueType::Value)
        }
        None => InternalValue::new_tombstone(key, seqno),
    };
    memtables[operation.space.index()].insert(item).0
}

impl Shared {
    pub(super) fn write(&self, batch: &Batch, is_wanted: &dyn Fn() -> bool) -> Result<Seqno> {
        thread_local! {
            /// The encoded batch, and its packed form.
            static BUFFERS: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
        }
        let _inside = self.writers.pass_while(is_wanted).ok_or(StoreError::Interrupted)?;
        let log = self.writable_log()?;
        if batch.is_empty() {
            return Ok(self.tracker.published());
        }
        batch.check()?;
        if self.reserve.is_released() && !self.reserve.restore() && !reserve::frees_space(batch) {
            return Err(StoreError::Full);
        }
        self.check_room(batch, is_wanted)?;
        let (seqno, loads) = BUFFERS.with_borrow_mut(|[buffer, packed]| {
            let mut bases = self.bases(batch);
            let result = loop {
                buffer.clear();
                encode_batch(buffer, batch, &bases);
                let payload = match pack(buffer, packed) {
                    true => Payload::new(Kind::PackedBatch, packed),
                    false => Payload::new(Kind::Batch, buffer),
                };
                match self.commit_batch(log, batch, &bases, &payload) {
                    // Another commit or a flush came first: without patches nothing can.
                    Ok(None) => bases = Bases::default(),
                    Ok(Some(committed)) => break Ok(committed),
                    Err(error) => break Err(error),
                }
            };
            for buffer in [buffer, packed] {
                if buffer.capacity() > KEEP_BUFFER {
                    *buffer = Vec::new();
                }
            }
            result
        })?;
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        loads.iter().for_each(|load| load.hold_back());
        // Where merging is behind, fewer and larger tables are better.
        let full = match self.pressure.is_behind() {
            true => self.memory_limit(),
            // Fewer flushes also mean less merging. The last quarter absorbs writes during the
            // flush.
            false => self.memory_limit() / 4 * 3,
        };
        if self.active_bytes.load(Ordering::Relaxed) > full {
            self.work.want_flush();
        }
        let memory = self.memory_share();
        if memory > pressure::SLOW_MEMORY || self.pressure.is_behind() {
            let touched = batch.operations().iter().map(|operation| operation.space);
            self.pressure.charge(batch.bytes(), memory, touched);
        }
        self.work.want_sync();
        if log.is_behind() {
            // The batch is applied already. If the disk fails now, the callers of `sync` get the
            // error.
            if let Err(error) = log.sync(seqno) {
                tracing::error!("the log cannot keep up: {error}");
            }
        }
        Ok(seqno)
    }

    /// Appends a record to the log; one that frees space may use the reserve. The caller holds the
    /// commit lock.
    pub(super) fn append(
        &self,
        log: &Log,
        payload: &Payload<'_>,
        frees_space: impl FnOnce() -> bool,
    ) -> Result<Seqno> {
        let result = match log.append(payload, || self.counter.next()) {
            Err(StoreError::Full) if frees_space() && self.reserve.release() => {
                log.append(payload, || self.counter.next())
            }
            result => result,
        };
        if matches!(result, Err(StoreError::Full)) && self.active_bytes.load(Ordering::Relaxed) > 0
        {
            // This releases log segments.
            self.work.want_flush();
        }
        result
    }

    /// The versions that large values of a batch can be written as patches of.
    fn bases(&self, batch: &Batch) -> Bases {
        if !may_have_patches(batch) {
            return Bases::default();
        }
        let memtable = self.commit.lock().memtables[Space::Documents.index()].clone();
        Bases::find(batch, memtable)
    }

    /// Returns the seqno of the commit and the loads that it was reported to; `None`, without a
    /// commit, if the bases are no longer the newest versions.
    fn commit_batch(
        &self,
        log: &Log,
        batch: &Batch,
        bases: &Bases,
        payload: &Payload<'_>,
    ) -> Result<Option<(Seqno, Vec<Arc<Written>>)>> {
        let mut commit = self.commit.lock();
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        if !bases.are_newest(batch, &commit.memtables[Space::Documents.index()]) {
            return Ok(None);
        }
        let seqno = self.append(log, payload, || reserve::frees_space(batch))?;
        // Before publication: a reader that sees the commit must not find a page without it.
        let mut shared = self.pages.write(batch, seqno).into_iter().peekable();
        let mut bytes = 0;
        for (number, operation) in batch.operations().iter().enumerate() {
            let value = match shared.next_if(|(of, _)| *of == number) {
                Some((_, value)) => Some(value),
                None => operation.value.clone(),
            };
            bytes += insert_as(&commit.memtables, operation, value, seqno);
        }
        self.active_bytes.fetch_add(bytes, Ordering::Relaxed);
        commit.loads.iter().for_each(|load| load.note(batch));
        self.hot.write(batch, seqno);
        self.tracker.publish(seqno);
        let after = self.note_replaced(&mut commit, batch, bases, seqno);
        let loads = commit.loads.clone();
        drop(commit);
        after.finish(self);
        Ok(Some((seqno, loads)))
    }

    /// Returns the log, or an error if the store is read-only, closed or failed.
    pub(super) fn writable_log(&self) -> Result<&Log> {
        let log = self.log.as_ref().ok_or(StoreError::ReadOnly)?;
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        log.check_poison()?;
        Ok(log)
    }

    /// Waits for background work that would soon block writers. Errors are left to the writers.
    pub(super) fn make_room(&self) {
        const PATIENCE: Duration = Duration::from_millis(200);
        let begun = Instant::now();
        if let Some(log) = self.log.as_ref().filter(|log| log.is_filling())
            && let Err(error) = log.sync(log.last())
        {
            tracing::warn!("the log cannot keep up: {error}");
        }
        let is_tight = || self.memory_share() > pressure::SLOW_MEMORY || self.pressure.is_behind();
        while is_tight()
            && begun.elapsed() < PATIENCE
            && self.work.flush_failure().is_none()
            && !self.closed.load(Ordering::Acquire)
        {
            self.work.wait_for_progress(Duration::from_millis(20));
        }
        self.pressure.forgive();
    }

    /// How much memory may be unwritten: not more than the disk has room for.
    pub(super) fn memory_limit(&self) -> u64 {
        let room = (self.reserve.free_bytes() / 4).max(MEMORY_LEAST);
        self.options.memtable_bytes.min(room)
    }
}
