//! Writing documents of which part is not stored but resolved when it is read: what is stored is
//! bare, what the log of changes tells is what clients see.

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

/// What is stored of a document that a statement has seen resolved.
pub(super) fn stored(txn: &Transaction, collection: &Collection, record: &[u8]) -> Result<Bytes> {
    let key = write::document_key(collection, record);
    txn.document(collection, &key)?.ok_or_else(write_conflict)
}

/// A document that is stored like this, as clients see it.
fn shown(txn: &Transaction, collection: &Collection, image: DocBuf) -> Result<DocBuf> {
    match Resolver::of(collection, &txn.snapshot)? {
        None => Ok(image),
        Some(mut resolver) => resolver.resolve(&txn.snapshot, image.as_doc()),
    }
}

/// Inserts a bare document. Returns what clients see.
pub(super) fn insert(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    image: RawDoc<'_>,
) -> Result<DocBuf> {
    write::insert_stored(txn, collection, image)?;
    let shown = shown(txn, collection, image.into())?;
    txn.notes.insert(collection, None, shown.as_doc());
    Ok(shown)
}

/// Replaces a bare document by another one; `new` is what the client made of it, with what it had
/// seen. Returns what clients see.
pub(super) fn replace(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    change: &Change<'_>,
    image: &DocBuf,
    new: &DocBuf,
) -> Result<DocBuf> {
    let before = shown(txn, collection, change.old.into())?;
    let stored = between(change.old, image.as_doc());
    write::replace_stored(txn, collection, change.record, change.old, image, &stored)?;
    let mut resolver = Resolver::of(collection, &txn.snapshot)?;
    let mut resolved = |doc: &DocBuf| match &mut resolver {
        None => Ok(doc.clone()),
        Some(resolver) => resolver.resolve(&txn.snapshot, doc.as_doc()),
    };
    let after = resolved(image)?;
    let replaced = change.logged == Some(&LoggedUpdate::Replacement);
    // Where the client's image has what it had seen, nothing seems to have changed its place.
    let logged_image = if replaced { after.clone() } else { resolved(new)? };
    let logged = match replaced {
        true => LoggedUpdate::Replacement,
        false => between(before.as_doc(), logged_image.as_doc()),
    };
    txn.notes.replace(collection, None, before.as_doc(), logged_image.as_doc(), logged.delta());
    Ok(after)
}

/// Deletes a bare document.
pub(super) fn delete(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
) -> Result<()> {
    let before = match keeps_images(collection) {
        true => shown(txn, collection, old.into())?,
        false => old.into(),
    };
    write::delete_stored(txn, collection, record, old)?;
    txn.notes.delete(collection, before.as_doc());
    Ok(())
}
