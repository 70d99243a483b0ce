//! `replSetFreeze`: for secondaries, of which there are none.

use super::row::Required;
use super::{Command, replica_set};
use ::access::Action;

pub(super) static COMMAND: Command = Command {
    name: "replSetFreeze",
    help: "Answers that the only member is the primary.",
    fields: Some(&["replSetFreeze"]),
    privilege: Required::Cluster(&[Action::ReplSetStateChange]),
    admin: true,
    run: |context, _| {
        replica_set::refuse_as_primary(context, "the primary cannot be kept from elections")
    },
    ..Command::BASE
};
