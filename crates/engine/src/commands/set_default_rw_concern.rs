//! `setDefaultRWConcern`: sets the default read and write concerns.

use super::Command;
use super::default_concerns::set;
use super::row::Required;
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "setDefaultRWConcern",
    help: "Sets the default read and write concerns.",
    fields: Some(&["setDefaultRWConcern", "defaultReadConcern", "defaultWriteConcern"]),
    admin: true,
    privilege: Required::Cluster(&[Action::SetDefaultRWConcern]),
    run: set,
    ..Command::BASE
};
