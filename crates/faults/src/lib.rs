//! A store on a disk that fails on command, for tests: a write fails or is torn, a flush fails,
//! bytes that were never flushed are gone after a loss of power, a disk has no room, blocks of
//! tables are damaged ([`damage_table`], [`damage_a_table`]), writing or merging tables takes long,
//! stands still or fails ([`FaultPlan::flushes`], [`FaultPlan::merges`]).
//!
//! Only the write-ahead log goes through this layer ([`store::LogDevice`]). The trees flush every
//! file before they refer to it, so what a crash can lose is in the log.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use store::{
    Admission, Batch, Damage, DiskStore, Load, LogDevice, Options, Result, Seqno, Snapshot,
    SnapshotLimits, Space, Stats, Store,
};

/// Disks write sectors of this size whole or not at all.
const SECTOR: u64 = 512;
/// So many requests for log space fit into the reserve.
const RESERVED: u64 = 2;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The nth write of the log fails and stores nothing.
    FailWrite,
    /// Power goes during the nth write: a part of it is stored, earlier unflushed writes are lost.
    TearWrite,
    /// Power goes during the nth write: its last sectors are stored, the first ones are not.
    ScatterWrite,
    /// The nth flush of the log fails.
    FailSync,
    /// Power goes before the nth flush: nothing since the flush before it is stored.
    ForgetBeforeSync,
    /// Power goes after the nth flush, before anyone hears of it.
    StopAfterSync,
    /// From the nth request for log space on there is no room, neither for the log nor, unless the
    /// reserve was released, for tables, until [`FaultPlan::make_room`].
    NoSpace,
}

/// When something goes wrong, and whether it has. Shared by the store and the test.
#[derive(Debug)]
pub struct FaultPlan {
    fault: Fault,
    nth: u64,
    state: Mutex<DiskState>,
    merges: Background,
    flushes: Background,
}

/// What happens to one kind of background work, and how much of it was done.
#[derive(Debug, Default)]
struct Background {
    what: Mutex<BackgroundWork>,
    changed: Condvar,
    entries: AtomicU64,
}

/// What happens to merges of tables, or to flushes of memory to tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackgroundWork {
    /// Nothing.
    #[default]
    Run,
    /// They stand still until this is changed.
    Hold,
    /// Each entry takes this long.
    Slow(Duration),
    /// They fail at their next entry.
    Fail,
    /// They fail at their next entry, for want of room.
    Full,
}

#[derive(Debug, Default)]
struct DiskState {
    writes: u64,
    syncs: u64,
    allocations: u64,
    power_lost: bool,
    fired: bool,
    has_room: bool,
    /// Requests for log space that the reserve has room for.
    reserved: u64,
    /// Whether the reserve was released; tables fit into it.
    released: bool,
    /// What unflushed writes have overwritten, by file, in the order of the writes.
    unsynced: HashMap<PathBuf, Vec<(u64, Vec<u8>)>>,
}

impl FaultPlan {
    /// `fault` happens at the `nth` occasion, counted from 0.
    pub fn new(fault: Fault, nth: u64) -> Arc<FaultPlan> {
        Arc::new(FaultPlan {
            fault,
            nth,
            state: Mutex::default(),
            merges: Background::default(),
            flushes: Background::default(),
        })
    }

    /// A plan in which nothing goes wrong by itself; see [`FaultPlan::lose_power`].
    pub fn none() -> Arc<FaultPlan> {
        FaultPlan::new(Fault::FailWrite, u64::MAX)
    }

    /// Whether the fault has happened.
    pub fn fired(&self) -> bool {
        self.state.lock().fired
    }

    /// How many writes and flushes of the log there were.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.writes, state.syncs)
    }

    /// Power goes now: what was not flushed is lost.
    pub fn lose_power(&self) {
        let mut state = self.state.lock();
        if !state.power_lost {
            state.lose_power();
        }
    }

    /// Sets what happens to merges from now on.
    pub fn merges(&self, merges: BackgroundWork) {
        self.merges.set(merges);
    }

    /// Sets what happens to flushes of memory to tables from now on.
    pub fn flushes(&self, flushes: BackgroundWork) {
        self.flushes.set(flushes);
    }

    /// How many entries were flushed, or were about to be.
    pub fn flushed_entries(&self) -> u64 {
        self.flushes.entries.load(Ordering::Relaxed)
    }

    /// How many entries were merged, or were about to be.
    pub fn merged_entries(&self) -> u64 {
        self.merges.entries.load(Ordering::Relaxed)
    }

    /// Ends [`Fault::NoSpace`].
    pub fn make_room(&self) {
        self.state.lock().has_room = true;
    }
}

impl LogDevice for FaultPlan {
    fn has_room(&self) -> bool {
        let state = self.state.lock();
        self.fault != Fault::NoSpace || state.allocations < self.nth || state.has_room
    }

    fn release_reserve(&self) {
        let mut state = self.state.lock();
        state.reserved += RESERVED;
        state.released = true;
    }

    fn flush_tables(&self) -> io::Result<()> {
        if self.has_room() || self.state.lock().released {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn merge_entry(&self) -> io::Result<()> {
        self.merges.entry()
    }

    fn flush_entry(&self) -> io::Result<()> {
        self.flushes.entry()
    }

    fn has_failed(&self) -> bool {
        self.state.lock().power_lost
    }

    fn allocate(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.check_power()?;
        let number = state.allocations;
        state.allocations += 1;
        if self.fault == Fault::NoSpace && number >= self.nth && !state.has_room {
            if state.reserved > 0 {
                state.reserved -= 1;
                return Ok(());
            }
            state.fired = true;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    fn write(&self, file: &File, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.check_power()?;
        let number = state.writes;
        state.writes += 1;
        let fires = number == self.nth;
        match self.fault {
            Fault::FailWrite if fires => {
                state.fired = true;
                return Err(io::Error::other("injected write failure"));
            }
            Fault::TearWrite if fires => {
                state.lose_power();
                // Up to a sector boundary in the middle.
                let middle = (at + bytes.len() as u64 / 2) / SECTOR * SECTOR;
                let stored = middle.saturating_sub(at) as usize;
                file.write_all_at(&bytes[..stored.min(bytes.len())], at)?;
                return Err(power_is_gone());
            }
            Fault::ScatterWrite if fires => {
                state.lose_power();
                let middle = (at + bytes.len() as u64 / 2).div_ceil(SECTOR) * SECTOR;
                let skipped = (middle.saturating_sub(at) as usize).min(bytes.len());
                file.write_all_at(&bytes[skipped..], at + skipped as u64)?;
                return Err(power_is_gone());
            }
            _ => {}
        }
        let mut before = vec![0; bytes.len()];
        let mut filled = 0;
        while filled < before.len() {
            match file.read_at(&mut before[filled..], at + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        state.unsynced.entry(path.to_path_buf()).or_default().push((at, before));
        file.write_all_at(bytes, at)
    }

    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.check_power()?;
        let number = state.syncs;
        state.syncs += 1;
        let fires = number == self.nth;
        match self.fault {
            Fault::FailSync if fires => {
                state.fired = true;
                return Err(io::Error::other("injected flush failure"));
            }
            Fault::ForgetBeforeSync if fires => {
                state.lose_power();
                return Err(power_is_gone());
            }
            _ => {}
        }
        file.sync_data()?;
        state.unsynced.remove(path);
        if self.fault == Fault::StopAfterSync && fires {
            state.lose_power();
            return Err(power_is_gone());
        }
        Ok(())
    }
}

impl Background {
    fn set(&self, what: BackgroundWork) {
        *self.what.lock() = what;
        self.changed.notify_all();
    }

    /// Called for each entry.
    fn entry(&self) -> io::Result<()> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        let mut what = self.what.lock();
        while *what == BackgroundWork::Hold {
            self.changed.wait(&mut what);
        }
        match *what {
            BackgroundWork::Run | BackgroundWork::Hold => Ok(()),
            BackgroundWork::Slow(time) => {
                drop(what);
                std::thread::sleep(time);
                Ok(())
            }
            BackgroundWork::Fail => Err(io::Error::other("injected failure")),
            BackgroundWork::Full => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }
}

impl DiskState {
    fn check_power(&self) -> io::Result<()> {
        if self.power_lost { Err(power_is_gone()) } else { Ok(()) }
    }

    fn lose_power(&mut self) {
        self.power_lost = true;
        self.fired = true;
        for (path, writes) in self.unsynced.drain() {
            let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
            for (at, before) in writes.iter().rev() {
                file.write_all_at(before, *at).expect("a test can put old bytes back");
            }
        }
    }
}

fn power_is_gone() -> io::Error {
    io::Error::other("power is gone")
}

/// A disk store on a disk that follows a [`FaultPlan`].
pub struct FaultStore {
    store: DiskStore,
    plan: Arc<FaultPlan>,
}

impl FaultStore {
    /// Opens the folder on such a disk.
    pub fn open(path: impl AsRef<Path>, options: Options, plan: Arc<FaultPlan>) -> Result<Self> {
        let options = Options { log_device: Some(plan.clone()), ..options };
        Ok(FaultStore { store: DiskStore::open(path, options)?, plan })
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<FaultPlan> {
        &self.plan
    }

    /// Power goes now; the folder can then be opened again as after a crash.
    pub fn crash(self) {
        self.plan.lose_power();
    }
}

impl Store for FaultStore {
    fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    fn keep_since(&self, seqno: Option<Seqno>) {
        self.store.keep_since(seqno);
    }

    fn snapshot_at(&self, seqno: Seqno) -> Option<Snapshot> {
        self.store.snapshot_at(seqno)
    }

    fn write(&self, batch: &Batch) -> Result<Seqno> {
        self.store.write(batch)
    }

    fn write_while(&self, batch: &Batch, is_wanted: &dyn Fn() -> bool) -> Result<Seqno> {
        self.store.write_while(batch, is_wanted)
    }

    fn sync(&self, seqno: Seqno) -> Result<()> {
        self.store.sync(seqno)
    }

    fn make_room(&self) {
        self.store.make_room();
    }

    fn admit(&self, bytes: usize, is_wanted: &dyn Fn() -> bool) -> Option<Admission<'_>> {
        self.store.admit(bytes, is_wanted)
    }

    fn pace(&self, is_wanted: &dyn Fn() -> bool) {
        self.store.pace(is_wanted);
    }

    fn slow_merges(&self, entries_per_second: u32) {
        self.store.slow_merges(entries_per_second);
    }

    fn is_full(&self) -> bool {
        self.store.is_full()
    }

    fn delete_range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<()> {
        self.store.delete_range(space, from, to)
    }

    fn load(&self, space: Space, prefixes: &[[u8; 4]]) -> Result<Box<dyn Load>> {
        self.store.load(space, prefixes)
    }

    fn compact(&self, space: Space, is_wanted: &dyn Fn() -> bool) -> Result<u64> {
        self.store.compact(space, is_wanted)
    }

    fn checkpoint(&self) -> Result<()> {
        self.store.checkpoint()
    }

    fn freeze(&self, is_wanted: &dyn Fn() -> bool) -> Result<()> {
        self.store.freeze(is_wanted)
    }

    fn thaw(&self) {
        self.store.thaw();
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Damage>> {
        self.store.verify(progress)
    }

    fn approximate_range_bytes(&self, space: Space, from: &[u8], to: &[u8]) -> u64 {
        self.store.approximate_range_bytes(space, from, to)
    }

    fn snapshot_limits(&self) -> SnapshotLimits {
        self.store.snapshot_limits()
    }

    fn set_snapshot_limits(&self, limits: SnapshotLimits) -> bool {
        self.store.set_snapshot_limits(limits)
    }

    fn pinned_bytes(&self, seqno: Seqno) -> u64 {
        self.store.pinned_bytes(seqno)
    }

    fn close(&self) -> Result<()> {
        self.store.close()
    }
}

/// Damages a data block of the largest table of a space in a folder that no store has open for
/// writing to that table: a byte near its beginning is another one. Returns the file.
///
/// # Panics
/// When there is no table.
pub fn damage_table(folder: &Path, space: Space) -> PathBuf {
    let files = table_files(folder, space);
    let largest = files.into_iter().max_by_key(|file| size_of(file)).expect("a table");
    damage_byte(&largest, 100.min(size_of(&largest) / 2));
    largest
}

/// Damages a data block of one of the tables of a space in such a folder, somewhere in the first
/// third of the file, which holds data. `number` chooses the table and the byte. Returns the file.
/// Small tables, which hold little but what the tree needs for opening them, are left alone.
///
/// # Panics
/// When there is no table of 4 KiB.
pub fn damage_a_table(folder: &Path, space: Space, number: u64) -> PathBuf {
    let mut files = table_files(folder, space);
    files.retain(|file| size_of(file) >= 4096);
    files.sort();
    let file = files.swap_remove((number % files.len() as u64) as usize);
    damage_byte(&file, number / 7 % (size_of(&file) / 3));
    file
}

fn table_files(folder: &Path, space: Space) -> Vec<PathBuf> {
    let tables = std::fs::read_dir(folder.join(space.name()).join("tables")).expect("a folder");
    tables.flatten().map(|entry| entry.path()).collect()
}

fn size_of(file: &Path) -> u64 {
    file.metadata().map_or(0, |data| data.len())
}

/// Changes a byte in place: the store may have the file open.
fn damage_byte(file: &Path, at: u64) {
    let open = OpenOptions::new().read(true).write(true).open(file).expect("a writable file");
    let mut byte = [0];
    open.read_exact_at(&mut byte, at).expect("a readable file");
    open.write_all_at(&[byte[0] ^ 0x55], at).expect("a written byte");
}
