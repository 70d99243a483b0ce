//! The engine: the store, the catalog and everything that clients share.
//!
//! Layer: engine.

use crate::client::Client;
use crate::cursor::Cursors;
use crate::metrics::{Metrics, Network};
use crate::operation::Slot;
pub use crate::options::{Options, Storage};
use crate::request::{Flow, Peer, Request};
use crate::session::Sessions;
use crate::store_failed;
use crate::txn::Data;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use store::{DiskStore, MemoryStore, Store};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Reads certificates and keys again; says what is wrong with them.
pub type RotateCertificates = Box<dyn Fn() -> std::result::Result<(), String> + Send + Sync>;

/// A handle to an engine; clones share it.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

/// What all clients of an engine share, in parts by who needs them.
pub struct Inner {
    /// The store, the catalog, and what every commit needs.
    pub data: Arc<Data>,
    /// What serves clients.
    pub service: Service,
    /// The state of background work.
    pub(crate) background: Background,
    /// What is counted and recorded, and how to change that.
    pub observed: Observed,
}

/// What serves clients: sessions, cursors, logins and connections.
pub struct Service {
    /// Open cursors.
    pub cursors: Cursors,
    /// Retryable writes, transactions and session times.
    pub sessions: Sessions,
    /// Who may do what.
    pub(crate) access: crate::access::Access,
    /// Connections by number.
    pub(crate) slots: Mutex<BTreeMap<i64, Arc<Slot>>>,
    next_connection: AtomicI64,
    on_shutdown: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    on_rotate_certificates: Mutex<Option<RotateCertificates>>,
}

/// The state of background work.
#[derive(Default)]
pub(crate) struct Background {
    /// The patterns that are being built.
    pub(crate) pattern_builds: crate::upkeep::backfill::Builds,
    /// When patterns are checked.
    pub(crate) pattern_scrubs: crate::upkeep::scrub::Scrubs,
    /// Measurements of patterns whose strategy the database chooses.
    pub(crate) pattern_strategies: crate::upkeep::strategy::Strategies,
    /// When documents expire next.
    pub(crate) ttl: crate::ttl::Ttl,
}

/// What is counted and recorded, and the parameters that change it.
pub struct Observed {
    /// Counters.
    pub metrics: Metrics,
    /// Counters that the server fills.
    pub network: Network,
    /// When the engine was opened.
    pub started: Instant,
    /// When the engine was opened, in milliseconds since 1970.
    pub started_ms: i64,
    /// The last lines of the log, for `getLog`.
    pub log: Mutex<Vec<String>>,
    /// Parameters that `setParameter` changed.
    pub parameters: crate::parameters::Parameters,
    /// Failures on demand, for tests.
    pub(crate) fail_points: crate::fail_points::FailPoints,
    /// Which operations are recorded.
    pub(crate) profiler: crate::profiler::Profiler,
    /// Statistics of queries by their shape.
    pub(crate) query_stats: crate::query_stats::QueryStats,
}

/// How much memory may hold commits that are not in tables yet. The more it is, the more often a
/// document is changed again before its older version was written anywhere but to the log; but as
/// much log must be read after a crash.
fn memtable_bytes(cache_bytes: u64) -> u64 {
    (cache_bytes / 8).clamp(64 << 20, 256 << 20)
}

impl Engine {
    /// Opens an engine, and the folder behind it.
    ///
    /// # Errors
    /// When the folder is in use, damaged or of another format.
    pub fn open(options: Options) -> Result<Engine> {
        let store: Box<dyn Store> = match &options.storage {
            Storage::Memory => Box::new(MemoryStore::new()),
            Storage::Disk(path) => {
                let disk = store::Options {
                    cache_bytes: options.cache_bytes,
                    memtable_bytes: memtable_bytes(options.cache_bytes),
                    read_only: options.read_only,
                    ..store::Options::default()
                };
                Box::new(DiskStore::open(path, disk).map_err(store_failed)?)
            }
        };
        Engine::with_store(options, store)
    }

    /// Opens an engine over a given store: for tests of what a failing one does.
    ///
    /// # Errors
    /// When the catalog in it cannot be read.
    pub fn with_store(options: Options, store: Box<dyn Store>) -> Result<Engine> {
        let (data, unfinished) = Data::open(options, store)?;
        let durable_reads = data.catalog.load().reads_durably();
        data.durable_reads.store(durable_reads, Ordering::Relaxed);
        let inner = Arc::new(Inner {
            data: Arc::new(data),
            service: Service {
                cursors: Cursors::new(),
                sessions: Sessions::new(),
                access: crate::access::Access::new(),
                slots: Mutex::new(BTreeMap::new()),
                next_connection: AtomicI64::new(1),
                on_shutdown: Mutex::new(None),
                on_rotate_certificates: Mutex::new(None),
            },
            background: Background::default(),
            observed: Observed {
                metrics: Metrics::default(),
                network: Network::default(),
                started: Instant::now(),
                started_ms: crate::clock::now_ms(),
                log: Mutex::new(Vec::new()),
                parameters: crate::parameters::Parameters::default(),
                fail_points: crate::fail_points::FailPoints::default(),
                profiler: crate::profiler::Profiler::default(),
                query_stats: crate::query_stats::QueryStats::default(),
            },
        });
        if !inner.data.options.read_only {
            for collection in unfinished {
                crate::index::resume(&inner.data, &collection)?;
            }
            crate::stages::remove_leftovers(&inner.data)?;
            inner.data.sweep_trash()?;
            start_housekeeping(&inner)?;
            crate::upkeep::catch_up::start(&inner)?;
        }
        Ok(Engine(inner))
    }

    /// Begins a conversation.
    #[must_use]
    pub fn connect(&self, mut peer: Peer) -> Client {
        if peer.connection_id == 0 {
            peer.connection_id = self.0.service.next_connection.fetch_add(1, Ordering::Relaxed);
        }
        Client::new(self.0.clone(), peer)
    }

    /// Runs one command in the process. `$db` is added.
    ///
    /// # Errors
    /// The error that a client would get.
    pub fn run_command(&self, db: &str, command: RawDoc<'_>) -> Result<DocBuf> {
        let mut client = self.connect(Peer::default());
        client.run_command(db, command)
    }

    /// Connection counters, filled by the server.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.0.observed.network
    }

    /// The memory that operations share.
    #[must_use]
    pub fn memory(&self) -> &Arc<crate::Memory> {
        self.0.data.resources.memory()
    }

    /// What is called when a client sends `shutdown`.
    pub fn on_shutdown(&self, callback: Box<dyn Fn() + Send + Sync>) {
        *self.0.service.on_shutdown.lock() = Some(callback);
    }

    /// What is called when a client sends `rotateCertificates`.
    pub fn on_rotate_certificates(&self, callback: RotateCertificates) {
        *self.0.service.on_rotate_certificates.lock() = Some(callback);
    }

    /// Keeps a line for `getLog`.
    pub fn remember_log_line(&self, line: String) {
        let mut log = self.0.observed.log.lock();
        if log.len() >= 1024 {
            log.remove(0);
        }
        log.push(line);
    }

    /// Closes: stops running commands, waits for the disk.
    ///
    /// # Errors
    /// When the last writes cannot reach the disk.
    pub fn close(&self) -> Result<()> {
        self.0.data.closing.store(true, Ordering::SeqCst);
        for slot in self.0.service.slots.lock().values() {
            slot.killed.store(true, Ordering::Relaxed);
        }
        self.0.data.wake_tailing_cursors();
        let builders = std::mem::take(&mut *self.0.data.builders.lock());
        for builder in builders {
            // A builder that panicked has ended as well.
            let _ = builder.join();
        }
        // A commit that is under way ends before the store closes.
        let _commit = self.0.data.commit.lock();
        self.0.data.store.close().map_err(store_failed)
    }

    /// The shared part, for tools in this workspace.
    #[must_use]
    pub fn inner(&self) -> &Inner {
        &self.0
    }

    /// Checks the folder: checksums, then that indexes, documents and counts agree. Returns what
    /// is wrong, in words.
    ///
    /// # Errors
    /// When the store cannot be read at all.
    pub fn check(&self, progress: &mut dyn FnMut(&str, u64, u64)) -> Result<Vec<String>> {
        crate::check::check(&self.0.data, progress)
    }
}

/// Runs now and then: closes idle cursors, forgets old sessions.
fn start_housekeeping(inner: &Arc<Inner>) -> Result<()> {
    let weak: Weak<Inner> = Arc::downgrade(inner);
    std::thread::Builder::new()
        .name("housekeeping".to_owned())
        .stack_size(256 * 1024)
        .spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let Some(inner) = weak.upgrade() else { return };
                if inner.data.closing.load(Ordering::Relaxed) {
                    return;
                }
                let closed = inner.service.cursors.close_idle();
                crate::metrics::add(&inner.observed.metrics.cursors_timed_out, closed as u64);
                inner.service.sessions.transactions.expire(&inner);
                inner.service.sessions.forget_old(&inner);
                inner.data.forget_past();
                crate::ttl::run(&inner);
                if let Err(error) = crate::changes::retention::trim(&inner.data) {
                    tracing::warn!(%error, "cannot drop old entries of the oplog");
                }
                crate::upkeep::backfill::start(&inner);
                if let Err(error) = crate::trash::empty(&inner.data.trash, &*inner.data.store) {
                    tracing::warn!(%error, "cannot free the space of dropped collections and indexes");
                }
            }
        })
        .map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
    Ok(())
}

impl Service {
    /// Calls what was registered for the `shutdown` command.
    pub(crate) fn request_shutdown(&self) {
        if let Some(callback) = &*self.on_shutdown.lock() {
            callback();
        }
    }

    /// Calls what was registered for the `rotateCertificates` command.
    pub(crate) fn rotate_certificates(&self) -> std::result::Result<(), String> {
        match &*self.on_rotate_certificates.lock() {
            Some(callback) => callback(),
            None => Err("this server has no certificates".to_owned()),
        }
    }
}

impl Client {
    /// Runs one command, in the process. `$db` is added.
    ///
    /// # Errors
    /// The error that a client would get.
    pub fn run_command(&mut self, db: &str, command: RawDoc<'_>) -> Result<DocBuf> {
        let body = DocBuf::build(|out| {
            out.extend(command);
            if command.find("$db").is_none() {
                out.str("$db", db);
            }
        });
        let mut reply = Vec::new();
        if self.run(&Request::new(body.as_doc()), &mut reply) == Flow::Abort {
            return Err(Error::new(Code::NETWORK_TIMEOUT, "the connection was closed"));
        }
        let reply = DocBuf::from_bytes(reply);
        match crate::reply::error_of(reply.as_doc()) {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }
}

/// Whether a reply says that the command worked.
#[must_use]
pub fn is_ok(reply: RawDoc<'_>) -> bool {
    reply.get("ok").and_then(Val::as_f64) == Some(1.0)
}
