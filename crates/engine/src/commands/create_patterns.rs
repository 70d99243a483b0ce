//! `createPatterns`: declares patterns: values that the database maintains.

use super::Command;
use super::patterns::{create, may_declare_all};
use super::row::Required;

pub(super) static COMMAND: Command = Command {
    name: "createPatterns",
    help: "Declares patterns: values that the database maintains.",
    fields: Some(&["createPatterns", "patterns", "existing", "dryRun", "wait"]),
    hints: true,
    privilege: Required::Custom(may_declare_all),
    run: create,
    ..Command::BASE
};
