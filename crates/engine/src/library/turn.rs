//! The state of a session that its commands share: its identifier, and how far its transaction is.
//!
//! A command of a transaction carries the number of the transaction, and the first one starts it.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use parking_lot::Mutex;
use value::{Error, Result};

/// A session.
pub(super) struct Turn {
    id: [u8; 16],
    transaction: Mutex<Transaction>,
}

/// The newest transaction of a session.
#[derive(Default)]
struct Transaction {
    number: i64,
    phase: Phase,
    /// The read concern, which the first statement carries.
    read_concern: Option<Document>,
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// None was begun.
    #[default]
    None,
    /// Begun here; no statement was sent.
    Starting,
    /// Statements were sent.
    Running,
    /// Committed without a statement: there was nothing to send.
    CommittedEmpty,
    /// The commit was sent.
    Committed,
    /// The abort was sent, or there was nothing to abort.
    Aborted,
}

impl Phase {
    /// Whether statements belong to a transaction.
    fn is_open(self) -> bool {
        matches!(self, Phase::Starting | Phase::Running)
    }
}

impl Turn {
    pub(super) fn new() -> Turn {
        let id = bson::Uuid::new().bytes();
        Turn { id, transaction: Mutex::default() }
    }

    /// The session's identifier, as `lsid` has it.
    pub(super) fn id(&self) -> Document {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: self.id.to_vec() };
        doc! {"id": Bson::Binary(id)}
    }

    pub(super) fn phase(&self) -> Phase {
        self.transaction.lock().phase
    }

    /// Adds the session's fields to a command. Inside a transaction the write concern is that of
    /// the commit.
    pub(super) fn enter(&self, command: &mut Document) {
        command.insert("lsid", self.id());
        let transaction = self.transaction.lock();
        if !transaction.phase.is_open() || command.contains_key("killCursors") {
            return;
        }
        command.remove("writeConcern");
        command.insert("txnNumber", transaction.number);
        command.insert("autocommit", false);
        if transaction.phase == Phase::Starting {
            command.insert("startTransaction", true);
            if let Some(read_concern) = &transaction.read_concern {
                command.insert("readConcern", read_concern.clone());
            }
        }
    }

    /// Notes that a command with the session's fields is sent.
    pub(super) fn sent(&self, command: &Document) {
        if command.contains_key("startTransaction") {
            self.transaction.lock().phase = Phase::Running;
        }
    }

    /// Begins a transaction.
    pub(super) fn begin(&self, read_concern: Option<Document>) -> Result<()> {
        let mut transaction = self.transaction.lock();
        if transaction.phase.is_open() {
            return Err(Error::bad_value("the session has a transaction already"));
        }
        transaction.number += 1;
        transaction.phase = Phase::Starting;
        transaction.read_concern = read_concern;
        Ok(())
    }

    /// Takes the step to a commit. Returns the command to send, or none if nothing was written or
    /// read. A commit can be sent again.
    pub(super) fn commit(&self) -> Result<Option<Document>> {
        let mut transaction = self.transaction.lock();
        match transaction.phase {
            Phase::None => Err(Error::bad_value("the session has no transaction to commit")),
            Phase::Aborted => Err(Error::bad_value("the transaction was aborted")),
            Phase::Starting | Phase::CommittedEmpty => {
                transaction.phase = Phase::CommittedEmpty;
                Ok(None)
            }
            Phase::Running | Phase::Committed => {
                transaction.phase = Phase::Committed;
                Ok(Some(ending("commitTransaction", transaction.number)))
            }
        }
    }

    /// Takes the step to an abort. Returns the command to send, or none if nothing was sent.
    pub(super) fn abort(&self) -> Result<Option<Document>> {
        let mut transaction = self.transaction.lock();
        match transaction.phase {
            Phase::None => Err(Error::bad_value("the session has no transaction to abort")),
            Phase::Aborted => Err(Error::bad_value("the transaction was aborted already")),
            Phase::Committed | Phase::CommittedEmpty => {
                Err(Error::bad_value("the transaction was committed"))
            }
            Phase::Starting => {
                transaction.phase = Phase::Aborted;
                Ok(None)
            }
            Phase::Running => {
                transaction.phase = Phase::Aborted;
                Ok(Some(ending("abortTransaction", transaction.number)))
            }
        }
    }
}

/// The command that ends a transaction.
fn ending(name: &str, number: i64) -> Document {
    doc! {name: 1, "txnNumber": number, "autocommit": false}
}
