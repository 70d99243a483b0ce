//! `ping`: answers, and that is all.

use super::Command;

pub(super) static COMMAND: Command = Command {
    name: "ping",
    aliases: &[],
    help: "Answers.",
    fields: Some(&["ping"]),
    admin: false,
    test: false,
    run: |_, _| Ok(()),
};
