//! The background threads. One flushes memtables (`flush.rs`). One or two merge tables
//! (`merge.rs`), which takes longer and must not delay flushing. One maintains the log: it creates
//! spare segments, flushes commits that no caller waits for, and writes recorded keys of loads to
//! files. They never call back into the caller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use super::Shared;
use super::pressure::SLOW_RUNS;
use super::work::{LOG_AGAIN, Next};
use crate::{Result, Space, StoreError};

/// At this many recovered log segments, they are flushed to tables at once.
const MANY_SEGMENTS: u64 = 4;

/// Starts the background threads.
pub(super) fn start(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>> {
    for space in Space::ALL {
        shared.note_debt(space);
        shared.advice.note_tables(space, &shared.trees[space.index()]);
        shared.work.want_merge(space);
    }
    // Each restart after a crash leaves a segment; they must not pile up.
    if shared.log.as_ref().is_some_and(|log| log.sizes().1 > MANY_SEGMENTS) {
        shared.work.want_flush();
    }
    if !shared.dropped.is_empty() {
        shared.work.want_reclaim(shared.options.reclaim_interval);
    }
    let shared_path = shared.path.clone();
    let spawn = |name: &str, run: fn(&Shared)| {
        let shared = shared.clone();
        std::thread::Builder::new()
            .name(name.to_string())
            .spawn(move || run(&shared))
            .map_err(|error| StoreError::io("start threads for", &shared_path, &error))
    };
    let mut threads = vec![
        spawn("store-flush", flush_loop)?,
        spawn("store-merge", |shared| merge_loop(shared, None))?,
        spawn("store-log", log_loop)?,
    ];
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        // Helps when merging is behind, and otherwise leaves the other cores alone.
        let help = |shared: &Shared| merge_loop(shared, Some(SLOW_RUNS));
        threads.push(spawn("store-merge-2", help)?);
    }
    Ok(threads)
}

fn flush_loop(shared: &Shared) {
    while shared.work.wait_for_flush() {
        let _inside = shared.background.pass();
        let result = guarded("write memory to tables of", || shared.flush_in_any_case());
        shared.reserve.measure_free();
        shared.work.end_flush(&result);
        if result.is_err() {
            shared.work.rest_before_flush();
        }
    }
}

fn merge_loop(shared: &Shared, helper_from: Option<usize>) {
    let debt = |space| shared.pressure.runs(space);
    while let Next::Merge(space) = shared.work.next_merge(debt, helper_from) {
        let _inside = shared.background.pass();
        let mut again = false;
        let result = guarded("merge tables of", || {
            again = shared.merge_step(space)?;
            Ok(())
        });
        if matches!(result, Err(StoreError::Full)) {
            shared.give_way();
        }
        shared.work.end_merge(space, again, &result);
        shared.note_debt(space);
    }
}

fn log_loop(shared: &Shared) {
    let Some(log) = &shared.log else { return };
    let mut logged: Option<Instant> = None;
    loop {
        let inside = shared.background.pass();
        if let Err(error) = log.refill()
            && logged.is_none_or(|time| time.elapsed() > LOG_AGAIN)
        {
            logged = Some(Instant::now());
            tracing::warn!("no spare log segment could be made: {error}");
        }
        drop(inside);
        if !shared.work.wait_for_sync(shared.options.sync_interval) {
            return;
        }
        let _inside = shared.background.pass();
        shared.work.unsynced.store(false, Ordering::Release);
        shared.reserve.measure_free();
        shared.reserve.restore();
        // The log keeps the failure, and every later writer gets it.
        let _ = log.sync(log.last());
        let loads = shared.commit.lock().loads.clone();
        loads.iter().for_each(|load| load.keep_small());
        let (live, _, _) = log.sizes();
        if live > shared.options.memtable_bytes.max(shared.options.segment_bytes).saturating_mul(4)
        {
            shared.work.want_flush();
        }
    }
}

/// Logs a panic: a bug in the trees must not end a background thread silently.
fn guarded(action: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(StoreError::Io {
            action,
            file: "the store".into(),
            kind: std::io::ErrorKind::Other,
            message: "the background thread panicked".to_string(),
        })
    })
}
