//! Small commands that tell something of the server: `features`, `lockInfo`, `getDiagnosticData` and
//! `whatsmysni`; and `compact`, whose work the store does all the time by itself.

use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use ::access::Action;
use value::{Code, Error, ObjectId, Result, Val, Writer};

pub(super) static COMPACT: Command = Command {
    name: "compact",
    help: "Gives back space of a collection, which happens by itself: nothing is left to free.",
    fields: Some(&["compact", "force", "dryRun", "freeSpaceTargetMB"]),
    privilege: Required::Collection(&[Action::Compact]),
    run: compact,
    ..Command::BASE
};

pub(super) static DIAGNOSTIC_DATA: Command = Command {
    name: "getDiagnosticData",
    help: "Returns what serverStatus says, with the times at which it was taken.",
    fields: Some(&["getDiagnosticData"]),
    admin: true,
    privilege: Required::Custom(may_read_diagnostics),
    run: diagnostic_data,
    ..Command::BASE
};

pub(super) static FEATURES: Command = Command {
    name: "features",
    help: "Returns the part of made-up ObjectIds that stands for this process.",
    fields: Some(&["features", "oidReset"]),
    privilege: Required::Login,
    run: features,
    ..Command::BASE
};

pub(super) static LOCK_INFO: Command = Command {
    name: "lockInfo",
    help: "Lists locks that operations wait for, of which there are none.",
    fields: Some(&["lockInfo", "includeStorageEngineDump"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ServerStatus]),
    run: lock_info,
    ..Command::BASE
};

pub(super) static WHATS_MY_SNI: Command = Command {
    name: "whatsmysni",
    help: "Tells by what name a client called the server in TLS: by none.",
    fields: Some(&["whatsmysni"]),
    admin: true,
    privilege: Required::Nothing,
    run: whats_my_sni,
    ..Command::BASE
};

fn compact(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    if !context.args.bool("force")? {
        return Err(Error::bad_value(
            "will not run compact on an active replica set primary as this is a slow blocking \
             operation. use force:true to force",
        ));
    }
    match context.engine.data.collection(context.db, name) {
        None => Err(Error::new(Code::NAMESPACE_NOT_FOUND, "collection does not exist")),
        Some(view) if view.view().is_some() => {
            Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "can't compact a view"))
        }
        Some(_) => {
            out.i32("bytesFreed", 0);
            Ok(())
        }
    }
}

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

fn features(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    // After the time come five bytes that are the same in all of a process; MongoDB shows three.
    let id = ObjectId::generate().0;
    let machine = id.iter().skip(4).take(3).fold(0_i32, |n, byte| n << 8 | i32::from(*byte));
    out.i32("oidMachine", machine);
    Ok(())
}

fn lock_info(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.array("lockInfo", |_| {});
    Ok(())
}

fn whats_my_sni(_: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    out.bool("sni", false);
    Ok(())
}

fn may_read_diagnostics(auth: &Authorization<'_>) -> bool {
    auth.on_cluster(&[Action::ServerStatus, Action::ReplSetGetStatus])
        && auth.on_namespace("local.oplog.rs", &[Action::CollStats])
}
