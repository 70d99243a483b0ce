//! Slow operations: a line in the log (`command_log`), and with `profile` a document in
//! `system.profile`.
//!
//! Layer: service.

use crate::catalog::Collection;
use crate::command_log::Ended;
use crate::operation::Operation;
use crate::own_log;
use crate::plan_cache::shape;
use crate::report::{Report, ShapeHashes, StatementReport, Writes};
use crate::txn::Data;
use crate::usage::Kind;
use parking_lot::Mutex;
use query::filter::Filter;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use value::{DocBuf, Error, RawDoc, Result, Val, Writer};

/// The collection that holds profiled operations.
pub const COLLECTION: &str = "system.profile";

/// Bytes of that collection.
const COLLECTION_BYTES: i64 = 1024 * 1024;

/// Longer commands are cut off in the profile.
const COMMAND_BYTES_MAX: usize = 50 * 1024;

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

    /// Whether any database is profiled.
    #[must_use]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
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
    let report = op.take_report();
    if !slow && report.is_none() {
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
    let report = report.unwrap_or_default();
    if level == 0 || ended.db == "local" || data.options.read_only || report.is_left_out {
        return;
    }
    let entries = match report.statements.as_slice() {
        [] => vec![(millis, Entry::of_command(op, ended, &report).document(op, ended))],
        statements => {
            let entry = |statement: &StatementReport| {
                let entry = Entry::of_statement(op, statement);
                (statement.millis, entry.document(op, ended))
            };
            statements.iter().map(entry).collect()
        }
    };
    for (millis, doc) in entries {
        let slow = millis > slow_ms && !waits;
        let wanted = match &filter {
            Some(filter) => filter.matches(doc.as_doc()).unwrap_or(false),
            None => level == 2 || (slow && sampled(rate)),
        };
        if wanted && let Err(error) = keep(data, ended.db, &doc) {
            tracing::warn!(code = error.code().0, "cannot write to the profile");
        }
    }
}

fn sampled(rate: f64) -> bool {
    rate >= 1.0 || fastrand::f64() < rate
}

/// An operation in `system.profile`: a command, or one statement of it.
struct Entry<'e> {
    command: RawDoc<'e>,
    opened_by: Option<RawDoc<'e>>,
    namespace: Option<&'e str>,
    cursor: Option<i64>,
    keys: u64,
    documents: u64,
    returned: Option<u64>,
    is_exhausted: bool,
    sorts: bool,
    writes: Writes,
    conflicts: u64,
    shape: Option<ShapeHashes>,
    error: Option<&'e Error>,
    response_bytes: Option<usize>,
    millis: i64,
    plan: Option<String>,
}

impl<'e> Entry<'e> {
    /// The entry of a command.
    fn of_command(op: &Operation, ended: &Ended<'e>, report: &'e Report) -> Entry<'e> {
        let cost = op.cost();
        // Listings have cursors, too, but no plan.
        let plan = op.plan_summary();
        let is_query = matches!(ended.kind, Kind::Query | Kind::GetMore);
        let reads = is_query || plan.is_some();
        let has_cursor = report.cursor.is_some() || report.is_exhausted;
        let returns = ended.error.is_none() && (is_query || (has_cursor && plan.is_some()));
        Entry {
            command: ended.body,
            opened_by: report.opened_by.as_ref().map(DocBuf::as_doc),
            namespace: report.namespace.as_deref(),
            cursor: report.cursor.filter(|_| reads),
            keys: cost.keys,
            documents: cost.documents,
            returned: returns.then_some(cost.returned),
            is_exhausted: report.is_exhausted && reads,
            sorts: report.sorts,
            writes: report.writes,
            conflicts: op.slot().conflicts.load(Ordering::Relaxed),
            shape: report.shape,
            error: ended.error,
            response_bytes: Some(ended.reply_bytes),
            millis: i64::try_from(ended.elapsed.as_millis()).unwrap_or(i64::MAX),
            plan,
        }
    }

    /// The entry of a statement.
    fn of_statement(op: &Operation, statement: &'e StatementReport) -> Entry<'e> {
        Entry {
            command: statement.command.as_doc(),
            opened_by: None,
            namespace: None,
            cursor: None,
            keys: statement.keys,
            documents: statement.documents,
            returned: None,
            is_exhausted: false,
            sorts: statement.sorts,
            writes: statement.writes,
            conflicts: op.slot().conflicts.load(Ordering::Relaxed),
            shape: statement.shape,
            error: statement.error.as_ref(),
            response_bytes: None,
            millis: statement.millis,
            plan: statement.plan.clone(),
        }
    }

    /// The document of the entry, in the order of MongoDB's fields.
    fn document(&self, op: &Operation, ended: &Ended<'_>) -> DocBuf {
        let slot = op.slot();
        DocBuf::build(|out| {
            out.append("_id", Val::ObjectId(value::ObjectId::generate()));
            out.str("op", ended.kind.op());
            match self.namespace {
                Some(namespace) => out.str("ns", namespace),
                None => out.str("ns", &crate::command_log::namespace(ended)),
            };
            write_command(out, "command", self.command);
            if let Some(command) = self.opened_by {
                write_command(out, "originatingCommand", command);
            }
            if let Some(cursor) = self.cursor {
                out.i64("cursorid", cursor);
            }
            if self.plan.is_some() && self.error.is_none() {
                out.count("keysExamined", self.keys).count("docsExamined", self.documents);
            }
            if self.sorts {
                out.bool("hasSortStage", true);
            }
            for (name, count) in [
                ("nMatched", self.writes.matched),
                ("nModified", self.writes.modified),
                ("ninserted", self.writes.inserted),
                ("ndeleted", self.writes.deleted),
                ("nUpserted", self.writes.upserted),
            ] {
                count.into_iter().for_each(|count| {
                    out.count(name, count);
                });
            }
            if self.is_exhausted {
                out.bool("cursorExhausted", true);
            }
            if self.conflicts > 0 {
                out.count("writeConflicts", self.conflicts);
            }
            out.i32("numYield", 0);
            if let Some(returned) = self.returned {
                out.count("nreturned", returned);
            }
            if let Some(shape) = self.shape {
                out.str("queryHash", &shape::text(shape.query));
                if let Some(key) = shape.key {
                    out.str("planCacheKey", &shape::text(key));
                }
                if self.response_bytes.is_some() {
                    out.str("queryFramework", "classic");
                }
            }
            if let Some(error) = self.error {
                out.f64("ok", 0.0).str("errMsg", error.message());
                out.str("errName", &error.code().name()).i32("errCode", error.code().0);
            }
            if let Some(bytes) = self.response_bytes {
                out.count("responseLength", bytes as u64).str("protocol", "op_msg");
            }
            out.count("millis", u64::try_from(self.millis).unwrap_or(0));
            if let Some(plan) = &self.plan {
                out.str("planSummary", plan);
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
}

/// Writes a command without the documents that it inserts. Of a long one only the beginning is
/// written, as text.
fn write_command(out: &mut Writer<'_>, name: &str, command: RawDoc<'_>) {
    let short = DocBuf::build(|out| {
        for (name, value) in command {
            if !matches!(name, "$clusterTime" | "$readPreference" | "documents") {
                out.raw(name, value);
            }
        }
    });
    if short.bytes().len() <= COMMAND_BYTES_MAX {
        out.append(name, Val::Document(short.as_doc()));
        return;
    }
    out.doc(name, |out| {
        let mut text = query::expr::show_doc_up_to(short.as_doc(), COMMAND_BYTES_MAX - 3);
        text.push_str("...");
        out.str("$truncated", &text);
        if let Some(comment) = short.as_doc().get("comment") {
            out.append("comment", comment);
        }
    });
}

/// Returns the collection of profiled operations of a database; creates it if needed.
///
/// # Errors
/// Errors of the catalog.
pub(crate) fn ensure(data: &Data, db: &str) -> Result<Arc<Collection>> {
    own_log::ensure(data, db, COLLECTION, COLLECTION_BYTES)
}

/// Adds a document to the profile of a database.
fn keep(data: &Data, db: &str, doc: &DocBuf) -> Result<()> {
    own_log::append(data, db, COLLECTION, COLLECTION_BYTES, doc).map(drop)
}
