//! Copies documents and the change log.

use super::Progress;
use super::catalog::Source;
use super::names::Votes;
use crate::catalog::Collection;
use crate::changes::log::{begin_anew, time_of};
use crate::changes::record::last_time;
use crate::store_failed;
use std::collections::BTreeMap;
use store::{Batch, Bytes, DiskStore, Finding, Salvage, Space, Store};
use value::{RawDoc, Result, keys, limits, validate};

/// Bytes of keys and values per batch.
const BATCH_BYTES: usize = 4 << 20;

/// What was copied of one collection.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) documents: u64,
    pub(super) bytes: u64,
    /// The number behind the highest one of a capped collection.
    pub(super) next_sequence: u64,
    /// Records that are not documents and were left out.
    pub(super) invalid: u64,
    is_recovered: bool,
}

/// What was copied, by prefix.
pub(super) struct CopiedDocuments {
    counts: BTreeMap<u32, Count>,
    /// Documents of collections without a name.
    samples: Votes,
}

impl CopiedDocuments {
    /// What was copied of a collection.
    pub(super) fn of(&self, id: u32) -> Count {
        self.counts.get(&id).copied().unwrap_or_default()
    }

    /// Sets the counts of a collection.
    pub(super) fn set(&mut self, id: u32, documents: u64, bytes: u64) {
        let count = self.counts.entry(id).or_default();
        (count.documents, count.bytes) = (documents, bytes);
    }

    /// The prefixes with documents but without a catalog record.
    pub(super) fn recovered(&self) -> Vec<u32> {
        let recovered = self.counts.iter().filter(|(_, c)| c.is_recovered && c.documents > 0);
        recovered.map(|(id, _)| *id).collect()
    }

    /// The number of records that are not documents.
    pub(super) fn invalid(&self) -> u64 {
        self.counts.values().filter(|count| !count.is_recovered).map(|count| count.invalid).sum()
    }
}

/// Collects changes and writes them in batches.
struct Writer<'s> {
    store: &'s DiskStore,
    batch: Batch,
}

impl<'s> Writer<'s> {
    fn new(store: &'s DiskStore) -> Writer<'s> {
        Writer { store, batch: Batch::new() }
    }

    fn put(&mut self, space: Space, key: Bytes, value: Bytes) -> Result<()> {
        self.batch.put_owned(space, key, value);
        if self.batch.bytes() >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.store.write(&self.batch).map_err(store_failed)?;
        self.batch.clear();
        self.store.make_room();
        self.store.pace(&|| true);
        Ok(())
    }
}

/// Copies the documents of all collections.
pub(super) fn documents(
    salvage: &Salvage,
    store: &DiskStore,
    source: &mut Source,
    findings: &mut Vec<Finding>,
    progress: Progress<'_>,
) -> Result<CopiedDocuments> {
    let total = salvage.table_bytes(Space::Documents);
    let mut copied = CopiedDocuments { counts: BTreeMap::new(), samples: Votes::default() };
    let mut writer = Writer::new(store);
    let mut steps = 0_u64;
    let found = salvage.read(Space::Documents, &mut |key, value, done| {
        steps += 1;
        if steps.is_multiple_of(1024) {
            progress("copying documents", done, total);
        }
        let (Some(value), Some(prefix)) = (value, key.first_chunk::<4>()) else { return Ok(()) };
        let id = u32::from_be_bytes(*prefix);
        if source.is_layout(id) {
            return writer.put(Space::Documents, key, value);
        }
        if source.is_rebuilt_pattern(id) {
            return Ok(());
        }
        let collection = source.collections.get(&id);
        if collection.is_none() && (!source.is_damaged || source.dropped.contains(&id)) {
            return Ok(());
        }
        match copied.take(id, collection.map(|collection| &**collection), key, value) {
            Some((key, value)) => writer.put(Space::Documents, key, value),
            None => Ok(()),
        }
    })?;
    findings.extend(found);
    writer.flush()?;
    for id in copied.counts.keys() {
        source.note_id(*id);
    }
    progress("copying documents", total, total);
    Ok(copied)
}

impl CopiedDocuments {
    /// Returns the record to be written; `None` for one that is not a document.
    fn take(
        &mut self,
        id: u32,
        collection: Option<&Collection>,
        key: Bytes,
        value: Bytes,
    ) -> Option<(Bytes, Bytes)> {
        let count = self.counts.entry(id).or_default();
        // A layout, too, stores documents behind the prefix of a collection.
        if validate::validate(&value, limits::DEPTH_MAX_WIRE).is_err() {
            count.invalid += 1;
            count.is_recovered |= collection.is_none();
            return None;
        }
        let key = match collection {
            Some(collection) => {
                if collection.capped().is_some()
                    && let Some(sequence) = key.get(4..).and_then(|rest| rest.first_chunk::<8>())
                {
                    let next = u64::from_be_bytes(*sequence).saturating_add(1);
                    count.next_sequence = count.next_sequence.max(next);
                }
                key
            }
            None => {
                count.is_recovered = true;
                // Records of patterns have no `_id`. The new collection is a plain one.
                let Some(id_value) = RawDoc::new(&value).get("_id") else {
                    count.invalid += 1;
                    return None;
                };
                self.samples.note(id, &value);
                Bytes::copy_prefixed(id.to_be_bytes(), &keys::key(id_value))
            }
        };
        count.documents += 1;
        count.bytes += value.len() as u64;
        Some((key, value))
    }
}

/// Copies the change log. If a part of it may be missing, its records are left out: a reader must
/// not pass over a gap. Returns the names that it has for collections without one.
pub(super) fn change_log(
    salvage: &Salvage,
    store: &DiskStore,
    copied: &mut CopiedDocuments,
    findings: &mut Vec<Finding>,
    notes: &mut Vec<String>,
    progress: Progress<'_>,
) -> Result<Votes> {
    let mut votes = std::mem::take(&mut copied.samples);
    let total = salvage.table_bytes(Space::Log);
    let touches_log = |findings: &[Finding]| {
        findings.iter().flat_map(Finding::ranges).any(|range| range.space == Space::Log)
    };
    // A first pass finds damage of its tables, the second one copies.
    let mut newest = 0;
    let mut found = salvage.read(Space::Log, &mut |key, value, done| {
        if let (Some(first), Some(record)) = (time_of(&key), value) {
            newest = newest.max(last_time(&record, first));
            votes.count(record, first);
        }
        progress("reading the change log", done, total);
        Ok::<(), value::Error>(())
    })?;
    findings.append(&mut found);
    let is_whole = !touches_log(findings);
    let mut writer = Writer::new(store);
    salvage.read(Space::Log, &mut |key, value, done| {
        progress("copying the change log", done, total);
        match value {
            Some(value) if is_whole || time_of(&key).is_none() => {
                writer.put(Space::Log, key, value)
            }
            _ => Ok(()),
        }
    })?;
    writer.flush()?;
    if !is_whole {
        begin_anew(store, newest)?;
        notes.push(
            "the change log begins anew: change streams cannot resume from before the repair"
                .to_owned(),
        );
    }
    Ok(votes)
}
