//! The log: the operations of all segments, also behind damaged records and missing segments.
//!
//! A torn end of the last segment is normal after a crash of the machine. It looks like damage of the
//! last flush, so it is reported as not proven. If nothing of a record is left, nothing is reported.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::{Effect, Finding, KeyRange, Logged, read_lossy};
use crate::disk::dropped::{DroppedRange, DroppedRanges};
use crate::disk::record::{
    HeaderState, Kind, RECORD_HEADER, Record, SEGMENT_HEADER, SegmentHeader, decode_batch,
    decode_range, decode_record, next_record, record_salt, record_span, was_begun, was_synced,
};
use crate::disk::segment::{Pool, ReleaseNote};
use crate::{Seqno, Space, StoreError};

const TORN: &str = "records at the end of the log are not whole: either a crash came before they \
                    were confirmed, or they are damaged";

/// What was read from the log.
#[derive(Default)]
pub(super) struct Operations {
    pub(super) operations: [Logged; 4],
    pub(super) bytes: u64,
}

/// A segment file.
struct SegmentFile {
    path: PathBuf,
    bytes: Vec<u8>,
    /// `None` if nothing was written to it, or its header is damaged.
    header: Option<SegmentHeader>,
    /// Whether the header is damaged, rather than never written.
    is_damaged: bool,
}

/// Reads all segments of a log folder. Dropped ranges are added to `dropped`.
pub(super) fn read(
    folder: &Path,
    dropped: &DroppedRanges,
    findings: &mut Vec<Finding>,
) -> Operations {
    let mut all = Operations::default();
    let (released, newest) = match ReleaseNote::read(folder) {
        Ok(noted) => {
            if let Ok(Some(damage)) = ReleaseNote::check(folder) {
                let effect = Effect::Harmless;
                findings.push(Finding::new(&damage.file, damage.offset, &damage.what, effect));
            }
            (Some(noted.generation), noted.newest)
        }
        Err(error) => {
            let (offset, what) = match error {
                StoreError::Corrupt { offset, what, .. } => (offset, what),
                error => (None, error.to_string()),
            };
            let what = format!("{what}; all segments of the log are read");
            let effect = Effect::Unproven(everything());
            findings.push(Finding::new(&ReleaseNote::path(folder), offset, &what, effect));
            (None, None)
        }
    };
    let files = files(folder, released.unwrap_or(0));
    let first = released.or_else(|| files.keys().next().copied());
    let last = files.iter().rev().find(|(_, file)| file.is_written()).map(|(number, _)| *number);
    let last = last.into_iter().chain(newest).max();
    let (Some(first), Some(last)) = (first, last) else { return all };
    for generation in first..=last {
        match files.get(&generation) {
            Some(file) => {
                let next = files.get(&(generation + 1)).and_then(|next| next.header);
                let known_end = next.map(|header| header.previous_end);
                read_segment(file, known_end, &mut all, dropped, findings);
            }
            None => {
                let path = folder.join(format!("{generation:012}.log"));
                lost(&path, None, "the log segment is missing", findings);
            }
        }
    }
    all
}

fn everything() -> Vec<KeyRange> {
    Space::ALL.map(KeyRange::all).to_vec()
}

/// Reports lost records, which may be of any key.
fn lost(path: &Path, offset: Option<u64>, what: &str, findings: &mut Vec<Finding>) {
    findings.push(Finding::new(path, offset, what, Effect::Lost(everything())));
}

impl SegmentFile {
    /// Whether records were written to it.
    fn is_written(&self) -> bool {
        self.header.is_some() || self.is_damaged
    }
}

/// The segments of a folder from a generation on.
fn files(folder: &Path, released: u64) -> BTreeMap<u64, SegmentFile> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let generation = entry.file_name().to_str().and_then(Pool::generation);
        let Some(generation) = generation.filter(|number| *number >= released) else { continue };
        let path = entry.path();
        let length = entry.metadata().map_or(0, |data| data.len() as usize);
        let bytes =
            File::open(&path).map_or_else(|_| Vec::new(), |file| read_lossy(&file, 0, length));
        let (header, is_damaged) = match SegmentHeader::decode(&bytes) {
            HeaderState::Valid(header) if header.generation == generation => (Some(header), false),
            // Prepared or reused, but nothing was flushed to it under this name.
            HeaderState::Valid(_) | HeaderState::Blank => (None, false),
            HeaderState::Invalid => (None, bytes.len() >= SEGMENT_HEADER),
        };
        files.insert(generation, SegmentFile { path, bytes, header, is_damaged });
    }
    files
}

/// Reads the records of a segment that was written to. They end at `known_end`, if the next segment
/// tells.
fn read_segment(
    segment: &SegmentFile,
    known_end: Option<u64>,
    all: &mut Operations,
    dropped: &DroppedRanges,
    findings: &mut Vec<Finding>,
) {
    let path = &segment.path;
    let bytes = &segment.bytes;
    let first = SEGMENT_HEADER as u64;
    let salt = match segment.header {
        Some(header) => header.salt,
        None => match record_salt(bytes, first) {
            Some(salt) => {
                let what = "its header is damaged; its records are read without it";
                // Without the header the records of an older use of the file cannot be excluded.
                let effect = Effect::Unproven(everything());
                findings.push(Finding::new(path, Some(0), what, effect));
                salt
            }
            None => {
                let what = "its header and its first record are damaged or missing";
                return lost(path, Some(0), what, findings);
            }
        },
    };
    let end = known_end.unwrap_or(bytes.len() as u64);
    let mut at = first;
    while at < end {
        if let Some(record) = decode_record(bytes, at, salt) {
            if all.apply(&record, dropped).is_none() {
                lost(path, Some(at), "a record makes no sense", findings);
            }
            at = record.end;
            continue;
        }
        let is_cut_off = (bytes.len() as u64) < end || is_cut_off(bytes, at, salt);
        if known_end.is_none() && !is_cut_off && !was_synced(bytes, at, salt) {
            let next = next_record(bytes, at, salt);
            if next.is_some() || was_begun(bytes, at, salt) {
                let effect = Effect::Unproven(everything());
                findings.push(Finding::new(path, Some(at), TORN, effect));
            }
            match next {
                Some(next) => at = next,
                None => return,
            }
            continue;
        }
        // If the header of the record is whole, it says where the next one begins.
        let next = record_span(bytes, at, salt)
            .filter(|next| *next <= bytes.len() as u64)
            .or_else(|| next_record(bytes, at, salt))
            .map_or(end, |next| next.min(end));
        let what = match next == end && is_cut_off {
            true => "the file is cut off".to_string(),
            false => format!("{} bytes of records are damaged", next - at),
        };
        lost(path, Some(at), &what, findings);
        at = next;
    }
}

/// Whether the record at an offset ends behind the end of the file, whose space was reserved when it
/// was created.
fn is_cut_off(bytes: &[u8], at: u64, salt: u64) -> bool {
    let rest = bytes.get(at as usize..).unwrap_or_default();
    match record_span(bytes, at, salt) {
        Some(end) => end > bytes.len() as u64,
        None => rest.len() < RECORD_HEADER && rest.iter().any(|byte| *byte != 0),
    }
}

impl Operations {
    fn apply(&mut self, record: &Record<'_>, dropped: &DroppedRanges) -> Option<()> {
        let seqno = record.seqno;
        match record.kind {
            kind @ (Kind::Batch | Kind::PackedBatch) => {
                let mut lacks_base = false;
                let operations = RefCell::new(&mut self.operations);
                let base = |space: Space, key: &[u8], seqno: Seqno| {
                    let operations = operations.borrow();
                    let found = operations[space.index()].get(key);
                    let found = found.filter(|(known, _)| *known == seqno);
                    let found = found.and_then(|(_, value)| value.clone());
                    lacks_base |= found.is_none();
                    found
                };
                decode_batch(kind, record.payload, base, |operation| {
                    let logged = &mut operations.borrow_mut()[operation.space.index()];
                    self.bytes += (operation.key.len()
                        + operation.value.as_deref().map_or(0, <[u8]>::len))
                        as u64;
                    if logged.get(&operation.key).is_none_or(|(known, _)| *known <= seqno) {
                        logged.insert(operation.key, (seqno, operation.value));
                    }
                })?;
                (!lacks_base).then_some(())
            }
            Kind::DeleteRange => {
                let (space, from, to) = decode_range(&mut &*record.payload)?;
                dropped.add(DroppedRange { space, from, to });
                Some(())
            }
        }
    }
}
