//! Maintenance of index entries when documents change, inside the transaction that changes them.
//!
//! The key of an entry is `index prefix, encoded values, record key`. Its value holds type
//! information that the encoded values lack, and is usually empty. The record key is the document's
//! key without the collection's prefix.

use crate::catalog::{Collection, Index, IndexKind};
use crate::index_keys::keys::{ENTRIES_BYTES_MAX, too_many_entries};
use crate::index_keys::{keys, ordered};
use crate::store_failed;
use crate::txn::Transaction;
use query::update::delta::{self, LoggedUpdate, Names};
use std::sync::Arc;
use store::{Bytes, Space};
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val};

/// Returns the key of an entry.
#[must_use]
pub fn entry_key(index: &Index, values: &[u8], record: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 + values.len() + record.len());
    key.extend_from_slice(&index.prefix());
    key.extend_from_slice(values);
    key.extend_from_slice(record);
    key
}

/// Returns the record key in an entry's key; `None` if the entry is damaged.
#[must_use]
pub fn record_of<'k>(index: &Index, entry: &'k [u8]) -> Option<&'k [u8]> {
    let mut rest = entry.get(4..)?;
    for descending in &index.columns {
        rest = rest.get(value::keys::skip(rest, *descending)?..)?;
    }
    Some(rest)
}

/// The images of a document that is written.
#[derive(Clone, Copy)]
pub enum Images<'d> {
    /// A new document.
    Inserted(RawDoc<'d>),
    /// The images before and after, and the change as it is logged.
    Changed(RawDoc<'d>, RawDoc<'d>, &'d LoggedUpdate),
    /// The last image of a deleted document.
    Deleted(RawDoc<'d>),
}

/// The memory that an entry takes until it is committed, without its bytes.
const ENTRY_BYTES: usize = 128;

/// Replaces the entries of a document.
///
/// # Errors
/// DuplicateKey, CannotIndexParallelArrays, TransactionTooLargeForCache for a document with too many
/// entries, 16746 for an ambiguous path, or errors of the store.
pub fn replace(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    images: Images<'_>,
) -> Result<()> {
    if collection.indexes.iter().all(|index| index.is_clustered()) {
        return Ok(());
    }
    // All checks come before the first write, so that a refused document writes nothing.
    let mut changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    let (old, new, changed) = match images {
        Images::Inserted(new) => (None, Some(new), None),
        Images::Deleted(old) => (Some(old), None, None),
        // With a delta, the images need not be compared.
        Images::Changed(old, new, LoggedUpdate::Delta(delta)) => {
            (Some(old), Some(new), Some(delta::top_level_names(RawDoc::new(delta))))
        }
        Images::Changed(old, new, LoggedUpdate::Replacement) => {
            (Some(old), Some(new), changed_fields(old, new))
        }
    };
    let hides = txn.hidden_of(collection, record).is_some();
    let mut bytes = 0;
    for index in &collection.indexes {
        if index.is_clustered() || changed.as_ref().is_some_and(|names| !depends_on(index, names)) {
            continue;
        }
        let before = old.map(|doc| keys::stored_keys(index, doc)).transpose()?.unwrap_or_default();
        let after = new.map(|doc| keys::keys(index, doc)).transpose()?.unwrap_or_default();
        if !before.ambiguous {
            after.refuse_ambiguous()?;
        }
        bytes += (before.keys.len() + after.keys.len()) * (ENTRY_BYTES + record.len());
        bytes += before.bytes() + after.bytes();
        if bytes > ENTRIES_BYTES_MAX {
            return Err(too_many_entries());
        }
        if after.multikey != 0 {
            txn.mark_multikey(index, after.multikey);
        }
        for key in &before.keys {
            if after.get(&key.values).is_none() {
                changes.push((entry_key(index, &key.values, record), None));
                if index.refuses_equal_keys() {
                    // The key becomes free. A transaction that takes it must depend on this commit.
                    guard_unique(txn, index, &key.values);
                }
            }
        }
        for key in after.keys {
            match before.get(&key.values) {
                Some(known) if known.types == key.types => continue,
                Some(_) => {}
                // An element that was not read may have the same key.
                None if hides && has_entry(txn, &entry_key(index, &key.values, record))? => {
                    continue;
                }
                None if index.refuses_equal_keys() => {
                    check_unique(txn, collection, index, &key.values, record, new)?;
                }
                None => {}
            }
            changes.push((entry_key(index, &key.values, record), Some(key.types)));
        }
    }
    for (entry, types) in changes {
        match types {
            Some(types) if types.is_empty() => {
                txn.put(Space::Indexes, entry.into(), Bytes::default());
            }
            Some(types) => txn.put(Space::Indexes, entry.into(), types.into()),
            None => txn.delete(Space::Indexes, entry.into()),
        }
    }
    Ok(())
}

fn has_entry(txn: &Transaction, entry: &[u8]) -> Result<bool> {
    let found = txn.snapshot.get(Space::Indexes, entry).map_err(store_failed)?;
    Ok(found.is_some())
}

/// Frees the unique keys that a document will lose, before `replace` writes its new image, so that
/// another document can take them. Indexes over `derived` fields are skipped, because their new
/// values are not known yet; so are partial indexes.
///
/// # Errors
/// CannotIndexParallelArrays.
pub fn give_up(
    txn: &mut Transaction,
    collection: &Collection,
    record: &[u8],
    (old, new): (RawDoc<'_>, RawDoc<'_>),
    derived: &[String],
) -> Result<()> {
    for index in &collection.indexes {
        let known = |path: &str| !derived.iter().any(|other| patterns::paths::meet(other, path));
        let known = index.partial.is_none() && index.fields.iter().all(|f| known(f.path.text()));
        if index.is_clustered() || !index.refuses_equal_keys() || !known {
            continue;
        }
        let (before, after) = (keys::stored_keys(index, old)?, keys::keys(index, new)?);
        for key in before.keys.iter().filter(|key| after.get(&key.values).is_none()) {
            guard_unique(txn, index, &key.values);
            txn.delete(Space::Indexes, entry_key(index, &key.values, record).into());
        }
    }
    Ok(())
}

/// Returns the top-level fields in which two images of a document differ; `None` if there are many
/// or the order of the fields differs.
fn changed_fields<'d>(old: RawDoc<'d>, new: RawDoc<'d>) -> Option<Names<'d>> {
    const MANY: usize = 8;
    let mut names = Names::new();
    let (mut old, mut new) = (old.iter(), new.iter());
    loop {
        match (old.next_bytes(), new.next_bytes()) {
            (None, None) => return Some(names),
            (Some((before, _)), Some((after, _))) if before != after => return None,
            (Some((_, before)), Some((_, after))) if before == after => {}
            (Some((name, _)), _) | (None, Some((name, _))) => names.push(name),
        }
        if names.len() > MANY {
            return None;
        }
    }
}

/// Returns whether the entries of an index may change if only these top-level fields changed.
fn depends_on(index: &Index, changed: &[&[u8]]) -> bool {
    let by_fields = matches!(index.kind, IndexKind::Ordered | IndexKind::Hashed(_));
    !by_fields
        || index.partial.is_some()
        || index.fields.iter().any(|field| changed.contains(&field.path.first().as_bytes()))
}

fn guard_unique(txn: &mut Transaction, index: &Index, values: &[u8]) {
    txn.guard(Space::Indexes, &entry_key(index, values, &[]));
}

/// Refuses a key of a unique index that another record has.
///
/// # Errors
/// DuplicateKey.
pub fn check_unique(
    txn: &mut Transaction,
    collection: &Collection,
    index: &Index,
    values: &[u8],
    record: &[u8],
    doc: Option<RawDoc<'_>>,
) -> Result<()> {
    guard_unique(txn, index, values);
    let from = entry_key(index, values, &[]);
    let mut to = from.clone();
    to.push(0xFF);
    let mut entries = txn.range(Space::Indexes, &from, &to)?;
    while let Some((key, _)) = entries.next().map_err(store_failed)? {
        let other = key.get(from.len()..).unwrap_or(&[]);
        if other != record {
            let values = doc.map(|doc| ordered::key_values(index, doc, values)).unwrap_or_default();
            return Err(duplicate_key(collection, index, &values));
        }
    }
    Ok(())
}

/// Returns the E11000 error in the form that clients parse.
#[must_use]
pub fn duplicate_key(collection: &Collection, index: &Index, values: &DocBuf) -> Error {
    if let Some(collation) = &index.collation {
        return duplicate_collated_key(collection, index, values, collation);
    }
    let message = format!(
        "E11000 duplicate key error collection: {} index: {} dup key: {}",
        collection.namespace(),
        index.name,
        query::expr::show_doc(values.as_doc()),
    );
    let info = DocBuf::build(|out| {
        out.append("keyPattern", Val::Document(index.key.as_doc()));
        out.append("keyValue", Val::Document(values.as_doc()));
    });
    Error::new(Code::DUPLICATE_KEY, message).with_info(info)
}

/// The same for a collated index: text is shown as its collation key, in hexadecimal digits.
fn duplicate_collated_key(
    collection: &Collection,
    index: &Index,
    values: &DocBuf,
    collation: &Collation,
) -> Error {
    let digits = |text: &str| -> String {
        collation.key(text).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let encoded = |prefix: &str| {
        DocBuf::build(|out| {
            for (name, value) in values.as_doc() {
                match value.get() {
                    Val::String(text) => out.str(name, &format!("{prefix}{}", digits(text))),
                    _ => out.raw(name, value),
                };
            }
        })
    };
    let message = format!(
        "E11000 duplicate key error collection: {} index: {} collation: {} dup key: {}",
        collection.namespace(),
        index.name,
        collation.show(),
        query::expr::show_doc(encoded("0x").as_doc()),
    );
    let info = DocBuf::build(|out| {
        out.append("keyPattern", Val::Document(index.key.as_doc()));
        out.append("keyValue", Val::Document(encoded("").as_doc()));
        out.array("hexEncoded", |array| {
            for (_, value) in values.as_doc() {
                array.push(Val::Bool(matches!(value.get(), Val::String(_))));
            }
        });
        out.append("collation", Val::Document(collation.document()));
    });
    Error::new(Code::DUPLICATE_KEY, message).with_info(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn fields_that_differ_are_named() {
        let changed = |old: &str, new: &str| {
            let (old, new) = (ejson::parse_doc(old).unwrap(), ejson::parse_doc(new).unwrap());
            let names = changed_fields(old.as_doc(), new.as_doc())?;
            Some(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
        };
        let names = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(changed("{a: 1, b: 2}", "{a: 1, b: 2}"), names(&[]));
        assert_eq!(changed("{a: 1, b: {c: 2}}", "{a: 1, b: {c: 3}}"), names(&["b"]));
        assert_eq!(changed("{a: 1}", "{a: {$numberLong: '1'}, z: 1}"), names(&["a", "z"]));
        assert_eq!(changed("{a: 1, z: 1}", "{a: 1}"), names(&["z"]));
        assert_eq!(changed("{a: 1, b: 1, c: 1}", "{a: 1, c: 1}"), None::<Vec<String>>);
    }
}
