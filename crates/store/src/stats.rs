//! Numbers about a store, and what a check found.

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
    /// Entries in table files, counting superseded ones; an estimate.
    pub entries: u64,
    /// Table files.
    pub tables: u64,
    /// Young tables that overlap, which reads must look into one by one and merging has not
    /// reached yet.
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
    /// The oldest of them.
    pub oldest_snapshot: Option<Seqno>,
    /// The last published commit.
    pub published: Seqno,
    /// The last commit known to be on disk.
    pub durable: Seqno,
    /// Batches applied.
    pub writes: u64,
    /// Flushes of the log to the disk.
    pub syncs: u64,
    /// Batches that those flushes made durable; divided by `syncs` it is the mean group size.
    pub synced_batches: u64,
    /// Times that memory was written to tables.
    pub flushes: u64,
    /// Compactions.
    pub compactions: u64,
    /// Times that a writer had to wait for background work.
    pub stalls: u64,
    /// Times that a writer was slowed down because background work was behind.
    pub pauses: u64,
    /// How long those took, all together.
    pub paused: Duration,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// The most bytes that the block cache may take.
    pub cache_capacity_bytes: u64,
    /// Bytes of tables that are kept only for open snapshots and for reading the past.
    pub history_bytes: u64,
    /// States of the past that are kept.
    pub history_states: u64,
    /// How long ago memory was first flushed since the oldest open snapshot that holds tables.
    pub oldest_pinned: Option<Duration>,
    /// States that were given up though snapshots needed them.
    pub expired_snapshots: u64,
    /// What keeps tables from being merged.
    pub merge_failures: Vec<MergeFailure>,
    /// Bytes in the cache of pages.
    pub page_bytes: u64,
    /// The most bytes that the cache of pages may take.
    pub page_capacity_bytes: u64,
    /// How often a point read or the start of a range found a page.
    pub page_hits: u64,
    /// How often it found none.
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
    /// What happened when it was tried last.
    pub error: StoreError,
    /// How often it was tried.
    pub tries: u32,
}

/// One thing that [`crate::Store::verify`] found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in the file, if known.
    pub offset: Option<u64>,
    /// What is wrong there.
    pub what: String,
}
