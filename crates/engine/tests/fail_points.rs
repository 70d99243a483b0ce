//! A fail point that concerns one command must not change what other commands do: they go through the
//! same steps as without it, to the last.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

use faults::{FaultPlan, FaultStore};
use motifdb::{Client, ClientCertificate, Engine, Options, Peer, Request};
use value::{DocBuf, RawDoc, Val, ejson};

/// Any fail point that is on makes every command look at fail points.
const FAIL_PING: &str = "{configureFailPoint: 'failCommand', mode: 'alwaysOn', data: {failCommands: ['ping'], errorCode: 91}}";

fn ask(client: &mut Client, db: &str, text: &str) -> DocBuf {
    let body = ejson::parse_doc(text).unwrap();
    let body = DocBuf::build(|out| {
        body.as_doc().iter().for_each(|(name, value)| _ = out.raw(name, value));
        out.str("$db", db);
    });
    let mut reply = Vec::new();
    client.run(&Request::new(body.as_doc()), &mut reply);
    DocBuf::from(RawDoc::new(&reply))
}

fn code(reply: &DocBuf) -> i64 {
    reply.as_doc().get("code").and_then(Val::as_i64_exact).unwrap_or(0)
}

fn run(client: &mut Client, db: &str, text: &str) {
    let reply = ask(client, db, text);
    assert_eq!(code(&reply), 0, "{text}: {reply:?}");
}

/// A client that logged in by a certificate.
fn user(engine: &Engine, name: &str, connection_id: i64) -> Client {
    let peer = Peer { connection_id, authenticate: true, is_local: true, ..Peer::default() };
    let mut client = engine.connect(peer);
    client.certified(ClientCertificate { subject: format!("CN={name}"), is_member: false });
    run(&mut client, "$external", "{authenticate: 1, mechanism: 'MONGODB-X509'}");
    client
}

/// Who is logged in loses all rights with the collection of users, whichever command removes it.
fn dropped_users_lose_their_rights(fail_point: &str, removal: &str) {
    let options = Options { test_commands: true, ..Options::default() };
    let engine = Engine::open(options).unwrap();
    let mut admin = engine.connect(Peer::default());
    let create = "{createUser: 'CN=ada', roles: [{role: 'readWrite', db: 'shop'}]}";
    run(&mut admin, "$external", create);
    let mut ada = user(&engine, "ada", 7);
    run(&mut ada, "shop", "{insert: 'orders', documents: [{_id: 1}]}");
    run(&mut admin, "admin", fail_point);
    run(&mut admin, "admin", removal);
    let reply = ask(&mut ada, "shop", "{find: 'orders'}");
    assert_eq!(code(&reply), 13, "{removal}: {reply:?}");
}

#[test]
fn removing_the_users_takes_their_rights_while_a_fail_point_is_on() {
    let off = "{configureFailPoint: 'failCommand', mode: 'off'}";
    for fail_point in [off, FAIL_PING] {
        dropped_users_lose_their_rights(fail_point, "{drop: 'system.users'}");
        dropped_users_lose_their_rights(
            fail_point,
            "{renameCollection: 'admin.system.users', to: 'admin.former'}",
        );
    }
}

#[test]
fn a_read_with_majority_waits_for_the_disk_while_a_fail_point_is_on() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::none();
    let store = FaultStore::open(folder.path(), store::Options::default(), plan.clone()).unwrap();
    let options = Options { test_commands: true, ..Options::default() };
    let engine = Engine::with_store(options, Box::new(store)).unwrap();
    let mut client = engine.connect(Peer::default());
    run(&mut client, "shop", "{insert: 'orders', documents: [{_id: 0}]}");
    run(&mut client, "admin", FAIL_PING);
    for (id, level, waits) in [(1, "local", false), (2, "majority", true)] {
        let insert = "writeConcern: {w: 1, j: false}";
        run(
            &mut client,
            "shop",
            &format!("{{insert: 'orders', documents: [{{_id: {id}}}], {insert}}}"),
        );
        let (_, before) = plan.counts();
        run(&mut client, "shop", &format!("{{find: 'orders', readConcern: {{level: '{level}'}}}}"));
        let (_, after) = plan.counts();
        assert_eq!(after > before, waits, "{level}: {before} flushes before, {after} after");
    }
    engine.close().unwrap();
}

#[test]
fn a_command_fails_by_any_of_its_names() {
    let options = Options { test_commands: true, ..Options::default() };
    let engine = Engine::open(options).unwrap();
    let mut client = engine.connect(Peer::default());
    for name in ["ismaster", "isMaster"] {
        let point = "{configureFailPoint: 'failCommand', mode: 'alwaysOn', data: {failCommands: ['NAME'], errorCode: 91}}";
        run(&mut client, "admin", &point.replace("NAME", name));
        for sent in ["isMaster", "ismaster"] {
            assert_eq!(code(&ask(&mut client, "admin", &format!("{{{sent}: 1}}"))), 91, "{name}");
        }
        assert_eq!(code(&ask(&mut client, "admin", "{hello: 1}")), 0);
    }
}
