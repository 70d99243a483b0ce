//! What hand-written upkeep, as it is often shown in articles, gets wrong; and a declared pattern right.

use crate::harness::{Server, same, whole};
use motifdb::value::Val;

/// A change stream that adds price times quantity on inserts and on updates, and does not look at deletes
/// or at orders that go to another product.
#[test]
fn computed_by_a_change_stream_counts_edits_twice() {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 'p'}, {_id: 'q'}]}");
    server.run("{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders', on: {foreign: 'product_id'}, fields: {revenue: {$sum: {$multiply: ['$price', '$quantity']}}}}]}");
    let is = |p, q| {
        let found = ["'p'", "'q'"].map(|id| whole(&server.get("products", id), "revenue"));
        assert_eq!(found, [p, q]);
    };
    server
        .run("{insert: 'orders', documents: [{_id: 1, product_id: 'p', price: 10, quantity: 2}]}");
    is(20, 0);
    server.run("{update: 'orders', updates: [{q: {_id: 1}, u: {$set: {note: 'edited'}}}]}");
    is(20, 0);
    server.run("{update: 'orders', updates: [{q: {_id: 1}, u: {$set: {quantity: 3}}}]}");
    is(30, 0);
    server.run("{update: 'orders', updates: [{q: {_id: 1}, u: {$set: {product_id: 'q'}}}]}");
    is(0, 30);
    server.run("{delete: 'orders', deletes: [{q: {_id: 1}, limit: 1}]}");
    is(0, 0);
}

/// A nightly job that sums a field which orders do not have, and so writes zero.
#[test]
fn computed_by_a_nightly_job_sums_nothing() {
    let server = Server::new();
    server.run("{insert: 'orders', documents: [{_id: 1, product_id: 'p', price: 10, quantity: 2}, {_id: 2, product_id: 'p', price: 1, quantity: 1}]}");
    server.run("{insert: 'products', documents: [{_id: 'p'}]}");
    // The job runs every second; its result is that of the aggregation at that time.
    server.run("{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders', on: {foreign: 'product_id'}, mode: {every: '1s'}, fields: {revenue: {$sum: {$multiply: ['$price', '$quantity']}}}}]}");
    assert_eq!(whole(&server.get("products", "'p'"), "revenue"), 21);
    server.run("{insert: 'orders', documents: [{_id: 3, product_id: 'p', price: 4, quantity: 1}]}");
    let begin = std::time::Instant::now();
    while whole(&server.get("products", "'p'"), "revenue") != 25 {
        assert!(begin.elapsed().as_secs() < 90, "the schedule does not come round");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A count of an author's posts that is stored on one arbitrary post of the author, and one that is
/// estimated by a factor which fits one size of the collection only.
#[test]
fn counts_stand_on_the_author_and_fit_every_size() {
    let server = Server::new();
    server.run("{insert: 'authors', documents: [{_id: 'alice'}, {_id: 'bob'}]}");
    server.run("{createPatterns: 'authors', patterns: [{name: 'posts', kind: 'computed', from: 'posts', on: {foreign: 'author'}, fields: {post_count: {$count: {}}}}]}");
    for size in [1, 10, 350] {
        server.run("{delete: 'posts', deletes: [{q: {}, limit: 0}]}");
        let list: Vec<String> =
            (0..size).map(|n| format!("{{_id: {n}, author: 'alice'}}")).collect();
        server.run(&format!("{{insert: 'posts', documents: [{}]}}", list.join(",")));
        assert_eq!(whole(&server.get("authors", "'alice'"), "post_count"), size);
        assert_eq!(whole(&server.get("authors", "'bob'"), "post_count"), 0);
    }
    assert!(server.find("posts", "{post_count: {$exists: true}}").is_empty());
}

/// A collection of its own for the comments of each post that went viral: here they stay in one, with one
/// index over all, and the post carries the newest and their count.
#[test]
fn comments_of_a_viral_post_stay_in_one_collection() {
    let server = Server::new();
    server.run("{createIndexes: 'comments', indexes: [{key: {post: 1, at: -1}, name: 'of_post'}]}");
    server.run("{insert: 'posts', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{createPatterns: 'posts', patterns: [{name: 'newest', kind: 'subset', into: 'newest', from: 'comments', on: {foreign: 'post'}, sort: {at: -1}, limit: 3, fields: ['text'], count: 'comment_count'}]}");
    let list: Vec<String> = (0..5000)
        .map(|n| {
            format!(
                "{{_id: {n}, post: {}, at: {n}, text: 't{n}'}}",
                if n % 1000 == 0 { 2 } else { 1 }
            )
        })
        .collect();
    server.run(&format!("{{insert: 'comments', documents: [{}]}}", list.join(",")));
    let counts = ["1", "2"].map(|id| whole(&server.get("posts", id), "comment_count"));
    assert_eq!(counts, [4995, 5]);
    let newest = server.get("posts", "1");
    let newest = newest.as_doc().get("newest").and_then(Val::as_array).expect("a list");
    let ids: Vec<i64> =
        newest.iter().filter_map(|(_, c)| c.as_doc()?.get("_id")?.as_i64_exact()).collect();
    assert_eq!(ids, [4999, 4998, 4997]);
    let explained =
        server.run("{explain: {find: 'comments', filter: {post: 2}}, verbosity: 'executionStats'}");
    assert_eq!(whole(&explained, "executionStats.totalDocsExamined"), 5);
}

/// A bucket that two writers open twice, that mixes hours, whose mean cannot be told since it keeps no
/// sum, and whose lowest and highest readings are those of the first.
#[test]
fn statistics_of_readings_by_the_hour_are_right() {
    let server = Server::new();
    server.run("{createPatterns: 'readings', patterns: [{name: 'hours', kind: 'computed', into: 'by_hour', groupBy: {sensor: '$sensor', hour: {$dateTrunc: {date: '$at', unit: 'hour'}}}, fields: {n: {$count: {}}, low: {$min: '$t'}, high: {$max: '$t'}, mean: {$avg: '$t'}}}]}");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for n in 0..100 {
                    let (hour, minute) = (n % 3, n % 60);
                    server.run(&format!("{{insert: 'readings', documents: [{{_id: {}, sensor: 1, at: ISODate('2026-01-01T0{hour}:{minute:02}:00Z'), t: {}}}]}}", writer * 100 + n, writer * 100 + n));
                }
            });
        }
    });
    let hours = server.docs("{find: 'by_hour', sort: {'_id.hour': 1}}");
    assert_eq!(hours.len(), 3, "one for each hour: {hours:?}");
    assert_eq!(hours.iter().map(|hour| whole(hour, "n")).sum::<i64>(), 800);
    let plain = server.docs("{aggregate: 'readings', rewrite: false, cursor: {}, pipeline: [{$group: {_id: {sensor: '$sensor', hour: {$dateTrunc: {date: '$at', unit: 'hour'}}}, n: {$count: {}}, low: {$min: '$t'}, high: {$max: '$t'}, mean: {$avg: '$t'}}}, {$sort: {'_id.hour': 1}}]}");
    assert_eq!(hours, plain);
    server.verify("readings");
}

/// A subtree by a search in paths that is not anchored and reads the whole index.
#[test]
fn a_subtree_by_its_path_reads_its_own_keys() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {path: {into: 'path'}}}]}");
    server.run("{createIndexes: 'n', indexes: [{key: {path: 1}, name: 'path'}]}");
    server.run("{insert: 'n', documents: [{_id: 'tech'}, {_id: 'databases', parent: 'tech'}, {_id: 'mongodb', parent: 'databases'}]}");
    let list: Vec<String> = (0..1000).map(|n| format!("{{_id: 'x{n}', parent: 'tech'}}")).collect();
    server.run(&format!("{{insert: 'n', documents: [{}]}}", list.join(",")));
    let reply = server
        .run("{explain: {find: 'n', filter: {path: /,databases,/}}, verbosity: 'executionStats'}");
    assert_eq!(whole(&reply, "executionStats.nReturned"), 2);
    assert_eq!(whole(&reply, "executionStats.totalKeysExamined"), 2, "{reply:?}");
}

/// A rename in two statements: one of them fails and leaves a mixture. (That a new reference between the
/// two is not missed either is `reference_5_a_new_order_and_a_rename_never_part`.)
#[test]
fn a_rename_is_done_whole_or_not_at_all() {
    let server = Server::new();
    server.run("{createIndexes: 'orders', indexes: [{key: {'by.name': 1}, name: 'name', unique: true, partialFilterExpression: {'by.name': {$exists: true}}}]}");
    server.run("{insert: 'people', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob'}]}");
    server.run("{createPatterns: 'orders', patterns: [{name: 'by', kind: 'extendedReference', ref: 'by._id', from: 'people', into: 'by', fields: ['name']}]}");
    server.run("{insert: 'orders', documents: [{_id: 2, by: {_id: 1}}, {_id: 3, by: {_id: 2}}]}");
    // The copies refuse it: two orders cannot have one name.
    let rename = "{update: 'people', updates: [{q: {_id: 1}, u: {$set: {name: 'Bob'}}}]}";
    assert_eq!(server.code(rename), 11000);
    same(&server.one("people", "1"), "{_id: 1, name: 'Ann'}");
    same(&server.one("orders", "2"), "{_id: 2, by: {_id: 1, name: 'Ann'}}");
    server.verify("orders");
}
