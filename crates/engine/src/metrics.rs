//! Counters for `serverStatus` since the server started.
//!
//! Layer: base.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that many threads raise.
pub type Counter = AtomicU64;

/// Counters since the start.
#[derive(Default)]
pub struct Metrics {
    /// Documents in insert statements.
    pub inserts: Counter,
    /// Find and aggregate commands.
    pub queries: Counter,
    /// Update statements.
    pub updates: Counter,
    /// Delete statements.
    pub deletes: Counter,
    /// getMore commands.
    pub get_mores: Counter,
    /// All other commands.
    pub commands: Counter,
    /// Documents returned.
    pub documents_returned: Counter,
    /// Documents inserted.
    pub documents_inserted: Counter,
    /// Documents updated.
    pub documents_updated: Counter,
    /// Documents deleted.
    pub documents_deleted: Counter,
    /// Index entries examined.
    pub keys_examined: Counter,
    /// Documents examined.
    pub documents_examined: Counter,
    /// Cursors that were closed by the idle timeout.
    pub cursors_timed_out: Counter,
    /// Commands that failed.
    pub failures: Counter,
    /// Retried writes that had already been executed.
    pub retried_writes: Counter,
    /// Bytes written to record the results of retryable writes.
    pub retry_bytes: Counter,
    /// Runs of each command.
    pub runs: CommandRuns,
    /// Requests for commands that do not exist.
    pub unknown_commands: Counter,
}

/// The most commands that are counted.
pub const COMMANDS_MAX: usize = 256;

/// Runs of each command, by its place in the table of commands.
pub struct CommandRuns([CommandRun; COMMANDS_MAX]);

/// Runs of one command.
#[derive(Default)]
pub struct CommandRun {
    /// All.
    pub total: Counter,
    /// Those that failed.
    pub failed: Counter,
    /// Its updates with `arrayFilters`.
    pub array_filters: Counter,
    /// Its updates by a pipeline.
    pub pipelines: Counter,
}

impl Default for CommandRuns {
    fn default() -> CommandRuns {
        CommandRuns(std::array::from_fn(|_| CommandRun::default()))
    }
}

impl CommandRuns {
    /// The runs of the command at this place.
    #[must_use]
    pub fn of(&self, place: usize) -> Option<&CommandRun> {
        self.0.get(place)
    }
}

/// Counters of connections, kept by the server.
#[derive(Default)]
pub struct Network {
    /// Open connections.
    pub connections_current: Counter,
    /// Connections ever opened.
    pub connections_total: Counter,
    /// Most connections that may be open.
    pub connections_max: Counter,
    /// Bytes received.
    pub bytes_in: Counter,
    /// Bytes sent.
    pub bytes_out: Counter,
    /// Requests received.
    pub requests: Counter,
    /// Connections ever encrypted by TLS 1.2.
    pub tls_1_2: Counter,
    /// Connections ever encrypted by TLS 1.3.
    pub tls_1_3: Counter,
    /// The certificate that the server presents to clients.
    pub certificate: parking_lot::Mutex<Option<ServerCertificate>>,
}

/// The certificate that the server presents to clients.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    /// Its subject.
    pub subject: String,
    /// Whether the server requests certificates from clients.
    pub asks_clients: bool,
    /// The end of its validity, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// Raises a counter.
pub fn add(counter: &Counter, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Reads a counter.
#[must_use]
pub fn read(counter: &Counter) -> u64 {
    counter.load(Ordering::Relaxed)
}
