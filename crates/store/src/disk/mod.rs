//! The store on disk: a write-ahead log and one LSM tree per key space.
//!
//! Path of a write: `commit.rs` orders it, `log.rs` appends it to the log buffer, it is added to
//! the memtables and published; `sync` waits for the log. `background.rs` flushes memtables to
//! tables, releases log segments and merges tables. `recover.rs` opens a folder, `salvage` reads one
//! that cannot be opened.
//!
//! A data folder: `LOCK`, `FORMAT`, `DROPPED` (ranges to be reclaimed), `log/` (segments, spare
//! segments, the note of released ones), `tmp/` (files that a restart removes), and a folder per
//! space with its tables.

mod admission;
mod advice;
mod around;
mod background;
mod cancel;
mod commit;
mod dropped;
mod file;
mod flush;
mod gate;
mod history;
mod hot;
mod leftovers;
mod load;
mod log;
mod merge;
mod pages;
mod patch;
mod pressure;
mod range;
mod read;
mod readers;
mod reclaim;
mod record;
mod recover;
mod replaced;
mod reserve;
mod salvage;
mod segment;
mod spread;
mod trees;
#[cfg(test)]
mod unreadable;
mod verify;
mod view;
mod work;

use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::{Cache, SequenceNumberCounter, Tree};
use parking_lot::Mutex;

pub use admission::Admission;
use advice::FileAdvice;
use commit::Commit;
use dropped::{DroppedRange, DroppedRanges};
pub use file::LogDevice;
use flush::FlushState;
use gate::Gate;
use history::History;
use hot::Hot;
use leftovers::Leftovers;
use log::Log;
use merge::SetAside;
pub(crate) use pages::Page;
use pages::Pages;
use pressure::Pressure;
pub(crate) use range::DiskRange;
pub(crate) use read::DiskSnapshot;
use readers::Readers;
use reclaim::Reclaimed;
use record::{Kind, Payload, encode_range};
use reserve::Reserve;
pub use salvage::{Effect, Finding, KeyRange, Salvage, free_space};
use view::Newest;
use work::Work;

use crate::long::{PLAIN_MAX, stored_to};
use crate::tracker::Tracker;
use crate::{
    Batch, Bytes, Damage, Load, MAX_KEY_BYTES, Result, Scratch, Seqno, Snapshot, SnapshotLimits,
    Space, SpaceStats, Stats, Store, StoreError,
};

/// Options for opening a disk store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The memory limit of the caches: a quarter for blocks of table files, the rest for pages of
    /// entries. They grow as needed.
    pub cache_bytes: u64,
    /// Approximate bytes of entries per page. Small values are for tests.
    pub page_bytes: usize,
    /// Approximate memory for commits that are not in tables yet, of all spaces together.
    pub memtable_bytes: u64,
    /// The memory limit for keys that commits write during one load; more keys go to files.
    pub noted_bytes: usize,
    /// The size of a log segment.
    pub segment_bytes: u64,
    /// The most bytes of replaced tables kept for reading the past ([`Store::keep_since`]).
    pub history_bytes: u64,
    /// The most bytes of replaced tables that open snapshots may keep. Above it the oldest
    /// snapshots fail with [`StoreError::SnapshotTooOld`].
    pub snapshot_bytes: u64,
    /// How long tables are kept for an open snapshot after the first flush since it was opened.
    /// Older snapshots fail in the same way.
    pub snapshot_age: Duration,
    /// Reserved disk space for when the disk is full, so that the folder can be opened and drops
    /// and deletes can run. At most an eighth of the disk is reserved; 0 reserves none.
    pub reserve_bytes: u64,
    /// Commits that no caller waits for are on disk after this time at the latest.
    pub sync_interval: Duration,
    /// The space of dropped ranges is reclaimed after this time.
    pub reclaim_interval: Duration,
    /// Opens read-only: writes are refused and no data is changed. Leftover files of a crash that
    /// hold no data (unfinished tables, replaced table lists) are still removed.
    pub read_only: bool,
    /// Replaces the log's files; tests inject failures here.
    pub log_device: Option<Arc<dyn LogDevice>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cache_bytes: 256 << 20,
            page_bytes: 32 << 10,
            memtable_bytes: 64 << 20,
            noted_bytes: 16 << 20,
            segment_bytes: 16 << 20,
            history_bytes: 2 << 30,
            reserve_bytes: 24 << 20,
            snapshot_bytes: 16 << 30,
            snapshot_age: Duration::from_secs(24 * 3600),
            sync_interval: Duration::from_millis(100),
            reclaim_interval: Duration::from_secs(10),
            read_only: false,
            log_device: None,
        }
    }
}

/// A store in a folder. The folder stays locked until the store and all its snapshots are dropped.
pub struct DiskStore {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State shared by the store, its snapshots and its background threads.
pub(crate) struct Shared {
    path: PathBuf,
    options: Options,
    trees: [Tree; 4],
    /// The memtables and the newest view of each tree.
    newest: [Newest; 4],
    tracker: Tracker,
    /// Assigns seqnos.
    counter: SequenceNumberCounter,
    commit: Mutex<Commit>,
    /// `None` if the store is read-only.
    log: Option<Log>,
    dropped: Arc<DroppedRanges>,
    cache: Arc<Cache>,
    pages: Pages,
    hot: Hot,
    history: History,
    snapshot_limits: Mutex<SnapshotLimits>,
    readers: Readers,
    advice: FileAdvice,
    reserve: Arc<Reserve>,
    pressure: Pressure,
    queue: admission::Queue,
    /// Passed by everything that a caller changes.
    writers: Gate,
    /// Passed by the work of background threads.
    background: Gate,
    /// Per tree: unfinished files, the lock for adding tables, the reclaimed dropped ranges,
    /// damaged tables, and the counter of its table lists.
    leftovers: [Leftovers; 4],
    registering: [Mutex<()>; 4],
    reclaimed: [Mutex<Reclaimed>; 4],
    set_aside: [Mutex<SetAside>; 4],
    versions: [SequenceNumberCounter; 4],
    /// Temporary files of loads.
    scratch: Arc<Scratch>,
    flushing: Mutex<FlushState>,
    work: Work,
    /// See [`Store::slow_merges`].
    merge_entry_nanos: Arc<AtomicU64>,
    closed: AtomicBool,
    counters: Counters,
    /// Bytes in active memtables, and in those that are being written to tables.
    active_bytes: AtomicU64,
    sealed_bytes: AtomicU64,
    /// The part of the latter that the running flush has written.
    written_bytes: AtomicU64,
    /// Bytes of values that were removed from active and from sealed memtables of the documents.
    removed_bytes: [AtomicU64; 2],
    /// Keeps the lock file open and locked. The last field, so that it is dropped last.
    _lock: Option<File>,
}

#[derive(Default)]
struct Counters {
    writes: AtomicU64,
    flushes: AtomicU64,
    compactions: AtomicU64,
    stalls: AtomicU64,
}

impl DiskStore {
    /// Opens a folder, creates it if it does not exist, and recovers all durable commits.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<DiskStore> {
        let read_only = options.read_only;
        let shared = Arc::new(recover::open(path.as_ref(), options)?);
        let threads = if read_only { Vec::new() } else { background::start(&shared)? };
        Ok(DiskStore { shared, threads: Mutex::new(threads) })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    fn stop(&self) {
        self.shared.background.open();
        self.shared.writers.open();
        self.shared.work.stop();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread of the store had failed");
            }
        }
        self.shared.log.iter().for_each(Log::end_preparing);
    }
}

impl Store for DiskStore {
    fn snapshot(&self) -> Snapshot {
        Snapshot::disk(DiskSnapshot::open(&self.shared))
    }

    fn keep_since(&self, seqno: Option<Seqno>) {
        self.shared.history.keep(seqno, &self.shared.tracker);
    }

    fn snapshot_at(&self, seqno: Seqno) -> Option<Snapshot> {
        let newest = self.snapshot();
        if newest.seqno() == seqno {
            return Some(newest);
        }
        DiskSnapshot::open_at(&self.shared, seqno).map(Snapshot::disk)
    }

    fn write(&self, batch: &Batch) -> Result<Seqno> {
        self.shared.write(batch, &|| true)
    }

    fn write_while(&self, batch: &Batch, is_wanted: &dyn Fn() -> bool) -> Result<Seqno> {
        self.shared.write(batch, is_wanted)
    }

    fn sync(&self, seqno: Seqno) -> Result<()> {
        match &self.shared.log {
            Some(log) => log.sync(seqno),
            None => Ok(()),
        }
    }

    fn make_room(&self) {
        self.shared.make_room();
    }

    fn is_full(&self) -> bool {
        self.shared.reserve.is_scarce() || self.shared.work.is_full()
    }

    fn admit(&self, bytes: usize, is_wanted: &dyn Fn() -> bool) -> Option<Admission<'_>> {
        self.shared.admit(bytes, is_wanted)
    }

    fn pace(&self, is_wanted: &dyn Fn() -> bool) {
        self.shared.pressure.pay(|| is_wanted() && !self.shared.closed.load(Ordering::Acquire));
    }

    fn slow_merges(&self, entries_per_second: u32) {
        let nanos = 1_000_000_000_u64.checked_div(u64::from(entries_per_second)).unwrap_or(0);
        self.shared.merge_entry_nanos.store(nanos, Ordering::Relaxed);
    }

    fn delete_range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<()> {
        let _inside = self.shared.writers.pass();
        let log = self.shared.writable_log()?;
        if from >= to {
            return Ok(());
        }
        if from.len().max(to.len()) > MAX_KEY_BYTES {
            let what = format!("the bounds of a range; they have at most {MAX_KEY_BYTES} bytes");
            return Err(StoreError::TooLarge { what });
        }
        let mut bytes = Vec::new();
        encode_range(&mut bytes, space, from, to);
        let payload = Payload::new(Kind::DeleteRange, &bytes);
        {
            let _commit = self.shared.commit.lock();
            let seqno = self.shared.append(log, &payload, || true)?;
            self.shared.dropped.add(DroppedRange {
                space,
                from: Bytes::copy_from(from),
                to: Bytes::copy_from(to),
            });
            self.shared.pages.drop_range(space, from, to);
            self.shared.hot.clear();
            self.shared.tracker.publish(seqno);
        }
        self.shared.work.want_sync();
        self.shared.reserve.measure_free();
        let delay = match self.shared.reserve.is_scarce() {
            true => Duration::ZERO,
            false => self.shared.options.reclaim_interval,
        };
        self.shared.work.want_reclaim(delay);
        // Dropped data may free the space that merging lacked.
        self.shared.work.retry_merges();
        Ok(())
    }

    fn load(&self, space: Space, prefixes: &[[u8; 4]]) -> Result<Box<dyn Load>> {
        Ok(Box::new(load::DiskLoad::begin(&self.shared, space, prefixes)?))
    }

    fn compact(&self, space: Space, is_wanted: &dyn Fn() -> bool) -> Result<u64> {
        let inside = self.shared.writers.pass_while(is_wanted);
        let _inside = inside.ok_or(StoreError::Interrupted)?;
        self.shared.writable_log()?;
        let compact = || {
            self.shared.flush_in_any_case()?;
            self.shared.compact_tree(space)
        };
        cancel::while_wanted(is_wanted, compact)
    }

    fn checkpoint(&self) -> Result<()> {
        let _inside = self.shared.writers.pass();
        self.shared.writable_log()?;
        self.shared.flush()
    }

    fn freeze(&self, is_wanted: &dyn Fn() -> bool) -> Result<()> {
        self.shared.writable_log()?;
        let frozen = match self.shared.writers.close_while(is_wanted) {
            true => self.shared.flush(),
            false => Err(StoreError::Interrupted),
        };
        match frozen {
            Ok(()) if self.shared.background.close_while(is_wanted) => Ok(()),
            Ok(()) => {
                self.thaw();
                Err(StoreError::Interrupted)
            }
            Err(error) => {
                self.shared.writers.open();
                Err(error)
            }
        }
    }

    fn thaw(&self) {
        self.shared.background.open();
        self.shared.writers.open();
    }

    fn stats(&self) -> Stats {
        let shared = &self.shared;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let past = shared.history.sizes(&shared.tracker);
        let mut stats = Stats {
            open_snapshots: shared.tracker.count(),
            oldest_snapshot: shared.tracker.oldest(),
            published: shared.tracker.published(),
            durable: shared.tracker.published(),
            writes: count(&shared.counters.writes),
            flushes: count(&shared.counters.flushes),
            compactions: count(&shared.counters.compactions),
            stalls: count(&shared.counters.stalls),
            pauses: count(&shared.pressure.pauses),
            cache_bytes: shared.cache.size(),
            cache_capacity_bytes: shared.cache.capacity(),
            history_bytes: past.bytes,
            history_states: past.states,
            oldest_pinned: past.oldest_pinned,
            expired_snapshots: past.expired,
            paused: Duration::from_micros(count(&shared.pressure.paused_micros)),
            longest_wait: Duration::from_micros(count(&shared.pressure.longest_micros)),
            large_waits: count(&shared.pressure.large_waits),
            longest_large_wait: Duration::from_micros(count(&shared.pressure.longest_large_micros)),
            merge_failures: shared.merge_failures(),
            page_bytes: shared.pages.sizes().0,
            page_capacity_bytes: shared.pages.sizes().1,
            page_hits: shared.pages.counts().0,
            page_misses: shared.pages.counts().1,
            ..Stats::default()
        };
        if let Some(log) = &shared.log {
            let (live_bytes, segments, spare_bytes) = log.sizes();
            stats.log_bytes = live_bytes + spare_bytes;
            stats.log_segments = segments;
            stats.log_written_bytes = count(&log.counters.written_bytes);
            stats.durable = log.durable();
            stats.syncs = count(&log.counters.syncs);
            stats.synced_batches = count(&log.counters.synced_batches);
        }
        for space in Space::ALL {
            let newest = &shared.newest[space.index()];
            let (mut memtable_bytes, memtable_entries) = newest.memory();
            let tables = newest.tables();
            let in_tables = tables.list.iter().map(|table| &table.metadata);
            if space == Space::Documents {
                let removed: u64 = shared.removed_bytes.iter().map(count).sum();
                memtable_bytes = memtable_bytes.saturating_sub(removed);
            }
            stats.spaces[space.index()] = SpaceStats {
                disk_bytes: in_tables.clone().map(|table| table.file_size).sum(),
                memtable_bytes,
                entries: memtable_entries + in_tables.map(|table| table.item_count).sum::<u64>(),
                tables: tables.list.len() as u64,
                young_tables: tables.young_runs as u64,
            };
        }
        stats
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Damage>> {
        verify::verify(&self.shared, progress)
    }

    fn approximate_range_bytes(&self, space: Space, from: &[u8], to: &[u8]) -> u64 {
        if from >= to {
            return 0;
        }
        // Long bounds are those of their whole groups, so that a range with entries is not empty.
        let from = &from[..from.len().min(PLAIN_MAX)];
        let to = match stored_to(Bound::Excluded(to)) {
            Bound::Included(to) | Bound::Excluded(to) => to,
            Bound::Unbounded => return 0,
        };
        let to = &*to;
        let snapshot = DiskSnapshot::open(&self.shared);
        trees::approximate_bytes(&self.shared.newest[space.index()], snapshot.seqno(), from, to)
    }

    fn snapshot_limits(&self) -> SnapshotLimits {
        *self.shared.snapshot_limits.lock()
    }

    fn set_snapshot_limits(&self, limits: SnapshotLimits) -> bool {
        *self.shared.snapshot_limits.lock() = limits;
        self.shared.let_go();
        true
    }

    fn pinned_bytes(&self, seqno: Seqno) -> u64 {
        self.shared.history.pinned_bytes(seqno, &self.shared.tracker)
    }

    fn close(&self) -> Result<()> {
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let Some(log) = &self.shared.log else { return Ok(()) };
        // After this no commit is running, and later ones see the flag.
        drop(self.shared.commit.lock());
        self.stop();
        log.sync(log.last())?;
        // Not needed for durability; it makes the next opening fast.
        if let Err(error) = self.shared.flush() {
            tracing::warn!("memory could not be written to tables while closing: {error}");
        }
        Ok(())
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        drop(self.shared.commit.lock());
        self.stop();
        if let Some(log) = &self.shared.log
            && let Err(error) = log.sync(log.last())
        {
            tracing::error!("the last commits may not be on disk: {error}");
        }
    }
}
