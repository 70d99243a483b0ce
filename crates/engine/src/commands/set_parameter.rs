//! `setParameter`: changes settings of the running server.

use super::Command;
use super::parameters::set;
use super::row::Required;
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "setParameter",
    help: "Changes settings of the running server.",
    fields: None,
    admin: true,
    privilege: Required::Cluster(&[Action::SetParameter]),
    audited: true,
    run: set,
    ..Command::BASE
};
