//! `hello`: describes this server to drivers. The reply is that of a replica set with one member,
//! because drivers enable sessions and retries only then.

use super::in_transaction;
use super::row::{Required, StableApi, Transactions};
use super::{Command, Context, sasl};
use value::{ObjectId, Result, Val, Writer, limits};

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

/// The name of the replica set of which this server is the only member.
pub(super) const SET_NAME: &str = "rs0";

/// The wire protocol of MongoDB 8.0.
const WIRE_VERSION: i32 = 25;

/// The supported message compressors.
const COMPRESSORS: &[&str] = &["snappy", "zstd", "zlib"];

/// The address by which the client reached this server.
pub(super) fn address<'c>(context: &'c Context<'_>) -> &'c str {
    context.client.local.as_deref().unwrap_or(&context.engine.data.options.listen)
}

pub(super) fn run(context: &mut Context<'_>, out: &mut Writer<'_>, primary: &str) -> Result<()> {
    remember_client(context);
    let args = &context.args;
    if args.doc.get("helloOk").is_some_and(Val::truthy) {
        out.bool("helloOk", true);
    }
    let address = address(context);
    out.array("hosts", |hosts| hosts.push(Val::String(address)));
    out.str("setName", SET_NAME).i32("setVersion", 1);
    out.bool(primary, true).bool("secondary", false);
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

/// Stores the client's metadata, for `currentOp`.
fn remember_client(context: &Context<'_>) {
    let Some(Val::Document(client)) = context.args.doc.get("client") else { return };
    let slot = context.op.slot();
    let application = client.get("application").and_then(Val::as_doc);
    let name = application.and_then(|application| application.get("name")).and_then(Val::as_str);
    name.unwrap_or("").clone_into(&mut slot.application.lock());
    *slot.metadata.lock() = Some(client.into());
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
