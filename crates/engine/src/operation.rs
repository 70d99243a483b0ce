//! One running command: who runs it, until when, and whether somebody asked it to stop.

use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Error, Result};

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
    /// What the client said about itself in `hello`.
    pub metadata: Mutex<Option<DocBuf>>,
    /// When the connection last did something, in milliseconds since 1970.
    pub last_active_ms: AtomicI64,
}

/// The running command, for `currentOp`. Its buffers are reused by the next command.
pub struct Current {
    /// When it began.
    pub started: Instant,
    /// The name of the command.
    pub name: &'static str,
    /// The command itself; empty when it is too long to keep.
    pub command: Vec<u8>,
}

/// Longer commands are not kept for `currentOp`.
const COMMAND_BYTES_KEPT: usize = 4096;

impl Default for Current {
    fn default() -> Current {
        Current { started: Instant::now(), name: "", command: Vec::new() }
    }
}

impl Current {
    /// Notes the command that runs now.
    pub fn set(&mut self, started: Instant, name: &'static str, command: &[u8]) {
        self.started = started;
        self.name = name;
        self.command.clear();
        if command.len() <= COMMAND_BYTES_KEPT {
            self.command.extend_from_slice(command);
        }
    }
}

/// The context of a running command.
pub struct Operation {
    slot: Arc<Slot>,
    deadline: Cell<Option<Instant>>,
    steps: Cell<u32>,
}

/// How many cheap steps pass between two looks at the clock.
const STEPS_BETWEEN_CHECKS: u32 = 64;

impl Operation {
    /// A new operation of a connection.
    #[must_use]
    pub fn new(slot: Arc<Slot>) -> Operation {
        Operation { slot, deadline: Cell::new(None), steps: Cell::new(0) }
    }

    /// The connection.
    #[must_use]
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Sets the time by which the operation must end.
    pub fn set_deadline(&self, limit: Duration) {
        self.deadline.set(Instant::now().checked_add(limit));
    }

    /// The time by which the operation must end.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Called in every loop over documents: looks now and then whether to stop.
    ///
    /// # Errors
    /// Interrupted or MaxTimeMSExpired.
    #[inline]
    pub fn check(&self) -> Result<()> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS_BETWEEN_CHECKS) { self.check_now() } else { Ok(()) }
    }

    /// Looks right away whether to stop.
    ///
    /// # Errors
    /// Interrupted or MaxTimeMSExpired.
    pub fn check_now(&self) -> Result<()> {
        if self.slot.killed.load(Ordering::Relaxed) {
            return Err(Error::new(Code::INTERRUPTED, "operation was interrupted"));
        }
        if self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
        }
        Ok(())
    }
}
