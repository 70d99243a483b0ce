//! Deferred pattern updates: they are applied after the commit of their source, a batch at a time,
//! each batch in its own commit. The queues are part of the patterns' state and are written in the
//! commit that caused them.
//!
//! One thread processes all queues. It is woken by commits that add to a queue or start a build.

use super::Maintenance;
use super::TransactionDocuments;
use crate::txn::Data;
use ::patterns::declaration::Mode;
use ::patterns::stats::Stats;
use ::patterns::{Documents, Pattern, queue};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Weak;
use std::time::{Duration, Instant};
use value::{Code, Error, Result};

/// Maximum number of documents per commit.
const BATCH: usize = 200;
/// Maximum number of queue entries per commit.
const ENTRIES: usize = 100;
/// How long one pattern is processed before the next.
const TURN: Duration = Duration::from_millis(200);
/// Interval between checks of the schedules.
const PAUSE: Duration = Duration::from_millis(100);

/// Interval between checks for targets that exceed `maxStalenessMS`.
const ALARM_PAUSE: Duration = Duration::from_millis(500);

/// Starts the thread that processes the queues.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(upkeep: &Arc<Maintenance>) -> Result<()> {
    let weak: Weak<Maintenance> = Arc::downgrade(upkeep);
    let bell = upkeep.data.pattern_bell.clone();
    std::thread::Builder::new()
        .name("pattern queue".to_owned())
        .spawn(move || {
            let mut busy = true;
            let mut looked = Instant::now();
            let mut ticked = looked;
            loop {
                let rung = busy || bell.wait(PAUSE);
                let Some(upkeep) = weak.upgrade() else { return };
                if upkeep.data.check_open().is_err() {
                    return;
                }
                if rung {
                    super::backfill::start(&upkeep);
                }
                let ticks = ticked.elapsed() >= PAUSE;
                if ticks {
                    ticked = Instant::now();
                }
                busy = round(&upkeep.data, rung, ticks);
                busy |= super::expiry::tick(&upkeep.data);
                super::scrub::tick(&upkeep);
                if looked.elapsed() >= ALARM_PAUSE {
                    looked = Instant::now();
                    super::strategy::tick(&upkeep);
                    report_overdue(&upkeep.data);
                }
                if busy {
                    // Lets other threads take the lock.
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        })
        .map(drop)
        .map_err(|error| Error::internal(format!("cannot start a thread: {error}")))
}

/// Processes every queue that is due; those that wait for some time only if it `ticks`. Returns
/// whether more work is due immediately.
fn round(data: &Data, rung: bool, ticks: bool) -> bool {
    let catalog = data.catalog.load_full();
    let mut busy = false;
    for (db, database) in &catalog.databases {
        let queued = database.patterns.iter().filter(|p| p.may_queue() && p.phase.is_built());
        for pattern in queued {
            let done = match (&pattern.common.mode, pattern.traits.flush_ms) {
                (Mode::Every(period, _), _) => scheduled(data, db, pattern, *period),
                (_, Some(after)) if ticks => held_back(data, db, pattern, after),
                (_, Some(_)) => continue,
                _ if rung => process_queue(data, db, pattern),
                _ => continue,
            };
            match done {
                Ok(more) => busy |= more,
                Err(error) if error.code() == Code::SHUTDOWN_IN_PROGRESS => return false,
                Err(error) => {
                    tracing::warn!(
                        code = error.code().0,
                        pattern = pattern.name,
                        "cannot run pending pattern updates"
                    );
                }
            }
        }
    }
    busy
}

/// Checks for patterns whose targets wait longer than `maxStalenessMS`. Logs when that begins and
/// when it ends.
fn report_overdue(data: &Data) {
    let catalog = data.catalog.load_full();
    let mut late = BTreeSet::new();
    for (db, database) in &catalog.databases {
        for pattern in database.patterns.iter().filter(|p| p.phase.is_built()) {
            let Some(most) = pattern.common.max_staleness else { continue };
            let mut txn = data.reader();
            let since =
                queue::oldest(pattern, &mut TransactionDocuments::new(&mut txn, db)).ok().flatten();
            let Some(since) = since else { continue };
            let lag = crate::clock::now_ms().saturating_sub(since).max(0) as u64;
            if lag <= most {
                continue;
            }
            late.insert(pattern.id);
            if !data.pattern_bell.overdue.lock().contains(&pattern.id) {
                tracing::warn!(
                    db,
                    pattern = pattern.name,
                    lag_ms = lag,
                    max_staleness_ms = most,
                    "a pattern is overdue"
                );
            }
        }
    }
    let before = std::mem::replace(&mut *data.pattern_bell.overdue.lock(), late);
    let now = data.pattern_bell.overdue.lock();
    if before.iter().any(|id| !now.contains(id)) {
        tracing::info!(left = now.len(), "a pattern has caught up");
    }
}

/// Processes a queue for a limited time. Returns true if entries remain.
fn process_queue(data: &Data, db: &str, pattern: &Arc<Pattern>) -> Result<bool> {
    let started = Instant::now();
    while is_waiting(data, db, pattern)? {
        if started.elapsed() >= TURN {
            return Ok(true);
        }
        batch(data, db, pattern, &[])?;
        std::thread::yield_now();
    }
    Ok(false)
}

/// Processes the queue of a pattern whose targets are written after a time, if that is over for one
/// of them.
fn held_back(data: &Data, db: &str, pattern: &Arc<Pattern>, after: u64) -> Result<bool> {
    let since = {
        let mut txn = data.reader();
        queue::oldest(pattern, &mut TransactionDocuments::new(&mut txn, db))?
    };
    let end = since.map(|since| since.saturating_add(after as i64));
    match end.is_some_and(|end| crate::clock::now_ms() >= end) {
        true => process_queue(data, db, pattern),
        false => Ok(false),
    }
}

/// Runs a scheduled round if one is due. Afterwards everything queued before it is applied.
fn scheduled(data: &Data, db: &str, pattern: &Arc<Pattern>, period: u64) -> Result<bool> {
    let now = crate::clock::now_ms();
    let last = {
        let mut txn = data.reader();
        queue::last_round(pattern, &mut TransactionDocuments::new(&mut txn, db))?
    };
    if last.is_some_and(|last| now < last.saturating_add(period as i64)) {
        return Ok(false);
    }
    if last.is_some() {
        flush(data, db, pattern, &|| data.check_open())?;
    }
    data.transact_alone(&|| data.check_open(), true, |txn| {
        let known = txn.catalog.patterns(db).iter().any(|p| p.id == pattern.id);
        if known {
            queue::set_last_round(pattern, &mut TransactionDocuments::new(txn, db), now)?;
        }
        Ok(())
    })?;
    Ok(false)
}

fn is_waiting(data: &Data, db: &str, pattern: &Pattern) -> Result<bool> {
    let mut txn = data.reader();
    let found = queue::entries(pattern, &mut TransactionDocuments::new(&mut txn, db), &[], 1)?;
    Ok(!found.is_empty())
}

/// Processes one commit: the entries at `places`, or the first ones if that is empty. Returns the
/// places not yet processed.
fn batch(data: &Data, db: &str, known: &Arc<Pattern>, places: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let (left, _) = data.transact_alone(&|| data.check_open(), true, |txn| {
        let found = txn.catalog.patterns(db).iter().find(|p| p.id == known.id).cloned();
        let Some(pattern) = found.filter(|pattern| pattern.phase.is_built()) else {
            return Ok(Vec::new());
        };
        let mut documents = TransactionDocuments::new(txn, db);
        let mut todo = if places.is_empty() {
            let entries = queue::entries(&pattern, &mut documents, &[], ENTRIES)?;
            entries.into_iter().map(|entry| entry.place).collect()
        } else {
            places.to_vec()
        };
        let (mut done, mut count) = (0, 0);
        for place in todo.iter().take(ENTRIES) {
            count += queue::work(&pattern, &mut documents, place, BATCH)?;
            if documents.state(pattern.id, place)?.is_none() {
                done += 1;
            }
            if count >= BATCH {
                break;
            }
        }
        Stats::add(&pattern.stats.writes, txn.work.writes());
        // Settling may have queued work for later patterns. An entry that remains is the last one.
        todo.drain(..done);
        Ok(todo)
    })?;
    Ok(left)
}

/// Processes a queue until everything queued at the call is applied.
///
/// # Errors
/// When a target cannot be written, or when `stop` returns an error.
pub fn flush(
    data: &Data,
    db: &str,
    pattern: &Arc<Pattern>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    for _ in 0..pattern.kind.catch_up_rounds() {
        let mut left: Vec<Vec<u8>> = {
            let mut txn = data.reader();
            let entries = queue::entries(
                pattern,
                &mut TransactionDocuments::new(&mut txn, db),
                &[],
                usize::MAX,
            )?;
            entries.into_iter().map(|entry| entry.place).collect()
        };
        if left.is_empty() {
            break;
        }
        while !left.is_empty() {
            stop()?;
            left = batch(data, db, pattern, &left)?;
        }
    }
    Ok(())
}

/// Processes queues until everything that a reader of these collections may see is up to date.
///
/// # Errors
/// As `flush`.
pub fn run_pending(
    data: &Data,
    db: &str,
    names: &[&str],
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let catalog = data.catalog.load_full();
    let all = catalog.patterns(db);
    if !all.iter().any(|pattern| names.contains(&&*pattern.target)) {
        return Ok(());
    }
    // In dependency order.
    for pattern in all.iter().filter(|p| p.may_queue() && p.phase.is_built()) {
        super::expiry::flush(data, db, pattern, stop)?;
        flush(data, db, pattern, stop)?;
    }
    Ok(())
}
