//! Verifies stored data: files, documents, index entries and counts must agree.
//!
//! Everything is read at one snapshot, including the catalog and the counters, so concurrent writes
//! cause no findings. `motif check` checks all collections, `validate` checks one. Data that cannot
//! be read is a finding. `motif check` knows from the files which keys are lost and goes on behind
//! them; otherwise the check goes on with the next index or collection.
//!
//! Layer: service.

use crate::catalog::{Catalog, Collection, Index, IndexState, persist};
use crate::damage::{Damage, Gaps, Names, Severity, hex};
use crate::index::maintain;
use crate::index_keys::keys;
use crate::layout;
use crate::options::{Options, Storage};
use crate::records::write::record_of_id;
use crate::store_failed;
use crate::trash::range_of;
use crate::txn::Data;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use store::{Direction, DiskStore, Finding, Range, Salvage, Snapshot, Space};
use value::{Code, Error, RawDoc, Result, Val};

/// The most findings listed per collection; further ones are only counted.
const FINDINGS_MAX: usize = 100;

/// The result of checking a collection.
#[derive(Default)]
pub struct Report {
    /// Documents.
    pub documents: u64,
    /// Documents that cannot be read.
    pub unreadable: u64,
    /// Bytes of the documents.
    pub bytes: u64,
    /// The results of its indexes.
    pub indexes: Vec<IndexReport>,
    /// Problems with the documents and counts.
    pub findings: Vec<String>,
    /// The number of findings that are not listed.
    pub more: u64,
}

/// The result of checking an index.
pub struct IndexReport {
    /// The index's name.
    pub name: String,
    /// Entries.
    pub entries: u64,
    /// The problems found.
    pub findings: Vec<String>,
    /// The number of findings that are not listed.
    pub more: u64,
}

impl IndexReport {
    fn find(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

impl Report {
    fn find(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// Whether no problem was found.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.findings.is_empty() && self.indexes.iter().all(|index| index.findings.is_empty())
    }
}

/// Reads the catalog at a snapshot.
///
/// # Errors
/// When a record is invalid.
pub fn catalog_at(snapshot: &Snapshot) -> Result<Catalog> {
    Ok(persist::load(snapshot)?.catalog)
}

/// Checks the files, then every collection. Returns the problems as messages.
///
/// # Errors
/// When the store cannot be read.
pub fn check(data: &Data, progress: &mut dyn FnMut(&str, u64, u64)) -> Result<Vec<String>> {
    let mut files = |done, total| progress("files", done, total);
    let damage = data.store.verify(&mut files).map_err(store_failed)?;
    let mut findings: Vec<String> = damage
        .into_iter()
        .map(|damage| match damage.offset {
            Some(offset) => format!("{} at {offset}: {}", damage.file.display(), damage.what),
            None => format!("{}: {}", damage.file.display(), damage.what),
        })
        .collect();
    findings.extend(compare(data, &Gaps::default(), progress)?);
    Ok(findings)
}

/// Compares documents, index entries and counts of every collection.
fn compare(
    data: &Data,
    gaps: &Gaps,
    progress: &mut dyn FnMut(&str, u64, u64),
) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let snapshot = data.store.snapshot();
    let catalog = catalog_at(&snapshot)?;
    for collection in catalog.collections().filter(|c| c.view().is_none()) {
        let namespace = collection.namespace();
        let mut report = |done: u64| {
            progress(&namespace, done, collection.counters.documents());
            Ok(())
        };
        let report = check_collection(&snapshot, collection, gaps, &mut report)?;
        let named = |finding: &String| format!("{namespace}: {finding}");
        findings.extend(report.findings.iter().map(named));
        for index in &report.indexes {
            findings.extend(
                index
                    .findings
                    .iter()
                    .map(|finding| format!("{namespace}: index '{}': {finding}", index.name)),
            );
        }
        let more = report.more + report.indexes.iter().map(|index| index.more).sum::<u64>();
        if more > 0 {
            findings.push(format!("{namespace}: {more} more findings"));
        }
    }
    Ok(findings)
}

/// The result of checking a folder.
pub struct Checked {
    /// Damaged files, with the collections, indexes and keys that are affected.
    pub damage: Vec<Damage>,
    /// What may be damage and does not keep the folder from being opened: the end of the log after a
    /// crash of the machine.
    pub doubts: Vec<Damage>,
    /// Problems with documents, index entries and counts.
    pub findings: Vec<String>,
    /// Why documents, indexes and counts could not be compared, if so: the folder cannot be opened.
    pub not_compared: Option<String>,
    /// The number of collections.
    pub collections: u64,
}

impl Checked {
    /// The number of things that are wrong.
    #[must_use]
    pub fn wrong(&self) -> usize {
        let found = self.damage.len() + self.findings.len();
        // A folder that cannot be opened is usually one of the damages.
        if found == 0 { usize::from(self.not_compared.is_some()) } else { found }
    }
}

/// Checks a folder that no process uses: first all files, then documents, indexes and counts, if the
/// folder can be opened. Damage does not end the check. The folder is not changed.
///
/// # Errors
/// When it is no data folder or is in use, or the operating system fails.
pub fn check_folder(folder: &Path, progress: &mut dyn FnMut(&str, u64, u64)) -> Result<Checked> {
    let salvage = Salvage::open(folder).map_err(store_failed)?;
    let found = salvage.inspect(&mut |done, total| progress("files", done, total));
    let mut collections: Vec<Collection> = Vec::new();
    salvage.read(Space::Catalog, &mut |key, value, _| {
        if let (Some((persist::Record::Collection, id)), Some(value)) =
            (persist::record_of(&key), value)
        {
            collections.extend(persist::read_collection(id, RawDoc::new(&value)));
        }
        Ok::<(), Error>(())
    })?;
    // The store locks the folder itself.
    drop(salvage);
    let names = Names::of(collections.iter());
    let mut ranges = found.iter().flat_map(Finding::ranges);
    let all_known = !ranges.any(|range| range.space == Space::Catalog);
    let damage = found.iter().map(|found| names.describe(folder, found, all_known)).collect();
    let mut checked = Checked {
        damage,
        doubts: Vec::new(),
        findings: Vec::new(),
        not_compared: None,
        collections: collections.len() as u64,
    };
    match open_to_read(folder) {
        Ok(data) => {
            let is_doubt = |damage: &mut Damage| damage.severity == Severity::Unproven;
            checked.doubts = checked.damage.extract_if(.., is_doubt).collect();
            match compare(&data, &Gaps::of(&found), progress) {
                Ok(findings) => checked.findings = findings,
                Err(error) => checked.not_compared = Some(error.message().to_owned()),
            }
            data.store.close().map_err(store_failed)?;
        }
        Err(error) => checked.not_compared = Some(error.message().to_owned()),
    }
    Ok(checked)
}

/// Opens a folder for reading.
fn open_to_read(folder: &Path) -> Result<Data> {
    let options = store::Options { read_only: true, ..store::Options::default() };
    let store = DiskStore::open(folder, options).map_err(store_failed)?;
    let storage = Storage::Disk(folder.to_path_buf());
    let options = Options { storage, read_only: true, ..Options::default() };
    Ok(Data::open(options, Box::new(store))?.0)
}

/// Turns the error of unreadable data into a message; other errors end the check.
fn readable<T>(result: Result<T>) -> Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.code() == Code::DATA_CORRUPTION_DETECTED => {
            // Without the advice to run a check.
            let message = error.message().split("; restore ").next().unwrap_or_default();
            Ok(Err(message.to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// What is found where reading failed with a message: `next` is where it goes on.
fn gap(message: &str, next: Option<&[u8]>) -> String {
    match next {
        Some(next) => format!("cannot be read up to the key {}: {message}", hex(next)),
        None => format!("cannot be read further: {message}"),
    }
}

/// Checks one collection. `gaps` are ranges known to be unreadable, which are skipped. `step` is
/// called with the number of documents read; an error from it ends the check.
///
/// # Errors
/// When the store cannot be read, and any error of `step`.
pub fn check_collection(
    snapshot: &Snapshot,
    collection: &Arc<Collection>,
    gaps: &Gaps,
    step: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Report> {
    let mut report = Report::default();
    let indexes: Vec<&Arc<Index>> =
        collection.indexes.iter().filter(|index| index.state == IndexState::Ready).collect();
    let mut expected = vec![0_u64; indexes.len()];
    report.indexes = indexes
        .iter()
        .map(|index| IndexReport {
            name: index.name.to_string(),
            entries: 0,
            findings: Vec::new(),
            more: 0,
        })
        .collect();
    let end = (collection.id + 1).to_be_bytes();
    let mut documents = layout::all(collection, snapshot)?;
    let mut last = collection.prefix().to_vec();
    let mut is_whole = true;
    loop {
        let (key, doc) = match readable(documents.next())? {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(message) => {
                is_whole = false;
                // Documents of a layout are not where their keys are.
                let next = gaps.behind(Space::Documents, &last);
                let next =
                    next.filter(|next| collection.layouts.is_none() && next.as_slice() < &end[..]);
                report.find(gap(&message, next.as_deref()));
                let Some(next) = next else { break };
                let direction = Direction::Forward;
                documents = layout::range(collection, snapshot, &next, &end, direction)?;
                last = next;
                continue;
            }
        };
        last.clear();
        last.extend_from_slice(key);
        report.documents += 1;
        let size = layout::counted_size(collection, snapshot, key, RawDoc::new(doc))?;
        report.bytes += size.max(0) as u64;
        if report.documents.is_multiple_of(1024) {
            step(report.documents)?;
        }
        let record = key.get(4..).unwrap_or(&[]);
        if let Err(error) = value::validate::validate(doc, value::limits::DEPTH_MAX_WIRE) {
            report.unreadable += 1;
            report.find(format!("the document with key {} is no BSON: {error}", hex(record)));
            continue;
        }
        let doc = RawDoc::new(doc);
        check_record(collection, record, doc, &mut report);
        for ((index, expected), found) in indexes.iter().zip(&mut expected).zip(&mut report.indexes)
        {
            if index.is_clustered() {
                *expected += 1;
            } else {
                *expected += check_entries(snapshot, index, record, doc, found)?;
            }
        }
    }
    step(report.documents)?;
    if is_whole {
        layout::check(collection, snapshot, &mut |finding| report.find(finding))?;
    }
    for ((index, expected), found) in indexes.iter().zip(expected).zip(&mut report.indexes) {
        if index.is_clustered() {
            found.entries = expected;
            continue;
        }
        let all_read = walk_index(snapshot, index, gaps, found, step)?;
        // Every expected entry was looked up, so additional entries belong to no document. With
        // documents or entries missing, each entry has to be looked at.
        if found.entries > expected || !is_whole || !all_read {
            report_unowned_entries(snapshot, collection, index, gaps, found, step)?;
        }
    }
    if !is_whole {
        return Ok(report);
    }
    let (documents, bytes) = (collection.counters.documents(), collection.counters.bytes());
    if documents != report.documents {
        report.find(format!("counts {documents} documents, but has {}", report.documents));
    }
    if bytes != report.bytes {
        report.find(format!("counts {bytes} bytes of documents, but has {}", report.bytes));
    }
    Ok(report)
}

/// Checks that a document of a clustered collection is stored under the key of its `_id`.
fn check_record(collection: &Collection, record: &[u8], doc: RawDoc<'_>, report: &mut Report) {
    let Some(id) = doc.get("_id") else {
        return report.find(format!("the document with key {} has no _id", hex(record)));
    };
    let clustered = collection.indexes.first().is_some_and(|index| index.is_clustered());
    if clustered && record_of_id(collection, id) != record {
        report.find(format!("the document with _id {} stands in the wrong place", json_text(id)));
    }
}

/// Looks up every entry that a document should have. Returns their number.
fn check_entries(
    snapshot: &Snapshot,
    index: &Index,
    record: &[u8],
    doc: RawDoc<'_>,
    found: &mut IndexReport,
) -> Result<u64> {
    let id = || json_text(doc.get("_id").unwrap_or(Val::Missing));
    let keys = match keys::stored_keys(index, doc) {
        Ok(keys) => keys,
        Err(error) => {
            found.find(format!("the document with _id {} cannot be indexed: {error}", id()));
            return Ok(0);
        }
    };
    let mut present = 0;
    for key in &keys.keys {
        let entry = maintain::entry_key(index, &key.values, record);
        // Unreadable entries are reported once, by `walk_index`.
        let stored = snapshot.get(Space::Indexes, &entry).map_err(store_failed);
        let Ok(stored) = readable(stored)? else { continue };
        match stored {
            Some(types) => {
                present += 1;
                // Covered queries read only values that are not arrays. Of equal elements of an
                // array, the types of any one may be stored.
                if keys.multikey == 0 && *types != *key.types {
                    found.find(format!(
                        "an entry of the document with _id {} has other types",
                        id()
                    ));
                }
            }
            None => found.find(format!("an entry of the document with _id {} is missing", id())),
        }
    }
    let known = index.multikey.load(std::sync::atomic::Ordering::Relaxed);
    if known & keys.multikey != keys.multikey {
        found.find(format!("does not know that the document with _id {} has arrays", id()));
    }
    Ok(present)
}

/// Counts the entries of an index and reports equal keys in a unique one. Returns whether all could
/// be read.
fn walk_index(
    snapshot: &Snapshot,
    index: &Index,
    gaps: &Gaps,
    found: &mut IndexReport,
    step: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<bool> {
    let mut last: Vec<u8> = Vec::new();
    let mut lost = Vec::new();
    walk_entries(snapshot, index, gaps, &mut |message| lost.push(message), &mut |entry| {
        found.entries += 1;
        if found.entries.is_multiple_of(4096) {
            step(found.entries)?;
        }
        let Some(record) = maintain::record_of(index, entry) else {
            found.find(format!("the entry {} is not understood", hex(entry)));
            return Ok(());
        };
        if !index.unique {
            return Ok(());
        }
        let values = entry.get(..entry.len().saturating_sub(record.len())).unwrap_or(&[]);
        if values == last {
            found.find(format!("is unique, but the entry {} is not", hex(entry)));
        }
        last.clear();
        last.extend_from_slice(values);
        Ok(())
    })?;
    let all_read = lost.is_empty();
    lost.into_iter().for_each(|message| found.find(message));
    Ok(all_read)
}

/// Calls `visit` with every entry of an index that can be read, and `lost` for each gap.
fn walk_entries(
    snapshot: &Snapshot,
    index: &Index,
    gaps: &Gaps,
    lost: &mut dyn FnMut(String),
    visit: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (from, to) = range_of(index.id);
    let mut last = from.to_vec();
    let mut entries = open(snapshot, Space::Indexes, &from, &to)?;
    loop {
        match readable(entries.next().map_err(store_failed))? {
            Ok(None) => return Ok(()),
            Ok(Some((entry, _))) => {
                last.clear();
                last.extend_from_slice(entry);
                visit(entry)?;
            }
            Err(message) => {
                let next =
                    gaps.behind(Space::Indexes, &last).filter(|next| next.as_slice() < &to[..]);
                lost(gap(&message, next.as_deref()));
                let Some(next) = next else { return Ok(()) };
                entries = open(snapshot, Space::Indexes, &next, &to)?;
                last = next;
            }
        }
    }
}

/// Reports the entries that belong to no document. Documents that cannot be read may be theirs.
fn report_unowned_entries(
    snapshot: &Snapshot,
    collection: &Collection,
    index: &Index,
    gaps: &Gaps,
    found: &mut IndexReport,
    step: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut seen = 0_u64;
    walk_entries(snapshot, index, gaps, &mut |_| {}, &mut |entry| {
        seen += 1;
        if seen.is_multiple_of(1024) {
            step(seen)?;
        }
        let Some(record) = maintain::record_of(index, entry) else { return Ok(()) };
        let key = crate::exec::write::document_key(collection, record);
        match readable(layout::get(collection, snapshot, &key))? {
            Err(_) => {}
            Ok(None) => found.find(format!("the entry {} points to no document", hex(entry))),
            Ok(Some(doc)) => {
                let values = entry.get(4..entry.len().saturating_sub(record.len())).unwrap_or(&[]);
                let known = keys::stored_keys(index, RawDoc::new(&doc))
                    .is_ok_and(|keys| keys.get(values).is_some());
                if !known {
                    found.find(format!("the entry {} is not of its document", hex(entry)));
                }
            }
        }
        Ok(())
    })
}

fn open(snapshot: &Snapshot, space: Space, from: &[u8], to: &[u8]) -> Result<Range> {
    snapshot
        .range(space, Bound::Included(from), Bound::Excluded(to), Direction::Forward)
        .map_err(store_failed)
}

fn json_text(value: Val<'_>) -> String {
    value::ejson::print_value(value, value::ejson::Format::Relaxed)
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use store::{Batch, Space};
    use value::ejson;

    fn filled() -> Engine {
        let engine = Engine::open(Options::default()).expect("memory opens");
        for text in [
            "{insert: 'c', documents: [{_id: 1, a: [1, 2]}, {_id: 2, a: 3}, {_id: 3}]}",
            "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}",
            "{create: 'capped', capped: true, size: 100000}",
            "{insert: 'capped', documents: [{_id: 1}, {_id: 'x', b: 1}]}",
        ] {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works");
        }
        engine
    }

    fn findings(engine: &Engine) -> Vec<String> {
        engine.check(&mut |_, _, _| {}).expect("can be read")
    }

    /// Damages the store without the engine's knowledge.
    fn damage(engine: &Engine, space: Space, wanted: &[u8]) {
        use std::ops::Bound::Unbounded;
        let inner = engine.inner();
        let snapshot = inner.data.store.snapshot();
        let mut range =
            snapshot.range(space, Unbounded, Unbounded, store::Direction::Forward).expect("reads");
        let mut batch = Batch::new();
        while let Some((key, value)) = range.next().expect("reads") {
            if value.ends_with(wanted) {
                batch.delete(space, key);
                break;
            }
        }
        assert!(!batch.is_empty());
        inner.data.store.write(&batch).expect("writes");
    }

    #[test]
    fn what_the_engine_wrote_is_sound() {
        assert_eq!(findings(&filled()), Vec::<String>::new());
    }

    #[test]
    fn a_lost_document_is_found_by_entries_and_counts() {
        let engine = filled();
        damage(&engine, Space::Documents, &[]);
        let findings = findings(&engine).join("\n");
        assert!(findings.contains("t.c: counts 3 documents, but has 2"), "{findings}");
        assert!(findings.contains("points to no document"), "{findings}");
    }

    #[test]
    fn a_lost_entry_is_found() {
        let engine = filled();
        damage(&engine, Space::Indexes, &[]);
        let findings = findings(&engine);
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}
