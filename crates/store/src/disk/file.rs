//! The files of the write-ahead log: written in place, flushed by `fdatasync`. Tests put a device
//! of their own between the log and the files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Zeros are written in pieces of this size.
const PIECE: usize = 1 << 20;

/// What the log's files are written through where a test wants failures (crate `faults`). Without
/// a device the log writes to its files directly.
pub trait LogDevice: std::fmt::Debug + Send + Sync {
    /// Whether the device has failed for good: from then on the store must not write anything,
    /// not even tables.
    fn has_failed(&self) -> bool;
    /// Called before room for a new log file is reserved; an error means that there is none.
    fn allocate(&self) -> io::Result<()>;
    /// Writes all `bytes` to `file` (at `path`), beginning `at` bytes from its start.
    fn write(&self, file: &File, path: &Path, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Called for each entry that is merged from tables to tables; it may take its time, and an
    /// error ends the merge.
    fn merge_entry(&self) -> io::Result<()> {
        Ok(())
    }
    /// Whether there is room for more than the reserve gave back.
    fn has_room(&self) -> bool {
        true
    }
    /// Called when the reserve for a full disk was given back.
    fn release_reserve(&self) {}
    /// Flushes `file` (at `path`) as `fdatasync` does.
    fn sync(&self, file: &File, path: &Path) -> io::Result<()>;
}

/// A file of the log with room that was reserved before anything is written to it.
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    device: Option<Arc<dyn LogDevice>>,
}

impl LogFile {
    /// Creates a file with `size` bytes of reserved room. With `zeros` the room is written as
    /// well, which makes later flushes several times faster but takes its time now.
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
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let made = reserve(&file, size, zeros).and_then(|()| file.sync_all());
        if let Err(error) = made {
            // A half-made file would only take the room that is missing.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(LogFile { file, path: path.to_path_buf(), device })
    }

    /// Opens a file that is there already.
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

/// Makes sure that writing `size` bytes cannot run out of room.
fn reserve(file: &File, size: u64, zeros: bool) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    let write_zeros = match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => zeros,
        // The file system cannot reserve, so the bytes must be written now.
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
    Ok(())
}

/// Makes created, renamed and removed names of a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
