//! `replSetGetConfig`: returns the configuration of the replica set.

use super::hello::{SET_NAME, address};
use super::row::Required;
use super::{Command, Context};
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
    out.doc("config", |out| {
        out.str("_id", SET_NAME).i32("version", 1).i64("term", 1);
        out.array("members", |members| {
            members.push_doc(|out| {
                out.i32("_id", 0).str("host", address(context));
                out.bool("arbiterOnly", false).bool("buildIndexes", true).bool("hidden", false);
                out.f64("priority", 1.0).doc("tags", |_| {});
                out.i64("secondaryDelaySecs", 0).i32("votes", 1);
            });
        });
        out.i64("protocolVersion", 1).bool("writeConcernMajorityJournalDefault", true);
        out.doc("settings", |_| {});
    });
    Ok(())
}
