//! The row of a command: all that the rest of the engine needs to know about it.
//!
//! A row begins with what it does and ends with `..Command::BASE`, so that it names only what is not
//! the default. What a fact means, and the type of its values, belongs to the module that uses it.

use super::Context;
pub(super) use super::explain::Explain;
pub(super) use super::in_transaction::Transactions;
pub(super) use super::read_concern::ReadConcerns;
pub(super) use super::stable_api::StableApi;
pub(super) use crate::access::Required;
pub(super) use crate::operation::NamedIn;
pub(super) use crate::upkeep::reading::Reads;
pub(super) use crate::usage::Kind;
use value::{Error, Result, Writer};

/// A command that clients can send, and what is to be known about it.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Whether upper and lower case are the same in its name.
    pub any_case: bool,
    /// What it does, in one sentence; `listCommands` shows it.
    pub help: &'static str,
    /// The fields it takes beside the generic ones; `None` when unknown ones are ignored.
    pub fields: Option<&'static [&'static str]>,
    /// Runs on the `admin` database only.
    pub admin: bool,
    /// Answered only with `--test-commands`. Fail points never concern it.
    pub test: bool,

    /// What a client needs to be allowed to run it. Asked only where clients must log in.
    pub(crate) privilege: Required,
    /// Whether a client on this machine may run it on `admin` without a login while there is no user.
    pub(crate) first_user: bool,
    /// Whether it logs in or is about users. Its fields are then shown to nobody, neither in
    /// `$currentOp` nor in the profile, and it may run on the database `$external`.
    pub(crate) credentials: bool,
    /// Whether it may remove the documents of users or roles without writing to them: rights are looked
    /// up again after it.
    pub(crate) removes_users: bool,

    /// Whether it runs in multi-document transactions.
    pub(crate) transactions: Transactions,
    /// Whether it is a retryable write: takes a transaction number without being in a transaction.
    pub(crate) retryable: bool,
    /// Whether it is part of version 1 of the stable API.
    pub(crate) stable_api: StableApi,
    /// The read concerns that it supports.
    pub(crate) read_concern: ReadConcerns,
    /// What it reads of the values that patterns maintain.
    pub(crate) reads: Reads,
    /// How `explain` explains it.
    pub(crate) explain: Explain,
    /// Whether it applies `maxTimeMS` itself, because that limits a wait and not the command.
    pub(crate) limits_itself: bool,

    /// How its time counts in `top`, `$collStats`, `$currentOp` and the profile.
    pub(crate) usage: Kind,
    /// Whether it has counters of its own, and so is not counted among `opcounters.command`.
    pub(crate) counts_itself: bool,
    /// Whether `$queryStats` counts it.
    pub(crate) query_stats: bool,
    /// Where it names the collection that it is about.
    pub(crate) namespace: NamedIn,
    /// Whether the log has a line for each run at the level `info`: it removes data, or changes what
    /// somebody may do or how the server runs.
    pub(crate) audited: bool,
    /// Whether the profiler and the log of slow operations may note it.
    pub(crate) profiled: bool,
    /// Whether it may wait for something to change. It is then never slow, and interrupted first when
    /// the server stops.
    pub(crate) waits: bool,
    /// Whether its reply must not be compressed: it is part of the handshake or carries a secret.
    pub(crate) uncompressed: bool,

    /// Runs it and writes its reply, without `ok`.
    pub run: fn(&mut Context<'_>, &mut Writer<'_>) -> Result<()>,
}

impl Command {
    /// What holds for a command whose row does not say otherwise. The defaults are the careful ones.
    pub(super) const BASE: Command = Command {
        name: "",
        aliases: &[],
        any_case: false,
        help: "",
        fields: Some(&[]),
        admin: false,
        test: false,
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
        query_stats: false,
        namespace: NamedIn::FirstField,
        audited: false,
        profiled: true,
        waits: false,
        uncompressed: false,
        run: |context, _| Err(Error::internal(format!("{} does nothing", context.name))),
    };
}

/// What a server needs to know about a command before it runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handling {
    /// Whether it only reads: useless once its client is gone.
    pub reads: bool,
    /// Whether it may wait for something to change on behalf of its client.
    pub waits: bool,
    /// Whether the reply may be compressed.
    pub compressible: bool,
}

/// How a server treats the command of this name. One that does not exist is treated as a write.
#[must_use]
pub fn handling(name: &str) -> Handling {
    match super::find(name) {
        Some(row) => {
            Handling { reads: row.usage.reads(), waits: row.waits, compressible: !row.uncompressed }
        }
        None => Handling { reads: false, waits: false, compressible: true },
    }
}
