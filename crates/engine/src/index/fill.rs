//! Filling an index during its build: several threads read the documents of one snapshot, sort
//! their entries (`runs`) and write them directly into tables of the store. Writes continue
//! meanwhile; their entries are newer and take precedence in the store (`store::Load`).

use super::build::{aborted, find};
use super::maintain;
use super::runs::{Collected, Collector, Watch, merged};
use crate::catalog::{Catalog, Collection, Index};
use crate::index_keys::{keys, ordered};
use crate::job::Job;
use crate::layout;
use crate::store_failed;
use crate::trash::range_of;
use crate::txn::Data;
use parking_lot::Mutex;
use patterns::layout::Demand;
use query::interrupt;
use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Bytes, Direction, Load, Snapshot, Space};
use value::{Code, Error, RawDoc, Result};

/// Number of documents from which on several threads read them, and the number of parts. Parts
/// differ in size, so a thread that is done takes another.
const LARGE_COLLECTION: u64 = 20_000;
const PARTS: usize = 16;
/// Maximum number of threads of one build.
const THREADS_MAX: usize = 4;
/// Number of blocks of documents after which a thread checks whether to stop.
const BETWEEN_CHECKS: usize = 64;

/// Returns an error if a build is to stop.
pub(super) type Check<'c> = &'c (dyn Fn() -> Result<()> + Sync);

/// A filled index whose entries are not visible yet.
pub(super) struct Filled {
    /// The entries.
    pub(super) load: Box<dyn Load>,
    /// Whether a unique index has equal values, unless later writes changed that.
    pub(super) equal: bool,
    /// For each index, which of its fields hold arrays.
    pub(super) multikey: Vec<(Arc<Index>, u64)>,
}

/// The state of a build that its threads share.
struct Fill<'b> {
    data: &'b Data,
    job: &'b Job,
    built: &'b Collection,
    /// In the order of their prefixes.
    indexes: Vec<Arc<Index>>,
    snapshot: &'b Snapshot,
    /// Ranges of documents that are not read yet.
    parts: Mutex<VecDeque<Range<Vec<u8>>>>,
    failure: Mutex<Option<Error>>,
    failed: AtomicBool,
}

/// The result of one thread.
struct PartEntries {
    entries: Vec<Collected>,
    multikey: Vec<u64>,
}

/// Reads the documents and writes their entries; `check` returns an error to stop.
///
/// # Errors
/// When a document cannot be indexed, or the build was stopped.
pub(super) fn fill(
    data: &Data,
    job: &Job,
    built: &Collection,
    ids: &[u32],
    check: Check<'_>,
) -> Result<Filled> {
    data.check_writable()?;
    let mut indexes = indexes_in_build(&data.catalog.load(), built, ids)?;
    indexes.sort_unstable_by_key(|index| index.id);
    let prefixes: Vec<[u8; 4]> = indexes.iter().map(|index| index.prefix()).collect();
    // Begins before the snapshot, so that every later write to the index is tracked.
    let load = data.store.load(Space::Indexes, &prefixes).map_err(store_failed)?;
    let snapshot = data.store.snapshot();
    let large = built.counters.documents() >= LARGE_COLLECTION;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if large { cores.min(THREADS_MAX) } else { 1 };
    let fill = Fill {
        data,
        job,
        built,
        indexes,
        snapshot: &snapshot,
        parts: Mutex::new(parts(&snapshot, built, if threads > 1 { PARTS } else { 1 })?),
        failure: Mutex::default(),
        failed: AtomicBool::new(false),
    };
    let found = fill.read(threads, check);
    let Fill { indexes, failure, .. } = fill;
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    drop(snapshot);
    let mut multikey: Vec<_> = indexes.iter().map(|index| (index.clone(), 0)).collect();
    for thread in &found {
        for ((_, all), bits) in multikey.iter_mut().zip(&thread.multikey) {
            *all |= bits;
        }
    }
    let mut entries: Vec<Vec<Collected>> = found.into_iter().map(|found| found.entries).collect();
    let equal = AtomicBool::new(false);
    let goes_on = || {
        check().and_then(|()| stopped(data, job))?;
        indexes_in_build(&data.catalog.load(), built, ids).map(drop)
    };
    let watch = Watch { equal: &equal, stop: &|| goes_on().is_err() };
    let written = load.write(merged(&indexes, &mut entries, threads, &watch));
    // Reports the reason for a stop rather than the resulting failure.
    goes_on()?;
    written.map_err(store_failed)?;
    Ok(Filled { load, equal: equal.into_inner(), multikey })
}

/// Returns the indexes being built, as in the current catalog.
///
/// # Errors
/// IndexBuildAborted if they are no longer in the catalog.
pub(super) fn indexes_in_build(
    catalog: &Catalog,
    built: &Collection,
    ids: &[u32],
) -> Result<Vec<Arc<Index>>> {
    let collection = find(catalog, built).ok_or_else(|| aborted("the collection was dropped"))?;
    let indexes: Vec<Arc<Index>> =
        collection.indexes.iter().filter(|index| ids.contains(&index.id)).cloned().collect();
    if indexes.len() < ids.len() {
        return Err(aborted("the index was dropped"));
    }
    Ok(indexes)
}

/// Returns an error if the build was stopped or the engine is closing.
fn stopped(data: &Data, job: &Job) -> Result<()> {
    match job.killed.load(Ordering::Relaxed) {
        true => Err(Error::new(Code::INTERRUPTED, "operation was interrupted")),
        false => data.check_open(),
    }
}

/// Returns ranges that together hold all documents.
fn parts(
    snapshot: &Snapshot,
    built: &Collection,
    count: usize,
) -> Result<VecDeque<Range<Vec<u8>>>> {
    let (start, end) = range_of(built.id);
    let cuts = match count {
        1 => Vec::new(),
        // The keys of stored records do not show the distribution of documents.
        _ if built.layouts.is_some() => Vec::new(),
        _ => snapshot.split(Space::Documents, &start, &end, count).map_err(store_failed)?,
    };
    let mut parts = VecDeque::new();
    let mut from = start.to_vec();
    for cut in cuts.iter().map(Bytes::as_slice).chain([end.as_slice()]) {
        parts.push_back(std::mem::replace(&mut from, cut.to_vec())..cut.to_vec());
    }
    Ok(parts)
}

impl Fill<'_> {
    /// Reads all parts with `threads` threads, including the current one.
    fn read(&self, threads: usize, check: Check<'_>) -> Vec<PartEntries> {
        let limit = self.data.resources.build_bytes_max.load(Ordering::Relaxed) / threads.max(1);
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            let watch = interrupt::current();
            for _ in 1..threads {
                let thread = std::thread::Builder::new().name("index build".to_owned());
                // If a thread cannot be started, the others do its work.
                let watch = watch.clone();
                others.extend(thread.spawn_scoped(scope, || {
                    let _watching = watch.map(interrupt::watch);
                    self.read_parts(limit, check)
                }));
            }
            let own = self.read_parts(limit, check);
            let mut found = vec![own];
            for other in others {
                found.push(other.join().unwrap_or_else(|_| {
                    let panicked = || Error::internal("a thread of an index build panicked");
                    self.failure.lock().get_or_insert_with(panicked);
                    None
                }));
            }
            found.into_iter().flatten().collect()
        })
    }

    /// Reads parts until none remains or a thread has failed.
    fn read_parts(&self, limit: usize, check: Check<'_>) -> Option<PartEntries> {
        let scratch = self.data.resources.scratch();
        let mut collector = Collector::new(scratch, self.indexes.len(), limit);
        let mut multikey = vec![0; self.indexes.len()];
        while !self.failed.load(Ordering::Relaxed)
            && let Some(part) = { self.parts.lock().pop_front() }
        {
            if let Err(error) = self.read_part(&part, &mut collector, &mut multikey, check) {
                self.failed.store(true, Ordering::Relaxed);
                self.failure.lock().get_or_insert(error);
                return None;
            }
        }
        Some(PartEntries { entries: collector.finish(), multikey })
    }

    fn read_part(
        &self,
        part: &Range<Vec<u8>>,
        collector: &mut Collector<'_>,
        multikey: &mut [u64],
        check: Check<'_>,
    ) -> Result<()> {
        let direction = Direction::Forward;
        let between = (&*part.start, &*part.end);
        let demand = || demand_of(&self.indexes);
        let mut range = layout::range_part(self.built, self.snapshot, between, direction, demand)?;
        let ids: Vec<u32> = self.indexes.iter().map(|index| index.id).collect();
        for number in 0_usize.. {
            if self.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            check()?;
            stopped(self.data, self.job)?;
            if number.is_multiple_of(BETWEEN_CHECKS) {
                indexes_in_build(&self.data.catalog.load(), self.built, &ids)?;
            }
            let count = range.visit_block(|key, doc| {
                let record = key.get(4..).unwrap_or(&[]);
                for ((at, index), multikey) in self.indexes.iter().enumerate().zip(&mut *multikey) {
                    let found = keys::keys(index, RawDoc::new(doc))?;
                    found.refuse_ambiguous()?;
                    *multikey |= found.multikey;
                    for key in &found.keys {
                        collector.add(at, index, (&key.values, record, &key.types))?;
                    }
                }
                Ok(())
            })?;
            if count == 0 {
                break;
            }
            self.job.advance(count as u64);
        }
        Ok(())
    }
}

/// What indexes read of documents.
fn demand_of(indexes: &[Arc<Index>]) -> Demand {
    let mut paths = Vec::new();
    for index in indexes {
        let read = index.read_fields().filter(|_| index.partial.is_none());
        let Some(read) = read else { return Demand::WHOLE.clone() };
        paths.extend(read);
    }
    Demand { ordered: true, ..Demand::of(paths) }
}

/// Refuses equal values in unique indexes whose entries are complete.
///
/// # Errors
/// DuplicateKey.
pub(super) fn check_all_unique(
    data: &Data,
    collection: &Collection,
    ids: &[u32],
    check: Check<'_>,
) -> Result<()> {
    let unique = collection.indexes.iter().filter(|i| i.unique && ids.contains(&i.id));
    for index in unique {
        check_unique(data, check, collection, index)?;
    }
    Ok(())
}

/// Scans the entries of a unique index and refuses two with equal values.
fn check_unique(data: &Data, check: Check<'_>, built: &Collection, index: &Index) -> Result<()> {
    let snapshot = data.store.snapshot();
    let (from, to) = range_of(index.id);
    let mut range = snapshot
        .range(Space::Indexes, Bound::Included(&from), Bound::Excluded(&to), Direction::Forward)
        .map_err(store_failed)?;
    let mut last: Vec<u8> = Vec::new();
    while let Some(block) = range.lend_block().map_err(store_failed)? {
        check()?;
        for (entry, _) in block {
            let record = maintain::record_of(index, entry)
                .ok_or_else(|| Error::internal("an entry of the new index is not understood"))?;
            let values = entry.get(..entry.len() - record.len()).unwrap_or(&[]);
            if values == last {
                let key = built.document_key(record);
                let doc = layout::get(built, &snapshot, &key)?;
                let values = values.get(4..).unwrap_or(&[]);
                let found = doc.map(|doc| ordered::key_values(index, RawDoc::new(&doc), values));
                return Err(maintain::duplicate_key(built, index, &found.unwrap_or_default()));
            }
            last.clear();
            last.extend_from_slice(values);
        }
    }
    Ok(())
}
