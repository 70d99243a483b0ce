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

/// The ends of all nodes, by their names.
fn numbers(server: &Server) -> Vec<(i64, i64, i64)> {
    let whole = |node: &motifdb::value::DocBuf, name| harness::whole(node, name);
    let nodes = server.docs("{find: 'n', sort: {lft: 1, _id: 1}}");
    nodes.iter().map(|n| (whole(n, "_id"), whole(n, "lft"), whole(n, "rgt"))).collect()
}

#[test]
fn nested_sets_may_be_numbers_without_gaps() {
    let server = Server::new();
    server.run("{insert: 'n', documents: [{_id: 1, lft: 'mine'}, {_id: 2, parent: 1}, {_id: 3, parent: 1}, {_id: 4, parent: 2}]}");
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', order: 'at', onDelete: 'adopt', maintain: {nestedSet: {lft: 'lft', rgt: 'rgt', dense: true}}}]}");
    let is = |expected: &[(i64, i64, i64)]| {
        assert_eq!(numbers(&server), expected);
        server.verify("n");
    };
    is(&[(1, 1, 8), (2, 2, 5), (4, 3, 4), (3, 6, 7)]);
    // All that stands behind a new node moves on; nobody else writes the numbers.
    server.run("{insert: 'n', documents: [{_id: 5, parent: 2, lft: 99}]}");
    server.run("{update: 'n', updates: [{q: {_id: 3}, u: {$set: {x: 1}}}]}");
    let own = "{update: 'n', updates: [{q: {_id: 3}, u: {$set: {lft: 77}}}]}";
    assert_eq!(server.code(own), 96001);
    is(&[(1, 1, 10), (2, 2, 7), (4, 3, 4), (5, 5, 6), (3, 8, 9)]);
    server.run("{update: 'n', updates: [{q: {_id: 2}, u: {$set: {at: 1}}}]}");
    is(&[(1, 1, 10), (3, 2, 3), (2, 4, 9), (4, 5, 6), (5, 7, 8)]);
    server.run("{update: 'n', updates: [{q: {_id: 2}, u: {$set: {parent: 3}}}]}");
    is(&[(1, 1, 10), (3, 2, 9), (2, 3, 8), (4, 4, 5), (5, 6, 7)]);
    assert_eq!(
        server.code("{update: 'n', updates: [{q: {_id: 3}, u: {$set: {parent: 5}}}]}"),
        96001
    );
    server.run("{delete: 'n', deletes: [{q: {_id: 3}, limit: 1}]}");
    is(&[(1, 1, 8), (2, 2, 7), (4, 3, 4), (5, 5, 6)]);
    // A transaction sees its own, and what it drops was never there.
    let within = |first| harness::within(1, 1, first);
    server.run(&format!("{{insert: 'n', documents: [{{_id: 0, parent: 1}}]{}}}", within(true)));
    let seen = server.docs(&format!("{{find: 'n', filter: {{_id: 2}}{}}}", within(false)));
    assert_eq!(harness::whole(&seen[0], "lft"), 4);
    assert_eq!(server.end("abortTransaction", 1, 1), 0);
    is(&[(1, 1, 8), (2, 2, 7), (4, 3, 4), (5, 5, 6)]);
    // As text and back, and after writes that went past.
    let dense = |dense: bool| {
        server.run(&format!("{{modifyPattern: 'n', name: 't', set: {{maintain: {{nestedSet: {{lft: 'lft', rgt: 'rgt', dense: {dense}}}}}}}}}"));
    };
    dense(false);
    assert!(server.one("n", "4").contains('~'), "{}", server.one("n", "4"));
    server.verify("n");
    dense(true);
    is(&[(1, 1, 8), (2, 2, 7), (4, 3, 4), (5, 5, 6)]);
    server.run("{delete: 'n', deletes: [{q: {_id: 4}, limit: 1}], bypassPatterns: true}");
    server.run("{validatePatterns: 'n', repair: true}");
    is(&[(1, 1, 6), (2, 2, 5), (5, 3, 4)]);
    server.run("{dropPatterns: 'n', names: ['t'], wait: true}");
    let left = || server.find("n", "{lft: {$exists: true}}").len();
    let begin = std::time::Instant::now();
    while left() > 0 {
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "never cleared");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn every_tree_of_a_forest_has_numbers_of_its_own_beside_many_writers() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', scope: 'shop', onMissingParent: 'defer', maintain: {depth: 'd', nestedSet: {lft: 'lft', rgt: 'rgt', dense: true}}}]}");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                // Two threads for each shop; children come before their parents.
                for step in (0..60).rev() {
                    let (id, shop) = (step * 4 + thread, thread % 2);
                    let parent = (step / 3) * 4 + thread;
                    let parent = if step == 0 { "null".to_owned() } else { parent.to_string() };
                    server.run(&format!("{{insert: 'n', documents: [{{_id: {id}, parent: {parent}, shop: {shop}}}]}}"));
                }
            });
        }
    });
    server.verify("n");
    for shop in 0..2 {
        let nodes =
            server.docs(&format!("{{find: 'n', filter: {{shop: {shop}}}, batchSize: 1000}}"));
        let ends = |node| [harness::whole(node, "lft"), harness::whole(node, "rgt")];
        let mut ends: Vec<i64> = nodes.iter().flat_map(ends).collect();
        ends.sort_unstable();
        assert_eq!(ends, (1..=240).collect::<Vec<i64>>());
    }
    // A tree goes to another shop, and a node waits again.
    server.run("{update: 'n', updates: [{q: {_id: 239}, u: {$set: {parent: 1000}}}]}");
    assert!(!server.one("n", "239").contains("lft"));
    server.verify("n");
    server.run("{update: 'n', updates: [{q: {_id: 239}, u: {$set: {parent: null, shop: 0}}}]}");
    assert_eq!(harness::whole(&server.get("n", "239"), "rgt"), 242);
    server.verify("n");
}
