//! `replSetGetStatus`: returns the state of the replica set.

use super::hello::{address, set_name, write_op_time};
use super::row::Required;
use super::{Command, Context, replica_set};
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "replSetGetStatus",
    help: "Returns the state of the replica set.",
    fields: Some(&["replSetGetStatus", "initialSync"]),
    admin: true,
    privilege: Required::Cluster(&[Action::ReplSetGetStatus]),
    run: get_status,
    ..Command::BASE
};

fn get_status(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    replica_set::check(context)?;
    let engine = context.engine;
    let (now, wall_ms) = engine.data.changes.newest();
    let date = Val::DateTime((now >> 32) as i64 * 1000);
    let wall = Val::DateTime(wall_ms);
    out.str("set", set_name(context));
    out.append("date", Val::DateTime(crate::clock::now_ms()));
    out.i32("myState", 1).i64("term", 1);
    out.str("syncSourceHost", "").i32("syncSourceId", -1);
    out.i64("heartbeatIntervalMillis", 2000);
    out.i32("majorityVoteCount", 1).i32("writeMajorityCount", 1);
    out.i32("votingMembersCount", 1).i32("writableVotingMembersCount", 1);
    out.doc("optimes", |out| {
        out.doc("lastCommittedOpTime", |out| write_op_time(out, now));
        out.append("lastCommittedWallTime", wall);
        for name in ["readConcernMajorityOpTime", "appliedOpTime", "durableOpTime"] {
            out.doc(name, |out| write_op_time(out, now));
        }
        for name in ["lastAppliedWallTime", "lastDurableWallTime"] {
            out.append(name, wall);
        }
    });
    out.array("members", |members| {
        members.push_doc(|out| {
            out.i32("_id", 0).str("name", address(context)).f64("health", 1.0);
            out.i32("state", 1).str("stateStr", "PRIMARY");
            out.i32(
                "uptime",
                i32::try_from(engine.observed.started.elapsed().as_secs()).unwrap_or(i32::MAX),
            );
            out.doc("optime", |out| write_op_time(out, now));
            out.append("optimeDate", date);
            out.append("lastAppliedWallTime", wall).append("lastDurableWallTime", wall);
            let started = (engine.data.opened_ms / 1000) as u64;
            out.append("electionTime", Val::Timestamp(started << 32 | 1));
            out.append("electionDate", Val::DateTime(engine.data.opened_ms));
            out.i32("configVersion", 1).i32("configTerm", 1);
            out.bool("self", true).str("lastHeartbeatMessage", "");
        });
    });
    Ok(())
}
