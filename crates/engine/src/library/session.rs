//! Sessions and their transactions.

use super::convert::time_limit;
use super::failure;
use super::link::Link;
use super::turn::{Phase, Turn};
use bson::{Document, doc};
use std::fmt;
use std::time::{Duration, Instant};
use value::{Code, Error, Result};

/// How long `with_transaction` tries again, as MongoDB's drivers do.
const RETRY_TIME: Duration = Duration::from_secs(120);

/// The longest pause before the first repetition of a transaction, and before any.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The labels of errors after which a transaction, or its commit, can be tried again.
const TRANSIENT: &str = "TransientTransactionError";
const UNKNOWN_COMMIT: &str = "UnknownTransactionCommitResult";

/// A session to start; made by [`Database::start_session`](crate::Database::start_session).
#[must_use = "nothing happens until `run` is called"]
pub struct StartSession {
    link: Link,
}

impl StartSession {
    pub(super) fn new(link: Link) -> StartSession {
        StartSession { link }
    }

    /// Starts the session.
    ///
    /// # Errors
    /// ShutdownInProgress (91) when the database is closed.
    pub fn run(self) -> Result<ClientSession> {
        let link = self.link.with_db("admin").with_session();
        link.run(doc! {"ping": 1})?;
        Ok(ClientSession { link, commit: CommitOptions::default() })
    }
}

/// A session: operations with [`session`](crate::Find::session) run in it, and in its transaction
/// while one is open.
///
/// A transaction reads one snapshot and its own writes; others see its writes all at once, when it
/// is committed. Two transactions that write the same document conflict: the later one fails with
/// WriteConflict (112), labelled `TransientTransactionError`, and can be run again.
/// [`with_transaction`](ClientSession::with_transaction) does that by itself.
///
/// Dropping the session aborts its transaction and ends it.
///
/// ```
/// # use motifdb::{Database, bson::doc};
/// # let db = Database::in_memory()?;
/// # db.create_collection("orders").run()?;
/// let orders = db.collection("orders");
/// let mut session = db.start_session().run()?;
///
/// session.start_transaction().run()?;
/// orders.insert_one(doc! {"_id": 1}).session(&mut session).run()?;
/// assert_eq!(orders.count_documents(doc! {}).session(&mut session).run()?, 1);
/// assert_eq!(orders.count_documents(doc! {}).run()?, 0, "others do not see it");
/// session.commit_transaction().run()?;
/// assert_eq!(orders.count_documents(doc! {}).run()?, 1);
///
/// session.start_transaction().run()?;
/// orders.delete_one(doc! {"_id": 1}).session(&mut session).run()?;
/// session.abort_transaction().run()?;
/// assert_eq!(orders.count_documents(doc! {}).run()?, 1);
/// # Ok::<(), motifdb::Error>(())
/// ```
pub struct ClientSession {
    link: Link,
    commit: CommitOptions,
}

/// The options of a transaction.
#[derive(Clone, Default)]
pub(super) struct TransactionOptions {
    read_concern: Option<Document>,
    commit: CommitOptions,
}

/// What a transaction says about its commit.
#[derive(Clone, Default)]
struct CommitOptions {
    write_concern: Option<Document>,
    max_time: Option<Duration>,
}

impl ClientSession {
    /// The session's identifier (`lsid`), as it is in events of change streams.
    #[must_use]
    pub fn id(&self) -> Document {
        self.link.session().map(Turn::id).unwrap_or_default()
    }

    /// Whether a transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        matches!(self.phase(), Phase::Starting | Phase::Running)
    }

    fn phase(&self) -> Phase {
        self.link.session().map(Turn::phase).unwrap_or_default()
    }

    /// A link of an operation, inside this session.
    pub(super) fn join(&self, link: Link) -> Link {
        link.inside(&self.link)
    }

    /// Begins a transaction. Its snapshot is taken by its first operation.
    pub fn start_transaction(&mut self) -> StartTransaction<'_> {
        StartTransaction { session: self, options: TransactionOptions::default() }
    }

    /// Begins a transaction with options.
    pub(super) fn begin(&mut self, options: TransactionOptions) -> Result<()> {
        if let Some(session) = self.link.session() {
            session.begin(options.read_concern)?;
        }
        self.commit = options.commit;
        Ok(())
    }

    /// Commits the transaction. If the result is unknown, it can be called again.
    pub fn commit_transaction(&mut self) -> CommitTransaction {
        CommitTransaction { link: self.link.clone(), options: self.commit.clone() }
    }

    /// Aborts the transaction: its writes never happened.
    pub fn abort_transaction(&mut self) -> AbortTransaction {
        AbortTransaction { link: self.link.clone() }
    }

    /// Runs `body` in a transaction and commits it.
    ///
    /// If `body` returns an error, the transaction is aborted. If the error has the label
    /// `TransientTransactionError`, such as a write conflict, `body` runs again in a new
    /// transaction; if the commit has the label `UnknownTransactionCommitResult`, the commit is
    /// sent again. Both end after 120 seconds. `body` may run several times, so it should change
    /// nothing but the database, and return the errors of its operations as they are. If `body`
    /// ends the transaction itself, nothing is committed afterwards.
    ///
    /// ```
    /// # use motifdb::{Database, bson::{Document, doc}};
    /// # let db = Database::in_memory()?;
    /// let counters = db.collection::<Document>("counters");
    /// counters.insert_one(doc! {"_id": "orders", "last": 41}).run()?;
    /// let mut session = db.start_session().run()?;
    /// let number = session.with_transaction(|session| {
    ///     let all = doc! {"_id": "orders"};
    ///     let next = counters.find_one_and_update(all, doc! {"$inc": {"last": 1}});
    ///     let next = next.return_new(true).session(session).run()?;
    ///     Ok(next.and_then(|counter| counter.get_i32("last").ok()))
    /// })?;
    /// assert_eq!(number, Some(42));
    /// # Ok::<(), motifdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `body` or of the commit.
    pub fn with_transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut ClientSession) -> Result<R>,
    ) -> Result<R> {
        let mut retries = Retries::new();
        loop {
            self.start_transaction().run()?;
            match body(self) {
                Ok(value) if !self.in_transaction() => return Ok(value),
                Ok(value) => match self.commit_known(&retries) {
                    Committed::Yes => return Ok(value),
                    Committed::Again => {}
                    Committed::Failed(error) => return Err(error),
                },
                Err(error) => {
                    if self.in_transaction() {
                        // The error of the body says more than that of an abort.
                        let _ = self.abort_transaction().run();
                    }
                    if !retries.again(&error) {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(retries.pause());
        }
    }

    /// Commits, again and again while the result is unknown.
    fn commit_known(&mut self, retries: &Retries) -> Committed {
        loop {
            if let Some(outcome) = retries.outcome(self.commit_transaction().run()) {
                return outcome;
            }
        }
    }
}

/// The outcome of a commit.
pub(super) enum Committed {
    Yes,
    /// The whole transaction runs again.
    Again,
    Failed(Error),
}

/// The repetitions of one transaction.
pub(super) struct Retries {
    until: Instant,
    pause: Duration,
}

impl Retries {
    pub(super) fn new() -> Retries {
        Retries { until: Instant::now() + RETRY_TIME, pause: PAUSE_FIRST }
    }

    fn have_time(&self) -> bool {
        Instant::now() < self.until
    }

    /// Whether a transaction that failed runs again.
    pub(super) fn again(&self, error: &Error) -> bool {
        error.contains_label(TRANSIENT) && self.have_time()
    }

    /// The pause before the next repetition: random, and longer each time, so that two that
    /// conflict meet less and less.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.pause.mul_f64(fastrand::f64());
        self.pause = self.pause.mul_f32(1.5).min(PAUSE_MAX);
        pause
    }

    /// What the result of a commit means; `None` to send it again.
    pub(super) fn outcome(&self, result: Result<()>) -> Option<Committed> {
        let Err(error) = result else { return Some(Committed::Yes) };
        // A commit whose time limit has passed is not sent again: it would take it once more.
        if !self.have_time() || error.code() == Code::MAX_TIME_MS_EXPIRED {
            return Some(Committed::Failed(error));
        }
        if error.contains_label(UNKNOWN_COMMIT) {
            return None;
        }
        if error.contains_label(TRANSIENT) {
            return Some(Committed::Again);
        }
        Some(Committed::Failed(error))
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        // If one of these fails, the database has been closed, and with it the session.
        if self.phase() == Phase::Running {
            let _ = self.abort_transaction().run();
        }
        let _ = self.link.run(doc! {"endSessions": [self.id()]});
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("id", &self.id())
            .field("transaction", &self.phase())
            .finish_non_exhaustive()
    }
}

/// A transaction to begin; made by
/// [`ClientSession::start_transaction`](crate::ClientSession::start_transaction).
#[must_use = "nothing happens until `run` is called"]
pub struct StartTransaction<'a> {
    session: &'a mut ClientSession,
    options: TransactionOptions,
}

impl<'a> StartTransaction<'a> {
    /// Sets the read concern: `doc! {"level": "snapshot"}`.
    pub fn read_concern(mut self, read_concern: Document) -> Self {
        self.options.read_concern = Some(read_concern);
        self
    }

    /// Sets the write concern of the commit. By default the commit returns when it is durable.
    pub fn write_concern(mut self, write_concern: Document) -> Self {
        self.options.commit.write_concern = Some(write_concern);
        self
    }

    /// Sets a time limit for the commit.
    pub fn max_commit_time(mut self, limit: Duration) -> Self {
        self.options.commit.max_time = Some(limit);
        self
    }

    /// Begins the transaction.
    ///
    /// # Errors
    /// BadValue (2) when the session has an open transaction.
    pub fn run(self) -> Result<()> {
        self.session.begin(self.options)
    }

    /// The session and the options.
    #[cfg(feature = "async")]
    pub(super) fn into_parts(self) -> (&'a mut ClientSession, TransactionOptions) {
        (self.session, self.options)
    }
}

/// A commit; made by
/// [`ClientSession::commit_transaction`](crate::ClientSession::commit_transaction).
#[must_use = "nothing happens until `run` is called"]
pub struct CommitTransaction {
    link: Link,
    options: CommitOptions,
}

impl CommitTransaction {
    /// Commits the transaction.
    ///
    /// # Errors
    /// With the label `TransientTransactionError` nothing was written, and the whole transaction
    /// can be run again; with `UnknownTransactionCommitResult` the commit can be sent again.
    pub fn run(self) -> Result<()> {
        let Some(mut command) = self.link.session().map(Turn::commit).transpose()?.flatten() else {
            return Ok(());
        };
        if let Some(write_concern) = self.options.write_concern {
            command.insert("writeConcern", write_concern);
        }
        if let Some(limit) = self.options.max_time {
            command.insert("maxTimeMS", time_limit(limit));
        }
        let result = self.link.run(command).and_then(|reply| failure::check(reply.as_doc()));
        result.map(drop).map_err(|error| match error.code() {
            Code::MAX_TIME_MS_EXPIRED | Code::WRITE_CONCERN_TIMEOUT => {
                error.with_label(UNKNOWN_COMMIT)
            }
            _ => error,
        })
    }
}

/// An abort; made by [`ClientSession::abort_transaction`](crate::ClientSession::abort_transaction).
#[must_use = "nothing happens until `run` is called"]
pub struct AbortTransaction {
    link: Link,
}

impl AbortTransaction {
    /// Aborts the transaction. It is no error if it had ended already because a statement failed.
    ///
    /// # Errors
    /// BadValue (2) when there is no open transaction.
    pub fn run(self) -> Result<()> {
        let command = self.link.session().map(Turn::abort).transpose()?.flatten();
        match command.map(|command| self.link.run(command)) {
            Some(Err(error)) if error.code() != Code::NO_SUCH_TRANSACTION => Err(error),
            _ => Ok(()),
        }
    }
}
