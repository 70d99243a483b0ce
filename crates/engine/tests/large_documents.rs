//! Updates of large documents take a way of their own. What they do is what happens to a small
//! document: the same fields, the same index entries, the same records in the change log.

mod harness;

use harness::Server;
use motifdb::value::{Val, ejson};

const UPDATES: [&str; 14] = [
    "{$set: {new: 1}}",
    "{$set: {s: 'longer than before'}}",
    "{$set: {s: ''}}",
    "{$inc: {n: 1}}",
    "{$inc: {m: 2.5}}",
    "{$set: {z: 1, a: 2, tail: 'x'}, $inc: {n: 5}}",
    "{$mul: {missing: 3}}",
    "{$min: {n: -4}, $max: {m: 100}}",
    "{$set: {n: 'text'}}",
    "{$set: {n: 7, s: 'longer than before'}}",
    "{$set: {tail: {deep: [1, 2]}}}",
    "{$set: {'tail.deep': 3}}",
    "{$unset: {new: 1}}",
    "{$set: {n: 7}}",
];

#[test]
fn updates_do_to_large_documents_what_they_do_to_small_ones() {
    let server = Server::new();
    for (collection, bytes) in [("small", 10), ("large", 100_000)] {
        let big = "b".repeat(bytes);
        server.run(&format!(
            "{{createIndexes: '{collection}', indexes: [{{key: {{n: 1}}, name: 'n_1'}}]}}"
        ));
        server.run(&format!(
            "{{insert: '{collection}', documents: [{{_id: 1, n: 0, big: '{big}', s: 'short', tail: 1}}]}}"
        ));
    }
    for update in UPDATES {
        let replies = ["small", "large"].map(|collection| {
            let fields = "fields: {big: 0}, new: true";
            let text = format!(
                "{{findAndModify: '{collection}', query: {{_id: 1}}, update: {update}, {fields}}}"
            );
            let reply = server.run(&text);
            let value = reply.as_doc().get("value").unwrap_or(Val::Missing);
            ejson::print_value(value, ejson::Format::Shell)
        });
        assert_eq!(replies[0], replies[1], "{update}");
        let found = ["small", "large"].map(|collection| {
            let found = server.docs(&format!(
                "{{aggregate: '{collection}', pipeline: [{{$unset: 'big'}}], cursor: {{}}}}"
            ));
            format!("{found:?}")
        });
        assert_eq!(found[0], found[1], "{update}");
    }
    let records = ["small", "large"].map(|collection| {
        let text = format!(
            "{{find: 'oplog.rs', filter: {{ns: 't.{collection}', op: 'u'}}, projection: {{o: 1}}}}"
        );
        let command = ejson::parse_doc(&text).expect("a command");
        let reply = server.0.run_command("local", command.as_doc()).expect("can be read");
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        ejson::print_value(cursor.get("firstBatch").unwrap_or(Val::Null), ejson::Format::Shell)
    });
    assert!(records[0].matches("diff").count() >= UPDATES.len() - 1, "{}", records[0]);
    assert_eq!(records[0], records[1]);
    let damage = server.0.check(&mut |_, _, _| {}).expect("can be read");
    assert_eq!(damage, Vec::<String>::new());
}

#[test]
fn an_update_that_changes_nothing_writes_nothing() {
    let server = Server::new();
    let big = "b".repeat(100_000);
    server.run(&format!("{{insert: 'c', documents: [{{_id: 1, n: 1, big: '{big}'}}]}}"));
    let before = server.writes("c");
    let reply = server.run("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {n: 1}}}]}");
    assert_eq!(reply.as_doc().get("nModified"), Some(Val::Int32(0)));
    assert_eq!(server.writes("c"), before);
}
