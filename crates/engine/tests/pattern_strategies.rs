//! Strategies that are left to the database: what is read and written decides, and nobody notices but
//! by the cost. And where what is maintained comes from.

#[path = "harness/mod.rs"]
mod harness;

use harness::{Server, text, whole};
use std::time::{Duration, Instant};

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Two sources, each with a hundred followers, and a database that decides every second.
fn server(options: &str) -> Server {
    let server = Server::new();
    let period =
        motifdb::value::ejson::parse_doc("{setParameter: 1, patternStrategyPeriodSecs: 1}")
            .expect("test text");
    server.0.run_command("admin", period.as_doc()).expect("can be set");
    server.run("{insert: 'c', documents: [{_id: 0, name: 'Ann', note: 0}, {_id: 1, name: 'Bob'}]}");
    let orders: Vec<String> = (0..200).map(|n| format!("{{_id: {n}, c: {}}}", n % 2)).collect();
    server.run(&format!("{{insert: 'o', documents: [{}]}}", orders.join(", ")));
    server.run(&format!(
        "{{createPatterns: 'o', patterns: [{{name: 'c', kind: 'extendedReference', ref: 'c', from: 'c', into: 'client', fields: ['name'], {options}}}]}}"
    ));
    server
}

fn chosen(server: &Server) -> String {
    let pattern = server.pattern("o");
    match text(&pattern, "state") {
        "ready" => text(&pattern, "declaration.chosen").to_owned(),
        state => state.to_owned(),
    }
}

fn rename(server: &Server, name: &str) {
    server.run(&format!(
        "{{update: 'c', updates: [{{q: {{_id: 0}}, u: {{$set: {{name: '{name}'}}}}}}]}}"
    ));
}

#[test]
fn what_changes_often_is_resolved_and_what_is_read_often_is_copied() {
    let server = server("onSourceDelete: 'unset'");
    assert_eq!(chosen(&server), "copy", "few follow each of them");
    let mut count = 0;
    wait_until("it is resolved", || {
        count += 1;
        rename(&server, &format!("name {count}"));
        chosen(&server) == "pointer"
    });
    assert_eq!(text(&server.get("o", "4"), "client.name"), format!("name {count}"));
    assert_eq!(text(&server.get("o", "5"), "client.name"), "Bob");
    let rates = server.pattern("o");
    assert_eq!(whole(&rates, "stats.rates.followers"), 100);
    assert_eq!(whole(&rates, "stats.rates.changes"), count);
    // Renames cost nothing now, and nothing is read: it stays as it is.
    for _ in 0..30 {
        count += 1;
        rename(&server, &format!("name {count}"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(chosen(&server), "pointer");
    assert_eq!(whole(&server.pattern("o"), "stats.rates.changes"), count, "they are counted on");
    wait_until("it is copied", || {
        for _ in 0..20 {
            server.run("{find: 'o', filter: {'client.name': 'nobody'}}");
        }
        chosen(&server) == "copy"
    });
    assert_eq!(text(&server.get("o", "4"), "client.name"), format!("name {count}"));
    server.verify("o");
}

#[test]
fn what_is_declared_or_needs_copies_stays() {
    for options in ["strategy: 'copy', onSourceDelete: 'unset'", "onSourceDelete: 'keep'"] {
        let server = server(options);
        let begin = Instant::now();
        let mut count = 0;
        while begin.elapsed() < Duration::from_secs(3) {
            count += 1;
            rename(&server, &format!("name {count}"));
        }
        let declared = server.pattern("o");
        assert_ne!(text(&declared, "declaration.chosen"), "pointer", "{options}");
        assert_eq!(text(&declared, "state"), "ready", "{options}");
        assert_eq!(text(&declared, "error"), "", "{options}");
        assert_eq!(text(&server.get("o", "4"), "client.name"), format!("name {count}"));
    }
}

#[test]
fn labels_tell_where_values_come_from() {
    let server = server("");
    server.run("{createPatterns: 'c', patterns: [{name: 'n', kind: 'computed', from: 'o', on: {foreign: 'c'}, fields: {n: {$count: {}}, last: {$max: '$at'}}}]}");
    let label = |collection: &str, at: &str, name: &str| {
        let pattern = server.pattern(collection);
        let labels = motifdb::value::path::Path::new("labels").get(pattern.as_doc());
        let row = labels.as_array().and_then(|list| list.find(at)).and_then(|row| row.as_doc());
        row.and_then(|row| row.find(name))
            .map(|value| format!("{:?}", value.get()))
            .unwrap_or_default()
    };
    assert!(label("o", "0", "path").contains("client.name"));
    assert!(label("o", "0", "sources").contains("\"t.c.name\""), "{}", label("o", "0", "sources"));
    assert!(label("c", "1", "sources").contains("\"t.o.at\""), "{}", label("c", "1", "sources"));
}
