//! Declaring on documents that are there: what is replaced, what is odd, what it costs; a trial
//! that changes nothing; declarations that fail; messages that name what is meant.

use crate::harness::{Server, print, same, whole};
use motifdb::value::{DocBuf, Val, ejson};

const SALES: &str = "{name: 'sales', kind: 'computed', from: 'orders', on: 'p', fields: {n: {$count: {}}, sum: {$sum: '$x'}}}";

fn shop() -> Server {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 1, n: 2, sum: 99}, {_id: 2, n: 'two'}, {_id: 3}, {_id: 4, n: null, sum: 0}, {_id: 5, n: 7}, {_id: 6, n: 8}]}");
    server.run("{insert: 'orders', documents: [{_id: 1, p: 1, x: 5}, {_id: 2, p: 1, x: 6}]}");
    server
}

fn error(server: &Server, text: &str) -> value::Error {
    let command = ejson::parse_doc(text).expect("test text");
    server.0.run_command("t", command.as_doc()).expect_err(text)
}

/// The documents of a list in a reply.
fn listed(reply: &DocBuf, name: &str) -> Vec<DocBuf> {
    let list = reply.as_doc().get(name).and_then(Val::as_array).expect("a list");
    list.iter().filter_map(|(_, one)| one.as_doc()).map(DocBuf::from).collect()
}

fn docs<const N: usize>(texts: [&str; N]) -> Vec<DocBuf> {
    texts.iter().map(|text| ejson::parse_doc(text).expect("test text")).collect()
}

fn is_unchanged(server: &Server) {
    let found = server.find("products", "{}").join(" ");
    let expected = shop().find("products", "{}").join(" ");
    assert_eq!(found, expected);
    assert!(server.docs("{listPatterns: 1}").is_empty());
}

#[test]
fn a_declaration_tells_what_it_replaces() {
    let server = shop();
    let declare = |more: &str| format!("{{createPatterns: 'products', patterns: [{SALES}]{more}}}");
    let trial = server.run(&declare(", dryRun: true"));
    let expected = docs([
        "{ pattern: 'sales', field: 'sum', documents: 1, samples: [ { _id: 1, was: 99, becomes: 11 } ] }",
        "{ pattern: 'sales', field: 'n', documents: 4, samples: [ { _id: 2, was: 'two', becomes: 0 }, { _id: 4, was: null, becomes: 0 }, { _id: 5, was: 7, becomes: 0 } ] }",
    ]);
    assert_eq!(listed(&trial, "replaced"), expected);
    assert_eq!(listed(&trial, "warnings"), docs([]));
    assert_eq!(whole(&trial, "estimate.documents"), 6);
    assert!(whole(&trial, "estimate.bytes") > 0 && whole(&trial, "estimate.ms") >= 0);
    is_unchanged(&server);
    let refused = error(&server, &declare(", existing: 'refuse'"));
    assert_eq!(refused.code().0, 96001);
    assert!(refused.message().contains("1 document holds another value in 'sum'"), "{refused}");
    is_unchanged(&server);
    let done = server.run(&declare(", existing: 'replace'"));
    assert_eq!(listed(&done, "replaced"), expected);
    same(&server.one("products", "1"), "{_id: 1, n: 2, sum: 11}");
    server.verify("products");
    // Nothing is new when the same is declared again, and what is right may be declared.
    assert_eq!(listed(&server.run(&declare(", existing: 'refuse'")), "replaced"), docs([]));
    server.run("{dropPatterns: 'products', names: ['sales'], keepValues: true}");
    let again = server.run(&declare(", existing: 'refuse'"));
    assert_eq!(listed(&again, "replaced"), docs([]));
    assert_eq!(server.code(&declare(", existing: 'keep'")), 2);
}

#[test]
fn a_trial_looks_at_every_kind_and_at_chains() {
    let server = shop();
    server.run(
        "{insert: 'nodes', documents: [{_id: 1, d: 5, up: 'x', l: 9}, {_id: 2, parent: 1, d: 1}]}",
    );
    server.run("{insert: 'posts', documents: [{_id: 1, by: [{_id: 1, sum: 3}, {_id: 2, sum: 4}]}, {_id: 2, by: []}]}");
    let trial = |collection: &str, patterns: &str| {
        server.run(&format!(
            "{{createPatterns: '{collection}', dryRun: true, patterns: [{patterns}]}}"
        ))
    };
    let tree = trial(
        "nodes",
        "{name: 't', kind: 'tree', maintain: {depth: 'd', ancestors: 'up', childCount: 'c', nestedSet: {lft: 'l', rgt: 'r', dense: true}}}",
    );
    assert_eq!(
        listed(&tree, "replaced"),
        docs([
            "{ pattern: 't', field: 'up', documents: 1, samples: [ { _id: 1, was: 'x', becomes: [] } ] }",
            "{ pattern: 't', field: 'd', documents: 1, samples: [ { _id: 1, was: 5, becomes: 0 } ] }",
            "{ pattern: 't', field: 'l', documents: 1, samples: [ { _id: 1, was: 9, becomes: 1 } ] }"
        ])
    );
    let copies = trial(
        "posts",
        "{name: 'c', kind: 'extendedReference', ref: 'by._id', from: 'products', into: 'by', fields: ['sum'], strategy: 'copy'}",
    );
    assert_eq!(
        listed(&copies, "replaced"),
        docs([
            "{ pattern: 'c', field: 'by.sum', documents: 1, samples: [ { _id: 1, was: [ 3, 4 ], becomes: [ 99 ] } ] }"
        ])
    );
    let subset = trial(
        "products",
        "{name: 's', kind: 'subset', into: 'n', from: 'orders', on: 'p', sort: {x: 1}, limit: 1}",
    );
    assert_eq!(whole(&subset, "estimate.documents"), 6);
    assert!(print(listed(&subset, "replaced")[0].as_doc()).contains("becomes"));
    // A pattern that reads another one of the same declaration sees its values.
    let chain = trial(
        "products",
        &format!(
            "{{name: 'twice', kind: 'computed', fields: {{n2: {{$multiply: ['$n', 2]}}, n4: {{$multiply: ['$n2', 2]}}}}}}, {SALES}"
        ),
    );
    assert_eq!(listed(&chain, "replaced").len(), 2, "{chain:?}");
    let groups = trial(
        "orders",
        "{name: 'g', kind: 'computed', into: 'groups', groupBy: '$p', fields: {n: {$count: {}}}}",
    );
    assert_eq!(whole(&groups, "estimate.documents"), 1);
    is_unchanged(&server);
    assert!(server.docs("{listCollections: 1, filter: {name: 'groups'}}").is_empty());
    let failing = error(
        &server,
        "{createPatterns: 'products', dryRun: true, patterns: [{name: 'f', kind: 'computed', fields: {m: {$multiply: ['$n', 2]}}}]}",
    );
    for part in ["pattern 'f' of 'products'", "document with _id 2", "field 'm'"] {
        assert!(failing.message().contains(part), "{failing}");
    }
    assert!(server.docs("{listPatterns: 1}").is_empty());
}

#[test]
fn names_that_nobody_has_are_warned_of() {
    let server = shop();
    let warnings = |collection: &str, patterns: &str| {
        let reply = server.run(&format!(
            "{{createPatterns: '{collection}', dryRun: true, patterns: [{patterns}]}}"
        ));
        listed(&reply, "warnings")
    };
    assert_eq!(
        warnings(
            "products",
            "{name: 'a', kind: 'computed', from: 'oders', on: 'p', fields: {m: {$count: {}}}}"
        ),
        docs(["{ pattern: 'a', message: \"there is no collection 'oders' yet\" }"])
    );
    assert_eq!(
        warnings(
            "products",
            "{name: 'a', kind: 'computed', from: 'orders', on: {local: 'code', foreign: 'product'}, fields: {m: {$sum: '$price'}, k: {$sum: '$x'}}}"
        ),
        docs([
            "{ pattern: 'a', message: \"no document of 'orders' has the field 'product'\" }",
            "{ pattern: 'a', message: \"no document of 'orders' has the field 'price'\" }",
            "{ pattern: 'a', message: \"no document of 'products' has the field 'code'\" }"
        ])
    );
    // What another pattern maintains comes into being.
    assert_eq!(
        warnings(
            "products",
            &format!(
                "{SALES}, {{name: 'b', kind: 'computed', fields: {{twice: {{$add: ['$sum', '$n']}}, thrice: '$twice'}}}}"
            )
        ),
        docs([])
    );
    assert_eq!(
        warnings(
            "orders",
            "{name: 'c', kind: 'extendedReference', ref: 'p', from: 'products', into: 'product', fields: ['name', 'n']}"
        ),
        docs(["{ pattern: 'c', message: \"no document of 'products' has the field 'name'\" }"])
    );
    assert_eq!(warnings("empty", "{name: 'd', kind: 'computed', fields: {a: '$b'}}"), docs([]));
}

#[test]
fn a_failed_declaration_does_not_block_its_name() {
    let server = shop();
    let bad = "{createPatterns: 'products', patterns: [{name: 'v', kind: 'computed', fields: {a: {$toString: '$_id'}, m: {$multiply: ['$n', 2]}}}]}";
    let failed = error(&server, bad);
    assert_eq!(failed.code().0, 96);
    for part in ["pattern 'v' of 'products'", "document with _id 2", "field 'm'"] {
        assert!(failed.message().contains(part), "{failed}");
    }
    assert_eq!(crate::harness::text(&server.pattern("products"), "state"), "failed");
    let shown = server.pattern("products");
    assert!(
        crate::harness::text(&shown, "error").contains("document with _id 2: field 'm'"),
        "{shown:?}"
    );
    // The same fails again; another one takes the name, and nothing of the first is left.
    error(&server, bad);
    server.run("{createPatterns: 'products', patterns: [{name: 'v', kind: 'computed', fields: {k: {$toString: '$_id'}}}]}");
    assert_eq!(
        server
            .docs("{listPatterns: 'products'}")
            .iter()
            .filter(|p| crate::harness::text(p, "state") == "ready")
            .count(),
        1
    );
    server.run("{find: 'products', readConcern: {patterns: 'fresh'}}");
    same(&server.one("products", "1"), "{_id: 1, n: 2, sum: 99, k: '1'}");
    server.run("{update: 'products', updates: [{q: {_id: 2}, u: {$set: {n: 2}}}]}");
    server.run("{createPatterns: 'products', patterns: [{name: 'w', kind: 'computed', fields: {m: {$multiply: ['$n', 2]}}}]}");
}

#[test]
fn errors_name_pattern_field_and_document() {
    let server = shop();
    server.run("{createPatterns: 'products', patterns: [{name: 'r', kind: 'computed', from: 'orders', on: 'p', fields: {r: {$sum: {$multiply: ['$x', '$y']}}}}]}");
    let reply = |text: &str| {
        let command = ejson::parse_doc(text).expect("test text");
        let reply = server.0.run_command("t", command.as_doc()).expect("has write errors");
        print(reply.as_doc())
    };
    let refused = reply("{insert: 'orders', documents: [{_id: {a: 'b'}, p: 1, x: 2, y: 'no'}]}");
    for part in [
        "pattern 'r' of 'products'",
        r#"document with _id {\"a\":\"b\"}"#,
        "field 'r': ",
        "$multiply",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    server.run("{createPatterns: 'orders', patterns: [{name: 'q', kind: 'computed', fields: {'deep.q': {$divide: [1, '$x']}}}]}");
    let refused = reply("{update: 'orders', updates: [{q: {_id: 2}, u: {$set: {x: 0}}}]}");
    for part in ["pattern 'q' of 'orders'", "document with _id 2", "field 'deep.q': "] {
        assert!(refused.contains(part), "{refused}");
    }
    let refused = reply("{update: 'orders', updates: [{q: {_id: 2}, u: {$set: {deep: 3}}}]}");
    assert!(
        refused.contains("pattern 'q' of 'orders', document with _id 2: 'deep' must be a document"),
        "{refused}"
    );
    // The target refuses.
    server.run("{insert: 'orders', documents: [{_id: 10, p: 2, x: 1, y: 1}, {_id: 11, p: 3, x: 2, y: 1}, {_id: 12, p: 4, x: 3, y: 1}, {_id: 13, p: 5, x: 4, y: 1}, {_id: 14, p: 6, x: 5, y: 1}, {_id: 15, p: 1, x: 6, y: 1}]}");
    server.run("{createIndexes: 'products', indexes: [{key: {r: 1}, name: 'r', unique: true}]}");
    let refused = reply("{update: 'orders', updates: [{q: {_id: 10}, u: {$set: {x: 2}}}]}");
    assert!(refused.contains("\"errmsg\":\"E11000"), "{refused}");
    assert!(refused.contains("pattern 'r' of 'products'"), "{refused}");
    server.verify("products");
}

#[test]
fn a_tree_needs_unique_names_within_its_scope_only() {
    for key in ["{site: 1, name: 1}", "{name: 1, site: 1}", "{site: -1, name: 1}"] {
        let server = Server::new();
        let declare = "{createPatterns: 'pages', patterns: [{name: 't', kind: 'tree', id: 'name', scope: 'site', onDelete: 'cascade', maintain: {path: {into: 'path', segment: '$name', sep: '/'}, ancestors: 'up', childCount: 'n', descendantCount: 'all'}}]}";
        let refused = error(&server, declare);
        assert!(refused.message().contains("alone or together with 'site'"), "{refused}");
        server.run(&format!(
            "{{createIndexes: 'pages', indexes: [{{key: {key}, name: 'k', unique: true}}]}}"
        ));
        server.run("{insert: 'pages', documents: [{_id: 1, site: 'a', name: 'home'}, {_id: 2, site: 'b', name: 'home'}, {_id: 3, site: 'b', name: 'x', parent: 'home'}]}");
        server.run(declare);
        server.run("{insert: 'pages', documents: [{_id: 4, site: 'a', name: 'x', parent: 'home'}, {_id: 5, site: 'a', name: 'y', parent: 'x'}]}");
        same(
            &server.one("pages", "5"),
            "{_id: 5, site: 'a', name: 'y', parent: 'x', up: ['home', 'x'], path: '/home/x/y/', n: 0, all: 0}",
        );
        same(
            &server.one("pages", "2"),
            "{_id: 2, site: 'b', name: 'home', up: [], path: '/home/', n: 1, all: 1}",
        );
        assert_eq!(
            server.code(
                "{insert: 'pages', documents: [{_id: 6, site: 'c', name: 'z', parent: 'home'}]}"
            ),
            96001
        );
        assert_eq!(
            server.code("{update: 'pages', updates: [{q: {_id: 4}, u: {$set: {site: 'b'}}}]}"),
            11000
        );
        assert_eq!(
            server.code(
                "{update: 'pages', updates: [{q: {_id: 4}, u: {$set: {site: 'c', parent: null}}}]}"
            ),
            96001,
            "it has a child"
        );
        // A subtree moves whole to another site, and a walk that knows no sites is not answered from it.
        server.run("{delete: 'pages', deletes: [{q: {_id: 3}, limit: 1}]}");
        server.run("{update: 'pages', updates: [{q: {_id: {$in: [4, 5]}}, u: {$set: {site: 'b'}}, multi: true}]}");
        same(
            &server.one("pages", "2"),
            "{_id: 2, site: 'b', name: 'home', up: [], path: '/home/', n: 1, all: 2}",
        );
        let walk = "{aggregate: 'pages', cursor: {}, pipeline: [{$match: {_id: 5}}, {$graphLookup: {from: 'pages', startWith: '$parent', connectFromField: 'parent', connectToField: 'name', as: 'w'}}, {$project: {n: {$size: '$w'}}}]}";
        same(&print(server.docs(walk)[0].as_doc()), "{_id: 5, n: 3}");
        let (found, expected) = ("{name: 'home'}", "{_id: {$in: [1, 2]}}");
        assert_eq!(server.find("pages", found), server.find("pages", expected));
        server.run("{delete: 'pages', deletes: [{q: {_id: 2}, limit: 1}]}");
        same(
            &server.find("pages", "{}").join(" "),
            "{_id: 1, site: 'a', name: 'home', up: [], path: '/home/', n: 0, all: 0}",
        );
        server.verify("pages");
    }
}
