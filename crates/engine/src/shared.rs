//! The state that all clients of an engine share, in four parts: data, service, background work and
//! observation. Functions in lower layers take only the part they need.
//!
//! Layer: service.

use crate::cursor::Cursors;
use crate::metrics::{Metrics, Network};
use crate::session::Sessions;
use crate::slot::Slot;
use crate::txn::Data;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Instant;

/// Reloads certificates and keys; returns a message on failure.
pub type RotateCertificates = Box<dyn Fn() -> std::result::Result<(), String> + Send + Sync>;

/// The state that all clients of an engine share.
pub struct Inner {
    /// The store, the catalog, and the state that every commit needs.
    pub data: Arc<Data>,
    /// Sessions, cursors, logins and connections.
    pub service: Service,
    /// The state of background work.
    pub(crate) background: Background,
    /// Counters, logs and parameters.
    pub observed: Observed,
}

/// Sessions, cursors, logins and connections.
pub struct Service {
    /// Open cursors.
    pub cursors: Arc<Cursors>,
    /// Retryable writes, transactions and session expiry.
    pub sessions: Sessions,
    /// State shared by all logins.
    pub(crate) access: Arc<crate::access::Access>,
    /// Connections by number.
    pub(crate) slots: Mutex<BTreeMap<i64, Arc<Slot>>>,
    /// The next number of a connection.
    pub(crate) next_connection: AtomicI64,
    /// Called for the `shutdown` command.
    pub(crate) on_shutdown: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    /// Called for the `rotateCertificates` command.
    pub(crate) on_rotate_certificates: Mutex<Option<RotateCertificates>>,
}

/// The state of background work.
pub(crate) struct Background {
    /// Builds, checks and strategies of patterns.
    pub(crate) upkeep: Arc<crate::upkeep::Maintenance>,
    /// The schedule of document expiry.
    pub(crate) ttl: Arc<crate::ttl::Ttl>,
}

/// Counters, logs and the parameters that control them.
pub struct Observed {
    /// Counters.
    pub metrics: Metrics,
    /// Latencies of all operations.
    pub(crate) latencies: crate::usage::Latencies,
    /// Counters that the server fills.
    pub network: Network,
    /// When the engine was opened.
    pub started: Instant,
    /// Identifies this process to drivers.
    pub process_id: value::ObjectId,
    /// The last lines of the log, for `getLog`.
    pub log: Mutex<Vec<String>>,
    /// Parameters that `setParameter` changed.
    pub parameters: crate::parameters::Parameters,
    /// Failures on demand, for tests.
    pub(crate) fail_points: crate::fail_points::FailPoints,
    /// The settings of the profiler.
    pub(crate) profiler: crate::profiler::Profiler,
    /// Statistics of queries by their shape.
    pub(crate) query_stats: crate::query_stats::QueryStats,
}

impl Inner {
    /// Whether the caller holds the only handle to the engine and its parts. Dropping it releases
    /// the folder.
    pub(crate) fn is_released(self: &Arc<Inner>) -> bool {
        // Pattern maintenance also holds a handle to the data.
        Arc::strong_count(self) == 1
            && Arc::strong_count(&self.background.upkeep) == 1
            && Arc::strong_count(&self.data) == 2
    }
}

impl Service {
    /// Calls the function registered for the `shutdown` command.
    pub(crate) fn request_shutdown(&self) {
        if let Some(callback) = &*self.on_shutdown.lock() {
            callback();
        }
    }

    /// Calls the function registered for the `rotateCertificates` command.
    pub(crate) fn rotate_certificates(&self) -> std::result::Result<(), String> {
        match &*self.on_rotate_certificates.lock() {
            Some(callback) => callback(),
            None => Err("this server has no certificates".to_owned()),
        }
    }
}
