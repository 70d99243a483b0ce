//! `getDefaultRWConcern`: returns the default read and write concerns.

use super::Command;
use super::default_concerns::get;
use super::row::Required;
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "getDefaultRWConcern",
    help: "Returns the default read and write concerns.",
    fields: Some(&["getDefaultRWConcern", "inMemory"]),
    admin: true,
    privilege: Required::Cluster(&[Action::GetDefaultRWConcern]),
    run: get,
    ..Command::BASE
};
