//! The union of several scans that have the requested order each: their documents are merged, so
//! that no sort is needed and a limit ends all of them early.

use super::Examined;
use super::scan::{Row, Scan};
use crate::operation::Operation;
use query::sort::SortSpec;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use value::{RawDoc, Result};

/// Scans that are merged.
pub struct UnionScan {
    scans: Vec<Scan>,
    sort: Arc<SortSpec>,
    /// The next document of each scan that has one; the first in order on top. Empty before the
    /// first read.
    heads: BinaryHeap<Reverse<Head>>,
    is_open: bool,
}

struct Head {
    key: Vec<u8>,
    source: usize,
    row: Row,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        self.key.cmp(&other.key).then(self.source.cmp(&other.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl UnionScan {
    /// Merges scans in this order.
    #[must_use]
    pub fn new(scans: Vec<Scan>, sort: Arc<SortSpec>) -> UnionScan {
        UnionScan { scans, sort, heads: BinaryHeap::new(), is_open: false }
    }

    /// Returns the next document. One that several scans find comes several times.
    ///
    /// # Errors
    /// As `Scan::next`, and errors of the sort.
    pub fn next(&mut self, examined: &mut Examined, op: &Operation) -> Result<Option<Row>> {
        if !self.is_open {
            self.is_open = true;
            for source in 0..self.scans.len() {
                self.advance(source, examined, op)?;
            }
        }
        let Some(Reverse(head)) = self.heads.pop() else { return Ok(None) };
        self.advance(head.source, examined, op)?;
        Ok(Some(head.row))
    }

    /// Reads the next document of a scan.
    fn advance(&mut self, source: usize, examined: &mut Examined, op: &Operation) -> Result<()> {
        let Some(scan) = self.scans.get_mut(source) else { return Ok(()) };
        let before = scan.examined();
        let row = scan.next(op)?;
        let now = scan.examined();
        examined.keys += now.keys - before.keys;
        examined.documents += now.documents - before.documents;
        examined.bytes += now.bytes - before.bytes;
        if let Some(row) = row {
            let mut key = Vec::new();
            self.sort.key(RawDoc::new(&row.doc), &mut key)?;
            self.heads.push(Reverse(Head { key, source, row }));
        }
        Ok(())
    }
}
