//! Creation of collections: implicitly by a write, and inside transactions.

use crate::catalog::{Catalog, Collection, change};
use crate::namespace;
use crate::operation::Operation;
use crate::txn::{Data, Transaction, write_conflict};
use std::sync::Arc;
use store::Batch;
use value::{DocBuf, Result};

/// Returns the collection of a write, and creates it with default options if it does not exist.
///
/// # Errors
/// InvalidNamespace, or any error of creating it.
pub(crate) fn ensure_collection(
    data: &Data,
    op: &Operation,
    db: &str,
    name: &str,
) -> Result<Arc<Collection>> {
    if op.is_in_transaction() {
        return op.with_transaction(|txn| match txn.catalog.get(db, name) {
            Some(collection) => Ok(collection.clone()),
            None => create_within(data, txn, db, name, DocBuf::new()),
        });
    }
    if let Some(collection) = data.collection(db, name) {
        return Ok(collection);
    }
    namespace::check_new_collection(db, name)?;
    data.change_catalog(|catalog, batch| match catalog.get(db, name) {
        Some(collection) => Ok(collection.clone()),
        None => change::create(&data.ids, catalog, batch, db, name, DocBuf::new()),
    })
}

/// Creates a collection inside a transaction. Others see it after the commit.
///
/// # Errors
/// InvalidNamespace, or WriteConflict if another client created it after the transaction began.
pub(crate) fn create_within(
    data: &Data,
    txn: &mut Transaction,
    db: &str,
    name: &str,
    options: DocBuf,
) -> Result<Arc<Collection>> {
    namespace::check_new_collection(db, name)?;
    if data.collection(db, name).is_some() {
        return Err(write_conflict());
    }
    let mut catalog = Catalog::clone(&txn.catalog);
    let mut batch = Batch::new();
    let made = change::create(&data.ids, &mut catalog, &mut batch, db, name, options)?;
    txn.adopt(catalog, &batch, made.clone());
    Ok(made)
}
