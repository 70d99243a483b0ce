//! The kinds of patterns through commands: acceptance scenarios of computed, extendedReference,
//! subset and tree, beyond those in `patterns.rs`.

mod harness;

use harness::{Server, same};
use motifdb::value::Val;

#[test]
fn all_accumulators_with_a_maintained_form_follow() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, v: 2, s: 'a'}, {_id: 2, p: 1, v: 4, s: 'b'}, {_id: 3, p: 1, v: 4.0, s: 'a'}]}");
    server.run(
        "{createPatterns: 'p', patterns: [{name: 'all', kind: 'computed', from: 'c', on: {foreign: 'p'}, order: {_id: 1}, fields: {
            pop: {$stdDevPop: '$v'}, samp: {$stdDevSamp: '$v'}, kinds: {$size: {$addToSet: '$s'}}, list: {$push: '$s'},
            first: {$first: '$s'}, last: {$lastN: {input: '$s', n: 2}}, set: {$addToSet: '$s'}}}]}",
    );
    same(
        &server.one("p", "2"),
        "{_id: 2, pop: null, samp: null, kinds: 0, list: [], first: null, last: [], set: []}",
    );
    server.run("{delete: 'c', deletes: [{q: {_id: 2}, limit: 1}]}");
    same(
        &server.one("p", "1"),
        "{_id: 1, pop: 1.0, samp: 1.4142135623730951, kinds: 1, list: ['a', 'a'], first: 'a', last: ['a', 'a'], set: ['a']}",
    );
    server.run("{update: 'c', updates: [{q: {_id: 3}, u: {$set: {p: 2, s: 'z'}}}]}");
    same(
        &server.one("p", "2"),
        "{_id: 2, pop: 0.0, samp: null, kinds: 1, list: ['z'], first: 'z', last: ['z'], set: ['z']}",
    );
    server.verify("p");
}

#[test]
fn references_to_the_same_collection_follow() {
    let server = Server::new();
    server.run("{insert: 'people', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob', boss: {_id: 1}}]}");
    server.run("{createPatterns: 'people', patterns: [{name: 'boss', kind: 'extendedReference', ref: 'boss._id', from: 'people', into: 'boss', fields: ['name'], onMissing: 'reject', onSourceDelete: 'restrict'}]}");
    same(&server.one("people", "2"), "{_id: 2, name: 'Bob', boss: {_id: 1, name: 'Ann'}}");
    // Who is its own boss is there as soon as it is written, and is in nobody's way.
    server.run("{insert: 'people', documents: [{_id: 3, name: 'Own', boss: {_id: 3}}]}");
    server.run("{update: 'people', updates: [{q: {_id: 3}, u: {$set: {name: 'Me'}}}]}");
    same(&server.one("people", "3"), "{_id: 3, name: 'Me', boss: {_id: 3, name: 'Me'}}");
    server.run("{update: 'people', updates: [{q: {_id: 1}, u: {$set: {name: 'Anna'}}}]}");
    same(&server.one("people", "2"), "{_id: 2, name: 'Bob', boss: {_id: 1, name: 'Anna'}}");
    server.verify("people");
    assert_eq!(server.code("{delete: 'people', deletes: [{q: {_id: 1}, limit: 1}]}"), 96001);
    assert_eq!(server.code("{delete: 'people', deletes: [{q: {_id: 3}, limit: 1}]}"), 0);
    // Copies of copies would feed themselves.
    assert_eq!(
        server.code("{createPatterns: 'people', patterns: [{name: 'deep', kind: 'extendedReference', ref: 'boss._id', from: 'people', into: 'chief', fields: [{as: 'name', expr: '$chief.name'}]}]}"),
        2
    );
}

#[test]
fn trees_count_and_nest_what_is_below() {
    let server = Server::new();
    server.run("{insert: 'n', documents: [{_id: 'tech'}, {_id: 'databases', parent: 'tech'}, {_id: 'mongodb', parent: 'databases'}, {_id: 'software'}]}");
    server.run(
        "{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', onDelete: 'cascade', maintain: {
            childCount: 'children', descendantCount: 'below', nestedSet: {lft: 'lft', rgt: 'rgt'}}}]}",
    );
    let counts = |id: &str| {
        let doc =
            motifdb::value::ejson::parse_doc(&server.one("n", &format!("'{id}'"))).expect("a node");
        let number = |name| doc.as_doc().get(name).and_then(Val::as_i64_exact).expect("a count");
        (number("children"), number("below"))
    };
    assert_eq!([counts("tech"), counts("databases"), counts("mongodb")], [(1, 2), (1, 1), (0, 0)]);
    let reply = server
        .run("{update: 'n', updates: [{q: {_id: 'databases'}, u: {$set: {parent: 'software'}}}]}");
    assert_eq!(reply.as_doc().get("nModified"), Some(Val::Int32(1)));
    assert_eq!([counts("tech"), counts("software")], [(0, 0), (1, 2)]);
    // All below a node by its two ends.
    let inside = server.run(
        "{aggregate: 'n', cursor: {}, pipeline: [{$match: {_id: 'software'}}, {$lookup: {from: 'n', as: 'in', let: {l: '$lft', r: '$rgt'},
            pipeline: [{$match: {$expr: {$and: [{$gt: ['$lft', '$$l']}, {$lt: ['$rgt', '$$r']}]}}}, {$sort: {_id: 1}}, {$project: {_id: 1}}]}}, {$project: {in: '$in._id'}}]}",
    );
    let found: Vec<String> = harness::batch(&inside).into_iter().map(harness::print).collect();
    assert_eq!(found, [r#"{"_id":"software","in":["databases","mongodb"]}"#]);
    server.verify("n");
    server.run("{delete: 'n', deletes: [{q: {_id: 'databases'}, limit: 1}]}");
    assert_eq!(server.one("n", "'mongodb'"), "");
    assert_eq!(counts("software"), (0, 0));
    server.verify("n");
}

#[test]
fn trees_may_be_many_and_nodes_may_have_other_names() {
    let server = Server::new();
    let declared = "{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', id: 'slug', scope: 'shop', maintain: {ancestors: 'up', depth: 'depth', childCount: 'children'}}]}";
    server.run("{insert: 'n', documents: [{_id: 1, slug: 'a', shop: 1}, {_id: 2, slug: 'b', shop: 1, parent: 'a'}, {_id: 3, slug: 'x', shop: 2}]}");
    // A name must mean one node.
    assert_eq!(server.code(declared), 2);
    server.run("{createIndexes: 'n', indexes: [{key: {slug: 1}, name: 'slug', unique: true}]}");
    server.run(declared);
    same(
        &server.one("n", "2"),
        "{_id: 2, slug: 'b', shop: 1, parent: 'a', up: ['a'], depth: 1, children: 0}",
    );
    // A parent in another tree, a name that others still use, a node without a name.
    for refused in [
        "{insert: 'n', documents: [{_id: 9, slug: 'y', shop: 2, parent: 'a'}]}",
        "{update: 'n', updates: [{q: {_id: 1}, u: {$set: {shop: 2}}}]}",
        "{update: 'n', updates: [{q: {_id: 1}, u: {$set: {slug: 'new'}}}]}",
        "{insert: 'n', documents: [{_id: 9, shop: 2}]}",
    ] {
        assert_eq!(server.code(refused), 96001, "{refused}");
    }
    server.run("{update: 'n', updates: [{q: {_id: 2}, u: {$set: {slug: 'c'}}}]}");
    server.run("{insert: 'n', documents: [{_id: 4, slug: 'd', shop: 1, parent: 'c'}]}");
    same(
        &server.one("n", "4"),
        "{_id: 4, slug: 'd', shop: 1, parent: 'c', up: ['a', 'c'], depth: 2, children: 0}",
    );
    server.verify("n");
}

#[test]
fn a_segment_that_contains_the_separator_is_refused() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {path: {into: 'path'}}}]}");
    assert_eq!(server.code("{insert: 'n', documents: [{_id: 'a,b'}]}"), 96001);
    assert_eq!(server.code("{insert: 'n', documents: [{_id: 'a/b'}]}"), 0);
}

#[test]
fn nodes_may_come_in_any_order() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', onMissingParent: 'defer', maintain: {ancestors: 'up', descendantCount: 'below', path: {into: 'path', sep: '/'}}}]}");
    // Children first: each node i below i / 3.
    let count = 2000;
    for from in (0..count).step_by(500) {
        let docs: Vec<String> = (from..from + 500)
            .map(|n| (n * 7919 + 13) % count)
            .map(|n| {
                if n == 0 {
                    "{_id: 0}".to_owned()
                } else {
                    format!("{{_id: {n}, parent: {}}}", n / 3)
                }
            })
            .collect();
        server.run(&format!("{{insert: 'n', documents: [{}]}}", docs.join(", ")));
    }
    server.verify("n");
    assert_eq!(server.find("n", "{up: {$exists: false}}").len(), 0);
    let root = motifdb::value::ejson::parse_doc(&server.one("n", "0")).expect("a node");
    assert_eq!(root.as_doc().get("below"), Some(Val::Int32(count - 1)));
    server.run("{update: 'n', updates: [{q: {_id: 1}, u: {$set: {parent: 2}}}]}");
    server.verify("n");
}

#[test]
fn nested_sets_hold_while_many_insert_at_once() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {ancestors: 'up', descendantCount: 'below', nestedSet: {lft: 'lft', rgt: 'rgt'}}}]}");
    server.run("{insert: 'n', documents: [{_id: 0}]}");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for step in 0..100 {
                    let id = 1 + step * 4 + thread;
                    // Below the common root, or below a node that this thread made before.
                    let parent = if step % 3 == 0 { 0 } else { 1 + (id * 7) % step * 4 + thread };
                    server.run(&format!("{{insert: 'n', documents: [{{_id: {id}, parent: {parent}}}]}}"));
                    if step % 25 == 24 {
                        // Leaves move, perhaps below each other; what would be a cycle is refused.
                        server.code(&format!("{{update: 'n', updates: [{{q: {{_id: {id}}}, u: {{$set: {{parent: {}}}}}}}]}}", id - 40));
                    }
                }
            });
        }
    });
    server.verify("n");
    let nodes: Vec<_> = server
        .find("n", "{}")
        .iter()
        .map(|text| motifdb::value::ejson::parse_doc(text).expect("a node"))
        .collect();
    let text = |doc: &motifdb::value::DocBuf, name: &str| {
        doc.as_doc().get(name).and_then(Val::as_str).expect("an end").to_owned()
    };
    let mut ends: Vec<String> =
        nodes.iter().flat_map(|n| [text(n, "lft"), text(n, "rgt")]).collect();
    ends.sort();
    ends.dedup();
    assert_eq!(ends.len(), nodes.len() * 2);
    for x in &nodes {
        let id = x.as_doc().get("_id").expect("an id");
        for y in &nodes {
            let inside = text(x, "lft") < text(y, "lft") && text(y, "rgt") < text(x, "rgt");
            let up = y.as_doc().get("up").and_then(Val::as_array).expect("ancestors");
            assert_eq!(inside, up.iter().any(|(_, v)| v.get() == id));
        }
    }
}
