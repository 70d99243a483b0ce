//! The stack of a collection's layouts on top of the store.
//!
//! The layout at level 0 reads stored records; the layout at level n reads the documents of level n
//! - 1. Record keys are the same at every level.

use super::Reader;
use crate::catalog::{Collection, Layouts};
use crate::store_failed;
use patterns::Phase;
use patterns::layout::{Area, Demand, Duplicate, Hidden, RecordCursor, Records, RecordsMut, Span};
use std::borrow::Borrow;
use std::ops::Bound;
use std::sync::Arc;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::{Error, RawDoc, Result};

/// First byte of the keys of a layout's own records, within the state of its pattern.
const OWN: u8 = b'L';

/// The length of a collection's prefix.
const PREFIX: usize = 4;

fn no_layout() -> Error {
    Error::internal("a layout that is not there")
}

/// Returns the record key of a document's key.
fn record(key: &[u8]) -> &[u8] {
    key.get(PREFIX..).unwrap_or(&[])
}

fn documents_key(layouts: &Layouts, record: &[u8]) -> Bytes {
    Bytes::copy_prefixed(layouts.id.to_be_bytes(), record)
}

fn own_key(layouts: &Layouts, level: usize, key: &[u8]) -> Result<Vec<u8>> {
    let (pattern, _) = layouts.at(level).ok_or_else(no_layout)?;
    Ok([pattern.id.to_be_bytes().as_slice(), &[OWN], key].concat())
}

/// What a reader needs.
fn demanded(reader: Option<&Arc<Reader>>) -> &Demand {
    reader.map_or(Demand::WHOLE, |reader| &reader.demand)
}

/// A value that was read for a reader.
fn noted(value: Bytes, reader: Option<&Arc<Reader>>) -> Vec<u8> {
    if let Some(reader) = reader {
        reader.note(&value);
    }
    value.to_vec()
}

pub(super) fn get(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    key: &[u8],
    reader: Option<&Arc<Reader>>,
) -> Result<Option<Bytes>> {
    let found = document(layouts, layouts.count(), snapshot, record(key), reader)?;
    Ok(found.map(Bytes::from))
}

/// Returns a document as built by the layouts below a level.
fn document(
    layouts: &Arc<Layouts>,
    level: usize,
    snapshot: &Snapshot,
    record: &[u8],
    reader: Option<&Arc<Reader>>,
) -> Result<Option<Vec<u8>>> {
    let Some(below) = level.checked_sub(1) else {
        let key = documents_key(layouts, record);
        let found = snapshot.get(Space::Documents, &key).map_err(store_failed)?;
        return Ok(found.map(|bytes| noted(bytes, reader)));
    };
    let (_, layout) = layouts.at(below).ok_or_else(no_layout)?;
    let records = Level { layouts, level: below, snapshot, reader: reader.cloned() };
    layout.get(&records, record, demanded(reader))
}

pub(super) fn scan(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    (from, to): (&[u8], &[u8]),
    direction: Direction,
    reader: Option<&Arc<Reader>>,
) -> Result<Box<dyn RecordCursor>> {
    // A bound before or after the collection's prefix means its first or last document.
    let prefix = layouts.id.to_be_bytes();
    let end = to.strip_prefix(prefix.as_slice()).map(<[u8]>::to_vec);
    let span = Span {
        from: from.strip_prefix(prefix.as_slice()).unwrap_or(&[]).to_vec(),
        to: end,
        backward: direction == Direction::Reverse,
    };
    documents(layouts, layouts.count(), snapshot, &span, reader)
}

/// Opens a range of documents as built by the layouts below a level.
fn documents(
    layouts: &Arc<Layouts>,
    level: usize,
    snapshot: &Snapshot,
    span: &Span,
    reader: Option<&Arc<Reader>>,
) -> Result<Box<dyn RecordCursor>> {
    let Some(below) = level.checked_sub(1) else {
        return StoredRecords::open(snapshot, &layouts.id.to_be_bytes(), span, reader);
    };
    let (_, layout) = layouts.at(below).ok_or_else(no_layout)?;
    let records = Level { layouts, level: below, snapshot, reader: reader.cloned() };
    let demand = demanded(reader);
    if layouts.count() > 1 && demand.filter.is_some() {
        // A layout cannot tell what matches if another one above it stores fields apart.
        let demand = Demand { filter: None, ..demand.clone() };
        return layout.scan(&records, span, &demand);
    }
    layout.scan(&records, span, demand)
}

pub(super) fn put(
    layouts: &Arc<Layouts>,
    snapshot: &mut Snapshot,
    key: &[u8],
    old: Option<RawDoc<'_>>,
    new: RawDoc<'_>,
) -> Result<()> {
    put_at(layouts, layouts.count(), snapshot, record(key), old, new)
}

fn put_at(
    layouts: &Arc<Layouts>,
    level: usize,
    snapshot: &mut Snapshot,
    record: &[u8],
    old: Option<RawDoc<'_>>,
    new: RawDoc<'_>,
) -> Result<()> {
    let Some(below) = level.checked_sub(1) else {
        let key = documents_key(layouts, record);
        snapshot.put(Space::Documents, key, Bytes::copy_from(new.bytes()));
        return Ok(());
    };
    let (pattern, layout) = layouts.at(below).ok_or_else(no_layout)?;
    let mut records = LevelMut { layouts, level: below, snapshot };
    match pattern.is_maintained() {
        true => layout.put(&mut records, record, old, new),
        false => layout.put_plain(&mut records, record, new),
    }
}

pub(super) fn put_part(
    layouts: &Arc<Layouts>,
    snapshot: &mut Snapshot,
    key: &[u8],
    demand: &Demand,
    (old, new): (RawDoc<'_>, RawDoc<'_>),
) -> Result<()> {
    let layout = layouts.part_writer().ok_or_else(no_layout)?;
    let mut records = LevelMut { layouts, level: 0, snapshot };
    layout.put_part(&mut records, record(key), demand, old, new)
}

pub(super) fn records(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    pattern: u32,
) -> Option<Arc<dyn Records>> {
    // Below another layout documents may lack fields.
    let level = layouts.level_of(pattern).filter(|_| layouts.count() == 1)?;
    Some(Level { layouts, level, snapshot, reader: None }.share())
}

pub(super) fn raw(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    level: Option<&str>,
) -> Result<Option<Box<dyn RecordCursor>>> {
    for at in 0..layouts.count() {
        let (pattern, layout) = layouts.at(at).ok_or_else(no_layout)?;
        if pattern.phase.is_current() {
            let records = Level { layouts, level: at, snapshot, reader: None };
            if let Some(found) = layout.raw(&records, level)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

pub(super) fn check_write(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    key: &[u8],
    old: Option<RawDoc<'_>>,
    new: RawDoc<'_>,
) -> Result<()> {
    for level in 0..layouts.count() {
        let (pattern, layout) = layouts.at(level).ok_or_else(no_layout)?;
        if pattern.is_maintained() {
            let records = Level { layouts, level, snapshot, reader: None };
            layout.check_write(&records, record(key), old, new)?;
        }
    }
    Ok(())
}

/// Whether a new document is a duplicate that a layout does not refuse.
///
/// # Errors
/// When the store fails.
pub(super) fn duplicate_of(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    new: RawDoc<'_>,
) -> Result<Option<Duplicate>> {
    for level in 0..layouts.count() {
        let (pattern, layout) = layouts.at(level).ok_or_else(no_layout)?;
        if pattern.phase.is_maintained() {
            let records = Level { layouts, level, snapshot, reader: None };
            if let Some(found) = layout.duplicate_of(&records, new)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

pub(super) fn hidden(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    record: &[u8],
    demand: &Demand,
) -> Result<Option<Hidden>> {
    let layout = layouts.part_writer().ok_or_else(no_layout)?;
    layout.hidden(&Level { layouts, level: 0, snapshot, reader: None }, record, demand)
}

pub(super) fn too_large(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    pattern: u32,
    find: &mut dyn FnMut(RawDoc<'_>),
) -> Result<()> {
    let Some(level) = layouts.level_of(pattern) else { return Ok(()) };
    let (_, layout) = layouts.at(level).ok_or_else(no_layout)?;
    layout.too_large(&Level { layouts, level, snapshot, reader: None }, find)
}

pub(super) fn check_replacement(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    record: &[u8],
    new: RawDoc<'_>,
) -> Result<()> {
    for level in 0..layouts.count() {
        let (pattern, layout) = layouts.at(level).ok_or_else(no_layout)?;
        if pattern.phase.is_maintained() {
            let records = Level { layouts, level, snapshot, reader: None };
            layout.check_replacement(&records, record, new)?;
        }
    }
    Ok(())
}

pub(super) fn put_new(
    layouts: &Arc<Layouts>,
    snapshot: &mut Snapshot,
    documents: &[(Bytes, Vec<u8>)],
) -> Result<()> {
    let (_, layout) = layouts.at(0).ok_or_else(no_layout)?;
    let documents: Vec<(&[u8], RawDoc<'_>)> =
        documents.iter().map(|(key, doc)| (record(key), RawDoc::new(doc))).collect();
    layout.put_new(&mut LevelMut { layouts, level: 0, snapshot }, &documents)
}

pub(super) fn delete_many(
    layouts: &Arc<Layouts>,
    snapshot: &mut Snapshot,
    keys: &[Bytes],
) -> Result<()> {
    let (_, layout) = layouts.at(0).ok_or_else(no_layout)?;
    let keys: Vec<&[u8]> = keys.iter().map(|key| record(key)).collect();
    layout.delete_many(&mut LevelMut { layouts, level: 0, snapshot }, &keys)
}

pub(super) fn delete(layouts: &Arc<Layouts>, snapshot: &mut Snapshot, key: &[u8]) -> Result<()> {
    delete_at(layouts, layouts.count(), snapshot, record(key))
}

fn delete_at(
    layouts: &Arc<Layouts>,
    level: usize,
    snapshot: &mut Snapshot,
    record: &[u8],
) -> Result<()> {
    let Some(below) = level.checked_sub(1) else {
        snapshot.delete(Space::Documents, documents_key(layouts, record));
        return Ok(());
    };
    let (_, layout) = layouts.at(below).ok_or_else(no_layout)?;
    layout.delete(&mut LevelMut { layouts, level: below, snapshot }, record)
}

/// Converts one document into the form of a pattern's layout, or back if the pattern is being
/// removed. The logical document stays the same.
///
/// # Errors
/// When the layout cannot store the document, or when the store fails.
pub fn convert(
    collection: &Collection,
    snapshot: &mut Snapshot,
    pattern: u32,
    record: &[u8],
) -> Result<()> {
    let Some(layouts) = &collection.layouts else { return Ok(()) };
    let Some(level) = layouts.level_of(pattern) else { return Ok(()) };
    let (pattern, layout) = layouts.at(level).ok_or_else(no_layout)?;
    if pattern.phase != Phase::Clearing {
        return layout.convert(&mut LevelMut { layouts, level, snapshot }, record);
    }
    let found = document(layouts, level + 1, snapshot, record, None)?;
    let Some(doc) = found else { return Ok(()) };
    layout.put_plain(&mut LevelMut { layouts, level, snapshot }, record, RawDoc::new(&doc))
}

/// Returns the size of the stored record of a document, if a layout makes it another one than that
/// of the document.
pub(super) fn stored_size(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    key: &[u8],
) -> Result<Option<usize>> {
    let resizes = |level: &usize| layouts.at(*level).is_some_and(|(_, layout)| layout.resizes());
    let Some(level) = (0..layouts.count()).find(resizes) else { return Ok(None) };
    Ok(document(layouts, level, snapshot, record(key), None)?.map(|stored| stored.len()))
}

/// Checks the records of every layout of a collection for contradictions.
///
/// # Errors
/// When the store fails.
pub fn check(
    collection: &Collection,
    snapshot: &Snapshot,
    find: &mut dyn FnMut(String),
) -> Result<()> {
    let Some(layouts) = &collection.layouts else { return Ok(()) };
    for level in 0..layouts.count() {
        let (pattern, layout) = layouts.at(level).ok_or_else(no_layout)?;
        let records = Level { layouts, level, snapshot, reader: None };
        let mut named = |text: String| find(format!("pattern '{}': {text}", pattern.name));
        layout.check(&records, &mut named)?;
    }
    Ok(())
}

/// The records that the layout at a level reads.
struct Level<L, S> {
    layouts: L,
    level: usize,
    snapshot: S,
    /// Whom the documents are read for. Layouts below need not load parts that it does not need.
    reader: Option<Arc<Reader>>,
}

impl<L, S> Records for Level<L, S>
where
    L: Borrow<Arc<Layouts>> + Send + Sync,
    S: Borrow<Snapshot> + Send + Sync,
{
    fn pattern(&self) -> u32 {
        self.layouts.borrow().at(self.level).map_or(0, |(pattern, _)| pattern.id)
    }

    fn get(&self, area: Area, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (layouts, snapshot) = (self.layouts.borrow(), self.snapshot.borrow());
        if area == Area::Documents {
            return document(layouts, self.level, snapshot, key, self.reader.as_ref());
        }
        let key = own_key(layouts, self.level, key)?;
        let found = snapshot.get(Space::Documents, &key).map_err(store_failed)?;
        Ok(found.map(|bytes| noted(bytes, self.reader.as_ref())))
    }

    fn scan(&self, area: Area, span: &Span) -> Result<Box<dyn RecordCursor>> {
        let (layouts, snapshot) = (self.layouts.borrow(), self.snapshot.borrow());
        match area {
            Area::Documents => documents(layouts, self.level, snapshot, span, self.reader.as_ref()),
            Area::Own => {
                let prefix = own_key(layouts, self.level, &[])?;
                StoredRecords::open(snapshot, &prefix, span, self.reader.as_ref())
            }
        }
    }

    fn share(&self) -> Arc<dyn Records> {
        Arc::new(Level {
            layouts: self.layouts.borrow().clone(),
            level: self.level,
            snapshot: self.snapshot.borrow().clone(),
            reader: self.reader.clone(),
        })
    }
}

/// The same in a writing transaction.
struct LevelMut<'t> {
    layouts: &'t Arc<Layouts>,
    level: usize,
    snapshot: &'t mut Snapshot,
}

impl LevelMut<'_> {
    fn read(&self) -> Level<&Arc<Layouts>, &Snapshot> {
        Level { layouts: self.layouts, level: self.level, snapshot: self.snapshot, reader: None }
    }
}

impl Records for LevelMut<'_> {
    fn pattern(&self) -> u32 {
        self.read().pattern()
    }

    fn get(&self, area: Area, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read().get(area, key)
    }

    fn scan(&self, area: Area, span: &Span) -> Result<Box<dyn RecordCursor>> {
        self.read().scan(area, span)
    }

    fn share(&self) -> Arc<dyn Records> {
        self.read().share()
    }
}

impl RecordsMut for LevelMut<'_> {
    fn put(&mut self, area: Area, key: &[u8], value: Vec<u8>) -> Result<()> {
        if area == Area::Documents && self.level > 0 {
            let old = self.get(area, key)?;
            let old = old.as_deref().map(RawDoc::new);
            let new = RawDoc::new(&value);
            return put_at(self.layouts, self.level, self.snapshot, key, old, new);
        }
        let key = match area {
            Area::Documents => documents_key(self.layouts, key),
            Area::Own => own_key(self.layouts, self.level, key)?.into(),
        };
        self.snapshot.put(Space::Documents, key, value.into());
        Ok(())
    }

    fn delete(&mut self, area: Area, key: &[u8]) -> Result<()> {
        match area {
            Area::Documents => delete_at(self.layouts, self.level, self.snapshot, key),
            Area::Own => {
                let key = own_key(self.layouts, self.level, key)?;
                self.snapshot.delete(Space::Documents, key.into());
                Ok(())
            }
        }
    }
}

/// Returns the first key after all keys with a prefix.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if let Some(above) = last.checked_add(1) {
            next.push(above);
            break;
        }
    }
    next
}

/// Records of the store under a prefix; their keys are returned without it.
struct StoredRecords {
    range: Range,
    prefix: usize,
    reader: Option<Arc<Reader>>,
}

impl StoredRecords {
    fn open(
        snapshot: &Snapshot,
        prefix: &[u8],
        span: &Span,
        reader: Option<&Arc<Reader>>,
    ) -> Result<Box<dyn RecordCursor>> {
        let from = [prefix, &span.from].concat();
        let to = match &span.to {
            Some(to) => [prefix, to].concat(),
            None => prefix_end(prefix),
        };
        let (from, to) = (Bound::Included(&*from), Bound::Excluded(&*to));
        let direction = if span.backward { Direction::Reverse } else { Direction::Forward };
        let range = snapshot.range(Space::Documents, from, to, direction).map_err(store_failed)?;
        Ok(Box::new(StoredRecords { range, prefix: prefix.len(), reader: reader.cloned() }))
    }
}

impl RecordCursor for StoredRecords {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let found = self.range.next().map_err(store_failed)?;
        if let (Some((_, value)), Some(reader)) = (&found, &self.reader) {
            reader.note(value);
        }
        Ok(found.map(|(key, value)| (key.get(self.prefix..).unwrap_or(&[]), value)))
    }
}
