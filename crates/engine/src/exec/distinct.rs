//! Distinct values from an index: one entry of each value is read, and the others are skipped by a
//! seek.

use super::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::cover::{Cover, Made};
use crate::planner::{Candidate, KeyRange, bounds};
use crate::store_failed;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Direction, Range, Snapshot, Space};
use value::{Code, Error, RawDoc, Result, keys};

/// Entries of one value that are skipped one by one before the scan seeks. A seek costs as much as
/// several steps.
const STEPS: usize = 8;

/// Returns one small document for each value of a field in an index.
pub struct DistinctScan {
    snapshot: Snapshot,
    ranges: VecDeque<KeyRange>,
    direction: Direction,
    current: Option<(Range, KeyRange)>,
    cover: Arc<Cover>,
    /// Whether documents without the field count, as a value of their own.
    keeps_missing: bool,
    /// The directions of the values up to the field.
    columns: Vec<bool>,
    /// The key up to and including the last value.
    last: Vec<u8>,
    examined: Examined,
}

impl DistinctScan {
    /// Creates a scan of a candidate for the values of the field at this column.
    #[must_use]
    pub fn new(snapshot: Snapshot, candidate: &Candidate, column: usize) -> DistinctScan {
        let cover = Arc::new(Cover::only(&candidate.index, column));
        DistinctScan::with(snapshot, candidate, column, cover, false)
    }

    /// Creates a scan of a covered candidate for the first entry of each group by the field at this
    /// column.
    #[must_use]
    pub fn of_groups(snapshot: Snapshot, candidate: &Candidate, column: usize) -> DistinctScan {
        let only = || Arc::new(Cover::only(&candidate.index, column));
        let cover = candidate.cover.clone().unwrap_or_else(only);
        DistinctScan::with(snapshot, candidate, column, cover, true)
    }

    fn with(
        snapshot: Snapshot,
        candidate: &Candidate,
        column: usize,
        cover: Arc<Cover>,
        keeps_missing: bool,
    ) -> DistinctScan {
        candidate.index.uses.fetch_add(1, Ordering::Relaxed);
        let mut ranges: VecDeque<KeyRange> = candidate.ranges.iter().cloned().collect();
        if candidate.direction == Direction::Reverse {
            ranges.make_contiguous().reverse();
        }
        DistinctScan {
            snapshot,
            ranges,
            direction: candidate.direction,
            current: None,
            cover,
            keeps_missing,
            columns: candidate.index.columns.iter().take(column + 1).copied().collect(),
            last: Vec::new(),
            examined: Examined::default(),
        }
    }

    fn open(&mut self, range: KeyRange) -> Result<()> {
        let from = Bound::Included(range.from.as_slice());
        let to = Bound::Excluded(range.to.as_slice());
        let opened =
            self.snapshot.range(Space::Indexes, from, to, self.direction).map_err(store_failed)?;
        self.current = Some((opened, range));
        Ok(())
    }

    /// Returns the length in bytes of an entry's prefix and values up to the field.
    fn length(&self, entry: &[u8]) -> Option<usize> {
        let mut at = 4;
        for descending in &self.columns {
            at += keys::skip(entry.get(at..)?, *descending)?;
        }
        Some(at)
    }
}

impl Stream for DistinctScan {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let mut same = 0;
        loop {
            op.check()?;
            let Some((range, whole)) = &mut self.current else {
                let Some(range) = self.ranges.pop_front() else { return Ok(None) };
                self.open(range)?;
                continue;
            };
            if same >= STEPS {
                let rest = match self.direction {
                    Direction::Forward => {
                        KeyRange { from: bounds::after(&self.last), to: whole.to.clone() }
                    }
                    Direction::Reverse => {
                        KeyRange { from: whole.from.clone(), to: self.last.clone() }
                    }
                };
                same = 0;
                self.open(rest)?;
                continue;
            }
            let Some((entry, types)) = range.next_entry().map_err(store_failed)? else {
                self.current = None;
                continue;
            };
            self.examined.keys += 1;
            if !self.last.is_empty() && entry.starts_with(&self.last) {
                same += 1;
                continue;
            }
            let damaged = || {
                let message = "an entry of an index is not understood; run `motif check`";
                Error::new(Code::DATA_CORRUPTION_DETECTED, message)
            };
            let length = self.length(&entry).ok_or_else(damaged)?;
            self.last = entry.get(..length).unwrap_or(&[]).to_vec();
            match self.cover.document(entry.get(4..).unwrap_or(&[]), &types) {
                Made::Document(doc) if self.keeps_missing || !RawDoc::new(&doc).is_empty() => {
                    return Ok(Some(Doc::Made(doc)));
                }
                // A missing field is not a value. But a later entry of null may be one of a stored
                // null.
                Made::Document(_) | Made::Unknown => self.last.clear(),
                Made::Damaged => return Err(damaged()),
            }
        }
    }

    fn is_done(&self) -> bool {
        self.current.is_none() && self.ranges.is_empty()
    }

    fn examined(&self, total: &mut Examined) {
        total.keys += self.examined.keys;
        total.documents += self.examined.documents;
    }
}
