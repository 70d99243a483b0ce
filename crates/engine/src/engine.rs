//! The engine: opening, closing and running commands on the store, the catalog and the state that
//! clients share.
//!
//! Layer: engine.

use crate::client::Client;
use crate::commands;
use crate::cursor::Cursors;
use crate::metrics::{Metrics, Network};
use crate::operation::Operation;
pub use crate::options::{Options, Storage};
use crate::parameters::LogLevels;
use crate::request::{Flow, Peer, Request, RunCommand, Waiting};
use crate::session::Sessions;
use crate::shared::{Background, Observed, Service};
pub use crate::shared::{Inner, RotateCertificates};
use crate::store_failed;
use crate::txn::Data;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use store::{DiskStore, MemoryStore, Store};
use value::{Code, DocBuf, Error, RawDoc, Result, writer};

/// Runs commands for lower modules. Holds the engine only while a command runs.
struct Commands(Weak<Inner>);

impl RunCommand for Commands {
    fn run_command(&self, db: &str, command: RawDoc<'_>) -> Result<DocBuf> {
        match self.0.upgrade() {
            Some(inner) => Engine(inner).run_command(db, command),
            None => Err(Error::new(Code::SHUTDOWN_IN_PROGRESS, "the engine was closed")),
        }
    }
}

/// A handle to an engine; clones share it.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

impl Engine {
    /// Opens an engine and its folder.
    ///
    /// # Errors
    /// When the folder is in use, damaged or of another format.
    pub fn open(options: Options) -> Result<Engine> {
        let store: Box<dyn Store> = match &options.storage {
            Storage::Memory => Box::new(MemoryStore::new()),
            Storage::Disk(path) => {
                let disk = store::Options {
                    cache_bytes: options.cache_bytes,
                    memtable_bytes: options.memtable_bytes(),
                    reserve_bytes: options.reserve_bytes,
                    read_only: options.read_only,
                    ..store::Options::default()
                };
                Box::new(DiskStore::open(path, disk).map_err(store_failed)?)
            }
        };
        Engine::with_store(options, store)
    }

    /// Opens an engine over a given store, for tests with a failing one.
    ///
    /// # Errors
    /// When the catalog in it cannot be read.
    pub fn with_store(options: Options, store: Box<dyn Store>) -> Result<Engine> {
        if !options.read_only {
            crate::session::move_old_records(&*store)?;
        }
        let (data, unfinished) = Data::open(options, store)?;
        let durable_reads = data.catalog.load().reads_durably();
        data.durable_reads.store(durable_reads, Ordering::Relaxed);
        let (data, cursors) = (Arc::new(data), Arc::new(Cursors::new()));
        let inner = Arc::new(Inner {
            data: data.clone(),
            service: Service {
                sessions: Sessions::new(cursors.clone()),
                cursors,
                access: Arc::new(crate::access::Access::new()),
                slots: Mutex::new(BTreeMap::new()),
                next_connection: AtomicI64::new(1),
                on_shutdown: Mutex::new(None),
                on_rotate_certificates: Mutex::new(None),
            },
            background: Background {
                upkeep: Arc::new(crate::upkeep::Maintenance::new(data)),
                ttl: Arc::default(),
            },
            observed: Observed {
                metrics: Metrics::default(),
                latencies: crate::usage::Latencies::default(),
                network: Network::default(),
                started: Instant::now(),
                process_id: value::ObjectId::generate(),
                log: Mutex::new(Vec::new()),
                parameters: crate::parameters::Parameters::default(),
                fail_points: crate::fail_points::FailPoints::default(),
                profiler: crate::profiler::Profiler::default(),
                query_stats: crate::query_stats::QueryStats::default(),
            },
        });
        let commands = Box::new(Commands(Arc::downgrade(&inner)));
        // The cell is empty, because the data was just created.
        let _ = inner.data.commands.set(commands);
        if !inner.data.options.read_only {
            for collection in unfinished {
                crate::index::resume(&inner.data, &collection)?;
            }
            crate::records::temporary::remove_leftovers(&inner.data)?;
            inner.data.sweep_trash()?;
            crate::access::complete_directory(&inner.data)?;
            start_housekeeping(&inner)?;
            crate::upkeep::catch_up::start(&inner.background.upkeep)?;
        }
        Ok(Engine(inner))
    }

    /// Creates a client.
    #[must_use]
    pub fn connect(&self, mut peer: Peer) -> Client {
        if peer.connection_id == 0 {
            peer.connection_id = self.0.service.next_connection.fetch_add(1, Ordering::Relaxed);
        }
        Client::new(self.0.clone(), peer)
    }

    /// Runs one command in the process. Adds `$db`.
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

    /// The memory budget that operations share.
    #[must_use]
    pub fn memory(&self) -> &Arc<crate::Memory> {
        self.0.data.resources.memory()
    }

    /// Registers a function that is called when a client sends `shutdown`.
    pub fn on_shutdown(&self, callback: Box<dyn Fn() + Send + Sync>) {
        *self.0.service.on_shutdown.lock() = Some(callback);
    }

    /// Registers a function that is called when a client sends `rotateCertificates`.
    pub fn on_rotate_certificates(&self, callback: RotateCertificates) {
        *self.0.service.on_rotate_certificates.lock() = Some(callback);
    }

    /// Registers a function that is called when a client changes how much is logged. Until then
    /// clients cannot change it.
    pub fn on_log_level(&self, listener: Box<dyn Fn(&LogLevels) + Send + Sync>) {
        *self.0.observed.parameters.log_listener.lock() = Some(listener);
    }

    /// Keeps a line for `getLog`.
    pub fn remember_log_line(&self, line: String) {
        let mut log = self.0.observed.log.lock();
        if log.len() >= 1024 {
            log.remove(0);
        }
        log.push(line);
    }

    /// Closes the engine: stops running commands and flushes the last writes to disk.
    ///
    /// # Errors
    /// When the last writes cannot reach the disk.
    pub fn close(&self) -> Result<()> {
        self.0.data.clean_up_rest();
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
        // Waits for a commit in progress to end before the store closes.
        let _commit = self.0.data.commit.lock();
        self.0.data.store.close().map_err(store_failed)
    }

    /// The shared part, for tools in this workspace.
    #[must_use]
    pub fn inner(&self) -> &Inner {
        &self.0
    }

    /// Checks the folder: checksums, then that indexes, documents and counts agree. Returns the
    /// problems as messages.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn check(&self, progress: &mut dyn FnMut(&str, u64, u64)) -> Result<Vec<String>> {
        crate::check::check(&self.0.data, progress)
    }
}

/// Starts the thread that periodically closes idle cursors and removes expired sessions.
fn start_housekeeping(inner: &Arc<Inner>) -> Result<()> {
    let weak: Weak<Inner> = Arc::downgrade(inner);
    std::thread::Builder::new()
        .name("housekeeping".to_owned())
        .stack_size(256 * 1024)
        .spawn(move || {
            let (mut trim_logged, mut trash_logged) = (None, None);
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let Some(inner) = weak.upgrade() else { return };
                if inner.data.closing.load(Ordering::Relaxed) {
                    return;
                }
                let closed = inner.service.cursors.close_idle();
                crate::metrics::add(&inner.observed.metrics.cursors_timed_out, closed as u64);
                inner.service.sessions.transactions.expire(&inner.data);
                inner.service.sessions.forget_old(&inner.data);
                inner.data.forget_past();
                crate::upkeep::backfill::start(&inner.background.upkeep);
                if inner.data.fsync_lock.is_held() {
                    // What follows writes, and would wait.
                    continue;
                }
                inner.data.clean_up_rest();
                crate::ttl::run(&inner.background.ttl, &inner.data);
                if let Err(error) = crate::change_streams::retention::trim(&inner.data)
                    && is_due(&mut trim_logged)
                {
                    tracing::warn!(%error, "cannot drop old entries of the oplog");
                }
                if let Err(error) = crate::trash::empty(&inner.data.trash, &*inner.data.store)
                    && is_due(&mut trash_logged)
                {
                    tracing::warn!(%error, "cannot free the space of dropped collections and indexes");
                }
            }
        })
        .map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
    Ok(())
}

/// Whether a failure that lasts is logged now: once a minute.
fn is_due(logged: &mut Option<Instant>) -> bool {
    let due = logged.is_none_or(|time| time.elapsed() > Duration::from_secs(60));
    if due {
        *logged = Some(Instant::now());
    }
    due
}

impl Client {
    /// Runs a command and appends the reply, one document. An error is also returned as a reply.
    pub fn run(&mut self, request: &Request<'_>, reply: &mut Vec<u8>) -> Flow {
        let start = reply.len();
        let engine = self.engine.clone();
        let op = Operation::new(self.slot.clone(), engine.data.resources.clone());
        let _watching = op.watch();
        let result = catch_unwind(AssertUnwindSafe(|| {
            commands::dispatch(&engine, self, &op, request, reply)
        }));
        self.slot.operation_id.store(0, Ordering::Relaxed);
        self.slot.killed.store(false, Ordering::Relaxed);
        match result {
            Ok(flow) => flow,
            Err(_) => {
                // The panic hook has logged the location; the client gets an internal error.
                reply.truncate(start);
                // Abort its transaction, so that it is not left half done and does not block
                // others.
                let _ = engine.service.sessions.transactions.leave(&engine.data, &op, true);
                let error = Error::internal("the command failed by a bug; see the server's log");
                writer::write_doc(reply, |out| {
                    crate::reply::write_error(out, &error);
                });
                Flow::Done
            }
        }
    }

    /// The next reply of an exhaust stream, or one that was to come later.
    pub fn run_more(&mut self, reply: &mut Vec<u8>) -> Flow {
        if let Some(awaited) = self.awaited.take() {
            let body = awaited.body.as_doc();
            let exhaust_allowed = awaited.streams;
            let request = Request { exhaust_allowed, waiting: Waiting::Over, ..Request::new(body) };
            return self.run(&request, reply);
        }
        match self.exhaust.take() {
            None => Flow::Done,
            Some(body) => {
                let request = Request { exhaust_allowed: true, ..Request::new(body.as_doc()) };
                self.run(&request, reply)
            }
        }
    }

    /// Runs one command in the process. Adds `$db`.
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
