//! Conversion between logical documents and stored records.
//!
//! All layers above (plans, stages, indexes, patterns, the change log) use logical documents under
//! the keys `collection prefix, record key`. They read and write them here: [`get`], [`range`],
//! [`put`], [`delete`]. A collection without layouts accesses the store directly. For one with
//! layouts, `stack` calls them (`patterns::layout`), the topmost first. `exec/scan` has its own
//! loop over the store's blocks and decides once per scan which case applies.
//!
//! Fields that are not stored but resolved from other documents (`records/resolve`) are added above
//! this layer.
//!
//! Layer: catalog.

mod range;
mod reader;
mod stack;

pub use range::{DocumentRange, MappedRange};
pub use reader::Reader;
pub use stack::{check, convert};

use crate::catalog::{Collection, Layouts};
use crate::store_failed;
use patterns::layout::{Demand, Duplicate, Hidden, RecordCursor, Records};
use std::sync::Arc;
use store::{Bytes, Direction, Snapshot, Space};
use value::{RawDoc, Result};

/// Returns a document by its key (with the collection's prefix).
///
/// # Errors
/// When the store fails.
#[inline]
pub fn get(collection: &Collection, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Bytes>> {
    get_part(collection, snapshot, key, None)
}

/// Returns the needed parts of a document by its key.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn get_part(
    collection: &Collection,
    snapshot: &Snapshot,
    key: &[u8],
    reader: Option<&Arc<Reader>>,
) -> Result<Option<Bytes>> {
    match &collection.layouts {
        None => snapshot.get(Space::Documents, key).map_err(store_failed),
        Some(layouts) => stack::get(layouts, snapshot, key, reader),
    }
}

/// Returns a document by its key, for a transaction that will write it.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn get_to_write(
    collection: &Collection,
    snapshot: &Snapshot,
    key: &[u8],
) -> Result<Option<Bytes>> {
    get_to_write_in(collection.layouts.as_ref(), snapshot, key)
}

/// Returns a document by its key, given only the layouts.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn get_to_write_in(
    layouts: Option<&Arc<Layouts>>,
    snapshot: &Snapshot,
    key: &[u8],
) -> Result<Option<Bytes>> {
    match layouts {
        None => snapshot.get_to_write(Space::Documents, key).map_err(store_failed),
        Some(layouts) => stack::get(layouts, snapshot, key, None),
    }
}

/// Opens the range of documents from one key up to another, exclusive; both have the collection's
/// prefix.
///
/// # Errors
/// When the store fails.
pub fn range(
    collection: &Collection,
    snapshot: &Snapshot,
    from: &[u8],
    to: &[u8],
    direction: Direction,
) -> Result<DocumentRange> {
    range::open(collection.layouts.as_ref(), snapshot, (from, to), direction, None)
}

/// Opens a range of documents of which only some paths are read.
///
/// # Errors
/// When the store fails.
pub fn range_part(
    collection: &Collection,
    snapshot: &Snapshot,
    (from, to): (&[u8], &[u8]),
    direction: Direction,
    demand: impl FnOnce() -> Demand,
) -> Result<DocumentRange> {
    let layouts = collection.layouts.as_ref();
    let reader = layouts.map(|_| Arc::new(Reader::new(demand())));
    range::open(layouts, snapshot, (from, to), direction, reader.as_ref())
}

/// Opens an ascending range of documents, given only the layouts.
///
/// # Errors
/// When the store fails.
pub fn range_in(
    layouts: Option<&Arc<Layouts>>,
    snapshot: &Snapshot,
    from: &[u8],
    to: &[u8],
) -> Result<DocumentRange> {
    range::open(layouts, snapshot, (from, to), Direction::Forward, None)
}

/// Opens the range of all documents of a collection, in key order.
///
/// # Errors
/// When the store fails.
pub fn all(collection: &Collection, snapshot: &Snapshot) -> Result<DocumentRange> {
    let to = (collection.id + 1).to_be_bytes();
    range(collection, snapshot, &collection.prefix(), &to, Direction::Forward)
}

/// Stores a document under its key; `old` is its previous image, `None` for a new document.
///
/// # Errors
/// When a layout cannot store the document, or when the store fails.
#[inline]
pub fn put(
    collection: &Collection,
    snapshot: &mut Snapshot,
    key: Bytes,
    old: Option<RawDoc<'_>>,
    new: RawDoc<'_>,
) -> Result<()> {
    match &collection.layouts {
        None => {
            snapshot.put(Space::Documents, key, Bytes::copy_from(new.bytes()));
            Ok(())
        }
        Some(layouts) => stack::put(layouts, snapshot, &key, old, new),
    }
}

/// Stores the change of a document that was read in part, with this demand. The layout writes parts
/// (`Layouts::writes_parts`).
///
/// # Errors
/// As `put`.
pub fn put_part(
    collection: &Collection,
    snapshot: &mut Snapshot,
    key: &[u8],
    demand: &Demand,
    (old, new): (RawDoc<'_>, RawDoc<'_>),
) -> Result<()> {
    match &collection.layouts {
        None => Err(value::Error::internal("a document without layouts is never a part")),
        Some(layouts) => stack::put_part(layouts, snapshot, key, demand, (old, new)),
    }
}

/// Returns the size of the whole document of one that was read in part, with this demand.
#[must_use]
pub fn whole_size(collection: &Collection, part: RawDoc<'_>, demand: &Demand) -> usize {
    let layout = collection.layouts.as_ref().and_then(|layouts| layouts.part_writer());
    layout.map_or(part.bytes().len(), |layout| layout.whole_size(part, demand))
}

/// Returns how many bytes of a document count for its collection: those of the document, or of its
/// record where a layout says so (`Layout::resizes`).
///
/// # Errors
/// When the store fails.
pub fn counted_size(
    collection: &Collection,
    snapshot: &Snapshot,
    key: &[u8],
    doc: RawDoc<'_>,
) -> Result<i64> {
    let stored = match &collection.layouts {
        None => None,
        Some(layouts) => stack::stored_size(layouts, snapshot, key)?,
    };
    Ok(stored.unwrap_or(doc.bytes().len()) as i64)
}

/// Returns what a document that was read in part, with this demand, lacks of an array.
///
/// # Errors
/// When the store fails.
pub fn hidden(
    collection: &Collection,
    snapshot: &Snapshot,
    record: &[u8],
    demand: &Demand,
) -> Result<Option<Hidden>> {
    match &collection.layouts {
        Some(layouts) if demand.tail.is_some() => stack::hidden(layouts, snapshot, record, demand),
        _ => Ok(None),
    }
}

/// Finds the documents, as they are stored, that would be too large without the layout of a pattern.
///
/// # Errors
/// When the store fails.
pub fn too_large(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    pattern: u32,
    find: &mut dyn FnMut(RawDoc<'_>),
) -> Result<()> {
    stack::too_large(layouts, snapshot, pattern, find)
}

/// Returns how many bytes of a document that was read with a demand do not count for the limit of
/// documents.
#[must_use]
pub fn uncounted(collection: &Collection, doc: RawDoc<'_>, demand: &Demand) -> usize {
    let layouts = collection.layouts.as_ref();
    layouts.map_or(0, |layouts| layouts.in_use().map(|layout| layout.uncounted(doc, demand)).sum())
}

/// Returns the records of a collection as the layout of a pattern reads them.
#[must_use]
pub fn records(
    layouts: &Arc<Layouts>,
    snapshot: &Snapshot,
    pattern: u32,
) -> Option<Arc<dyn Records>> {
    stack::records(layouts, snapshot, pattern)
}

/// Opens the stored records of a collection as clients may ask for them, or the statistics of a
/// level. `None` if no layout has such a view.
///
/// # Errors
/// BadValue for an unknown level; when the store fails.
pub fn raw(
    collection: &Collection,
    snapshot: &Snapshot,
    level: Option<&str>,
) -> Result<Option<Box<dyn RecordCursor>>> {
    match &collection.layouts {
        None => Ok(None),
        Some(layouts) => stack::raw(layouts, snapshot, level),
    }
}

/// Whether a new document is a duplicate that the layouts do not refuse, and what becomes of it.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn duplicate_of(
    collection: &Collection,
    snapshot: &Snapshot,
    new: RawDoc<'_>,
) -> Result<Option<Duplicate>> {
    match &collection.layouts {
        None => Ok(None),
        Some(layouts) => stack::duplicate_of(layouts, snapshot, new),
    }
}

/// Refuses to replace a document by one that a client sent and that has lost what readers do not see.
///
/// # Errors
/// PatternViolation; when the store fails.
pub fn check_replacement(
    collection: &Collection,
    snapshot: &Snapshot,
    record: &[u8],
    new: RawDoc<'_>,
) -> Result<()> {
    match &collection.layouts {
        None => Ok(()),
        Some(layouts) => stack::check_replacement(layouts, snapshot, record, new),
    }
}

/// Refuses a document that the layouts must not store, before anything of it is written.
///
/// # Errors
/// DuplicateKey or PatternViolation; when the store fails.
#[inline]
pub fn check_write(
    collection: &Collection,
    snapshot: &Snapshot,
    key: &[u8],
    old: Option<RawDoc<'_>>,
    new: RawDoc<'_>,
) -> Result<()> {
    match &collection.layouts {
        None => Ok(()),
        Some(layouts) => stack::check_write(layouts, snapshot, key, old, new),
    }
}

/// Stores several new documents under their keys, in a collection whose only layout puts many into
/// one record.
///
/// # Errors
/// When the layout cannot store the documents, or when the store fails.
pub fn put_new(
    layouts: &Arc<Layouts>,
    snapshot: &mut Snapshot,
    documents: &[(Bytes, Vec<u8>)],
) -> Result<()> {
    stack::put_new(layouts, snapshot, documents)
}

/// Removes several documents of such a collection.
///
/// # Errors
/// When the store fails.
pub fn delete_many(layouts: &Arc<Layouts>, snapshot: &mut Snapshot, keys: &[Bytes]) -> Result<()> {
    stack::delete_many(layouts, snapshot, keys)
}

/// Removes a document.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn delete(collection: &Collection, snapshot: &mut Snapshot, key: Bytes) -> Result<()> {
    match &collection.layouts {
        None => {
            snapshot.delete(Space::Documents, key);
            Ok(())
        }
        Some(layouts) => stack::delete(layouts, snapshot, &key),
    }
}
