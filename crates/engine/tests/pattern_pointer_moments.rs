//! What a pointer shows belongs to one moment: in transactions, in the past, to change streams,
//! while values wait to follow, and when a large subtree moves.

mod harness;

use harness::{Server, batch, print, same};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};

const TREE: &str = "{createPatterns: 'n', patterns: [{name: 'tree', kind: 'tree', strategy: 'pointer', onMissingParent: 'defer', maintain: {ancestors: 'ancestors', path: {into: 'path'}, depth: 'depth', descendantCount: 'below'}}]}";

/// The fields that make a command part of a session's transaction.
fn within(session: u8, first: bool) -> String {
    let start = if first { ", startTransaction: true" } else { "" };
    format!(
        ", lsid: {{id: UUID('0000000{session}-0000-4000-8000-000000000000')}}, txnNumber: NumberLong(1), autocommit: false{start}"
    )
}

/// Ends a transaction; the code of the failure, 0 if it works.
fn end(server: &Server, verb: &str, session: u8) -> i64 {
    let text = format!("{{{verb}: 1{}}}", within(session, false));
    let command = ejson::parse_doc(&text).expect("test text");
    let outcome = server.0.run_command("admin", command.as_doc());
    outcome.map_or_else(|error| i64::from(error.code().0), |_| 0)
}

fn paths(reply: &DocBuf) -> Vec<String> {
    let path = |doc: RawDoc<'_>| doc.get("path").and_then(Val::as_str).unwrap_or("-").to_owned();
    batch(reply).into_iter().map(path).collect()
}

fn time(reply: &DocBuf) -> u64 {
    match reply.as_doc().get("operationTime") {
        Some(Val::Timestamp(time)) => time,
        other => panic!("no operation time: {other:?}"),
    }
}

#[test]
fn transactions_see_their_own_moves_and_others_do_not() {
    let server = Server::new();
    server.run(TREE);
    server.run("{insert: 'n', documents: [{_id: 'tech'}, {_id: 'databases', parent: 'tech'}, {_id: 'mongodb', parent: 'databases'}, {_id: 'software'}]}");
    let move_to = |node: &str, parent: &str| {
        format!(
            "{{update: 'n', updates: [{{q: {{_id: '{node}'}}, u: {{$set: {{parent: '{parent}'}}}}}}]"
        )
    };
    server.run(&format!("{}{}}}", move_to("databases", "software"), within(1, true)));
    let below = |text: &str| {
        paths(&server.run(&format!(
            "{{find: 'n', filter: {{ancestors: 'software'}}, sort: {{_id: 1}}{text}}}"
        )))
    };
    assert_eq!(below(&within(1, false)), [",software,databases,", ",software,databases,mongodb,"]);
    assert_eq!(below(""), [""; 0]);
    assert_eq!(end(&server, "commitTransaction", 1), 0);
    assert_eq!(below(""), [",software,databases,", ",software,databases,mongodb,"]);
    same(
        &server.one("n", "'software'"),
        "{_id: 'software', ancestors: [], path: ',software,', depth: 0, below: 2}",
    );
    // Each move is fine alone; together they would make a circle.
    server.run(&format!("{}{}}}", move_to("tech", "mongodb"), within(2, true)));
    server.run(&format!("{}{}}}", move_to("software", "tech"), within(3, true)));
    assert_eq!(end(&server, "commitTransaction", 2), 0);
    assert_eq!(end(&server, "commitTransaction", 3), 112);
    server.verify("n");
    assert_eq!(server.code(&format!("{}}}", move_to("software", "tech"))), 96001);
    // What is aborted was never there.
    server.run(&format!("{}{}}}", move_to("mongodb", "software"), within(4, true)));
    assert_eq!(end(&server, "abortTransaction", 4), 0);
    assert_eq!(below("").len(), 3);
}

#[test]
fn concurrent_moves_never_make_a_circle() {
    let repeats =
        std::env::var("PATTERN_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let server = Server::new();
    server.run(TREE);
    server.run("{insert: 'n', documents: [{_id: 'a'}, {_id: 'b'}, {_id: 'c'}]}");
    std::thread::scope(|scope| {
        for (node, others) in [("a", ["b", "c"]), ("b", ["c", "a"]), ("c", ["a", "b"])] {
            let server = &server;
            scope.spawn(move || {
                for n in 0..repeats {
                    let parent = match n % 3 {
                        0 => "null".to_owned(),
                        other => format!("'{}'", others[other - 1]),
                    };
                    let code = server.code(&format!("{{update: 'n', updates: [{{q: {{_id: '{node}'}}, u: {{$set: {{parent: {parent}}}}}}}]}}"));
                    assert!(matches!(code, 0 | 96001), "{code}");
                    // Whoever stands in a circle has no depth.
                    assert_eq!(server.find("n", "{depth: {$exists: false}}"), [""; 0]);
                }
            });
        }
    });
    server.verify("n");
}

#[test]
fn the_past_shows_what_it_showed() {
    let server = Server::new();
    server.run("{insert: 'c', documents: [{_id: 1, name: 'Ann'}]}");
    let plain = time(&server.run("{insert: 'o', documents: [{_id: 1, c: 1}]}"));
    server.run("{createPatterns: 'o', patterns: [{name: 'c', kind: 'extendedReference', strategy: 'pointer', ref: 'c', from: 'c', into: 'customer', fields: ['name']}]}");
    let ann = time(&server.run("{insert: 'o', documents: [{_id: 2, c: 1}]}"));
    server.run("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {name: 'Zoe'}}}]}");
    let zoe = time(&server.run("{insert: 'o', documents: [{_id: 3}]}"));
    server.run("{insert: 'o', documents: [{_id: 4}]}");
    let at = |time: u64| {
        let (seconds, count) = (time >> 32, time & 0xFFFF_FFFF);
        let reply = server.run(&format!("{{find: 'o', filter: {{_id: {{$in: [1, 2]}}}}, readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {count})}}}}"));
        batch(&reply).into_iter().map(print).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(at(ann).matches("Ann").count(), 2, "{}", at(ann));
    server.run("{dropPatterns: 'o', names: '*'}");
    assert!(!at(plain).contains("name"), "{}", at(plain));
    assert_eq!(at(ann).matches("Ann").count(), 2, "{}", at(ann));
    assert_eq!(at(zoe).matches("Zoe").count(), 2, "{}", at(zoe));
    assert!(!server.find("o", "{}").concat().contains("name"));
}

#[test]
fn the_past_shows_what_it_showed_whatever_is_stored_since() {
    let server = Server::new();
    server.run("{insert: 'c', documents: [{_id: 1, name: 'Ann'}]}");
    server.run("{createPatterns: 'o', patterns: [{name: 'c', kind: 'extendedReference', strategy: 'pointer', ref: 'c', from: 'c', into: 'customer', fields: ['name']}]}");
    let at = |time: u64| {
        let (seconds, count) = (time >> 32, time & 0xFFFF_FFFF);
        let reply = server.run(&format!("{{find: 'o', readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {count})}}}}"));
        batch(&reply).into_iter().map(print).collect::<Vec<_>>().join(" ")
    };
    let resolved = time(&server.run("{insert: 'o', documents: [{_id: 1, c: 1}, {_id: 2, c: 1}]}"));
    // Nothing that clients would notice lies between this moment and a version that is being built.
    server.run("{modifyPattern: 'o', name: 'c', set: {strategy: 'copy'}}");
    assert_eq!(at(resolved).matches("Ann").count(), 2, "{}", at(resolved));
    let stored = time(&server.run("{insert: 'o', documents: [{_id: 3, c: 1}]}"));
    server.run("{modifyPattern: 'o', name: 'c', set: {strategy: 'pointer'}}");
    assert_eq!(at(stored).matches("Ann").count(), 3, "{}", at(stored));
    assert_eq!(at(resolved).matches("Ann").count(), 2, "{}", at(resolved));
    server.run("{dropPatterns: 'o', names: '*'}");
    assert_eq!(at(stored).matches("Ann").count(), 3, "{}", at(stored));
}

/// A value with the fields of all documents in it sorted: what is resolved stands at the end.
fn sorted(value: Val<'_>) -> String {
    let Val::Document(doc) = value else {
        return ejson::print_value(value, ejson::Format::Relaxed);
    };
    let mut fields: Vec<String> =
        doc.iter().map(|(name, value)| format!("{name}: {}", sorted(value.get()))).collect();
    fields.sort();
    format!("{{{}}}", fields.join(", "))
}

/// What an event tells, but for times and names.
fn printed(reply: &DocBuf) -> Vec<String> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("nextBatch").and_then(Val::as_array).expect("a batch");
    let events = batch.iter().filter_map(|(_, event)| event.as_doc());
    events
        .map(|event| {
            let mut printed: Vec<String> = Vec::new();
            for (name, value) in event {
                if matches!(name, "_id" | "clusterTime" | "wallTime" | "ns") {
                    continue;
                }
                printed.push(format!("{name}: {}", sorted(value.get())));
            }
            printed.join("; ")
        })
        .collect()
}

#[test]
fn change_streams_tell_the_same_as_of_copies() {
    let server = Server::new();
    let mut client = server.0.connect(motifdb::Peer::default());
    let mut run = |text: &str| {
        let command = ejson::parse_doc(text).expect("test text");
        client.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    let mut events = |name: &str| {
        run(&format!("{{create: '{name}', changeStreamPreAndPostImages: {{enabled: true}}}}"));
        run(&format!(
            "{{createPatterns: '{name}', patterns: [{{name: 't', kind: 'tree', strategy: '{name}', onDelete: 'adopt', maintain: {{path: {{into: 'path'}}, depth: 'depth'}}}}]}}"
        ));
        let opened = run(&format!(
            "{{aggregate: '{name}', pipeline: [{{$changeStream: {{fullDocument: 'updateLookup', fullDocumentBeforeChange: 'whenAvailable'}}}}], cursor: {{}}}}"
        ));
        let cursor = opened.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let id = cursor.get("id").and_then(Val::as_i64_exact).expect("an id");
        run(&format!(
            "{{insert: '{name}', documents: [{{_id: 'a'}}, {{_id: 'b', parent: 'a'}}, {{_id: 'c', parent: 'b', n: 1}}, {{_id: 'd', text: 'long enough to be worth sharing its bytes with the record that tells of it, if that were possible here, which it is not'}}]}}"
        ));
        run(&format!(
            "{{update: '{name}', updates: [{{q: {{_id: 'b'}}, u: {{$set: {{n: 1}}}}}}]}}"
        ));
        run(&format!(
            "{{update: '{name}', updates: [{{q: {{_id: 'b'}}, u: {{$set: {{parent: 'd', n: 2}}}}}}]}}"
        ));
        run(&format!(
            "{{update: '{name}', updates: [{{q: {{_id: 'c'}}, u: {{parent: 'a', m: 1}}}}]}}"
        ));
        run(&format!(
            "{{update: '{name}', updates: [{{q: {{_id: 'c'}}, u: [{{$set: {{was: '$path'}}}}]}}]}}"
        ));
        run(&format!("{{delete: '{name}', deletes: [{{q: {{_id: 'a'}}, limit: 1}}]}}"));
        run(&format!("{{delete: '{name}', deletes: [{{q: {{depth: 1}}, limit: 1}}]}}"));
        printed(&run(&format!(
            "{{getMore: NumberLong({id}), collection: '{name}', maxTimeMS: 5000}}"
        )))
    };
    let (copy, pointer) = (events("copy"), events("pointer"));
    assert!(copy.len() >= 10, "{copy:?}");
    assert_eq!(copy, pointer);
    let long = pointer.get(3).expect("the fourth insert");
    assert!(long.contains(r#"path: ",d,""#) && long.contains("depth: 0"), "{long}");
}

#[test]
fn while_copies_wait_readers_see_what_their_source_holds() {
    let server = Server::new();
    server.run("{insert: 'c', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob'}]}");
    server.run("{createPatterns: 'o', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'c', into: 'customer', fields: ['name'], fanoutLimit: 100, overLimit: 'pointer', onSourceDelete: 'unset'}]}");
    let orders: Vec<String> =
        (0..5000).map(|n| format!("{{_id: {n}, c: {}}}", n % 2 + 1)).collect();
    server.run(&format!("{{insert: 'o', documents: [{}]}}", orders.join(", ")));
    // Such copies cannot be indexed, or an index would show them stale.
    assert_eq!(
        server.code("{createIndexes: 'o', indexes: [{key: {'customer.name': 1}, name: 'i'}]}"),
        67
    );
    for name in ["Anna", "Zoe", "Ida"] {
        server.run(&format!(
            "{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$set: {{name: '{name}'}}}}}}]}}"
        ));
        let count = |filter: &str| {
            let reply = server.run(&format!("{{count: 'o', query: {filter}}}"));
            reply.as_doc().get("n").and_then(Val::as_i64_exact)
        };
        assert_eq!(count(&format!("{{'customer.name': '{name}'}}")), Some(2500), "{name}");
        assert_eq!(count(&format!("{{'customer.name': {{$nin: ['{name}', 'Bob']}}}}")), Some(0));
        same(
            &server.one("o", "4998"),
            &format!("{{_id: 4998, c: 1, customer: {{name: '{name}'}}}}"),
        );
        server.run("{update: 'o', updates: [{q: {_id: 4998}, u: {$inc: {n: 1}}}]}");
        let text = server.one("o", "4998");
        assert!(text.contains(name), "{text}");
        server.run("{update: 'o', updates: [{q: {_id: 4998}, u: {$unset: {n: 1}}}]}");
    }
    server.run("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}]}");
    assert_eq!(
        server.find("o", "{'customer.name': {$ne: 'Bob'}, customer: {$exists: true}}"),
        [""; 0]
    );
    // In the end the copies have followed, and nothing is left to resolve.
    server.run("{find: 'o', limit: 1, readConcern: {patterns: 'fresh'}}");
    server.verify("o");
}

#[test]
fn what_is_suspended_or_cannot_be_built_keeps_what_clients_wrote() {
    let server = Server::new();
    server.run("{insert: 'n', documents: [{_id: 'a', ancestors: ['mine']}, {_id: 'b', parent: 'c'}, {_id: 'c', parent: 'b'}]}");
    // A circle: nothing is taken away.
    assert_ne!(server.code(TREE), 0);
    same(&server.one("n", "'a'"), "{_id: 'a', ancestors: ['mine']}");
    server.run("{update: 'n', updates: [{q: {_id: 'b'}, u: {$set: {parent: 'a'}}}]}");
    server.run("{resumePatterns: 'n'}");
    same(
        &server.one("n", "'c'"),
        "{_id: 'c', parent: 'b', ancestors: ['a', 'b'], path: ',a,b,c,', depth: 2, below: 0}",
    );
    server.run("{suspendPatterns: 'n'}");
    // Shown on, and not stored by who writes what he has seen; even a circle harms nobody.
    server.run("{update: 'n', updates: [{q: {_id: 'b'}, u: {$set: {parent: null, x: 1}}}]}");
    same(
        &server.one("n", "'c'"),
        "{_id: 'c', parent: 'b', ancestors: ['b'], path: ',b,c,', depth: 1, below: 0}",
    );
    server.run("{update: 'n', updates: [{q: {_id: 'b'}, u: {$set: {parent: 'c'}}}]}");
    same(&server.one("n", "'c'"), "{_id: 'c', parent: 'b'}");
    assert_eq!(server.find("n", "{ancestors: 'b'}"), [""; 0]);
    assert_eq!(server.find("n", "{depth: {$lte: 5}}").len(), 1);
    server.run("{update: 'n', updates: [{q: {_id: 'b'}, u: {$set: {parent: 'a'}}}]}");
    server.run("{resumePatterns: 'n'}");
    server.verify("n");
    same(
        &server.one("n", "'b'"),
        "{_id: 'b', parent: 'a', x: 1, ancestors: ['a'], path: ',a,b,', depth: 1, below: 1}",
    );
    // Dropped: what was shown is gone at once.
    assert_eq!(server.code("{dropPatterns: 'n', names: '*', keepValues: true}"), 2);
    server.run("{dropPatterns: 'n', names: '*'}");
    same(&server.one("n", "'b'"), "{_id: 'b', parent: 'a', x: 1}");
}

#[test]
fn sources_may_go_come_and_get_other_names() {
    let server = Server::new();
    server.run("{insert: 's', documents: [{_id: 1, code: 'x', name: 'Ann'}]}");
    server.run("{createIndexes: 's', indexes: [{key: {code: 1}, name: 'c', unique: true}]}");
    server.run("{createPatterns: 'o', patterns: [{name: 'r', kind: 'extendedReference', strategy: 'pointer', ref: 'c', from: 's', match: 'code', into: 'customer', fields: ['name']}]}");
    server.run("{insert: 'o', documents: [{_id: 1, c: 'x'}]}");
    let name = || server.find("o", "{'customer.name': {$exists: true}}").concat();
    assert!(name().contains("Ann"));
    server.run("{drop: 's'}");
    assert_eq!(name(), "");
    server.run("{insert: 's', documents: [{_id: 2, code: 'x', name: 'Zoe'}]}");
    assert!(name().contains("Zoe"), "without an index too");
    server.run("{createIndexes: 's', indexes: [{key: {code: 1}, name: 'c', unique: true}]}");
    assert!(name().contains("Zoe"));
    let rename = |from: &str, to: &str| {
        let text = format!("{{renameCollection: 't.{from}', to: 't.{to}'}}");
        let command = ejson::parse_doc(&text).expect("test text");
        server.0.run_command("admin", command.as_doc()).expect("works");
    };
    rename("s", "people");
    rename("o", "orders");
    server.run("{update: 'people', updates: [{q: {_id: 2}, u: {$set: {name: 'Ida'}}}]}");
    same(&server.one("orders", "1"), "{_id: 1, c: 'x', customer: {name: 'Ida'}}");
    server.verify("orders");
}

#[test]
fn a_subtree_of_50000_nodes_moves_by_writing_its_root() {
    const NODES: usize = 100_000;
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    server.run(TREE);
    // Half of the nodes stand below 'left', half below 'right'; each comes before or after its parent.
    let parent_of = |n: usize| match n {
        0 | 1 => String::new(),
        n if n < 22 => format!(", parent: {}", n % 2),
        n => format!(", parent: {}", (n - 20) / 10 * 2 + n % 2),
    };
    let mut order: Vec<usize> = (0..NODES).collect();
    let mut seed = 42_u64;
    for at in (1..NODES).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(at, (seed >> 33) as usize % (at + 1));
    }
    for chunk in order.chunks(5000) {
        let nodes: Vec<String> =
            chunk.iter().map(|n| format!("{{_id: {n}{}}}", parent_of(*n))).collect();
        server.run(&format!("{{insert: 'n', documents: [{}]}}", nodes.join(", ")));
    }
    let count = |filter: &str| {
        let reply = server.run(&format!("{{count: 'n', query: {filter}}}"));
        reply.as_doc().get("n").and_then(Val::as_i64_exact).unwrap_or(-1)
    };
    assert_eq!(count("{depth: {$exists: true}}"), NODES as i64, "every parent has come");
    assert_eq!(count("{ancestors: 0}"), NODES as i64 / 2 - 1);
    // What the move writes: changes in the log, and entries of documents and indexes in the store.
    let newest = || {
        let command = ejson::parse_doc("{find: 'oplog.rs', sort: {$natural: -1}, limit: 1}");
        let reply = server.0.run_command("local", command.expect("test text").as_doc());
        let reply = reply.expect("the log can be read");
        batch(&reply).first().and_then(|entry| entry.get("ts")).map(|ts| format!("{ts:?}"))
    };
    let written = || {
        let status = server.run("{serverStatus: 1}");
        let path = motifdb::value::path::Path::new("patterns.writes");
        let writes = path.find(status.as_doc()).and_then(|writes| writes.get().as_i64_exact());
        writes.expect("a section")
    };
    let (writes, before) = (written(), newest());
    let reply = server.run("{update: 'n', updates: [{q: {_id: 0}, u: {$set: {parent: 1}}}]}");
    assert_eq!(reply.as_doc().get("nModified"), Some(Val::Int32(1)));
    assert_ne!(newest(), before);
    let moved =
        ejson::parse_doc("{find: 'oplog.rs', sort: {$natural: -1}, limit: 2}").expect("text");
    let log = server.0.run_command("local", moved.as_doc()).expect("the log can be read");
    let ops: Vec<String> = batch(&log).into_iter().map(print).collect();
    assert!(ops.first().is_some_and(|op| op.contains(r#""op":"u""#)), "{ops:?}");
    let last = batch(&log).get(1).and_then(|entry| entry.get("ts")).map(|ts| format!("{ts:?}"));
    assert_eq!(last, before, "the move is one entry of the log");
    assert!(written() - writes <= 9, "{} documents beside the root", written() - writes);
    assert_eq!(count("{ancestors: 1}"), NODES as i64 - 1);
    assert_eq!(count("{path: /^,0,/}"), 0);
    let deepest = server.run("{aggregate: 'n', cursor: {}, pipeline: [{$match: {ancestors: 0}}, {$group: {_id: null, n: {$sum: 1}, least: {$min: '$depth'}}}]}");
    let found = batch(&deepest).into_iter().map(print).collect::<Vec<_>>().concat();
    assert_eq!(
        found,
        format!(
            r#"{{"_id":null,"n":{{"$numberInt":"{}"}},"least":{{"$numberInt":"2"}}}}"#,
            NODES / 2 - 1
        )
    );
    // Each node is counted once by each of those above it.
    let sums = server.run("{aggregate: 'n', cursor: {}, pipeline: [{$group: {_id: null, depths: {$sum: '$depth'}, below: {$sum: '$below'}}}, {$project: {_id: 0, same: {$eq: ['$depths', '$below']}, deep: {$gt: ['$depths', 0]}}}]}");
    let sums: Vec<String> = batch(&sums).into_iter().map(print).collect();
    assert_eq!(sums, [r#"{"same":true,"deep":true}"#]);
    same(
        &server.one("n", "0"),
        &format!(
            "{{_id: 0, parent: 1, ancestors: [1], path: ',1,0,', depth: 1, below: {}}}",
            NODES / 2 - 1
        ),
    );
    server.close();
}
