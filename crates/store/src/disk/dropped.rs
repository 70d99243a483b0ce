//! Dropped key ranges. No reader uses them any more. Their space is reclaimed by removing whole
//! tables and by filtering out entries when tables are merged.
//!
//! The list is kept in a small file, because log segments with the drop records are released.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};
use parking_lot::RwLock;

use super::cancel;
use super::file::{LogDevice, sync_folder};
use super::record::{decode_range, encode_range};
use super::spread::Spread;
use crate::{Bytes, Result, Space, StoreError};

pub(super) const FILE: &str = "DROPPED";
pub(super) const TEMPORARY: &str = "DROPPED.new";

/// A dropped range `[from, to)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DroppedRange {
    pub(super) space: Space,
    pub(super) from: Bytes,
    pub(super) to: Bytes,
}

/// The ranges whose entries may still be in tables.
#[derive(Default)]
pub(super) struct DroppedRanges(RwLock<List>);

#[derive(Default)]
struct List {
    /// Sorted by space and start.
    ranges: Vec<DroppedRange>,
    unsaved: bool,
}

impl DroppedRanges {
    /// Reads the list that an earlier process saved.
    pub(super) fn load(folder: &Path) -> Result<DroppedRanges> {
        let path = folder.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(DroppedRanges::default());
            }
            Err(error) => return Err(StoreError::io("read", &path, &error)),
        };
        let ranges = decode(&bytes).ok_or_else(|| StoreError::Corrupt {
            file: path,
            offset: Some(0),
            what: "its checksum does not match".to_string(),
        })?;
        Ok(DroppedRanges(RwLock::new(List { ranges, unsaved: false })))
    }

    pub(super) fn add(&self, range: DroppedRange) {
        let mut list = self.0.write();
        if let Err(position) = list.ranges.binary_search(&range) {
            list.ranges.insert(position, range);
            list.unsaved = true;
        }
    }

    pub(super) fn remove(&self, range: &DroppedRange) {
        let mut list = self.0.write();
        if let Ok(position) = list.ranges.binary_search(range) {
            list.ranges.remove(position);
            list.unsaved = true;
        }
    }

    pub(super) fn of(&self, space: Space) -> Vec<DroppedRange> {
        self.0.read().ranges.iter().filter(|range| range.space == space).cloned().collect()
    }

    pub(super) fn has_any(&self, space: Space) -> bool {
        self.0.read().ranges.iter().any(|range| range.space == space)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.read().ranges.is_empty()
    }

    /// Writes the list if it has changed.
    pub(super) fn save(&self, folder: &Path) -> Result<()> {
        let mut list = self.0.write();
        if !list.unsaved {
            return Ok(());
        }
        let (path, temporary) = (folder.join(FILE), folder.join(TEMPORARY));
        let write = || {
            let mut file = crate::private::create_file(&temporary)?;
            file.write_all(&encode(&list.ranges))?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            sync_folder(folder)
        };
        write().map_err(|error| StoreError::io("write", &path, &error))?;
        list.unsaved = false;
        Ok(())
    }
}

fn encode(ranges: &[DroppedRange]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for range in ranges {
        encode_range(&mut bytes, range.space, &range.from, &range.to);
    }
    let crc = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<DroppedRange>> {
    let (crc, mut rest) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*crc) != crc32c::crc32c(rest) {
        return None;
    }
    let mut ranges = Vec::new();
    while !rest.is_empty() {
        let (space, from, to) = decode_range(&mut rest)?;
        ranges.push(DroppedRange { space, from, to });
    }
    Some(ranges)
}

/// Makes filters that leave out entries of dropped ranges when tables are merged.
pub(super) struct DropFilterFactory {
    space: Space,
    dropped: Arc<DroppedRanges>,
    control: MergeControl,
    /// The folder of the tree's table files.
    tables: PathBuf,
}

/// A merge that is slowed down sleeps for so long at a time.
const SLOW_STEP: Duration = Duration::from_millis(5);

/// Conditions that stop or slow down a merge.
#[derive(Clone)]
pub(super) struct MergeControl {
    /// Set when the store closes.
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) device: Option<Arc<dyn LogDevice>>,
    /// Nanoseconds that each entry takes at least; 0 unless a test slows merges down.
    pub(super) entry_nanos: Arc<AtomicU64>,
}

impl MergeControl {
    /// Called for each merged entry. `owed` is the time that the merge has to wait, kept by it.
    ///
    /// # Errors
    /// If the merge must stop.
    fn check(&self, owed: &mut Duration, cancelled: Option<&AtomicBool>) -> std::io::Result<()> {
        let nanos = self.entry_nanos.load(Ordering::Relaxed);
        if nanos > 0 {
            *owed += Duration::from_nanos(nanos);
            if *owed >= SLOW_STEP {
                std::thread::sleep(std::mem::take(owed));
            }
        }
        let is_cancelled = cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed));
        if is_cancelled || self.stopping.load(Ordering::Relaxed) {
            return Err(std::io::Error::from(std::io::ErrorKind::Interrupted));
        }
        match &self.device {
            Some(device) => device.merge_entry(),
            None => Ok(()),
        }
    }
}

impl DropFilterFactory {
    pub(super) fn new(
        space: Space,
        dropped: Arc<DroppedRanges>,
        control: MergeControl,
        tables: PathBuf,
    ) -> DropFilterFactory {
        DropFilterFactory { space, dropped, control, tables }
    }
}

// The list is replaced as a whole under a lock that does not poison, so a panic elsewhere cannot
// leave it half changed.
impl std::panic::RefUnwindSafe for DropFilterFactory {}

impl Factory for DropFilterFactory {
    fn name(&self) -> &str {
        "dropped ranges"
    }

    fn make_filter(&self, _context: &Context) -> Box<dyn CompactionFilter> {
        let ranges = joined(self.dropped.of(self.space));
        Box::new(DropFilter {
            ranges,
            control: self.control.clone(),
            cancelled: cancel::flag(),
            owed: Duration::ZERO,
            spread: Spread::new(&self.tables),
            entries: 0,
        })
    }
}

/// Joins ranges that overlap or touch, so that a key lies in at most one.
pub(super) fn joined(sorted: Vec<DroppedRange>) -> Vec<DroppedRange> {
    let mut ranges: Vec<DroppedRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match ranges.last_mut() {
            Some(last) if range.from <= last.to => last.to = range.to.max(last.to.clone()),
            _ => ranges.push(range),
        }
    }
    ranges
}

/// Whether a key lies in one of the `joined` ranges.
pub(super) fn holds(joined: &[DroppedRange], key: &[u8]) -> bool {
    let after = joined.partition_point(|range| &*range.from <= key);
    after > 0 && key < &*joined[after - 1].to
}

struct DropFilter {
    /// Sorted and disjoint.
    ranges: Vec<DroppedRange>,
    control: MergeControl,
    cancelled: Option<Arc<AtomicBool>>,
    /// What a slow merge has to wait.
    owed: Duration,
    spread: Spread,
    entries: usize,
}

/// One entry in this many is measured: taking the value of an entry has a cost.
const MEASURED: usize = 16;

impl CompactionFilter for DropFilter {
    fn filter_item(
        &mut self,
        item: ItemAccessor<'_>,
        _context: &Context,
    ) -> lsm_tree::Result<Verdict> {
        self.control.check(&mut self.owed, self.cancelled.as_deref())?;
        self.entries += 1;
        if self.entries.is_multiple_of(MEASURED) {
            self.spread.note((item.key().len() + item.value()?.len()) * MEASURED);
        }
        Ok(if holds(&self.ranges, item.key()) { Verdict::Destroy } else { Verdict::Keep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_survives_a_restart_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let dropped = DroppedRanges::default();
        let range = |from: &str, to: &str| DroppedRange {
            space: Space::Documents,
            from: from.as_bytes().into(),
            to: to.as_bytes().into(),
        };
        dropped.add(range("b", "c"));
        dropped.add(range("a", "b"));
        dropped.add(range("a", "b"));
        dropped.save(folder.path()).unwrap();
        let again = DroppedRanges::load(folder.path()).unwrap();
        assert_eq!(again.of(Space::Documents), vec![range("a", "b"), range("b", "c")]);
        assert_eq!(joined(again.of(Space::Documents)), vec![range("a", "c")]);
        let apart = vec![range("a", "c"), range("b", "bb"), range("d", "e")];
        assert_eq!(joined(apart), vec![range("a", "c"), range("d", "e")]);
        again.remove(&range("a", "b"));
        again.remove(&range("b", "c"));
        again.save(folder.path()).unwrap();
        assert!(DroppedRanges::load(folder.path()).unwrap().is_empty());
        std::fs::write(folder.path().join(FILE), b"nonsense").unwrap();
        assert!(matches!(DroppedRanges::load(folder.path()), Err(StoreError::Corrupt { .. })));
    }
}
