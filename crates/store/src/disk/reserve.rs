//! Reserved space for a full disk: a file that is removed then, so that the folder can be opened
//! and operations that free space (drops, deletes) can be logged and run. Until the file is
//! restored, all other writes are refused.
//!
//! Also what is known about free space. Where it is scarce, the store keeps less beside the data:
//! less unwritten memory, no spare log segments, no replaced tables for reading the past.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::file::{LogDevice, LogFile};
use super::work::LOG_AGAIN;
use crate::{Batch, Space};

pub(super) const FILE: &str = "RESERVE";
/// While the reserve is in use, every batch above this size is refused.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How often restoring the reserve is tried.
const RESTORE_INTERVAL: Duration = Duration::from_millis(100);
/// The reserve takes at most one part in this many of the disk.
const DISK_SHARE: u64 = 8;
/// Space is scarce if less than so many times the reserve is free.
const SCARCE: u64 = 4;

/// The reserve file and its state.
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    device: Option<Arc<dyn LogDevice>>,
    /// Whether its space is in use.
    released: AtomicBool,
    /// Free bytes on the disk when last looked at.
    free: AtomicU64,
    file: Mutex<FileState>,
}

struct FileState {
    is_there: bool,
    last_try: Option<Instant>,
    logged: Option<Instant>,
}

impl Reserve {
    /// The reserve of a folder. [`Reserve::restore`] creates the file if it does not exist. If
    /// there is no room for it, the disk counts as full from the beginning.
    pub(super) fn open(folder: &Path, bytes: u64, device: Option<Arc<dyn LogDevice>>) -> Reserve {
        let path = folder.join(FILE);
        let bytes = bytes.min(disk_bytes(&path) / DISK_SHARE);
        let is_there = match path.metadata() {
            Ok(file) if bytes > 0 && file.len() == bytes => true,
            Ok(_) => {
                // The setting has changed.
                if let Err(error) = std::fs::remove_file(&path) {
                    tracing::warn!(%error, "the reserve could not be removed");
                }
                false
            }
            Err(_) => false,
        };
        let file = Mutex::new(FileState { is_there, last_try: None, logged: None });
        let (released, free) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        let reserve = Reserve { path, bytes, device, released, free, file };
        let is_full = !is_there && reserve.measure_free() < bytes.saturating_mul(2);
        reserve.released.store(is_full, Ordering::Release);
        reserve
    }

    /// Looks how much space is free; returns the bytes.
    pub(super) fn measure_free(&self) -> u64 {
        let has_room = self.device.as_ref().is_none_or(|device| device.has_room());
        let free = if has_room { free_bytes(&self.path) } else { 0 };
        self.free.store(free, Ordering::Relaxed);
        free
    }

    /// Free bytes on the disk when last looked at.
    pub(super) fn free_bytes(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Whether so little space is free that everything but documents gives way. Never without a
    /// reserve.
    pub(super) fn is_scarce(&self) -> bool {
        self.is_released() || self.free_bytes() < self.bytes.saturating_mul(SCARCE)
    }

    /// Whether the reserve is in use: only operations that free space may be written.
    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Removes the file to free its space; false if there is none.
    pub(super) fn release(&self) -> bool {
        let mut file = self.file.lock();
        if !std::mem::replace(&mut file.is_there, false) {
            return false;
        }
        if file.logged.is_none_or(|time| time.elapsed() > LOG_AGAIN) {
            file.logged = Some(Instant::now());
            tracing::warn!(
                bytes = self.bytes,
                "the disk is full and the reserve file was removed; until it can be created again \
                 only operations that free space are allowed"
            );
        }
        self.released.store(true, Ordering::Release);
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the reserve could not be removed");
        }
        if let Some(device) = &self.device {
            device.release_reserve();
        }
        self.measure_free();
        true
    }

    /// Creates the file if it does not exist and there is room for twice its size. Returns whether
    /// it exists.
    pub(super) fn restore(&self) -> bool {
        let mut file = self.file.lock();
        if file.is_there || self.bytes == 0 {
            return true;
        }
        if file.last_try.is_some_and(|time| time.elapsed() < RESTORE_INTERVAL) {
            return false;
        }
        file.last_try = Some(Instant::now());
        if self.measure_free() < self.bytes.saturating_mul(2)
            || LogFile::create(&self.path, self.bytes, false, self.device.clone()).is_err()
        {
            // Without the file, the free space itself is the reserve.
            if self.free_bytes() < self.bytes {
                self.released.store(true, Ordering::Release);
            }
            return false;
        }
        file.is_there = true;
        self.released.store(false, Ordering::Release);
        true
    }
}

/// Free bytes on the disk of a file; `u64::MAX` if unknown.
pub(super) fn free_bytes(path: &Path) -> u64 {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// The size of the disk of a file; `u64::MAX` if unknown.
fn disk_bytes(path: &Path) -> u64 {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize))
}

/// Whether a batch deletes more documents than it writes, so that it may use the reserve.
pub(super) fn frees_space(batch: &Batch) -> bool {
    let (mut puts, mut deletes) = (0, 0);
    for operation in batch.operations() {
        match (operation.space, &operation.value) {
            (Space::Documents, Some(_)) => puts += 1,
            (Space::Documents, None) => deletes += 1,
            _ => {}
        }
    }
    batch.bytes() <= BATCH_BYTES_MAX && (puts == 0 || deletes >= puts)
}
