//! The state of a connection that other clients can read: `currentOp` shows it, `killOp` stops its
//! command.
//!
//! Layer: base.

use crate::report::PlanSummary;
use crate::usage::Kind;
use parking_lot::Mutex;
use query::interrupt::{Killed, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;
use value::{DocBuf, RawDoc, Val};

/// The state of a connection that other clients can read, and the flag that stops its command.
pub struct Slot {
    /// Number of the connection.
    pub connection_id: i64,
    /// The client's address.
    pub remote: String,
    /// The running command, or the last one.
    pub current: Mutex<Current>,
    /// The number of the running operation, unique over all connections; 0 when idle.
    pub operation_id: AtomicU64,
    /// The commit that the running operation reads, if it reads from one for a cursor; else 0.
    pub reads_at: AtomicU64,
    /// Whether the running operation waits for another one, or for `fsyncUnlock`.
    pub waits: AtomicBool,
    /// How often the running operation repeated a write because of a conflict.
    pub conflicts: AtomicU64,
    /// Set by `killOp` and similar commands.
    pub killed: AtomicBool,
    /// The operation that runs this one as a part of itself. It ends with that one.
    pub outer: Option<Watch>,
    /// The application's name from `hello`.
    pub application: Mutex<String>,
    /// The user that logged in, as `name@db`.
    pub user: Mutex<Option<Box<str>>>,
    /// The client metadata sent in `hello`.
    pub metadata: Mutex<Option<DocBuf>>,
    /// The time of the last activity, in milliseconds since 1970.
    pub last_active_ms: AtomicI64,
}

impl Killed for Slot {
    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
            || self.outer.as_ref().is_some_and(|outer| outer.killed.is_killed())
    }

    fn note_wait(&self, begins: bool) {
        self.waits.store(begins, Ordering::Relaxed);
        self.outer.iter().for_each(|outer| outer.killed.note_wait(begins));
    }

    fn note_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }
}

/// The running command, for `currentOp`. Its buffers are reused by the next command.
pub struct Current {
    /// When it began.
    pub started: Instant,
    /// Its class in the statistics.
    pub(crate) kind: Kind,
    /// Which field of the command names the collection.
    pub(crate) namespace: NamedIn,
    /// The command itself; empty when it is too long to keep.
    pub command: Vec<u8>,
    /// How it finds its documents.
    pub plan: PlanSummary,
    /// The cursor that it continues.
    pub cursor: Option<CursorFacts>,
}

/// What `currentOp` shows of a cursor.
#[derive(Debug)]
pub struct CursorFacts {
    /// Its identifier.
    pub id: i64,
    /// When it was opened.
    pub opened: Instant,
    /// When it was last used.
    pub last_used: Instant,
    /// Documents returned before.
    pub returned: u64,
    /// Batches returned before.
    pub batches: u64,
    /// Whether it is exempt from the idle timeout.
    pub no_timeout: bool,
    /// Whether it stays open after its last document.
    pub tailable: bool,
    /// Whether it waits for new documents.
    pub waits: bool,
    /// The command that opened it.
    pub command: Arc<DocBuf>,
}

/// The longest command that is kept for `currentOp`, in bytes.
const COMMAND_BYTES_KEPT: usize = 4096;

impl Default for Current {
    fn default() -> Current {
        Current {
            started: Instant::now(),
            kind: Kind::Command,
            namespace: NamedIn::FirstField,
            command: Vec::new(),
            plan: PlanSummary::default(),
            cursor: None,
        }
    }
}

impl Current {
    /// Sets the running command.
    pub(crate) fn set(&mut self, started: Instant, kind: Kind, namespace: NamedIn, command: &[u8]) {
        self.started = started;
        self.kind = kind;
        self.namespace = namespace;
        self.plan.clear();
        self.cursor = None;
        self.command.clear();
        if command.len() <= COMMAND_BYTES_KEPT {
            self.command.extend_from_slice(command);
        }
    }
}

/// Which field of a command names its collection. Set in the command's row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NamedIn {
    /// In its first field, if that is a string.
    FirstField,
    /// In this field.
    Field(&'static str),
    /// In its first field, as `db.collection`.
    Qualified,
    /// In no field. The first value is something else, such as the name of a user.
    None,
}

impl NamedIn {
    /// The collection in the command's database that the command names.
    pub(crate) fn collection(self, body: RawDoc<'_>) -> Option<&str> {
        match self {
            NamedIn::FirstField => body.first().and_then(|(_, value)| value.get().as_str()),
            NamedIn::Field(name) => body.get(name).and_then(Val::as_str),
            NamedIn::Qualified | NamedIn::None => None,
        }
    }
}
