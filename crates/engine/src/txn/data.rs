//! The data of one engine: the store, the catalog, and the state that every commit needs.
//!
//! Background threads hold it by its own `Arc`, independent of the parts that serve clients.

use super::clean_up::CleanUps;
use super::fsync_lock::FsyncLock;
use super::{CommitState, Past};
use crate::bell::Bell;
use crate::catalog::{Catalog, Collection, Ids, persist};
use crate::changes::ChangeLog;
use crate::clock::Clock;
use crate::job::Job;
use crate::options::{Options, Storage};
use crate::request::RunCommand;
use crate::resources::Resources;
use crate::store_failed;
use crate::trash::{self, Trash};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use store::{Scratch, Store};
use value::{Code, DocBuf, Error, RawDoc, Result};

/// The store, the catalog, and the state that every commit needs.
pub struct Data {
    /// How the engine was opened.
    pub options: Options,
    /// When the engine was opened, in milliseconds since 1970.
    pub opened_ms: i64,
    /// The store.
    pub store: Box<dyn Store>,
    /// The newest catalog.
    pub catalog: ArcSwap<Catalog>,
    /// The commit lock, with the keys of recent commits and of open transactions.
    pub(crate) commit: Mutex<CommitState>,
    /// Signalled when the transaction of a session ends; used with `commit`.
    pub(crate) ended: Condvar,
    /// The lock of `fsync`.
    pub(crate) fsync_lock: FsyncLock,
    /// What failed operations could not remove yet.
    pub(crate) clean_ups: CleanUps,
    /// Databases without collections that had some in this process. Dropping one of them is an
    /// event, as in MongoDB.
    pub(crate) emptied: Mutex<BTreeSet<Box<str>>>,
    /// The past states that can be read.
    pub(crate) past: Past,
    /// The identifiers of collections, indexes and patterns.
    pub(crate) ids: Ids,
    /// The logical clock.
    pub clock: Clock,
    /// The change log.
    pub(crate) changes: ChangeLog,
    /// Incremented with every commit to a capped collection, for waiting cursors.
    pub(crate) tail: (Mutex<u64>, Condvar),
    /// Key ranges of dropped collections and indexes.
    pub(crate) trash: Trash,
    /// Whether reads without a read concern see only durable data.
    pub(crate) durable_reads: AtomicBool,
    /// Set when the engine closes: new work is refused, background work ends.
    pub(crate) closing: AtomicBool,
    /// Memory limits and temporary files of operations.
    pub(crate) resources: Arc<Resources>,
    /// Background work, for `currentOp`.
    pub(crate) jobs: Mutex<Vec<Arc<Job>>>,
    /// Threads that resume builds of an earlier process; joined when the engine closes.
    pub(crate) builders: Mutex<Vec<JoinHandle<()>>>,
    /// The next number for an operation or job.
    pub(crate) next_operation: AtomicU64,
    /// Rung by commits that add work to a pattern queue.
    pub(crate) pattern_bell: Arc<Bell>,
    /// Runs commands for background work and user lookups; set once after opening.
    pub(crate) commands: OnceLock<Box<dyn RunCommand>>,
    /// Incremented by commits that change users or roles, so that logins look them up again.
    pub(crate) directory_generation: AtomicU64,
    /// Statements that were run again because of a write conflict.
    pub(crate) write_conflicts: AtomicU64,
    /// Documents that patterns wrote.
    pub(crate) pattern_writes: AtomicU64,
}

impl Data {
    /// Loads the catalog and opens the change log. Returns the data, and the collections with
    /// unfinished index builds.
    ///
    /// # Errors
    /// When the catalog or the change log cannot be read.
    pub(crate) fn open(
        options: Options,
        store: Box<dyn Store>,
    ) -> Result<(Data, Vec<Arc<Collection>>)> {
        let scratch = match &options.storage {
            Storage::Disk(path) if !options.read_only => {
                Scratch::open(path).map_err(store_failed)?
            }
            _ => Scratch::of_system(),
        };
        let snapshot = store.snapshot();
        let loaded = persist::load(&snapshot)?;
        let clock = Clock::new();
        let changes = ChangeLog::open(&*store, &clock, options.read_only)?;
        let floor = snapshot.seqno();
        let seqno = store.snapshot().seqno();
        let operation_bytes = usize::try_from(options.operation_bytes).unwrap_or(usize::MAX);
        store.keep_since(Some(seqno));
        drop(snapshot);
        let data = Data {
            options,
            opened_ms: crate::clock::now_ms(),
            store,
            catalog: ArcSwap::from_pointee(loaded.catalog),
            commit: Mutex::new(CommitState::new(floor)),
            ended: Condvar::new(),
            fsync_lock: FsyncLock::default(),
            clean_ups: CleanUps::default(),
            emptied: Mutex::default(),
            past: Past::new(clock.now(), seqno),
            ids: Ids::from(loaded.next_id),
            clock,
            changes,
            tail: (Mutex::new(0), Condvar::new()),
            trash: Trash::default(),
            durable_reads: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            resources: Arc::new(Resources::new(scratch, operation_bytes)),
            jobs: Mutex::new(Vec::new()),
            builders: Mutex::default(),
            next_operation: AtomicU64::new(1),
            pattern_bell: Arc::default(),
            commands: OnceLock::new(),
            directory_generation: AtomicU64::new(1),
            write_conflicts: AtomicU64::new(0),
            pattern_writes: AtomicU64::new(0),
        };
        Ok((data, loaded.unfinished))
    }

    /// Refuses writes when the engine is read-only or closing.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(Code::ILLEGAL_OPERATION, "opened for reading only"));
        }
        self.check_open()
    }

    /// Runs one command in the process, as a client without restrictions. Adds `$db`.
    ///
    /// # Errors
    /// The error that a client would get.
    pub(crate) fn run_command(&self, db: &str, command: RawDoc<'_>) -> Result<DocBuf> {
        match self.commands.get() {
            Some(commands) => commands.run_command(db, command),
            None => Err(Error::internal("the engine is not open yet")),
        }
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

    /// Wakes cursors that wait for new documents.
    pub(crate) fn wake_tailing_cursors(&self) {
        *self.tail.0.lock() += 1;
        self.tail.1.notify_all();
        self.changes.wake();
    }

    /// The collection or view with this name.
    #[must_use]
    pub fn collection(&self, db: &str, name: &str) -> Option<Arc<Collection>> {
        self.catalog.load().get(db, name).cloned()
    }

    /// Deletes the ranges of the store that are not in the catalog; an earlier process left them.
    pub(crate) fn sweep_trash(&self) -> Result<()> {
        let catalog = self.catalog.load();
        let mut documents: BTreeSet<u32> = catalog.collections().map(|c| c.id).collect();
        // Records of patterns are stored in the documents space.
        documents
            .extend(catalog.databases.values().flat_map(|db| db.patterns.iter().map(|p| p.id)));
        let indexes = catalog.collections().flat_map(|c| c.indexes.iter().map(|index| index.id));
        trash::sweep(&*self.store, &documents, &indexes.collect())
    }
}
