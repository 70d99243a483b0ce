//! `lockInfo`: lists the locks that operations wait for. There are none.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "lockInfo",
    help: "Lists the locks that operations wait for. There are none.",
    fields: Some(&["lockInfo", "includeStorageEngineDump"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ServerStatus]),
    run: lock_info,
    ..Command::BASE
};

fn lock_info(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.array("lockInfo", |_| {});
    Ok(())
}
