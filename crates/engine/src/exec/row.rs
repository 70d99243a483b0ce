//! A document with its record key, and reading one by that key.

use super::Doc;
use crate::catalog::Collection;
use crate::layout::{self, Reader};
use std::sync::Arc;
use store::{Bytes, Snapshot};
use value::{Error, Result};

/// A document and its record key.
pub struct Row {
    /// The record key, without the collection's prefix.
    pub record: Bytes,
    /// The document.
    pub doc: Bytes,
}

/// Returns the document of a record.
///
/// # Errors
/// When the store fails.
pub fn fetch(snapshot: &Snapshot, collection: &Collection, record: Bytes) -> Result<Option<Row>> {
    fetch_part(snapshot, collection, record, None)
}

/// Returns the needed parts of the document of a record.
///
/// # Errors
/// When the store fails.
pub fn fetch_part(
    snapshot: &Snapshot,
    collection: &Collection,
    record: Bytes,
    reader: Option<&Arc<Reader>>,
) -> Result<Option<Row>> {
    let mut key = smallvec::SmallVec::<[u8; 64]>::new();
    key.extend_from_slice(&collection.prefix());
    key.extend_from_slice(&record);
    let doc = layout::get_part(collection, snapshot, &key, reader)?;
    Ok(doc.map(|doc| Row { record, doc }))
}

/// Returns the error for an entry whose document does not exist.
#[cold]
pub(crate) fn dangling(collection: &Collection) -> Error {
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
