//! Temporary files for work that does not fit into memory: runs of entries that are written once
//! and read from the start.
//!
//! They are in `tmp/` of the data folder. A run removes its file when it is dropped; files that a
//! crash left are removed when the folder is opened again.

use crate::{Result, StoreError, private};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder for temporary files. It is created when the first file is needed.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    /// The prefix of its file names.
    name: &'static str,
    next: AtomicU64,
}

impl Scratch {
    /// Opens the temporary folder of a data folder; removes old files.
    ///
    /// # Errors
    /// If old files cannot be removed.
    pub fn open(data: &Path) -> Result<Scratch> {
        let scratch = Scratch::beside(data, "run");
        match fs::remove_dir_all(&scratch.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &scratch.folder, &error))
            }
            _ => Ok(scratch),
        }
    }

    /// A folder for temporary files of a store that has no data folder, in the system's temporary
    /// folder.
    #[must_use]
    pub fn of_system() -> Scratch {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("motif-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        Scratch { folder, name: "run", next: AtomicU64::new(0) }
    }

    /// Temporary files in the same folder as those of others, with another prefix of their names.
    pub(crate) fn beside(data: &Path, name: &'static str) -> Scratch {
        Scratch { folder: data.join("tmp"), name, next: AtomicU64::new(0) }
    }

    /// Where the files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new file to write a run into.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(&self) -> Result<RunWriter> {
        private::create_folder(&self.folder)
            .map_err(|error| failed("make", &self.folder, &error))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{}-{number}", self.name));
        let opened = private::options().read(true).write(true).create_new(true).open(&path);
        let file = opened.map_err(|error| failed("create", &path, &error))?;
        let guard = Guard(path);
        Ok(RunWriter { file: BufWriter::with_capacity(RUN_BUFFER_BYTES, file), guard, bytes: 0 })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Succeeds when it is empty; runs that are still read keep it until the next start.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Memory that a run takes while it is written, and from then on until it is dropped.
pub const RUN_BUFFER_BYTES: usize = 64 * 1024;

/// Removes its file when dropped.
#[derive(Debug)]
struct Guard(PathBuf);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(file = %self.0.display(), %error, "cannot remove a temporary file");
        }
    }
}

/// A run that is being written.
#[derive(Debug)]
pub struct RunWriter {
    file: BufWriter<File>,
    guard: Guard,
    bytes: u64,
}

impl RunWriter {
    /// Appends an entry: a key and a value.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let lengths = [length(key)?, length(value)?];
        let written = self
            .file
            .write_all(&lengths[0])
            .and_then(|()| self.file.write_all(&lengths[1]))
            .and_then(|()| self.file.write_all(key))
            .and_then(|()| self.file.write_all(value));
        self.bytes += 8 + (key.len() + value.len()) as u64;
        written.map_err(|error| failed("write", &self.guard.0, &error))
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends writing. The run is read from the start.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub fn finish(self) -> Result<Run> {
        use std::io::Seek;
        let RunWriter { file, guard, bytes } = self;
        let mut file =
            file.into_inner().map_err(|error| failed("write", &guard.0, error.error()))?;
        file.rewind().map_err(|error| failed("read", &guard.0, &error))?;
        let file = BufReader::with_capacity(RUN_BUFFER_BYTES, file);
        Ok(Run { file, guard, bytes, left: bytes })
    }
}

/// A written run, read from the start.
#[derive(Debug)]
pub struct Run {
    file: BufReader<File>,
    guard: Guard,
    bytes: u64,
    left: u64,
}

impl Run {
    /// Returns to the start.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn rewind(&mut self) -> Result<()> {
        use std::io::Seek;
        self.file.rewind().map_err(|error| failed("read", &self.guard.0, &error))?;
        self.left = self.bytes;
        Ok(())
    }

    /// The next entry.
    ///
    /// # Errors
    /// When the disk fails.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.left == 0 {
            return Ok(None);
        }
        let read = |file: &mut BufReader<File>| {
            let mut lengths = [0; 8];
            file.read_exact(&mut lengths)?;
            let [a, b, c, d, e, f, g, h] = lengths;
            let mut key = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
            let mut value = vec![0; u32::from_le_bytes([e, f, g, h]) as usize];
            file.read_exact(&mut key)?;
            file.read_exact(&mut value)?;
            Ok((key, value))
        };
        let entry = read(&mut self.file);
        let (key, value) =
            entry.map_err(|error: io::Error| failed("read", &self.guard.0, &error))?;
        self.left = self.left.saturating_sub(8 + (key.len() + value.len()) as u64);
        Ok(Some((key, value)))
    }
}

fn length(bytes: &[u8]) -> Result<[u8; 4]> {
    u32::try_from(bytes.len()).map(u32::to_le_bytes).map_err(|_| StoreError::Full)
}

fn failed(action: &'static str, file: &Path, error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::StorageFull {
        return StoreError::Full;
    }
    StoreError::Io { action, file: file.to_owned(), kind: error.kind(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_gives_back_what_was_written_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::open(folder.path()).expect("opens");
        let mut writer = scratch.create().expect("creates");
        for n in 0..1000_u32 {
            writer.push(&n.to_be_bytes(), &vec![7; n as usize]).expect("writes");
        }
        let mut run = writer.finish().expect("finishes");
        for _ in 0..2 {
            for n in 0..1000_u32 {
                let (key, value) = run.next().expect("reads").expect("an entry");
                assert_eq!((key.as_slice(), value.len()), (n.to_be_bytes().as_slice(), n as usize));
            }
            assert!(run.next().expect("reads").is_none());
            run.rewind().expect("goes back");
        }
        drop(run);
        drop(scratch);
        assert!(!folder.path().join("tmp").exists());
    }

    #[test]
    fn what_a_crash_left_goes_at_the_next_start() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("tmp")).expect("makes");
        fs::write(folder.path().join("tmp/run-0"), b"old").expect("writes");
        let scratch = Scratch::open(folder.path()).expect("opens");
        assert!(!folder.path().join("tmp").exists());
        scratch.create().expect("creates");
    }
}
