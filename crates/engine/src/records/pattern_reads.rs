//! Reads of patterns: documents by the value of a field, and the patterns' own state, which is
//! stored in the document space under the pattern's number.

use crate::catalog::{Index, IndexKind, IndexState, Layouts};
use crate::index::maintain::{entry_key, record_of};
use crate::layout;
use crate::store_failed;
use ::patterns::Find;
use std::ops::Bound;
use std::sync::Arc;
use store::{Bytes, Direction, Range, Snapshot, Space};
use value::{RawDoc, Result, keys};

/// Returns the index that finds documents by the value of a path, in `_id` order.
fn index_on<'c>(indexes: &'c [Arc<Index>], path: &str) -> Option<&'c Arc<Index>> {
    indexes.iter().find(|index| {
        let fits = matches!(index.kind, IndexKind::Ordered) && !index.is_clustered();
        let plain = index.partial.is_none() && !index.sparse && index.collation.is_none();
        let [field] = index.fields.as_slice() else { return false };
        let ready = index.state == IndexState::Ready;
        fits && plain && ready && !field.descending && field.path.text() == path
    })
}

/// Visits the documents of a collection that match a lookup, in `_id` order.
pub(crate) fn visit_matching(
    snapshot: &Snapshot,
    (id, layouts): (u32, Option<&Arc<Layouts>>),
    indexes: &[Arc<Index>],
    find: &Find<'_>,
    visit: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>,
) -> Result<()> {
    let prefix = id.to_be_bytes();
    let get = |record: &[u8]| {
        let key = [prefix.as_slice(), record].concat();
        layout::get_to_write_in(layouts, snapshot, &key)
    };
    let wanted = keys::key(find.value);
    if find.path.text() == "_id" {
        if let Some(doc) = get(&wanted)?.filter(|_| find.after.is_empty()) {
            visit(RawDoc::new(&doc))?;
        }
        return Ok(());
    }
    let Some(index) = index_on(indexes, find.path.text()) else {
        let from = [prefix.as_slice(), find.after].concat();
        let mut range = layout::range_in(layouts, snapshot, &from, &(id + 1).to_be_bytes())?;
        while let Some((key, doc)) = range.next_entry()? {
            let doc = RawDoc::new(&doc);
            let values = ::patterns::paths::values_at(doc, find.path);
            let none = values.is_empty() && find.value.is_nullish();
            let holds = none || values.iter().any(|(value, _)| *value == wanted);
            let above = find.after.is_empty() || key.get(4..).is_some_and(|id| id > find.after);
            if holds && above && !visit(doc)? {
                break;
            }
        }
        return Ok(());
    };
    let mut range = entries(snapshot, index, &wanted, find.after)?;
    while let Some((entry, _)) = range.next_entry().map_err(store_failed)? {
        let Some(record) = record_of(index, &entry) else { continue };
        let Some(doc) = get(record)? else { continue };
        if !visit(RawDoc::new(&doc))? {
            break;
        }
    }
    Ok(())
}

/// Counts the documents that match a lookup, up to `most`, from an index without reading them.
/// `None` if no index allows that.
pub(crate) fn count_entries(
    snapshot: &Snapshot,
    indexes: &[Arc<Index>],
    find: &Find<'_>,
    most: usize,
) -> Result<Option<usize>> {
    let index = index_on(indexes, find.path.text()).filter(|_| find.path.text() != "_id");
    let Some(index) = index else { return Ok(None) };
    let mut range = entries(snapshot, index, &keys::key(find.value), find.after)?;
    let mut count = 0;
    while count < most && range.next_entry().map_err(store_failed)?.is_some() {
        count += 1;
    }
    Ok(Some(count))
}

/// Opens the entries of an index with this encoded value, after a record key if it is not empty.
fn entries(snapshot: &Snapshot, index: &Index, value: &[u8], after: &[u8]) -> Result<Range> {
    let mut from = entry_key(index, value, after);
    let mut to = entry_key(index, value, &[]);
    to.push(0xFF);
    if !after.is_empty() {
        from.push(0);
    }
    let (from, to) = (Bound::Included(&*from), Bound::Excluded(&*to));
    snapshot.range(Space::Indexes, from, to, Direction::Forward).map_err(store_failed)
}

/// Visits the state entries of a pattern whose keys have a prefix, in ascending order, after a key
/// if it is not empty.
pub(crate) fn visit_states(
    snapshot: &Snapshot,
    pattern: u32,
    prefix: &[u8],
    after: &[u8],
    visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
) -> Result<()> {
    let start = state_key(pattern, if after.is_empty() { prefix } else { after });
    let from = if after.is_empty() { Bound::Included(&*start) } else { Bound::Excluded(&*start) };
    let (_, to) = crate::trash::range_of(pattern);
    let to = Bound::Excluded(to.as_slice());
    let range = snapshot.range(Space::Documents, from, to, Direction::Forward);
    let mut range = range.map_err(store_failed)?;
    while let Some((key, doc)) = range.next_entry().map_err(store_failed)? {
        let key = key.get(4..).unwrap_or(&[]);
        if !key.starts_with(prefix) || !visit(key, RawDoc::new(&doc))? {
            break;
        }
    }
    Ok(())
}

/// Visits the state entries of a pattern before a key, in descending order.
pub(crate) fn visit_states_before(
    snapshot: &Snapshot,
    pattern: u32,
    prefix: &[u8],
    before: &[u8],
    visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
) -> Result<()> {
    let (from, to) = (state_key(pattern, prefix), state_key(pattern, before));
    let (from, to) = (Bound::Included(&*from), Bound::Excluded(&*to));
    let range = snapshot.range(Space::Documents, from, to, Direction::Reverse);
    let mut range = range.map_err(store_failed)?;
    while let Some((key, doc)) = range.next_entry().map_err(store_failed)? {
        if !visit(key.get(4..).unwrap_or(&[]), RawDoc::new(&doc))? {
            break;
        }
    }
    Ok(())
}

/// Returns the key of a pattern's state entry. The pattern's number is its prefix.
pub(crate) fn state_key(pattern: u32, key: &[u8]) -> Vec<u8> {
    [pattern.to_be_bytes().as_slice(), key].concat()
}

/// Returns the same key as `Bytes`.
pub(crate) fn state_bytes(pattern: u32, key: &[u8]) -> Bytes {
    Bytes::copy_prefixed(pattern.to_be_bytes(), key)
}
