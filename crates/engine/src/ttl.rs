//! Expiry of documents: periodically deletes documents whose date is older than
//! `expireAfterSeconds` of their index or clustered collection. It uses the `delete` command, like
//! any client.
//!
//! Layer: service.

use crate::catalog::{Collection, Index, IndexState};
use crate::txn::Data;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use value::{Code, DocBuf, RawDoc, Val};

/// The default time between two rounds.
const PERIOD_SECONDS: i64 = 60;

/// The schedule: the start of the next round, the period, and whether a round is running.
pub struct Ttl {
    next_ms: AtomicI64,
    period_seconds: AtomicI64,
    running: AtomicBool,
    /// Rounds that have ended.
    pub(crate) passes: AtomicU64,
    /// Documents that they have deleted.
    pub(crate) deleted: AtomicU64,
}

impl Default for Ttl {
    fn default() -> Ttl {
        Ttl {
            next_ms: AtomicI64::new(0),
            period_seconds: AtomicI64::new(PERIOD_SECONDS),
            running: AtomicBool::new(false),
            passes: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
        }
    }
}

impl Ttl {
    /// The time between two rounds, in seconds.
    pub fn period_seconds(&self) -> i64 {
        self.period_seconds.load(Ordering::Relaxed)
    }

    /// Changes the time between two rounds. The next round starts after that time.
    pub fn set_period_seconds(&self, seconds: i64) {
        self.period_seconds.store(seconds, Ordering::Relaxed);
        let next = crate::clock::now_ms().saturating_add(seconds.saturating_mul(1000));
        self.next_ms.store(next, Ordering::Relaxed);
    }
}

/// Deletes expired documents, if a round is due.
pub fn run(ttl: &Arc<Ttl>, data: &Arc<Data>) {
    let now = crate::clock::now_ms();
    let next = ttl.next_ms.load(Ordering::Relaxed);
    if now < next {
        return;
    }
    let period_ms = ttl.period_seconds().saturating_mul(1000);
    ttl.next_ms.store(now.saturating_add(period_ms), Ordering::Relaxed);
    // The first call only starts the clock. An operator can inspect a server that was stopped for a
    // long time before documents are deleted.
    if next == 0 || !has_work(data) || ttl.running.swap(true, Ordering::SeqCst) {
        return;
    }
    // Runs on a separate thread: a long round must not delay closing idle cursors.
    let (data, running) = (data.clone(), ttl.clone());
    let started = std::thread::Builder::new().name("ttl".to_owned()).spawn(move || {
        running.deleted.fetch_add(round(&data, now), Ordering::Relaxed);
        running.passes.fetch_add(1, Ordering::Relaxed);
        running.running.store(false, Ordering::SeqCst);
    });
    if let Err(error) = started {
        ttl.running.store(false, Ordering::SeqCst);
        tracing::warn!(%error, "cannot start a thread to delete expired documents");
    }
}

fn has_work(data: &Data) -> bool {
    let catalog = data.catalog.load();
    let expires = |spec: RawDoc<'_>| spec.find("expireAfterSeconds").is_some();
    catalog.collections().any(|collection| {
        expires(collection.options.as_doc())
            || collection.indexes.iter().any(|index| expires(index.spec.as_doc()))
            || expiry_of_layout(collection).is_some()
    })
}

/// Deletes the documents that have expired by `now_ms`. Returns how many.
pub fn round(data: &Data, now_ms: i64) -> u64 {
    let mut deleted = 0;
    let catalog = data.catalog.load_full();
    for collection in catalog.collections() {
        let by_index = collection.indexes.iter().map(|index| expired(collection, index, now_ms));
        let others =
            [expired_by_options(collection, now_ms), expired_by_layout(collection, now_ms)];
        for delete in by_index.chain(others) {
            let Some(delete) = delete else { continue };
            match data.run_command(&collection.db, delete.as_doc()) {
                Ok(reply) => {
                    let count = reply.as_doc().get("n").and_then(Val::as_i64_exact);
                    deleted += count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
                }
                Err(error) if error.code() == Code::SHUTDOWN_IN_PROGRESS => {}
                Err(error) => tracing::warn!(
                    code = error.code().0,
                    namespace = collection.namespace(),
                    "cannot delete expired documents"
                ),
            }
        }
    }
    deleted
}

/// The command that deletes expired documents of a clustered collection, whose `_id`s are dates, or
/// of a time-series collection.
fn expired_by_options(collection: &Collection, now_ms: i64) -> Option<DocBuf> {
    let options = collection.options.as_doc();
    let seconds = options.get("expireAfterSeconds").and_then(Val::as_f64)?;
    let before = now_ms.checked_sub((seconds * 1000.0) as i64)?;
    let path = collection.time_series.as_deref().map_or("_id", |series| &*series.time);
    Some(delete_before(&collection.name, path, before))
}

/// The command that deletes the documents with a date before another one.
fn delete_before(name: &str, path: &str, before: i64) -> DocBuf {
    DocBuf::build(|out| {
        out.str("delete", name);
        out.array("deletes", |deletes| {
            deletes.push_doc(|out| {
                out.doc("q", |out| {
                    out.doc(path, |out| {
                        out.append("$lt", Val::DateTime(before));
                    });
                });
                out.i32("limit", 0);
            });
        });
    })
}

/// The path of a date and the seconds after which a layout lets documents expire.
fn expiry_of_layout(collection: &Collection) -> Option<(&str, i64)> {
    let layouts = collection.layouts.as_ref()?;
    let current = layouts.patterns().iter().filter(|pattern| pattern.phase.is_maintained());
    current.filter_map(|pattern| pattern.layout()?.expires()).next()
}

/// The command that deletes the documents that expired by a layout.
fn expired_by_layout(collection: &Collection, now_ms: i64) -> Option<DocBuf> {
    let (path, seconds) = expiry_of_layout(collection)?;
    let before = now_ms.checked_sub(seconds.checked_mul(1000)?)?;
    Some(delete_before(&collection.name, path, before))
}

/// The command that deletes the documents that expired by one index.
fn expired(collection: &Collection, index: &Index, now_ms: i64) -> Option<DocBuf> {
    let seconds = index.spec.as_doc().get("expireAfterSeconds").and_then(Val::as_f64)?;
    // Capped collections remove documents by size only.
    if index.state != IndexState::Ready || collection.capped().is_some() {
        return None;
    }
    let before = now_ms.checked_sub((seconds * 1000.0) as i64)?;
    let path = index.fields.first()?.path.text();
    Some(DocBuf::build(|out| {
        out.str("delete", &collection.name);
        out.array("deletes", |deletes| {
            deletes.push_doc(|out| {
                out.doc("q", |out| {
                    out.doc(path, |out| {
                        // A date compares only with dates, so other values do not expire.
                        out.append("$lt", Val::DateTime(before));
                    });
                    // Documents outside a partial index do not expire.
                    if let Some(partial) = index.spec.as_doc().find("partialFilterExpression") {
                        out.array("$and", |all| all.push_raw(partial));
                    }
                });
                out.i32("limit", 0);
                if !index.hidden {
                    out.str("hint", &index.name);
                }
            });
        });
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};
    use value::ejson;

    #[test]
    fn only_old_dates_expire() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works")
        };
        run(
            "{createIndexes: 'c', indexes: [{key: {at: 1}, name: 'at_1', expireAfterSeconds: 60}]}",
        );
        run("{insert: 'c', documents: [
            {_id: 1, at: {$date: {$numberLong: '1000'}}},
            {_id: 2, at: {$date: {$numberLong: '999000'}}},
            {_id: 3, at: 5},
            {_id: 4},
            {_id: 5, at: [{$date: {$numberLong: '999000'}}, {$date: {$numberLong: '1000'}}]}]}");
        run("{createIndexes: 'c', indexes: [{key: {p: 1}, name: 'p', expireAfterSeconds: 60,
                partialFilterExpression: {old: true}, hidden: true}]}");
        run("{insert: 'c', documents: [
            {_id: 6, p: {$date: {$numberLong: '1000'}}, old: true},
            {_id: 7, p: {$date: {$numberLong: '1000'}}}]}");
        run("{create: 'k', clusteredIndex: {key: {_id: 1}, unique: true}, expireAfterSeconds: 60}");
        run("{insert: 'k', documents: [{_id: 1}, {_id: {$date: {$numberLong: '1000'}}},
            {_id: {$date: {$numberLong: '999000'}}}]}");
        round(&engine.inner().data, 1_000_000);
        let kept = run("{count: 'k'}");
        assert_eq!(kept.as_doc().get("n"), Some(Val::Int32(2)));
        let left = run("{find: 'c', filter: {}, projection: {_id: 1}}");
        let cursor = left.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
        let ids: Vec<_> =
            batch.iter().map(|(_, d)| d.as_doc().and_then(|d| d.get("_id"))).collect();
        assert_eq!(ids, [2, 3, 4, 7].map(|id| Some(Val::Int32(id))));
    }

    #[test]
    fn points_of_a_time_series_expire_by_their_time() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works")
        };
        run("{create: 'c', timeseries: {timeField: 'at'}, expireAfterSeconds: 60}");
        run("{insert: 'c', documents: [
            {_id: 1, at: {$date: {$numberLong: '1000'}}},
            {_id: {$date: {$numberLong: '1000'}}, at: {$date: {$numberLong: '999000'}}}]}");
        assert!(has_work(&engine.inner().data));
        assert_eq!(round(&engine.inner().data, 1_000_000), 1);
        let left = run("{count: 'c', query: {at: {$exists: true}}}");
        assert_eq!(left.as_doc().get("n"), Some(Val::Int32(1)));
    }

    #[test]
    fn points_expire_by_their_layout() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works")
        };
        run("{create: 'c', patterns: [{name: 'p', kind: 'bucket', key: [], time: 'at', span: '1h',
            expireAfterSeconds: 60}]}");
        run("{insert: 'c', documents: [
            {_id: 1, at: {$date: {$numberLong: '1000'}}},
            {_id: 2, at: {$date: {$numberLong: '999000'}}},
            {_id: 3, at: 5}]}");
        assert!(has_work(&engine.inner().data));
        round(&engine.inner().data, 1_000_000);
        let reply = run("{find: 'c', projection: {_id: 1}, sort: {_id: 1}}");
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
        let ids: Vec<_> =
            batch.iter().map(|(_, d)| d.as_doc().and_then(|d| d.get("_id"))).collect();
        assert_eq!(ids, [2, 3].map(|id| Some(Val::Int32(id))));
    }
}
