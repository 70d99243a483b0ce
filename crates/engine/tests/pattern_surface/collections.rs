//! What becomes of collections that take part in patterns: copies, `$out`, renames, drops.

use super::*;

#[test]
fn a_copy_by_options_declarations_and_documents_is_like_the_original() {
    let server = sales();
    server.run("{createPatterns: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}");
    // What a tool does that copies: options and declarations, then documents, in the order of names.
    for info in server.docs("{listCollections: 1, filter: {}}") {
        let name = info.as_doc().get("name").and_then(Val::as_str).expect("a name");
        let options = info.as_doc().get("options").and_then(Val::as_doc).expect("options");
        assert!(options.find("patterns").is_none(), "MongoDB refuses such an option");
        let about = info.as_doc().get("info").and_then(Val::as_doc).expect("info");
        let create = DocBuf::build(|out| {
            out.str("create", name);
            out.extend(options);
            if let Some(patterns) = about.find("patterns") {
                out.raw("patterns", patterns);
            }
        });
        server.0.run_command("copy", create.as_doc()).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    for name in ["c", "p"] {
        let docs = server.docs(&format!("{{find: '{name}'}}"));
        let insert = DocBuf::build(|out| {
            out.str("insert", name);
            out.array("documents", |list| {
                docs.iter().for_each(|doc| list.push_doc_bytes(doc.bytes()));
            });
        });
        let reply = server.0.run_command("copy", insert.as_doc()).expect("inserts");
        assert!(reply.as_doc().get("writeErrors").is_none(), "{reply:?}");
    }
    for name in ["p", "g"] {
        let text = format!("{{find: '{name}', sort: {{_id: 1}}}}");
        let copied = batch(&server.try_in("copy", &text).expect("finds"));
        assert_eq!(copied, server.docs(&text), "{name}");
    }
    server.try_in("copy", "{insert: 'c', documents: [{_id: 4, p: 2, x: 1}]}").expect("inserts");
    let found = batch(&server.try_in("copy", "{find: 'p', filter: {_id: 2}}").expect("finds"));
    assert_eq!(number(found[0].as_doc(), "s"), 8);
    // The documents of groups may have been restored before the declaration comes.
    server
        .try_in("late", "{insert: 'g', documents: [{_id: 1, n: 50}, {_id: 77, n: 1}]}")
        .expect("inserts");
    server.try_in("late", "{insert: 'c', documents: [{_id: 1, p: 1}]}").expect("inserts");
    server.try_in("late", "{create: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}").expect("creates");
    let found = batch(&server.try_in("late", "{find: 'g'}").expect("finds"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(number(found[0].as_doc(), "n"), 1);
    // Creating the same again is no error, another declaration is one.
    server.try_in("late", "{create: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}").expect("the same");
    assert!(server.try_in("late", "{create: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$q', fields: {n: {$count: {}}}}]}").is_err());
    assert!(server.try_in("late", "{create: 'd', patterns: []}").is_err());
}

#[test]
fn a_result_that_replaces_a_collection_is_followed() {
    let server = sales();
    server.run("{insert: 'new', documents: [{_id: 1, p: 1, x: 1}, {_id: 2, p: 2, x: 2}, {_id: 4, p: 2, x: 3}]}");
    // The sources become others, in the same commit: there is nothing to wait for.
    server.run("{aggregate: 'new', pipeline: [{$out: 'c'}], cursor: {}}");
    assert_eq!(server.state("p"), "ready");
    server.shows(
        "{find: 'c', sort: {_id: 1}}",
        "{_id: 1, p: 1, x: 1}, {_id: 2, p: 2, x: 2}, {_id: 4, p: 2, x: 3}",
    );
    server.shows("{find: 'p'}", "{_id: 1, s: 1, n: 1}, {_id: 2, s: 5, n: 2}");
    // The targets become others; what they carry of the pattern's is its own business.
    server.run("{aggregate: 'new', pipeline: [{$match: {_id: 2}}, {$project: {name: 'two', s: {$literal: 99}}}, {$out: 'p'}], cursor: {}}");
    let found = server.docs("{find: 'p'}");
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found[0].as_doc();
    assert_eq!((number(found, "_id"), number(found, "s"), number(found, "n")), (2, 5, 2));
    assert_eq!(number(server.validate("{validatePatterns: 'p'}").as_doc(), "drift"), 0);
    // What cannot be written leaves everything as it was.
    let twice =
        server.try_run("{aggregate: 'new', pipeline: [{$set: {_id: 7}}, {$out: 'c'}], cursor: {}}");
    assert_eq!(twice.expect_err("two documents with one _id").0, 11000);
    server.shows("{find: 'p', projection: {s: 1}}", "{_id: 2, s: 5}");
    // Documents that belong to a pattern cannot be replaced.
    server.run("{createPatterns: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}");
    let refused = server.try_run("{aggregate: 'new', pipeline: [{$out: 'g'}], cursor: {}}");
    assert_eq!(refused.expect_err("refused").0, 96001);
    // What is suspended is built anew from what is there then.
    server.run("{suspendPatterns: 'p', names: '*'}");
    server.run("{suspendPatterns: 'c', names: '*'}");
    server.run("{aggregate: 'new', pipeline: [{$match: {_id: 1}}, {$set: {p: 2}}, {$out: 'c'}], cursor: {}}");
    server.run("{resumePatterns: 'p', names: '*'}");
    server.run("{resumePatterns: 'c', names: '*'}");
    server.shows("{find: 'g'}", "{_id: 2, n: 1}");
    server.shows("{find: 'p', projection: {s: 1}}", "{_id: 2, s: 1}");
}

#[test]
fn a_result_that_replaces_nodes_may_have_them_in_any_order() {
    for strategy in ["copy", "pointer"] {
        let server = Server::new();
        server.run(&format!("{{createPatterns: 'n', patterns: [{{name: 't', kind: 'tree', strategy: '{strategy}', maintain: {{ancestors: 'a', descendantCount: 'below'}}}}]}}"));
        server.run("{insert: 'n', documents: [{_id: 5}, {_id: 6, parent: 5}]}");
        server.run("{insert: 'new', documents: [{_id: 1, parent: 2}, {_id: 2, parent: 3}, {_id: 3}, {_id: 5, parent: 1}]}");
        server.run("{aggregate: 'new', pipeline: [{$out: 'n'}], cursor: {}}");
        let below: Vec<i64> = server
            .docs("{find: 'n', sort: {_id: 1}}")
            .iter()
            .map(|d| number(d.as_doc(), "below"))
            .collect();
        assert_eq!(below, [1, 2, 3, 0]);
        // A circle is refused, and nothing changes.
        server.run("{update: 'new', updates: [{q: {_id: 3}, u: {$set: {parent: 1}}}]}");
        let refused = server.try_run("{aggregate: 'new', pipeline: [{$out: 'n'}], cursor: {}}");
        assert_eq!(refused.expect_err("a circle").0, 96001);
        assert_eq!(number(server.validate("{validatePatterns: 'n'}").as_doc(), "drift"), 0);
        let found = server.docs("{find: 'n', filter: {a: 3}}");
        assert_eq!(found.len(), 3);
    }
}

#[test]
fn patterns_follow_what_becomes_of_collections() {
    let server = sales();
    // A source that is dropped is a source without documents, and may come again.
    server.run("{drop: 'c'}");
    server.shows("{find: 'p'}", "{_id: 1, s: 0, n: 0}, {_id: 2, s: 0, n: 0}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, x: 3}]}");
    server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 3, n: 1}");
    // A renamed source or target keeps the pattern.
    server.try_in("admin", "{renameCollection: 't.c', to: 't.d'}").expect("renames");
    server.try_in("admin", "{renameCollection: 't.p', to: 't.q'}").expect("renames");
    server.run("{insert: 'd', documents: [{_id: 2, p: 1, x: 4}]}");
    server.shows("{find: 'q', filter: {_id: 1}}", "{_id: 1, s: 7, n: 2}");
    assert!(server.docs("{listPatterns: 'p'}").is_empty());
    // Neither leaves its database, nor is replaced.
    for (from, to) in [("t.d", "u.d"), ("t.q", "u.q"), ("u.x", "t.d")] {
        let _ = server.try_in("u", "{insert: 'x', documents: [{_id: 1}]}");
        let text = format!("{{renameCollection: '{from}', to: '{to}', dropTarget: true}}");
        let refused = server.try_in("admin", &text).expect_err("refused");
        assert!(refused.1.contains("patterns"), "{text}: {refused:?}");
    }
    // A target that is dropped takes its patterns along.
    server.run("{drop: 'q'}");
    assert!(server.docs("{listPatterns: 1}").is_empty());
    server.run("{insert: 'd', documents: [{_id: 3, p: 1, x: 4}]}");
    server.run("{insert: 'q', documents: [{_id: 1}]}");
    server.shows("{find: 'q'}", "{_id: 1}");
}

#[test]
fn a_result_may_be_a_deep_tree_from_its_leaf_on() {
    let server = Server::new();
    server.run(
        "{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {depth: 'd'}}]}",
    );
    // Every node comes before its parent, in chains of 600 that once stood the other way round.
    let nodes: Vec<String> = (0..600).map(|n| format!("{{_id: {n}, parent: {}}}", n + 1)).collect();
    server.run(&format!("{{insert: 'new', documents: [{}, {{_id: 600}}]}}", nodes.join(",")));
    let old: Vec<String> = (1..=600).map(|n| format!("{{_id: {n}, parent: {}}}", n - 1)).collect();
    server.run(&format!("{{insert: 'n', documents: [{{_id: 0}}, {}]}}", old.join(",")));
    server.run("{aggregate: 'new', pipeline: [{$out: 'n'}], cursor: {}}");
    server.shows("{find: 'n', filter: {_id: 0}}", "{_id: 0, parent: 1, d: 600}");
    assert_eq!(number(server.validate("{validatePatterns: 'n'}").as_doc(), "drift"), 0);
}

#[test]
fn a_result_may_exchange_values_of_unique_indexes() {
    let server = sales();
    server.run("{update: 'p', updates: [{q: {_id: 1}, u: {$set: {code: 'a'}}}, {q: {_id: 2}, u: {$set: {code: 'b'}}}]}");
    server.run("{createIndexes: 'p', indexes: [{key: {code: 1}, name: 'code', unique: true}, {key: {s: 1, code: 1}, name: 's', unique: true}]}");
    server.run("{insert: 'new', documents: [{_id: 3, code: 'a'}, {_id: 1, code: 'b'}, {_id: 2, code: 'c'}]}");
    server.run("{aggregate: 'new', pipeline: [{$out: 'p'}], cursor: {}}");
    server.shows(
        "{find: 'p', sort: {_id: 1}, projection: {code: 1, s: 1}}",
        "{_id: 1, code: 'b', s: 11}, {_id: 2, code: 'c', s: 7}, {_id: 3, code: 'a', s: 0}",
    );
    // Each is found by its index, and by no other value.
    for (code, ids) in [("a", vec![3]), ("b", vec![1]), ("c", vec![2])] {
        let found =
            server.docs(&format!("{{find: 'p', filter: {{code: '{code}'}}, hint: 'code'}}"));
        let found: Vec<i64> = found.iter().map(|doc| number(doc.as_doc(), "_id")).collect();
        assert_eq!(found, ids, "{code}");
    }
    assert_eq!(server.docs("{find: 'p', filter: {s: {$gte: 0}}, hint: 's'}").len(), 3);
    let checked = server.run("{validate: 'p'}");
    assert_eq!(checked.as_doc().get("valid"), Some(Val::Bool(true)), "{checked:?}");
    // Two that want the same are refused, and nothing changes.
    server.run("{update: 'new', updates: [{q: {_id: 2}, u: {$set: {code: 'b'}}}]}");
    let refused = server.try_run("{aggregate: 'new', pipeline: [{$out: 'p'}], cursor: {}}");
    assert_eq!(refused.expect_err("twice").0, 11000);
    let found = server.docs("{find: 'p', filter: {code: 'c'}, hint: 'code'}");
    assert_eq!(found.len(), 1);
}
