//! Writes of single documents inside a transaction: the record, its index entries and the counters.
//! Client writes go through `upkeep::write`, which adds pattern updates.

use crate::catalog::Collection;
use crate::index::maintain;
use crate::layout;
use crate::txn::Transaction;
use patterns::layout::Demand;
use query::update::delta::LoggedUpdate;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Bytes, Space};
use value::{Code, DocBuf, Error, ObjectId, RawDoc, Result, Type, Val, keys, limits};

/// Returns a document's key in the store: the collection's prefix and the record key.
#[must_use]
pub fn document_key(collection: &Collection, record: &[u8]) -> Bytes {
    collection.document_key(record)
}

/// Returns the record key of an `_id` in a clustered collection.
#[must_use]
pub fn record_of_id(collection: &Collection, id: Val<'_>) -> Vec<u8> {
    keys::key_with(id, collection.collation.as_deref())
}

/// Converts a document from a client into its stored form: `_id` comes first and is generated if
/// missing. Refuses documents that cannot be stored. Borrows if nothing had to change.
///
/// # Errors
/// BadValue if it is too large, Overflow if it is nested too deeply, and errors of `check_id`.
pub fn prepare(doc: RawDoc<'_>) -> Result<std::borrow::Cow<'_, [u8]>> {
    prepare_with(doc, true)
}

/// As `prepare`; `stamps` says whether empty timestamps become the current time.
///
/// # Errors
/// As `prepare`.
pub fn prepare_with(doc: RawDoc<'_>, stamps: bool) -> Result<std::borrow::Cow<'_, [u8]>> {
    if doc.bytes().len() > limits::DOCUMENT_BYTES_MAX {
        return Err(too_large(doc.bytes().len()));
    }
    let mut id = None;
    let mut first_is_id = false;
    let mut has_zero_timestamp = false;
    let mut elements = doc.iter();
    let mut at = 0;
    while let Some((name, value)) = elements.next_bytes() {
        if name == b"_id" && id.is_none() {
            check_id(value.get())?;
            first_is_id = at == 0;
            id = Some(value);
        }
        if value.kind == Type::Timestamp as u8 {
            has_zero_timestamp |= stamps && value.get() == Val::Timestamp(0);
        }
        if let Some(inner) = value.as_doc().or(value.as_array()) {
            check_depth(inner, 2)?;
        }
        at += 1;
    }
    if first_is_id && !has_zero_timestamp {
        return Ok(doc.bytes().into());
    }
    let made_up = Val::ObjectId(ObjectId::generate());
    let built = DocBuf::build(|out| {
        out.append("_id", id.map_or(made_up, value::RawVal::get));
        for (name, value) in doc {
            if name == "_id" {
                continue;
            }
            // An empty timestamp at the top level of an inserted document becomes the current time.
            if stamps && value.get() == Val::Timestamp(0) {
                out.append(name, Val::Timestamp(crate::clock::unique_timestamp()));
            } else {
                out.raw(name, value);
            }
        }
    });
    if built.bytes().len() > limits::DOCUMENT_BYTES_MAX {
        return Err(too_large(built.bytes().len()));
    }
    Ok(built.into_bytes().into())
}

fn too_large(bytes: usize) -> Error {
    Error::new(
        Code::BAD_VALUE,
        format!(
            "object to insert too large. size in bytes: {bytes}, max size: {}",
            limits::DOCUMENT_BYTES_MAX
        ),
    )
}

/// Refuses an `_id` that MongoDB refuses: arrays, regular expressions, undefined, and documents with
/// a field that begins with a dollar.
///
/// # Errors
/// InvalidIdField, DollarPrefixedFieldName.
pub fn check_id(id: Val<'_>) -> Result<()> {
    let kind = match id {
        Val::Array(_) => "array",
        Val::Regex(..) => "regex",
        Val::Undefined => "undefined",
        Val::Document(doc) => {
            return match doc.iter().find(|(name, _)| name.starts_with('$')) {
                Some((name, _)) => Err(Error::new(
                    Code::DOLLAR_PREFIXED_FIELD_NAME,
                    format!(
                        "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."
                    ),
                )),
                None => Ok(()),
            };
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code(53), format!("The '_id' value cannot be of type {kind}")))
}

fn check_depth(doc: RawDoc<'_>, depth: usize) -> Result<()> {
    if depth > limits::DEPTH_MAX {
        return Err(Error::new(
            Code::OVERFLOW,
            format!("document exceeds maximum nested object depth of {}", limits::DEPTH_MAX),
        ));
    }
    let mut elements = doc.iter();
    while let Some((_, value)) = elements.next_bytes() {
        if let Some(inner) = value.as_doc().or(value.as_array()) {
            check_depth(inner, depth + 1)?;
        }
    }
    Ok(())
}

/// Inserts a document without pattern updates.
pub(crate) fn insert_plain(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    doc: RawDoc<'_>,
) -> Result<()> {
    let key = insert_stored(txn, collection, doc)?;
    txn.notes.insert(collection, shared(collection, key), doc);
    Ok(())
}

/// Returns the key under which the store has the same bytes as the change log; `None` if a layout
/// stores the document in another form.
fn shared(collection: &Collection, key: Bytes) -> Option<Bytes> {
    collection.layouts.is_none().then_some(key)
}

/// Inserts a document without pattern updates and without a change log record. Returns its key.
pub(crate) fn insert_stored(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    doc: RawDoc<'_>,
) -> Result<Bytes> {
    refuse_capped_in_transaction(txn, collection)?;
    let record = match collection.capped() {
        None => record_of_id(collection, doc.get("_id").unwrap_or(Val::Null)),
        Some(_) => {
            // Writes to capped collections hold the commit lock, so sequence numbers follow the
            // commit order.
            let sequence = collection.counters.next_sequence.fetch_add(1, Ordering::Relaxed);
            sequence.to_be_bytes().to_vec()
        }
    };
    let key = document_key(collection, &record);
    if collection.capped().is_none() {
        txn.guard(Space::Documents, &key);
        let exists = !txn.is_above_all(collection, &record)
            && (txn.stores_later(&key) || txn.document(collection, &key)?.is_some());
        if exists {
            let index = collection.indexes.first().ok_or_else(no_id_index)?;
            let values = DocBuf::build(|out| {
                out.append("_id", doc.get("_id").unwrap_or(Val::Null));
            });
            return Err(maintain::duplicate_key(collection, index, &values));
        }
    }
    layout::check_write(collection, &txn.snapshot, &key, None, doc)?;
    maintain::replace(txn, collection, &record, maintain::Images::Inserted(doc))?;
    if !txn.store_later(collection, &key, doc) {
        layout::put(collection, &mut txn.snapshot, key.clone(), None, doc)?;
    }
    txn.count_insert(collection, record, doc.bytes().len() as i64);
    Ok(key)
}

/// Refuses writes of an open transaction to a capped collection, whose inserts must follow the
/// commit order.
///
/// # Errors
/// OperationNotSupportedInTransaction.
pub fn refuse_capped_in_transaction(txn: &Transaction, collection: &Collection) -> Result<()> {
    if txn.is_of_session() && collection.capped().is_some() {
        return Err(Error::new(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            format!(
                "Collection '{}' is a capped collection. Writes in transactions are not allowed on \
                 capped collections.",
                collection.namespace()
            ),
        ));
    }
    Ok(())
}

fn no_id_index() -> Error {
    Error::internal("a collection without an _id index")
}

/// Replaces a document without pattern updates.
pub(crate) fn replace_plain(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
    new: &DocBuf,
    logged: &LoggedUpdate,
) -> Result<()> {
    let key = document_key(collection, record);
    replace_under(txn, collection, key, record, old, new, logged)
}

/// Replaces a document whose key the caller knows.
pub(crate) fn replace_under(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    key: Bytes,
    record: &[u8],
    old: RawDoc<'_>,
    new: &DocBuf,
    logged: &LoggedUpdate,
) -> Result<()> {
    store_image(txn, collection, key.clone(), record, old, new, logged)?;
    txn.notes.replace(collection, shared(collection, key), old, new.as_doc(), logged.delta());
    Ok(())
}

/// Replaces a document by bytes that the store takes as they are. Only for collections whose stored
/// documents are those that clients see.
pub(crate) fn replace_shared(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
    new: Bytes,
    logged: &LoggedUpdate,
) -> Result<()> {
    let key = document_key(collection, record);
    prepare_image(txn, collection, &key, record, old, RawDoc::new(&new), logged)?;
    let shared = Some(key.clone());
    txn.notes.replace(collection, shared, old, RawDoc::new(&new), logged.delta());
    txn.put(Space::Documents, key, new);
    Ok(())
}

/// Replaces a document without pattern updates and without a change log record.
pub(crate) fn replace_stored(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
    new: &DocBuf,
    logged: &LoggedUpdate,
) -> Result<()> {
    let key = document_key(collection, record);
    store_image(txn, collection, key, record, old, new, logged)
}

fn store_image(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    key: Bytes,
    record: &[u8],
    old: RawDoc<'_>,
    new: &DocBuf,
    logged: &LoggedUpdate,
) -> Result<()> {
    prepare_image(txn, collection, &key, record, old, new.as_doc(), logged)?;
    if let Some(demand) = txn.part_of(collection, record) {
        let images = (old, new.as_doc());
        return layout::put_part(collection, &mut txn.snapshot, &key, &demand, images);
    }
    layout::put(collection, &mut txn.snapshot, key.clone(), Some(old), new.as_doc())?;
    // It was counted with the size that it has for readers.
    let stored = layout::counted_size(collection, &txn.snapshot, &key, new.as_doc())?;
    let more = stored - new.bytes().len() as i64;
    if more != 0 {
        txn.count(collection, 0, more);
    }
    Ok(())
}

/// Everything that replacing a document does beside storing the new one: checks, index entries,
/// counts.
fn prepare_image(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    key: &Bytes,
    record: &[u8],
    old: RawDoc<'_>,
    new: RawDoc<'_>,
    logged: &LoggedUpdate,
) -> Result<()> {
    refuse_capped_in_transaction(txn, collection)?;
    let part = txn.part_of(collection, record);
    let mut size = match &part {
        None => new.bytes().len(),
        Some(demand) => layout::whole_size(collection, new, demand),
    };
    if size > limits::DOCUMENT_BYTES_MAX {
        let demand = part.as_deref().unwrap_or(Demand::WHOLE);
        size = size.saturating_sub(layout::uncounted(collection, new, demand));
    }
    if size > limits::DOCUMENT_BYTES_MAX {
        return Err(Error::new(
            Code::BSON_OBJECT_TOO_LARGE,
            format!(
                "Resulting document after update is larger than {} bytes: {size}",
                limits::DOCUMENT_BYTES_MAX
            ),
        ));
    }
    txn.guard(Space::Documents, key);
    layout::check_write(collection, &txn.snapshot, key, Some(old), new)?;
    maintain::replace(txn, collection, record, maintain::Images::Changed(old, new, logged))?;
    let before = layout::counted_size(collection, &txn.snapshot, key, old)?;
    let hidden = txn.hidden_of(collection, record);
    let longer = hidden.map_or(0, |hidden| hidden.longer_names(old, new));
    txn.count(collection, 0, (new.bytes().len() + longer) as i64 - before);
    Ok(())
}

/// Deletes a document without pattern updates.
pub(crate) fn delete_plain(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
) -> Result<()> {
    delete_stored(txn, collection, record, old)?;
    txn.notes.delete(collection, old);
    Ok(())
}

/// Deletes a document without pattern updates and without a change log record.
pub(crate) fn delete_stored(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    old: RawDoc<'_>,
) -> Result<()> {
    refuse_capped_in_transaction(txn, collection)?;
    let key = document_key(collection, record);
    txn.guard(Space::Documents, &key);
    maintain::replace(txn, collection, record, maintain::Images::Deleted(old))?;
    let size = match txn.part_of(collection, record) {
        None => layout::counted_size(collection, &txn.snapshot, &key, old)?,
        Some(demand) => layout::whole_size(collection, old, &demand) as i64,
    };
    if !txn.delete_later(collection, &key) {
        layout::delete(collection, &mut txn.snapshot, key)?;
    }
    txn.count(collection, -1, -size);
    Ok(())
}
