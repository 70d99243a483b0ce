//! Finding documents: a point, a range of the collection, or ranges of an index.

use super::merge::Merged;
use super::near::NearScan;
use super::{Doc, Examined};
use crate::catalog::{Collection, Index};
use crate::index::maintain::record_of;
use crate::operation::Operation;
use crate::planner::cover::{Buffers, Cover, Lent, Made};
use crate::planner::{Access, Candidate, KeyRange};
use crate::store_failed;
use std::collections::{HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::{Error, Result};

/// A document and the key of its record.
pub struct Row {
    /// The record's key, without the collection's prefix.
    pub record: Bytes,
    /// The document.
    pub doc: Bytes,
}

/// Reads the documents of an access, in its order.
pub struct Scan {
    snapshot: Snapshot,
    collection: Arc<Collection>,
    /// What is still to be read, first to last.
    parts: VecDeque<Part>,
    current: Option<Current>,
    /// Records that were returned already, where an access may find one twice.
    seen: Option<HashSet<Bytes>>,
    examined: Examined,
}

enum Part {
    Near(Box<NearScan>),
    Id(Vec<u8>),
    Documents(KeyRange, Direction),
    Entries(Arc<Index>, KeyRange, Direction, Option<Arc<Cover>>),
    Merged(Box<Candidate>),
}

enum Current {
    Near(Box<NearScan>),
    Documents(Range),
    Entries(Arc<Index>, Entries, Option<Arc<Cover>>),
}

enum Entries {
    One(Range),
    Merged(Box<Merged>),
}

impl Entries {
    fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        match self {
            Entries::One(range) => range.next_entry().map_err(store_failed),
            Entries::Merged(merged) => merged.next_entry(),
        }
    }
}

impl Scan {
    /// A scan that starts when the first document is asked for.
    #[must_use]
    pub fn new(snapshot: Snapshot, collection: Arc<Collection>, access: &Access) -> Scan {
        let mut scan = Scan {
            snapshot,
            collection,
            parts: VecDeque::new(),
            current: None,
            seen: None,
            examined: Examined::default(),
        };
        scan.add(access);
        scan
    }

    /// A scan of a capped collection that goes on behind a record.
    #[must_use]
    pub fn after(snapshot: Snapshot, collection: Arc<Collection>, record: &[u8]) -> Scan {
        let from = [collection.prefix().as_slice(), record, &[0]].concat();
        let to = (collection.id + 1).to_be_bytes().to_vec();
        let mut scan = Scan::new(snapshot, collection, &Access::Nothing);
        scan.parts.push_back(Part::Documents(KeyRange { from, to }, Direction::Forward));
        scan
    }

    /// What was looked at so far.
    #[must_use]
    pub fn examined(&self) -> Examined {
        self.examined
    }

    /// Whether nothing is left to read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.current.is_none() && self.parts.is_empty()
    }

    fn add(&mut self, access: &Access) {
        match access {
            Access::Nothing => {}
            Access::Id(record) => self.parts.push_back(Part::Id(record.clone())),
            Access::Collection(direction) => {
                self.collection.counters.scans.fetch_add(1, Ordering::Relaxed);
                let range = whole(&self.collection);
                self.parts.push_back(Part::Documents(range, *direction));
            }
            Access::Index(candidate) => self.add_index(candidate),
            Access::Near(plan) => {
                let scan = NearScan::new(plan, &self.collection);
                self.parts.push_back(Part::Near(Box::new(scan)));
            }
            Access::Either(accesses) => {
                self.seen = Some(HashSet::new());
                accesses.iter().for_each(|access| self.add(access));
            }
        }
    }

    fn add_index(&mut self, candidate: &Candidate) {
        let Candidate { index, ranges, direction, cover, .. } = candidate;
        index.uses.fetch_add(1, Ordering::Relaxed);
        if index.repeats() && self.seen.is_none() {
            self.seen = Some(HashSet::new());
        }
        if !candidate.merge.is_empty() {
            self.parts.push_back(Part::Merged(Box::new(candidate.clone())));
            return;
        }
        let mut parts: Vec<Part> = ranges
            .iter()
            .map(|range| match index.is_clustered() {
                true => Part::Documents(range.clone(), *direction),
                false => Part::Entries(index.clone(), range.clone(), *direction, cover.clone()),
            })
            .collect();
        if *direction == Direction::Reverse {
            parts.reverse();
        }
        self.parts.extend(parts);
    }

    /// The next document.
    ///
    /// # Errors
    /// When the store fails, an index disagrees with its documents, or the operation is stopped.
    pub fn next(&mut self, op: &Operation) -> Result<Option<Row>> {
        loop {
            op.check()?;
            let row = match &mut self.current {
                None => match self.parts.pop_front() {
                    None => return Ok(None),
                    Some(Part::Id(record)) => self.point(&record)?,
                    Some(part) => {
                        self.current = Some(self.open(part)?);
                        continue;
                    }
                },
                Some(Current::Near(scan)) => {
                    let found =
                        scan.next(&self.snapshot, &self.collection, &mut self.examined, op)?;
                    if found.is_none() || scan.is_done() {
                        self.current = None;
                    }
                    found
                }
                Some(Current::Documents(range)) => {
                    let Some((key, _)) = range.next().map_err(store_failed)? else {
                        self.current = None;
                        continue;
                    };
                    self.examined.documents += 1;
                    let record = Bytes::copy_from(key.get(4..).unwrap_or(&[]));
                    range.own_value().map(|doc| Row { record, doc })
                }
                Some(Current::Entries(index, range, cover)) => {
                    let Some((entry, types)) = range.next_entry()? else {
                        self.current = None;
                        continue;
                    };
                    self.examined.keys += 1;
                    let record = record_of(index, &entry).ok_or_else(|| damaged(index))?;
                    let record = Bytes::copy_from(record);
                    if self.seen.as_mut().is_some_and(|seen| !seen.insert(record.clone())) {
                        continue;
                    }
                    if let Some(cover) = cover {
                        match cover.document(entry.get(4..).unwrap_or(&[]), &types) {
                            Made::Document(doc) => {
                                return Ok(Some(Row { record, doc: doc.into() }));
                            }
                            Made::Unknown => {}
                            Made::Damaged => return Err(damaged(index)),
                        }
                    }
                    let row = fetch(&self.snapshot, &self.collection, record)?;
                    self.examined.documents += 1;
                    return row
                        .map_or_else(|| Err(dangling(&self.collection)), |row| Ok(Some(row)));
                }
            };
            let Some(row) = row else { continue };
            if self.seen.as_mut().is_some_and(|seen| !seen.insert(row.record.clone())) {
                continue;
            }
            return Ok(Some(row));
        }
    }

    /// The next document that passes a test. What does not pass costs no more than reading it.
    ///
    /// # Errors
    /// As `next`, and what the test gives.
    pub fn next_where(
        &mut self,
        op: &Operation,
        test: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<Option<Row>> {
        loop {
            if let (Some(Current::Documents(range)), None) = (&mut self.current, &self.seen) {
                while let Some((key, doc)) = range.next().map_err(store_failed)? {
                    op.check()?;
                    self.examined.documents += 1;
                    if test(doc)? {
                        let record = Bytes::copy_from(key.get(4..).unwrap_or(&[]));
                        return Ok(range.own_value().map(|doc| Row { record, doc }));
                    }
                }
                self.current = None;
            }
            let Some(row) = self.next(op)? else { return Ok(None) };
            if test(&row.doc)? {
                return Ok(Some(row));
            }
        }
    }

    /// Lends the documents that are left to `visit`, without counting references to them.
    ///
    /// # Errors
    /// As `next`, and what `visit` gives.
    pub fn for_each(
        &mut self,
        op: &Operation,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        loop {
            match (&mut self.current, &mut self.seen) {
                (Some(Current::Documents(range)), None) => {
                    while let Some(block) = range.lend_block().map_err(store_failed)? {
                        for (_, doc) in block {
                            op.check()?;
                            self.examined.documents += 1;
                            visit(doc)?;
                        }
                    }
                    self.current = None;
                }
                (Some(Current::Entries(index, Entries::One(range), Some(cover))), seen) => {
                    let mut buffers = Buffers::default();
                    while let Some(block) = range.lend_block().map_err(store_failed)? {
                        for (entry, types) in block {
                            op.check()?;
                            self.examined.keys += 1;
                            if let Some(seen) = seen {
                                let record =
                                    record_of(index, entry).ok_or_else(|| damaged(index))?;
                                if !seen.insert(Bytes::copy_from(record)) {
                                    continue;
                                }
                            }
                            let key = entry.get(4..).unwrap_or(&[]);
                            match cover.lend(key, types, &mut buffers) {
                                Lent::Document(doc) => visit(doc)?,
                                Lent::Unknown => {
                                    let record = record_of(index, entry);
                                    let record = record.ok_or_else(|| damaged(index))?;
                                    let record = Bytes::copy_from(record);
                                    let row = fetch(&self.snapshot, &self.collection, record)?;
                                    self.examined.documents += 1;
                                    let row = row.ok_or_else(|| dangling(&self.collection))?;
                                    visit(&row.doc)?;
                                }
                                Lent::Damaged => return Err(damaged(index)),
                            }
                        }
                    }
                    self.current = None;
                }
                _ => match self.next(op)? {
                    None => return Ok(()),
                    Some(row) => visit(&row.doc)?,
                },
            }
        }
    }

    fn point(&mut self, record: &[u8]) -> Result<Option<Row>> {
        self.examined.keys += 1;
        let row = fetch(&self.snapshot, &self.collection, Bytes::copy_from(record))?;
        self.examined.documents += u64::from(row.is_some());
        Ok(row)
    }

    fn open(&self, part: Part) -> Result<Current> {
        let open = |space, range: &KeyRange, direction| {
            let from = Bound::Included(range.from.as_slice());
            let to = Bound::Excluded(range.to.as_slice());
            self.snapshot.range(space, from, to, direction).map_err(store_failed)
        };
        Ok(match part {
            Part::Entries(index, range, direction, cover) => {
                let opened = open(Space::Indexes, &range, direction)?;
                Current::Entries(index, Entries::One(opened), cover)
            }
            Part::Merged(candidate) => {
                let pairs = candidate.ranges.iter().zip(&candidate.merge);
                let opened = pairs.map(|(range, skip)| {
                    Ok((open(Space::Indexes, range, candidate.direction)?, *skip))
                });
                let opened = opened.collect::<Result<Vec<_>>>()?;
                let merged = Merged::new(opened, candidate.direction)?;
                let Candidate { index, cover, .. } = *candidate;
                Current::Entries(index, Entries::Merged(Box::new(merged)), cover)
            }
            Part::Documents(range, direction) => {
                Current::Documents(open(Space::Documents, &range, direction)?)
            }
            Part::Near(scan) => Current::Near(scan),
            Part::Id(_) => return Err(Error::internal("a point has no range")),
        })
    }

    /// Counts index entries in the ranges without fetching documents: only right when no
    /// document stands in the index twice and the ranges are exactly what is asked for.
    ///
    /// # Errors
    /// When the store fails or the operation is stopped.
    pub fn count_entries(mut self, op: &Operation) -> Result<(u64, Examined)> {
        let mut count = 0;
        while let Some(part) = self.parts.pop_front() {
            match self.open(part)? {
                Current::Near(_) => return Err(Error::internal("distances are not counted")),
                Current::Documents(mut range) => {
                    while range.next().map_err(store_failed)?.is_some() {
                        op.check()?;
                        count += 1;
                    }
                }
                Current::Entries(_, Entries::One(mut range), _) => {
                    while range.next().map_err(store_failed)?.is_some() {
                        op.check()?;
                        count += 1;
                    }
                }
                Current::Entries(_, mut entries, _) => {
                    while entries.next_entry()?.is_some() {
                        op.check()?;
                        count += 1;
                    }
                }
            }
        }
        self.examined.keys = count;
        Ok((count, self.examined))
    }
}

fn whole(collection: &Collection) -> KeyRange {
    KeyRange { from: collection.prefix().to_vec(), to: (collection.id + 1).to_be_bytes().to_vec() }
}

/// The document of a record.
///
/// # Errors
/// When the store fails.
pub fn fetch(snapshot: &Snapshot, collection: &Collection, record: Bytes) -> Result<Option<Row>> {
    let mut key = smallvec::SmallVec::<[u8; 64]>::new();
    key.extend_from_slice(&collection.prefix());
    key.extend_from_slice(&record);
    let doc = snapshot.get(Space::Documents, &key).map_err(store_failed)?;
    Ok(doc.map(|doc| Row { record, doc }))
}

/// How many entries a candidate would read, counted up to a limit.
#[must_use]
pub fn estimate(snapshot: &Snapshot, collection: &Collection, candidate: &Candidate) -> u64 {
    const LIMIT: u64 = 128;
    let space = if candidate.index.is_clustered() { Space::Documents } else { Space::Indexes };
    let mut count = 0;
    for (at, range) in candidate.ranges.iter().enumerate() {
        let from = Bound::Included(range.from.as_slice());
        let to = Bound::Excluded(range.to.as_slice());
        let Ok(mut entries) = snapshot.range(space, from, to, Direction::Forward) else { break };
        while let Ok(Some(_)) = entries.next() {
            count += 1;
            if count >= LIMIT {
                // Not counted further: what is unbounded is worse than what is bounded.
                let whole = collection.counters.documents();
                let share = 1_u64 << (2 * (candidate.bounded as u32).min(8));
                let left = (candidate.ranges.len() - at) as u64;
                return LIMIT.max(whole / share).saturating_add(left);
            }
        }
    }
    count
}

#[cold]
fn damaged(index: &Index) -> Error {
    Error::new(
        value::Code::DATA_CORRUPTION_DETECTED,
        format!("an entry of index '{}' is not understood; run `motif check`", index.name),
    )
}

#[cold]
fn dangling(collection: &Collection) -> Error {
    Error::new(
        value::Code::DATA_CORRUPTION_DETECTED,
        format!(
            "an index entry of {} points to a document that is not there; run `motif check`",
            collection.namespace()
        ),
    )
}

impl From<Row> for Doc {
    fn from(row: Row) -> Doc {
        Doc::Stored(row.doc)
    }
}
