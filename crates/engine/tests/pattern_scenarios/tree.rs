//! The scenarios of tree.

use crate::harness::{Dice, Server, same, text, whole, within};
use crate::repeats;
use motifdb::value::{DocBuf, Val};
use std::collections::BTreeMap;

fn declare(options: &str) -> String {
    format!(
        "{{createPatterns: 'categories', patterns: [{{name: 'tree', kind: 'tree', parent: 'parent',
          maintain: {{ancestors: 'ancestors', path: {{into: 'path', sep: ',', segment: '$_id'}}, depth: 'depth'}}{options}}}]}}"
    )
}

fn forest(options: &str) -> Server {
    let server = Server::new();
    server.run("{insert: 'categories', documents: [{_id: 'tech'}, {_id: 'databases', parent: 'tech'}, {_id: 'software'}]}");
    server.run(&declare(options));
    server.run("{insert: 'categories', documents: [{_id: 'mongodb', parent: 'databases'}]}");
    server
}

fn hang(server: &Server, node: &str, below: &str, more: &str) -> i64 {
    server.code(&format!(
        "{{update: 'categories', updates: [{{q: {{_id: '{node}'}}, u: {{$set: {{parent: '{below}'}}}}}}]{more}}}"
    ))
}

#[test]
fn tree_1_a_node_knows_where_it_is() {
    let server = forest("");
    same(
        &server.one("categories", "'mongodb'"),
        "{_id: 'mongodb', parent: 'databases', ancestors: ['tech', 'databases'], path: ',tech,databases,mongodb,', depth: 2}",
    );
}

#[test]
fn tree_2_a_subtree_moves_at_once() {
    let server = forest("");
    let reply = server.run("{update: 'categories', updates: [{q: {_id: 'databases'}, u: {$set: {parent: 'software'}}}]}");
    assert_eq!((whole(&reply, "n"), whole(&reply, "nModified")), (1, 1));
    same(
        &server.one("categories", "'mongodb'"),
        "{_id: 'mongodb', parent: 'databases', ancestors: ['software', 'databases'], path: ',software,databases,mongodb,', depth: 2}",
    );
    assert!(server.find("categories", "{ancestors: 'tech'}").is_empty());
    // While it moves back and forth, both nodes are below the same root at every moment.
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (server, done) = (&server, &done);
        scope.spawn(move || {
            for n in 0..1000 {
                assert_eq!(hang(server, "databases", ["tech", "software"][n % 2], ""), 0);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        scope.spawn(move || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let roots = server.docs("{aggregate: 'categories', cursor: {}, pipeline: [{$match: {_id: {$in: ['databases', 'mongodb']}}}, {$group: {_id: {$first: '$ancestors'}, n: {$sum: 1}}}]}");
                assert_eq!(roots.len(), 1, "{roots:?}");
                assert_eq!(whole(&roots[0], "n"), 2);
            }
        });
    });
    server.verify("categories");
}

#[test]
fn tree_3_a_cycle_is_refused() {
    let server = forest("");
    let before = server.find("categories", "{}");
    assert_eq!(hang(&server, "tech", "mongodb", ""), 96001);
    assert_eq!(hang(&server, "tech", "tech", ""), 96001);
    assert_eq!(server.find("categories", "{}"), before);
}

#[test]
fn tree_4_of_two_moves_that_would_be_a_cycle_one_commits() {
    let server = Server::new();
    server.run(&declare(""));
    let mut dice = Dice(4);
    for round in 0..repeats(10_000) as i64 {
        server.run("{delete: 'categories', deletes: [{q: {}, limit: 0}]}");
        server.run("{insert: 'categories', documents: [{_id: 'a'}, {_id: 'b'}]}");
        let number = 2 * round + 1;
        let mut moves = [(1, "a", "b"), (2, "b", "a")];
        if dice.below(2) == 0 {
            moves.reverse();
        }
        for (session, node, below) in moves {
            assert_eq!(hang(&server, node, below, &within(session, number, true)), 0);
        }
        if dice.below(2) == 0 {
            moves.reverse();
        }
        let [first, second] = moves;
        assert_eq!(server.end("commitTransaction", first.0, number), 0);
        assert_eq!(server.end("commitTransaction", second.0, number), 112, "to be run again");
        let again = within(second.0, number + 1, true);
        assert_eq!(hang(&server, second.1, second.2, &again), 96001, "a cycle by now");
        server.end("abortTransaction", second.0, number + 1);
        let (moved, root) = (first.1, first.2);
        let node = server.get("categories", &format!("'{moved}'"));
        assert_eq!(text(&node, "path"), format!(",{root},{moved},"));
        assert_eq!(
            text(&server.get("categories", &format!("'{root}'")), "path"),
            format!(",{root},")
        );
    }
    server.verify("categories");
}

#[test]
fn tree_5_what_becomes_of_children() {
    let delete = "{delete: 'categories', deletes: [{q: {_id: 'databases'}, limit: 1}]}";
    let server = forest("");
    assert_eq!(server.code(delete), 96001);
    assert_eq!(server.find("categories", "{}").len(), 4);
    let server = forest(", onDelete: 'adopt'");
    assert_eq!(hang(&server, "databases", "software", ""), 0);
    assert_eq!(whole(&server.run(delete), "n"), 1);
    same(
        &server.one("categories", "'mongodb'"),
        "{_id: 'mongodb', parent: 'software', ancestors: ['software'], path: ',software,mongodb,', depth: 1}",
    );
    let server = forest(", onDelete: 'cascade'");
    assert_eq!(whole(&server.run(delete), "n"), 1, "replies count the client's documents");
    assert_eq!(server.find("categories", "{}").len(), 2);
    let server = forest(", onDelete: 'root'");
    server.run(delete);
    assert_eq!(text(&server.get("categories", "'mongodb'"), "path"), ",mongodb,");
    server.verify("categories");
}

#[test]
fn tree_6_a_search_in_paths_reads_what_it_returns() {
    let server = forest("");
    server.run("{createIndexes: 'categories', indexes: [{key: {path: 1}, name: 'path'}]}");
    let list: Vec<String> = (0..500)
        .map(|n| {
            format!("{{_id: 'n{n}', parent: '{}'}}", ["databases", "software", "mongodb"][n % 3])
        })
        .collect();
    server.run(&format!("{{insert: 'categories', documents: [{}]}}", list.join(",")));
    let search = "{find: 'categories', filter: {path: /,databases,/}, batchSize: 10000}";
    let mut found = server.docs(search);
    let mut plain = server.docs("{find: 'categories', filter: {$or: [{_id: 'databases'}, {ancestors: 'databases'}]}, batchSize: 10000}");
    for list in [&mut found, &mut plain] {
        list.sort_by_key(|doc| text(doc, "_id").to_owned());
    }
    assert_eq!(found, plain);
    let reply = server.run(&format!("{{explain: {search}, verbosity: 'executionStats'}}"));
    assert!(format!("{reply:?}").contains("IXSCAN"), "{reply:?}");
    assert_eq!(whole(&reply, "executionStats.nReturned"), found.len() as i64);
    assert_eq!(whole(&reply, "executionStats.totalKeysExamined"), found.len() as i64, "{reply:?}");
}

/// Whether the nested sets say what the parents say, for all pairs.
fn check_nesting(nodes: &[DocBuf]) {
    let mut ends: Vec<&str> = nodes.iter().flat_map(|n| [text(n, "lft"), text(n, "rgt")]).collect();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), nodes.len() * 2, "all ends differ");
    let parent: BTreeMap<i64, i64> =
        nodes.iter().map(|n| (whole(n, "_id"), whole(n, "parent"))).collect();
    for below in nodes {
        let mut above = Vec::new();
        let mut next = whole(below, "parent");
        while next >= 0 {
            above.push(next);
            next = parent[&next];
        }
        for over in nodes {
            let inside =
                text(over, "lft") < text(below, "lft") && text(below, "rgt") < text(over, "rgt");
            assert_eq!(inside, above.contains(&whole(over, "_id")), "{below:?} in {over:?}");
        }
    }
}

#[test]
fn tree_7_nested_sets_hold_while_a_thousand_insert_at_once() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {nestedSet: {lft: 'lft', rgt: 'rgt'}}}]}");
    server.run("{insert: 'n', documents: [{_id: 0}]}");
    let there = std::sync::Mutex::new(vec![0_u64]);
    std::thread::scope(|scope| {
        for thread in 0..20_u64 {
            let (server, there) = (&server, &there);
            scope.spawn(move || {
                let mut dice = Dice(thread);
                for step in 0..50 {
                    let id = 1 + thread * 50 + step;
                    let parent = {
                        let there = there.lock().expect("nobody panicked");
                        there[dice.below(there.len() as u64) as usize]
                    };
                    server.run(&format!(
                        "{{insert: 'n', documents: [{{_id: {id}, parent: {parent}}}]}}"
                    ));
                    there.lock().expect("nobody panicked").push(id);
                }
            });
        }
    });
    let nodes = server.docs("{find: 'n', batchSize: 10000}");
    assert_eq!(nodes.len(), 1001);
    check_nesting(&nodes);
    server.verify("n");
}

/// The half of it that moves with the strategy `pointer` has a test of its own beside that strategy.
#[test]
fn tree_8_a_hundred_thousand_nodes_may_come_in_any_order() {
    const NODES: usize = 100_000;
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', onMissingParent: 'defer', maintain: {ancestors: 'up', depth: 'depth', path: {into: 'path'}}}]}");
    let mut dice = Dice(8);
    let parents: Vec<usize> = (0..NODES).map(|n| dice.below(n.max(1) as u64) as usize).collect();
    let mut order: Vec<usize> = (0..NODES).collect();
    for at in (1..NODES).rev() {
        order.swap(at, dice.below(at as u64 + 1) as usize);
    }
    for chunk in order.chunks(5000) {
        let list: Vec<String> = chunk
            .iter()
            .map(|n| match n {
                0 => "{_id: 0}".to_owned(),
                n => format!("{{_id: {n}, parent: {}}}", parents[*n]),
            })
            .collect();
        server.run(&format!("{{insert: 'n', documents: [{}]}}", list.join(",")));
    }
    let mut next = 0;
    while next < NODES {
        let nodes = server.docs(&format!("{{find: 'n', filter: {{_id: {{$gte: {next}, $lt: {}}}}}, sort: {{_id: 1}}, batchSize: 10000}}", next + 10_000));
        assert_eq!(nodes.len(), 10_000);
        for node in &nodes {
            let mut chain = Vec::new();
            let mut at = next;
            while at != 0 {
                at = parents[at];
                chain.insert(0, at as i64);
            }
            let up = node.as_doc().get("up").and_then(Val::as_array).expect("ancestors");
            let up: Vec<i64> = up.iter().filter_map(|(_, id)| id.get().as_i64_exact()).collect();
            assert_eq!(up, chain, "{node:?}");
            assert_eq!(whole(node, "depth"), chain.len() as i64);
            let path: String = chain.iter().map(|id| format!(",{id}")).collect();
            assert_eq!(text(node, "path"), format!("{path},{next},"));
            next += 1;
        }
    }
}
