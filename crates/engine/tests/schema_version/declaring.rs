//! Declarations that make no sense for the documents that are there.

use super::harness::Server;
use super::{USERS, declare, user};
use motifdb::value::ejson;

/// The message with which a command fails.
fn refused(server: &Server, text: &str) -> String {
    let command = ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let error = server.0.run_command("t", command.as_doc()).expect_err("is refused");
    format!("{} {error}", error.code().0)
}

fn create(declaration: &str) -> String {
    format!("{{createPatterns: 'users', patterns: [{{{declaration}}}]}}")
}

#[test]
fn fields_that_would_be_lost_are_named_with_their_documents() {
    let server = Server::new();
    server.run("{insert: 'users', documents: [{_id: 1, nick: 'a', n: 1}, {_id: 2, nick: 'b'}, {_id: 3}, {_id: 4, nick: 'c'}, {_id: 5, nick: 'd'}]}");
    let lossy = "name: 'v2', kind: 'schemaVersion', version: 2, up: [{$unset: 'nick'}], down: []";
    let message = refused(&server, &create(lossy));
    assert!(message.starts_with("2 ") && message.contains("'nick'"), "{message}");
    assert!(message.contains("_id 1, 2, 4"), "{message}");
    server.run(&create(&format!("{lossy}, lossy: ['nick']")));
    assert_eq!(
        server.one("users", "1"),
        super::print(ejson::parse_doc("{_id: 1, n: 1, schema_version: 2}").expect("text").as_doc())
    );
    server.run("{dropPatterns: 'users', names: ['v2']}");
    assert_eq!(
        server.one("users", "1"),
        super::print(ejson::parse_doc("{_id: 1, nick: 'a', n: 1}").expect("text").as_doc())
    );
}

#[test]
fn stages_must_be_steady_and_leave_the_identity_alone() {
    let server = Server::new();
    for (options, part) in [
        ("version: 2, up: [{$set: {a: '$$NOW'}}]", "$$NOW"),
        ("version: 2, up: [{$set: {a: {$rand: {}}}}]", "$rand"),
        ("version: 2, up: [{$match: {a: 1}}]", "$match"),
        ("version: 2, up: [{$set: {_id: 1}}]", "'_id'"),
        ("version: 2, up: [{$set: {schema_version: 1}}]", "'schema_version'"),
        ("version: 2, up: [], from: 2", "'from'"),
        ("version: 2, up: [], clients: {a: 7}", "'clients.a'"),
        ("version: 2, up: [], clients: {a: 1}", "'down'"),
        ("version: 2, up: [], migrate: 'soon'", "'migrate'"),
        ("version: 2, up: [], field: 'a.b'", "'field'"),
        ("up: []", "'version'"),
        ("version: 2", "'up'"),
        ("version: 2, up: [], upp: []", "'upp'"),
        ("version: 2, up: [], validator: {$where: 'x'}", "$where"),
    ] {
        let message =
            refused(&server, &create(&format!("name: 'v', kind: 'schemaVersion', {options}")));
        assert!(message.contains(part), "{options}: {message}");
    }
}

#[test]
fn what_depends_on_the_old_form_is_named() {
    let server = Server::new();
    server.run(&format!("{{insert: 'users', documents: [{}]}}", user(1, "1 Oak Ave", "Bend")));
    server
        .run("{createIndexes: 'users', indexes: [{key: {address: 1}, name: 'one', unique: true}]}");
    let message = refused(&server, &create(USERS));
    assert!(message.contains("the unique index 'one'"), "{message}");
    server.run("{dropIndexes: 'users', index: 'one'}");
    server.run("{createPatterns: 'users', patterns: [{name: 'upper', kind: 'computed', fields: {up: {$toUpper: '$address'}}}]}");
    let message = refused(&server, &create(USERS));
    assert!(message.contains("the pattern 'upper'"), "{message}");
    server.run("{dropPatterns: 'users', names: ['upper']}");
    declare(&server, "");
    server.run("{createPatterns: 'users', patterns: [{name: 'upper', kind: 'computed', fields: {up: {$toUpper: '$address.city'}}}]}");
    assert_eq!(server.find("users", "{up: 'BEND'}").len(), 1);
    let message = refused(&server, "{modifyPattern: 'users', name: 'users_v2', set: {up: []}}");
    assert!(message.contains("'up'"), "{message}");
    server.verify("users");
}

#[test]
fn without_a_way_back_there_is_no_old_client_and_no_rollback() {
    let server = Server::new();
    server.run("{insert: 'users', documents: [{_id: 1, a: 1}]}");
    server.run(&create(
        "name: 'v2', kind: 'schemaVersion', version: 2, up: [{$set: {b: {$add: ['$a', 1]}}}]",
    ));
    let message = refused(&server, "{find: 'users', $schemaVersion: 1}");
    assert!(message.contains("version 2") && message.contains("version 1"), "{message}");
    let message = refused(&server, "{dropPatterns: 'users', names: ['v2']}");
    assert!(message.contains("keepValues"), "{message}");
    server.run("{dropPatterns: 'users', names: ['v2'], keepValues: true}");
    assert_eq!(server.find("users", "{b: 2, schema_version: 2}").len(), 1);
}
