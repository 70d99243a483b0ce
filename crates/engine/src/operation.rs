//! One running command: its client, its deadline, and whether it has been asked to stop.
//!
//! Layer: transactions.

use crate::catalog::{Collection, WriteView};
use crate::memory::Share;
use crate::report::{PlanSummary, Report, StatementReport, Writes};
use crate::request::ApiParameters;
pub use crate::resources::Resources;
pub(crate) use crate::slot::NamedIn;
pub use crate::slot::Slot;
use crate::txn::{Data, Transaction, View};
use patterns::shape::{Named, Pin, Reader};
use query::interrupt::{self, Killed};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::Scratch;
use value::{Code, DocBuf, Error, Result, limits};

/// A part of an operation that another thread runs.
pub struct Helper {
    /// The operation of that thread.
    pub operation: Operation,
    resources: Arc<Resources>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.resources.helpers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of index entries and documents examined.
#[derive(Clone, Copy, Default, Debug)]
pub struct Examined {
    /// Index entries.
    pub keys: u64,
    /// Documents; stored records in a collection with layouts.
    pub documents: u64,
    /// Bytes of stored records, in a collection with layouts.
    pub bytes: u64,
}

/// The number of entries and documents that a command examined and returned.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    /// Index entries examined.
    pub keys: u64,
    /// Documents examined.
    pub documents: u64,
    /// Documents returned.
    pub returned: u64,
}

impl Data {
    /// The view that a command reads: that of its transaction, the requested point in time, or else
    /// the newest state.
    #[must_use]
    pub fn view(&self, op: &Operation) -> View {
        let mut view = op.view().unwrap_or_else(|| self.newest());
        if view.catalog.is_shaped {
            view.reader = Some(op.reader());
        }
        view
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
    /// Whether the command read one document by its `_id` without a plan.
    by_id: Cell<bool>,
    /// What the profile will show; `None` if no database is profiled.
    report: RefCell<Option<Box<Report>>>,
    waited: Cell<bool>,
    explained: Cell<bool>,
    reading: RefCell<Reading>,
    /// The cluster time of the state that the command reads.
    read_time: Cell<Option<u64>>,
    begins_at: Cell<Option<u64>>,
    /// The session and the number of the transaction that the command runs in.
    transaction: Cell<Option<([u8; 16], i64)>>,
    /// Whether a statement failed although the command did not.
    failed: Cell<bool>,
    /// Set when the cursor that the command reads is killed.
    cursor_killed: RefCell<Option<Arc<AtomicBool>>>,
    labelled: Cell<bool>,
    /// Whether its writes bypass patterns.
    pub bypasses_patterns: Cell<bool>,
    /// The form of documents that the command asks for.
    pin: Cell<Option<Pin>>,
    /// The faces that the command names.
    named: RefCell<Named>,
    /// Who runs the command; unknown until a shape needs it.
    reader: RefCell<Option<Arc<Reader>>>,
    /// The view through which the command writes.
    through: RefCell<Option<Arc<WriteView>>>,
    /// The version of the API that the command asks for.
    pub api: Cell<ApiParameters>,
}

/// The state that a command reads.
#[derive(Default)]
enum Reading {
    /// The newest state.
    #[default]
    Newest,
    /// The state at one point in time.
    At(Box<View>),
    /// The newest state at the time the command began.
    Pinned(Box<View>),
    /// The snapshot and private writes of its session's open transaction.
    Transaction(Box<Transaction>),
}

/// The size of one cursor batch while memory is short, in bytes.
const TIGHT_BATCH_BYTES: usize = 256 * 1024;

/// The number of cheap steps between two checks of the clock.
const STEPS_BETWEEN_CHECKS: u32 = 64;

impl Operation {
    /// A new operation of a connection.
    #[must_use]
    pub fn new(slot: Arc<Slot>, resources: Arc<Resources>) -> Operation {
        let deadline = slot.outer.as_ref().and_then(|outer| outer.deadline);
        Operation {
            slot,
            resources,
            started: Instant::now(),
            deadline: Cell::new(deadline),
            steps: Cell::new(0),
            disk: Cell::new(None),
            cost: Cell::default(),
            by_id: Cell::new(false),
            report: RefCell::default(),
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
            pin: Cell::new(None),
            named: RefCell::default(),
            reader: RefCell::default(),
            through: RefCell::default(),
            api: Cell::default(),
        }
    }

    /// Sets the form of documents that the command asks for.
    pub(crate) fn pin_form(&self, pin: Pin) {
        self.pin.set(Some(pin));
        self.reader.take();
    }

    /// Sets the faces that the command names.
    pub(crate) fn name_faces(&self, named: Named) {
        *self.named.borrow_mut() = named;
        self.reader.take();
    }

    /// The faces that the command names only to find documents: its result is without them.
    pub(crate) fn faces_to_hide(&self) -> Vec<String> {
        self.named.borrow().only_to_find().to_vec()
    }

    /// Makes the operation read for the reader that opened the cursor which it continues.
    pub(crate) fn read_as(&self, reader: &Arc<Reader>) {
        *self.reader.borrow_mut() = Some(reader.clone());
    }

    /// Who runs the command, as far as shapes of documents depend on it.
    #[must_use]
    pub fn reader(&self) -> Arc<Reader> {
        let mut reader = self.reader.borrow_mut();
        let known = reader.get_or_insert_with(|| {
            let name = self.slot.application.lock().clone();
            let user = self.slot.user.lock();
            let user = user.as_deref().and_then(|user| user.rsplit_once('@'));
            Arc::new(Reader {
                app_name: (!name.is_empty()).then_some(name),
                user: user.map(|(name, db)| format!("{db}.{name}")),
                pinned: self.pin.get(),
                named: self.named.borrow().clone(),
            })
        });
        known.clone()
    }

    /// The reader that a cursor of this operation keeps; `None` if no shape has asked for it and
    /// the command pins no form.
    #[must_use]
    pub fn reader_of_cursor(&self) -> Option<Arc<Reader>> {
        let needed = self.reader.borrow().is_some() || self.pin.get().is_some();
        needed.then(|| self.reader())
    }

    /// A collection of the catalog as the reader sees it.
    ///
    /// # Errors
    /// BadValue for a pinned form that the collection does not have, and errors of its shapes.
    #[inline]
    pub fn sees(&self, collection: Arc<Collection>) -> Result<Arc<Collection>> {
        if collection.shapes.is_none() {
            return Ok(collection);
        }
        Ok(collection.seen_by(&self.reader())?.unwrap_or(collection))
    }

    /// A collection of the catalog as a writer sees it.
    ///
    /// # Errors
    /// As `sees`; IllegalOperation if the operation reads stored documents.
    #[inline]
    pub fn sees_to_write(&self, collection: Arc<Collection>) -> Result<Arc<Collection>> {
        let seen = self.sees(collection)?;
        if let Some(form) = &seen.form {
            form.check_writable()?;
        }
        let through = self.through.borrow();
        let Some(view) = through.as_ref().filter(|view| view.pattern.target == *seen.name) else {
            return Ok(seen);
        };
        let written_through = Some(view.clone());
        Ok(Arc::new(Collection { written_through, ..Collection::clone(&seen) }))
    }

    /// Makes the command write through a view of a pattern.
    pub(crate) fn write_through(&self, view: Arc<WriteView>) {
        *self.through.borrow_mut() = Some(view);
    }

    /// An operation without an engine, with this memory limit for sorts and groups.
    #[cfg(test)]
    pub(crate) fn for_tests(sort_bytes_max: usize) -> Operation {
        use parking_lot::Mutex;
        use std::sync::atomic::{AtomicI64, AtomicU64};
        let slot = Slot {
            connection_id: 0,
            remote: String::new(),
            current: Mutex::default(),
            operation_id: AtomicU64::new(0),
            reads_at: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            conflicts: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            outer: None,
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

    /// An empty share of the memory budget.
    #[must_use]
    pub fn share(&self) -> Share {
        self.resources.memory.share()
    }

    /// The size of one cursor batch in bytes; smaller while memory is short.
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

    /// A second thread for this operation, if a core is free. The thread has its own operation,
    /// which ends when this one is killed or reaches its deadline.
    #[must_use]
    pub fn helper(&self) -> Option<Helper> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let resources = self.resources.clone();
        let free = |helpers: usize| (helpers + 1 < cores).then_some(helpers + 1);
        resources.helpers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        let operation = Operation::new(self.slot.clone(), self.resources.clone());
        operation.deadline.set(self.deadline.get());
        operation.disk.set(self.disk.get());
        operation.pin.set(self.pin.get());
        operation.reader.borrow_mut().clone_from(&self.reader.borrow());
        Some(Helper { operation, resources })
    }

    /// The folder for temporary files.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.resources.scratch
    }

    /// Sets whether the operation may spill to disk; `None` means the server's default.
    pub fn set_disk_use(&self, allowed: Option<bool>) {
        self.disk.set(allowed);
    }

    /// Whether the operation may spill to disk.
    #[must_use]
    pub fn may_use_disk(&self) -> bool {
        let default = || self.resources.disk_by_default.load(Ordering::Relaxed);
        self.disk.get().unwrap_or_else(default)
    }

    /// The view that the command reads; `None` for the newest state.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        match &*self.reading.borrow() {
            Reading::Newest => None,
            Reading::At(view) | Reading::Pinned(view) => Some(View::clone(view)),
            Reading::Transaction(txn) => Some(View::new(txn.catalog.clone(), txn.snapshot.clone())),
        }
    }

    /// Whether the command reads the newest state, possibly pinned at its beginning.
    #[must_use]
    pub fn reads_newest(&self) -> bool {
        matches!(*self.reading.borrow(), Reading::Newest | Reading::Pinned(_))
    }

    /// Pins the newest state: the command reads this view from now on.
    pub(crate) fn pin(&self, view: View) {
        *self.reading.borrow_mut() = Reading::Pinned(Box::new(view));
    }

    /// Makes the command read a view of this cluster time.
    pub(crate) fn read_at(&self, view: View, time: u64) {
        *self.reading.borrow_mut() = Reading::At(Box::new(view));
        self.read_time.set(Some(time));
    }

    /// Makes the command read this view without changing its read time.
    pub(crate) fn read_view(&self, view: View) {
        *self.reading.borrow_mut() = Reading::At(Box::new(view));
    }

    /// The cluster time of the state that the command reads, if it requested one.
    #[must_use]
    pub fn read_time(&self) -> Option<u64> {
        self.read_time.get()
    }

    /// Sets the cluster time at which the transaction that the command begins will read.
    pub(crate) fn begin_at(&self, time: Option<u64>) {
        self.begins_at.set(time);
    }

    /// The cluster time at which the transaction that the command begins will read, if one was
    /// given.
    pub(crate) fn begins_at(&self) -> Option<u64> {
        self.begins_at.get()
    }

    /// Makes the command stop when the cursor that it reads is killed.
    pub(crate) fn use_cursor(&self, killed: Arc<AtomicBool>) {
        interrupt::change(|watch| watch.cursor_killed = Some(killed.clone()));
        *self.cursor_killed.borrow_mut() = Some(killed);
    }

    /// Records that a statement failed although the command replies without an error. Its
    /// transaction is aborted.
    pub fn fail_transaction(&self) {
        self.failed.set(true);
    }

    /// Records that the labels of the error are final.
    pub(crate) fn keep_labels(&self) {
        self.labelled.set(true);
    }

    /// Whether the labels of the error are final.
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

    /// Takes out the transaction, with its session and number. `None` if the command does not run
    /// in one.
    pub(crate) fn leave_transaction(&self) -> Option<([u8; 16], i64, Box<Transaction>)> {
        let (session, number) = self.transaction.take()?;
        match self.reading.take() {
            Reading::Transaction(txn) => Some((session, number, txn)),
            _ => None,
        }
    }

    /// Calls a function with the open transaction.
    ///
    /// # Errors
    /// Any error of the function; InternalError when there is no transaction.
    pub(crate) fn with_transaction<T>(
        &self,
        run: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        match &mut *self.reading.borrow_mut() {
            Reading::Transaction(txn) => run(txn),
            _ => Err(Error::internal("no transaction is open")),
        }
    }

    /// Adds to the counts of what was examined and returned.
    pub fn add_cost(&self, examined: Examined, returned: u64) {
        let Cost { keys, documents, returned: before } = self.cost.get();
        self.cost.set(Cost {
            keys: keys + examined.keys,
            documents: documents + examined.documents,
            returned: before + returned,
        });
    }

    /// The counts of what was examined and returned.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost.get()
    }

    /// Marks the operation as run for explain.
    pub fn explain(&self) {
        self.explained.set(true);
    }

    /// Whether stages should collect statistics of their inner pipelines, for explain.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        self.explained.get()
    }

    /// Records that the operation waited on purpose, so that it does not count as slow.
    pub fn note_wait(&self) {
        self.waited.set(true);
    }

    /// Whether the operation waited on purpose.
    #[must_use]
    pub fn waited(&self) -> bool {
        self.waited.get()
    }

    /// Records that a document was read by its `_id`.
    pub fn note_id_read(&self) {
        self.by_id.set(true);
    }

    /// The time left until the deadline.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.get().map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Records how the command finds its documents, also for `currentOp`.
    pub fn note_plan(&self, note: impl FnOnce(&mut PlanSummary)) {
        let mut current = self.slot.current.lock();
        current.plan.clear();
        note(&mut current.plan);
    }

    /// Counts a plan that reads a whole collection.
    pub(crate) fn count_collection_scan(&self) {
        self.resources.collection_scans.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a plan that sorts what it has read.
    pub(crate) fn count_blocking_sort(&self) {
        self.resources.blocking_sorts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a tailable cursor, which reads a whole collection.
    pub(crate) fn count_tailable_scan(&self) {
        self.resources.tailable_scans.fetch_add(1, Ordering::Relaxed);
    }

    /// How the command finds its documents.
    #[must_use]
    pub fn plan(&self) -> PlanSummary {
        let mut plan = self.slot.current.lock().plan.clone();
        if self.by_id.get() {
            plan.clear();
            plan.add("IDHACK", None);
        }
        plan
    }

    /// The same in MongoDB's form: `IXSCAN { a: 1 }`.
    #[must_use]
    pub fn plan_summary(&self) -> Option<String> {
        self.plan().text()
    }

    /// Begins to collect what the profile shows.
    pub(crate) fn begin_report(&self) {
        *self.report.borrow_mut() = Some(Box::default());
    }

    /// Whether what the profile shows is collected.
    #[must_use]
    pub fn is_profiled(&self) -> bool {
        self.report.borrow().is_some()
    }

    /// Adds to what the profile shows, if it is collected.
    pub fn report(&self, add: impl FnOnce(&mut Report)) {
        if let Some(report) = self.report.borrow_mut().as_deref_mut() {
            add(report);
        }
    }

    /// Takes what was collected for the profile.
    pub(crate) fn take_report(&self) -> Option<Box<Report>> {
        self.report.take()
    }

    /// Begins a statement that has an entry of its own in the profile. `None` if nothing is
    /// collected.
    pub(crate) fn begin_statement(&self) -> Option<(Instant, Cost)> {
        self.is_profiled().then(|| (Instant::now(), self.cost.get()))
    }

    /// Ends a statement that `begin_statement` began.
    pub(crate) fn end_statement(
        &self,
        (started, before): (Instant, Cost),
        command: DocBuf,
        writes: Writes,
        error: Option<&Error>,
    ) {
        let (now, plan) = (self.cost.get(), self.plan_summary());
        self.slot.current.lock().plan.clear();
        self.report(|report| {
            report.statements.push(StatementReport {
                command,
                millis: i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
                keys: now.keys - before.keys,
                documents: now.documents - before.documents,
                plan,
                writes,
                shape: report.shape.take(),
                sorts: std::mem::take(&mut report.sorts),
                error: error.cloned(),
            });
        });
    }

    /// The connection.
    #[must_use]
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Sets the time limit.
    pub fn set_deadline(&self, limit: Duration) {
        let deadline = Instant::now().checked_add(limit);
        self.deadline.set(deadline);
        interrupt::change(|watch| watch.deadline = deadline);
    }

    /// The deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Makes loops on this thread stop with the operation until the returned value is dropped.
    pub(crate) fn watch(&self) -> interrupt::Watching {
        interrupt::watch(interrupt::Watch {
            killed: self.slot.clone(),
            cursor_killed: self.cursor_killed.borrow().clone(),
            deadline: self.deadline.get(),
        })
    }

    /// Called in every loop over documents. Checks periodically whether to stop.
    ///
    /// # Errors
    /// Interrupted or MaxTimeMSExpired.
    #[inline]
    pub fn check(&self) -> Result<()> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS_BETWEEN_CHECKS) { self.check_now() } else { Ok(()) }
    }

    /// A function that checks whether this operation should stop, for threads that work for it.
    pub fn stop_check(&self) -> impl Fn() -> Result<()> + Send + Sync + use<> {
        let (slot, deadline) = (self.slot.clone(), self.deadline.get());
        move || {
            interrupt::observed()?;
            check_stop(&slot, deadline)
        }
    }

    /// Checks immediately whether to stop.
    ///
    /// # Errors
    /// Interrupted, CursorKilled or MaxTimeMSExpired.
    pub fn check_now(&self) -> Result<()> {
        interrupt::observed()?;
        if self.cursor_killed.borrow().as_ref().is_some_and(|sign| sign.load(Ordering::Relaxed)) {
            return Err(Error::new(Code::CURSOR_KILLED, "operation was interrupted"));
        }
        check_stop(&self.slot, self.deadline.get())
    }
}

fn check_stop(slot: &Slot, deadline: Option<Instant>) -> Result<()> {
    if slot.is_killed() {
        return Err(Error::new(Code::INTERRUPTED, "operation was interrupted"));
    }
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(Error::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_is_the_connection_and_the_pin() {
        let op = Operation::for_tests(1);
        assert_eq!(*op.reader(), Reader::default());
        assert!(op.reader_of_cursor().is_some());
        let op = Operation::for_tests(1);
        assert!(op.reader_of_cursor().is_none(), "nobody has asked");
        "shop".clone_into(&mut op.slot.application.lock());
        *op.slot.user.lock() = Some("ann@ex@admin".into());
        op.pin_form(Pin::Version(3));
        let reader = op.reader_of_cursor().expect("is pinned");
        assert_eq!(reader.app_name.as_deref(), Some("shop"));
        assert_eq!(reader.user.as_deref(), Some("admin.ann@ex"));
        assert_eq!(reader.pinned, Some(Pin::Version(3)));
        let more = Operation::for_tests(1);
        more.read_as(&reader);
        assert_eq!(more.reader(), reader);
    }
}
