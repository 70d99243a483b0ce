//! The files of the log: written in place, flushed by `fdatasync`, and able to fail on command.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::FaultPlan;

/// Zeros are written in pieces of this size.
const PIECE: usize = 1 << 20;

/// A file of the log with room that was reserved before anything is written to it.
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    plan: Option<Arc<FaultPlan>>,
}

impl LogFile {
    /// Creates a file with `size` bytes of reserved room. With `zeros` the room is written as
    /// well, which makes later flushes several times faster but takes its time now.
    pub(super) fn create(
        path: &Path,
        size: u64,
        zeros: bool,
        plan: Option<Arc<FaultPlan>>,
    ) -> io::Result<LogFile> {
        if let Some(plan) = &plan {
            plan.allocate()?;
        }
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let made = reserve(&file, size, zeros).and_then(|()| file.sync_all());
        if let Err(error) = made {
            // A half-made file would only take the room that is missing.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(LogFile { file, path: path.to_path_buf(), plan })
    }

    /// Opens a file that is there already.
    pub(super) fn open(path: &Path, plan: Option<Arc<FaultPlan>>) -> io::Result<LogFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(LogFile { file, path: path.to_path_buf(), plan })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match &self.plan {
            None => self.file.write_all_at(bytes, at),
            Some(plan) => plan.write(&self.file, &self.path, bytes, at),
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match &self.plan {
            None => self.file.sync_data(),
            Some(plan) => plan.sync(&self.file, &self.path),
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
