//! Where logical documents become stored records, and back.
//!
//! Everything above here (plans, stages, indexes, patterns, the change log) knows logical documents
//! under the keys `collection prefix, record key`. Whoever reads or writes one comes through here:
//! [`get`], [`range`], [`put`], [`delete`]. A collection without layouts reaches the store at once. For
//! one with layouts, `stack` calls them (`patterns::layout`), the topmost first. `exec/scan` keeps its
//! own loop over the store's blocks and asks once per scan which of the two it has.
//!
//! Fields that are not stored at all but resolved from other documents (`exec/resolve`) are added
//! above this.
//!
//! Layer: catalog.

mod range;
mod stack;

pub use range::{DocumentRange, MappedRange};
pub use stack::{check, convert};

use crate::catalog::{Collection, Layouts};
use crate::store_failed;
use patterns::layout::Demand;
use std::sync::Arc;
use store::{Bytes, Direction, Snapshot, Space};
use value::{RawDoc, Result};

/// A document by its key (with the collection's prefix).
///
/// # Errors
/// When the store fails.
#[inline]
pub fn get(collection: &Collection, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Bytes>> {
    get_part(collection, snapshot, key, None)
}

/// A document by its key, for a reader that may not need all of it.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn get_part(
    collection: &Collection,
    snapshot: &Snapshot,
    key: &[u8],
    demand: Option<&Arc<Demand>>,
) -> Result<Option<Bytes>> {
    match &collection.layouts {
        None => snapshot.get(Space::Documents, key).map_err(store_failed),
        Some(layouts) => stack::get(layouts, snapshot, key, demand),
    }
}

/// A document by its key, for who is about to write it.
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

/// The same for who knows the layouts alone.
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

/// The documents from one key to another, which is not included; both with the collection's prefix.
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
    range::open(collection.layouts.as_ref(), snapshot, (from, to), direction)
}

/// The same for who knows the layouts alone, forward.
///
/// # Errors
/// When the store fails.
pub fn range_in(
    layouts: Option<&Arc<Layouts>>,
    snapshot: &Snapshot,
    from: &[u8],
    to: &[u8],
) -> Result<DocumentRange> {
    range::open(layouts, snapshot, (from, to), Direction::Forward)
}

/// All documents of a collection, in the order of their keys.
///
/// # Errors
/// When the store fails.
pub fn all(collection: &Collection, snapshot: &Snapshot) -> Result<DocumentRange> {
    let to = (collection.id + 1).to_be_bytes();
    range(collection, snapshot, &collection.prefix(), &to, Direction::Forward)
}

/// Stores a document under its key; `old` is its image before, `None` for a new one.
///
/// # Errors
/// What a layout cannot store, or when the store fails.
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
