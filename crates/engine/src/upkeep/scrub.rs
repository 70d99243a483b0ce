//! Periodic checks of patterns, as often as the option `verify` requires. Each check runs slowly at
//! one snapshot, in parts that fit into memory. The result of the last check is stored with the
//! state of the pattern, with the time at which each wrong value was first seen.
//!
//! The queue thread checks periodically whether a check is due. Each check runs in its own thread
//! and has a row in `currentOp`.

use super::Maintenance;
use super::verification::{self, KeyPart, Report, Scope};
use super::{TransactionDocuments, backfill, declare};
use crate::job::Job;
use crate::txn::Data;
use ::patterns::{Documents, Pattern, Phase};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Error, Result, Val, Writer};

/// Documents of one part of a check. Their recomputed values are held in memory.
const PART_DOCUMENTS: u64 = 200_000;
/// Maximum number of parts of one check. Larger collections are checked in several rounds.
const PARTS_MAX: u64 = 16;
/// Ratio of pause to work of a check.
const REST: u32 = 9;
/// A pattern that was never checked is checked after this time at the latest, in milliseconds.
const FIRST: u64 = 3_600_000;
/// The key of the stored result of the last check.
const LAST: &[u8] = b"\0v";

/// The times at which patterns are due for a check.
#[derive(Default)]
pub struct Scrubs {
    due: Mutex<HashMap<u32, i64>>,
    busy: AtomicBool,
}

/// The result of the last check of a pattern.
pub struct Last(DocBuf);

impl Last {
    /// Reads the result of the last check, if there was one.
    ///
    /// # Errors
    /// When the store fails.
    pub fn of(pattern: &Pattern, documents: &mut dyn Documents) -> Result<Option<Last>> {
        Ok(documents.state(pattern.id, LAST)?.map(Last))
    }

    fn at(&self) -> Option<i64> {
        match self.0.as_doc().get("at") {
            Some(Val::DateTime(at)) => Some(at),
            _ => None,
        }
    }

    /// Returns when a wrong value was first seen.
    fn first_seen(&self, id: Option<Val<'_>>, path: Option<Val<'_>>) -> Option<i64> {
        let known = self.0.as_doc().get("samples").and_then(Val::as_array)?;
        let known = known.iter().filter_map(|(_, sample)| sample.as_doc());
        let mut same = known.filter(|known| known.get("_id") == id && known.get("path") == path);
        match same.next()?.get("firstSeen") {
            Some(Val::DateTime(at)) => Some(at),
            _ => None,
        }
    }

    /// Writes the result as `listPatterns` shows it.
    pub fn write(&self, out: &mut Writer<'_>) {
        out.doc("lastVerify", |out| {
            for (name, value) in self.0.as_doc() {
                if name != "samples" {
                    out.raw(name, value);
                }
            }
        });
    }
}

/// Adds to each sample of a report when it was first seen.
fn date_samples(report: &mut Report, last: Option<&Last>, now: i64) {
    for sample in &mut report.samples {
        let (id, path) = (sample.as_doc().get("_id"), sample.as_doc().get("path"));
        let seen = last.and_then(|last| last.first_seen(id, path)).unwrap_or(now);
        *sample = DocBuf::build(|out| {
            out.extend(sample.as_doc());
            out.append("firstSeen", Val::DateTime(seen));
        });
    }
}

/// Checks a pattern, repairs wrong values if requested, and stores the result. `rebuild` is called
/// if only a rebuild helps. Returns the report and the number of repaired values.
///
/// # Errors
/// When the store fails, the operation is stopped, or the pattern cannot be repaired.
pub fn verify(
    data: &Data,
    db: &str,
    pattern: &Arc<Pattern>,
    scope: Scope<'_>,
    repair: bool,
    stop: &dyn Fn() -> Result<()>,
    rebuild: &dyn Fn(&Arc<Pattern>) -> Result<()>,
) -> Result<(Report, u64)> {
    let now = crate::clock::now_ms();
    let last = {
        let mut txn = data.reader();
        Last::of(pattern, &mut TransactionDocuments::new(&mut txn, db))?
    };
    let mut report = verification::check(data, db, pattern, scope, stop)?;
    date_samples(&mut report, last.as_ref(), now);
    let mut repaired = 0;
    if repair && (report.drift > 0 || report.broken) && pattern.phase.is_built() {
        if !verification::repair(data, db, pattern, &report, stop)? {
            rebuild(pattern)?;
        }
        repaired = report.drift;
    }
    // A correct or repaired part does not imply that the others are correct.
    let wrong = report.drift > 0 || report.broken;
    if scope.is_whole() || (wrong && !repair) {
        verification::mark(data, db, pattern, &report, repair)?;
    }
    // A check of some documents does not replace the result of the last full check.
    if scope.filter.is_none() {
        keep(data, db, pattern, &report, repaired, now)?;
    }
    Ok((report, repaired))
}

/// Stores the result of a check with the state of the pattern, which may have been rebuilt.
fn keep(
    data: &Data,
    db: &str,
    pattern: &Pattern,
    report: &Report,
    repaired: u64,
    at: i64,
) -> Result<()> {
    if data.options.read_only {
        return Ok(());
    }
    let note = DocBuf::build(|out| {
        out.append("at", Val::DateTime(at));
        out.count("checked", report.checked).count("drift", report.drift);
        out.count("repaired", repaired);
        out.array("samples", |list| {
            for sample in report.samples.iter().filter(|_| repaired == 0) {
                list.push_doc(|out| {
                    for (name, value) in sample.as_doc() {
                        if matches!(name, "_id" | "path" | "firstSeen") {
                            out.raw(name, value);
                        }
                    }
                });
            }
        });
    });
    data.transact_alone(&|| data.check_open(), true, |txn| {
        let found = declare::find(&txn.catalog, db, &pattern.collection, &pattern.name);
        let Ok(found) = found else { return Ok(()) };
        TransactionDocuments::new(txn, db).set_state(found.id, LAST, Some(note.clone()))
    })
    .map(drop)
}

/// Starts a check if one is due and none is running.
pub fn tick(upkeep: &Arc<Maintenance>) {
    let scrubs = &upkeep.scrubs;
    if scrubs.busy.load(Ordering::Relaxed) {
        return;
    }
    let now = crate::clock::now_ms();
    let catalog = upkeep.data.catalog.load_full();
    for (db, database) in &catalog.databases {
        for pattern in database.patterns.iter().filter(|p| p.phase.is_built()) {
            let Some(period) = pattern.common.verify.period else { continue };
            if next(upkeep, db, pattern, period, now) > now {
                continue;
            }
            scrubs.busy.store(true, Ordering::Relaxed);
            let (shared, db, pattern) = (upkeep.clone(), db.clone(), pattern.clone());
            let id = pattern.id;
            let started =
                std::thread::Builder::new().name("pattern scrub".to_owned()).spawn(move || {
                    if let Err(error) = scrub(&shared, &db, &pattern)
                        && error.code() != Code::SHUTDOWN_IN_PROGRESS
                    {
                        // Messages may contain values of documents.
                        tracing::warn!(
                            code = error.code().0,
                            error = %error.code().name(),
                            db,
                            collection = pattern.collection,
                            pattern = pattern.name,
                            "checking a pattern failed"
                        );
                    }
                    shared.scrubs.busy.store(false, Ordering::Relaxed);
                });
            scrubs.due.lock().insert(id, now.saturating_add(period as i64));
            match started {
                Ok(thread) => {
                    let mut threads = upkeep.data.builders.lock();
                    threads.retain(|thread| !thread.is_finished());
                    threads.push(thread);
                }
                Err(error) => {
                    scrubs.busy.store(false, Ordering::Relaxed);
                    tracing::warn!(%error, "cannot start a thread to check a pattern");
                }
            }
            return;
        }
    }
    let living =
        |id: &u32| catalog.databases.values().any(|db| db.patterns.iter().any(|p| p.id == *id));
    scrubs.due.lock().retain(|id, _| living(id));
}

/// Returns when a pattern is due for its next check, in milliseconds.
fn next(upkeep: &Maintenance, db: &str, pattern: &Pattern, period: u64, now: i64) -> i64 {
    let mut due = upkeep.scrubs.due.lock();
    let known = *due.entry(pattern.id).or_insert_with(|| {
        let mut txn = upkeep.data.reader();
        let last = Last::of(pattern, &mut TransactionDocuments::new(&mut txn, db)).ok().flatten();
        match last.and_then(|last| last.at()) {
            Some(at) => at.saturating_add(period as i64),
            None => now.saturating_add(period.min(FIRST) as i64),
        }
    });
    // A shorter period applies immediately.
    known.min(now.saturating_add(period as i64))
}

/// Checks a pattern slowly.
fn scrub(upkeep: &Arc<Maintenance>, db: &str, pattern: &Arc<Pattern>) -> Result<()> {
    let count = |name: &str| upkeep.data.collection(db, name).map_or(0, |c| c.counters.documents());
    let source = pattern.source().filter(|source| *source != pattern.target).map_or(0, count);
    let total = source + count(&pattern.target);
    let parts = total.div_ceil(PART_DOCUMENTS).max(1);
    let job = Arc::new(Job {
        id: upkeep.data.next_operation.fetch_add(1, Ordering::Relaxed),
        what: format!("Pattern Verify: {}", pattern.name),
        namespace: format!("{db}.{}", pattern.collection),
        started: Instant::now(),
        done: AtomicU64::new(0),
        total: AtomicU64::new(parts.min(PARTS_MAX)),
        killed: AtomicBool::new(false),
    });
    upkeep.data.jobs.lock().push(job.clone());
    let watching = job.watch();
    let outcome = scrub_parts(upkeep, db, pattern, parts, &job);
    drop(watching);
    upkeep.data.jobs.lock().retain(|other| !Arc::ptr_eq(other, &job));
    outcome
}

fn scrub_parts(
    upkeep: &Arc<Maintenance>,
    db: &str,
    pattern: &Arc<Pattern>,
    parts: u64,
    job: &Job,
) -> Result<()> {
    let worked = Mutex::new(Instant::now());
    let stop = || {
        upkeep.data.check_open()?;
        if Arc::strong_count(upkeep) == 1 {
            return Err(Error::new(Code::SHUTDOWN_IN_PROGRESS, "the engine was closed"));
        }
        if job.killed.load(Ordering::Relaxed) {
            return Err(Error::new(Code::INTERRUPTED, "the check was stopped by killOp"));
        }
        let mut worked = worked.lock();
        std::thread::sleep((worked.elapsed() * REST).min(Duration::from_millis(100)));
        *worked = Instant::now();
        Ok(())
    };
    let rebuild = |pattern: &Arc<Pattern>| {
        declare::set_phase(&upkeep.data, db, pattern.id, Phase::Building, "")?;
        backfill::start(upkeep);
        Ok(())
    };
    let repair = pattern.common.verify.repair;
    // Each round begins where the last one may have ended.
    let period = pattern.common.verify.period.unwrap_or(1).max(1);
    let round = crate::clock::now_ms().unsigned_abs() / period;
    let begin = round.wrapping_mul(PARTS_MAX) % parts;
    for at in 0..parts.min(PARTS_MAX) {
        let now =
            upkeep.data.catalog.load().patterns(db).iter().find(|p| p.id == pattern.id).cloned();
        let Some(now) = now.filter(|now| now.phase.is_built()) else { return Ok(()) };
        let part = KeyPart { at: (begin + at) % parts, of: parts };
        let scope = Scope { part, filter: None };
        let (report, repaired) = verify(&upkeep.data, db, &now, scope, repair, &stop, &rebuild)?;
        if report.drift > 0 || report.broken {
            tracing::warn!(
                db,
                pattern = pattern.name,
                drift = report.drift,
                repaired,
                "a pattern had wrong values"
            );
        }
        job.advance(1);
    }
    Ok(())
}
