//! `getDefaultRWConcern`: tells how reads and writes are acknowledged when a command does not say.

use super::Command;
use super::default_concerns::get;
use super::row::Required;
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "getDefaultRWConcern",
    help: "Tells how reads and writes are acknowledged when a command does not say.",
    fields: Some(&["getDefaultRWConcern", "inMemory"]),
    admin: true,
    privilege: Required::Cluster(&[Action::GetDefaultRWConcern]),
    run: get,
    ..Command::BASE
};
