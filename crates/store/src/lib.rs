//! Ordered key-value storage: the only part of MotifDB that accesses the disk.
//!
//! A store has a few fixed key spaces. Writers pass a [`Batch`], which is applied atomically and
//! gets one place in the commit order (its [`Seqno`]). Readers take a [`Snapshot`], which sees
//! exactly the commits up to its seqno. This crate does not know BSON, collections or indexes.
//!
//! Backends: [`DiskStore`] (write-ahead log and LSM trees) and [`MemoryStore`] (nothing on disk).
//! Tests replace the device under the log ([`LogDevice`], crate `faults`).

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::time::Duration;

mod batch;
mod bytes;
pub mod disk;
mod error;
mod load;
mod long;
mod memory;
mod overlay;
mod private;
mod scratch;
mod snapshot;
mod stats;
mod tracker;
mod written;

pub use batch::{Batch, Operation};
pub use bytes::Bytes;
pub use disk::{
    Admission, DiskStore, Effect, Finding, KeyRange, LogDevice, Options, Salvage, free_space,
};
pub use error::{Result, StoreError};
pub use load::{Entries, Load};
pub use long::{PLAIN_MAX as PLAIN_KEY_BYTES_MAX, stored_entry};
pub use memory::MemoryStore;
pub use scratch::{RUN_BUFFER_BYTES, Run, RunWriter, Scratch};
pub use snapshot::{Block, BorrowedRun, Direction, Range, Snapshot, SnapshotLimits};
pub use stats::{Damage, MergeFailure, SpaceStats, Stats};

/// A place in the commit order. A snapshot sees every commit whose number is not above its own.
pub type Seqno = u64;

/// The longest key that the trees take, in bytes. Longer ones are stored by a prefix and a digest
/// (`long`); only a [`Load`] must be given the stored form ([`stored_entry`]).
pub const MAX_KEY_BYTES: usize = 65_535;

/// The largest batch, in bytes of keys and values (one log record holds it).
pub const MAX_BATCH_BYTES: usize = 1 << 30;

/// A key space; each is a separate tree on disk. The set is fixed because creating a tree costs
/// tens of milliseconds: collections and indexes share spaces and have key prefixes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Space {
    /// The catalog: databases, collections and indexes.
    Catalog = 0,
    /// Documents, clustered by prefix and `_id`.
    Documents = 1,
    /// Index entries.
    Indexes = 2,
    /// The change log, which change streams and replicas read.
    Log = 3,
}

impl Space {
    /// Every space, in the order of their numbers.
    pub const ALL: [Space; 4] = [Space::Catalog, Space::Documents, Space::Indexes, Space::Log];

    /// The folder name of the space on disk, also used in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Catalog => "catalog",
            Space::Documents => "documents",
            Space::Indexes => "indexes",
            Space::Log => "log",
        }
    }

    /// The space with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<Space> {
        match number {
            0 => Some(Space::Catalog),
            1 => Some(Space::Documents),
            2 => Some(Space::Indexes),
            3 => Some(Space::Log),
            _ => None,
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Ordered bytes with snapshots and atomic batches.
///
/// All methods are thread-safe. Background work never calls back into the caller, so callers may
/// hold their own locks across these calls.
pub trait Store: Send + Sync {
    /// Opens a snapshot of everything published so far. Cheap. The data that it sees is kept until
    /// it is dropped.
    fn snapshot(&self) -> Snapshot;

    /// Keeps data that later commits replace, so that [`Store::snapshot_at`] can read every commit
    /// from `seqno` on; older data may be dropped. With `None`, which is the default, nothing is
    /// kept. The amount is limited; the oldest data is dropped first.
    fn keep_since(&self, seqno: Option<Seqno>);

    /// Opens a snapshot of the commit `seqno`, which must have been published; `None` if its data
    /// is no longer kept.
    fn snapshot_at(&self, seqno: Seqno) -> Option<Snapshot>;

    /// Applies the batch atomically and publishes it; later snapshots see it. It is durable only
    /// after [`Store::sync`]. On error nothing was applied. An empty batch applies nothing and
    /// returns the last published seqno.
    fn write(&self, batch: &Batch) -> Result<Seqno>;

    /// Like [`Store::write`], for a caller that may give up: a wait, for memory or for
    /// [`Store::thaw`], ends with [`StoreError::Interrupted`] when `is_wanted` returns false.
    fn write_while(&self, batch: &Batch, _is_wanted: &dyn Fn() -> bool) -> Result<Seqno> {
        self.write(batch)
    }

    /// Waits until every commit up to `seqno` is on disk. Concurrent callers share one flush.
    fn sync(&self, seqno: Seqno) -> Result<()>;

    /// Waits, for a short time at most, until the next writers need not wait for background work.
    /// For callers that write much, are not urgent, and hold no locks that others need.
    fn make_room(&self) {}

    /// Waits until there is memory for a commit of `bytes`, as long as `is_wanted` returns true;
    /// `None` if that ended it. The memory is reserved until the result is dropped. Call it before
    /// [`Store::write`], without holding locks that other writers need. Commits up to 16 KiB wait
    /// only if the disk takes nothing at all; larger ones wait in the order in which they come.
    fn admit(&self, _bytes: usize, _is_wanted: &dyn Fn() -> bool) -> Option<Admission<'_>> {
        Some(Admission::default())
    }

    /// Pauses in proportion to the background work that the commits of this thread have caused, if
    /// background work is behind, for less than a second and while `is_wanted` returns true. Call it
    /// after [`Store::write`], without holding locks that other writers need.
    fn pace(&self, _is_wanted: &dyn Fn() -> bool) {}

    /// Lets each merge of tables process this many entries per second at most; 0 removes the limit.
    /// For tests of what writers feel when merging is behind.
    fn slow_merges(&self, _entries_per_second: u32) {}

    /// Whether the disk is full or nearly so: writes that free space are accepted, others may be
    /// refused.
    fn is_full(&self) -> bool {
        false
    }

    /// Drops every key in `[from, to)`, now and in the background. Meant for prefixes that are no
    /// longer read and never used again: an open snapshot may or may not see the old entries. The
    /// drop is logged; it is durable after a later `sync`.
    fn delete_range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<()>;

    /// Begins a bulk load of entries under prefixes that are empty except for keys that commits
    /// write from now on, or have written with the values that the load will bring: the entries of
    /// a snapshot that is taken afterwards. Commits continue; what they write to these prefixes
    /// takes precedence.
    fn load(&self, space: Space, prefixes: &[[u8; 4]]) -> Result<Box<dyn Load>>;

    /// Rewrites all tables of a space without entries that were replaced, deleted or dropped;
    /// returns how many bytes smaller it is. Needs free space for what is left; returns
    /// [`StoreError::Full`] if there is none, and then changes nothing. Ends with
    /// [`StoreError::Interrupted`] when `is_wanted` returns false.
    fn compact(&self, _space: Space, _is_wanted: &dyn Fn() -> bool) -> Result<u64> {
        Ok(0)
    }

    /// Flushes all memory to the trees and releases the log.
    fn checkpoint(&self) -> Result<()>;

    /// Flushes all memory and stops every change of the files until [`Store::thaw`], so that they can
    /// be copied. Writers wait; snapshots can be read.
    ///
    /// # Errors
    /// Errors of writing, and [`StoreError::Interrupted`] when `is_wanted` returns false while this
    /// waits for writes and merges in progress. Nothing is stopped then.
    fn freeze(&self, _is_wanted: &dyn Fn() -> bool) -> Result<()> {
        self.checkpoint()
    }

    /// Allows changes of the files again.
    fn thaw(&self) {}

    /// Sizes and counters.
    fn stats(&self) -> Stats;

    /// Reads every file and checks its checksums. Calls `progress` with (done, total) in bytes.
    /// Returns the damage found; an error means that the check itself failed.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Damage>>;

    /// The approximate bytes of the entries in `[from, to)`; 0 only if there are none.
    fn approximate_range_bytes(&self, space: Space, from: &[u8], to: &[u8]) -> u64;

    /// Returns how much open snapshots may keep.
    fn snapshot_limits(&self) -> SnapshotLimits {
        SnapshotLimits { bytes: u64::MAX, age: Duration::MAX }
    }

    /// Changes how much open snapshots may keep, from now on. Returns false if this store has no
    /// limits.
    fn set_snapshot_limits(&self, _limits: SnapshotLimits) -> bool {
        false
    }

    /// The bytes of replaced tables that an open snapshot of the commit `seqno` needs. Several
    /// snapshots may need the same tables. 0 if no such snapshot is open.
    fn pinned_bytes(&self, _seqno: Seqno) -> u64 {
        0
    }

    /// Closes the store: makes all commits durable and stops background threads. Further writes
    /// fail with [`StoreError::Closed`]; open snapshots can still be read.
    fn close(&self) -> Result<()>;
}
