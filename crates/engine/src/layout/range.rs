//! Ranges of documents in key order, with or without layouts.

use super::{Reader, stack};
use crate::catalog::Layouts;
use crate::store_failed;
use patterns::layout::RecordCursor;
use std::ops::Bound;
use std::sync::Arc;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::Result;

/// Documents of a collection in the order of their keys.
pub enum DocumentRange {
    /// Stored records that are the documents.
    Stored(Range),
    /// Documents that layouts build.
    Mapped(MappedRange),
}

/// Documents that layouts build from stored records.
pub struct MappedRange {
    cursor: Box<dyn RecordCursor>,
    /// The collection's prefix, followed by the record key of the last document.
    key: Vec<u8>,
}

impl MappedRange {
    /// Opens the range of documents between two keys of a collection.
    ///
    /// # Errors
    /// When the store fails.
    pub fn open(
        layouts: &Arc<Layouts>,
        snapshot: &Snapshot,
        between: (&[u8], &[u8]),
        direction: Direction,
        reader: Option<&Arc<Reader>>,
    ) -> Result<MappedRange> {
        let cursor = stack::scan(layouts, snapshot, between, direction, reader)?;
        Ok(MappedRange { cursor, key: layouts.id.to_be_bytes().to_vec() })
    }

    /// Returns the next document and its key (with the collection's prefix), valid until the next
    /// call.
    ///
    /// # Errors
    /// When the store fails, or what is stored is damaged.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((record, doc)) = self.cursor.next()? else { return Ok(None) };
        self.key.truncate(4);
        self.key.extend_from_slice(record);
        Ok(Some((&self.key, doc)))
    }
}

pub(super) fn open(
    layouts: Option<&Arc<Layouts>>,
    snapshot: &Snapshot,
    (from, to): (&[u8], &[u8]),
    direction: Direction,
    reader: Option<&Arc<Reader>>,
) -> Result<DocumentRange> {
    if let Some(layouts) = layouts {
        let mapped = MappedRange::open(layouts, snapshot, (from, to), direction, reader)?;
        return Ok(DocumentRange::Mapped(mapped));
    }
    let (from, to) = (Bound::Included(from), Bound::Excluded(to));
    let range = snapshot.range(Space::Documents, from, to, direction);
    range.map(DocumentRange::Stored).map_err(store_failed)
}

impl DocumentRange {
    /// Returns the next document and its key (with the collection's prefix), valid until the next
    /// call.
    ///
    /// # Errors
    /// When the store fails, or what is stored is damaged.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match self {
            DocumentRange::Stored(range) => range.next().map_err(store_failed),
            DocumentRange::Mapped(range) => range.next(),
        }
    }

    /// Returns the next key and document as handles that outlive the range.
    ///
    /// # Errors
    /// As `next`.
    pub fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        match self {
            DocumentRange::Stored(range) => range.next_entry().map_err(store_failed),
            DocumentRange::Mapped(range) => {
                let found = range.next()?;
                Ok(found.map(|(key, doc)| (Bytes::copy_from(key), Bytes::copy_from(doc))))
            }
        }
    }

    /// Passes the next block of documents with their keys to `visit`. Returns their number, 0 at
    /// the end.
    ///
    /// # Errors
    /// As `next`, and errors of `visit`.
    pub fn visit_block(
        &mut self,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<usize> {
        /// Number of documents that layouts build in one block.
        const MAPPED: usize = 128;
        let mut count = 0;
        match self {
            DocumentRange::Stored(range) => {
                let Some(block) = range.lend_block().map_err(store_failed)? else { return Ok(0) };
                for (key, doc) in block {
                    visit(key, doc)?;
                    count += 1;
                }
            }
            DocumentRange::Mapped(range) => {
                while count < MAPPED
                    && let Some((key, doc)) = range.next()?
                {
                    visit(key, doc)?;
                    count += 1;
                }
            }
        }
        Ok(count)
    }
}
