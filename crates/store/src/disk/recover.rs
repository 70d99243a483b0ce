//! Opening a folder: lock it, check its format, open the trees, and replay the log.
//!
//! A torn tail (bytes that did not fully reach the disk, so that no commit in them was confirmed)
//! ends the log without an error. Invalid bytes before an offset that is known to be on disk are
//! damage: opening fails and names the file.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, InternalValue, Memtable, Tree};
use parking_lot::Mutex;

use super::advice::FileAdvice;
use super::commit::{Commit, insert};
use super::dropped::{DroppedRange, DroppedRanges, MergeControl};
use super::file::{LogFile, sync_folder};
use super::gate::Gate;
use super::history::History;
use super::hot::Hot;
use super::log::{Log, Recovered};
use super::pages::Pages;
use super::pressure::Pressure;
use super::readers::Readers;
use super::record::{
    HeaderState, Kind, Record, SEGMENT_HEADER, SegmentHeader, decode_batch, decode_range,
    decode_record, was_synced,
};
use super::replaced::{ReplacedValues, free_removed};
use super::reserve::{Reserve, free_bytes};
use super::segment::{Pool, ReleaseNote, Segment};
use super::trees::{FIRST_COMMIT, TreeSetup, check_manifest, tree_error};
use super::view::Newest;
use super::work::Work;
use super::{Counters, Options, Shared};
use crate::private;
use crate::tracker::Tracker;
use crate::{Bytes, Result, Scratch, Seqno, SnapshotLimits, Space, StoreError};

/// One part in this many of the cache memory goes to blocks of table files. The rest goes to
/// pages, which hold the same entries in the form in which they are read.
const BLOCK_SHARE: u64 = 4;
/// The content of the file `FORMAT`.
pub(super) const FORMAT: &str = "motifdb-store 1\n";

/// Opens a folder and recovers all durable commits.
pub(super) fn open(path: &Path, options: Options) -> Result<Shared> {
    if !options.read_only {
        private::create_folder(path).map_err(|error| StoreError::io("create", path, &error))?;
    }
    let path = path.canonicalize().map_err(|error| StoreError::io("open", path, &error))?;
    if !options.read_only {
        refuse_foreign(&path)?;
    }
    let lock = lock(&path, options.read_only)?;
    let is_new = check_format(&path, options.read_only)?;
    if !options.read_only {
        close_to_others(&path);
    }
    if !is_new {
        for space in Space::ALL {
            check_manifest(&path.join(space.name()))?;
        }
    }
    let dropped = Arc::new(DroppedRanges::load(&path)?);
    let stopping = Arc::new(AtomicBool::new(false));
    let control = MergeControl {
        stopping: stopping.clone(),
        device: options.log_device.clone(),
        entry_nanos: Arc::default(),
    };
    let merge_entry_nanos = control.entry_nanos.clone();
    let setup = TreeSetup::new(options.cache_bytes / BLOCK_SHARE, dropped.clone(), control);
    let trees = setup.open(&path)?;
    let log_folder = path.join("log");
    if is_new {
        if let Some(file) = data_without_format(&path, &trees, &log_folder) {
            let what = format!("the file is missing, but there is data in {}", file.display());
            let file = path.join("FORMAT");
            return Err(StoreError::Corrupt { file, offset: None, what });
        }
        private::create_folder(&log_folder)
            .map_err(|error| StoreError::io("create", &log_folder, &error))?;
        ReleaseNote::create(&log_folder, 1)?;
    }

    let mut replay = Replay::new(&trees, &dropped, &options);
    // A flush starts before memory is full and then releases log segments; if writers are faster,
    // memory is full by then.
    let released_bytes = options.memtable_bytes;
    let reserve_bytes = if options.read_only { 0 } else { options.reserve_bytes };
    let reserve = Arc::new(Reserve::open(&path, reserve_bytes, options.log_device.clone()));
    let device = options.log_device.clone();
    let pool = Pool::new(&log_folder, options.segment_bytes, released_bytes, device)
        .with_reserve(reserve.clone());
    let begun = Instant::now();
    let recovered = replay.run(&pool)?;
    replay.report(begun.elapsed());
    let (memtables, active_bytes) = (replay.memtables.clone(), replay.bytes);
    // From here on the memtables are kept outside of the trees (`view.rs`).
    trees.iter().for_each(|tree| tree.clear_active_memtable());
    let removed_bytes = [replay.removed_bytes.into(), AtomicU64::new(0)];
    let persisted = trees.iter().filter_map(|tree| tree.get_highest_persisted_seqno()).max();
    let last = recovered.last.max(persisted.unwrap_or(0)).max(FIRST_COMMIT - 1);
    setup.counter.fetch_max(last + 1);
    let log = if options.read_only {
        None
    } else {
        let note = ReleaseNote::open(&log_folder, options.log_device.clone())?;
        Some(Log::start(pool, note, Recovered { last, ..recovered })?)
    };
    if is_new {
        write_format(&path)?;
    }
    Ok(Shared {
        merge_entry_nanos,
        tracker: Tracker::new(last),
        counter: setup.counter.clone(),
        commit: Mutex::new(Commit {
            memtables: memtables.clone(),
            loads: Vec::new(),
            replaced: ReplacedValues::default(),
        }),
        log,
        dropped,
        cache: setup.cache.clone(),
        pages: Pages::new(
            options.cache_bytes - options.cache_bytes / BLOCK_SHARE,
            options.page_bytes,
        ),
        hot: Hot::new(),
        history: History::new(last, &trees),
        newest: Space::ALL.map(|space| {
            let at = space.index();
            Newest::new(&trees[at], memtables[at].clone())
        }),
        snapshot_limits: Mutex::new(SnapshotLimits {
            bytes: options.snapshot_bytes,
            age: options.snapshot_age,
        }),
        readers: Readers::default(),
        advice: FileAdvice::new(setup.files.clone()),
        reserve,
        flushing: Mutex::default(),
        work: Work::new(stopping),
        pressure: Pressure::default(),
        queue: super::admission::Queue::default(),
        writers: Gate::default(),
        background: Gate::default(),
        leftovers: Default::default(),
        registering: Default::default(),
        reclaimed: Default::default(),
        set_aside: Default::default(),
        versions: setup.versions.clone(),
        closed: AtomicBool::new(false),
        counters: Counters::default(),
        active_bytes: AtomicU64::new(active_bytes),
        sealed_bytes: AtomicU64::new(0),
        written_bytes: AtomicU64::new(0),
        removed_bytes,
        scratch: Arc::new(Scratch::beside(&path, "load")),
        _lock: lock,
        path,
        options,
        trees,
    })
}

/// Locks a folder against other processes. Without `read_only` the lock file is created.
pub(super) fn lock(path: &Path, read_only: bool) -> Result<Option<File>> {
    let file = path.join("LOCK");
    let opened = private::options().read(true).write(!read_only).create(!read_only).open(&file);
    let opened = match opened {
        // The folder was never opened for writing, for instance a copy without this file.
        Err(error) if read_only && error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| StoreError::io("open", &file, &error))?,
    };
    match opened.try_lock() {
        Ok(()) => Ok(Some(opened)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", &file, &error)),
    }
}

/// Refuses a folder without a store that holds other things: they would end up among the data, and
/// lose their rights.
fn refuse_foreign(path: &Path) -> Result<()> {
    if path.join("FORMAT").exists() {
        return Ok(());
    }
    let failed = |error| StoreError::io("read", path, &error);
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        // What an earlier start left that did not get far, and what file systems put there.
        let is_own = Space::ALL.iter().any(|space| space.name() == name)
            || matches!(&*name, "LOCK" | "FORMAT.new" | "log" | "tmp" | "lost+found")
            || [super::dropped::FILE, super::dropped::TEMPORARY, super::reserve::FILE]
                .contains(&&*name);
        if !is_own {
            let found = name.into_owned();
            return Err(StoreError::Foreign { path: path.to_path_buf(), found });
        }
    }
    Ok(())
}

/// Takes the rights of others from the folder and its files.
fn close_to_others(path: &Path) {
    let was_open = private::is_open(path);
    match private::tighten(path) {
        Ok(_) if !was_open => {}
        Ok(changed) => tracing::warn!(
            folder = %path.display(),
            changed,
            "other users could read the data folder; now only its owner can"
        ),
        Err(error) => tracing::warn!(
            folder = %path.display(),
            %error,
            "other users may be able to read the data folder, and its rights cannot be changed"
        ),
    }
}

/// Whether the folder is new. Folders of another format are refused.
fn check_format(path: &Path, read_only: bool) -> Result<bool> {
    let file = path.join("FORMAT");
    let found = match std::fs::read(&file) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound && !read_only => return Ok(true),
        Err(error) => return Err(StoreError::io("read", &file, &error)),
    };
    if found == FORMAT.as_bytes() {
        return Ok(false);
    }
    Err(StoreError::Version {
        path: path.to_path_buf(),
        found: format!("\"{}\"", found.trim_ascii().escape_ascii()),
        supported: format!("\"{}\"", FORMAT.trim_end()),
    })
}

/// The FORMAT file is written last, so a folder without it was never used, unless the file was
/// deleted.
fn data_without_format(path: &Path, trees: &[Tree; 4], log_folder: &Path) -> Option<PathBuf> {
    for (space, tree) in Space::ALL.iter().zip(trees) {
        if tree.table_count() > 0 {
            return Some(path.join(space.name()));
        }
    }
    let segments = std::fs::read_dir(log_folder).ok()?.flatten().map(|entry| entry.path());
    segments.into_iter().find(|file| {
        file.extension().is_some_and(|extension| extension == "log")
            && std::fs::read(file)
                .is_ok_and(|bytes| matches!(SegmentHeader::decode(&bytes), HeaderState::Valid(_)))
    })
}

fn write_format(path: &Path) -> Result<()> {
    let (file, temporary) = (path.join("FORMAT"), path.join("FORMAT.new"));
    let write = || {
        let mut opened = private::create_file(&temporary)?;
        opened.write_all(FORMAT.as_bytes())?;
        opened.sync_all()?;
        std::fs::rename(&temporary, &file)?;
        sync_folder(path)
    };
    write().map_err(|error| StoreError::io("write", &file, &error))
}

/// One replay of the whole log.
struct Replay<'a> {
    trees: &'a [Tree; 4],
    dropped: &'a DroppedRanges,
    options: &'a Options,
    /// The last commit that each tree has in tables.
    persisted: [Seqno; 4],
    memtables: [Arc<Memtable>; 4],
    bytes: u64,
    /// Bytes that were removed from the memtables again: values that patches replaced.
    removed_bytes: u64,
    last: Seqno,
    /// How many records had to be applied, because they are in no table yet, and their bytes.
    replayed: (u64, u64),
}

/// A segment file in the log folder, with its header.
struct SegmentFile {
    generation: u64,
    path: PathBuf,
    header: SegmentHeader,
}

impl<'a> Replay<'a> {
    fn new(trees: &'a [Tree; 4], dropped: &'a DroppedRanges, options: &'a Options) -> Replay<'a> {
        Replay {
            trees,
            dropped,
            options,
            persisted: trees.each_ref().map(|tree| tree.get_highest_persisted_seqno().unwrap_or(0)),
            memtables: trees.each_ref().map(|tree| tree.active_memtable()),
            bytes: 0,
            removed_bytes: 0,
            last: 0,
            replayed: (0, 0),
        }
    }

    fn run(&mut self, pool: &Pool) -> Result<Recovered> {
        let noted = ReleaseNote::read(pool.folder())?;
        let released = noted.generation;
        let found = self.find_segments(pool, released)?;
        if let Some(newest) = noted.newest.filter(|newest| *newest >= released)
            && found.last().is_none_or(|last| last.generation < newest)
        {
            let what = "the log segment is missing".to_string();
            return Err(StoreError::Corrupt { file: pool.path(newest), offset: None, what });
        }
        let mut segments = Vec::new();
        let mut previous_end = 0;
        for (index, segment) in found.iter().enumerate() {
            let known_end = found.get(index + 1).map(|next| next.header.previous_end);
            let file = std::fs::read(&segment.path)
                .map_err(|error| StoreError::io("read", &segment.path, &error))?;
            let end = self.replay_segment(segment, &file, known_end)?;
            previous_end = end;
            if !self.options.read_only {
                segments.push(self.keep(pool, segment, file.len() as u64, end)?);
                self.flush_if_large()?;
            }
        }
        Ok(Recovered {
            segments,
            next_generation: found.last().map_or(released, |last| last.generation + 1),
            previous_end,
            last: self.last,
        })
    }

    /// Logs what was recovered. After a clean end there is nothing.
    fn report(&self, took: Duration) {
        let (records, bytes) = self.replayed;
        if records > 0 {
            let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(records, bytes, duration_ms, "recovered: replayed the write-ahead log");
        }
    }

    /// Finds the segments whose records are still needed, oldest first. Recycles the others.
    fn find_segments(&self, pool: &Pool, released: u64) -> Result<Vec<SegmentFile>> {
        let folder = pool.folder();
        let failed = |error| StoreError::io("read", folder, &error);
        let mut generations = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(generation) = Pool::generation(name) {
                if generation < released {
                    self.recycle(pool, &path);
                } else {
                    generations.insert(generation, path);
                }
            } else if Pool::is_spare(name) {
                self.recycle(pool, &path);
            }
        }
        let mut found: Vec<SegmentFile> = Vec::new();
        let mut unwritten: Option<PathBuf> = None;
        for (expected, (generation, path)) in (released..).zip(generations) {
            if generation != expected {
                return Err(StoreError::Corrupt {
                    file: pool.path(expected),
                    offset: None,
                    what: "the log segment is missing".to_string(),
                });
            }
            match read_header(&path)? {
                HeaderState::Valid(header) if header.generation == generation => {
                    if let Some(gap) = unwritten {
                        let what = "its header is not there, but later segments are".to_string();
                        return Err(StoreError::Corrupt { file: gap, offset: Some(0), what });
                    }
                    found.push(SegmentFile { generation, path, header });
                }
                // Prepared, but nothing was flushed to it under this name.
                HeaderState::Valid(_) | HeaderState::Blank => {
                    self.recycle(pool, &path);
                    unwritten.get_or_insert(path);
                }
                HeaderState::Invalid => {
                    let what = "the checksum of its header does not match".to_string();
                    return Err(StoreError::Corrupt { file: path, offset: Some(0), what });
                }
            }
        }
        Ok(found)
    }

    fn recycle(&self, pool: &Pool, path: &Path) {
        if self.options.read_only {
            return;
        }
        if let Err(error) = pool.adopt_spare(path) {
            tracing::warn!("cannot reuse {}: {error}", path.display());
        }
    }

    /// Applies the records of a segment; returns where they end.
    fn replay_segment(
        &mut self,
        segment: &SegmentFile,
        file: &[u8],
        known_end: Option<u64>,
    ) -> Result<u64> {
        let salt = segment.header.salt;
        let corrupt = |offset: u64, what: &str| StoreError::Corrupt {
            file: segment.path.clone(),
            offset: Some(offset),
            what: what.to_string(),
        };
        let mut at = SEGMENT_HEADER as u64;
        loop {
            if known_end.is_some_and(|end| at >= end) {
                return Ok(at);
            }
            match decode_record(file, at, salt) {
                Some(record) => {
                    self.apply(&record).ok_or_else(|| corrupt(at, "a record makes no sense"))?;
                    at = record.end;
                }
                None if known_end.is_some() || was_synced(file, at, salt) => {
                    return Err(corrupt(at, "a record that was on disk is not valid any more"));
                }
                None => return Ok(at),
            }
        }
    }

    fn apply(&mut self, record: &Record<'_>) -> Option<()> {
        self.last = self.last.max(record.seqno);
        match record.kind {
            kind @ (Kind::Batch | Kind::PackedBatch) => {
                let (trees, persisted) = (self.trees, self.persisted);
                let mut lacks_base = false;
                let mut replaced: Vec<(Space, Bytes, Seqno)> = Vec::new();
                let base = |space: Space, key: &[u8], seqno: Seqno| {
                    if record.seqno <= persisted[space.index()] {
                        return None;
                    }
                    let found = trees[space.index()].get_internal_entry(key, seqno + 1);
                    let found = found.ok().flatten().filter(|found| found.key.seqno == seqno);
                    lacks_base |= found.is_none();
                    replaced.push((space, Bytes::copy_from(key), seqno));
                    found.map(|found| Bytes::from_tree(found.value))
                };
                let mut is_new = false;
                decode_batch(kind, record.payload, base, |operation| {
                    if record.seqno > persisted[operation.space.index()] {
                        is_new = true;
                        self.bytes += insert(&self.memtables, &operation, record.seqno);
                    }
                })?;
                if is_new {
                    self.replayed.0 += 1;
                    self.replayed.1 += record.payload.len() as u64;
                }
                // No reader needs them, and memory is not to be filled with them.
                for (space, key, seqno) in replaced {
                    let entry = InternalValue::new_tombstone(key.to_tree(), seqno);
                    let removed = self.memtables[space.index()].items.remove(&entry.key);
                    let bytes = removed.map_or(0, |removed| key.len() + removed.value().len());
                    self.bytes = self.bytes.saturating_sub(bytes as u64);
                    self.removed_bytes += bytes as u64;
                    free_removed();
                }
                (!lacks_base).then_some(())
            }
            Kind::DeleteRange => {
                let (space, from, to) = decode_range(&mut &*record.payload)?;
                self.dropped.add(DroppedRange { space, from, to });
                Some(())
            }
        }
    }

    /// Keeps a segment until its records are in tables. Flushes it now: bytes that a killed
    /// process left in the page cache count as durable from here on.
    fn keep(&self, pool: &Pool, found: &SegmentFile, size: u64, end: u64) -> Result<Arc<Segment>> {
        let failed = |error| StoreError::io("open", &found.path, &error);
        let file = LogFile::open(&found.path, pool.device().cloned()).map_err(failed)?;
        file.sync().map_err(failed)?;
        Ok(Arc::new(Segment {
            file,
            generation: found.generation,
            salt: found.header.salt,
            size,
            synced: AtomicU64::new(end),
            end: AtomicU64::new(end),
            is_listed: Arc::new(AtomicBool::new(true)),
        }))
    }

    /// Flushes memtables if they are large: a long log must not be held in memory as a whole.
    fn flush_if_large(&mut self) -> Result<()> {
        // On a full disk everything stays in memory; it is not larger than the log.
        let has_room = || free_bytes(&self.trees[0].tree_config().path) > self.bytes * 2;
        if self.bytes <= self.options.memtable_bytes || !has_room() {
            return Ok(());
        }
        for (tree, memtable) in self.trees.iter().zip(&mut self.memtables) {
            tree.rotate_memtable();
            let lock = tree.get_flush_lock();
            // There are no readers yet, so neither older versions nor the memtable need to be
            // kept.
            tree.flush(&lock, u64::MAX).map_err(|error| tree_error(tree, &error))?;
            *memtable = tree.active_memtable();
        }
        (self.bytes, self.removed_bytes) = (0, 0);
        Ok(())
    }
}

fn read_header(path: &Path) -> Result<HeaderState> {
    use std::os::unix::fs::FileExt;

    let failed = |error| StoreError::io("read", path, &error);
    let file = File::open(path).map_err(failed)?;
    let mut header = [0; SEGMENT_HEADER];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => Ok(SegmentHeader::decode(&header)),
        // Truncated before its space was reserved.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(HeaderState::Blank),
        Err(error) => Err(failed(error)),
    }
}
