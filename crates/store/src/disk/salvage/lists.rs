//! The lists of tables: which files a tree consists of.
//!
//! The file `current` has the number and the checksum of the list `v<number>`. If it is damaged, a
//! list is accepted whose tables all have the checksums that it names. Otherwise all table files of
//! the folder are taken.

use std::fs::File;
use std::io::Read;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use super::table::TableFile;
use super::{Effect, Finding, KeyRange};
use crate::disk::record::u64_at;
use crate::disk::trees::{TABLES, check_manifest};
use crate::{Bytes, Space, StoreError};

/// The files of a tree.
pub(super) struct TableList {
    pub(super) tables: Vec<Listed>,
    /// Whether these are known to be all tables and no others.
    pub(super) is_proven: bool,
}

/// A table file that exists.
pub(super) struct Listed {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// The checksum of the whole file, if the list is known.
    pub(super) checksum: Option<u128>,
    /// The keys of the table are between these; used where the file does not tell.
    pub(super) range: KeyRange,
}

/// One table of a list.
struct Row {
    id: u64,
    checksum: u128,
}

/// Reads the list of the tables of a tree.
pub(super) fn read(folder: &Path, space: Space, findings: &mut Vec<Finding>) -> TableList {
    let tables = folder.join(TABLES);
    let current = folder.join("current");
    let pointer = std::fs::read(&current).unwrap_or_default();
    let noted = pointer.first_chunk::<8>().map(|number| u64::from_le_bytes(*number));
    let damage = match check_manifest(folder) {
        Ok(()) => {
            let list = noted.and_then(|number| parse(&folder.join(format!("v{number}"))));
            if let Some(runs) = list {
                return listed(&tables, space, &runs, findings);
            }
            (folder.to_path_buf(), "the list of tables makes no sense".to_string())
        }
        Err(StoreError::Corrupt { file, what, .. }) => (file, what),
        Err(error) => (folder.to_path_buf(), error.to_string()),
    };
    let (file, what) = damage;
    let named = noted.filter(|number| folder.join(format!("v{number}")).exists());
    let candidate = named.or_else(|| newest_list(folder));
    let verified = candidate
        .and_then(|number| parse(&folder.join(format!("v{number}"))))
        .filter(|runs| runs.iter().flatten().all(|row| is_as_listed(&tables, row)));
    if let Some(runs) = verified {
        let what = format!("{what}; all tables of its list are whole");
        findings.push(Finding::new(&file, None, &what, Effect::Harmless));
        return listed(&tables, space, &runs, findings);
    }
    let what = format!("{what}; all table files of the folder are read");
    let effect = Effect::Unproven(vec![KeyRange::all(space)]);
    findings.push(Finding::new(&file, None, &what, effect));
    TableList { tables: all_files(&tables, space), is_proven: false }
}

/// The number of the newest list in a folder.
fn newest_list(folder: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix('v')?.parse().ok()).max()
}

fn is_as_listed(tables: &Path, row: &Row) -> bool {
    hash(&tables.join(row.id.to_string()), &mut |_| {}) == Some(row.checksum)
}

/// The checksum of a whole file; `None` if it cannot be read. Calls `progress` with bytes read.
pub(super) fn hash(path: &Path, progress: &mut dyn FnMut(u64)) -> Option<u128> {
    let mut file = File::open(path).ok()?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer).ok()?;
        if read == 0 {
            return Some(hasher.digest128());
        }
        hasher.update(&buffer[..read]);
        progress(read as u64);
    }
}

/// Parses a list: the runs of all levels, each with its tables in the order of their keys.
fn parse(path: &Path) -> Option<Vec<Vec<Row>>> {
    const TRAILER: usize = 4 + 1 + 1 + 16 + 8 + 8;
    let bytes = std::fs::read(path).ok()?;
    let trailer = bytes.get(bytes.len().checked_sub(TRAILER)?..)?;
    let contents = usize::try_from(u64_at(trailer, 22)).ok()?;
    let mut rest = bytes.get(contents..)?;
    (take(&mut rest, 4)? == b"TOC!").then_some(())?;
    let mut section = None;
    for _ in 0..number(&mut rest, 4)? {
        let (start, length) = (number(&mut rest, 8)?, number(&mut rest, 8)?);
        let name_length = usize::try_from(number(&mut rest, 2)?).ok()?;
        if take(&mut rest, name_length)? == b"tables" {
            let (start, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
            section = bytes.get(start..start.checked_add(length)?);
        }
    }
    let mut rest = section?;
    let mut runs = Vec::new();
    for _ in 0..number(&mut rest, 1)? {
        for _ in 0..number(&mut rest, 1)? {
            let mut run = Vec::new();
            for _ in 0..number(&mut rest, 4)? {
                let id = number(&mut rest, 8)?;
                (number(&mut rest, 1)? == 0).then_some(())?;
                let checksum = u128::from_le_bytes(*take(&mut rest, 16)?.first_chunk()?);
                // The tables of this store have no common seqno.
                number(&mut rest, 8)?;
                run.push(Row { id, checksum });
            }
            runs.push(run);
        }
    }
    rest.is_empty().then_some(runs)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// A little-endian number of up to eight bytes.
fn number(rest: &mut &[u8], length: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..length)?.copy_from_slice(take(rest, length)?);
    Some(u64::from_le_bytes(bytes))
}

/// The tables of a list that exist. The others are findings.
fn listed(
    folder: &Path,
    space: Space,
    runs: &[Vec<Row>],
    findings: &mut Vec<Finding>,
) -> TableList {
    let mut tables = Vec::new();
    for run in runs {
        for (at, row) in run.iter().enumerate() {
            let path = folder.join(row.id.to_string());
            let range = between(folder, space, run, at);
            match std::fs::metadata(&path) {
                Ok(data) => tables.push(Listed {
                    path,
                    bytes: data.len(),
                    checksum: Some(row.checksum),
                    range,
                }),
                Err(error) => {
                    let what = match error.kind() {
                        std::io::ErrorKind::NotFound => "the table is missing".to_string(),
                        _ => error.to_string(),
                    };
                    findings.push(Finding::new(&path, None, &what, Effect::Lost(vec![range])));
                }
            }
        }
    }
    TableList { tables, is_proven: true }
}

/// The keys that a table can have: those between its neighbours in the run.
fn between(folder: &Path, space: Space, run: &[Row], at: usize) -> KeyRange {
    let mut range = KeyRange::all(space);
    // Only needed for a table that does not tell; most do.
    let path = folder.join(run[at].id.to_string());
    if TableFile::open(&path).is_some_and(|table| table.meta.is_some()) {
        return range;
    }
    let meta = |row: &Row| TableFile::open(&folder.join(row.id.to_string()))?.meta;
    if let Some(meta) = at.checked_sub(1).and_then(|before| meta(&run[before])) {
        range.from = Bound::Excluded(Bytes::copy_from(&meta.max));
    }
    if let Some(meta) = run.get(at + 1).and_then(meta) {
        range.to = Bound::Excluded(Bytes::copy_from(&meta.min));
    }
    range
}

/// Every table file of a folder.
fn all_files(folder: &Path, space: Space) -> Vec<Listed> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_table = entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if is_table && let Ok(data) = entry.metadata() {
            found.push(Listed {
                path: entry.path(),
                bytes: data.len(),
                checksum: None,
                range: KeyRange::all(space),
            });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}
