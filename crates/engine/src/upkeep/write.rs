//! Client writes: insert, replace and delete one document inside a transaction, with its pattern
//! updates. Collections without patterns pay one check.

use crate::catalog::Collection;
use crate::layout;
pub(crate) use crate::records::write::*;
use crate::txn::{DocumentWrite, Transaction};
use ::patterns::Origin;
use ::patterns::layout::Duplicate;
use query::update::delta::LoggedUpdate;
use std::sync::Arc;
use store::{Bytes, Direction};
use value::{DocBuf, RawDoc, Result, Val};

/// Inserts a prepared document.
///
/// # Errors
/// DuplicateKey, or errors of the indexes or patterns.
pub fn insert(txn: &mut Transaction, collection: &Arc<Collection>, doc: RawDoc<'_>) -> Result<()> {
    insert_image(txn, collection, doc).map(drop)
}

/// Inserts a prepared document. Returns the stored document, if a pattern changed it.
///
/// # Errors
/// As `insert`.
pub fn insert_image(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    doc: RawDoc<'_>,
) -> Result<Option<DocBuf>> {
    let record =
        keeps_effects(txn).then(|| record_of_id(collection, doc.get("_id").unwrap_or(Val::Null)));
    if let Some(record) = record {
        txn.work.record(collection, &record, DocumentWrite::Insert(doc.into()));
    }
    match layout::duplicate_of(collection, &txn.snapshot, doc)? {
        None => insert_new(txn, collection, doc),
        Some(Duplicate::Keep) => Ok(None),
        Some(Duplicate::Replace(other)) => insert_instead(txn, collection, &other, doc),
    }
}

/// Inserts a document instead of another one, which stays if the new one is refused.
fn insert_instead(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    other: &[u8],
    doc: RawDoc<'_>,
) -> Result<Option<DocBuf>> {
    let key = document_key(collection, other);
    let Some(old) = txn.document(collection, &key)? else {
        return insert_new(txn, collection, doc);
    };
    remove(txn, collection, other, RawDoc::new(&old))?;
    let inserted = insert_new(txn, collection, doc);
    if inserted.is_err() {
        insert_new(txn, collection, RawDoc::new(&old))?;
    }
    inserted
}

fn insert_new(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    doc: RawDoc<'_>,
) -> Result<Option<DocBuf>> {
    match &collection.patterns {
        Some(bound) if !super::bypasses_patterns(txn, collection, bound, None)? => {
            super::insert(txn, collection, bound, doc, Origin::Client)
        }
        _ => insert_plain(txn, collection, doc).map(|()| None),
    }
}

/// Returns whether the writes of a transaction must be repeated at commit. With patterns, its
/// derived values may be out of date by then.
fn keeps_effects(txn: &Transaction) -> bool {
    txn.is_of_session() && txn.catalog.databases.values().any(|db| !db.patterns.is_empty())
}

/// Replaces a document by its new image with the same `_id`. The change log records it as `logged`.
/// Returns the stored document, if a pattern changed it.
///
/// # Errors
/// DuplicateKey, or errors of the indexes or patterns.
pub fn replace(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
    new: &DocBuf,
    logged: &LoggedUpdate,
) -> Result<Option<DocBuf>> {
    if keeps_effects(txn) {
        let kept = super::replayed_image(txn, collection, old, new)?;
        txn.work.record(collection, record, DocumentWrite::Replace(kept, logged.clone()));
    }
    match &collection.patterns {
        Some(bound) if !super::bypasses_patterns(txn, collection, bound, Some(old))? => {
            let change = super::Change { record, old, logged: Some(logged) };
            super::replace(txn, collection, bound, &change, new, Origin::Client).map(Some)
        }
        _ => replace_plain(txn, collection, record, old, new, logged).map(|()| None),
    }
}

/// Whether [`replace_shared`] may replace documents of a collection.
#[must_use]
pub fn takes_shared(txn: &Transaction, collection: &Collection) -> bool {
    !keeps_effects(txn)
        && collection.patterns.is_none()
        && collection.layouts.is_none()
        && collection.form.is_none()
}

/// Deletes a document.
///
/// # Errors
/// When the store fails or a pattern refuses it.
pub fn delete(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
) -> Result<()> {
    if keeps_effects(txn) {
        txn.work.record(collection, record, DocumentWrite::Delete);
    }
    remove(txn, collection, record, old)
}

fn remove(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
) -> Result<()> {
    match &collection.patterns {
        Some(bound) if !super::bypasses_patterns(txn, collection, bound, Some(old))? => {
            super::delete(txn, collection, bound, record, old, Origin::Client)
        }
        _ => delete_plain(txn, collection, record, old),
    }
}

/// Deletes the oldest documents of a capped collection until its limits hold.
///
/// # Errors
/// When the store fails.
pub fn trim_capped(txn: &mut Transaction, collection: &Arc<Collection>) -> Result<()> {
    let Some(capped) = collection.capped() else { return Ok(()) };
    let (documents, bytes) = txn.counted(collection);
    let mut over_bytes = bytes - capped.bytes_max;
    let mut over_documents = capped.documents_max.map_or(0, |max| documents - max);
    if over_bytes <= 0 && over_documents <= 0 {
        return Ok(());
    }
    let from = collection.prefix();
    let to = (collection.id + 1).to_be_bytes();
    let mut oldest: Vec<(Bytes, Bytes)> = Vec::new();
    {
        let mut range = layout::range(collection, &txn.snapshot, &from, &to, Direction::Forward)?;
        while over_bytes > 0 || over_documents > 0 {
            let Some((key, doc)) = range.next_entry()? else { break };
            over_bytes -= doc.len() as i64;
            over_documents -= 1;
            oldest.push((key, doc));
        }
    }
    for (key, doc) in oldest {
        let record = key.get(4..).unwrap_or(&[]).to_vec();
        delete(txn, collection, &record, RawDoc::new(&doc))?;
    }
    Ok(())
}
