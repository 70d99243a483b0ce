//! Distinct values from an index: an entry of each value is read, the others are jumped over.

use super::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::cover::{Cover, Made};
use crate::planner::{Candidate, KeyRange, bounds};
use crate::store_failed;
use std::collections::VecDeque;
use std::ops::Bound;
use store::{Direction, Range, Snapshot, Space};
use value::{Code, Error, RawDoc, Result, keys};

/// Entries of one value that are stepped over before the scan jumps: a jump costs several steps.
const STEPS: usize = 8;

/// Reads one small document for each value of a field that an index holds.
pub struct DistinctScan {
    snapshot: Snapshot,
    ranges: VecDeque<KeyRange>,
    current: Option<(Range, KeyRange)>,
    cover: Cover,
    /// The directions of the values up to the field.
    columns: Vec<bool>,
    /// The key of the last value, with all that stands before it.
    last: Vec<u8>,
    examined: Examined,
}

impl DistinctScan {
    /// A scan of a candidate for the field at this column.
    #[must_use]
    pub fn new(snapshot: Snapshot, candidate: &Candidate, column: usize) -> DistinctScan {
        DistinctScan {
            snapshot,
            ranges: candidate.ranges.iter().cloned().collect(),
            current: None,
            cover: Cover::only(&candidate.index, column),
            columns: candidate.index.columns.iter().take(column + 1).copied().collect(),
            last: Vec::new(),
            examined: Examined::default(),
        }
    }

    fn open(&mut self, range: KeyRange) -> Result<()> {
        let from = Bound::Included(range.from.as_slice());
        let to = Bound::Excluded(range.to.as_slice());
        let opened = self
            .snapshot
            .range(Space::Indexes, from, to, Direction::Forward)
            .map_err(store_failed)?;
        self.current = Some((opened, range));
        Ok(())
    }

    /// How many bytes of an entry the index's prefix and the values up to the field take.
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
                let rest = KeyRange { from: bounds::after(&self.last), to: whole.to.clone() };
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
                Made::Document(doc) if !RawDoc::new(&doc).is_empty() => {
                    return Ok(Some(Doc::Made(doc)));
                }
                // Nothing stands there: that is no value. But among the entries of null that
                // follow, one may be of a null that is there.
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
