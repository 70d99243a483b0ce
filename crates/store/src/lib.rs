//! Ordered bytes: the only door of MotifDB to the disk.
//!
//! A store holds a few fixed key spaces. Writers hand over a [`Batch`], which is applied whole or
//! not at all and gets one place in the commit order (its [`Seqno`]). Readers take a [`Snapshot`]
//! and see exactly the commits up to its number. Nothing here knows BSON, collections or indexes.
//!
//! Backends: [`DiskStore`] (write-ahead log and LSM trees) and [`MemoryStore`] (nothing on disk).
//! Tests replace the device under the log ([`LogDevice`], crate `faults`).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod batch;
mod bytes;
pub mod disk;
mod error;
mod load;
mod memory;
mod overlay;
mod scratch;
mod snapshot;
mod stats;
mod tracker;
mod written;

pub use batch::{Batch, Operation};
pub use bytes::Bytes;
pub use disk::{DiskStore, LogDevice, Options};
pub use error::{Result, StoreError};
pub use load::{Entries, Load};
pub use memory::MemoryStore;
pub use scratch::{RUN_BUFFER_BYTES, Run, RunWriter, Scratch};
pub use snapshot::{Block, Direction, Lent, Range, Snapshot};
pub use stats::{Damage, MergeFailure, SpaceStats, Stats};

/// A place in the commit order. A snapshot sees every commit whose number is not above its own.
pub type Seqno = u64;

/// The longest key a store takes, in bytes (a limit of the tree format).
pub const MAX_KEY_BYTES: usize = 65_535;

/// The largest batch a store takes, in bytes of keys and values (one log record holds it whole).
pub const MAX_BATCH_BYTES: usize = 1 << 30;

/// One key space; each is a tree of its own on disk. The set is fixed because creating a tree
/// costs tens of milliseconds: collections and indexes share spaces behind key prefixes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Space {
    /// Which databases, collections and indexes exist.
    Catalog = 0,
    /// Documents, clustered by prefix and `_id`.
    Documents = 1,
    /// Index entries.
    Indexes = 2,
    /// The log of changes that change streams and replicas read.
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
/// Every method may be called from any thread at any time. Background work never calls back into
/// the caller, so it is safe to hold locks of one's own across these calls.
pub trait Store: Send + Sync {
    /// A view of everything published so far. Cheap; registered, so that what it sees is kept
    /// until it is dropped.
    fn snapshot(&self) -> Snapshot;

    /// Keeps what later commits replace, so that [`Store::snapshot_at`] can read every commit from
    /// this one on; what only earlier ones need may go. With nothing, nothing is kept, as in the
    /// beginning. How much is kept has a limit, at which the oldest goes first.
    fn keep_since(&self, seqno: Option<Seqno>);

    /// A view of what was published up to `seqno`, which must have been published; nothing if it
    /// is not kept any more.
    fn snapshot_at(&self, seqno: Seqno) -> Option<Snapshot>;

    /// Applies the batch whole and publishes it; later snapshots see it. It is not on disk before
    /// [`Store::sync`] says so. After an error nothing was applied. An empty batch applies nothing
    /// and returns the last published number.
    fn write(&self, batch: &Batch) -> Result<Seqno>;

    /// Returns when every commit up to `seqno` is on disk. Callers that wait at the same time
    /// share one flush.
    fn sync(&self, seqno: Seqno) -> Result<()>;

    /// Waits, for a moment at most, until the next writers need not wait for work in the background:
    /// for who writes much, is in no hurry, and holds nothing that others need.
    fn make_room(&self) {}

    /// Waits for as long as the commits of this thread have added to background work that is
    /// behind; mostly not at all. To be called after [`Store::write`], by who holds no locks that
    /// other writers need.
    fn pace(&self) {}

    /// Whether the disk is full: what frees space is written, everything else may be refused.
    fn is_full(&self) -> bool {
        false
    }

    /// Drops every key in `[from, to)`, now and in the background. Meant for prefixes that nobody
    /// reads and that are never used again: a snapshot that still reads there may or may not see
    /// the old entries. The intent is logged; it is durable once a later `sync` returns.
    fn delete_range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<()>;

    /// Begins to bring in many entries at once, behind prefixes that hold nothing but what commits
    /// write to them from now on, or wrote as the entries will say: the entries of a snapshot
    /// that is taken afterwards. Commits go on; what they write to these prefixes stays.
    fn load(&self, space: Space, prefixes: &[[u8; 4]]) -> Result<Box<dyn Load>>;

    /// Writes everything held in memory to its trees and releases the log.
    fn checkpoint(&self) -> Result<()>;

    /// Sizes and counters.
    fn stats(&self) -> Stats;

    /// Reads every file again and checks its checksums. `progress` hears (done, total) in bytes.
    /// Damage is returned, not an error; an error means that the check itself could not go on.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Damage>>;

    /// About how many bytes the entries in `[from, to)` take; 0 only if nothing is there.
    fn approximate_range_bytes(&self, space: Space, from: &[u8], to: &[u8]) -> u64;

    /// Ends cleanly: what was written is on disk, background threads have stopped. Further writes
    /// fail with [`StoreError::Closed`]; snapshots in hand still read.
    fn close(&self) -> Result<()>;
}
