//! `getDiagnosticData`: returns serverStatus with the times at which it was collected.

use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "getDiagnosticData",
    help: "Returns serverStatus with the times at which it was collected.",
    fields: Some(&["getDiagnosticData"]),
    admin: true,
    privilege: Required::Custom(may_read_diagnostics),
    run: diagnostic_data,
    ..Command::BASE
};

fn diagnostic_data(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let started = crate::clock::now_ms();
    let mut failure = None;
    out.doc("data", |out| {
        out.append("start", Val::DateTime(started));
        out.doc("serverStatus", |out| {
            out.append("start", Val::DateTime(crate::clock::now_ms()));
            failure = (super::server_status::COMMAND.run)(context, out).err();
            out.append("end", Val::DateTime(crate::clock::now_ms()));
        });
        out.append("end", Val::DateTime(crate::clock::now_ms()));
    });
    failure.map_or(Ok(()), Err)
}

fn may_read_diagnostics(auth: &Authorization<'_>) -> bool {
    auth.on_cluster(&[Action::ServerStatus, Action::ReplSetGetStatus])
        && auth.on_namespace("local.oplog.rs", &[Action::CollStats])
}
