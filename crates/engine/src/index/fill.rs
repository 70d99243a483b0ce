//! Filling an index that is being built: the documents are walked in batches, each in a transaction
//! that fails when a document of the batch changes meanwhile; large collections by two threads.

use super::build::{Listed, aborted, find, new_job};
use super::{keys, maintain, ordered};
use crate::catalog::{Collection, Index, persist};
use crate::engine::Inner;
use crate::job::Job;
use crate::operation::Operation;
use crate::store_failed;
use crate::trash::range_of;
use crate::txn::Transaction;
use parking_lot::Mutex;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Bytes, Direction, Space};
use value::{Code, Error, RawDoc, Result};

/// Documents and bytes of documents in one batch. Entries are written in the order of their keys,
/// so a large batch is much cheaper for the store.
pub(super) const LARGE: Size = Size { documents: 16_000, bytes: 16 * 1024 * 1024 };
/// The same for a batch that met a writer: few enough to rarely meet the next.
const SMALL: Size = Size { documents: 1000, bytes: 4 * 1024 * 1024 };

/// From so many documents on, two threads walk them.
const LARGE_COLLECTION: u64 = 100_000;

/// How large a batch becomes.
#[derive(Clone, Copy)]
pub(super) struct Size {
    documents: u64,
    bytes: usize,
}

/// Walks the documents and adds their entries.
pub(super) fn fill(
    engine: &Inner,
    op: &Operation,
    collection: &Collection,
    ids: &[u32],
) -> Result<()> {
    let job = new_job(engine, collection);
    let _listed = Listed::new(engine, job.clone());
    let mut parts = parts(engine, collection, LARGE_COLLECTION)?;
    let others = parts.split_off(1);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let walk = |mut part: Part, check: &dyn Fn() -> Result<()>| {
        loop {
            if failure.lock().is_some() {
                return;
            }
            match check().and_then(|()| fill_next(engine, &job, collection, ids, &part, check)) {
                Ok(Some(last)) => part.after = last,
                Ok(None) => return,
                Err(error) => {
                    failure.lock().get_or_insert(error);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let walk = &walk;
        for part in others {
            let name = "index build".to_owned();
            let thread = std::thread::Builder::new().name(name);
            let again = part.clone();
            if thread.spawn_scoped(scope, move || walk(part, &|| engine.check_open())).is_err() {
                walk(again, &|| op.check_now());
            }
        }
        parts.into_iter().for_each(|part| walk(part, &|| op.check_now()));
    });
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    check_all_unique(engine, collection, ids, &mut || op.check())
}

/// Documents that one thread walks.
#[derive(Clone)]
pub(super) struct Part {
    /// The last key that was done.
    after: Vec<u8>,
    /// The first key behind the part.
    end: Vec<u8>,
    /// Whether a build that the process does not survive goes on behind this part's last batch.
    /// Only the first part does: what others have done is done again then, and stays the same.
    noted: bool,
}

impl Part {
    /// All documents behind a key.
    pub(super) fn behind(collection: &Collection, after: Vec<u8>) -> Part {
        Part { after, end: range_of(collection.id).1.to_vec(), noted: true }
    }

    /// Goes on behind this key.
    pub(super) fn advance(&mut self, after: Vec<u8>) {
        self.after = after;
    }
}

/// The parts of a large collection for as many threads, of which there are two: making keys and
/// committing them take about as long, and commits come one at a time.
pub(super) fn parts(engine: &Inner, collection: &Collection, large: u64) -> Result<Vec<Part>> {
    let whole = Part::behind(collection, collection.prefix().to_vec());
    let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    if alone || collection.counters.documents() < large {
        return Ok(vec![whole]);
    }
    let snapshot = engine.store.snapshot();
    let cuts = snapshot.split(Space::Documents, &whole.after, &whole.end, 2);
    let Some(cut) = cuts.map_err(store_failed)?.pop() else { return Ok(vec![whole]) };
    // A part begins behind a key and ends before one, so the cut itself belongs to the first.
    let end = [cut.as_slice(), &[0]].concat();
    let second = Part { after: cut.to_vec(), end: whole.end, noted: false };
    Ok(vec![Part { after: whole.after, end, noted: true }, second])
}

/// Adds the entries of the next batch of documents; nothing is left when it returns `None`.
pub(super) fn fill_next(
    engine: &Inner,
    job: &Job,
    collection: &Collection,
    ids: &[u32],
    part: &Part,
    check: &dyn Fn() -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let check = || match job.killed.load(Ordering::Relaxed) {
        true => Err(Error::new(Code::INTERRUPTED, "operation was interrupted")),
        false => check(),
    };
    check()?;
    engine.check_writable()?;
    let mut size = LARGE;
    let fill = |txn: &mut Transaction| {
        fill_batch(txn, collection, ids, part, std::mem::replace(&mut size, SMALL))
    };
    let (batch, _) = engine.transact_alone(&check, false, fill)?;
    job.advance(batch.documents);
    Ok(batch.last)
}

/// Refuses equal values in the unique ones of these indexes.
pub(super) fn check_all_unique(
    engine: &Inner,
    collection: &Collection,
    ids: &[u32],
    check: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let unique = collection.indexes.iter().filter(|i| i.unique && ids.contains(&i.id));
    for index in unique {
        check_unique(engine, check, collection, index)?;
    }
    Ok(())
}

/// Walks the entries of a unique index, which are complete now, and refuses two of equal values.
fn check_unique(
    engine: &Inner,
    check: &mut dyn FnMut() -> Result<()>,
    built: &Collection,
    index: &Index,
) -> Result<()> {
    let snapshot = engine.store.snapshot();
    let (from, to) = range_of(index.id);
    let mut range = snapshot
        .range(Space::Indexes, Bound::Included(&from), Bound::Excluded(&to), Direction::Forward)
        .map_err(store_failed)?;
    let mut last: Vec<u8> = Vec::new();
    while let Some((entry, _)) = range.next().map_err(store_failed)? {
        check()?;
        let record = maintain::record_of(index, entry)
            .ok_or_else(|| Error::internal("an entry of the new index is not understood"))?;
        let values = entry.get(..entry.len() - record.len()).unwrap_or(&[]);
        if values == last {
            let key = crate::exec::write::document_key(built, record);
            let doc = snapshot.get(Space::Documents, &key).map_err(store_failed)?;
            let values = values.get(4..).unwrap_or(&[]);
            let shown = doc.map(|doc| ordered::key_values(index, RawDoc::new(&doc), values));
            return Err(maintain::duplicate_key(built, index, &shown.unwrap_or_default()));
        }
        last.clear();
        last.extend_from_slice(values);
    }
    Ok(())
}

/// How far one batch came.
pub(super) struct Batch {
    documents: u64,
    /// The key of its last document; nothing when the collection ended.
    last: Option<Vec<u8>>,
}

pub(super) fn fill_batch(
    txn: &mut Transaction,
    built: &Collection,
    ids: &[u32],
    part: &Part,
    size: Size,
) -> Result<Batch> {
    let collection =
        find(&txn.catalog, built).ok_or_else(|| aborted("the collection was dropped"))?;
    let indexes: Vec<Arc<Index>> =
        collection.indexes.iter().filter(|index| ids.contains(&index.id)).cloned().collect();
    if indexes.len() < ids.len() {
        return Err(aborted("the index was dropped"));
    }
    let (after, end) = (Bound::Excluded(&*part.after), Bound::Excluded(&*part.end));
    let range = txn.snapshot.range(Space::Documents, after, end, Direction::Forward);
    let mut range = range.map_err(store_failed)?;
    // The collection must still be this one when the entries become visible.
    txn.count(&collection, 0, 0);
    let mut batch = Batch { documents: 0, last: None };
    let mut bytes = 0;
    let mut last: Vec<u8> = Vec::new();
    let mut entries: Vec<(Bytes, Bytes)> = Vec::new();
    let ended = loop {
        if batch.documents >= size.documents || bytes >= size.bytes {
            break false;
        }
        let Some((key, doc)) = range.next().map_err(store_failed)? else { break true };
        // A change of the document meanwhile makes the batch run again.
        txn.guard(Space::Documents, key);
        txn.guard_derived(key);
        let record = key.get(4..).unwrap_or(&[]);
        for index in &indexes {
            add_entries(txn, index, record, RawDoc::new(doc), &mut entries)?;
        }
        batch.documents += 1;
        bytes += doc.len();
        last.clear();
        last.extend_from_slice(key);
    };
    // In order each finds its place beside the one before it.
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    for (entry, types) in entries {
        txn.put(Space::Indexes, entry, types);
    }
    if !ended && part.noted {
        // Committed with the entries: after a crash the build goes on behind them.
        for id in ids {
            let key = persist::build_key(*id);
            txn.put(Space::Catalog, Bytes::copy_from(&key), Bytes::copy_from(&last));
        }
    }
    batch.last = (!ended).then_some(last);
    Ok(batch)
}

fn add_entries(
    txn: &mut Transaction,
    index: &Arc<Index>,
    record: &[u8],
    doc: RawDoc<'_>,
    entries: &mut Vec<(Bytes, Bytes)>,
) -> Result<()> {
    let found = keys::keys(index, doc)?;
    if found.multikey != 0 {
        txn.mark_multikey(index, found.multikey);
    }
    for key in found.keys {
        if index.unique {
            // Equal keys are looked for at the end, in one walk. Until then, this makes a writer
            // of the same key that does not see this entry run again.
            txn.guard(Space::Indexes, &maintain::entry_key(index, &key.values, &[]));
        }
        // An entry that a writer made already is the same: writing it again changes nothing.
        let entry = maintain::entry_key(index, &key.values, record);
        entries.push((entry.into(), key.types.into()));
    }
    Ok(())
}
