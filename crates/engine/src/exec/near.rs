//! Documents in order of distance from a point. The index is read in growing rings until enough
//! documents are found. The documents of a ring are returned in order.

use super::Examined;
use super::scan::{Row, fetch};
use crate::catalog::Collection;
use crate::index::maintain::record_of;
use crate::operation::Operation;
use crate::planner::{KeyRange, NearPlan};
use crate::store_failed;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use store::{Bytes, Direction, Snapshot, Space};
use value::{Error, RawDoc, Result};

/// Number of documents per ring from which on the rings grow slowly.
const ENOUGH: usize = 32;

/// A document that was found, ordered by its distance.
struct FoundDocument {
    distance: f64,
    arrived: u64,
    row: Row,
}

impl PartialEq for FoundDocument {
    fn eq(&self, other: &FoundDocument) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FoundDocument {}

impl PartialOrd for FoundDocument {
    fn partial_cmp(&self, other: &FoundDocument) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FoundDocument {
    fn cmp(&self, other: &FoundDocument) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.arrived.cmp(&other.arrived))
    }
}

/// Reads documents in ascending order of distance.
pub(super) struct NearScan {
    plan: Box<NearPlan>,
    /// Documents that were found and not returned yet.
    found: BinaryHeap<Reverse<FoundDocument>>,
    seen: HashSet<Bytes>,
    /// All documents within this distance were found.
    reached: f64,
    /// The outer distance of the next ring.
    next: f64,
    done: bool,
}

impl NearScan {
    pub(super) fn new(plan: &NearPlan, collection: &Collection) -> NearScan {
        // The first ring would hold a few documents if they were evenly distributed. They seldom
        // are, so it is smaller.
        let documents = collection.counters.documents().max(1) as f64;
        let start = plan.largest() * (20.0 / documents).sqrt().min(1.0) / 64.0;
        NearScan {
            plan: Box::new(plan.clone()),
            found: BinaryHeap::new(),
            seen: HashSet::new(),
            reached: 0.0,
            next: start.max(plan.near.min),
            done: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done && self.found.is_empty()
    }

    pub(super) fn next(
        &mut self,
        snapshot: &Snapshot,
        collection: &Arc<Collection>,
        examined: &mut Examined,
        op: &Operation,
    ) -> Result<Option<Row>> {
        loop {
            let ready = self
                .found
                .peek()
                .is_some_and(|Reverse(found)| self.done || found.distance <= self.reached);
            if ready {
                return Ok(self.found.pop().map(|Reverse(found)| found.row));
            }
            if self.done {
                return Ok(None);
            }
            self.widen(snapshot, collection, examined, op)?;
        }
    }

    fn widen(
        &mut self,
        snapshot: &Snapshot,
        collection: &Arc<Collection>,
        examined: &mut Examined,
        op: &Operation,
    ) -> Result<()> {
        let largest = self.plan.largest();
        let radius = self.next.min(largest);
        let before = self.found.len();
        let narrowed = if radius < largest || self.plan.near.max < f64::MAX {
            self.plan.ranges(radius)
        } else {
            None
        };
        self.done = radius >= largest || narrowed.is_none();
        for range in narrowed.unwrap_or_else(|| self.plan.whole()) {
            self.read(&range, snapshot, collection, examined, op)?;
        }
        self.reached = radius;
        let grown = self.found.len().saturating_sub(before);
        self.next = radius * if grown < ENOUGH { 4.0 } else { 1.6 };
        Ok(())
    }

    fn read(
        &mut self,
        range: &KeyRange,
        snapshot: &Snapshot,
        collection: &Arc<Collection>,
        examined: &mut Examined,
        op: &Operation,
    ) -> Result<()> {
        let from = Bound::Included(range.from.as_slice());
        let to = Bound::Excluded(range.to.as_slice());
        let mut entries =
            snapshot.range(Space::Indexes, from, to, Direction::Forward).map_err(store_failed)?;
        while let Some((entry, _)) = entries.next_entry().map_err(store_failed)? {
            op.check()?;
            examined.keys += 1;
            if !self.plan.accepts(&entry) {
                continue;
            }
            let damaged = || Error::internal("an entry of a geospatial index is not understood");
            let record = record_of(&self.plan.index, &entry).ok_or_else(damaged)?;
            if self.seen.contains(record) {
                continue;
            }
            let record = Bytes::copy_from(record);
            self.seen.insert(record.clone());
            let Some(row) = fetch(snapshot, collection, record)? else { return Err(damaged()) };
            examined.documents += 1;
            let near = &self.plan.near;
            let distance = near.distance_of(&self.plan.path, RawDoc::new(&row.doc))?;
            if let Some(distance) = distance.filter(|distance| near.accepts(*distance)) {
                let arrived = examined.keys;
                self.found.push(Reverse(FoundDocument { distance, arrived, row }));
            }
        }
        Ok(())
    }
}
