//! `ping`: replies with `ok`.

use super::Command;
use super::in_transaction;
use super::row::{Required, StableApi, Transactions};

pub(super) static COMMAND: Command = Command {
    name: "ping",
    help: "Checks that the server responds.",
    fields: Some(&["ping"]),
    privilege: Required::Nothing,
    transactions: Transactions::RefusedBecause(in_transaction::NOT_SUPPORTED),
    stable_api: StableApi::Included,
    profiled: false,
    run: |_, _| Ok(()),
    ..Command::BASE
};
