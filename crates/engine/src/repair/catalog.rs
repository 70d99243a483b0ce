//! The catalog: what is readable of the old one, and the new one.

use super::copy::CopiedDocuments;
use super::names::Votes;
use crate::catalog::persist::{self, Record};
use crate::catalog::{Catalog, Collection, Ids, IndexState, change};
use crate::layout;
use crate::store_failed;
use patterns::{Pattern, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{Batch, Bytes, DiskStore, Finding, Salvage, Space, Store};
use value::{DocBuf, RawDoc, Result};

/// The database of collections whose names are lost.
const RECOVERED: &str = "recovered";

/// What the old catalog tells.
#[derive(Default)]
pub(super) struct Source {
    pub(super) collections: BTreeMap<u32, Arc<Collection>>,
    /// Collections that are known to have been dropped.
    pub(super) dropped: BTreeSet<u32>,
    /// Database and pattern.
    pub(super) patterns: Vec<(String, Pattern)>,
    /// The next sequence numbers of capped collections.
    pub(super) sequences: BTreeMap<u32, u64>,
    /// Whether records may be missing: documents without one are kept then.
    pub(super) is_damaged: bool,
    /// Records that are copied as they are.
    others: Vec<(Bytes, Bytes)>,
    next_id: u32,
}

impl Source {
    /// Whether records behind this prefix belong to a pattern that is built again.
    pub(super) fn is_rebuilt_pattern(&self, id: u32) -> bool {
        self.patterns.iter().any(|(_, pattern)| pattern.id == id && pattern.layout().is_none())
    }

    /// Whether records behind this prefix are copied as they are.
    pub(super) fn is_layout(&self, id: u32) -> bool {
        self.patterns.iter().any(|(_, pattern)| pattern.id == id && pattern.layout().is_some())
    }

    /// Notes that a number is in use.
    pub(super) fn note_id(&mut self, id: u32) {
        self.next_id = self.next_id.max(id.saturating_add(1));
    }
}

/// Reads the old catalog.
pub(super) fn read(
    salvage: &Salvage,
    findings: &mut Vec<Finding>,
    notes: &mut Vec<String>,
) -> Result<Source> {
    let mut source = Source { next_id: 1, ..Source::default() };
    let found = salvage.read(Space::Catalog, &mut |key, value, _| {
        source.take(key, value, notes);
        Ok::<(), value::Error>(())
    })?;
    findings.extend(found);
    let mut ranges = findings.iter().flat_map(Finding::ranges);
    source.is_damaged = ranges.any(|range| range.space == Space::Catalog);
    Ok(source)
}

impl Source {
    fn take(&mut self, key: Bytes, value: Option<Bytes>, notes: &mut Vec<String>) {
        let Some((record, id)) = persist::record_of(&key) else { return };
        let Some(value) = value else {
            if record == Record::Collection {
                self.dropped.insert(id);
            }
            return;
        };
        if matches!(record, Record::Collection | Record::Pattern) {
            self.note_id(id);
        }
        match record {
            Record::Collection => match persist::read_collection(id, RawDoc::new(&value)) {
                Ok(collection) => {
                    for index in &collection.indexes {
                        self.note_id(index.id);
                    }
                    self.collections.insert(id, Arc::new(collection));
                }
                Err(error) => {
                    self.is_damaged = true;
                    notes.push(format!("the record of collection {id} is not readable: {error}"));
                }
            },
            Record::Counters => {
                if let Some(sequence) = value.get(16..).and_then(|rest| rest.first_chunk::<8>()) {
                    self.sequences.insert(id, u64::from_be_bytes(*sequence));
                }
            }
            Record::NextId => {
                if let Some(next) = value.first_chunk::<4>() {
                    self.next_id = self.next_id.max(u32::from_be_bytes(*next));
                }
            }
            Record::Pattern => match persist::decode_pattern(id, RawDoc::new(&value)) {
                Ok(pattern) => self.patterns.push(pattern),
                Err(error) => {
                    notes.push(format!("the record of pattern {id} is not readable: {error}"));
                }
            },
            // They are made again with the indexes.
            Record::Multikey | Record::Build => {}
            Record::Other => self.others.push((key, value)),
        }
    }
}

/// Writes the new catalog: all indexes are to be built, and all patterns.
pub(super) fn write(
    store: &DiskStore,
    source: &mut Source,
    copied: &mut CopiedDocuments,
    votes: &Votes,
    notes: &mut Vec<String>,
) -> Result<()> {
    let mut batch = Batch::new();
    let mut catalog = Catalog::default();
    for collection in source.collections.values() {
        let indexes = collection.indexes.iter().map(|index| match index.is_clustered() {
            true => index.clone(),
            false => change::with_state(index, IndexState::Building),
        });
        let indexes = indexes.collect();
        let built = change::altered(collection, |collection| collection.indexes = indexes);
        change::put(&mut catalog, &mut batch, built);
    }
    for id in copied.recovered() {
        let collection = recover(&mut catalog, &mut batch, id, votes, notes)?;
        source.collections.insert(id, collection);
        source.note_id(id);
    }
    for (db, pattern) in &source.patterns {
        let phase = match pattern.phase {
            Phase::Ready | Phase::Degraded if pattern.layout().is_none() => Phase::Building,
            phase => phase,
        };
        let pattern = pattern.altered(|pattern| pattern.phase = phase)?;
        let record = persist::encode_pattern(db, &pattern);
        let id = pattern.id;
        match change::add_pattern(&mut catalog, db, pattern) {
            Ok(()) => batch.put(Space::Catalog, &persist::pattern_key(id), record.bytes()),
            Err(error) => notes.push(format!("a pattern of '{db}' is left out: {error}")),
        }
    }
    for (key, value) in &source.others {
        batch.put(Space::Catalog, key, value);
    }
    count(store, &catalog, copied)?;
    for collection in catalog.collections().filter(|collection| collection.view().is_none()) {
        let count = copied.of(collection.id);
        let sequence = source.sequences.get(&collection.id).copied().unwrap_or(0);
        let counters = persist::encode_counters(
            i64::try_from(count.documents).unwrap_or(i64::MAX),
            i64::try_from(count.bytes).unwrap_or(i64::MAX),
            sequence.max(count.next_sequence),
        );
        batch.put(Space::Catalog, &persist::counters_key(collection.id), &counters);
    }
    batch.put(Space::Catalog, &persist::next_id_key(), &source.next_id.to_be_bytes());
    store.write(&batch).map_err(store_failed)?;
    Ok(())
}

/// Creates the collection of documents whose catalog record is lost.
fn recover(
    catalog: &mut Catalog,
    batch: &mut Batch,
    id: u32,
    votes: &Votes,
    notes: &mut Vec<String>,
) -> Result<Arc<Collection>> {
    let known = votes.name(id).filter(|(db, name)| catalog.get(db, name).is_none());
    let (db, name) = known.unwrap_or_else(|| (RECOVERED.to_owned(), format!("c{id}")));
    let ids = Ids::from(id);
    let options = DocBuf::new();
    let (db, name) = match change::create(&ids, catalog, batch, &db, &name, options) {
        Ok(_) => (db, name),
        Err(_) => {
            let name = format!("c{id}");
            change::create(&Ids::from(id), catalog, batch, RECOVERED, &name, DocBuf::new())?;
            (RECOVERED.to_owned(), name)
        }
    };
    let origin = match db == RECOVERED {
        true => "its name is lost",
        false => "its name is from the change log",
    };
    notes.push(format!(
        "{db}.{name}: the catalog record of this collection is lost; {origin}; its options and \
         indexes are lost; it may have been dropped"
    ));
    let created = catalog.get(&db, &name).cloned();
    created.ok_or_else(|| value::Error::internal("a recovered collection is not in the catalog"))
}

/// Counts the documents of collections whose records are not documents.
fn count(store: &DiskStore, catalog: &Catalog, copied: &mut CopiedDocuments) -> Result<()> {
    let recovered: BTreeSet<u32> = copied.recovered().into_iter().collect();
    let snapshot = store.snapshot();
    for collection in catalog.collections().filter(|collection| collection.view().is_none()) {
        if collection.layouts.is_none() && !recovered.contains(&collection.id) {
            continue;
        }
        let (mut documents, mut bytes) = (0, 0);
        let mut all = layout::all(collection, &snapshot)?;
        while let Some((_, doc)) = all.next()? {
            documents += 1;
            bytes += doc.len() as u64;
        }
        copied.set(collection.id, documents, bytes);
    }
    Ok(())
}
