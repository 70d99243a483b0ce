//! `connPoolStats`: returns outgoing connections to other servers. There are none.

use super::row::Required;
use super::{Command, Context};
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "connPoolStats",
    help: "Returns outgoing connections to other servers. There are none.",
    fields: Some(&["connPoolStats"]),
    privilege: Required::Cluster(&[Action::ConnPoolStats]),
    run: pool_stats,
    ..Command::BASE
};

fn pool_stats(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    for name in [
        "numClientConnections",
        "numAScopedConnections",
        "totalInUse",
        "totalAvailable",
        "totalCreated",
        "totalRefreshing",
    ] {
        out.i32(name, 0);
    }
    out.doc("pools", |_| {}).doc("hosts", |_| {}).doc("replicaSets", |_| {});
    Ok(())
}
