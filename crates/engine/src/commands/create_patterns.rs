//! `createPatterns`: declares values that the database keeps right.

use super::Command;
use super::patterns::{create, may_declare_all};
use super::row::Required;

pub(super) static COMMAND: Command = Command {
    name: "createPatterns",
    help: "Declares values that the database keeps right.",
    fields: Some(&["createPatterns", "patterns", "wait"]),
    privilege: Required::Custom(may_declare_all),
    run: create,
    ..Command::BASE
};
