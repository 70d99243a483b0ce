//! The kind `schemaVersion`: two versions of documents in one collection, for clients that know one
//! of them each.

#[path = "../harness/mod.rs"]
mod harness;

mod contract;
mod declaring;
mod scenarios;

use harness::{Server, print};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Client, Peer};

/// The declaration of the users of the page, without the end. Version 1 has the address as text.
const USERS: &str =
    "name: 'users_v2', kind: 'schemaVersion', field: 'schema_version', version: 2, from: 1,
    up: [{$set: {address: {$let: {vars: {p: {$split: ['$address', ', ']}}, in: {
        street: {$arrayElemAt: ['$$p', 0]}, city: {$arrayElemAt: ['$$p', 1]},
        state: {$substrCP: [{$arrayElemAt: ['$$p', 2]}, 0, 2]},
        zip: {$substrCP: [{$arrayElemAt: ['$$p', 2]}, 3, 5]}}}}}}],
    down: [{$set: {address: {$concat: ['$address.street', ', ', '$address.city', ', ',
        '$address.state', ' ', '$address.zip']}}}],
    validator: {$jsonSchema: {properties: {address: {bsonType: 'object',
        required: ['street', 'city', 'state', 'zip'], properties: {zip: {minLength: 5}}}}}},
    clients: {old: 1}";

/// Declares it, with further options.
fn declare(server: &Server, more: &str) {
    server.run(&format!("{{createPatterns: 'users', patterns: [{{{USERS}{more}}}]}}"));
}

/// A user of version 1.
fn user(id: i64, street: &str, city: &str) -> String {
    format!(
        "{{_id: {id}, schema_version: 1, full_name: 'User {id}', address: '{street}, {city}, OR 97201'}}"
    )
}

/// A connection of an application with this name.
fn connect(server: &Server, application: &str) -> Client {
    let mut client = server.0.connect(Peer::default());
    let hello = format!(
        "{{hello: 1, client: {{application: {{name: '{application}'}}, driver: {{name: 'd', version: '1'}}, os: {{type: 'x'}}}}}}"
    );
    let hello = ejson::parse_doc(&hello).expect("test text");
    client.run_command("admin", hello.as_doc()).expect("works");
    client
}

fn run(client: &mut Client, text: &str) -> DocBuf {
    let command = ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let reply = client.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert!(reply.as_doc().get("writeErrors").is_none(), "{text}: {reply:?}");
    reply
}

/// The document with this `_id` as a client sees it.
fn seen(client: &mut Client, id: i64) -> String {
    let reply = run(client, &format!("{{find: 'users', filter: {{_id: {id}}}}}"));
    harness::batch(&reply).first().map_or_else(String::new, |doc| print(*doc))
}

/// The document with this `_id` as it is stored.
fn stored(server: &Server, id: i64) -> String {
    let text = format!("{{find: 'users', filter: {{_id: {id}}}, $schemaVersion: 'asStored'}}");
    server.docs(&text).first().map_or_else(String::new, |doc| print(doc.as_doc()))
}

/// What `listPatterns` says of versions and quarantine.
fn counts(server: &Server) -> String {
    let pattern = server.pattern("users");
    let field = |name: &str| {
        let value = pattern.as_doc().get(name).unwrap_or_else(|| panic!("{name}: {pattern:?}"));
        ejson::print_value(value, ejson::Format::Relaxed)
    };
    format!("{} {}", field("versions"), field("quarantined"))
}

/// Sets the migration to `background` and waits for its end.
fn migrate(server: &Server) {
    server.run("{modifyPattern: 'users', name: 'users_v2', set: {migrate: 'background'}}");
    assert_eq!(server.pattern("users").as_doc().get("state"), Some(Val::String("ready")));
}

/// Whether a find uses an index: the number of documents that it reads.
fn examined(server: &Server, filter: &str) -> i64 {
    let explained = server.run(&format!(
        "{{explain: {{find: 'users', filter: {filter}}}, verbosity: 'executionStats'}}"
    ));
    let stats = explained.as_doc().get("executionStats").and_then(Val::as_doc);
    let count = stats.unwrap_or(RawDoc::empty()).get("totalDocsExamined");
    count.and_then(Val::as_i64_exact).expect("statistics")
}
