//! Building indexes while writes continue.
//!
//! First the index enters the catalog as unfinished. From then on every write maintains it, and
//! running statements are retried because the collection's version changed. Then the documents are
//! read (`fill`). Finally their entries are published and the index becomes ready, in one commit. A
//! failed build removes its index. A build that was interrupted by the end of the process restarts
//! at the next start (`resume`).

use super::existing::existing;
use super::fill::{Check, Filled, check_all_unique, fill, indexes_in_build};
use super::spec::IndexSpec;
use crate::catalog::{Catalog, Collection, IndexState, change, persist, unindexable};
use crate::job::Job;
use crate::operation::Operation;
use crate::store_failed;
use crate::txn::Data;
use crate::txn::Transaction;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::Space;
use value::{Code, DocBuf, Error, Result, limits};

/// The result of a request for indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of indexes of the collection before.
    pub before: usize,
    /// Number of indexes of the collection afterwards.
    pub after: usize,
    /// Whether the collection was created by the request.
    pub created_collection: bool,
    /// How many of the requested indexes existed already.
    pub existed: usize,
}

/// The result of the first step.
enum Begun {
    /// Nothing remains to be done.
    Done(Outcome),
    /// These indexes are to be filled.
    Filling(Outcome, Arc<Collection>, Vec<u32>),
    /// Another client builds one of them: wait and try again.
    Busy,
}

/// Creates the indexes that are missing and returns when they are ready.
///
/// # Errors
/// Conflicts with existing indexes, DuplicateKey and CannotIndexParallelArrays from the documents,
/// or that the operation was stopped. No index remains then.
pub fn create(
    data: &Data,
    op: &Operation,
    db: &str,
    name: &str,
    specs: &[IndexSpec],
) -> Result<Outcome> {
    if op.is_in_transaction() {
        return op.with_transaction(|txn| create_within(data, txn, db, name, specs));
    }
    loop {
        let known = data.collection(db, name);
        let known = known.map(|known| all_exist(&known, &within(&known, specs)?)).transpose()?;
        let begun = match known.flatten() {
            Some(begun) => begun,
            None => {
                data.wait_for_writers(&|| op.check_now(), |c| *c.db == *db && *c.name == *name)?;
                begin(data, db, name, specs)?
            }
        };
        match begun {
            Begun::Done(outcome) => return Ok(outcome),
            Begun::Busy => {
                op.check_now()?;
                std::thread::sleep(Duration::from_millis(5));
            }
            Begun::Filling(outcome, collection, ids) => {
                return match run(data, &collection, &ids, &op.stop_check()) {
                    Ok(()) => Ok(outcome),
                    Err(error) => {
                        let built = collection.clone();
                        data.clean_up("an unfinished index", move |data| {
                            remove_failed(data, &built, &ids)
                        });
                        let prefix = format!(
                            "Index build failed: Collection {} :: caused by :: ",
                            collection.namespace()
                        );
                        Err(error.context(prefix))
                    }
                };
            }
        }
    }
}

/// Fills unfinished indexes of the catalog and makes them ready.
///
/// # Errors
/// See `create`; the indexes stay unfinished.
pub(super) fn run(
    data: &Data,
    collection: &Collection,
    ids: &[u32],
    check: Check<'_>,
) -> Result<()> {
    let job = new_job(data, collection);
    let _listed = Listed::new(data, job.clone());
    let _watching = job.watch();
    let filled = fill(data, &job, collection, ids, check)?;
    finish(data, collection, ids, filled, check)
}

/// Creates indexes inside a transaction, on an empty collection that the transaction created.
///
/// # Errors
/// OperationNotSupportedInTransaction for any other collection.
fn create_within(
    data: &Data,
    txn: &mut Transaction,
    db: &str,
    name: &str,
    specs: &[IndexSpec],
) -> Result<Outcome> {
    if let Some(found) = txn.catalog.get(db, name) {
        if let Some(Begun::Done(outcome)) = all_exist(found, &within(found, specs)?)? {
            return Ok(outcome);
        }
        if !txn.has_created(found) || txn.counted(found).0 > 0 {
            let which = if txn.has_created(found) { "non-empty" } else { "existing" };
            return Err(Error::new(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                format!(
                    "Cannot create new indexes on {which} collection {} in a multi-document \
                     transaction.",
                    found.namespace()
                ),
            ));
        }
    } else if data.collection(db, name).is_some() {
        return Err(Error::new(
            Code::SNAPSHOT_UNAVAILABLE,
            format!("{db}.{name} was created after the snapshot of the transaction; please retry"),
        ));
    }
    let mut catalog = Catalog::clone(&txn.catalog);
    let mut batch = store::Batch::new();
    let Begun::Done(mut outcome) = grow(data, &mut catalog, &mut batch, db, name, specs)? else {
        return Err(Error::internal("an empty collection needs no build"));
    };
    outcome.created_collection = true;
    if let Some(grown) = catalog.get(db, name).cloned() {
        txn.adopt(catalog, &batch, grown);
    }
    Ok(outcome)
}

/// Applies a collection's default collation to specifications.
fn within(collection: &Collection, specs: &[IndexSpec]) -> Result<Vec<IndexSpec>> {
    specs.iter().map(|spec| spec.within(collection.collation.as_deref())).collect()
}

/// Adds the indexes to the catalog. For an empty collection that completes the build.
fn begin(data: &Data, db: &str, name: &str, specs: &[IndexSpec]) -> Result<Begun> {
    data.change_catalog(|catalog, batch| grow(data, catalog, batch, db, name, specs))
}

/// Adds indexes to a collection of the catalog, which is created if it does not exist.
fn grow(
    data: &Data,
    catalog: &mut Catalog,
    batch: &mut store::Batch,
    db: &str,
    name: &str,
    specs: &[IndexSpec],
) -> Result<Begun> {
    let found = catalog.get(db, name).cloned();
    let created_collection = found.is_none();
    let collection = match found {
        Some(collection) => collection,
        None => {
            crate::namespace::check_new_collection(db, name)?;
            if specs.iter().any(IndexSpec::is_clustered) {
                return Err(Error::new(
                    Code(6_100_900),
                    "Cannot implicitly create a new collection with createIndex 'clustered' option",
                ));
            }
            change::create(&data.ids, catalog, batch, db, name, DocBuf::new())?
        }
    };
    let specs = &within(&collection, specs)?;
    if let Some(begun) = all_exist(&collection, specs)? {
        // A new collection has the `_id` index, which may be the only one requested.
        return Ok(match begun {
            Begun::Done(outcome) => Begun::Done(Outcome { created_collection, ..outcome }),
            other => other,
        });
    }
    let before = collection.indexes.len();
    let empty = collection.counters.documents() == 0;
    let state = if empty { IndexState::Ready } else { IndexState::Building };
    let mut grown = Collection::clone(&collection);
    let mut ids = Vec::new();
    let mut existed = 0;
    for spec in specs {
        if existing(&grown, spec)?.is_some() {
            if existing(&collection, spec)?.is_none() {
                return Err(Error::new(
                    Code::INDEX_ALREADY_EXISTS,
                    format!("Identical index already exists: {}", spec.name),
                ));
            }
            existed += 1;
            continue;
        }
        if grown.indexes.len() >= limits::INDEXES_PER_COLLECTION_MAX {
            return Err(Error::new(
                Code::CANNOT_CREATE_INDEX,
                format!(
                    "add index fails, too many indexes for {db}.{name} key:{}",
                    crate::index_keys::doc_text(spec.key())
                ),
            ));
        }
        if let Some(why) = unindexable(catalog.patterns(db), name, spec.doc.as_doc()) {
            return Err(Error::new(Code::CANNOT_CREATE_INDEX, why));
        }
        let id = data.ids.fresh(batch);
        ids.push(id);
        let index = persist::index_from_spec(id, spec.doc.as_doc(), state, 0)?;
        grown.indexes.push(Arc::new(index));
    }
    let after = grown.indexes.len();
    let grown = change::altered(&grown, |_| {});
    change::put(catalog, batch, grown.clone());
    let outcome = Outcome { before, after, created_collection, existed };
    Ok(if empty { Begun::Done(outcome) } else { Begun::Filling(outcome, grown, ids) })
}

/// Returns the result if every requested index exists already.
fn all_exist(collection: &Collection, specs: &[IndexSpec]) -> Result<Option<Begun>> {
    if collection.view().is_some() {
        return Err(Error::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {} is a view, not a collection", collection.namespace()),
        ));
    }
    let mut building = false;
    let mut existed = 0;
    for spec in specs {
        if let Some(index) = existing(collection, spec)? {
            existed += 1;
            building |= index.state == IndexState::Building;
        }
    }
    if building {
        return Ok(Some(Begun::Busy));
    }
    if existed < specs.len() {
        return Ok(None);
    }
    let count = collection.indexes.len();
    let outcome = Outcome { before: count, after: count, created_collection: false, existed };
    Ok(Some(Begun::Done(outcome)))
}

/// Creates the row of a build in `currentOp`.
pub(super) fn new_job(data: &Data, collection: &Collection) -> Arc<Job> {
    Arc::new(Job {
        id: data.next_operation.fetch_add(1, Ordering::Relaxed),
        what: "Index Build: scanning collection".to_owned(),
        namespace: collection.namespace(),
        started: Instant::now(),
        done: AtomicU64::new(0),
        total: AtomicU64::new(collection.counters.documents()),
        killed: AtomicBool::new(false),
    })
}

/// Returns the current version of a collection, which may have been renamed or altered.
pub(super) fn find(catalog: &Catalog, built: &Collection) -> Option<Arc<Collection>> {
    match catalog.get(&built.db, &built.name) {
        Some(same) if same.id == built.id => Some(same.clone()),
        _ => catalog.collections().find(|other| other.id == built.id).cloned(),
    }
}

/// Publishes the entries of indexes and makes them ready.
fn finish(
    data: &Data,
    built: &Collection,
    ids: &[u32],
    filled: Filled,
    check: Check<'_>,
) -> Result<()> {
    let Filled { load, equal, multikey } = filled;
    let doubtful = data.change_catalog(|catalog, batch| {
        let indexes = indexes_in_build(catalog, built, ids)?;
        // No commit can come between this and the new version of the collection. Statements that
        // did not see the entries, and so could not check for duplicates, are retried.
        let written = load.finish().map_err(store_failed)?;
        let unique = indexes.iter().any(|index| index.unique);
        let doubtful = unique && (equal || written > 0);
        for (index, bits) in multikey.iter().filter(|(_, bits)| *bits != 0) {
            let bits = index.multikey.fetch_or(*bits, Ordering::Relaxed) | bits;
            batch.put(Space::Catalog, &persist::multikey_key(index.id), &bits.to_be_bytes());
        }
        let state = if doubtful { IndexState::Building } else { IndexState::Ready };
        set_state(catalog, batch, built, ids, state).map(|()| doubtful)
    })?;
    if !doubtful {
        return Ok(());
    }
    // From here on writers enforce uniqueness. Earlier entries are compared now.
    check_all_unique(data, built, ids, check)?;
    data.change_catalog(|catalog, batch| {
        indexes_in_build(catalog, built, ids)?;
        set_state(catalog, batch, built, ids, IndexState::Ready)
    })
}

/// Creates a new version of the collection in which these indexes have this state.
fn set_state(
    catalog: &mut Catalog,
    batch: &mut store::Batch,
    built: &Collection,
    ids: &[u32],
    state: IndexState,
) -> Result<()> {
    let collection = find(catalog, built).ok_or_else(|| aborted("the collection was dropped"))?;
    let altered = change::altered(&collection, |collection| {
        for index in collection.indexes.iter_mut().filter(|index| ids.contains(&index.id)) {
            *index = change::with_state(index, state);
        }
    });
    change::put(catalog, batch, altered);
    Ok(())
}

/// Removes indexes whose build failed.
pub(super) fn remove_failed(data: &Data, built: &Collection, ids: &[u32]) -> Result<()> {
    let removed = data.change_catalog(|catalog, batch| {
        // It was dropped with its collection or by name, and its space is freed already.
        let Some(collection) = find(catalog, built) else { return Ok(Vec::new()) };
        let (gone, kept): (Vec<_>, Vec<_>) =
            collection.indexes.iter().cloned().partition(|index| ids.contains(&index.id));
        if gone.is_empty() {
            return Ok(gone);
        }
        gone.iter().for_each(|index| change::forget_index(batch, index));
        let left = change::altered(&collection, |collection| collection.indexes = kept);
        change::put(catalog, batch, left);
        Ok(gone)
    })?;
    change::discard_indexes(&data.trash, removed.iter());
    Ok(())
}

pub(super) fn aborted(why: &str) -> Error {
    Error::new(Code::INDEX_BUILD_ABORTED, format!("index build aborted: {why}"))
}

/// Keeps a job in the list while it exists.
pub(super) struct Listed<'e> {
    data: &'e Data,
    job: Arc<Job>,
}

impl<'e> Listed<'e> {
    pub(super) fn new(data: &'e Data, job: Arc<Job>) -> Listed<'e> {
        data.jobs.lock().push(job.clone());
        Listed { data, job }
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.data.jobs.lock().retain(|job| !Arc::ptr_eq(job, &self.job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options, Storage};
    use crate::index::spec;
    use value::ejson;

    fn run(engine: &Engine, text: &str) -> Result<DocBuf> {
        let command = ejson::parse_doc(text).expect("test text");
        engine.run_command("t", command.as_doc())
    }

    #[test]
    fn equal_keys_from_builder_and_writer_do_not_both_pass() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        for round in 0..20 {
            let name = format!("c{round}");
            let documents: Vec<String> =
                (0..2000).map(|n| format!("{{_id: {n}, a: {n}}}")).collect();
            run(&engine, &format!("{{insert: '{name}', documents: [{}]}}", documents.join(",")))
                .expect("works");
            std::thread::scope(|scope| {
                let (engine, name) = (&engine, &name);
                scope.spawn(move || {
                    for n in (0..2000).step_by(50) {
                        let text = format!("{{insert: '{name}', documents: [{{a: {n}}}]}}");
                        run(engine, &text).expect("replies");
                    }
                });
                let build = format!(
                    "{{createIndexes: '{name}', indexes: [{{key: {{a: 1}}, name: 'a', unique: true}}]}}"
                );
                // Either the duplicate existed before, or the writer was refused.
                let built = run(engine, &build);
                let code = built.map_or_else(|error| error.code(), |_| Code::OK);
                assert!(matches!(code, Code::OK | Code::DUPLICATE_KEY), "{code:?}");
            });
        }
        assert_eq!(engine.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
    }

    #[test]
    fn a_build_that_the_process_did_not_survive_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let options =
            || Options { storage: Storage::Disk(folder.path().to_owned()), ..Options::default() };
        let engine = Engine::open(options()).expect("opens");
        run(&engine, "{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 2}]}").expect("works");
        run(&engine, "{createIndexes: 'c', indexes: [{key: {b: 1}, name: 'b'}]}").expect("works");
        let given = ejson::parse_doc("{key: {a: 1}, name: 'a'}").expect("test text");
        let spec = spec::parse(given.as_doc(), false).expect("is right");
        let begun = begin(&engine.inner().data, "t", "c", &[spec]).expect("begins");
        assert!(matches!(begun, Begun::Filling(..)), "there are documents");
        // Writes maintain the unfinished index.
        run(&engine, "{insert: 'c', documents: [{_id: 3, a: 3}]}").expect("works");
        engine.close().expect("closes");
        drop(engine);
        let engine = Engine::open(options()).expect("opens again");
        // A request for it waits until it is ready.
        let reply = run(&engine, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}");
        let reply = reply.expect("works");
        assert!(reply.as_doc().get("note").is_some());
        let collection = engine.inner().data.collection("t", "c").expect("is there");
        assert!(collection.index("a").is_some_and(|index| index.state == IndexState::Ready));
        assert_eq!(engine.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
    }

    #[test]
    fn a_build_that_ended_before_it_was_ready_begins_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let options =
            || Options { storage: Storage::Disk(folder.path().to_owned()), ..Options::default() };
        let engine = Engine::open(options()).expect("opens");
        let documents: Vec<String> =
            (0..20_000).map(|n| format!("{{_id: {n}, a: [{n}, {n}.5]}}")).collect();
        run(&engine, &format!("{{insert: 'c', documents: [{}]}}", documents.join(",")))
            .expect("works");
        let given = ejson::parse_doc("{key: {a: 1}, name: 'a', unique: true}").expect("test text");
        let spec = spec::parse(given.as_doc(), false).expect("is right");
        let begun = begin(&engine.inner().data, "t", "c", &[spec]).expect("begins");
        let Begun::Filling(_, collection, ids) = begun else { panic!("there are documents") };
        let job = new_job(&engine.inner().data, &collection);
        let filled =
            fill(&engine.inner().data, &job, &collection, &ids, &|| Ok(())).expect("fills");
        assert_eq!(job.done.load(Ordering::Relaxed), 20_000);
        // The entries are in the store, but the process ends before the index is marked as ready.
        filled.load.finish().expect("shows the entries");
        run(&engine, "{update: 'c', updates: [{q: {_id: 5}, u: {$set: {a: -5}}}, {q: {_id: 19000}, u: {$set: {a: -9400}}}]}")
            .expect("works");
        engine.close().expect("closes");
        drop(engine);
        let engine = Engine::open(options()).expect("opens again");
        run(&engine, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a', unique: true}]}")
            .expect("works");
        let renewed = engine.inner().data.collection("t", "c").expect("is there");
        let index = renewed.index("a").expect("is there");
        assert!(!ids.contains(&index.id) && index.is_multikey());
        assert_eq!(engine.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
        let count = run(&engine, "{count: 'c', query: {a: {$gte: -9999}}, hint: 'a'}");
        assert_eq!(count.expect("works").as_doc().get("n"), Some(value::Val::Int32(20_000)));
    }

    #[test]
    fn entries_beyond_the_memory_are_sorted_on_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = Storage::Disk(folder.path().to_owned());
        let engine = Engine::open(Options { storage, ..Options::default() }).expect("opens");
        let documents: Vec<String> = (0..25_000)
            .map(|n| format!("{{_id: {n}, a: {}, b: ['x', {n}]}}", n * 7919 % 25_000))
            .collect();
        run(&engine, &format!("{{insert: 'c', documents: [{}]}}", documents.join(",")))
            .expect("works");
        for (name, bytes) in [("small", 100_000), ("tiny", 1), ("large", 1 << 30)] {
            engine.inner().data.resources.build_bytes_max.store(bytes, Ordering::Relaxed);
            if bytes == 1 {
                // One run per entry would create too many files.
                run(&engine, "{delete: 'c', deletes: [{q: {_id: {$gte: 100}}, limit: 0}]}")
                    .expect("works");
            }
            let command = format!(
                "{{createIndexes: 'c', indexes: [{{key: {{a: 1}}, name: '{name}', unique: true, \
                 collation: {{locale: 'de'}}}}, {{key: {{b: 1, a: -1}}, name: '{name}2', \
                 collation: {{locale: 'de'}}}}]}}"
            );
            run(&engine, &command).expect("works");
            let problems = engine.check(&mut |_, _, _| {}).expect("can be read");
            assert_eq!(problems, Vec::<String>::new());
            let left = std::fs::read_dir(folder.path().join("tmp")).map_or(0, Iterator::count);
            assert_eq!(left, 0);
            run(&engine, "{dropIndexes: 'c', index: '*'}").expect("works");
        }
    }

    #[test]
    fn writes_go_on_while_an_index_is_built() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = Storage::Disk(folder.path().to_owned());
        for storage in [Storage::Memory, storage] {
            let engine = Engine::open(Options { storage, ..Options::default() }).expect("opens");
            let documents: Vec<String> =
                (0..21_000).map(|n| format!("{{_id: {n}, a: {}, b: [1, {n}]}}", n % 977)).collect();
            run(&engine, &format!("{{insert: 'c', documents: [{}]}}", documents.join(",")))
                .expect("works");
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 0..2_u64 {
                    let (engine, stop) = (&engine, &stop);
                    scope.spawn(move || {
                        let mut n = thread;
                        while !stop.load(Ordering::Relaxed) {
                            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let id = (n >> 33) % 22_000;
                            let a = (n >> 20) % 977;
                            let text = match n >> 61 {
                                0 => format!("{{delete: 'c', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
                                1 => format!("{{update: 'c', updates: [{{q: {{a: {a}}}, u: {{$inc: {{a: 1}}}}, multi: true}}]}}"),
                                _ => format!("{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{$set: {{a: {a}, b: [{a}]}}}}, upsert: true}}]}}"),
                            };
                            run(engine, &text).expect("works");
                        }
                    });
                }
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || {
                    for round in 0..4 {
                        let command = format!(
                            "{{createIndexes: 'c', indexes: [{{key: {{a: 1}}, name: 'a{round}'}}, \
                             {{key: {{b: 1, a: 1}}, name: 'b{round}'}}]}}"
                        );
                        let built = run(engine, &command);
                        let problems = built.map(|_| engine.check(&mut |_, _, _| {}));
                        if !matches!(&problems, Ok(Ok(problems)) if problems.is_empty())
                            || round == 3
                        {
                            stop.store(true, Ordering::Relaxed);
                        }
                        assert_eq!(problems.expect("works").expect("reads"), Vec::<String>::new());
                        if round < 3 {
                            run(engine, "{dropIndexes: 'c', index: '*'}").expect("works");
                        }
                    }
                });
            });
            assert_eq!(engine.check(&mut |_, _, _| {}).expect("reads"), Vec::<String>::new());
        }
    }

    #[test]
    fn everything_is_there_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let options =
            || Options { storage: Storage::Disk(folder.path().to_owned()), ..Options::default() };
        let engine = Engine::open(options()).expect("opens");
        for text in [
            "{create: 'v', viewOn: 'c', pipeline: []}",
            "{create: 'cap', capped: true, size: 4096, max: 2}",
            "{create: 'checked', validator: {a: {$gt: 1}}}",
            "{insert: 'c', documents: [{_id: 1, a: [1, 2]}, {_id: 2, a: 2}]}",
            "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a', sparse: true}]}",
            "{insert: 'cap', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}",
            "{insert: 'gone', documents: [{_id: 1}]}",
            "{drop: 'gone'}",
        ] {
            run(&engine, text).expect(text);
        }
        engine.close().expect("closes");
        drop(engine);
        let engine = Engine::open(options()).expect("opens again");
        let inner = engine.inner();
        assert!(inner.data.collection("t", "gone").is_none());
        assert!(inner.data.collection("t", "v").is_some_and(|c| c.view().is_some()));
        let capped = inner.data.collection("t", "cap").expect("is there");
        assert_eq!((capped.counters.documents(), capped.indexes.len()), (2, 1));
        let c = inner.data.collection("t", "c").expect("is there");
        let index = c.index("a").expect("is there");
        assert!(index.sparse && index.is_multikey() && index.state == IndexState::Ready);
        let refused = run(&engine, "{insert: 'checked', documents: [{a: 0}]}").expect("replies");
        assert!(refused.as_doc().get("writeErrors").is_some());
        assert_eq!(engine.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
    }
}
