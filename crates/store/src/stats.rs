//! Statistics of a store, and the findings of a check.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Seqno, Space, StoreError};

/// Sizes of one key space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Bytes of table files.
    pub disk_bytes: u64,
    /// Bytes in memory that are not in table files yet.
    pub memtable_bytes: u64,
    /// Approximate number of entries in table files, including superseded ones.
    pub entries: u64,
    /// Table files.
    pub tables: u64,
    /// Young tables that overlap: not merged yet, so reads must check each of them.
    pub young_tables: u64,
}

/// Sizes and counters of a store since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Per space, in the order of [`Space::ALL`].
    pub spaces: [SpaceStats; 4],
    /// Bytes of log segments on disk, spare ones included.
    pub log_bytes: u64,
    /// Log segments that hold records not yet in tables.
    pub log_segments: u64,
    /// Bytes written to the log.
    pub log_written_bytes: u64,
    /// Snapshots that are open now.
    pub open_snapshots: u64,
    /// The seqno of the oldest of them.
    pub oldest_snapshot: Option<Seqno>,
    /// The last published commit.
    pub published: Seqno,
    /// The last commit known to be on disk.
    pub durable: Seqno,
    /// Batches applied.
    pub writes: u64,
    /// Flushes of the log to the disk.
    pub syncs: u64,
    /// Batches that those flushes made durable; divided by `syncs`, the mean group size.
    pub synced_batches: u64,
    /// Flushes of memtables to tables.
    pub flushes: u64,
    /// Compactions.
    pub compactions: u64,
    /// Times that a small commit, or one that was not admitted, had to wait for background work.
    pub stalls: u64,
    /// Times that a writer was slowed down because background work was behind.
    pub pauses: u64,
    /// Total time of these pauses.
    pub paused: Duration,
    /// The longest time that one commit was asked to pause, or that a small one had to wait.
    pub longest_wait: Duration,
    /// Times that a large commit waited for memory, or repaid what earlier ones of its thread owed.
    pub large_waits: u64,
    /// The longest of these times.
    pub longest_large_wait: Duration,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// The memory limit of the block cache, in bytes.
    pub cache_capacity_bytes: u64,
    /// Bytes of tables kept only for open snapshots and for reading the past.
    pub history_bytes: u64,
    /// Number of kept versions of the past.
    pub history_states: u64,
    /// Time since the first flush after the oldest open snapshot that holds tables was opened.
    pub oldest_pinned: Option<Duration>,
    /// Kept versions that were dropped although snapshots needed them.
    pub expired_snapshots: u64,
    /// Failures that keep tables from being merged.
    pub merge_failures: Vec<MergeFailure>,
    /// Bytes in the page cache.
    pub page_bytes: u64,
    /// The memory limit of the page cache, in bytes.
    pub page_capacity_bytes: u64,
    /// Page cache hits of point reads and starts of ranges.
    pub page_hits: u64,
    /// Page cache misses.
    pub page_misses: u64,
}

impl Stats {
    /// The sizes of one space.
    pub fn space(&self, space: Space) -> &SpaceStats {
        &self.spaces[space.index()]
    }
}

/// Why tables of one space are not merged.
#[derive(Clone, Debug)]
pub struct MergeFailure {
    /// The space.
    pub space: Space,
    /// The last failure.
    pub error: StoreError,
    /// The number of attempts.
    pub tries: u32,
}

/// One damage that [`crate::Store::verify`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: PathBuf,
    /// The offset in the file, if known.
    pub offset: Option<u64>,
    /// A description.
    pub what: String,
}
