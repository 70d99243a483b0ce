//! Slow operations: a line in the log (`command_log`), and with `profile` a document in
//! `system.profile`.
//!
//! Layer: service.

use crate::catalog::change;
use crate::command_log::Ended;
use crate::exec::write;
use crate::operation::Operation;
use crate::txn::Data;
use parking_lot::Mutex;
use query::filter::Filter;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use value::{DocBuf, Result, Val};

/// The collection that holds profiled operations.
pub const COLLECTION: &str = "system.profile";

/// Bytes of that collection.
const COLLECTION_BYTES: i64 = 1024 * 1024;

/// Longer commands are left out of the profile.
const COMMAND_BYTES_MAX: usize = 50_000;

/// The settings of the profiler.
pub struct Profiler {
    /// Operations that take longer than this are slow, in milliseconds.
    pub slow_ms: AtomicI64,
    /// Whether any database has a level above 0. Ordinary commands check only this flag.
    active: AtomicBool,
    settings: Mutex<Settings>,
}

#[derive(Default)]
struct Settings {
    levels: HashMap<String, i32>,
    sample_rate: Option<f64>,
    filter: Option<Arc<Filter>>,
    filter_source: Option<DocBuf>,
}

/// The settings that `profile` returns.
pub struct ProfileSettings {
    /// The level of the database: 0 nothing, 1 slow operations, 2 all operations.
    pub level: i32,
    /// The share of slow operations that is recorded.
    pub sample_rate: f64,
    /// Selects the operations that are recorded, instead of the slow ones.
    pub filter: Option<DocBuf>,
}

/// A change of settings; fields that are `None` stay unchanged.
#[derive(Default)]
pub struct Change {
    /// The level of the database.
    pub level: Option<i32>,
    /// The threshold for slow operations, in milliseconds.
    pub slow_ms: Option<i64>,
    /// The share of slow operations that is recorded.
    pub sample_rate: Option<f64>,
    /// The filter; `Some(None)` removes it.
    pub filter: Option<Option<(Arc<Filter>, DocBuf)>>,
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler {
            slow_ms: AtomicI64::new(100),
            active: AtomicBool::new(false),
            settings: Mutex::default(),
        }
    }
}

impl Profiler {
    /// Whether a command that took this long may have to be recorded.
    #[must_use]
    pub fn concerns(&self, elapsed: Duration) -> bool {
        let millis = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        millis > self.slow_ms.load(Ordering::Relaxed) || self.active.load(Ordering::Relaxed)
    }

    /// The settings of a database.
    #[must_use]
    pub fn show(&self, db: &str) -> ProfileSettings {
        let settings = self.settings.lock();
        ProfileSettings {
            level: settings.levels.get(db).copied().unwrap_or(0),
            sample_rate: settings.sample_rate.unwrap_or(1.0),
            filter: settings.filter_source.clone(),
        }
    }

    /// Changes settings.
    pub fn change(&self, db: &str, change: Change) {
        let mut settings = self.settings.lock();
        match change.level {
            Some(0) => {
                settings.levels.remove(db);
            }
            Some(level) => {
                settings.levels.insert(db.to_owned(), level);
            }
            None => {}
        }
        if let Some(slow_ms) = change.slow_ms {
            self.slow_ms.store(slow_ms, Ordering::Relaxed);
        }
        if let Some(rate) = change.sample_rate {
            settings.sample_rate = Some(rate);
        }
        match change.filter {
            Some(Some((filter, source))) => {
                settings.filter = Some(filter);
                settings.filter_source = Some(source);
            }
            Some(None) => {
                settings.filter = None;
                settings.filter_source = None;
            }
            None => {}
        }
        self.active.store(!settings.levels.is_empty(), Ordering::Relaxed);
    }
}

/// Records a command that has ended, if it was slow or its database is profiled.
pub fn note(profiler: &Profiler, data: &Data, op: &Operation, ended: &Ended<'_>) {
    let slow_ms = profiler.slow_ms.load(Ordering::Relaxed);
    let millis = i64::try_from(ended.elapsed.as_millis()).unwrap_or(i64::MAX);
    // A command that waits on purpose is not slow.
    let waits = ended.waits || op.waited();
    let slow = millis > slow_ms && !waits;
    if !slow && !profiler.active.load(Ordering::Relaxed) {
        return;
    }
    let (level, rate, filter) = {
        let settings = profiler.settings.lock();
        let level = settings.levels.get(ended.db).copied().unwrap_or(0);
        (level, settings.sample_rate.unwrap_or(1.0), settings.filter.clone())
    };
    if slow && sampled(rate) {
        crate::command_log::note_slow(op, ended);
    }
    if level == 0 || ended.db == "local" || data.options.read_only {
        return;
    }
    let doc = describe(op, ended, millis);
    let wanted = match &filter {
        Some(filter) => filter.matches(doc.as_doc()).unwrap_or(false),
        None => level == 2 || (slow && sampled(rate)),
    };
    if wanted && let Err(error) = keep(data, ended.db, &doc) {
        tracing::warn!(code = error.code().0, "cannot write to the profile");
    }
}

fn sampled(rate: f64) -> bool {
    rate >= 1.0 || fastrand::f64() < rate
}

/// The document of an operation in `system.profile`.
fn describe(op: &Operation, ended: &Ended<'_>, millis: i64) -> DocBuf {
    let cost = op.cost();
    let slot = op.slot();
    DocBuf::build(|out| {
        out.append("_id", Val::ObjectId(value::ObjectId::generate()));
        out.str("op", ended.kind.op()).str("ns", &crate::command_log::namespace(ended));
        if ended.body.bytes().len() <= COMMAND_BYTES_MAX {
            out.doc("command", |out| {
                for (name, value) in ended.body {
                    if !matches!(name, "$clusterTime" | "$readPreference" | "documents") {
                        out.raw(name, value);
                    }
                }
            });
        } else {
            out.doc("command", |out| {
                out.str("$truncated", ended.name);
            });
        }
        out.count("keysExamined", cost.keys).count("docsExamined", cost.documents);
        out.i32("numYield", 0).count("nreturned", cost.returned);
        out.count("responseLength", ended.reply_bytes as u64);
        if let Some(error) = ended.error {
            out.f64("ok", 0.0).str("errMsg", error.message());
            out.str("errName", &error.code().name()).i32("errCode", error.code().0);
        }
        out.str("protocol", "op_msg");
        out.count("millis", u64::try_from(millis).unwrap_or(0));
        if let Some(plan) = op.plan_summary() {
            out.str("planSummary", &plan);
        }
        out.append("ts", Val::DateTime(crate::clock::now_ms()));
        out.str("client", slot.remote.rsplit_once(':').map_or("", |(host, _)| host));
        let application = slot.application.lock();
        if !application.is_empty() {
            out.str("appName", &application);
        }
        let user = slot.user.lock();
        out.array("allUsers", |users| {
            if let Some((name, db)) = user.as_deref().and_then(|user| user.rsplit_once('@')) {
                users.push_doc(|out| {
                    out.str("user", name).str("db", db);
                });
            }
        });
        out.str("user", user.as_deref().unwrap_or(""));
    })
}

/// Adds a document to the profile of a database; creates the collection if needed.
fn keep(data: &Data, db: &str, doc: &DocBuf) -> Result<()> {
    let collection = match data.collection(db, COLLECTION) {
        Some(collection) => collection,
        None => data.change_catalog(|catalog, batch| match catalog.get(db, COLLECTION) {
            Some(collection) => Ok(collection.clone()),
            None => {
                let options = DocBuf::build(|out| {
                    out.bool("capped", true).i64("size", COLLECTION_BYTES);
                });
                change::create(&data.ids, catalog, batch, db, COLLECTION, options)
            }
        })?,
    };
    if collection.view().is_some() {
        return Ok(());
    }
    data.transact_alone(&|| Ok(()), collection.capped().is_some(), |txn| {
        let Some(collection) = txn.catalog.get(db, COLLECTION).cloned() else { return Ok(()) };
        write::insert(txn, &collection, doc.as_doc())?;
        write::trim_capped(txn, &collection)
    })?;
    Ok(())
}
