//! Giving up the version before, and going back to it.

use super::harness::{Server, same};
use super::{connect, declare, run, user};
use motifdb::value::ejson;

fn refused(server: &Server, text: &str) -> String {
    let command = ejson::parse_doc(text).expect("test text");
    let error = server.0.run_command("t", command.as_doc()).expect_err("is refused");
    format!("{} {error}", error.code().0)
}

const CONTRACT: &str = "{applyPatterns: 'users', contract: 'users_v2'}";

#[test]
fn a_contract_waits_for_documents_and_clients() {
    let server = Server::new();
    server.run(&format!(
        "{{insert: 'users', documents: [{}, {{_id: 3, address: 'unknown'}}]}}",
        user(1, "456 Oak Ave", "Portland")
    ));
    declare(&server, ", migrate: 'onWrite'");
    assert!(refused(&server, CONTRACT).contains("'migrate'"));
    super::migrate(&server);
    let message = refused(&server, CONTRACT);
    assert!(message.starts_with("96001 ") && message.contains("_id 3"), "{message}");
    server.run("{update: 'users', updates: [{q: {_id: 3}, u: {$set: {address: '1 Elm St, Bend, OR 97701'}}}]}");
    let mut old = connect(&server, "old");
    let message = refused(&server, CONTRACT);
    assert!(message.starts_with("117 ") && message.contains("'old'"), "{message}");
    let listed = server.pattern("users");
    assert_eq!(super::harness::whole(&listed, "olderClients.old"), 1);
    run(&mut old, "{ping: 1}");
    drop(old);
    server.run(CONTRACT);
    let message = refused(&server, "{find: 'users', $schemaVersion: 1}");
    assert!(message.contains("given up"), "{message}");
    assert!(
        refused(&server, "{applyPatterns: 'users', rollback: 'users_v2'}").contains("given up")
    );
    server.run("{insert: 'users', documents: [{_id: 4, address: {street: 'a', city: 'b', state: 'OR', zip: '12345'}}]}");
    server.verify("users");
}

#[test]
fn a_rollback_brings_the_documents_back() {
    let server = Server::new();
    server
        .run(&format!("{{insert: 'users', documents: [{}]}}", user(1, "456 Oak Ave", "Portland")));
    declare(&server, "");
    server.run("{update: 'users', updates: [{q: {_id: 1}, u: {$set: {'address.city': 'Bend'}}}]}");
    server.run("{applyPatterns: 'users', rollback: 'users_v2'}");
    same(&server.one("users", "1"), &user(1, "456 Oak Ave", "Bend"));
    assert!(server.docs("{listPatterns: 'users'}").is_empty());
    assert!(refused(&server, "{applyPatterns: 'users'}").contains("'contract'"));
}
