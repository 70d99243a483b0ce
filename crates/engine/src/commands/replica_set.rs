//! The replica set of which this server is the only member: its configuration, also as the document
//! of `local.system.replset`. The commands that would change it have files of their own.

use super::Context;
use super::hello::{address, election_id, set_name};
use crate::options::Topology;
use value::{Code, DocBuf, Error, Result, Val, Writer};

/// Refuses a command about the replica set where the server presents itself as a router.
///
/// # Errors
/// NoReplicationEnabled.
pub(super) fn check(context: &Context<'_>) -> Result<()> {
    match context.engine.data.options.topology {
        Topology::ReplicaSet => Ok(()),
        Topology::Router => Err(Error::new(
            Code(76),
            format!("{}: this server presents itself as a router (--topology)", context.name),
        )),
    }
}

/// Writes the configuration of the set.
pub(super) fn write_config(context: &Context<'_>, out: &mut Writer<'_>) {
    out.str("_id", set_name(context)).i32("version", 1).i64("term", 1);
    out.array("members", |members| {
        members.push_doc(|out| {
            out.i32("_id", 0).str("host", address(context));
            out.bool("arbiterOnly", false).bool("buildIndexes", true).bool("hidden", false);
            out.f64("priority", 1.0).doc("tags", |_| {});
            out.i64("secondaryDelaySecs", 0).i32("votes", 1);
        });
    });
    out.i64("protocolVersion", 1).bool("writeConcernMajorityJournalDefault", true);
    out.doc("settings", |out| {
        out.bool("chainingAllowed", true).i32("heartbeatIntervalMillis", 2000);
        out.i32("heartbeatTimeoutSecs", 10).i32("electionTimeoutMillis", 10_000);
        out.i32("catchUpTimeoutMillis", -1).i32("catchUpTakeoverDelayMillis", 30_000);
        out.doc("getLastErrorModes", |_| {});
        out.doc("getLastErrorDefaults", |out| {
            out.i32("w", 1).i32("wtimeout", 0);
        });
        out.append("replicaSetId", Val::ObjectId(election_id()));
    });
}

/// The documents of `local.system.replset`: the configuration.
pub(super) fn documents(context: &Context<'_>) -> Vec<DocBuf> {
    match context.engine.data.options.topology {
        Topology::ReplicaSet => vec![DocBuf::build(|out| write_config(context, out))],
        Topology::Router => Vec::new(),
    }
}

/// `local.system.replset` as `listCollections` shows it.
pub(super) fn describe(context: &Context<'_>) -> Option<DocBuf> {
    /// Its identity, the same on every server.
    const UUID: [u8; 16] = *b"motif\0\0\x40\x80replset";
    (context.engine.data.options.topology == Topology::ReplicaSet).then(|| {
        DocBuf::build(|out| {
            out.str("name", "system.replset").str("type", "collection");
            out.doc("options", |_| {});
            out.doc("info", |out| {
                out.bool("readOnly", false).append("uuid", Val::Binary(4, &UUID));
            });
        })
    })
}

/// Refuses what only secondaries do.
///
/// # Errors
/// NotSecondary.
pub(super) fn refuse_as_primary(context: &Context<'_>, why: &str) -> Result<()> {
    check(context)?;
    Err(Error::new(Code(95), why))
}
