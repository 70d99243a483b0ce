//! Reserved space for a full disk: a file that is removed then, so that the folder can be opened
//! and operations that free space (drops, deletes) can be logged and run. Until the file is
//! restored, all other writes are refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::file::{LogDevice, LogFile};
use crate::{Batch, Space};

const FILE: &str = "RESERVE";
/// While the reserve is in use, every batch above this size is refused.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How often restoring the reserve is tried.
const RESTORE_INTERVAL: Duration = Duration::from_millis(100);

/// The reserve file and its state.
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    device: Option<Arc<dyn LogDevice>>,
    /// Whether its space is in use.
    released: AtomicBool,
    file: Mutex<FileState>,
}

struct FileState {
    is_there: bool,
    last_try: Option<Instant>,
}

impl Reserve {
    /// The reserve of a folder. [`Reserve::restore`] creates the file if it does not exist.
    pub(super) fn open(folder: &Path, bytes: u64, device: Option<Arc<dyn LogDevice>>) -> Reserve {
        let path = folder.join(FILE);
        let is_there = path.metadata().is_ok_and(|file| file.len() == bytes);
        let file = Mutex::new(FileState { is_there, last_try: None });
        Reserve { path, bytes, device, released: AtomicBool::new(false), file }
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
        tracing::warn!(
            bytes = self.bytes,
            "the disk is full and the reserve file was removed; until it can be created again only operations that free space are allowed"
        );
        self.released.store(true, Ordering::Release);
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the reserve could not be removed");
        }
        if let Some(device) = &self.device {
            device.release_reserve();
        }
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
        if self.device.as_ref().is_some_and(|device| !device.has_room())
            || free_bytes(&self.path) < self.bytes.saturating_mul(2)
            || LogFile::create(&self.path, self.bytes, false, self.device.clone()).is_err()
        {
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
