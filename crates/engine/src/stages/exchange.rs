//! `$out` to a collection that patterns maintain or read. The documents are replaced by ordinary
//! writes in one commit, so that patterns are maintained. Readers see either the old or the new
//! documents, each with their derived values.

use super::chunks::next_chunk;
use crate::catalog::Collection;
use crate::exec::{Stream, modify, write};
use crate::index::maintain;
use crate::layout;
use crate::memory::Share;
use crate::operation::Operation;
use crate::txn::Data;
use crate::txn::Transaction;
use query::update::delta::LoggedUpdate;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Bytes, Seqno};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Maximum number of old and new documents in one commit: other commits wait for it.
const DOCUMENTS_MAX: usize = 200_000;
/// Maximum bytes of new documents.
const BYTES_MAX: usize = 128 * 1024 * 1024;
/// How often a document is retried that a pattern refused because it depends on later ones. (A
/// pattern that knows the order sorts them first: `write_order`.)
const PASSES_MAX: usize = 100;

/// Replaces the content of a collection with the documents of a stream.
///
/// # Errors
/// Errors of the collection, its indexes or its patterns; nothing has changed then.
pub(super) fn exchange(
    data: &Data,
    op: &Operation,
    (db, name): (&str, &str),
    bypass_validation: bool,
    input: &mut dyn Stream,
) -> Result<Option<Seqno>> {
    let mut held = MemoryUse { share: op.share(), bytes: 0 };
    let new = collect(op, (db, name), input, &mut held)?;
    let brought = held.bytes;
    crate::records::create_collection::ensure_collection(data, op, db, name)?;
    let ((), seqno) = data.transact(op, true, |txn| {
        let Some(collection) = txn.catalog.get(db, name).cloned() else {
            return Err(Error::new(
                Code::COMMAND_FAILED,
                format!("collection '{db}.{name}' was dropped while $out was writing to it"),
            ));
        };
        let collection = op.sees_to_write(collection)?;
        let accepted = accepted(&collection, &new)?;
        let new = accepted.as_ref().unwrap_or(&new);
        for doc in new {
            collection.validate(doc.as_doc(), bypass_validation)?;
        }
        held.bytes = brought;
        write_all(txn, op, &collection, new, &mut held)
    })?;
    Ok(Some(seqno))
}

/// The shared memory that all these documents take.
struct MemoryUse {
    share: Share,
    bytes: usize,
}

impl MemoryUse {
    fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.share.covers(self.bytes) { Ok(()) } else { Err(self.share.refusal()) }
    }
}

fn too_large((db, name): (&str, &str)) -> Error {
    Error::new(
        Code::TRANSACTION_TOO_LARGE,
        format!(
            "$out exchanges at most {DOCUMENTS_MAX} documents and {BYTES_MAX} bytes in '{db}.{name}', \
             which takes part in patterns: suspend them (suspendPatterns), and resume them afterwards"
        ),
    )
}

/// Reads and prepares all documents of a stream.
fn collect(
    op: &Operation,
    place: (&str, &str),
    input: &mut dyn Stream,
    held: &mut MemoryUse,
) -> Result<Vec<DocBuf>> {
    let mut all = Vec::new();
    loop {
        let chunk = next_chunk(input, &mut None, op, |_| true)?;
        if chunk.is_empty() {
            return Ok(all);
        }
        for doc in &chunk {
            let doc = DocBuf::from(RawDoc::new(&write::prepare(doc.raw())?));
            held.add(doc.bytes().len())?;
            all.push(doc);
        }
        if all.len() > DOCUMENTS_MAX || held.bytes > BYTES_MAX {
            return Err(too_large(place));
        }
    }
}

/// The canonical documents of those that a reader brings in a form of its own; `None` if they are
/// canonical.
fn accepted(collection: &Collection, new: &[DocBuf]) -> Result<Option<Vec<DocBuf>>> {
    if collection.form.is_none() {
        return Ok(None);
    }
    let accept = |doc: &DocBuf| {
        let accepted = modify::accept_new(collection, doc.as_doc())?;
        Ok(DocBuf::from_bytes(accepted.into_owned()))
    };
    new.iter().map(accept).collect::<Result<Vec<_>>>().map(Some)
}

/// A document to write: its record key, the old document and the new one.
type Exchanged<'d> = (Vec<u8>, Option<Bytes>, &'d DocBuf);

/// Deletes the documents that are not among the new ones, and writes the new ones.
fn write_all(
    txn: &mut Transaction,
    op: &Operation,
    collection: &Arc<Collection>,
    new: &[DocBuf],
    held: &mut MemoryUse,
) -> Result<()> {
    let mut old = stored(txn, collection, new.len(), held)?;
    let record = |doc: &DocBuf| {
        write::record_of_id(collection, doc.as_doc().get("_id").unwrap_or(Val::Null))
    };
    let mut steps: Vec<Exchanged<'_>> = Vec::new();
    for doc in new {
        let record = record(doc);
        // A second document with the same `_id` finds no entry and is refused.
        let before = old.remove(&record);
        steps.push((record, before, doc));
    }
    for (at, (record, doc)) in old.iter().enumerate() {
        write::delete(txn, collection, record, RawDoc::new(doc))?;
        pause(op, at)?;
    }
    let bound = collection.patterns.as_deref();
    let targets = bound.map_or(&[][..], |bound| &bound.targets);
    for pattern in targets.iter().filter(|pattern| pattern.phase.is_maintained()) {
        let docs: Vec<RawDoc<'_>> = steps.iter().map(|(.., doc)| doc.as_doc()).collect();
        if let Some(order) = pattern.kind.write_order(&docs) {
            let mut taken: Vec<Option<Exchanged<'_>>> = steps.into_iter().map(Some).collect();
            steps = order.into_iter().filter_map(|at| taken.get_mut(at)?.take()).collect();
        }
    }
    // Old values of unique indexes are freed before other documents take them.
    let maintained: Vec<String> = targets.iter().flat_map(|pattern| pattern.maintains()).collect();
    for (record, before, doc) in &steps {
        if let Some(before) = before {
            let old = RawDoc::new(before);
            maintain::give_up(txn, collection, record, (old, doc.as_doc()), &maintained)?;
        }
    }
    for _ in 0..PASSES_MAX {
        let (count, mut refused, mut why) = (steps.len(), Vec::new(), None);
        for (at, (record, before, doc)) in steps.into_iter().enumerate() {
            pause(op, at)?;
            match write_one(txn, collection, &record, before.as_ref(), doc) {
                Ok(()) => {}
                // A refused write changes nothing, and may succeed after others.
                Err(error) if error.code() == Code::PATTERN_VIOLATION => {
                    refused.push((record, before, doc));
                    why = why.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        match why {
            None => return Ok(()),
            Some(error) if refused.len() == count => return Err(error),
            Some(_) => steps = refused,
        }
    }
    Err(Error::new(
        Code::PATTERN_VIOLATION,
        format!("the documents that $out brings need each other in more than {PASSES_MAX} steps"),
    ))
}

fn pause(op: &Operation, at: usize) -> Result<()> {
    if at % 1000 == 999 { op.check_now() } else { Ok(()) }
}

/// The present documents, by their record keys.
fn stored(
    txn: &Transaction,
    collection: &Collection,
    others: usize,
    held: &mut MemoryUse,
) -> Result<BTreeMap<Vec<u8>, Bytes>> {
    let mut range = layout::all(collection, &txn.snapshot)?;
    let mut all = BTreeMap::new();
    while let Some((key, doc)) = range.next_entry()? {
        held.add(doc.len())?;
        all.insert(key.get(4..).unwrap_or(&[]).to_vec(), doc);
        if all.len() + others > DOCUMENTS_MAX {
            return Err(too_large((&collection.db, &collection.name)));
        }
    }
    Ok(all)
}

fn write_one(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    record: &[u8],
    before: Option<&Bytes>,
    doc: &DocBuf,
) -> Result<()> {
    match before {
        None => write::insert(txn, collection, doc.as_doc()),
        Some(before) if **before == *doc.bytes() => Ok(()),
        Some(before) => {
            let old = RawDoc::new(before);
            write::replace(txn, collection, record, old, doc, &LoggedUpdate::Replacement).map(drop)
        }
    }
}
