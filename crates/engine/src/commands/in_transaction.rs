//! The rules of multi-document transactions: the fields that make a command a statement of one,
//! what is refused there, and the error labels for drivers. The row of a command says whether it
//! runs in transactions.

use super::Command;
use super::row::Kind;
use crate::args::Args;
use crate::session;
use value::{Code, Error, RawDoc, RawVal, Result, Val};

/// The rules of multi-document transactions for a command; part of its row.
#[derive(Clone, Copy)]
pub(crate) enum Transactions {
    /// It does not run in transactions.
    Refused,
    /// It does not run in transactions, with this error message.
    RefusedBecause(&'static str),
    /// It runs in transactions.
    Allowed,
    /// It runs in transactions, but not on collections of the system.
    AllowedForUsers,
    /// It runs in transactions, but not as their first statement.
    NotFirst,
    /// It ends a transaction, in the way that is named here.
    Ends(&'static str),
}

impl Transactions {
    /// Whether the command ends transactions.
    pub(super) fn ends(self) -> bool {
        matches!(self, Transactions::Ends(_))
    }
}

/// Why commands about the connection do not run in transactions.
pub(super) const NOT_SUPPORTED: &str = "This command is not supported in transactions";

/// The fields of a command that make it a statement of a multi-document transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    /// The number of the transaction.
    pub(super) number: i64,
    /// Whether it begins the transaction.
    pub(super) start: bool,
}

/// Error codes for a server that is shutting down or is not the primary; drivers retry.
static RETRYABLE_CODES: &[i32] =
    &[6, 7, 89, 91, 134, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436];

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::INVALID_OPTIONS, message))
}

fn not_supported<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message))
}

impl Statement {
    /// Reads `txnNumber`, `autocommit` and `startTransaction`.
    ///
    /// # Errors
    /// InvalidOptions, TypeMismatch, NotARetryableWriteCommand.
    pub(super) fn parse(
        command: &Command,
        args: &Args<'_>,
        session: Option<[u8; 16]>,
    ) -> Result<Option<Statement>> {
        let flag = |name: &str| match args.find(name).map(RawVal::get) {
            None => Ok(None),
            Some(Val::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(Error::type_mismatch(format!(
                "BSON field 'OperationSessionInfo.{name}' is the wrong type '{}', expected type \
                 'bool'",
                other.kind().name()
            ))),
        };
        let number = session::number_of(args, session)?;
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
            return Ok(Some(Statement { number, start: start.is_some() }));
        }
        if !command.retryable {
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

    /// Refuses commands and fields that are not supported in a transaction. The transaction stays open.
    ///
    /// # Errors
    /// OperationNotSupportedInTransaction, InvalidOptions.
    pub(super) fn check(&self, command: &Command, body: RawDoc<'_>, db: &str) -> Result<()> {
        let rules = command.transactions;
        match rules {
            Transactions::Refused => {
                return not_supported(format!(
                    "Cannot run '{}' in a multi-document transaction.",
                    command.name
                ));
            }
            Transactions::RefusedBecause(reason) => return not_supported(reason),
            Transactions::Allowed
            | Transactions::AllowedForUsers
            | Transactions::NotFirst
            | Transactions::Ends(_) => {}
        }
        match db {
            "local" => {
                return not_supported(
                    "Cannot run command against the 'local' database in a transaction.",
                );
            }
            "config" => {
                return not_supported(
                    "Cannot run command against the config database in a transaction.",
                );
            }
            _ => {}
        }
        check_system(command, body, db)?;
        match rules {
            Transactions::Ends(what) if self.start => {
                return not_supported(format!("Cannot start a transaction with {what}"));
            }
            Transactions::NotFirst if self.start => {
                return not_supported(format!(
                    "Cannot run {} as the first command of a transaction",
                    command.name
                ));
            }
            _ => {}
        }
        if !rules.ends() && body.find("writeConcern").is_some() {
            return refuse("writeConcern is not allowed within a multi-statement transaction");
        }
        if !self.start && body.find("readConcern").is_some() {
            return refuse("Only the first command in a transaction may specify a readConcern");
        }
        Ok(())
    }
}

/// Refuses read concerns other than `local` for a command that makes collections or indexes.
///
/// # Errors
/// InvalidOptions.
pub(super) fn refuse_snapshot(args: &Args<'_>) -> Result<()> {
    let level = args.get("readConcern").and_then(Val::as_doc).and_then(|doc| doc.get("level"));
    match level {
        Some(Val::String(level @ ("snapshot" | "majority"))) => refuse(format!(
            "{} does not support the read concern '{level}' in a transaction",
            args.place
        )),
        _ => Ok(()),
    }
}

/// Refuses system collections.
fn check_system(command: &Command, body: RawDoc<'_>, db: &str) -> Result<()> {
    let name = body.first().and_then(|(_, name)| name.get().as_str()).unwrap_or("");
    if !name.starts_with("system.") {
        return Ok(());
    }
    match command.usage {
        _ if name == "system.profile"
            || matches!(command.transactions, Transactions::AllowedForUsers) =>
        {
            not_supported(format!(
                "Cannot run command against the '{db}.{name}' collection in a transaction."
            ))
        }
        _ if name == "system.views" => Err(Error::new(
            Code(51071),
            "Cannot read from a system collection of views in a transaction",
        )),
        Kind::Insert | Kind::Update | Kind::Remove => Err(Error::new(
            Code(50791),
            format!("Cannot write to system collection {db}.{name} within a transaction."),
        )),
        _ => Ok(()),
    }
}

/// Adds the labels that an error has in a transaction.
pub(super) fn label(error: Error, rules: Transactions) -> Error {
    let code = error.code();
    let transient = match code {
        Code::WRITE_CONFLICT
        | Code::LOCK_TIMEOUT
        | Code::PREPARED_TRANSACTION_IN_PROGRESS
        | Code::SNAPSHOT_TOO_OLD
        | Code::SNAPSHOT_UNAVAILABLE
        | Code::NO_SUCH_TRANSACTION => true,
        _ => !rules.ends() && RETRYABLE_CODES.contains(&code.0),
    };
    if transient {
        return error.with_label("TransientTransactionError");
    }
    if rules.ends() && RETRYABLE_CODES.contains(&code.0) {
        return error.with_label("RetryableWriteError");
    }
    error
}
