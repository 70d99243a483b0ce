//! One table file: a walk over its data blocks that goes on behind damaged ones.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, Slice, Table};

use super::blocks::{Entry, Found, Meta, block_at, meta, search};
use super::{Effect, Finding, KeyRange};
use crate::Bytes;

/// A table file and its metadata, if they can be read.
pub(super) struct TableFile {
    file: File,
    length: u64,
    pub(super) meta: Option<Meta>,
}

impl TableFile {
    pub(super) fn open(path: &Path) -> Option<TableFile> {
        let file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let meta = meta(&file, length);
        Some(TableFile { file, length, meta })
    }
}

/// The readable entries of a table, in order.
pub(super) struct Walk {
    path: PathBuf,
    table: TableFile,
    /// The keys of the table lie in it.
    range: KeyRange,
    at: u64,
    end: u64,
    entries: VecDeque<Entry>,
    last: Option<Slice>,
    /// Where damage began that is not reported yet.
    gap: Option<u64>,
    is_done: bool,
    found: Vec<Finding>,
}

impl Walk {
    /// Begins a walk. The keys of the table lie in `range`, if it does not tell itself. An error is
    /// a finding about the whole table.
    pub(super) fn open(path: &Path, range: &KeyRange) -> Result<Walk, Finding> {
        let Some(table) = TableFile::open(path) else {
            let effect = Effect::Lost(vec![range.clone()]);
            return Err(Finding::new(path, None, "the file cannot be read", effect));
        };
        let mut range = range.clone();
        if let Some(meta) = &table.meta {
            range.from = Bound::Included(Bytes::copy_from(&meta.min));
            range.to = Bound::Included(Bytes::copy_from(&meta.max));
        }
        let end = table.meta.as_ref().map_or(table.length, |meta| meta.data_end);
        let mut walk = Walk {
            path: path.to_path_buf(),
            table,
            range,
            at: 0,
            end,
            entries: VecDeque::new(),
            last: None,
            gap: None,
            is_done: false,
            found: Vec::new(),
        };
        walk.check_rest();
        Ok(walk)
    }

    /// Reports a file that the tree cannot open: of its index, filter and trailer, nothing is
    /// needed here.
    fn check_rest(&mut self) {
        let cache = Arc::new(Cache::with_capacity_bytes(0));
        let path = self.path.clone();
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Table::recover(path, Checksum::from_raw(0), 0, 0, cache, None, true, true).map(drop)
        }));
        if !matches!(opened, Ok(Ok(()))) {
            let what = "its metadata, index, filter or trailer is damaged, which is not needed to \
                        read its entries";
            self.found.push(Finding::new(&self.path, None, what, Effect::Harmless));
        }
    }

    /// How far the file has been read, in bytes.
    pub(super) fn position(&self) -> u64 {
        self.at.min(self.table.length)
    }

    /// The length of the file.
    pub(super) fn length(&self) -> u64 {
        self.table.length
    }

    /// The next readable entry.
    pub(super) fn next(&mut self) -> Option<Entry> {
        while self.entries.is_empty() {
            if self.is_done {
                return None;
            }
            self.read_block();
        }
        let entry = self.entries.pop_front()?;
        self.last = Some(entry.key.clone());
        Some(entry)
    }

    /// What was found since the last call.
    pub(super) fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.found)
    }

    fn read_block(&mut self) {
        let compression = self.table.meta.as_ref().map(|meta| meta.compression);
        if self.at >= self.end {
            // Without metadata, the data end at the first block of another kind.
            if self.table.meta.is_none() {
                self.gap.get_or_insert(self.at);
            }
            return self.finish();
        }
        match block_at(&self.table.file, self.at, compression) {
            Found::Data(entries, end) if self.follows(&entries) => {
                if let Some(first) = entries.first() {
                    self.close_gap(Bound::Included(Bytes::copy_from(&first.key)));
                }
                self.entries = entries.into();
                self.at = end;
            }
            Found::Other if self.table.meta.is_none() => self.finish(),
            Found::Data(_, end) | Found::Damaged(end) => {
                self.gap.get_or_insert(self.at);
                self.at = end;
            }
            Found::Other | Found::Nothing => {
                self.gap.get_or_insert(self.at);
                let next = search(&self.table.file, self.at + 1, self.end, compression);
                self.at = next.unwrap_or(self.end);
            }
        }
    }

    /// Whether a block can be the next one: bytes of a value may look like a block.
    fn follows(&self, entries: &[Entry]) -> bool {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return false };
        self.last.as_ref().is_none_or(|before| *before <= first.key)
            && self.range.contains(&first.key)
            && self.range.contains(&last.key)
    }

    fn finish(&mut self) {
        self.close_gap(self.range.to.clone());
        self.is_done = true;
    }

    /// Reports the damage before the current offset. The keys in it reach up to `to`.
    fn close_gap(&mut self, to: Bound<Bytes>) {
        let Some(start) = self.gap.take() else { return };
        let from = match &self.last {
            Some(last) => Bound::Excluded(Bytes::copy_from(last)),
            None => self.range.from.clone(),
        };
        let what = if self.at > self.table.length || start >= self.table.length {
            "the file is cut off".to_string()
        } else {
            format!("{} bytes of data blocks are damaged", self.at.saturating_sub(start))
        };
        let range = KeyRange { space: self.range.space, from, to };
        let effect = Effect::Lost(vec![range]);
        self.found.push(Finding::new(&self.path, Some(start), &what, effect));
    }
}
