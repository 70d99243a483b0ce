//! The transactions of sessions: which number is open, and how each ended.
//!
//! A statement takes the open transaction out, runs in it and returns it, so that only one
//! statement of a session runs at a time; others wait. A transaction ends by a commit, an abort, a
//! failed statement, a newer number in its session, the end of its session or its time limit. The
//! outcome is remembered, so that a commit can be sent again: in memory, and for transactions with
//! writes also in the session's record, which is part of the commit.

use super::{RECORDS, chunk_key, record_key, retry};
use crate::cursor::Cursors;
use crate::operation::{Operation, Slot};
use crate::request::ApiParameters;
use crate::txn::Data;
use crate::txn::Transaction;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::Seqno;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

type Session = [u8; 16];

/// The transactions of all sessions.
pub struct Transactions {
    /// Used to close the cursors of a transaction when it ends.
    cursors: Arc<Cursors>,
    states: Mutex<HashMap<Session, SessionTransaction>>,
    /// Signalled when a statement returns a transaction.
    given_back: Condvar,
    /// The number of open transactions; sessions without one check only this counter.
    open: AtomicUsize,
    /// The time limit of an open transaction, in seconds.
    pub lifetime_seconds: AtomicI64,
    /// The most transactions that may be open.
    pub open_max: AtomicUsize,
    /// The number of transactions begun.
    pub started: AtomicU64,
    /// The number of committed transactions.
    pub committed: AtomicU64,
    /// The number of aborted transactions.
    pub aborted: AtomicU64,
}

/// The newest transaction of a session.
struct SessionTransaction {
    number: i64,
    phase: Phase,
    begun: Instant,
    begun_ms: i64,
    used: Instant,
    /// The API parameters of its first statement.
    api: ApiParameters,
}

enum Phase {
    /// Between two statements.
    Idle(Box<Transaction>),
    /// A statement is running in it, on this connection.
    Running(Arc<Running>),
    /// Committed; `None` if that was before the last restart, so that there is no flush to wait
    /// for.
    Committed(Option<Seqno>),
    Aborted,
}

struct Running {
    slot: Arc<Slot>,
    killed: AtomicBool,
}

/// An open transaction, for `currentOp` and `serverStatus`.
pub struct OpenTransaction {
    /// Its session.
    pub session: Session,
    /// Its number.
    pub number: i64,
    /// Whether a statement is running in it.
    pub active: bool,
    /// How long it has been open.
    pub open_for: Duration,
    /// How long no statement has run in it.
    pub idle_for: Duration,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: i64,
    /// The commit that it reads, if no statement is running in it.
    pub snapshot: Option<Seqno>,
}

/// The default of `open_max`.
const OPEN_MAX: usize = 10_000;
/// How long a statement waits for another one of its session before it checks whether to stop.
const WAIT_STEP: Duration = Duration::from_millis(20);

impl Transactions {
    /// No transactions; `cursors` is the registry of their cursors.
    #[must_use]
    pub fn new(cursors: Arc<Cursors>) -> Transactions {
        Transactions {
            cursors,
            states: Mutex::default(),
            given_back: Condvar::new(),
            open: AtomicUsize::new(0),
            lifetime_seconds: AtomicI64::new(60),
            open_max: AtomicUsize::new(OPEN_MAX),
            started: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
        }
    }
}

impl SessionTransaction {
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Idle(_) | Phase::Running(_))
    }
}

fn no_such(number: i64, newest: i64) -> Error {
    Error::new(
        Code::NO_SUCH_TRANSACTION,
        format!(
            "Given transaction number {number} does not match any in-progress transactions. The \
             active transaction number is {newest}"
        ),
    )
}

fn was_aborted(number: i64) -> Error {
    Error::new(
        Code::NO_SUCH_TRANSACTION,
        format!("Transaction with {{ txnNumber: {number} }} has been aborted."),
    )
}

fn was_committed(number: i64) -> Error {
    Error::new(
        Code::TRANSACTION_COMMITTED,
        format!("Transaction with {{ txnNumber: {number} }} has been committed."),
    )
}

fn too_old(number: i64, newest: i64) -> Error {
    Error::new(
        Code::TRANSACTION_TOO_OLD,
        format!(
            "Cannot start transaction with {{ txnNumber: {number} }} on this session because a \
             newer transaction with txnNumber {newest} has already started on it."
        ),
    )
}

/// The content of the session's record: the newest number, and whether it belongs to a transaction.
fn stored(data: &Data, session: Session) -> Result<Option<(i64, bool)>> {
    let snapshot = data.store.snapshot();
    let record = snapshot.get(RECORDS, &record_key(session)).map_err(crate::store_failed)?;
    Ok(record.map(|record| {
        let record = RawDoc::new(&record);
        let number = record.get("txn").and_then(Val::as_i64_exact).unwrap_or(-1);
        (number, record.find("committed").is_some())
    }))
}

/// The state of a transaction number that a statement or a commit finds.
enum TakenTransaction {
    Open(Box<Transaction>, Arc<Running>),
    Committed(Option<Seqno>),
}

impl Transactions {
    /// How many transactions are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Begins a transaction and makes the command run in it.
    ///
    /// # Errors
    /// TransactionTooOld and ConflictingOperationInProgress when the number was used before;
    /// SnapshotTooOld when the state to read is no longer kept.
    pub(crate) fn begin(
        &self,
        data: &Data,
        op: &Operation,
        session: Session,
        number: i64,
    ) -> Result<()> {
        let at = op.begins_at();
        let on = at.map(|at| data.moment(Some(at))).transpose()?.map(|(view, _)| view);
        let stored = stored(data, session)?.map_or(-1, |(number, _)| number);
        let mut states = self.wait_for_statement(op, session)?;
        let newest = states.get(&session).map_or(-1, |state| state.number).max(stored);
        if number < newest {
            return Err(too_old(number, newest));
        }
        if number == newest {
            return Err(Error::new(
                Code::CONFLICTING_OPERATION_IN_PROGRESS,
                "Only servers in a sharded cluster can start a new transaction at the active \
                 transaction number",
            ));
        }
        let most = self.open_max.load(Ordering::Relaxed);
        if self.open() >= most {
            return Err(Error::new(
                Code::TEMPORARILY_UNAVAILABLE,
                format!(
                    "cannot begin a transaction: {most} are open, which is the most that may be"
                ),
            )
            .with_label("TransientTransactionError"));
        }
        let before = states.remove(&session);
        let running = Arc::new(Running { slot: op.slot().clone(), killed: AtomicBool::new(false) });
        states.insert(
            session,
            SessionTransaction {
                number,
                phase: Phase::Running(running),
                begun: Instant::now(),
                begun_ms: crate::clock::now_ms(),
                used: Instant::now(),
                api: op.api.get(),
            },
        );
        self.open.fetch_add(1, Ordering::Relaxed);
        self.started.fetch_add(1, Ordering::Relaxed);
        drop(states);
        if let Some(before) = before {
            self.drop_state(data, session, before);
        }
        let mut txn = data.open_transaction(on);
        txn.notes.set_transaction(session, number);
        op.enter_transaction(session, number, Box::new(txn));
        Ok(())
    }

    /// Makes the command run in the open transaction of its session.
    ///
    /// # Errors
    /// NoSuchTransaction, TransactionCommitted, TransactionTooOld.
    pub(crate) fn continue_transaction(
        &self,
        data: &Data,
        op: &Operation,
        session: Session,
        number: i64,
    ) -> Result<()> {
        match self.take(data, op, session, number)? {
            TakenTransaction::Open(txn, _) => {
                op.enter_transaction(session, number, txn);
                Ok(())
            }
            TakenTransaction::Committed(_) => Err(was_committed(number)),
        }
    }

    /// Ends a statement: returns the transaction, or aborts it if the statement failed.
    ///
    /// # Errors
    /// NoSuchTransaction when the transaction was killed while the statement ran.
    pub(crate) fn leave(&self, data: &Data, op: &Operation, failed: bool) -> Result<()> {
        let Some((session, number, txn)) = op.leave_transaction() else { return Ok(()) };
        let mut states = self.states.lock();
        let state = states.get_mut(&session).filter(|state| state.number == number);
        let killed = match state.as_ref().map(|state| &state.phase) {
            Some(Phase::Running(running)) => running.killed.load(Ordering::Relaxed),
            _ => true,
        };
        if let Some(state) = state {
            state.used = Instant::now();
            if !failed && !killed {
                state.phase = Phase::Idle(txn);
                drop(states);
                self.given_back.notify_all();
                return Ok(());
            }
            state.phase = Phase::Aborted;
        }
        drop(states);
        self.given_back.notify_all();
        self.end(data, session, number, *txn);
        if failed { Ok(()) } else { Err(was_aborted(number)) }
    }

    /// Commits, or finds that it has committed before. Returns the commit to wait for.
    ///
    /// # Errors
    /// NoSuchTransaction, TransactionTooOld, WriteConflict, and errors of the store.
    pub(crate) fn commit(
        &self,
        data: &Data,
        op: &Operation,
        session: Session,
        number: i64,
    ) -> Result<Option<Seqno>> {
        let mut txn = match self.take(data, op, session, number)? {
            TakenTransaction::Committed(seqno) => return Ok(seqno),
            TakenTransaction::Open(txn, running) if running.killed.load(Ordering::Relaxed) => {
                self.finish(session, number, Phase::Aborted);
                self.end(data, session, number, *txn);
                return Err(was_aborted(number));
            }
            TakenTransaction::Open(txn, _) => txn,
        };
        if !txn.is_empty() {
            let record = DocBuf::build(|out| {
                out.i64("txn", number);
                out.append("at", Val::DateTime(crate::clock::now_ms()));
                out.bool("committed", true);
            });
            let key = record_key(session);
            txn.guard(RECORDS, &key);
            let before = txn.get(RECORDS, &key)?;
            let chunks = before.map_or(0, |record| retry::chunks_of(RawDoc::new(&record)));
            for chunk in 0..chunks {
                txn.delete(RECORDS, chunk_key(session, chunk).as_slice().into());
            }
            txn.put(RECORDS, key.as_slice().into(), record.into_bytes().into());
        }
        let result = data.commit_transaction(*txn);
        let phase = match &result {
            Ok(seqno) => Phase::Committed(Some(*seqno)),
            Err(_) => Phase::Aborted,
        };
        self.finish(session, number, phase);
        self.close_cursors(session, number);
        self.open.fetch_sub(1, Ordering::Relaxed);
        let counter = if result.is_ok() { &self.committed } else { &self.aborted };
        counter.fetch_add(1, Ordering::Relaxed);
        // Data that was only read must also be durable before the commit is acknowledged.
        result.map(Some)
    }

    /// Aborts the open transaction.
    ///
    /// # Errors
    /// NoSuchTransaction, TransactionCommitted, TransactionTooOld.
    pub(crate) fn abort(
        &self,
        data: &Data,
        op: &Operation,
        session: Session,
        number: i64,
    ) -> Result<()> {
        match self.take(data, op, session, number)? {
            TakenTransaction::Committed(_) => Err(was_committed(number)),
            TakenTransaction::Open(txn, _) => {
                self.finish(session, number, Phase::Aborted);
                self.end(data, session, number, *txn);
                Ok(())
            }
        }
    }

    /// Ends an open transaction with a lower number in a session that continues with retryable
    /// writes.
    ///
    /// # Errors
    /// IncompleteTransactionHistory when the number belongs to a transaction.
    pub(crate) fn supersede(
        &self,
        data: &Data,
        op: &Operation,
        session: Session,
        number: i64,
    ) -> Result<()> {
        if self.open() == 0 {
            return Ok(());
        }
        let mut states = self.wait_for_statement(op, session)?;
        match states.get(&session).map(|state| state.number.cmp(&number)) {
            Some(std::cmp::Ordering::Less) => {
                let before = states.remove(&session);
                drop(states);
                if let Some(before) = before {
                    self.drop_state(data, session, before);
                }
                Ok(())
            }
            Some(std::cmp::Ordering::Equal) => Err(retry::became_transaction()),
            _ => Ok(()),
        }
    }

    /// Aborts the open transactions of the selected sessions; statements that run in them are
    /// stopped.
    pub fn kill(&self, data: &Data, which: impl Fn(&Session) -> bool) {
        self.abort_where(data, |session, _| which(session));
    }

    /// Aborts transactions that exceed their time limit.
    pub fn expire(&self, data: &Data) {
        if self.open() == 0 {
            return;
        }
        let seconds = self.lifetime_seconds.load(Ordering::Relaxed);
        let lifetime = Duration::from_secs(u64::try_from(seconds).unwrap_or(1));
        self.abort_where(data, |_, state| state.begun.elapsed() >= lifetime);
    }

    /// Forgets the outcome of transactions that were not used for this time.
    pub(super) fn forget_old(&self, age: Duration) {
        self.states.lock().retain(|_, state| state.is_open() || state.used.elapsed() < age);
    }

    /// The open transactions.
    #[must_use]
    pub fn list(&self) -> Vec<OpenTransaction> {
        let states = self.states.lock();
        let open = states.iter().filter(|(_, state)| state.is_open());
        open.map(|(session, state)| OpenTransaction {
            session: *session,
            number: state.number,
            active: matches!(state.phase, Phase::Running(_)),
            open_for: state.begun.elapsed(),
            idle_for: state.used.elapsed(),
            begun_ms: state.begun_ms,
            snapshot: match &state.phase {
                Phase::Idle(txn) => Some(txn.snapshot.seqno()),
                Phase::Running(_) | Phase::Committed(_) | Phase::Aborted => None,
            },
        })
        .collect()
    }

    fn abort_where(&self, data: &Data, which: impl Fn(&Session, &SessionTransaction) -> bool) {
        let mut idle = Vec::new();
        for (session, state) in self.states.lock().iter_mut() {
            if !state.is_open() || !which(session, state) {
                continue;
            }
            match std::mem::replace(&mut state.phase, Phase::Aborted) {
                Phase::Idle(txn) => idle.push((*session, state.number, txn)),
                Phase::Running(running) => {
                    running.killed.store(true, Ordering::Relaxed);
                    running.slot.killed.store(true, Ordering::Relaxed);
                    state.phase = Phase::Running(running);
                }
                other => state.phase = other,
            }
        }
        for (session, number, txn) in idle {
            self.end(data, session, number, *txn);
        }
    }

    /// Waits until no statement runs in the session's transaction.
    fn wait_for_statement(
        &self,
        op: &Operation,
        session: Session,
    ) -> Result<MutexGuard<'_, HashMap<Session, SessionTransaction>>> {
        let mut states = self.states.lock();
        while states.get(&session).is_some_and(|s| matches!(s.phase, Phase::Running(_))) {
            self.given_back.wait_for(&mut states, WAIT_STEP);
            op.check_now()?;
        }
        Ok(states)
    }

    /// Takes out the open transaction of this number.
    fn take(
        &self,
        data: &Data,
        op: &Operation,
        session: Session,
        number: i64,
    ) -> Result<TakenTransaction> {
        let mut states = self.wait_for_statement(op, session)?;
        let known = states.get(&session).map_or(-1, |state| state.number);
        let state = match states.get_mut(&session) {
            Some(state) if state.number >= number => state,
            _ => {
                drop(states);
                // The transaction ended before the last restart, or the session has only retryable
                // writes.
                return match stored(data, session)? {
                    Some((newest, _)) if newest > number => Err(too_old(number, newest)),
                    Some((newest, true)) if newest == number => {
                        Ok(TakenTransaction::Committed(None))
                    }
                    newest => {
                        let newest = newest.map_or(-1, |(newest, _)| newest);
                        Err(no_such(number, newest.max(known)))
                    }
                };
            }
        };
        if state.number > number {
            return Err(too_old(number, state.number));
        }
        if state.api != op.api.get() && state.is_open() {
            return Err(Error::new(
                Code::API_MISMATCH_ERROR,
                "the API parameters differ from those of the transaction's first command",
            ));
        }
        let running = Arc::new(Running { slot: op.slot().clone(), killed: AtomicBool::new(false) });
        match std::mem::replace(&mut state.phase, Phase::Running(running.clone())) {
            Phase::Idle(txn) => Ok(TakenTransaction::Open(txn, running)),
            Phase::Committed(seqno) => {
                state.phase = Phase::Committed(seqno);
                Ok(TakenTransaction::Committed(seqno))
            }
            other => {
                state.phase = other;
                Err(was_aborted(number))
            }
        }
    }

    /// Records the outcome of a transaction that was taken out.
    fn finish(&self, session: Session, number: i64, phase: Phase) {
        let mut states = self.states.lock();
        if let Some(state) = states.get_mut(&session).filter(|state| state.number == number) {
            state.phase = phase;
            state.used = Instant::now();
        }
        drop(states);
        self.given_back.notify_all();
    }

    /// Ends a transaction that will not be used again.
    fn drop_state(&self, data: &Data, session: Session, state: SessionTransaction) {
        if let Phase::Idle(txn) = state.phase {
            self.end(data, session, state.number, *txn);
        }
    }

    fn end(&self, data: &Data, session: Session, number: i64, txn: Transaction) {
        data.abort_transaction(txn);
        self.close_cursors(session, number);
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.aborted.fetch_add(1, Ordering::Relaxed);
    }

    fn close_cursors(&self, session: Session, number: i64) {
        self.cursors.close_where(|cursor| {
            cursor.session == Some(session) && cursor.transaction == Some(number)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options, Storage};
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};
    use value::{DocBuf, ejson};

    const PLACE: &str = "lsid: {id: UUID(\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\")}, txnNumber: \
                         NumberLong(1), autocommit: false";

    fn run(engine: &Engine, db: &str, text: &str) -> value::Result<DocBuf> {
        let text = text.replace("PLACE", PLACE);
        engine.run_command(db, ejson::parse_doc(&text).expect("test text").as_doc())
    }

    fn code(engine: &Engine, db: &str, text: &str) -> i32 {
        run(engine, db, text).map_or_else(|error| error.code().0, |_| 0)
    }

    /// An engine with a document that an open transaction has changed.
    fn with_open_transaction(storage: Storage) -> Engine {
        let options = Options { storage, ..Options::default() };
        let engine = Engine::open(options).expect("it opens");
        run(&engine, "t", "{insert: 'c', documents: [{_id: 1, n: 1}]}").expect("works");
        let update = "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {n: 2}}}], PLACE, \
                      startTransaction: true}";
        run(&engine, "t", update).expect("works");
        engine
    }

    /// Much longer than needed, but shorter than a transaction's time limit: other tests run at the
    /// same time.
    const SOON: Duration = Duration::from_secs(20);

    /// Runs a write that waits for the transaction, calls `end` to end that wait, and returns the
    /// code of the write and its duration.
    fn waiting_write(engine: &Engine, end: impl FnOnce(&Engine)) -> (i32, Duration) {
        let other = engine.clone();
        let writer = std::thread::spawn(move || {
            let update = "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {n: 3}}}], \
                          lsid: {id: UUID(\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\")}}";
            (code(&other, "t", update), Instant::now())
        });
        let slots = &engine.inner().service.slots;
        let runs = || slots.lock().values().any(|s| s.operation_id.load(Ordering::Relaxed) != 0);
        while !runs() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(30));
        assert!(!writer.is_finished(), "it waits for the transaction");
        let begin = Instant::now();
        end(engine);
        let (code, ended) = writer.join().expect("the writer ends");
        (code, ended.duration_since(begin))
    }

    #[test]
    fn who_waits_for_a_transaction_goes_on_when_it_ends() {
        let engine = with_open_transaction(Storage::Memory);
        let (code, waited) = waiting_write(&engine, |engine| {
            run(engine, "admin", "{commitTransaction: 1, PLACE}").expect("commits");
        });
        assert_eq!(code, 0);
        assert!(waited < SOON, "{waited:?}");
    }

    #[test]
    fn who_waits_for_a_transaction_can_be_killed() {
        let engine = with_open_transaction(Storage::Memory);
        let kill_session = "{killSessions: [{id: UUID(\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\")}]}";
        let (code, waited) = waiting_write(&engine, |engine| {
            run(engine, "admin", kill_session).expect("works");
        });
        assert_eq!(code, 11601);
        assert!(waited < SOON, "{waited:?}");
        let (code, waited) = waiting_write(&engine, |engine| {
            let slots = engine.inner().service.slots.lock();
            let running = slots.values().map(|s| s.operation_id.load(Ordering::Relaxed)).max();
            drop(slots);
            let kill = format!("{{killOp: 1, op: {}}}", running.expect("one runs"));
            run(engine, "admin", &kill).expect("works");
        });
        assert_eq!(code, 11601);
        assert!(waited < SOON, "{waited:?}");
        run(&engine, "admin", "{commitTransaction: 1, PLACE}").expect("it was not concerned");
    }

    #[test]
    fn a_transaction_that_is_open_for_too_long_is_aborted() {
        let engine = with_open_transaction(Storage::Memory);
        let transactions = &engine.inner().service.sessions.transactions;
        run(&engine, "admin", "{setParameter: 1, transactionLifetimeLimitSeconds: 1}")
            .expect("works");
        let (code, waited) = waiting_write(&engine, |_| {});
        assert_eq!(code, 0);
        assert!(waited < Duration::from_secs(20), "{waited:?}");
        // Its keys are released shortly before the counter is decremented.
        let end = Instant::now() + Duration::from_secs(20);
        while transactions.open() != 0 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(transactions.open(), 0);
        assert_eq!(self::code(&engine, "admin", "{commitTransaction: 1, PLACE}"), 251);
    }

    #[test]
    fn a_commit_is_known_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = || Storage::Disk(folder.path().join("data"));
        let engine = with_open_transaction(storage());
        run(&engine, "admin", "{commitTransaction: 1, PLACE}").expect("commits");
        engine.close().expect("closes");
        drop(engine);
        let options = Options { storage: storage(), ..Options::default() };
        let engine = Engine::open(options).expect("it opens again");
        assert_eq!(code(&engine, "admin", "{commitTransaction: 1, PLACE}"), 0);
        assert_eq!(code(&engine, "admin", "{abortTransaction: 1, PLACE}"), 256);
        assert_eq!(code(&engine, "t", "{find: 'c', PLACE}"), 256);
        assert_eq!(code(&engine, "t", "{find: 'c', PLACE, startTransaction: true}"), 117);
    }

    #[test]
    fn a_transaction_that_was_not_committed_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = || Storage::Disk(folder.path().join("data"));
        let engine = with_open_transaction(storage());
        run(&engine, "t", "{create: 'made', PLACE}").expect("works");
        engine.close().expect("closes");
        drop(engine);
        let options = Options { storage: storage(), ..Options::default() };
        let engine = Engine::open(options).expect("it opens again");
        assert_eq!(code(&engine, "admin", "{commitTransaction: 1, PLACE}"), 251);
        assert!(engine.inner().data.collection("t", "made").is_none());
        let found = run(&engine, "t", "{find: 'c', filter: {n: 1}}").expect("works");
        assert!(format!("{found:?}").contains('1'), "{found:?}");
        assert!(engine.check(&mut |_, _, _| {}).expect("it can be checked").is_empty());
    }
}
