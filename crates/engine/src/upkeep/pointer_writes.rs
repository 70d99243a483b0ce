//! Writes of documents with resolved fields. The stored document lacks these fields; the change log
//! records the document as clients see it.

use super::Change;
use crate::catalog::Collection;
use crate::changes::keeps_images;
use crate::records::resolve::Resolver;
use crate::records::write;
use crate::txn::{Transaction, write_conflict};
use query::update::delta::{LoggedUpdate, between};
use std::sync::Arc;
use store::Bytes;
use value::{DocBuf, RawDoc, Result};

/// Returns the stored form of a document that a statement has read resolved.
pub(super) fn stored(txn: &Transaction, collection: &Collection, record: &[u8]) -> Result<Bytes> {
    let key = write::document_key(collection, record);
    txn.document(collection, &key)?.ok_or_else(write_conflict)
}

/// Returns a stored image as clients see it.
fn resolve_image(txn: &Transaction, collection: &Collection, image: DocBuf) -> Result<DocBuf> {
    match Resolver::of(collection, &txn.snapshot)? {
        None => Ok(image),
        Some(mut resolver) => Ok(resolver.resolve(&txn.snapshot, image.as_doc())?.unwrap_or(image)),
    }
}

/// Inserts a document without its resolved fields. Returns it as clients see it.
pub(super) fn insert(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    image: RawDoc<'_>,
) -> Result<DocBuf> {
    write::insert_stored(txn, collection, image)?;
    let resolved = resolve_image(txn, collection, image.into())?;
    txn.notes.insert(collection, None, resolved.as_doc());
    Ok(resolved)
}

/// Replaces a document without its resolved fields; `new` is the client's image, which may contain
/// the resolved values it has read. Returns the document as clients see it.
pub(super) fn replace(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    change: &Change<'_>,
    image: &DocBuf,
    new: &DocBuf,
) -> Result<DocBuf> {
    let before = resolve_image(txn, collection, change.old.into())?;
    let stored = between(change.old, image.as_doc());
    write::replace_stored(txn, collection, change.record, change.old, image, &stored)?;
    let mut resolver = Resolver::of(collection, &txn.snapshot)?;
    let mut resolved = |doc: &DocBuf| match &mut resolver {
        None => Ok(doc.clone()),
        Some(resolver) => {
            let resolved = resolver.resolve(&txn.snapshot, doc.as_doc())?;
            Ok(resolved.unwrap_or_else(|| doc.clone()))
        }
    };
    let after = resolved(image)?;
    let replaced = change.logged == Some(&LoggedUpdate::Replacement);
    // Keeps the position of fields whose resolved values are in the client's image, so that they do
    // not appear as changed.
    let logged_image = if replaced { after.clone() } else { resolved(new)? };
    let logged = match replaced {
        true => LoggedUpdate::Replacement,
        false => between(before.as_doc(), logged_image.as_doc()),
    };
    txn.notes.replace(collection, None, before.as_doc(), logged_image.as_doc(), logged.delta());
    Ok(after)
}

/// Deletes a document with resolved fields.
pub(super) fn delete(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
) -> Result<()> {
    let before = match keeps_images(collection) {
        true => resolve_image(txn, collection, old.into())?,
        false => old.into(),
    };
    write::delete_stored(txn, collection, record, old)?;
    txn.notes.delete(collection, before.as_doc());
    Ok(())
}
