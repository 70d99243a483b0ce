//! What other clients may see of a connection: `currentOp` reads it, `killOp` stops its command.
//!
//! Layer: base.

use crate::usage::Kind;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;
use value::{DocBuf, RawDoc, Val};

/// What other clients may see of a connection, and the switch that stops its command.
pub struct Slot {
    /// Number of the connection.
    pub connection_id: i64,
    /// The client's address.
    pub remote: String,
    /// What runs now, or ran last.
    pub current: Mutex<Current>,
    /// Number of the running operation; 0 when idle. Counts up over all connections.
    pub operation_id: AtomicU64,
    /// Set by `killOp` and friends.
    pub killed: AtomicBool,
    /// The application's name from `hello`.
    pub application: Mutex<String>,
    /// Who logged in, as `name@db`.
    pub user: Mutex<Option<Box<str>>>,
    /// What the client said about itself in `hello`.
    pub metadata: Mutex<Option<DocBuf>>,
    /// When the connection last did something, in milliseconds since 1970.
    pub last_active_ms: AtomicI64,
}

impl query::interrupt::Killed for Slot {
    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
}

/// The running command, for `currentOp`. Its buffers are reused by the next command.
pub struct Current {
    /// When it began.
    pub started: Instant,
    /// How it counts.
    pub(crate) kind: Kind,
    /// Where it names its collection.
    pub(crate) namespace: NamedIn,
    /// The command itself; empty when it is too long to keep.
    pub command: Vec<u8>,
}

/// Longer commands are not kept for `currentOp`.
const COMMAND_BYTES_KEPT: usize = 4096;

impl Default for Current {
    fn default() -> Current {
        Current {
            started: Instant::now(),
            kind: Kind::Command,
            namespace: NamedIn::FirstField,
            command: Vec::new(),
        }
    }
}

impl Current {
    /// Notes the command that runs now.
    pub(crate) fn set(&mut self, started: Instant, kind: Kind, namespace: NamedIn, command: &[u8]) {
        self.started = started;
        self.kind = kind;
        self.namespace = namespace;
        self.command.clear();
        if command.len() <= COMMAND_BYTES_KEPT {
            self.command.extend_from_slice(command);
        }
    }
}

/// Where a command names the collection that it is about; a fact of its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NamedIn {
    /// In its first field, if that is a string.
    FirstField,
    /// In this field.
    Field(&'static str),
    /// In its first field, with the database in front.
    Qualified,
    /// Nowhere. Its first value is something else, such as the name of a user.
    None,
}

impl NamedIn {
    /// The collection of its own database that a command names.
    pub(crate) fn collection(self, body: RawDoc<'_>) -> Option<&str> {
        match self {
            NamedIn::FirstField => body.first().and_then(|(_, value)| value.get().as_str()),
            NamedIn::Field(name) => body.get(name).and_then(Val::as_str),
            NamedIn::Qualified | NamedIn::None => None,
        }
    }
}
