//! Spreads the flushing of tables over the time in which they are written.
//!
//! The tree crate flushes a table when it is finished: tens of megabytes at once. A flush of the log
//! that comes meanwhile would wait for all of them, and with it every commit. So what was written so
//! far is flushed in small parts, by the thread that writes the table.

use std::fs::File;
use std::path::{Path, PathBuf};

/// Bytes of entries between two flushes; compressed they are about half of it.
const PART_BYTES: usize = 4 << 20;
/// How many of the newest files may be unfinished: one of a flush and those of merges.
const UNFINISHED: usize = 3;

/// Counts what one thread writes to tables of one tree.
pub(super) struct Spread {
    /// The folder of the table files.
    folder: PathBuf,
    bytes: usize,
}

impl Spread {
    /// For tables in this folder.
    pub(super) fn new(folder: &Path) -> Spread {
        Spread { folder: folder.to_path_buf(), bytes: 0 }
    }

    /// Called for entries of so many bytes.
    pub(super) fn note(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= PART_BYTES {
            self.bytes = 0;
            flush_newest(&self.folder);
        }
    }
}

/// Flushes what was written to the newest files. Failures are left to the tree, which flushes each
/// file in the end.
fn flush_newest(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u64>().ok();
    let mut numbers: Vec<u64> = entries.flatten().filter_map(number).collect();
    numbers.sort_unstable();
    for number in numbers.iter().rev().take(UNFINISHED) {
        if let Ok(file) = File::open(folder.join(number.to_string())) {
            let _ = file.sync_data();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_and_other_files_do_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["7", "12", "x", "1.new"] {
            std::fs::write(folder.path().join(name), b"bytes").unwrap();
        }
        let mut spread = Spread::new(folder.path());
        spread.note(PART_BYTES - 1);
        assert_eq!(spread.bytes, PART_BYTES - 1);
        spread.note(1);
        assert_eq!(spread.bytes, 0);
        let mut nowhere = Spread::new(&folder.path().join("nowhere"));
        nowhere.note(PART_BYTES * 2);
        assert_eq!(nowhere.bytes, 0);
    }
}
