//! Backfill of documents that existed before a pattern was declared, and removal of the values of a
//! dropped pattern, while writes continue.
//!
//! From the declaration on, every write maintains the pattern for the documents that the build has
//! already processed. A build walks documents in `_id` order, in short commits under the commit
//! lock, and each commit stores the progress. After a restart the build continues from there. A
//! walk ends at the last document that existed when it began; later documents are maintained by
//! their own writes. Patterns with records are built in two walks: the first reads the sources and
//! only fills the records, the second writes the targets. So no incomplete value is visible.

use super::Maintenance;
use super::{TransactionDocuments, declare, modify};
use crate::job::Job;
use crate::layout;
use crate::records::write;
use crate::txn::Transaction;
use ::patterns::error_context::on_document;
use ::patterns::pattern::Progress;
use ::patterns::{Documents, Pattern, Phase, clearing};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Bytes, Direction};
use value::{Code, Error, RawDoc, Result, Val, keys};

/// Longest time that one commit of a build holds the commit lock.
const SLICE: Duration = Duration::from_millis(2);
/// The same limit while other clients write.
const SLICE_BESIDE: Duration = Duration::from_micros(100);
/// Other clients count as writing for this long after their last commit.
const LULL: Duration = Duration::from_millis(200);

/// Documents in the first commit, and the minimum and maximum of one commit.
const ROWS_START: usize = 32;
const ROWS_MIN: usize = 8;
const ROWS_MAX: usize = 1024;
/// Largest growth of the estimated cost per document from one commit to the next. It limits the
/// effect of a thread that was descheduled during a commit.
const GROWTH: f64 = 1.1;

/// The numbers of the patterns whose builds are running.
#[derive(Default)]
pub struct Builds(Mutex<HashSet<u32>>);

/// Starts a build thread for every pattern that needs one and has none.
pub fn start(upkeep: &Arc<Maintenance>) {
    let catalog = upkeep.data.catalog.load();
    for (db, database) in &catalog.databases {
        for pattern in database.patterns.iter().filter(|p| p.phase.is_passing()) {
            if !upkeep.builds.0.lock().insert(pattern.id) {
                continue;
            }
            let (shared, db, id) = (upkeep.clone(), db.clone(), pattern.id);
            let started = std::thread::Builder::new()
                .name("pattern build".to_owned())
                .spawn(move || run(&shared, &db, id));
            match started {
                Ok(thread) => upkeep.data.builders.lock().push(thread),
                Err(error) => {
                    upkeep.builds.0.lock().remove(&pattern.id);
                    tracing::warn!(%error, "cannot start a thread to build a pattern");
                }
            }
        }
    }
}

fn run(upkeep: &Arc<Maintenance>, db: &str, id: u32) {
    let outcome = build(upkeep, db, id);
    let went_well = outcome.is_ok();
    if let Err(error) = outcome
        && error.code() != Code::SHUTDOWN_IN_PROGRESS
    {
        let known = upkeep.data.catalog.load().patterns(db).iter().find(|p| p.id == id).cloned();
        // Messages may contain values of documents: listPatterns shows them.
        tracing::warn!(
            code = error.code().0,
            error = %error.code().name(),
            db,
            collection = known.as_ref().map(|pattern| &*pattern.collection),
            pattern = known.as_ref().map(|pattern| &*pattern.name),
            "building or clearing a pattern failed; its document and field are in listPatterns"
        );
        let has_layout = known.as_ref().is_some_and(|pattern| pattern.layout().is_some());
        let noted = match known.map(|pattern| pattern.phase) {
            // Documents may still be stored in its form. The next start of the process continues.
            Some(Phase::Clearing) if has_layout => Ok(()),
            Some(Phase::Clearing) => declare::forget(&upkeep.data, db, id),
            Some(Phase::Preparing) => modify::give_up(&upkeep.data, db, id, &error.to_string()),
            _ => declare::set_phase(&upkeep.data, db, id, Phase::Failed, &error.to_string()),
        };
        if let Err(error) = noted {
            tracing::error!(code = error.code().0, "cannot record that building a pattern failed");
        }
    }
    upkeep.builds.0.lock().remove(&id);
    // A layout that was dropped at the end of its build keeps its number.
    let catalog = upkeep.data.catalog.load();
    let goes_on = catalog.patterns(db).iter().any(|p| p.id == id && p.phase.is_passing());
    if went_well && goes_on && upkeep.data.check_open().is_ok() {
        start(upkeep);
    }
}

fn build(upkeep: &Arc<Maintenance>, db: &str, id: u32) -> Result<()> {
    let find = |catalog: &crate::catalog::Catalog| {
        let found = catalog.patterns(db).iter().find(|p| p.id == id).cloned();
        found.filter(|pattern| pattern.phase.is_passing())
    };
    let Some(pattern) = find(&upkeep.data.catalog.load()) else { return Ok(()) };
    let job = listed(upkeep, db, &pattern);
    let _watching = job.watch();
    let begun = Instant::now();
    let mut pace = Pace::new(upkeep.data.store.snapshot().seqno());
    let outcome = loop {
        let mut started = Instant::now();
        // All documents that existed at the start were processed. The rest were inserted meanwhile
        // between them, and more may be inserted while the build runs.
        pace.late = job.done.load(Ordering::Relaxed) > job.total.load(Ordering::Relaxed);
        let slice = pace.slice();
        let step = upkeep.data.transact_alone(&|| upkeep.data.check_open(), true, |txn| {
            // Measured from here, because the thread may have waited for the lock.
            started = Instant::now();
            // If the declaration was removed or changed meanwhile, this build ends.
            let Some(pattern) = find(&txn.catalog) else { return Ok(BuildStep::Gone) };
            step(txn, db, &pattern, slice)
        });
        let held = started.elapsed();
        let (step, seqno) = match step {
            Ok(step) => step,
            Err(error) => break Err(error),
        };
        let held = match step {
            BuildStep::Gone => break Ok(()),
            BuildStep::Done(Phase::Clearing) => break declare::forget(&upkeep.data, db, id),
            BuildStep::Done(_) => {
                match declare::set_phase(&upkeep.data, db, id, Phase::Ready, "") {
                    // It was dropped meanwhile: a layout is cleared under the same number.
                    Ok(()) if find(&upkeep.data.catalog.load()).is_some() => Duration::ZERO,
                    outcome => break outcome,
                }
            }
            BuildStep::Prepared => {
                if let Err(error) = modify::swap(&upkeep.data, db, id) {
                    break Err(error);
                }
                Duration::ZERO
            }
            BuildStep::More(documents) => {
                job.advance(documents);
                pace.adjust_slice(documents, held)
            }
        };
        if let Err(error) = upkeep.data.check_open() {
            break Err(error);
        }
        // The engine is closed. The next process continues.
        if Arc::strong_count(upkeep) == 1 {
            break Err(Error::new(Code::SHUTDOWN_IN_PROGRESS, "the engine was closed"));
        }
        if job.killed.load(Ordering::Relaxed) {
            break Err(Error::new(Code::INTERRUPTED, "the build was stopped by killOp"));
        }
        pace.pause_for_others(upkeep, held, seqno);
        if let Some(rate) = pattern.common.rate {
            let due = job.done.load(Ordering::Relaxed) as f64 / rate as f64;
            let ahead = Duration::from_secs_f64(due).saturating_sub(begun.elapsed());
            std::thread::sleep(ahead.min(Duration::from_millis(200)));
        }
    };
    upkeep.data.jobs.lock().retain(|other| !Arc::ptr_eq(other, &job));
    outcome
}

/// The error for a pattern whose build fails.
#[must_use]
pub fn cannot_be_built(pattern: &Pattern, why: &str) -> Error {
    Error::new(
        Code::OPERATION_FAILED,
        format!(
            "the pattern '{}' of '{}' cannot be built: {why}",
            pattern.name, pattern.collection
        ),
    )
}

/// Returns the description of a build in `currentOp`.
#[must_use]
pub fn title(pattern: &Pattern) -> String {
    let what = if pattern.phase == Phase::Clearing { "Clear" } else { "Build" };
    format!("Pattern {what}: {}", pattern.name)
}

fn listed(upkeep: &Maintenance, db: &str, pattern: &Pattern) -> Arc<Job> {
    let count = |name: &str| upkeep.data.collection(db, name).map_or(0, |c| c.counters.documents());
    let walks_sources = pattern.traits.records_of_sources && pattern.phase != Phase::Clearing;
    let sources = pattern.source().filter(|_| walks_sources).map_or(0, count);
    let total = sources + count(&pattern.target);
    let job = Arc::new(Job {
        id: upkeep.data.next_operation.fetch_add(1, Ordering::Relaxed),
        what: title(pattern),
        namespace: format!("{db}.{}", pattern.collection),
        started: Instant::now(),
        done: AtomicU64::new(0),
        total: AtomicU64::new(total),
        killed: AtomicBool::new(false),
    });
    upkeep.data.jobs.lock().push(job.clone());
    job
}

/// Limits of one commit of a build.
#[derive(Clone, Copy)]
struct Slice {
    /// Maximum number of documents.
    rows: usize,
    /// Maximum time for processing documents.
    time: Duration,
}

/// Throttling of a build, so that it does not block other writers.
struct Pace {
    /// The newest commit seen so far.
    last: store::Seqno,
    /// When a commit of another client was last seen.
    met: Option<Instant>,
    /// Documents of the next commit. Their effects are written after the last of them, so checking
    /// the clock between documents is not enough.
    rows: usize,
    /// Estimated seconds per document.
    cost: Option<f64>,
    /// Whether the build processes documents that were inserted after it began. It then no longer
    /// yields to writers, because it might never finish.
    late: bool,
}

impl Pace {
    fn new(last: store::Seqno) -> Pace {
        Pace { last, met: None, rows: ROWS_START, cost: None, late: false }
    }

    /// Returns whether other clients commit too.
    fn is_beside(&self) -> bool {
        self.met.is_some_and(|met| met.elapsed() < LULL)
    }

    fn slice(&self) -> Slice {
        let time = if self.is_beside() && !self.late { SLICE_BESIDE } else { SLICE };
        Slice { rows: self.rows, time }
    }

    /// Adjusts the number of documents per slice after a commit. Returns how long the commit should
    /// have held the lock.
    fn adjust_slice(&mut self, documents: u64, held: Duration) -> Duration {
        if documents == 0 {
            return held.min(SLICE);
        }
        let seen = held.as_secs_f64().max(1e-6) / documents as f64;
        let cost = self.cost.map_or(seen, |known| seen.min(known * GROWTH));
        self.cost = Some(cost);
        let fitting = self.slice().time.as_secs_f64() / cost;
        self.rows = (fitting as usize).min(self.rows * 2).clamp(ROWS_MIN, ROWS_MAX);
        Duration::from_secs_f64(cost * documents as f64).min(SLICE)
    }

    /// Pauses after a commit that held the lock for `held`, if other clients commit as well. The
    /// pause is three times as long, so that most of them find the lock free.
    fn pause_for_others(&mut self, upkeep: &Maintenance, held: Duration, own: store::Seqno) {
        if own > self.last.saturating_add(1) {
            self.met = Some(Instant::now());
        }
        // Otherwise a commit that must wait for the disk would wait under the lock.
        upkeep.data.store.make_room();
        if self.is_beside() && !self.late {
            std::thread::sleep(held * 3);
        } else {
            std::thread::yield_now();
        }
        self.last = upkeep.data.store.snapshot().seqno();
        // Threads that waited for the lock have acquired it by now.
        if self.last > own {
            self.met = Some(Instant::now());
        }
    }
}

/// Derives for a reader the values that a build has not reached, in a transaction that is never
/// committed: for one document if the reader looks at a single `_id`, otherwise for all. Returns
/// false if there are too many.
///
/// # Errors
/// Errors of the pattern, or that the reader was stopped.
pub(super) fn complete(
    txn: &mut Transaction,
    db: &str,
    pattern: &Arc<Pattern>,
    id: Option<Val<'_>>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<bool> {
    /// Maximum number of documents derived for one reader.
    const DOCUMENTS_MAX: u64 = 20_000;
    let mut documents = TransactionDocuments::new(txn, db);
    let progress = pattern.progress(&mut documents)?;
    let clears = pattern.phase == Phase::Clearing;
    let has_records =
        clears || !pattern.has_records() || progress.as_ref().is_some_and(|p| p.targets);
    let alone = has_records && !pattern.owns_documents() && !pattern.traits.derives_together;
    if let Some(id) = id.filter(|_| alone) {
        let Some(doc) = documents.get(&pattern.target, id)? else { return Ok(true) };
        if clears {
            let walked = progress.is_some_and(|p| p.has_reached(&keys::key(id)));
            if !walked {
                let walk = Progress::start(true);
                derive(txn, db, pattern, &walk, doc.bytes())?;
                super::settle(txn)?;
            }
            return Ok(true);
        }
        let image = pattern.kind.derive(pattern, &mut documents, doc.as_doc())?;
        if image != doc {
            documents.replace(pattern.id, &pattern.target, doc.as_doc(), &image)?;
        }
        super::settle(txn)?;
        return Ok(true);
    }
    let count = |name: &str| txn.catalog.get(db, name).map_or(0, |c| c.counters.documents());
    let sources = pattern.source().filter(|s| *s != pattern.target && !clears).map_or(0, count);
    let all = sources + count(&pattern.target);
    let done = progress.map_or(0, |progress| progress.done.max(0) as u64);
    if all.saturating_sub(done) > DOCUMENTS_MAX {
        return Ok(false);
    }
    let all = Slice { rows: ROWS_MAX, time: Duration::MAX };
    while let BuildStep::More(_) = step(txn, db, pattern, all)? {
        stop()?;
    }
    Ok(true)
}

/// The outcome of one commit of a build.
enum BuildStep {
    More(u64),
    /// The walk of a pattern in this phase is complete.
    Done(Phase),
    /// The records of a new version are filled. It can replace the old one.
    Prepared,
    /// The pattern to build no longer exists.
    Gone,
}

fn step(
    txn: &mut Transaction,
    db: &str,
    pattern: &Arc<Pattern>,
    slice: Slice,
) -> Result<BuildStep> {
    let started = Instant::now();
    let clears = pattern.phase == Phase::Clearing;
    let walks_first = pattern.has_records() && !clears;
    if pattern.layout().is_some() && !clears && !pattern.kind.converts_stored() {
        return Ok(BuildStep::Done(pattern.phase));
    }
    let progress = pattern.progress(&mut TransactionDocuments::new(txn, db))?;
    if progress.is_none() && !clears {
        pattern.kind.begin_build(pattern, &mut TransactionDocuments::new(txn, db))?;
    }
    let mut progress = match progress {
        Some(progress) => progress,
        None => Progress::start(!walks_first),
    };
    let fills = pattern.traits.records_of_sources;
    if pattern.phase == Phase::Preparing && (progress.targets || !fills) {
        return Ok(BuildStep::Prepared);
    }
    if progress.is_through() {
        if !clears {
            pattern.kind.finish_build(pattern, &mut TransactionDocuments::new(txn, db))?;
            super::settle(txn)?;
        }
        // The progress is kept, because writes read it until the pattern is ready.
        return Ok(BuildStep::Done(pattern.phase));
    }
    if !progress.targets && progress.at == Progress::END {
        progress = Progress { done: progress.done, ..Progress::start(true) };
        pattern.set_progress(&mut TransactionDocuments::new(txn, db), &progress)?;
        return Ok(BuildStep::More(0));
    }
    let mut count = 0;
    if progress.targets && !clears && pattern.owns_documents() {
        let batch = pattern.common.batch.min(slice.rows);
        let mut documents = TransactionDocuments::new(txn, db);
        let kind = &pattern.kind;
        let written = kind.write_documents(pattern, &mut documents, &progress.at, batch)?;
        progress.at = match written {
            Some((last, written)) => {
                count = written as u64;
                last
            }
            None => {
                remove_unowned(txn, db, pattern)?;
                Progress::END.to_vec()
            }
        };
    } else {
        let source = pattern.source().filter(|_| !progress.targets);
        let name = source.unwrap_or(&pattern.target);
        if progress.at.is_empty() {
            // From this commit on, writes maintain the documents after this position.
            progress.until = last_record(txn, db, name)?;
        }
        let rows = rows(txn, db, name, &progress, pattern.common.batch.min(slice.rows))?;
        if rows.is_empty() {
            progress.at = Progress::END.to_vec();
        }
        for (record, doc) in rows {
            derive(txn, db, pattern, &progress, &doc)?;
            progress.at = record;
            count += 1;
            if started.elapsed() >= slice.time {
                break;
            }
        }
    }
    progress.done += count as i64;
    super::settle(txn)?;
    pattern.set_progress(&mut TransactionDocuments::new(txn, db), &progress)?;
    Ok(BuildStep::More(count))
}

/// Deletes documents that the pattern owns but that it would not create. A rebuilt pattern may find
/// some.
fn remove_unowned(txn: &mut Transaction, db: &str, pattern: &Pattern) -> Result<()> {
    let Some(collection) = txn.catalog.get(db, &pattern.target).cloned() else { return Ok(()) };
    let mut range = layout::all(&collection, &txn.snapshot)?;
    while let Some((_, doc)) = range.next_entry()? {
        let mut documents = TransactionDocuments::new(txn, db);
        if !pattern.kind.has_document(pattern, &mut documents, RawDoc::new(&doc))? {
            documents.delete(pattern.id, &pattern.target, RawDoc::new(&doc))?;
        }
    }
    Ok(())
}

/// Returns the last record key of a collection, empty if there is none.
fn last_record(txn: &Transaction, db: &str, name: &str) -> Result<Vec<u8>> {
    let Some(collection) = txn.catalog.get(db, name) else { return Ok(Vec::new()) };
    let (from, to) = (collection.prefix(), (collection.id + 1).to_be_bytes());
    let direction = Direction::Reverse;
    let last = layout::range(collection, &txn.snapshot, &from, &to, direction)?.next_entry()?;
    Ok(last.map_or_else(Vec::new, |(key, _)| key.get(4..).unwrap_or(&[]).to_vec()))
}

/// Returns the next documents of a walk, at most `batch`.
fn rows(
    txn: &Transaction,
    db: &str,
    name: &str,
    progress: &Progress,
    batch: usize,
) -> Result<Vec<(Vec<u8>, Bytes)>> {
    let Some(collection) = txn.catalog.get(db, name).cloned() else { return Ok(Vec::new()) };
    let after = progress.at.as_slice();
    let mut from = write::document_key(&collection, after).to_vec();
    if !after.is_empty() {
        from.push(0);
    }
    let to = (collection.id + 1).to_be_bytes();
    let direction = Direction::Forward;
    let mut range = layout::range(&collection, &txn.snapshot, &from, &to, direction)?;
    let mut rows = Vec::new();
    while rows.len() < batch {
        let Some((key, doc)) = range.next_entry()? else { break };
        let record = key.get(4..).unwrap_or(&[]).to_vec();
        if progress.has_reached(&record) {
            break;
        }
        rows.push((record, doc));
    }
    Ok(rows)
}

/// Derives the values that depend on one document.
fn derive(
    txn: &mut Transaction,
    db: &str,
    pattern: &Arc<Pattern>,
    progress: &Progress,
    doc: &[u8],
) -> Result<()> {
    let doc = RawDoc::new(doc);
    let named = |error: Error| on_document(doc, error);
    if pattern.layout().is_some() {
        let collection = txn.catalog.get(db, &pattern.target).cloned();
        let Some(collection) = collection else { return Ok(()) };
        if pattern.phase != Phase::Clearing {
            let mut documents = TransactionDocuments::new(txn, db);
            let image = pattern.kind.derive(pattern, &mut documents, doc).map_err(named)?;
            if image.bytes() != doc.bytes() {
                return documents.replace(pattern.id, &pattern.target, doc, &image);
            }
        }
        let record = write::record_of_id(&collection, doc.get("_id").unwrap_or(Val::Null));
        let key = write::document_key(&collection, &record);
        let before = layout::counted_size(&collection, &txn.snapshot, &key, doc)?;
        layout::convert(&collection, &mut txn.snapshot, pattern.id, &record).map_err(named)?;
        let after = layout::counted_size(&collection, &txn.snapshot, &key, doc)?;
        txn.count(&collection, 0, after - before);
        if pattern.kept.is_empty() || pattern.traits.always_fills {
            return Ok(());
        }
    }
    if !progress.targets {
        let delta = pattern
            .kind
            .visit(pattern, &mut TransactionDocuments::new(txn, db), doc)
            .map_err(named)?;
        if let Some(delta) = delta {
            txn.work.pending_in(db, |pending| pending.add_delta(pattern, delta));
        }
        return Ok(());
    }
    if pattern.phase == Phase::Clearing {
        let bound = txn.catalog.get(db, &pattern.target).and_then(|c| c.patterns.clone());
        let bound = bound.unwrap_or_default();
        return clearing::clear(
            pattern,
            &bound.targets,
            &mut TransactionDocuments::new(txn, db),
            doc,
        );
    }
    let mut documents = TransactionDocuments::new(txn, db);
    let image = pattern.kind.derive(pattern, &mut documents, doc).map_err(named)?;
    if image.bytes() != doc.bytes() {
        documents.replace(pattern.id, &pattern.target, doc, &image)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_learns_how_many_documents_fit_into_its_time() {
        let mut pace = Pace::new(7);
        assert_eq!(pace.adjust_slice(32, SLICE / 8), SLICE / 8);
        assert_eq!(pace.slice().rows, 64, "never more than twice as many");
        pace.adjust_slice(64, SLICE);
        let rows = pace.slice().rows;
        assert!((100..=128).contains(&rows), "one commit that took long says little: {rows}");
        for _ in 0..40 {
            pace.adjust_slice(64, SLICE * 2);
        }
        assert_eq!(pace.slice().rows, 32, "many say that it is so");
        pace.adjust_slice(0, SLICE);
        assert_eq!(pace.slice().rows, 32, "nothing was learned");
        pace.met = Some(Instant::now());
        assert_eq!(pace.slice().time, SLICE_BESIDE);
        pace.adjust_slice(32, SLICE);
        assert_eq!(pace.slice().rows, ROWS_MIN);
        for _ in 0..20 {
            pace.adjust_slice(ROWS_MAX as u64, Duration::ZERO);
        }
        assert_eq!(pace.slice().rows, ROWS_MAX);
    }
}
