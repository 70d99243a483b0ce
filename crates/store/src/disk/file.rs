//! The files of the write-ahead log: written in place, flushed by `fdatasync`. Tests put a
//! `LogDevice` between the log and the files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::private;

/// Zeros are written in pieces of this size.
const PIECE: usize = 1 << 20;

/// Replaces writes to the log's files, so that tests can inject failures (crate `faults`). Without
/// a device the log writes to its files directly.
pub trait LogDevice: std::fmt::Debug + Send + Sync {
    /// Whether the device has failed permanently: from then on the store must not write anything,
    /// not even tables.
    fn has_failed(&self) -> bool;
    /// Called before space for a new log file is reserved; an error means that the disk is full.
    fn allocate(&self) -> io::Result<()>;
    /// Writes all `bytes` to `file` (at `path`), beginning `at` bytes from its start.
    fn write(&self, file: &File, path: &Path, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Called for each merged entry; it may block, and an error stops the merge.
    fn merge_entry(&self) -> io::Result<()> {
        Ok(())
    }
    /// Called for each entry that is flushed to a table; it may block, and an error stops the flush.
    fn flush_entry(&self) -> io::Result<()> {
        Ok(())
    }
    /// Called before memory is written to tables; an error means that the disk is full.
    fn flush_tables(&self) -> io::Result<()> {
        Ok(())
    }
    /// Whether there is more room than the reserve released.
    fn has_room(&self) -> bool {
        true
    }
    /// Called when the reserve for a full disk was released.
    fn release_reserve(&self) {}
    /// Flushes `file` (at `path`) as `fdatasync` does.
    fn sync(&self, file: &File, path: &Path) -> io::Result<()>;
}

/// A log file whose space was reserved before anything is written to it.
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    device: Option<Arc<dyn LogDevice>>,
}

impl LogFile {
    /// Creates a file with `size` bytes of reserved space. With `zeros` the space is also written and
    /// flushed, which is slow but makes later flushes several times faster. Without, the first flush
    /// of what is written to it makes the file itself durable.
    pub(super) fn create(
        path: &Path,
        size: u64,
        zeros: bool,
        device: Option<Arc<dyn LogDevice>>,
    ) -> io::Result<LogFile> {
        if let Some(device) = &device {
            device.allocate()?;
        }
        let file =
            private::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let made = reserve(&file, size, zeros).and_then(|has_written| match has_written {
            true => file.sync_all(),
            false => Ok(()),
        });
        if let Err(error) = made {
            // An incomplete file would only take space.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(LogFile { file, path: path.to_path_buf(), device })
    }

    /// Opens an existing file.
    pub(super) fn open(path: &Path, device: Option<Arc<dyn LogDevice>>) -> io::Result<LogFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(LogFile { file, path: path.to_path_buf(), device })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match &self.device {
            None => self.file.write_all_at(bytes, at),
            Some(device) => device.write(&self.file, &self.path, bytes, at),
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match &self.device {
            None => self.file.sync_data(),
            Some(device) => device.sync(&self.file, &self.path),
        }
    }
}

/// Ensures that writing `size` bytes cannot run out of space. Returns whether zeros were written.
fn reserve(file: &File, size: u64, zeros: bool) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    let write_zeros = match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => zeros,
        // The file system cannot reserve space, so the bytes must be written now.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => true,
        Err(error) => return Err(error.into()),
    };
    if write_zeros {
        let piece = vec![0; PIECE.min(size as usize)];
        let mut at = 0;
        while at < size {
            let length = piece.len().min((size - at) as usize);
            file.write_all_at(&piece[..length], at)?;
            at += length as u64;
        }
    }
    Ok(write_zeros)
}

/// Makes created, renamed and removed names of a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
