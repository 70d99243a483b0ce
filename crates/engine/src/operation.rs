//! One running command: who runs it, until when, and whether somebody asked it to stop.
//!
//! Layer: transactions.

use crate::catalog::Index;
use crate::memory::Share;
pub use crate::resources::Resources;
pub(crate) use crate::slot::NamedIn;
pub use crate::slot::Slot;
use crate::txn::{Data, Transaction, View};
use query::interrupt;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::Scratch;
use value::{Code, Error, Result, limits};

/// The part of an operation that another thread does.
pub struct Helper {
    /// What that thread runs under.
    pub operation: Operation,
    resources: Arc<Resources>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.resources.helpers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much was looked at.
#[derive(Clone, Copy, Default, Debug)]
pub struct Examined {
    /// Index entries.
    pub keys: u64,
    /// Documents.
    pub documents: u64,
}

/// What a command looked at and gave back.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    /// Index entries examined.
    pub keys: u64,
    /// Documents examined.
    pub documents: u64,
    /// Documents returned.
    pub returned: u64,
}

/// How a command found its documents.
#[derive(Default)]
struct AccessPath {
    stage: &'static str,
    indexes: SmallVec<[Arc<Index>; 1]>,
}

impl Data {
    /// What a command reads: what its transaction sees, the moment that it asked for, or else the
    /// newest state.
    #[must_use]
    pub fn view(&self, op: &Operation) -> View {
        op.view().unwrap_or_else(|| self.newest())
    }
}

/// The context of a running command.
pub struct Operation {
    slot: Arc<Slot>,
    resources: Arc<Resources>,
    /// When the command began.
    pub started: Instant,
    deadline: Cell<Option<Instant>>,
    steps: Cell<u32>,
    disk: Cell<Option<bool>>,
    cost: Cell<Cost>,
    found: RefCell<AccessPath>,
    waited: Cell<bool>,
    explained: Cell<bool>,
    reading: RefCell<Reading>,
    /// The cluster time of the moment that is read.
    read_time: Cell<Option<u64>>,
    begins_at: Cell<Option<u64>>,
    /// The session and the number of the transaction that the command runs in.
    transaction: Cell<Option<([u8; 16], i64)>>,
    /// Whether a statement failed, though the command itself did not.
    failed: Cell<bool>,
    /// Set when the cursor is killed that the command reads.
    cursor_killed: RefCell<Option<Arc<AtomicBool>>>,
    labelled: Cell<bool>,
    /// Whether its writes go past patterns.
    pub bypasses_patterns: Cell<bool>,
}

/// What a command reads.
#[derive(Default)]
enum Reading {
    /// The newest state.
    #[default]
    Newest,
    /// One moment.
    At(Box<View>),
    /// What was the newest state when the command began.
    Pinned(Box<View>),
    /// What the open transaction of its session sees.
    Transaction(Box<Transaction>),
}

/// Bytes of one batch of a cursor while memory is tight.
const TIGHT_BATCH_BYTES: usize = 256 * 1024;

/// How many cheap steps pass between two looks at the clock.
const STEPS_BETWEEN_CHECKS: u32 = 64;

impl Operation {
    /// A new operation of a connection.
    #[must_use]
    pub fn new(slot: Arc<Slot>, resources: Arc<Resources>) -> Operation {
        Operation {
            slot,
            resources,
            started: Instant::now(),
            deadline: Cell::new(None),
            steps: Cell::new(0),
            disk: Cell::new(None),
            cost: Cell::default(),
            found: RefCell::default(),
            waited: Cell::new(false),
            explained: Cell::new(false),
            reading: RefCell::default(),
            read_time: Cell::new(None),
            begins_at: Cell::new(None),
            cursor_killed: RefCell::new(None),
            transaction: Cell::new(None),
            failed: Cell::new(false),
            labelled: Cell::new(false),
            bypasses_patterns: Cell::new(false),
        }
    }

    /// An operation outside of any engine, whose sorts and groups hold so many bytes.
    #[cfg(test)]
    pub(crate) fn for_tests(sort_bytes_max: usize) -> Operation {
        use parking_lot::Mutex;
        use std::sync::atomic::{AtomicI64, AtomicU64};
        let slot = Slot {
            connection_id: 0,
            remote: String::new(),
            current: Mutex::default(),
            operation_id: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            application: Mutex::new(String::new()),
            user: Mutex::new(None),
            metadata: Mutex::new(None),
            last_active_ms: AtomicI64::new(0),
        };
        let resources = Resources::new(Scratch::of_system(), usize::MAX);
        resources.sort_bytes_max.store(sort_bytes_max, Ordering::Relaxed);
        resources.group_bytes_max.store(sort_bytes_max, Ordering::Relaxed);
        Operation::new(Arc::new(slot), Arc::new(resources))
    }

    /// A part of the memory that operations share, empty yet.
    #[must_use]
    pub fn share(&self) -> Share {
        self.resources.memory.share()
    }

    /// Bytes of one batch of a cursor: fewer while others hold most of the memory.
    #[must_use]
    pub fn batch_bytes_max(&self) -> usize {
        if self.resources.memory.is_tight() { TIGHT_BATCH_BYTES } else { limits::BATCH_BYTES_MAX }
    }

    /// Bytes that one blocking sort may hold in memory.
    #[must_use]
    pub fn sort_bytes_max(&self) -> usize {
        self.resources.sort_bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that the groups of one `$group` may hold in memory.
    #[must_use]
    pub fn group_bytes_max(&self) -> usize {
        self.resources.group_bytes_max.load(Ordering::Relaxed)
    }

    /// A second thread for this operation, if a core is free for it: with an operation of its own,
    /// which ends when this one is killed or its time is over.
    #[must_use]
    pub fn helper(&self) -> Option<Helper> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let resources = self.resources.clone();
        let free = |helpers: usize| (helpers + 1 < cores).then_some(helpers + 1);
        resources.helpers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        let operation = Operation::new(self.slot.clone(), self.resources.clone());
        operation.deadline.set(self.deadline.get());
        operation.disk.set(self.disk.get());
        Some(Helper { operation, resources })
    }

    /// Where temporary files go.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.resources.scratch
    }

    /// Says whether the operation may use the disk for what does not fit into memory; `None`
    /// leaves it to the server's setting.
    pub fn set_disk_use(&self, allowed: Option<bool>) {
        self.disk.set(allowed);
    }

    /// Whether the operation may use the disk for what does not fit into memory.
    #[must_use]
    pub fn may_use_disk(&self) -> bool {
        let default = || self.resources.disk_by_default.load(Ordering::Relaxed);
        self.disk.get().unwrap_or_else(default)
    }

    /// What the command reads, unless it is simply the newest state.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        match &*self.reading.borrow() {
            Reading::Newest => None,
            Reading::At(view) | Reading::Pinned(view) => Some(View::clone(view)),
            Reading::Transaction(txn) => {
                Some(View { catalog: txn.catalog.clone(), snapshot: txn.snapshot.clone() })
            }
        }
    }

    /// Whether the command reads the newest state, be it the one when it began.
    #[must_use]
    pub fn reads_newest(&self) -> bool {
        matches!(*self.reading.borrow(), Reading::Newest | Reading::Pinned(_))
    }

    /// Lets the command, which reads the newest state, read this one, which is that.
    pub(crate) fn pin(&self, view: View) {
        *self.reading.borrow_mut() = Reading::Pinned(Box::new(view));
    }

    /// Makes the command read one moment, of this cluster time.
    pub(crate) fn read_at(&self, view: View, time: u64) {
        *self.reading.borrow_mut() = Reading::At(Box::new(view));
        self.read_time.set(Some(time));
    }

    /// Makes the command read this view, at the time that it reads anyway.
    pub(crate) fn read_view(&self, view: View) {
        *self.reading.borrow_mut() = Reading::At(Box::new(view));
    }

    /// The cluster time of the moment that the command reads, if it asked for one.
    #[must_use]
    pub fn read_time(&self) -> Option<u64> {
        self.read_time.get()
    }

    /// Says which cluster time the transaction reads that the command begins.
    pub(crate) fn begin_at(&self, time: Option<u64>) {
        self.begins_at.set(time);
    }

    /// The cluster time that the transaction reads which the command begins, if one was given.
    pub(crate) fn begins_at(&self) -> Option<u64> {
        self.begins_at.get()
    }

    /// Makes the command stop when the cursor that it reads is killed.
    pub(crate) fn use_cursor(&self, killed: Arc<AtomicBool>) {
        interrupt::change(|watch| watch.cursor_killed = Some(killed.clone()));
        *self.cursor_killed.borrow_mut() = Some(killed);
    }

    /// Notes that a statement failed, though the reply tells of it without failing itself: its
    /// transaction ends.
    pub fn fail_transaction(&self) {
        self.failed.set(true);
    }

    /// Notes that an error has the labels that it shall have.
    pub(crate) fn keep_labels(&self) {
        self.labelled.set(true);
    }

    /// Whether an error has the labels that it shall have.
    pub(crate) fn keeps_labels(&self) -> bool {
        self.labelled.get()
    }

    /// Whether a statement of the transaction failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Whether the command runs in the open transaction of its session.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        matches!(*self.reading.borrow(), Reading::Transaction(_))
    }

    /// Makes the command run in the transaction of a session.
    pub(crate) fn enter_transaction(&self, session: [u8; 16], number: i64, txn: Box<Transaction>) {
        self.transaction.set(Some((session, number)));
        *self.reading.borrow_mut() = Reading::Transaction(txn);
    }

    /// Takes the transaction out again, with its session and number; nothing when the command
    /// does not run in one.
    pub(crate) fn leave_transaction(&self) -> Option<([u8; 16], i64, Box<Transaction>)> {
        let (session, number) = self.transaction.take()?;
        match self.reading.take() {
            Reading::Transaction(txn) => Some((session, number, txn)),
            _ => None,
        }
    }

    /// Runs something on the open transaction.
    ///
    /// # Errors
    /// What it gives; InternalError when there is none.
    pub(crate) fn with_transaction<T>(
        &self,
        run: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        match &mut *self.reading.borrow_mut() {
            Reading::Transaction(txn) => run(txn),
            _ => Err(Error::internal("no transaction is open")),
        }
    }

    /// Notes what was looked at and returned, on top of what was noted before.
    pub fn add_cost(&self, examined: Examined, returned: u64) {
        let Cost { keys, documents, returned: before } = self.cost.get();
        self.cost.set(Cost {
            keys: keys + examined.keys,
            documents: documents + examined.documents,
            returned: before + returned,
        });
    }

    /// What was looked at and returned.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost.get()
    }

    /// Notes that the operation runs to be explained.
    pub fn explain(&self) {
        self.explained.set(true);
    }

    /// Whether stages should watch the pipelines inside of them, for explain.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        self.explained.get()
    }

    /// Notes that the operation waited for something on purpose: it is not slow for that.
    pub fn note_wait(&self) {
        self.waited.set(true);
    }

    /// Whether the operation waited on purpose.
    #[must_use]
    pub fn waited(&self) -> bool {
        self.waited.get()
    }

    /// Notes that a document was read by its `_id`.
    pub fn note_id_read(&self) {
        self.found.borrow_mut().stage = "IDHACK";
    }

    /// What is left of the time limit.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.get().map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Notes how the command finds its documents: `note` adds the indexes that are read, and gives the
    /// name of the stage.
    pub fn note_indexes(&self, note: impl FnOnce(&mut SmallVec<[Arc<Index>; 1]>) -> &'static str) {
        let mut found = self.found.borrow_mut();
        found.indexes.clear();
        found.stage = note(&mut found.indexes);
    }

    /// How documents were found, in the words of MongoDB: `IXSCAN { a: 1 }`.
    #[must_use]
    pub fn plan_summary(&self) -> Option<String> {
        let found = self.found.borrow();
        if found.indexes.is_empty() {
            return (!found.stage.is_empty()).then(|| found.stage.to_owned());
        }
        let mut text = String::new();
        for index in &found.indexes {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(if index.is_clustered() { "CLUSTERED_IXSCAN {" } else { "IXSCAN {" });
            let mut first = true;
            for (name, value) in index.key.as_doc() {
                let separator = if std::mem::take(&mut first) { "" } else { "," };
                let value = value::ejson::print_value(value.get(), value::ejson::Format::Shell);
                let _ = write!(text, "{separator} {name}: {value}");
            }
            text.push_str(" }");
        }
        Some(text)
    }

    /// The connection.
    #[must_use]
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Sets the time by which the operation must end.
    pub fn set_deadline(&self, limit: Duration) {
        let deadline = Instant::now().checked_add(limit);
        self.deadline.set(deadline);
        interrupt::change(|watch| watch.deadline = deadline);
    }

    /// The time by which the operation must end.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Makes the loops of this thread stop with the operation, until the result is dropped.
    pub(crate) fn watch(&self) -> interrupt::Watching {
        interrupt::watch(interrupt::Watch {
            killed: self.slot.clone(),
            cursor_killed: self.cursor_killed.borrow().clone(),
            deadline: self.deadline.get(),
        })
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

    /// What looks whether to stop in the place of this operation, for threads that work for it.
    pub fn stop_check(&self) -> impl Fn() -> Result<()> + Send + Sync + use<> {
        let (slot, deadline) = (self.slot.clone(), self.deadline.get());
        move || check_stop(&slot, deadline)
    }

    /// Looks right away whether to stop.
    ///
    /// # Errors
    /// Interrupted, CursorKilled or MaxTimeMSExpired.
    pub fn check_now(&self) -> Result<()> {
        if self.cursor_killed.borrow().as_ref().is_some_and(|sign| sign.load(Ordering::Relaxed)) {
            return Err(Error::new(Code::CURSOR_KILLED, "operation was interrupted"));
        }
        check_stop(&self.slot, self.deadline.get())
    }
}

fn check_stop(slot: &Slot, deadline: Option<Instant>) -> Result<()> {
    if slot.killed.load(Ordering::Relaxed) {
        return Err(Error::new(Code::INTERRUPTED, "operation was interrupted"));
    }
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(Error::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
    }
    Ok(())
}
