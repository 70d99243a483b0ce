//! `ping`: answers, and that is all.

use super::Command;
use super::in_transaction;
use super::row::{Required, StableApi, Transactions};

pub(super) static COMMAND: Command = Command {
    name: "ping",
    help: "Answers.",
    fields: Some(&["ping"]),
    privilege: Required::Nothing,
    transactions: Transactions::RefusedBecause(in_transaction::NOT_SUPPORTED),
    stable_api: StableApi::Included,
    run: |_, _| Ok(()),
    ..Command::BASE
};
