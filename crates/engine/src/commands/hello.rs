//! `hello`: describes this server to drivers. The reply is that of a replica set with one member, or
//! of a router, because drivers enable sessions and retries only then.
//!
//! A monitor of a driver sends the version of the topology that it knows, and waits for another one.
//! There is never another one while the server runs, so that its replies come at the end of the
//! time that it asks for.

use super::in_transaction;
use super::row::{Required, StableApi, Transactions};
use super::{Command, Context, sasl};
use crate::args::Args;
use crate::client::Awaited;
use crate::options::Topology;
use crate::request::{Flow, Waiting};
use std::time::Duration;
use value::{Code, DocBuf, Error, ObjectId, Result, Val, Writer, limits};

pub(super) static COMMAND: Command = Command {
    name: "hello",
    help: "Describes the server and its limits to drivers.",
    fields: None,
    privilege: Required::Nothing,
    transactions: Transactions::RefusedBecause(in_transaction::NOT_SUPPORTED),
    stable_api: StableApi::Included,
    waits: true,
    limits_itself: true,
    uncompressed: true,
    run: |context, out| run(context, out, "isWritablePrimary"),
    ..Command::BASE
};

/// The wire protocol of MongoDB 8.0.
const WIRE_VERSION: i32 = 25;

/// The version of the topology, which never changes while the server runs.
const TOPOLOGY_COUNTER: i64 = 0;

/// The supported message compressors.
const COMPRESSORS: &[&str] = &["snappy", "zstd", "zlib"];

/// The longest time that a monitor waits for a reply. A reply before the time that it asks for is
/// allowed.
const AWAIT_MAX: Duration = Duration::from_secs(600);

/// The shortest time between two replies of a stream.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The address by which clients reach this server: the one that was configured for them, or else the
/// one that this client used.
pub(super) fn address<'c>(context: &'c Context<'_>) -> &'c str {
    let options = &context.engine.data.options;
    let used = options.advertise.as_deref().or(context.client.local.as_deref());
    used.unwrap_or(&options.listen)
}

/// The name of the replica set of which this server is the only member.
pub(super) fn set_name<'c>(context: &'c Context<'_>) -> &'c str {
    &context.engine.data.options.set_name
}

/// How long the client wants to wait if its view of the topology is the current one.
fn await_time(context: &Context<'_>) -> Result<Option<Duration>> {
    let args = &context.args;
    let version = args.optional_doc("topologyVersion")?;
    let time = match args.get("maxAwaitTimeMS") {
        None => None,
        Some(_) => args.optional_u64("maxAwaitTimeMS")?.map(Duration::from_millis),
    };
    match (version, time) {
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(Error::new(
            Code(31368),
            "topologyVersion and maxAwaitTimeMS must be given together",
        )),
        (Some(version), Some(time)) => {
            let version = Args::new("hello.topologyVersion", version);
            let process = match version.get("processId") {
                Some(Val::ObjectId(process)) => process,
                Some(other) => return Err(version.wrong_type("processId", other, "objectId")),
                None => return Err(version.missing("processId")),
            };
            let counter = match version.get("counter") {
                Some(Val::Int64(counter)) => counter,
                Some(other) => return Err(version.wrong_type("counter", other, "long")),
                None => return Err(version.missing("counter")),
            };
            let is_current =
                process == context.engine.observed.process_id && counter >= TOPOLOGY_COUNTER;
            Ok(is_current.then_some(time.min(AWAIT_MAX)))
        }
    }
}

/// Arranges for a reply at the end of the client's time. Returns whether this one is not sent.
fn answers_later(context: &mut Context<'_>) -> Result<bool> {
    let Some(time) = await_time(context)? else { return Ok(false) };
    let streams = context.request.exhaust_allowed;
    let is_first = context.request.waiting == Waiting::Possible;
    if is_first || (context.request.waiting == Waiting::Over && streams) {
        // The metadata of the client comes once.
        let body = DocBuf::build(|out| {
            for (name, value) in context.args.doc.iter().filter(|(name, _)| *name != "client") {
                out.raw(name, value);
            }
        });
        context.client.awaited = Some(Awaited { body, streams });
        // A stream without pauses would keep a thread busy.
        context.flow = Flow::Later(if is_first { time } else { time.max(PAUSE_MIN) });
    }
    Ok(is_first)
}

pub(super) fn run(context: &mut Context<'_>, out: &mut Writer<'_>, primary: &str) -> Result<()> {
    remember_client(context)?;
    if answers_later(context)? {
        return Ok(());
    }
    let args = &context.args;
    if args.doc.get("helloOk").is_some_and(Val::truthy) {
        out.bool("helloOk", true);
    }
    out.bool(primary, true);
    match context.engine.data.options.topology {
        Topology::Router => {
            out.str("msg", "isdbgrid");
        }
        Topology::ReplicaSet => write_member(context, out),
    }
    out.doc("topologyVersion", |out| {
        out.append("processId", Val::ObjectId(context.engine.observed.process_id));
        out.i64("counter", TOPOLOGY_COUNTER);
    });
    out.i32("maxBsonObjectSize", limits::DOCUMENT_BYTES_MAX as i32);
    out.i32("maxMessageSizeBytes", limits::MESSAGE_BYTES_MAX as i32);
    out.i32("maxWriteBatchSize", limits::WRITE_BATCH_MAX as i32);
    out.append("localTime", Val::DateTime(crate::clock::now_ms()));
    out.i32("logicalSessionTimeoutMinutes", 30);
    out.count("connectionId", context.op.slot().connection_id.max(0) as u64);
    out.i32("minWireVersion", 0).i32("maxWireVersion", WIRE_VERSION);
    out.bool("readOnly", context.engine.data.options.read_only);
    write_compression(context, out);
    sasl::write_mechanisms(context, out)?;
    sasl::speculate(context, out);
    Ok(())
}

/// What a member says about its replica set.
fn write_member(context: &Context<'_>, out: &mut Writer<'_>) {
    let address = address(context);
    out.array("hosts", |hosts| hosts.push(Val::String(address)));
    out.str("setName", set_name(context)).i32("setVersion", 1);
    out.bool("secondary", false);
    out.str("primary", address).str("me", address);
    out.append("electionId", Val::ObjectId(election_id()));
    let now = context.engine.data.changes.newest().0;
    let date = Val::DateTime((now >> 32) as i64 * 1000);
    out.doc("lastWrite", |out| {
        out.doc("opTime", |out| write_op_time(out, now));
        out.append("lastWriteDate", date);
        out.doc("majorityOpTime", |out| write_op_time(out, now));
        out.append("majorityWriteDate", date);
    });
}

/// An optime in the form of replica sets, with term 1.
pub(super) fn write_op_time(out: &mut Writer<'_>, time: u64) {
    out.append("ts", Val::Timestamp(time)).i64("t", 1);
}

/// The id of the only election.
pub(super) fn election_id() -> ObjectId {
    ObjectId([0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1])
}

/// The compressors that both sides support, in the client's order.
fn write_compression(context: &Context<'_>, out: &mut Writer<'_>) {
    let Some(Val::Array(offered)) = context.args.doc.get("compression") else { return };
    let common: Vec<&str> = offered
        .iter()
        .filter_map(|(_, name)| name.get().as_str())
        .filter(|name| COMPRESSORS.contains(name))
        .collect();
    if !common.is_empty() {
        out.array("compression", |names| {
            common.into_iter().for_each(|name| names.push(Val::String(name)));
        });
    }
}

/// Stores the client's metadata, for `currentOp`. A connection sends it once.
fn remember_client(context: &Context<'_>) -> Result<()> {
    let Some(Val::Document(client)) = context.args.doc.get("client") else { return Ok(()) };
    let slot = context.op.slot();
    if slot.metadata.lock().is_some() {
        return Err(Error::new(
            Code(186),
            "The client metadata document may only be sent in the first hello",
        ));
    }
    let application = client.get("application").and_then(Val::as_doc);
    let name = application.and_then(|application| application.get("name")).and_then(Val::as_str);
    name.unwrap_or("").clone_into(&mut slot.application.lock());
    *slot.metadata.lock() = Some(client.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use crate::request::Peer;
    use value::{Val, ejson};

    #[test]
    fn both_names_answer_each_in_its_words() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let peer = Peer { local: Some("example:1234".to_owned()), ..Peer::default() };
        let mut client = engine.connect(peer);
        let mut ask = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            client.run_command("admin", command.as_doc()).expect("answers")
        };
        let hello = ask("{hello: 1, anything: 2, compression: ['none', 'zlib', 'snappy']}");
        let hello = hello.as_doc();
        assert_eq!(hello.get("isWritablePrimary"), Some(Val::Bool(true)));
        assert_eq!(hello.get("me"), Some(Val::String("example:1234")));
        assert_eq!(hello.get("maxWireVersion"), Some(Val::Int32(25)));
        let common = hello.get("compression").and_then(Val::as_array).expect("both know some");
        let names: Vec<_> = common.iter().filter_map(|(_, name)| name.get().as_str()).collect();
        assert_eq!(names, ["zlib", "snappy"]);
        for name in ["isMaster", "ismaster", "IsMaster"] {
            let old = ask(&format!("{{{name}: true, helloOk: true, compression: ['none']}}"));
            let old = old.as_doc();
            assert_eq!(old.get("ismaster"), Some(Val::Bool(true)));
            assert_eq!(old.get("helloOk"), Some(Val::Bool(true)));
            assert!(old.get("compression").is_none() && old.get("isWritablePrimary").is_none());
        }
    }
}
