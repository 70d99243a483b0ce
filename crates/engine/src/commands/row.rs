//! The row of a command: all facts that the engine needs to know about it.
//!
//! A row names only the facts that differ from the defaults in `Command::BASE`. The type of a fact
//! is defined in the module that uses it.

use super::Context;
pub(super) use super::explain::Explain;
pub(super) use super::in_transaction::Transactions;
pub(super) use super::read_concern::ReadConcerns;
pub(super) use super::stable_api::StableApi;
pub(super) use crate::access::Required;
pub(super) use crate::operation::NamedIn;
use crate::options::Options;
pub(super) use crate::upkeep::reading::Reads;
pub(super) use crate::usage::Kind;
use value::{Code, Error, Result, Writer};

/// A command that clients can send, with all facts about it.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its aliases.
    pub aliases: &'static [&'static str],
    /// Whether its name is case-insensitive.
    pub any_case: bool,
    /// What it does, in one sentence; `listCommands` shows it.
    pub help: &'static str,
    /// Its fields other than the generic ones; `None` when unknown fields are ignored.
    pub fields: Option<&'static [&'static str]>,
    /// Whether an unknown field is answered with the known ones. MongoDB's commands have its words.
    pub(crate) hints: bool,
    /// Whether its collection may be named by UUID.
    pub(crate) by_uuid: bool,
    /// Runs on the `admin` database only.
    pub admin: bool,
    /// Available only with `--test-commands`. Fail points do not apply to it.
    pub test: bool,

    /// Available only with `--javascript`.
    pub(crate) javascript: bool,

    /// The privileges that a client needs. Checked only if clients must log in.
    pub(crate) privilege: Required,
    /// Whether a client on localhost may run it on `admin` without a login while there are no
    /// users.
    pub(crate) first_user: bool,
    /// Whether it logs in or is about users. Its fields are then hidden in `$currentOp` and in the
    /// profile, and it may run on the database `$external`.
    pub(crate) credentials: bool,
    /// Whether it may remove the documents of users or roles indirectly; the cached rights are
    /// refreshed after it.
    pub(crate) removes_users: bool,

    /// Whether it runs in multi-document transactions.
    pub(crate) transactions: Transactions,
    /// Whether it is a retryable write: it may have a transaction number outside a transaction.
    pub(crate) retryable: bool,
    /// Whether it is part of version 1 of the stable API.
    pub(crate) stable_api: StableApi,
    /// The read concerns that it supports.
    pub(crate) read_concern: ReadConcerns,
    /// How it reads the values that patterns maintain.
    pub(crate) reads: Reads,
    /// How `explain` explains it.
    pub(crate) explain: Explain,
    /// Whether it applies `maxTimeMS` itself, because there it limits a wait and not the command.
    pub(crate) limits_itself: bool,

    /// How its time is counted in `top`, `$collStats`, `$currentOp` and the profile.
    pub(crate) usage: Kind,
    /// Whether it has its own counters, and so is not counted in `opcounters.command`.
    pub(crate) counts_itself: bool,
    /// Whether it takes updates; those with `arrayFilters` and by pipelines are counted.
    pub(crate) takes_updates: bool,
    /// Whether `$queryStats` counts it.
    pub(crate) query_stats: bool,
    /// Which field names its collection.
    pub(crate) namespace: NamedIn,
    /// The error code when that name is not a string.
    pub(crate) mistyped_name: Code,
    /// Whether a `writeConcern` is an error.
    pub(crate) refuses_write_concern: bool,
    /// Whether each run is logged at the level `info`: it removes data, or changes privileges or
    /// settings.
    pub(crate) audited: bool,
    /// Whether the profiler and the log of slow operations record it.
    pub(crate) profiled: bool,
    /// Whether it may wait for a change. It is then never logged as slow, and is interrupted first
    /// when the server stops.
    pub(crate) waits: bool,
    /// Whether its reply must not be compressed: it is part of the handshake or contains a secret.
    pub(crate) uncompressed: bool,

    /// Runs it and writes its reply, without `ok`.
    pub run: fn(&mut Context<'_>, &mut Writer<'_>) -> Result<()>,
}

impl Command {
    /// The defaults of a row. They are the most restrictive ones.
    pub(super) const BASE: Command = Command {
        name: "",
        aliases: &[],
        any_case: false,
        help: "",
        fields: Some(&[]),
        hints: false,
        by_uuid: false,
        admin: false,
        test: false,
        javascript: false,
        privilege: Required::Everything,
        first_user: false,
        credentials: false,
        removes_users: false,
        transactions: Transactions::Refused,
        retryable: false,
        stable_api: StableApi::Excluded,
        read_concern: ReadConcerns::Local,
        reads: Reads::Nothing,
        explain: Explain::Refused,
        limits_itself: false,
        usage: Kind::Command,
        counts_itself: false,
        takes_updates: false,
        query_stats: false,
        namespace: NamedIn::FirstField,
        mistyped_name: Code::BAD_VALUE,
        refuses_write_concern: false,
        audited: false,
        profiled: true,
        waits: false,
        uncompressed: false,
        run: |context, _| Err(Error::internal(format!("{} does nothing", context.name))),
    };
}

impl Command {
    /// Whether a server with these options has it.
    #[must_use]
    pub(crate) fn is_available(&self, options: &Options) -> bool {
        (!self.test || options.test_commands) && (!self.javascript || options.javascript)
    }
}

/// The facts about a command that a server needs before it runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handling {
    /// Whether it only reads, so that it can be stopped when its client disconnects.
    pub reads: bool,
    /// Whether it may wait for a change.
    pub waits: bool,
    /// Whether the reply may be compressed.
    pub compressible: bool,
}

/// Returns these facts for the command of this name. An unknown one is treated as a write.
#[must_use]
pub fn handling(name: &str) -> Handling {
    match super::find(name) {
        Some(row) => {
            Handling { reads: row.usage.reads(), waits: row.waits, compressible: !row.uncompressed }
        }
        None => Handling { reads: false, waits: false, compressible: true },
    }
}
