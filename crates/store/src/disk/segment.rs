//! Files of log segments: created ahead of need and recycled after use. Also the note that says
//! which of them are still needed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::file::{LogFile, sync_folder};
use super::record::u64_at;
use super::reserve::Reserve;
use crate::error::is_full;
use crate::private;
use crate::{Damage, LogDevice, Result, StoreError};

/// The first segment of a folder is small, because creating it delays the opening. So are all
/// segments while space is scarce.
const SMALL_BYTES: u64 = 1 << 20;
/// On a full disk it is as small as this.
const LEAST_BYTES: u64 = 64 << 10;
/// The minimum number of spare segments.
const MIN_SPARES: u64 = 3;
/// The release note has the same entry twice, written one after the other, so that one is always
/// intact.
const SLOT: usize = 512;
/// Offset, after the two entries, of the newest segment that was written to. It is not flushed
/// separately, so it may name an older segment; that segment must exist.
const NEWEST: usize = 2 * SLOT;
const NOTE: &str = "RELEASED";

/// One file of the log that is or was written to.
pub(super) struct Segment {
    pub(super) file: LogFile,
    pub(super) generation: u64,
    pub(super) salt: u64,
    pub(super) size: u64,
    /// All bytes before this offset are on disk.
    pub(super) synced: AtomicU64,
    /// The end of its records; set when the next segment begins.
    pub(super) end: AtomicU64,
    /// Whether its name is on disk.
    pub(super) is_listed: Arc<AtomicBool>,
}

/// A file for a segment.
pub(super) struct SegmentFile {
    pub(super) file: LogFile,
    pub(super) size: u64,
    /// Whether its name is on disk.
    pub(super) is_listed: Arc<AtomicBool>,
}

/// The file of the next segment under its name, so that beginning it needs no change of the folder:
/// flushing that may wait for everything that the file system has to write.
#[derive(Default)]
struct Prepared {
    /// The last generation that was taken.
    taken: u64,
    next: Option<(u64, SegmentFile)>,
}

/// The folder of segments.
pub(super) struct Pool {
    folder: PathBuf,
    segment_bytes: u64,
    /// The most spare segments that are kept; others are removed.
    spares_max: usize,
    device: Option<Arc<dyn LogDevice>>,
    spares: Mutex<Vec<PathBuf>>,
    next_spare: AtomicU64,
    prepared: Mutex<Prepared>,
    /// Released if there is no room for the first segment; tells how much space is free.
    reserve: Option<Arc<Reserve>>,
}

impl Pool {
    /// The segments of a folder. About `released_bytes` of them are released at once and needed
    /// again soon; they are recycled, because filling new ones with zeros is a large part of the
    /// cost of writing.
    pub(super) fn new(
        folder: &Path,
        segment_bytes: u64,
        released_bytes: u64,
        device: Option<Arc<dyn LogDevice>>,
    ) -> Pool {
        let spares_max = (released_bytes / segment_bytes.max(1)).clamp(MIN_SPARES, 64) as usize;
        Pool {
            folder: folder.to_path_buf(),
            segment_bytes,
            spares_max,
            device,
            spares: Mutex::default(),
            next_spare: AtomicU64::new(0),
            prepared: Mutex::default(),
            reserve: None,
        }
    }

    /// Lets the first segment use the reserve.
    pub(super) fn with_reserve(mut self, reserve: Arc<Reserve>) -> Pool {
        self.reserve = Some(reserve);
        self
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn device(&self) -> Option<&Arc<dyn LogDevice>> {
        self.device.as_ref()
    }

    /// The file of a generation.
    pub(super) fn path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("{generation:012}.log"))
    }

    /// The generation of a segment's file name.
    pub(super) fn generation(name: &str) -> Option<u64> {
        name.strip_suffix(".log")?.parse().ok()
    }

    /// Whether a file name is that of a spare segment.
    pub(super) fn is_spare(name: &str) -> bool {
        name.strip_prefix("spare-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Returns a file for `generation` with room for `bytes`: the prepared one or a spare one if it
    /// fits, otherwise a new one. With `first`, a small file is acceptable.
    pub(super) fn take(&self, generation: u64, bytes: u64, first: bool) -> io::Result<SegmentFile> {
        // Held until the end: meanwhile nothing is prepared under this name.
        let mut prepared = self.prepared.lock();
        let next = prepared.next.take().filter(|(next, _)| *next == generation);
        if let Some((_, file)) = next {
            if bytes <= file.size {
                prepared.taken = generation;
                return Ok(file);
            }
            self.give_back(file.file.path(), file.size)?;
        }
        let (file, size) = self.make(generation, bytes, first)?;
        prepared.taken = generation;
        Ok(SegmentFile { file, size, is_listed: Arc::default() })
    }

    fn make(&self, generation: u64, bytes: u64, first: bool) -> io::Result<(LogFile, u64)> {
        let path = self.path(generation);
        if bytes <= self.segment_bytes
            && let Some(file) = self.take_spare(&path)?
        {
            return Ok((file, self.segment_bytes));
        }
        let size = match first || self.is_scarce() {
            true => SMALL_BYTES.min(self.segment_bytes).max(bytes),
            false => self.segment_bytes.max(bytes),
        };
        let create = |size| LogFile::create(&path, size, first, self.device.clone());
        match create(size) {
            Err(error) if first && is_full(&error) => {
                let released = self.reserve.as_ref().is_some_and(|reserve| reserve.release());
                let size = if released { size } else { LEAST_BYTES.max(bytes) };
                Ok((create(size)?, size))
            }
            made => Ok((made?, size)),
        }
    }

    /// Gives a spare segment this name; `None` if there is none.
    fn take_spare(&self, path: &Path) -> io::Result<Option<LogFile>> {
        let Some(spare) = self.spares.lock().pop() else { return Ok(None) };
        std::fs::rename(&spare, path)?;
        LogFile::open(path, self.device.clone()).map(Some)
    }

    /// Prepares the file of the segment after the last one, of a spare segment if there is one.
    /// Slow; called by a background thread.
    pub(super) fn prepare(&self) -> io::Result<()> {
        let is_listed: Arc<AtomicBool> = Arc::default();
        {
            let mut prepared = self.prepared.lock();
            if prepared.next.is_some() || self.is_scarce() {
                return Ok(());
            }
            let generation = prepared.taken + 1;
            let Some(file) = self.take_spare(&self.path(generation))? else { return Ok(()) };
            let (size, is_listed) = (self.segment_bytes, is_listed.clone());
            prepared.next = Some((generation, SegmentFile { file, size, is_listed }));
        }
        sync_folder(&self.folder)?;
        is_listed.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes the prepared segment a spare one again: the store closes. After a crash it keeps its
    /// name, and recovery finds that nothing was written to it.
    pub(super) fn put_prepared_back(&self) -> io::Result<()> {
        if self.device.as_ref().is_some_and(|device| device.has_failed()) {
            return Ok(());
        }
        match self.prepared.lock().next.take() {
            Some((_, next)) => self.give_back(next.file.path(), next.size),
            None => Ok(()),
        }
    }

    /// Creates one spare segment if there is none, not even a prepared one. Slow; called by a background thread.
    pub(super) fn refill(&self) -> io::Result<()> {
        // On a full disk the space is for tables.
        if self.spare_bytes() > 0 || self.is_scarce() {
            return Ok(());
        }
        let path = self.next_spare_path();
        LogFile::create(&path, self.segment_bytes, true, self.device.clone())?;
        self.spares.lock().push(path);
        Ok(())
    }

    /// Takes back a segment that is no longer needed: recycles it if it has the usual size,
    /// removes it otherwise.
    pub(super) fn give_back(&self, path: &Path, size: u64) -> io::Result<()> {
        let most = match &self.reserve {
            Some(reserve) if reserve.is_released() => 0,
            Some(reserve) if reserve.is_scarce() => 1,
            _ => self.spares_max,
        };
        self.recycle(path, size, most)
    }

    /// Makes a segment a spare one if there are not `most` yet, or removes it.
    fn recycle(&self, path: &Path, size: u64, most: usize) -> io::Result<()> {
        if size == self.segment_bytes && self.spares.lock().len() < most {
            let spare = self.next_spare_path();
            std::fs::rename(path, &spare)?;
            self.spares.lock().push(spare);
            Ok(())
        } else {
            std::fs::remove_file(path)
        }
    }

    /// Removes all spare segments, to make room for tables. Commits that free space find room for
    /// a small segment in the reserve.
    pub(super) fn remove_spares(&self) -> io::Result<()> {
        let prepared = self.prepared.lock().next.take();
        let spares = std::mem::take(&mut *self.spares.lock());
        let prepared = prepared.iter().map(|(_, next)| next.file.path());
        let spares = spares.iter().map(PathBuf::as_path);
        prepared.chain(spares).try_for_each(std::fs::remove_file)
    }

    fn is_scarce(&self) -> bool {
        self.reserve.as_ref().is_some_and(|reserve| reserve.is_scarce())
    }

    /// Takes over a spare segment of an earlier process. One is needed soon, also on a full disk.
    pub(super) fn adopt_spare(&self, path: &Path) -> io::Result<()> {
        let size = path.metadata()?.len();
        let most = if self.is_scarce() { 1 } else { self.spares_max };
        self.recycle(path, size, most)
    }

    pub(super) fn spare_bytes(&self) -> u64 {
        let prepared = usize::from(self.prepared.lock().next.is_some());
        (self.spares.lock().len() + prepared) as u64 * self.segment_bytes
    }

    fn next_spare_path(&self) -> PathBuf {
        loop {
            let number = self.next_spare.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!("spare-{number}"));
            if !path.exists() {
                return path;
            }
        }
    }
}

/// A durable note of the oldest segment that is still needed. It is written in place, because
/// segments must be released even when the disk is full.
pub(super) struct ReleaseNote {
    file: Arc<LogFile>,
    turn: u64,
    generation: u64,
}

impl ReleaseNote {
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join(NOTE)
    }

    pub(super) fn create(folder: &Path, generation: u64) -> Result<()> {
        let path = ReleaseNote::path(folder);
        let failed = |error: io::Error| StoreError::io("write", &path, &error);
        let mut bytes = vec![0; SLOT * 2];
        for at in [0, SLOT] {
            bytes[at..at + 32].copy_from_slice(&encode_slot(1, generation));
        }
        let written = private::create_file(&path).and_then(|mut file| file.write_all(&bytes));
        written.map_err(failed)?;
        LogFile::open(&path, None).and_then(|file| file.sync()).map_err(failed)?;
        sync_folder(folder).map_err(failed)
    }

    pub(super) fn read(folder: &Path) -> Result<Noted> {
        let path = ReleaseNote::path(folder);
        let bytes = std::fs::read(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                let what = "the file is missing".to_string();
                StoreError::Corrupt { file: path.clone(), offset: None, what }
            } else {
                StoreError::io("read", &path, &error)
            }
        })?;
        let slots = [0, SLOT].map(|at| bytes.get(at..at + 32).and_then(decode_slot));
        let newest = slots.into_iter().flatten().max();
        let (turn, generation) = newest.ok_or_else(|| StoreError::Corrupt {
            file: path.clone(),
            offset: Some(0),
            what: "neither of its two entries is whole".to_string(),
        })?;
        // All zeros means reserved and never flushed.
        let newest = bytes.get(NEWEST..NEWEST + 32).filter(|slot| slot.iter().any(|b| *b != 0));
        let newest = newest.map(decode_slot);
        let damaged = match newest {
            Some(None) => Some(2),
            _ => slots.iter().position(Option::is_none),
        };
        let newest = newest.flatten().map(|(_, newest)| newest);
        Ok(Noted { generation, turn, newest, damaged })
    }

    /// Checks for damage of one entry, which is harmless while the other is intact.
    pub(super) fn check(folder: &Path) -> Result<Option<Damage>> {
        let noted = ReleaseNote::read(folder)?;
        Ok(noted.damaged.map(|slot| Damage {
            file: ReleaseNote::path(folder),
            offset: Some((slot * SLOT) as u64),
            what: "one of its entries is not whole".to_string(),
        }))
    }

    pub(super) fn open(folder: &Path, device: Option<Arc<dyn LogDevice>>) -> Result<ReleaseNote> {
        let Noted { generation, turn, .. } = ReleaseNote::read(folder)?;
        let path = ReleaseNote::path(folder);
        let file =
            LogFile::open(&path, device).map_err(|error| StoreError::io("open", &path, &error))?;
        Ok(ReleaseNote { file: Arc::new(file), turn, generation })
    }

    /// The part of the note about the newest segment.
    pub(super) fn newest(&self) -> NewestNote {
        NewestNote(self.file.clone())
    }

    /// Records that segments before `generation` are not needed.
    pub(super) fn advance(&mut self, generation: u64) -> Result<()> {
        if generation <= self.generation {
            return Ok(());
        }
        let turn = self.turn + 1;
        for at in [0, SLOT as u64] {
            self.file
                .write(&encode_slot(turn, generation), at)
                .and_then(|()| self.file.sync())
                .map_err(|error| StoreError::io("write", self.file.path(), &error))?;
        }
        self.turn = turn;
        self.generation = generation;
        Ok(())
    }
}

/// The part of the note that names the newest segment. It is written without waiting for the rest.
pub(super) struct NewestNote(Arc<LogFile>);

impl NewestNote {
    /// Records that a segment was written to, so that its loss can be detected.
    pub(super) fn write(&self, generation: u64) -> io::Result<()> {
        self.0.write(&encode_slot(0, generation), NEWEST as u64)
    }
}

/// The content of the note.
pub(super) struct Noted {
    /// The oldest segment that is needed.
    pub(super) generation: u64,
    turn: u64,
    /// A segment that was written to; `None` in folders of older versions.
    pub(super) newest: Option<u64>,
    /// The index of the damaged entry, if any.
    damaged: Option<usize>,
}

fn encode_slot(turn: u64, generation: u64) -> [u8; 32] {
    let mut slot = [0; 32];
    slot[..8].copy_from_slice(&turn.to_le_bytes());
    slot[8..16].copy_from_slice(&generation.to_le_bytes());
    let crc = crc32c::crc32c(&slot[..16]);
    slot[16..20].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode_slot(slot: &[u8]) -> Option<(u64, u64)> {
    let crc = crc32c::crc32c(slot.get(..16)?);
    (slot.get(16..20)? == crc.to_le_bytes()).then(|| (u64_at(slot, 0), u64_at(slot, 8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_note_survives_damage_of_one_entry() {
        let folder = tempfile::tempdir().unwrap();
        ReleaseNote::create(folder.path(), 1).unwrap();
        let mut note = ReleaseNote::open(folder.path(), None).unwrap();
        note.advance(4).unwrap();
        note.advance(9).unwrap();
        assert_eq!(ReleaseNote::read(folder.path()).unwrap().generation, 9);
        assert_eq!(ReleaseNote::check(folder.path()).unwrap(), None);
        let path = ReleaseNote::path(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(ReleaseNote::read(folder.path()).unwrap().generation, 9);
        assert_eq!(ReleaseNote::check(folder.path()).unwrap().unwrap().offset, Some(0));
        bytes[SLOT] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(ReleaseNote::read(folder.path()), Err(StoreError::Corrupt { .. })));
    }

    #[test]
    fn segments_are_recycled_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::new(folder.path(), 4096, 0, None);
        for generation in 1..=5 {
            let taken = pool.take(generation, 100, false).unwrap();
            assert_eq!(taken.size, 4096);
        }
        for generation in 1..=5 {
            pool.give_back(&pool.path(generation), 4096).unwrap();
        }
        assert_eq!(pool.spare_bytes(), 4096 * MIN_SPARES);
        let roomy = Pool::new(folder.path(), 4096, 20_000, None);
        assert_eq!((pool.spares_max as u64, roomy.spares_max), (MIN_SPARES, 4));
        let big = pool.take(6, 10_000, false).unwrap();
        assert_eq!((big.size, big.file.path()), (10_000, &*pool.path(6)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count() as u64, MIN_SPARES + 1);
    }

    #[test]
    fn the_next_segment_is_prepared_under_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::new(folder.path(), 4096, 0, None);
        let first = pool.take(1, 100, true).unwrap();
        assert!(!first.is_listed.load(Ordering::Acquire));
        pool.prepare().unwrap();
        assert!(!pool.path(2).exists(), "there is no spare segment");
        for generation in 2..5 {
            pool.refill().unwrap();
            pool.prepare().unwrap();
            pool.prepare().unwrap();
            assert!(pool.path(generation).exists() && !pool.path(generation + 1).exists());
            assert_eq!(pool.spare_bytes(), 4096);
            let taken = pool.take(generation, 100, false).unwrap();
            assert!(taken.is_listed.load(Ordering::Acquire));
            assert_eq!((taken.size, taken.file.path()), (4096, &*pool.path(generation)));
        }
        // What is too small stays a spare segment.
        pool.refill().unwrap();
        pool.prepare().unwrap();
        let large = pool.take(5, 10_000, false).unwrap();
        assert_eq!((large.size, pool.spare_bytes()), (10_000, 4096));
        assert_eq!(pool.path(5).metadata().unwrap().len(), 10_000);
        pool.prepare().unwrap();
        pool.remove_spares().unwrap();
        assert!(!pool.path(6).exists() && pool.spare_bytes() == 0);
    }
}
