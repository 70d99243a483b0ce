//! `isMaster`: the old name of hello.

use super::Command;
use super::hello::run;
use super::in_transaction;
use super::row::{Required, Transactions};

pub(super) static COMMAND: Command = Command {
    name: "isMaster",
    aliases: &["ismaster"],
    help: "The old name of hello.",
    fields: None,
    privilege: Required::Nothing,
    transactions: Transactions::RefusedBecause(in_transaction::NOT_SUPPORTED),
    waits: true,
    uncompressed: true,
    any_case: true,
    run: |context, out| run(context, out, "ismaster"),
    ..Command::BASE
};
