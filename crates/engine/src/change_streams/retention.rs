//! Drops the oldest records of the log when it exceeds its size limit, but not before their minimum
//! age. Runs in the background.

use crate::changes::limits::{MEGABYTE, SETTINGS};
use crate::changes::log::{key, time_of};
use crate::changes::record;
use crate::job::Job;
use crate::store_failed;
use crate::txn::Data;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use store::{Batch, Direction, Space};
use value::{DocBuf, Result};

/// The log is not reduced below about this size on a full disk, in bytes.
const LEAST_WHEN_FULL: u64 = 16 * MEGABYTE;
/// The smallest size limit that can be set, in megabytes.
pub(crate) const MEGABYTES_LEAST: f64 = 990.0;

/// Changes the limits; those that are `None` stay.
///
/// # Errors
/// When the store fails.
pub(crate) fn resize(data: &Data, megabytes: Option<f64>, hours: Option<f64>) -> Result<()> {
    let limits = &data.changes.limits;
    if let Some(megabytes) = megabytes {
        limits.bytes_max.store((megabytes * MEGABYTE as f64) as u64, Ordering::Relaxed);
    }
    if let Some(hours) = hours {
        limits.keep_ms.store((hours * 3_600_000.0) as i64, Ordering::Relaxed);
    }
    let settings = DocBuf::build(|out| {
        out.i64("bytes", i64::try_from(data.changes.bytes_max()).unwrap_or(i64::MAX));
        out.i64("keepMs", limits.keep_ms.load(Ordering::Relaxed));
    });
    let mut batch = Batch::new();
    batch.put(Space::Log, SETTINGS, settings.bytes());
    let seqno = data.write(&batch)?;
    data.store.sync(seqno).map_err(store_failed)
}

/// Drops the oldest records if the log exceeds its limit.
///
/// # Errors
/// When the store fails.
pub(crate) fn trim(data: &Data) -> Result<()> {
    let (log, mut most) = (&data.changes, data.changes.bytes_max());
    let bytes = log.bytes.load(Ordering::Relaxed);
    if bytes > LEAST_WHEN_FULL && data.store.is_full() {
        // On a full disk the log is reduced first, to keep space for documents.
        most = most.min(bytes / 2);
    }
    if bytes <= most {
        return Ok(());
    }
    let begun = Instant::now();
    // A little more than needed, so that records are dropped rarely and in larger steps.
    let goal = bytes - most + most / 16;
    let job = Arc::new(Job {
        id: data.next_operation.fetch_add(1, Ordering::Relaxed),
        what: "Oplog: dropping the oldest entries".to_owned(),
        namespace: "local.oplog.rs".to_owned(),
        started: begun,
        done: AtomicU64::new(0),
        total: AtomicU64::new(goal),
        killed: AtomicBool::new(false),
    });
    data.jobs.lock().push(job.clone());
    let result = drop_oldest(data, &job, goal);
    data.jobs.lock().retain(|other| other.id != job.id);
    if result? {
        log.limits.truncations.fetch_add(1, Ordering::Relaxed);
        let spent = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        log.limits.truncation_us.fetch_add(spent, Ordering::Relaxed);
    }
    Ok(())
}

fn drop_oldest(data: &Data, job: &Job, goal: u64) -> Result<bool> {
    let log = &data.changes;
    let snapshot = data.store.snapshot();
    let (from, to) = (key(0), key(u64::MAX));
    let mut range = snapshot
        .range(Space::Log, Bound::Included(&from), Bound::Included(&to), Direction::Forward)
        .map_err(store_failed)?;
    let young = crate::clock::now_ms() - log.limits.keep_ms.load(Ordering::Relaxed);
    let newest = log.newest().0;
    let mut freed = 0;
    let mut last = None;
    while freed < goal && !job.killed.load(Ordering::Relaxed) {
        let Some((found, record)) = range.next_entry().map_err(store_failed)? else { break };
        let Some(first) = time_of(&found) else { break };
        let end = record::last_time(&record, first);
        // The newest record is kept: it gives the start of the clock after a restart.
        if end >= newest || record::wall_ms(&record) > young {
            break;
        }
        freed += record.len() as u64 + 32;
        job.advance(record.len() as u64);
        last = Some(end);
    }
    let Some(last) = last else { return Ok(false) };
    // Readers are informed before anything is deleted.
    log.forget(last);
    log.bytes.fetch_sub(freed, Ordering::Relaxed);
    data.store
        .delete_range(Space::Log, &key(0), &key(last.saturating_add(1)))
        .map_err(store_failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};
    use value::Val;
    use value::ejson;

    #[test]
    fn what_is_too_much_goes_and_readers_hear_of_it() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc())
        };
        let early = "{aggregate: 'c', pipeline: [{$changeStream: {startAtOperationTime: \
                     Timestamp(1, 1)}}], cursor: {}}";
        let opened = run(early).expect("nothing is gone yet");
        let cursor = opened.as_doc().get("cursor").and_then(Val::as_doc);
        let id = cursor.and_then(|cursor| cursor.get("id")).and_then(Val::as_i64_exact);
        let id = id.expect("a cursor");
        for n in 0..100 {
            let text = "x".repeat(1000);
            run(&format!("{{insert: 'c', documents: [{{_id: {n}, text: '{text}'}}]}}"))
                .expect("works");
        }
        let inner = engine.inner();
        let (before, _) = inner.data.changes.sizes();
        assert!(before > 100_000);
        inner.data.changes.limits.bytes_max.store(50_000, Ordering::Relaxed);
        // Young records are kept whatever the size.
        inner.data.changes.limits.keep_ms.store(3_600_000, Ordering::Relaxed);
        trim(&inner.data).expect("works");
        assert_eq!(inner.data.changes.sizes().0, before);
        inner.data.changes.limits.keep_ms.store(0, Ordering::Relaxed);
        trim(&inner.data).expect("works");
        assert!(inner.data.changes.sizes().0 <= 50_000);
        assert_eq!(run(early).expect_err("the place is gone").code().0, 286);
        let more = format!("{{getMore: NumberLong({id}), collection: 'c'}}");
        assert_eq!(run(&more).expect_err("its next change is gone").code().0, 286);
        let now = run("{aggregate: 'c', pipeline: [{$changeStream: {}}], cursor: {}}");
        assert!(now.is_ok());
        let local = ejson::parse_doc("{find: 'oplog.rs', batchSize: 1000}").expect("test text");
        let reply = engine.run_command("local", local.as_doc()).expect("what is left can be read");
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let left = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch").count();
        assert!((10..60).contains(&left), "{left}");
    }
}
