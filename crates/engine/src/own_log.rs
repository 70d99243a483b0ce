//! Capped collections that the server itself writes: the profile of a database, and the list of
//! starts.
//!
//! Layer: service.

use crate::catalog::{Collection, change};
use crate::exec::write;
use crate::txn::Data;
use std::sync::Arc;
use store::Seqno;
use value::{DocBuf, Result};

/// Returns a capped collection of the server; creates it with this size in bytes if it does not exist.
///
/// # Errors
/// Errors of the catalog.
pub(crate) fn ensure(data: &Data, db: &str, name: &str, bytes: i64) -> Result<Arc<Collection>> {
    if let Some(collection) = data.collection(db, name) {
        return Ok(collection);
    }
    data.change_catalog(|catalog, batch| match catalog.get(db, name) {
        Some(collection) => Ok(collection.clone()),
        None => {
            let options = DocBuf::build(|out| {
                out.bool("capped", true).i64("size", bytes);
            });
            change::create(&data.ids, catalog, batch, db, name, options)
        }
    })
}

/// Appends a document to a capped collection, which is created with this size in bytes if it does
/// not exist. A view of that name is left alone. Returns the commit, which nobody waits for here.
///
/// # Errors
/// Errors of the write.
pub(crate) fn append(
    data: &Data,
    db: &str,
    name: &str,
    bytes: i64,
    doc: &DocBuf,
) -> Result<Option<Seqno>> {
    let collection = ensure(data, db, name, bytes)?;
    if collection.view().is_some() {
        return Ok(None);
    }
    let ((), seqno) = data.transact_alone(&|| Ok(()), collection.capped().is_some(), |txn| {
        let Some(collection) = txn.catalog.get(db, name).cloned() else { return Ok(()) };
        write::insert(txn, &collection, doc.as_doc())?;
        write::trim_capped(txn, &collection)
    })?;
    Ok(Some(seqno))
}
