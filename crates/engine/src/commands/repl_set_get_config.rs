//! `replSetGetConfig`: returns the configuration of the replica set.

use super::row::Required;
use super::{Command, Context, replica_set};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "replSetGetConfig",
    help: "Returns the configuration of the replica set.",
    fields: Some(&["replSetGetConfig", "commitmentStatus"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ReplSetGetConfig]),
    run: get_config,
    ..Command::BASE
};

fn get_config(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    replica_set::check(context)?;
    out.doc("config", |out| replica_set::write_config(context, out));
    Ok(())
}
