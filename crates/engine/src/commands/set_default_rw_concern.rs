//! `setDefaultRWConcern`: says how reads and writes are acknowledged when a command does not say.

use super::Command;
use super::default_concerns::set;
use super::row::Required;
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "setDefaultRWConcern",
    help: "Says how reads and writes are acknowledged when a command does not say.",
    fields: Some(&["setDefaultRWConcern", "defaultReadConcern", "defaultWriteConcern"]),
    admin: true,
    privilege: Required::Cluster(&[Action::SetDefaultRWConcern]),
    run: set,
    ..Command::BASE
};
