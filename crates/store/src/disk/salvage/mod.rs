//! Reading of a folder that may be damaged, without writing to it: everything that is readable, the
//! newest version of each key, and a list of what is not as it was written.
//!
//! Every data block of a table has its own checksum, and every entry in it has the seqno of its
//! commit. So the order of versions does not depend on the lists of tables, on their levels, or on
//! the other blocks of a file. Entries of bulk loads have the lowest seqno, and no other entry has
//! their keys in older tables.
//!
//! What holds for the result:
//! - A key that lies in no reported range has its newest value, or is absent if it was deleted.
//! - A key in a reported range may be missing, or have an older value, or be present although it was
//!   deleted.
//! - If a list of tables is lost, all table files of the folder are read. They include tables that a
//!   merge had replaced just before a crash, so a key that was deleted may be present; the whole
//!   space is reported as not proven then.
//! - Keys in dropped ranges are left out as long as the drop is readable.

mod blocks;
mod inspect;
mod lists;
mod segments;
mod streams;
mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lists::TableList;

use super::dropped::{DroppedRange, DroppedRanges, joined};
use super::recover::{FORMAT, lock};
use super::reserve::free_bytes;
use crate::{Bytes, Result, Seqno, Space, StoreError};

/// A range of keys in one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The space.
    pub space: Space,
    /// The lower end.
    pub from: Bound<Bytes>,
    /// The upper end.
    pub to: Bound<Bytes>,
}

impl KeyRange {
    /// All keys of a space.
    pub fn all(space: Space) -> KeyRange {
        KeyRange { space, from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// Whether the key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        let after = match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => key >= from.as_slice(),
            Bound::Excluded(from) => key > from.as_slice(),
        };
        after
            && match &self.to {
                Bound::Unbounded => true,
                Bound::Included(to) => key <= to.as_slice(),
                Bound::Excluded(to) => key < to.as_slice(),
            }
    }
}

/// What a finding means for the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Everything in the file was read or is not needed.
    Harmless,
    /// Nothing is known to be missing in these ranges, but the file that would prove it is damaged.
    Unproven(Vec<KeyRange>),
    /// Keys in these ranges may be missing or have older values.
    Lost(Vec<KeyRange>),
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The offset in the file, if known.
    pub offset: Option<u64>,
    /// A description.
    pub what: String,
    /// What it means for the data.
    pub effect: Effect,
}

impl Finding {
    fn new(file: &Path, offset: Option<u64>, what: &str, effect: Effect) -> Finding {
        Finding { file: file.to_path_buf(), offset, what: what.to_string(), effect }
    }

    /// The ranges whose keys may be missing or old, or are not proven.
    pub fn ranges(&self) -> &[KeyRange] {
        match &self.effect {
            Effect::Harmless => &[],
            Effect::Unproven(ranges) | Effect::Lost(ranges) => ranges,
        }
    }
}

/// The newest operation of each key in the log: its commit and its value.
type Logged = BTreeMap<Bytes, (Seqno, Option<Bytes>)>;

/// A folder that is read in spite of damage. It is locked as by a server, and never written to.
pub struct Salvage {
    path: PathBuf,
    lists: [TableList; 4],
    logged: [Logged; 4],
    log_bytes: u64,
    /// Sorted and joined, by space.
    dropped: [Vec<DroppedRange>; 4],
    findings: Vec<Finding>,
    _lock: Option<File>,
}

impl Salvage {
    /// Reads the lists of tables and the log of a folder.
    ///
    /// # Errors
    /// If it is not a data folder, another process uses it, or it cannot be listed.
    pub fn open(path: &Path) -> Result<Salvage> {
        let failed = |error: io::Error| StoreError::io("read", path, &error);
        std::fs::read_dir(path).map_err(failed)?;
        let known = Space::ALL.iter().map(|space| path.join(space.name()));
        if !known.chain([path.join("FORMAT")]).any(|file| file.exists()) {
            let message = "it is not a data folder of MotifDB";
            return Err(failed(io::Error::new(ErrorKind::NotFound, message)));
        }
        let lock = lock(path, true)?;
        let mut findings = Vec::new();
        check_format(path, &mut findings);
        let dropped = DroppedRanges::load(path).unwrap_or_else(|error| {
            let what = "the list of dropped ranges cannot be read; what was dropped shortly before \
                        is recognised by the catalog only";
            tracing::debug!(%error, "DROPPED");
            findings.push(Finding::new(&path.join("DROPPED"), None, what, Effect::Harmless));
            DroppedRanges::default()
        });
        let log = segments::read(&path.join("log"), &dropped, &mut findings);
        let lists =
            Space::ALL.map(|space| lists::read(&path.join(space.name()), space, &mut findings));
        Ok(Salvage {
            path: path.to_path_buf(),
            lists,
            logged: log.operations,
            log_bytes: log.bytes,
            dropped: Space::ALL.map(|space| joined(dropped.of(space))),
            findings,
            _lock: lock,
        })
    }

    /// What was found by reading the small files, the log and the lists of tables.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The bytes of the table files of a space.
    pub fn table_bytes(&self, space: Space) -> u64 {
        self.lists[space.index()].tables.iter().map(|table| table.bytes).sum()
    }

    /// The bytes of the keys and values in the log.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The free bytes of the disk that has this path, which need not exist; `None` if unknown.
pub fn free_space(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|path| path.exists())?;
    // The function takes the folder of a file.
    match free_bytes(&existing.join("x")) {
        u64::MAX => None,
        bytes => Some(bytes),
    }
}

fn check_format(path: &Path, findings: &mut Vec<Finding>) {
    let file = path.join("FORMAT");
    let what = match std::fs::read(&file) {
        Ok(found) if found == FORMAT.as_bytes() => return,
        Ok(found) => format!(
            "it says \"{}\"; the folder is read as \"{}\"",
            found.trim_ascii().escape_ascii(),
            FORMAT.trim_end()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => "the file is missing".to_string(),
        Err(error) => error.to_string(),
    };
    findings.push(Finding::new(&file, None, &what, Effect::Harmless));
}

/// Reads up to `length` bytes. Parts of a file that the disk cannot read are returned as zeros.
fn read_lossy(file: &File, at: u64, length: usize) -> Vec<u8> {
    const PART: usize = 4096;
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match file.read_at(&mut bytes[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                let end = length.min(done + PART);
                match file.read_at(&mut bytes[done..end], at + done as u64) {
                    Ok(0) => break,
                    Ok(read) => done += read,
                    Err(_) => done = end,
                }
            }
        }
    }
    bytes.truncate(done);
    bytes
}
