//! Scans: finding documents by key, by a range of the collection, or by ranges of an index.

use super::columns::{ColumnReader, Columns};
use super::entries::{EntryScan, Reading, damaged};
use super::near::NearScan;
pub(crate) use super::row::dangling;
pub use super::row::{Row, fetch, fetch_part};
use super::union::UnionScan;
use super::walk::WalkScan;
use super::{Consumer, Examined, FieldRead};
use crate::catalog::Collection;
use crate::index::maintain::record_of;
use crate::layout::{MappedRange, Reader};
use crate::operation::Operation;
use crate::planner::cover::{self, Buffers, Made};
use crate::planner::{Access, Candidate, KeyRange};
use crate::records::resolve::{self, Resolver};
use crate::store_failed;
use patterns::layout::Demand;
use std::collections::{HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::{Error, RawDoc, Result};

/// Reads the documents of an access in its order.
pub struct Scan {
    snapshot: Snapshot,
    collection: Arc<Collection>,
    /// The parts still to be read, in order.
    parts: VecDeque<Part>,
    current: Option<Current>,
    /// Records already returned, if an access may find one twice.
    seen: Option<HashSet<Bytes>>,
    /// Number of documents to skip before the first is returned.
    skip: u64,
    examined: Examined,
    /// What makes documents as clients see them, if they are not stored like this.
    resolving: Resolving,
    /// Whether the last row was built from an index entry.
    covered: bool,
    /// The parts of documents that are needed, and what is read for them, if there are layouts.
    reader: Option<Arc<Reader>>,
}

/// Whether clients see the documents of a scan otherwise than they are stored.
enum Resolving {
    /// They see what is stored.
    No,
    /// Not known yet. The first read finds out.
    Perhaps,
    /// They see what this resolver shows.
    By(Box<Resolver>),
}

impl Resolving {
    fn of(collection: &Collection) -> Resolving {
        if resolve::is_needed(collection) { Resolving::Perhaps } else { Resolving::No }
    }
}

/// Minimum number of documents of a collection for parallel reads.
const DOCUMENTS_OF_SPLIT: u64 = 50_000;

enum Part {
    Near(Box<NearScan>),
    Id(Vec<u8>),
    Documents(KeyRange, Direction),
    Entries(Arc<Reading>, KeyRange),
    Merged(Box<Candidate>),
    Walk(Box<WalkScan>),
    Union(Box<UnionScan>),
}

enum Current {
    Near(Box<NearScan>),
    Documents(Range),
    /// Documents that layouts build from stored records.
    Mapped(Box<MappedRange>),
    Entries(Box<EntryScan>),
    Walk(Box<WalkScan>),
    Union(Box<UnionScan>),
}

impl Scan {
    /// Creates a scan, which starts with the first call of `next`.
    #[must_use]
    pub fn new(snapshot: Snapshot, collection: Arc<Collection>, access: &Access) -> Scan {
        let whole = || Arc::new(Reader::new(Demand::WHOLE.clone()));
        let mut scan = Scan {
            snapshot,
            reader: collection.layouts.is_some().then(whole),
            resolving: Resolving::of(&collection),
            collection,
            parts: VecDeque::new(),
            current: None,
            seen: None,
            skip: 0,
            examined: Examined::default(),
            covered: false,
        };
        scan.add(access);
        scan
    }

    /// Creates a scan of a capped collection that continues after a record.
    #[must_use]
    pub fn after(snapshot: Snapshot, collection: Arc<Collection>, record: &[u8]) -> Scan {
        let from = [collection.prefix().as_slice(), record, &[0]].concat();
        let to = (collection.id + 1).to_be_bytes().to_vec();
        let mut scan = Scan::new(snapshot, collection, &Access::Nothing);
        scan.parts.push_back(Part::Documents(KeyRange { from, to }, Direction::Forward));
        scan
    }

    /// Returns the numbers of entries and documents examined so far.
    #[must_use]
    pub fn examined(&self) -> Examined {
        match &self.reader {
            None => self.examined,
            Some(reader) => {
                Examined { documents: reader.records(), bytes: reader.bytes(), ..self.examined }
            }
        }
    }

    /// Returns whether nothing remains to be read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.current.is_none() && self.parts.is_empty()
    }

    /// Returns whether the next document is not adjacent to the last one in the store.
    #[must_use]
    pub fn is_at_seam(&self) -> bool {
        match &self.current {
            Some(Current::Documents(range)) => range.is_at_seam(),
            _ => true,
        }
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
            Access::Walk(walk) => {
                walk.index.uses.fetch_add(1, Ordering::Relaxed);
                self.parts.push_back(Part::Walk(Box::new(WalkScan::new(walk))));
            }
            Access::Either(either) => {
                self.seen = Some(HashSet::new());
                if let Some(sort) = &either.merge {
                    let scan = |branch: &Candidate| {
                        let access = Access::Index(branch.clone());
                        Scan::new(self.snapshot.clone(), self.collection.clone(), &access)
                    };
                    let scans = either.branches.iter().map(scan).collect();
                    let union = Box::new(UnionScan::new(scans, sort.clone()));
                    self.parts.push_back(Part::Union(union));
                    return;
                }
                either.branches.iter().for_each(|branch| self.add_index(branch));
            }
        }
    }

    /// Sets the parts of documents that are needed. Only layouts use this, so `demand` is called
    /// only if there are any. A reader's form and fields that are resolved need whole documents.
    pub fn set_demand(&mut self, demand: impl FnOnce() -> Demand) {
        if self.collection.layouts.is_some() && !resolve::is_needed(&self.collection) {
            self.reader = Some(Arc::new(Reader::new(demand())));
        }
    }

    /// Skips the first documents. Documents found by an index are not fetched.
    pub fn skip(&mut self, count: u64) {
        self.skip = count;
    }

    fn add_index(&mut self, candidate: &Candidate) {
        let Candidate { index, ranges, direction, .. } = candidate;
        index.uses.fetch_add(1, Ordering::Relaxed);
        if index.repeats() && self.seen.is_none() {
            self.seen = Some(HashSet::new());
        }
        if !candidate.merge.is_empty() {
            self.parts.push_back(Part::Merged(Box::new(candidate.clone())));
            return;
        }
        let reading = Reading::of(candidate);
        let mut parts: Vec<Part> = ranges
            .iter()
            .map(|range| match index.is_clustered() {
                true => Part::Documents(range.clone(), *direction),
                false => Part::Entries(reading.clone(), range.clone()),
            })
            .collect();
        if *direction == Direction::Reverse {
            parts.reverse();
        }
        self.parts.extend(parts);
    }

    /// Returns the next document, as clients see it.
    ///
    /// # Errors
    /// When the store fails, an index disagrees with its documents, or the operation is stopped.
    pub fn next(&mut self, op: &Operation) -> Result<Option<Row>> {
        if matches!(self.resolving, Resolving::No) {
            return self.next_stored(op);
        }
        self.open_resolver()?;
        self.covered = false;
        let Some(mut row) = self.next_stored(op)? else { return Ok(None) };
        // Fields of an index are neither resolved nor shown in another form.
        if let (Resolving::By(resolver), false) = (&mut self.resolving, self.covered)
            && let Some(doc) = resolver.show(&self.snapshot, RawDoc::new(&row.doc))?
        {
            row.doc = doc.into_bytes().into();
        }
        Ok(Some(row))
    }

    /// Creates the resolver if documents must be resolved.
    fn open_resolver(&mut self) -> Result<()> {
        if matches!(self.resolving, Resolving::Perhaps) {
            self.resolving = match Resolver::of(&self.collection, &self.snapshot)? {
                Some(resolver) => Resolving::By(resolver),
                None => Resolving::No,
            };
        }
        Ok(())
    }

    /// Returns the next document, as it is stored.
    fn next_stored(&mut self, op: &Operation) -> Result<Option<Row>> {
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
                Some(Current::Walk(walk)) => {
                    let found =
                        walk.next(&self.snapshot, &self.collection, &mut self.examined, op)?;
                    if found.is_none() {
                        self.current = None;
                    }
                    found
                }
                Some(Current::Union(union)) => {
                    let found = union.next(&mut self.examined, op)?;
                    if found.is_none() {
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
                Some(Current::Mapped(range)) => {
                    let Some((key, doc)) = range.next()? else {
                        self.current = None;
                        continue;
                    };
                    self.examined.documents += 1;
                    let record = Bytes::copy_from(key.get(4..).unwrap_or(&[]));
                    Some(Row { record, doc: Bytes::copy_from(doc) })
                }
                Some(Current::Entries(entries)) => {
                    let Some(found) = entries.next(&self.snapshot, &mut self.examined, op)? else {
                        self.current = None;
                        continue;
                    };
                    let record = record_of(&entries.reading.index, &found.key);
                    let record = record.ok_or_else(|| damaged(&entries.reading.index))?;
                    let record = Bytes::copy_from(record);
                    if self.seen.as_mut().is_some_and(|seen| !seen.insert(record.clone())) {
                        continue;
                    }
                    if self.skip > 0 && !found.unsure {
                        self.skip -= 1;
                        continue;
                    }
                    if let Some(cover) = &entries.reading.cover {
                        match cover.document(found.key.get(4..).unwrap_or(&[]), &found.types) {
                            Made::Document(doc) => {
                                self.covered = true;
                                return Ok(Some(Row { record, doc: doc.into() }));
                            }
                            Made::Unknown => {}
                            Made::Damaged => return Err(damaged(&entries.reading.index)),
                        }
                    }
                    let reader = self.reader.as_ref();
                    let row = fetch_part(&self.snapshot, &self.collection, record, reader)?;
                    self.examined.documents += 1;
                    let row = row.ok_or_else(|| dangling(&self.collection))?;
                    if found.unsure && !entries.passes(&row.doc)? {
                        continue;
                    }
                    if self.skip > 0 {
                        self.skip -= 1;
                        continue;
                    }
                    return Ok(Some(row));
                }
            };
            let Some(row) = row else { continue };
            if self.seen.as_mut().is_some_and(|seen| !seen.insert(row.record.clone())) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            return Ok(Some(row));
        }
    }

    /// Returns the next document that passes a test. Other documents cost only a read.
    ///
    /// # Errors
    /// As `next`, and errors of the test.
    pub fn next_where(
        &mut self,
        op: &Operation,
        test: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<Option<Row>> {
        self.open_resolver()?;
        let plain = matches!(self.resolving, Resolving::No);
        loop {
            if let (Some(Current::Documents(range)), None, true) =
                (&mut self.current, &self.seen, plain)
            {
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
            if let (Some(Current::Mapped(range)), None, true) =
                (&mut self.current, &self.seen, plain)
            {
                while let Some((key, doc)) = range.next()? {
                    op.check()?;
                    self.examined.documents += 1;
                    if test(doc)? {
                        let record = Bytes::copy_from(key.get(4..).unwrap_or(&[]));
                        return Ok(Some(Row { record, doc: Bytes::copy_from(doc) }));
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

    /// Whether all documents of the collection are to be read, in the order of their records.
    #[must_use]
    pub fn reads_all(&self) -> bool {
        let (first, end) = (self.collection.prefix(), (self.collection.id + 1).to_be_bytes());
        match self.parts.iter().next() {
            Some(Part::Documents(range, Direction::Forward)) if self.parts.len() == 1 => {
                range.from == first && range.to == end
            }
            _ => false,
        }
    }

    /// Splits a scan that has not begun into parts of about equal size and keeps the first. Only
    /// large collections are split.
    pub fn split(&mut self, parts: usize) -> Vec<Scan> {
        if self.current.is_some()
            || self.seen.is_some()
            || self.skip > 0
            || self.collection.layouts.is_some()
            || self.collection.counters.documents() < DOCUMENTS_OF_SPLIT
        {
            return Vec::new();
        }
        let (space, range, reading) = match self.parts.make_contiguous() {
            [Part::Documents(range, Direction::Forward)] => (Space::Documents, range, None),
            [Part::Entries(reading, range)] if reading.yields_every_entry_forward() => {
                (Space::Indexes, range, Some(reading.clone()))
            }
            _ => return Vec::new(),
        };
        let Ok(keys) = self.snapshot.split(space, &range.from, &range.to, parts) else {
            return Vec::new();
        };
        let ends = keys.iter().skip(1).map(|key| key.to_vec()).chain([range.to.clone()]);
        let ranges: Vec<KeyRange> =
            keys.iter().zip(ends).map(|(from, to)| KeyRange { from: from.to_vec(), to }).collect();
        if let Some(first) = keys.first() {
            range.to = first.to_vec();
        }
        let part = |range| Scan {
            snapshot: self.snapshot.clone(),
            collection: self.collection.clone(),
            parts: VecDeque::from([match &reading {
                None => Part::Documents(range, Direction::Forward),
                Some(reading) => Part::Entries(reading.clone(), range),
            }]),
            current: None,
            seen: None,
            skip: 0,
            examined: Examined::default(),
            resolving: Resolving::of(&self.collection),
            covered: false,
            reader: None,
        };
        ranges.into_iter().map(part).collect()
    }

    /// Passes the remaining documents to `visit`, without reference counts.
    ///
    /// # Errors
    /// As `next`, and errors of `visit`.
    pub fn for_each(
        &mut self,
        op: &Operation,
        visit: impl FnMut(RawDoc<'_>) -> Result<()>,
    ) -> Result<()> {
        self.lend(op, None, &mut Each(visit)).map(|_| ())
    }

    /// Passes the remaining documents to `consumer`: the selected fields if entries have them all,
    /// otherwise whole documents. Returns true if it paused before the end.
    ///
    /// # Errors
    /// As `next`, and errors of `consumer`.
    pub fn lend(
        &mut self,
        op: &Operation,
        wanted: Option<&[FieldRead]>,
        consumer: &mut dyn Consumer,
    ) -> Result<bool> {
        self.open_resolver()?;
        let plain = matches!(self.resolving, Resolving::No);
        loop {
            match (&mut self.current, &mut self.seen) {
                (Some(Current::Documents(range)), None) if self.skip == 0 && plain => {
                    while let Some(block) = range.lend_block().map_err(store_failed)? {
                        for (_, doc) in block {
                            op.check()?;
                            self.examined.documents += 1;
                            consumer.document(RawDoc::new(doc))?;
                        }
                    }
                    self.current = None;
                }
                (Some(Current::Mapped(range)), None) if self.skip == 0 && plain => {
                    while let Some((_, doc)) = range.next()? {
                        op.check()?;
                        self.examined.documents += 1;
                        consumer.document(RawDoc::new(doc))?;
                    }
                    self.current = None;
                }
                (Some(Current::Entries(entries)), seen)
                    if self.skip == 0 && entries.yields_every_entry() =>
                {
                    let mut lender = Lender {
                        snapshot: &self.snapshot,
                        collection: &self.collection,
                        examined: &mut self.examined,
                        reader: self.reader.as_ref(),
                        seen,
                    };
                    if lender.entries(entries, wanted, consumer, op)? {
                        return Ok(true);
                    }
                    self.current = None;
                    if consumer.pause() {
                        return Ok(true);
                    }
                }
                _ => match self.next(op)? {
                    None => return Ok(false),
                    Some(row) => consumer.document(RawDoc::new(&row.doc))?,
                },
            }
        }
    }

    fn point(&mut self, record: &[u8]) -> Result<Option<Row>> {
        let record = Bytes::copy_from(record);
        let row = fetch_part(&self.snapshot, &self.collection, record, self.reader.as_ref())?;
        // An `_id` that is not there has no entry.
        self.examined.keys += u64::from(row.is_some());
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
            Part::Entries(reading, range) => {
                Current::Entries(Box::new(EntryScan::one(&self.snapshot, reading, range)?))
            }
            Part::Merged(candidate) => {
                Current::Entries(Box::new(EntryScan::merged(&self.snapshot, &candidate)?))
            }
            Part::Documents(range, direction) if let Some(layouts) = &self.collection.layouts => {
                let between = (range.from.as_slice(), range.to.as_slice());
                let reader = self.reader.as_ref();
                let range = MappedRange::open(layouts, &self.snapshot, between, direction, reader)?;
                Current::Mapped(Box::new(range))
            }
            Part::Documents(range, direction) => {
                Current::Documents(open(Space::Documents, &range, direction)?)
            }
            Part::Near(scan) => Current::Near(scan),
            Part::Walk(walk) => Current::Walk(walk),
            Part::Union(union) => Current::Union(union),
            Part::Id(_) => return Err(Error::internal("a point has no range")),
        })
    }

    /// Counts the documents that entries refer to, up to `most`, without fetching them. Correct
    /// only if the bounds express the filter exactly.
    ///
    /// # Errors
    /// When the store fails or the operation is stopped.
    pub fn count_entries(mut self, most: Option<u64>, op: &Operation) -> Result<(u64, Examined)> {
        let mut count = 0;
        while let Some(part) = self.parts.pop_front() {
            match self.open(part)? {
                Current::Near(_) | Current::Walk(_) | Current::Union(_) => {
                    return Err(Error::internal("only entries that tell all are counted"));
                }
                Current::Documents(mut range) => {
                    while most != Some(count) && range.next().map_err(store_failed)?.is_some() {
                        op.check()?;
                        self.examined.keys += 1;
                        count += 1;
                    }
                }
                Current::Mapped(mut range) => {
                    while most != Some(count) && range.next()?.is_some() {
                        op.check()?;
                        self.examined.keys += 1;
                        count += 1;
                    }
                }
                Current::Entries(mut entries) => {
                    while most != Some(count)
                        && let Some(found) = entries.next(&self.snapshot, &mut self.examined, op)?
                    {
                        op.check()?;
                        if let Some(seen) = &mut self.seen {
                            let record = record_of(&entries.reading.index, &found.key);
                            let record = record.ok_or_else(|| damaged(&entries.reading.index))?;
                            if !seen.insert(Bytes::copy_from(record)) {
                                continue;
                            }
                        }
                        count += 1;
                    }
                }
            }
        }
        let examined = self.examined();
        Ok((count, examined))
    }
}

/// A consumer of documents only.
struct Each<F>(F);

impl<F: FnMut(RawDoc<'_>) -> Result<()>> Consumer for Each<F> {
    #[inline]
    fn document(&mut self, doc: RawDoc<'_>) -> Result<()> {
        (self.0)(doc)
    }

    fn entry(&mut self, _: Columns<'_>) -> Result<()> {
        Err(Error::internal("fields were lent to someone who wants documents"))
    }
}

/// Passes selected fields of index entries to a consumer.
struct Lender<'s> {
    snapshot: &'s Snapshot,
    collection: &'s Collection,
    examined: &'s mut Examined,
    reader: Option<&'s Arc<Reader>>,
    seen: &'s mut Option<HashSet<Bytes>>,
}

impl Lender<'_> {
    /// Passes entries that have all selected fields. Returns true if it paused.
    fn entries(
        &mut self,
        entries: &mut EntryScan,
        wanted: Option<&[FieldRead]>,
        consumer: &mut dyn Consumer,
        op: &Operation,
    ) -> Result<bool> {
        let Some((index, range, cover)) = entries.plain() else { return Ok(false) };
        let mut columns = wanted.and_then(|wanted| ColumnReader::new(index, wanted));
        let mut buffers = Buffers::default();
        while let Some(block) = range.lend_block().map_err(store_failed)? {
            let mut previous: &[u8] = &[];
            for (entry, types) in block {
                op.check()?;
                self.examined.keys += 1;
                if let Some(seen) = self.seen {
                    let record = record_of(index, entry).ok_or_else(|| damaged(index))?;
                    if !seen.insert(Bytes::copy_from(record)) {
                        continue;
                    }
                }
                let key = entry.get(4..).unwrap_or(&[]);
                // If the entry has no type information, its key is complete and no field is
                // missing.
                if let (Some(columns), true) = (&mut columns, types.is_empty()) {
                    columns.go_to(key, previous).ok_or_else(|| damaged(index))?;
                    previous = key;
                    columns.lend(key, |columns| consumer.entry(columns))?;
                    continue;
                }
                match cover.lend(key, types, &mut buffers) {
                    cover::BorrowedEntry::Document(doc) => consumer.document(RawDoc::new(doc))?,
                    cover::BorrowedEntry::Unknown => {
                        let record = record_of(index, entry).ok_or_else(|| damaged(index))?;
                        let record = Bytes::copy_from(record);
                        let row = fetch_part(self.snapshot, self.collection, record, self.reader)?;
                        self.examined.documents += 1;
                        let row = row.ok_or_else(|| dangling(self.collection))?;
                        consumer.document(RawDoc::new(&row.doc))?;
                    }
                    cover::BorrowedEntry::Damaged => return Err(damaged(index)),
                }
            }
            if consumer.pause() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn whole(collection: &Collection) -> KeyRange {
    KeyRange { from: collection.prefix().to_vec(), to: (collection.id + 1).to_be_bytes().to_vec() }
}
