//! How long records are kept: until they are more than so many bytes, but at least for so long. The
//! oldest are dropped in the background.

use super::log::{ChangeLog, key, time_of};
use super::record;
use crate::job::Job;
use crate::store_failed;
use crate::txn::Data;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;
use store::{Batch, Direction, Space, Store};
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// Bytes of records that are kept when nobody says otherwise.
const BYTES_MAX: u64 = 990 * MEGABYTE;
const MEGABYTE: u64 = 1024 * 1024;
/// What is kept of the log on a full disk, if it is not more.
const LEAST_WHEN_FULL: u64 = 16 * MEGABYTE;
/// The least size that can be asked for, in megabytes.
pub(crate) const MEGABYTES_LEAST: f64 = 990.0;
/// The key of the settings in the log space.
const SETTINGS: &[u8] = b"r";

/// What is kept, and what was dropped.
pub(crate) struct Limits {
    bytes_max: AtomicU64,
    /// Younger records stay even beyond that, in milliseconds.
    keep_ms: AtomicI64,
    truncations: AtomicU64,
    truncation_us: AtomicU64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_max: AtomicU64::new(BYTES_MAX),
            keep_ms: AtomicI64::new(0),
            truncations: AtomicU64::new(0),
            truncation_us: AtomicU64::new(0),
        }
    }
}

impl Limits {
    /// Reads the settings of an earlier process.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn load(&self, store: &dyn Store) -> Result<()> {
        let stored = store.snapshot().get(Space::Log, SETTINGS).map_err(store_failed)?;
        let Some(stored) = stored else { return Ok(()) };
        let number = |name| RawDoc::new(&stored).get(name).and_then(Val::as_i64_exact);
        if let Some(bytes) = number("bytes").and_then(|bytes| u64::try_from(bytes).ok()) {
            self.bytes_max.store(bytes, Ordering::Relaxed);
        }
        if let Some(keep) = number("keepMs") {
            self.keep_ms.store(keep, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl ChangeLog {
    /// Most bytes of records that are kept.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.limits.bytes_max.load(Ordering::Relaxed)
    }

    /// For how many hours records stay at least.
    pub(crate) fn keep_hours(&self) -> f64 {
        self.limits.keep_ms.load(Ordering::Relaxed) as f64 / 3_600_000.0
    }

    /// Bytes of the records, and about how many changes they hold.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        (bytes, (bytes / self.average_bytes().max(1)).max(u64::from(bytes > 0)))
    }

    /// Writes what `serverStatus` tells about dropping old records.
    pub(crate) fn write_truncation(&self, out: &mut Writer<'_>) {
        out.f64("oplogMinRetentionHours", self.keep_hours());
        out.count("totalTimeTruncatingMicros", self.limits.truncation_us.load(Ordering::Relaxed));
        out.count("truncateCount", self.limits.truncations.load(Ordering::Relaxed));
    }
}

/// Changes what is kept; what is not named stays.
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
    let seqno = data.store.write(&batch).map_err(store_failed)?;
    data.store.sync(seqno).map_err(store_failed)
}

/// Drops the oldest records if there are more than shall be kept.
///
/// # Errors
/// When the store fails.
pub(crate) fn trim(data: &Data) -> Result<()> {
    let (log, mut most) = (&data.changes, data.changes.bytes_max());
    let bytes = log.bytes.load(Ordering::Relaxed);
    if bytes > LEAST_WHEN_FULL && data.store.is_full() {
        // On a full disk the log gives way before documents have to.
        most = most.min(bytes / 2);
    }
    if bytes <= most {
        return Ok(());
    }
    let begun = Instant::now();
    // A little more than needed, so that there is something to do only now and then.
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
        // The newest record stays: it says where times go on after a restart.
        if end >= newest || record::wall_ms(&record) > young {
            break;
        }
        freed += record.len() as u64 + 32;
        job.advance(record.len() as u64);
        last = Some(end);
    }
    let Some(last) = last else { return Ok(false) };
    // Readers learn of it before anything is gone.
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
        // Young records stay, whatever the size.
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
