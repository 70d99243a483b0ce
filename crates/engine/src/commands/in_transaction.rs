//! What the rules of transactions ask of a command: the fields that place it in one, which
//! commands run there, and the labels that tell drivers what to do about an error.

use super::Command;
use crate::session;
use value::{Code, Error, RawDoc, Result, Val};

/// Where a command stands in the transactions of its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The number of the transaction.
    pub(super) number: i64,
    /// Whether the command begins it.
    pub(super) start: bool,
}

/// Commands that run in transactions, sorted.
static ALLOWED: &[&str] = &[
    "abortTransaction",
    "aggregate",
    "bulkWrite",
    "commitTransaction",
    "create",
    "createIndexes",
    "delete",
    "distinct",
    "find",
    "findAndModify",
    "getMore",
    "insert",
    "killCursors",
    "update",
];

/// Commands that may carry a transaction number without being in a transaction.
static RETRYABLE: &[&str] = &["bulkWrite", "delete", "findAndModify", "insert", "update"];

/// Codes that say: the server goes away, or is not the one that writes; try again elsewhere.
static RETRYABLE_CODES: &[i32] =
    &[6, 7, 89, 91, 134, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436];

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::INVALID_OPTIONS, message))
}

fn not_there<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message))
}

impl Place {
    /// Reads `txnNumber`, `autocommit` and `startTransaction`.
    ///
    /// # Errors
    /// InvalidOptions, TypeMismatch, NotARetryableWriteCommand.
    pub(super) fn of(
        command: &Command,
        body: RawDoc<'_>,
        session: Option<[u8; 16]>,
    ) -> Result<Option<Place>> {
        let flag = |name: &str| match body.get(name) {
            None => Ok(None),
            Some(Val::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(Error::type_mismatch(format!(
                "BSON field 'OperationSessionInfo.{name}' is the wrong type '{}', expected type \
                 'bool'",
                other.kind().name()
            ))),
        };
        let number = session::number_of(body, session)?;
        let (autocommit, start) = (flag("autocommit")?, flag("startTransaction")?);
        if autocommit.is_some() && number.is_none() {
            return refuse("'autocommit' field requires a transaction number to also be specified");
        }
        if autocommit == Some(true) {
            return refuse("Specifying autocommit=true is not allowed.");
        }
        if start.is_some() && autocommit.is_none() {
            return refuse(
                "'startTransaction' field requires 'autocommit' field to also be specified",
            );
        }
        if start == Some(false) {
            return refuse("Specifying startTransaction=false is not allowed.");
        }
        let Some(number) = number else { return Ok(None) };
        if autocommit.is_some() {
            return Ok(Some(Place { number, start: start.is_some() }));
        }
        if !RETRYABLE.contains(&command.name) {
            return Err(Error::new(
                Code(50768),
                format!(
                    "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and {} is not a retryable write command.",
                    command.name
                ),
            ));
        }
        Ok(None)
    }

    /// Refuses commands and fields that have no place in a transaction. The transaction goes on.
    ///
    /// # Errors
    /// OperationNotSupportedInTransaction, InvalidOptions.
    pub(super) fn check(&self, command: &Command, body: RawDoc<'_>, db: &str) -> Result<()> {
        let ends = ends(command.name);
        if ALLOWED.binary_search(&command.name).is_err() {
            return match command.name {
                "count" => not_there(
                    "Cannot run 'count' in a multi-document transaction. Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative.",
                ),
                "hello" | "isMaster" | "ping" | "buildInfo" | "connectionStatus" => {
                    not_there("This command is not supported in transactions")
                }
                name => not_there(format!("Cannot run '{name}' in a multi-document transaction.")),
            };
        }
        match db {
            "local" => {
                return not_there(
                    "Cannot run command against the 'local' database in a transaction.",
                );
            }
            "config" => {
                return not_there(
                    "Cannot run command against the config database in a transaction.",
                );
            }
            _ => {}
        }
        if self.start && ends {
            let what = if command.name == "commitTransaction" { "a commit" } else { "an abort" };
            return not_there(format!("Cannot start a transaction with {what}"));
        }
        if self.start && matches!(command.name, "getMore" | "killCursors") {
            return not_there(format!(
                "Cannot run {} as the first command of a transaction",
                command.name
            ));
        }
        if !ends && body.find("writeConcern").is_some() {
            return refuse("writeConcern is not allowed within a multi-statement transaction");
        }
        if !self.start && body.find("readConcern").is_some() {
            return refuse("Only the first command in a transaction may specify a readConcern");
        }
        Ok(())
    }
}

/// Whether a command ends transactions.
pub(super) fn ends(command: &str) -> bool {
    matches!(command, "commitTransaction" | "abortTransaction")
}

/// Adds the labels that an error has in a transaction.
pub(super) fn label(error: Error, command: &str) -> Error {
    let code = error.code();
    let transient = match code {
        Code::WRITE_CONFLICT
        | Code::LOCK_TIMEOUT
        | Code::PREPARED_TRANSACTION_IN_PROGRESS
        | Code::SNAPSHOT_TOO_OLD
        | Code::SNAPSHOT_UNAVAILABLE
        | Code::NO_SUCH_TRANSACTION => true,
        _ => !ends(command) && RETRYABLE_CODES.contains(&code.0),
    };
    if transient {
        return error.with_label("TransientTransactionError");
    }
    if ends(command) && RETRYABLE_CODES.contains(&code.0) {
        return error.with_label("RetryableWriteError");
    }
    error
}
