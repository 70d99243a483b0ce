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

/// How fast documents are converted and read; read, not judged.
#[test]
fn speed() {
    let server = Server::new();
    const COUNT: i64 = 20_000;
    for start in (0..COUNT).step_by(1000) {
        let users: Vec<String> =
            (start..start + 1000).map(|n| user(n, "1 Oak Ave", "Portland")).collect();
        server.run(&format!("{{insert: 'users', documents: [{}]}}", users.join(",")));
    }
    declare(&server, ", migrate: 'onWrite'");
    let reads = |what: &str| {
        let started = std::time::Instant::now();
        for n in 0..COUNT {
            let command = ejson::parse_doc(&format!("{{find: 'users', filter: {{_id: {n}}}}}"));
            server.0.run_command("t", command.expect("text").as_doc()).expect("works");
        }
        println!("{what}: {:.2} us a read", started.elapsed().as_secs_f64() * 1e6 / COUNT as f64);
    };
    reads("not migrated");
    let started = std::time::Instant::now();
    super::migrate(&server);
    let rate = COUNT as f64 / started.elapsed().as_secs_f64();
    println!("migration: {rate:.0} documents a second");
    reads("migrated");
}
