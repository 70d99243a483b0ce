//! The engine: the store, the catalog and everything that clients share.

use crate::catalog::{Catalog, Collection, persist};
use crate::client::Client;
use crate::clock::Clock;
use crate::cursor::Cursors;
use crate::metrics::{Metrics, Network};
use crate::operation::Slot;
use crate::request::{Flow, Peer, Request};
use crate::session::Sessions;
use crate::txn::{CommitState, Past, store_failed};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use store::{DiskStore, MemoryStore, Store};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Where the data lives.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory: gone when the engine closes.
    Memory,
    /// In a folder, made when it is not there.
    Disk(PathBuf),
}

/// How to open an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the data lives.
    pub storage: Storage,
    /// Most bytes of stored data kept in memory.
    pub cache_bytes: u64,
    /// Most bytes that running operations hold together: large messages, and what stages keep.
    pub operation_bytes: u64,
    /// Whether commands that only tests need are answered.
    pub test_commands: bool,
    /// The address that `hello` tells clients when it does not know which one they dialled.
    pub listen: String,
    /// Open for reading only.
    pub read_only: bool,
    /// The process's arguments, for `getCmdLineOpts`.
    pub command_line: Vec<String>,
    /// The options as understood, for `getCmdLineOpts`.
    pub config: DocBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage: Storage::Memory,
            cache_bytes: 256 * 1024 * 1024,
            operation_bytes: 1024 * 1024 * 1024,
            test_commands: false,
            listen: "127.0.0.1:27017".to_owned(),
            read_only: false,
            command_line: Vec::new(),
            config: DocBuf::new(),
        }
    }
}

/// Reads certificates and keys again; says what is wrong with them.
pub type RotateCertificates = Box<dyn Fn() -> std::result::Result<(), String> + Send + Sync>;

/// A handle to an engine; clones share it.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

/// What clients share.
pub struct Inner {
    /// How it was opened.
    pub options: Options,
    /// The bytes.
    pub store: Box<dyn Store>,
    /// What exists.
    pub catalog: ArcSwap<Catalog>,
    pub(crate) commit: Mutex<CommitState>,
    /// Signalled when the transaction of a session ends; goes with `commit`.
    pub(crate) ended: Condvar,
    /// What can be read of the past.
    pub(crate) past: Past,
    pub(crate) next_id: AtomicU32,
    /// The logical clock.
    pub clock: Clock,
    /// What every commit did.
    pub(crate) changes: crate::changes::ChangeLog,
    /// Open results.
    pub cursors: Cursors,
    /// Retryable writes and session times.
    pub sessions: Sessions,
    /// Who may do what.
    pub(crate) access: crate::access::Access,
    /// Counters.
    pub metrics: Metrics,
    /// Counters that the server fills.
    pub network: Network,
    /// Connections by number.
    pub(crate) slots: Mutex<BTreeMap<i64, Arc<Slot>>>,
    pub(crate) next_operation: AtomicU64,
    next_connection: AtomicI64,
    /// Raised with every commit to a capped collection, for cursors that wait.
    pub(crate) tail: (Mutex<u64>, Condvar),
    /// When the engine was opened.
    pub started: Instant,
    /// When the engine was opened, by the clock on the wall.
    pub started_ms: i64,
    closing: AtomicBool,
    on_shutdown: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    on_rotate_certificates: Mutex<Option<RotateCertificates>>,
    /// The last lines of the log, for `getLog`.
    pub log: Mutex<Vec<String>>,
    /// Parameters that `setParameter` changed.
    pub parameters: crate::parameters::Parameters,
    /// Background work, for `currentOp`.
    pub(crate) jobs: Mutex<Vec<Arc<crate::job::Job>>>,
    /// Threads that go on with builds which an earlier process began.
    pub(crate) builders: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// The patterns that are being built.
    pub(crate) pattern_builds: crate::upkeep::backfill::Builds,
    /// Tells that patterns have something to follow.
    pub(crate) pattern_bell: Arc<crate::upkeep::catch_up::Bell>,
    /// When patterns are checked.
    pub(crate) pattern_scrubs: crate::upkeep::scrub::Scrubs,
    /// What is known of patterns whose strategy is left to the database.
    pub(crate) pattern_strategies: crate::upkeep::strategy::Strategies,
    /// What dropped collections and indexes left in the store.
    pub(crate) trash: crate::trash::Trash,
    /// When documents expire next.
    pub(crate) ttl: crate::ttl::Ttl,
    /// Failures on demand, for tests.
    pub(crate) fail_points: crate::fail_points::FailPoints,
    /// Which operations are noted.
    pub(crate) profiler: crate::profiler::Profiler,
    pub(crate) query_stats: crate::query_stats::QueryStats,
    /// What operations share.
    pub(crate) work: Arc<crate::operation::Work>,
    /// Whether reads that name no concern show only what is on disk.
    pub(crate) durable_reads: AtomicBool,
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
        let scratch = match &options.storage {
            Storage::Disk(path) if !options.read_only => {
                store::Scratch::open(path).map_err(store_failed)?
            }
            _ => store::Scratch::of_system(),
        };
        let snapshot = store.snapshot();
        let loaded = persist::load(&snapshot)?;
        let durable_reads = loaded
            .catalog
            .concerns
            .as_ref()
            .is_some_and(|concerns| crate::commands::reads_durably(concerns.as_doc()));
        let sessions = Sessions::new();
        let clock = Clock::new();
        let changes = crate::changes::ChangeLog::open(&*store, &clock, options.read_only)?;
        let floor = snapshot.seqno();
        let seqno = store.snapshot().seqno();
        let operation_bytes = usize::try_from(options.operation_bytes).unwrap_or(usize::MAX);
        store.keep_since(Some(seqno));
        drop(snapshot);
        let inner = Arc::new(Inner {
            options,
            store,
            catalog: ArcSwap::from_pointee(loaded.catalog),
            commit: Mutex::new(CommitState::new(floor)),
            ended: Condvar::new(),
            past: Past::new(clock.now(), seqno),
            next_id: AtomicU32::new(loaded.next_id),
            clock,
            changes,
            cursors: Cursors::new(),
            sessions,
            access: crate::access::Access::new(),
            metrics: Metrics::default(),
            network: Network::default(),
            slots: Mutex::new(BTreeMap::new()),
            next_operation: AtomicU64::new(1),
            next_connection: AtomicI64::new(1),
            tail: (Mutex::new(0), Condvar::new()),
            started: Instant::now(),
            started_ms: crate::clock::now_ms(),
            closing: AtomicBool::new(false),
            on_shutdown: Mutex::new(None),
            on_rotate_certificates: Mutex::new(None),
            log: Mutex::new(Vec::new()),
            parameters: crate::parameters::Parameters::default(),
            builders: Mutex::default(),
            jobs: Mutex::new(Vec::new()),
            pattern_builds: crate::upkeep::backfill::Builds::default(),
            pattern_bell: Arc::default(),
            pattern_scrubs: crate::upkeep::scrub::Scrubs::default(),
            pattern_strategies: crate::upkeep::strategy::Strategies::default(),
            trash: crate::trash::Trash::default(),
            ttl: crate::ttl::Ttl::default(),
            fail_points: crate::fail_points::FailPoints::default(),
            profiler: crate::profiler::Profiler::default(),
            query_stats: crate::query_stats::QueryStats::default(),
            work: Arc::new(crate::operation::Work::new(scratch, operation_bytes)),
            durable_reads: AtomicBool::new(durable_reads),
        });
        if !inner.options.read_only {
            for collection in loaded.unfinished {
                crate::index::resume(&inner, &collection)?;
            }
            crate::stages::remove_leftovers(&inner)?;
            crate::trash::sweep(&inner)?;
            start_housekeeping(&inner)?;
            crate::upkeep::catch_up::start(&inner)?;
        }
        Ok(Engine(inner))
    }

    /// Begins a conversation.
    #[must_use]
    pub fn connect(&self, mut peer: Peer) -> Client {
        if peer.connection_id == 0 {
            peer.connection_id = self.0.next_connection.fetch_add(1, Ordering::Relaxed);
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
        &self.0.network
    }

    /// The memory that operations share.
    #[must_use]
    pub fn memory(&self) -> &Arc<crate::Memory> {
        self.0.work.memory()
    }

    /// What is called when a client sends `shutdown`.
    pub fn on_shutdown(&self, callback: Box<dyn Fn() + Send + Sync>) {
        *self.0.on_shutdown.lock() = Some(callback);
    }

    /// What is called when a client sends `rotateCertificates`.
    pub fn on_rotate_certificates(&self, callback: RotateCertificates) {
        *self.0.on_rotate_certificates.lock() = Some(callback);
    }

    /// Keeps a line for `getLog`.
    pub fn remember_log_line(&self, line: String) {
        let mut log = self.0.log.lock();
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
        self.0.closing.store(true, Ordering::SeqCst);
        for slot in self.0.slots.lock().values() {
            slot.killed.store(true, Ordering::Relaxed);
        }
        self.0.wake_tailing_cursors();
        let builders = std::mem::take(&mut *self.0.builders.lock());
        for builder in builders {
            // A builder that panicked has ended as well.
            let _ = builder.join();
        }
        // A commit that is under way ends before the store closes.
        let _commit = self.0.commit.lock();
        self.0.store.close().map_err(store_failed)
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
        crate::check::check(&self.0, progress)
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
                if inner.closing.load(Ordering::Relaxed) {
                    return;
                }
                let closed = inner.cursors.close_idle();
                crate::metrics::add(&inner.metrics.cursors_timed_out, closed as u64);
                inner.sessions.transactions.expire(&inner);
                inner.sessions.forget_old(&inner);
                inner.forget_past();
                crate::ttl::run(&inner);
                if let Err(error) = crate::changes::retention::trim(&inner) {
                    tracing::warn!(%error, "cannot drop old entries of the oplog");
                }
                crate::upkeep::backfill::start(&inner);
                if let Err(error) = crate::trash::empty(&inner) {
                    tracing::warn!(%error, "cannot free the space of what was dropped");
                }
            }
        })
        .map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
    Ok(())
}

impl Inner {
    /// Refuses writes when the engine was opened for reading or is closing.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(Code::ILLEGAL_OPERATION, "opened for reading only"));
        }
        self.check_open()
    }

    /// Refuses work when the engine is closing.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::Relaxed) {
            return Err(Error::new(
                Code::SHUTDOWN_IN_PROGRESS,
                "The server is in quiesce mode and will shut down",
            ));
        }
        Ok(())
    }

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

    /// Wakes cursors that wait for new documents.
    pub(crate) fn wake_tailing_cursors(&self) {
        *self.tail.0.lock() += 1;
        self.tail.1.notify_all();
        self.changes.wake();
    }

    /// The collection or view of this name.
    #[must_use]
    pub fn collection(&self, db: &str, name: &str) -> Option<Arc<Collection>> {
        self.catalog.load().get(db, name).cloned()
    }

    /// A fresh identifier for a collection or index; the caller persists `next_id`.
    pub(crate) fn new_id(&self, batch: &mut store::Batch) -> u32 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let next = (id + 1).to_be_bytes();
        batch.put(store::Space::Catalog, &persist::next_id_key(), &next);
        id
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
