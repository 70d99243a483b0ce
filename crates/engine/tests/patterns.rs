//! Patterns through commands: the acceptance scenarios, builds beside writes, restarts, races.

mod harness;

use harness::{Server, batch, print, same, within};
use motifdb::value::{Val, ejson};
use std::sync::atomic::{AtomicBool, Ordering};

const SALES: &str = "{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders',
    on: {local: '_id', foreign: 'product_id'}, filter: {status: {$ne: 'cancelled'}},
    fields: {total_revenue: {$sum: {$multiply: ['$price', '$quantity']}}, total_units: {$sum: '$quantity'},
             orders: {$count: {}}, avg_price: {$avg: '$price'}, last_order: {$max: '$created_at'}}}]}";

#[test]
fn fields_of_the_same_document_are_computed() {
    let server = Server::new();
    server.run("{insert: 'carts', documents: [{_id: 0, items: [{price: 1}, {price: 2.5}]}]}");
    server.run("{createPatterns: 'carts', patterns: [{kind: 'computed', name: 'total', fields: {total: {$sum: '$items.price'}, 'meta.count': {$size: {$ifNull: ['$items', []]}}}}]}");
    same(
        &server.one("carts", "0"),
        "{_id: 0, items: [{price: 1}, {price: 2.5}], total: 3.5, meta: {count: 2}}",
    );
    server.run("{insert: 'carts', documents: [{_id: 1, items: [{price: 4}], total: 99}]}");
    same(&server.one("carts", "1"), "{_id: 1, items: [{price: 4}], total: 4, meta: {count: 1}}");
    server.run("{update: 'carts', updates: [{q: {_id: 1}, u: {$push: {items: {price: 5}}}}]}");
    same(
        &server.one("carts", "1"),
        "{_id: 1, items: [{price: 4}, {price: 5}], total: 9, meta: {count: 2}}",
    );
    // Operators that name a maintained field are refused, carried values are ignored.
    assert_eq!(
        server.code("{update: 'carts', updates: [{q: {_id: 1}, u: {$set: {total: 1}}}]}"),
        96001
    );
    assert_eq!(
        server.code("{update: 'carts', updates: [{q: {_id: 1}, u: {$inc: {'meta.count': 1}}}]}"),
        96001
    );
    assert_eq!(
        server.code("{update: 'carts', updates: [{q: {_id: 1}, u: [{$set: {total: 1}}]}]}"),
        96001
    );
    assert_eq!(
        server.code("{findAndModify: 'carts', query: {_id: 1}, update: {$unset: {total: 1}}}"),
        96001
    );
    let reply = server.run("{update: 'carts', updates: [{q: {_id: 1}, u: {_id: 1, items: [{price: 4}, {price: 5}], total: 1, meta: {count: 7}}}]}");
    assert_eq!(reply.as_doc().get("nModified"), Some(Val::Int32(0)));
    let reply = server.run("{findAndModify: 'carts', query: {_id: 7}, update: {$setOnInsert: {items: [{price: 3}], total: 5}}, upsert: true, new: true}");
    let value = reply.as_doc().get("value").and_then(Val::as_doc).expect("a document");
    assert_eq!(value.get("total"), Some(Val::Int32(3)));
    // An expression that fails refuses the write.
    server.run("{createPatterns: 'carts', patterns: [{kind: 'computed', name: 'twice', fields: {twice: {$multiply: ['$total', 2, {$ifNull: ['$factor', 1]}]}}}]}");
    assert_eq!(server.code("{insert: 'carts', documents: [{_id: 8, items: [], factor: 'x'}]}"), 14);
    assert_eq!(server.one("carts", "8"), "");
    same(
        &server.one("carts", "7"),
        "{_id: 7, items: [{price: 3}], total: 3, meta: {count: 1}, twice: 6}",
    );
    server.verify("carts");
    server.run("{dropPatterns: 'carts', names: ['total', 'twice']}");
    same(&server.one("carts", "7"), "{_id: 7, items: [{price: 3}]}");
}

#[test]
fn sums_over_children_follow_every_change() {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 'p1', name: 'one'}, {_id: 'p2'}]}");
    server.run(SALES);
    server.run("{insert: 'orders', documents: [{_id: 'o1', product_id: 'p1', price: 10, quantity: 2}, {_id: 'o2', product_id: 'p1', price: 5, quantity: 1}]}");
    same(
        &server.one("products", "'p1'"),
        "{_id: 'p1', name: 'one', total_revenue: 25, total_units: 3, orders: 2, avg_price: 7.5, last_order: null}",
    );
    let reply =
        server.run("{update: 'orders', updates: [{q: {_id: 'o1'}, u: {$inc: {quantity: 1}}}]}");
    assert_eq!(
        (reply.as_doc().get("n"), reply.as_doc().get("nModified")),
        (Some(Val::Int32(1)), Some(Val::Int32(1)))
    );
    same(
        &server.one("products", "'p1'"),
        "{_id: 'p1', name: 'one', total_revenue: 35, total_units: 4, orders: 2, avg_price: 7.5, last_order: null}",
    );
    server.run("{update: 'orders', updates: [{q: {_id: 'o2'}, u: {$set: {status: 'cancelled'}}}]}");
    same(
        &server.one("products", "'p1'"),
        "{_id: 'p1', name: 'one', total_revenue: 30, total_units: 3, orders: 1, avg_price: 10.0, last_order: null}",
    );
    server.run("{delete: 'orders', deletes: [{q: {_id: 'o1'}, limit: 1}]}");
    same(
        &server.one("products", "'p1'"),
        "{_id: 'p1', name: 'one', total_revenue: 0, total_units: 0, orders: 0, avg_price: null, last_order: null}",
    );
    for _ in 0..2 {
        server.run("{update: 'orders', updates: [{q: {_id: 'o3'}, u: {$setOnInsert: {product_id: 'p1', price: 1, quantity: 1}}, upsert: true}]}");
    }
    same(
        &server.one("products", "'p1'"),
        "{_id: 'p1', name: 'one', total_revenue: 1, total_units: 1, orders: 1, avg_price: 1.0, last_order: null}",
    );
    server.run("{update: 'orders', updates: [{q: {_id: 'o3'}, u: {$set: {product_id: 'p2'}}}]}");
    same(
        &server.one("products", "'p1'"),
        "{_id: 'p1', name: 'one', total_revenue: 0, total_units: 0, orders: 0, avg_price: null, last_order: null}",
    );
    same(
        &server.one("products", "'p2'"),
        "{_id: 'p2', total_revenue: 1, total_units: 1, orders: 1, avg_price: 1.0, last_order: null}",
    );
    // A parent that comes later, one that goes and comes again.
    server.run(
        "{insert: 'orders', documents: [{_id: 'o4', product_id: 'p3', price: 2, quantity: 2}]}",
    );
    server.run("{insert: 'products', documents: [{_id: 'p3', orders: 77}]}");
    same(
        &server.one("products", "'p3'"),
        "{_id: 'p3', orders: 1, total_revenue: 4, total_units: 2, avg_price: 2.0, last_order: null}",
    );
    server.run("{update: 'products', updates: [{q: {_id: 'p3'}, u: {name: 'new', orders: 5}}]}");
    same(
        &server.one("products", "'p3'"),
        "{_id: 'p3', name: 'new', orders: 1, total_revenue: 4, total_units: 2, avg_price: 2.0, last_order: null}",
    );
    server.verify("products");
    // Exact doubles: what is left does not remember what went.
    server.run(
        "{insert: 'orders', documents: [{_id: 'big', product_id: 'p2', price: 1e16, quantity: 1}]}",
    );
    for n in 0..10 {
        server.run(&format!("{{insert: 'orders', documents: [{{_id: {n}, product_id: 'p2', price: 0.1, quantity: 1}}]}}"));
    }
    server.run("{delete: 'orders', deletes: [{q: {_id: {$in: ['big', 'o3']}}, limit: 0}]}");
    let reply = server.run("{find: 'products', filter: {_id: 'p2'}}");
    assert_eq!(batch(&reply)[0].get("total_revenue"), Some(Val::Double(1.0)));
    let reply = server.run("{aggregate: 'orders', pipeline: [{$match: {product_id: 'p2'}}, {$group: {_id: null, s: {$sum: {$multiply: ['$price', '$quantity']}}}}], cursor: {}}");
    assert_eq!(batch(&reply)[0].get("s"), Some(Val::Double(1.0)));
    // A second pattern on the same source disturbs nothing.
    let before = server.one("products", "'p2'");
    server.run("{createPatterns: 'products', patterns: [{name: 'more', kind: 'computed', from: 'orders', on: {foreign: 'product_id'}, fields: {n: {$count: {}}}}]}");
    let after = server.one("products", "'p2'");
    same(&after, &format!("{}, n: 10}}", before.trim_end_matches('}')));
    // Writes of pipelines count as any other.
    server.run("{insert: 'import', documents: [{_id: 0, price: 5}, {_id: 1, price: 5}]}");
    server.run("{aggregate: 'import', pipeline: [{$merge: {into: 'orders'}}], cursor: {}}");
    server.verify("products");
    server.run("{aggregate: 'import', pipeline: [{$out: 'orders'}], cursor: {}}");
    server.verify("products");
    server.run("{drop: 'orders'}");
    same(
        &server.one("products", "'p2'"),
        "{_id: 'p2', total_revenue: 0, total_units: 0, orders: 0, avg_price: null, last_order: null, n: 0}",
    );
    server
        .run("{insert: 'orders', documents: [{_id: 1, product_id: 'p2', price: 1, quantity: 1}]}");
    server.verify("products");
    server.run("{drop: 'products'}");
    let reply = server.run("{listPatterns: 1}");
    assert!(batch(&reply).is_empty());
    server.run(
        "{insert: 'orders', documents: [{_id: 2, product_id: 'p2', price: 'x', quantity: 1}]}",
    );
}

#[test]
fn groups_have_a_collection_of_their_own() {
    let server = Server::new();
    let documents: Vec<String> = (0..300)
        .map(|n| {
            format!("{{_id: {n}, at: ISODate('2024-0{}-10T00:00:00Z'), price: {n}}}", n % 3 + 1)
        })
        .collect();
    server.run(&format!("{{insert: 'orders', documents: [{}]}}", documents.join(",")));
    server.run("{createPatterns: 'orders', patterns: [{name: 'months', kind: 'computed', into: 'by_month',
        groupBy: {m: {$dateTrunc: {date: '$at', unit: 'month'}}}, fields: {revenue: {$sum: '$price'}, n: {$count: {}}, top: {$max: '$price'}}}]}");
    let query = "{aggregate: 'orders', pipeline: [{$group: {_id: {m: {$dateTrunc: {date: '$at', unit: 'month'}}}, revenue: {$sum: '$price'}, n: {$count: {}}, top: {$max: '$price'}}}, {$sort: {_id: 1}}], cursor: {}}";
    let check = || {
        let grouped: Vec<String> = batch(&server.run(query)).into_iter().map(print).collect();
        assert_eq!(server.find("by_month", "{}"), grouped);
    };
    check();
    server.run("{delete: 'orders', deletes: [{q: {_id: {$gte: 290}}, limit: 0}]}");
    check();
    server.run("{update: 'orders', updates: [{q: {_id: {$lt: 50}}, u: {$set: {at: ISODate('2025-01-01T00:00:00Z')}}, multi: true}]}");
    check();
    assert_eq!(server.code("{insert: 'by_month', documents: [{_id: 1}]}"), 96001);
    assert_eq!(server.code("{delete: 'by_month', deletes: [{q: {}, limit: 0}]}"), 96001);
    server.verify("orders");
    server.run("{delete: 'orders', deletes: [{q: {}, limit: 0}]}");
    assert!(server.find("by_month", "{}").is_empty());
}

const CUSTOMER: &str =
    "{createPatterns: 'orders', patterns: [{name: 'customer', kind: 'extendedReference',
    ref: 'customer._id', from: 'customers', match: '_id',
    fields: ['name', 'email', {as: 'tier', expr: '$loyalty.tier'}], into: 'customer' OPTIONS}]}";

#[test]
fn references_carry_live_copies() {
    let server = Server::new();
    server.run("{insert: 'customers', documents: [{_id: 1, name: 'Ann', email: 'a@x', loyalty: {tier: 'gold'}}, {_id: 2, name: 'Bob', email: 'b@x'}]}");
    server.run("{insert: 'orders', documents: [{_id: 9, customer: {_id: 1}}]}");
    server.run(&CUSTOMER.replace("OPTIONS", ""));
    same(
        &server.one("orders", "9"),
        "{_id: 9, customer: {_id: 1, name: 'Ann', email: 'a@x', tier: 'gold'}}",
    );
    server.run("{insert: 'orders', documents: [{_id: 10, customer: {_id: 1}, total: 5}]}");
    same(
        &server.one("orders", "10"),
        "{_id: 10, customer: {_id: 1, name: 'Ann', email: 'a@x', tier: 'gold'}, total: 5}",
    );
    let reply =
        server.run("{update: 'customers', updates: [{q: {_id: 1}, u: {$set: {name: 'Anna'}}}]}");
    assert_eq!(
        (reply.as_doc().get("n"), reply.as_doc().get("nModified")),
        (Some(Val::Int32(1)), Some(Val::Int32(1)))
    );
    assert_eq!(server.find("orders", "{'customer.name': 'Anna'}").len(), 2);
    server.run("{update: 'orders', updates: [{q: {_id: 10}, u: {$set: {'customer._id': 2}}}]}");
    same(
        &server.one("orders", "10"),
        "{_id: 10, customer: {_id: 2, name: 'Bob', email: 'b@x'}, total: 5}",
    );
    assert_eq!(
        server.code(
            "{update: 'orders', updates: [{q: {_id: 10}, u: {$set: {'customer.name': 'Hack'}}}]}"
        ),
        96001
    );
    server.run("{update: 'orders', updates: [{q: {_id: 10}, u: {customer: {_id: 2, name: 'Old'}, total: 6}}]}");
    same(
        &server.one("orders", "10"),
        "{_id: 10, customer: {_id: 2, name: 'Bob', email: 'b@x'}, total: 6}",
    );
    server.run("{update: 'orders', updates: [{q: {_id: 10}, u: {$unset: {'customer._id': 1}}}]}");
    same(&server.one("orders", "10"), "{_id: 10, total: 6}");
    // A source that comes later fills in, one that goes leaves its copies.
    server.run("{insert: 'orders', documents: [{_id: 11, customer: {_id: 3}}]}");
    same(&server.one("orders", "11"), "{_id: 11, customer: {_id: 3}}");
    server.run("{insert: 'customers', documents: [{_id: 3, name: 'Cid'}]}");
    same(&server.one("orders", "11"), "{_id: 11, customer: {_id: 3, name: 'Cid'}}");
    server.run("{delete: 'customers', deletes: [{q: {_id: 3}, limit: 1}]}");
    same(&server.one("orders", "11"), "{_id: 11, customer: {_id: 3, name: 'Cid'}}");
    server.verify("orders");
    assert_eq!(server.code("{dropIndexes: 'orders', index: 'customer._id_1'}"), 72);
    server.run("{dropIndexes: 'orders', index: '*'}");
    assert!(server.0.inner().data.collection("t", "orders").is_some_and(|c| c.indexes.len() == 2));
    server.run("{dropPatterns: 'orders', names: ['customer'], keepValues: true}");
    same(
        &server.one("orders", "9"),
        "{_id: 9, customer: {_id: 1, name: 'Anna', email: 'a@x', tier: 'gold'}}",
    );
    server
        .run("{update: 'orders', updates: [{q: {_id: 9}, u: {$set: {'customer.name': 'Mine'}}}]}");
    server.run("{dropIndexes: 'orders', index: 'customer._id_1'}");
}

#[test]
fn references_may_be_frozen_refused_or_cascade() {
    let server = Server::new();
    server.run("{insert: 'customers', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob'}]}");
    server.run(&CUSTOMER.replace(
        "OPTIONS",
        ", freshness: 'snapshot', onMissing: 'reject', onSourceDelete: 'cascade'",
    ));
    server.run("{insert: 'orders', documents: [{_id: 1, customer: {_id: 1}}]}");
    server.run("{update: 'customers', updates: [{q: {_id: 1}, u: {$set: {name: 'Anna'}}}]}");
    same(&server.one("orders", "1"), "{_id: 1, customer: {_id: 1, name: 'Ann'}}");
    server
        .run("{update: 'orders', updates: [{q: {_id: 1}, u: {$set: {'customer._id': 1, x: 1}}}]}");
    same(&server.one("orders", "1"), "{_id: 1, customer: {_id: 1, name: 'Ann'}, x: 1}");
    assert_eq!(server.code("{insert: 'orders', documents: [{_id: 2, customer: {_id: 7}}]}"), 96001);
    server.run("{delete: 'customers', deletes: [{q: {_id: 1}, limit: 1}]}");
    assert_eq!(server.one("orders", "1"), "");
    // In arrays each element has its copies, and goes alone.
    server.run("{insert: 'products', documents: [{_id: 'a', name: 'A'}, {_id: 'b', name: 'B'}]}");
    server.run("{createPatterns: 'carts', patterns: [{name: 'items', kind: 'extendedReference', ref: 'items.product', from: 'products', fields: ['name'], into: 'items.info', onSourceDelete: 'cascade'}, {name: 'likes', kind: 'extendedReference', ref: 'likes', from: 'products', fields: ['name'], into: 'liked', onSourceDelete: 'unset'}]}");
    server.run("{insert: 'carts', documents: [{_id: 1, items: [{product: 'a', n: 1}, {product: 'b', n: 2}, {product: 'a', n: 3}], likes: ['b', 'a']}]}");
    same(
        &server.one("carts", "1"),
        "{_id: 1, items: [{product: 'a', n: 1, info: {name: 'A'}}, {product: 'b', n: 2, info: {name: 'B'}}, {product: 'a', n: 3, info: {name: 'A'}}], likes: ['b', 'a'], liked: [{name: 'B'}, {name: 'A'}]}",
    );
    assert_eq!(
        server.code(
            "{update: 'carts', updates: [{q: {_id: 1}, u: {$set: {'items.0.info.name': 'x'}}}]}"
        ),
        96001
    );
    server.run("{update: 'carts', updates: [{q: {_id: 1}, u: {$push: {items: {product: 'b', n: 4, info: {name: 'fake'}}}}}]}");
    server.run("{update: 'products', updates: [{q: {_id: 'b'}, u: {$set: {name: 'BB'}}}]}");
    same(
        &server.one("carts", "1"),
        "{_id: 1, items: [{product: 'a', n: 1, info: {name: 'A'}}, {product: 'b', n: 2, info: {name: 'BB'}}, {product: 'a', n: 3, info: {name: 'A'}}, {product: 'b', n: 4, info: {name: 'BB'}}], likes: ['b', 'a'], liked: [{name: 'BB'}, {name: 'A'}]}",
    );
    server.run("{delete: 'products', deletes: [{q: {_id: 'a'}, limit: 1}]}");
    same(
        &server.one("carts", "1"),
        "{_id: 1, items: [{product: 'b', n: 2, info: {name: 'BB'}}, {product: 'b', n: 4, info: {name: 'BB'}}], likes: ['b', 'a'], liked: [{name: 'BB'}, {}]}",
    );
    let restrict = "{createPatterns: 'notes', patterns: [{name: 'r', kind: 'extendedReference', ref: 'p', from: 'products', fields: ['name'], into: 'product', onSourceDelete: 'restrict'}]}";
    server.run(restrict);
    server.run("{insert: 'notes', documents: [{_id: 1, p: 'b'}]}");
    assert_eq!(server.code("{delete: 'products', deletes: [{q: {_id: 'b'}, limit: 1}]}"), 96001);
    server.run("{delete: 'notes', deletes: [{q: {}, limit: 0}]}");
    server.run("{delete: 'products', deletes: [{q: {_id: 'b'}, limit: 1}]}");
}

#[test]
fn too_many_followers_are_queued_and_come_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    server.run("{insert: 'customers', documents: [{_id: 1, name: 'Ann'}]}");
    server.run(&CUSTOMER.replace("OPTIONS", ", fanoutLimit: 100"));
    let documents: Vec<String> =
        (0..3000).map(|n| format!("{{_id: {n}, customer: {{_id: 1}}}}")).collect();
    server.run(&format!("{{insert: 'orders', documents: [{}]}}", documents.join(",")));
    server.run("{update: 'customers', updates: [{q: {_id: 1}, u: {$set: {name: 'Zoe'}}}]}");
    server.close();
    let server = Server::on(folder.path());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let reply = server.run("{listPatterns: 'orders'}");
        if batch(&reply)[0].get("pending") == Some(Val::Int32(0)) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the queue does not end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(server.find("orders", "{'customer.name': {$ne: 'Zoe'}}").len(), 0);
    server.verify("orders");
    server.run("{modifyPattern: 'orders', name: 'customer', set: {overLimit: 'reject'}}");
    assert_eq!(
        server.code("{update: 'customers', updates: [{q: {_id: 1}, u: {$set: {name: 'No'}}}]}"),
        96001
    );
    same(&server.one("customers", "1"), "{_id: 1, name: 'Zoe'}");
}

#[test]
fn a_subset_keeps_the_first_few() {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{createPatterns: 'products', patterns: [{name: 'topReviews', kind: 'subset', into: 'top', from: 'reviews',
        on: {local: '_id', foreign: 'product_id'}, filter: {status: 'published'}, sort: {rating: -1, _id: -1}, limit: 3,
        fields: ['rating', 'author.name'], idAs: 'id', count: 'n'}]}");
    same(&server.one("products", "1"), "{_id: 1, top: [], n: 0}");
    server.run("{insert: 'reviews', documents: [{_id: 'r1', product_id: 1, rating: 5, status: 'published', author: {name: 'x', age: 4}}, {_id: 'r2', product_id: 1, rating: 4, status: 'published'}, {_id: 'r3', product_id: 1, rating: 4, status: 'published'}, {_id: 'r4', product_id: 1, rating: 3, status: 'published'}]}");
    same(
        &server.one("products", "1"),
        "{_id: 1, top: [{id: 'r1', rating: 5, author: {name: 'x'}}, {id: 'r3', rating: 4}, {id: 'r2', rating: 4}], n: 4}",
    );
    let ids = |product: &str| -> (Vec<String>, i64) {
        let reply = server.run(&format!("{{find: 'products', filter: {{_id: {product}}}}}"));
        let doc = batch(&reply)[0];
        let top = doc.get("top").and_then(Val::as_array).expect("a list");
        let ids = top
            .iter()
            .filter_map(|(_, r)| r.as_doc()?.get("id")?.as_str().map(str::to_owned))
            .collect();
        (ids, doc.get("n").and_then(Val::as_i64_exact).expect("a count"))
    };
    let is = |product, expected: &[&str], n| {
        assert_eq!(ids(product), (expected.iter().map(|s| (*s).to_owned()).collect(), n))
    };
    server.run("{delete: 'reviews', deletes: [{q: {_id: 'r1'}, limit: 1}]}");
    is("1", &["r3", "r2", "r4"], 3);
    server.run("{update: 'reviews', updates: [{q: {_id: 'r4'}, u: {$set: {rating: 5}}}]}");
    is("1", &["r4", "r3", "r2"], 3);
    server.run("{update: 'reviews', updates: [{q: {_id: 'r3'}, u: {$set: {product_id: 2}}}]}");
    is("1", &["r4", "r2"], 2);
    is("2", &["r3"], 1);
    server.run("{update: 'reviews', updates: [{q: {_id: 'r2'}, u: {$set: {status: 'hidden'}}}]}");
    is("1", &["r4"], 1);
    server
        .run("{update: 'reviews', updates: [{q: {_id: 'r2'}, u: {$set: {status: 'published'}}}]}");
    is("1", &["r4", "r2"], 2);
    let documents: Vec<String> = (0..2000)
        .map(|n| format!("{{_id: 'x{n:05}', product_id: 2, rating: 5, status: 'published'}}"))
        .collect();
    server.run(&format!("{{insert: 'reviews', documents: [{}]}}", documents.join(",")));
    is("2", &["x01999", "x01998", "x01997"], 2001);
    server.run("{delete: 'reviews', deletes: [{q: {_id: {$in: ['x01999', 'x01998', 'x01997', 'x00003']}}, limit: 0}]}");
    is("2", &["x01996", "x01995", "x01994"], 1997);
    server.verify("products");
}

#[test]
fn a_tree_follows_its_parents() {
    let server = Server::new();
    server.run("{insert: 'c', documents: [{_id: 'tech'}, {_id: 'software'}, {_id: 'databases', parent: 'tech'}]}");
    server.run("{createPatterns: 'c', patterns: [{name: 'tree', kind: 'tree', parent: 'parent', maintain: {ancestors: 'ancestors', path: {into: 'path', sep: ',', segment: '$_id'}, depth: 'depth'}}]}");
    server.run("{insert: 'c', documents: [{_id: 'mongodb', parent: 'databases'}]}");
    same(
        &server.one("c", "'mongodb'"),
        "{_id: 'mongodb', parent: 'databases', ancestors: ['tech', 'databases'], path: ',tech,databases,mongodb,', depth: 2}",
    );
    let reply = server
        .run("{update: 'c', updates: [{q: {_id: 'databases'}, u: {$set: {parent: 'software'}}}]}");
    assert_eq!(reply.as_doc().get("nModified"), Some(Val::Int32(1)));
    same(
        &server.one("c", "'mongodb'"),
        "{_id: 'mongodb', parent: 'databases', ancestors: ['software', 'databases'], path: ',software,databases,mongodb,', depth: 2}",
    );
    assert!(server.find("c", "{ancestors: 'tech'}").is_empty());
    assert_eq!(
        server.code(
            "{update: 'c', updates: [{q: {_id: 'software'}, u: {$set: {parent: 'mongodb'}}}]}"
        ),
        96001
    );
    assert_eq!(
        server.code(
            "{update: 'c', updates: [{q: {_id: 'software'}, u: {$set: {parent: 'software'}}}]}"
        ),
        96001
    );
    assert_eq!(server.code("{insert: 'c', documents: [{_id: 'x', parent: 'nobody'}]}"), 96001);
    assert_eq!(server.code("{delete: 'c', deletes: [{q: {_id: 'databases'}, limit: 1}]}"), 96001);
    server.verify("c");
    server.run("{modifyPattern: 'c', name: 'tree', set: {onDelete: 'adopt'}}");
    server.run("{delete: 'c', deletes: [{q: {_id: 'databases'}, limit: 1}]}");
    same(
        &server.one("c", "'mongodb'"),
        "{_id: 'mongodb', parent: 'software', ancestors: ['software'], path: ',software,mongodb,', depth: 1}",
    );
    server.run("{modifyPattern: 'c', name: 'tree', set: {onDelete: 'cascade'}}");
    server.run("{delete: 'c', deletes: [{q: {_id: 'software'}, limit: 1}]}");
    assert_eq!(server.find("c", "{}").len(), 1);
    server.run("{modifyPattern: 'c', name: 'tree', set: {onDelete: 'restrict'}}");
    server.run("{insert: 'c', documents: [{_id: 1, parent: 'tech'}, {_id: 2, parent: 1}]}");
    server.run("{delete: 'c', deletes: [{q: {_id: {$in: [1, 2]}}, limit: 0}]}");
    // Data with a cycle cannot be declared a tree.
    server.run("{insert: 'bad', documents: [{_id: 1, parent: 2}, {_id: 2, parent: 1}]}");
    let declare = "{createPatterns: 'bad', patterns: [{name: 'tree', kind: 'tree', maintain: {depth: 'depth'}}]}";
    assert_eq!(server.code(declare), 96);
    let reply = server.run("{listPatterns: 'bad'}");
    assert_eq!(batch(&reply)[0].get("state"), Some(Val::String("failed")));
    server.run("{dropPatterns: 'bad', names: 'tree'}");
    // Nodes may come before their parents where that is declared.
    server.run("{createPatterns: 'late', patterns: [{name: 'tree', kind: 'tree', maintain: {ancestors: 'up'}, onMissingParent: 'defer'}]}");
    server.run("{insert: 'late', documents: [{_id: 3, parent: 2}, {_id: 2, parent: 1}, {_id: 1}]}");
    same(&server.one("late", "3"), "{_id: 3, parent: 2, up: [1, 2]}");
    server.verify("late");
}

#[test]
fn declarations_are_checked_listed_and_survive() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    server.run(SALES);
    server.run(SALES);
    assert_eq!(server.code("{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', fields: {x: '$y'}}]}"), 447);
    assert_eq!(server.code("{createPatterns: 'products', patterns: [{name: 'other', kind: 'computed', fields: {orders: '$y'}}]}"), 2);
    assert_eq!(server.code("{createPatterns: 'products', patterns: [{name: 'a', kind: 'computed', fields: {a: '$b'}}, {name: 'b', kind: 'computed', fields: {b: '$a'}}]}"), 2);
    assert_eq!(server.code("{createPatterns: 'products', patterns: []}"), 2);
    assert_eq!(
        server.code(
            "{createPatterns: 'products', patterns: [{kind: 'computed', fields: {n: '$$NOW'}}]}"
        ),
        2
    );
    assert_eq!(server.code("{dropPatterns: 'products', names: ['nope']}"), 4);
    assert_eq!(server.code("{renameCollection: 't.products', to: 'u.x', $db: 'admin'}"), 238);
    server.run("{create: 'capped', capped: true, size: 1000}");
    assert_eq!(
        server
            .code("{createPatterns: 'capped', patterns: [{kind: 'computed', fields: {n: '$m'}}]}"),
        72
    );
    server.run("{insert: 'products', documents: [{_id: 1}]}");
    server.run("{insert: 'orders', documents: [{_id: 1, product_id: 1, price: 2, quantity: 3}]}");
    server.close();
    let server = Server::on(folder.path());
    server.run("{insert: 'orders', documents: [{_id: 2, product_id: 1, price: 2, quantity: 1}]}");
    same(
        &server.one("products", "1"),
        "{_id: 1, total_revenue: 8, total_units: 4, orders: 2, avg_price: 2.0, last_order: null}",
    );
    let reply = server.run("{listPatterns: 'products'}");
    let listed = batch(&reply)[0];
    assert_eq!(listed.get("state"), Some(Val::String("ready")));
    assert_eq!(listed.get("kind"), Some(Val::String("computed")));
    let names = server.run("{listCollections: 1, nameOnly: true}");
    assert_eq!(batch(&names).len(), 3, "what patterns keep for themselves is not shown");
    // Suspended patterns rest; resumed ones are right again.
    server.run("{suspendPatterns: 'products', names: ['sales']}");
    server.run("{insert: 'orders', documents: [{_id: 3, product_id: 1, price: 1, quantity: 1}]}");
    server.run("{update: 'products', updates: [{q: {_id: 1}, u: {$set: {orders: 55}}}]}");
    server.run("{resumePatterns: 'products', names: ['sales']}");
    same(
        &server.one("products", "1"),
        "{_id: 1, total_revenue: 9, total_units: 5, orders: 3, avg_price: 1.6666666666666667, last_order: null}",
    );
    server.verify("products");
    server.run("{dropDatabase: 1}");
    server.run("{insert: 'orders', documents: [{_id: 3, product_id: 1, price: 'x', quantity: 1}]}");
}

#[test]
fn children_may_need_or_make_their_parents() {
    let server = Server::new();
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}}, onMissingParent: 'reject'}]}");
    assert_eq!(server.code("{insert: 'c', documents: [{_id: 1, p: 1}]}"), 96001);
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1}, {_id: 2}]}");
    assert_eq!(server.code("{delete: 'p', deletes: [{q: {_id: 1}, limit: 1}]}"), 96001);
    server.run("{createPatterns: 'q', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'q'}, fields: {n: {$count: {}}}, onMissingParent: 'create'}]}");
    server.run("{insert: 'c', documents: [{_id: 3, p: 1, q: [7, 8]}]}");
    same(&server.one("q", "8"), "{_id: 8, n: 1}");
    // Errors of expressions refuse the child alone.
    server.run("{createPatterns: 'p', patterns: [{name: 's', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: {$multiply: ['$x', 2]}}}}]}");
    let command = ejson::parse_doc("{insert: 'c', documents: [{_id: 4, p: 1, x: 1}, {_id: 5, p: 1, x: 'no'}, {_id: 6, p: 1, x: 2}], ordered: false}").expect("test text");
    let reply = server.0.run_command("t", command.as_doc()).expect("replies");
    assert_eq!(reply.as_doc().get("n"), Some(Val::Int32(2)));
    same(&server.one("p", "1"), "{_id: 1, n: 4, s: 6}");
}

#[test]
fn a_build_beside_writes_misses_nothing() {
    let server = Server::new();
    for from in 0..10 {
        let documents: Vec<String> = (0..500)
            .map(|n| format!("{{_id: {}, p: {}, x: {n}}}", from * 500 + n, n % 7))
            .collect();
        server.run(&format!("{{insert: 'c', documents: [{}]}}", documents.join(",")));
    }
    server.run("{insert: 'p', documents: [{_id: 0}, {_id: 1}, {_id: 2}, {_id: 3}, {_id: 4}, {_id: 5}, {_id: 6}]}");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2_usize {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut n = writer;
                while !stop.load(Ordering::Relaxed) {
                    n = (n * 7919 + 13) % 6000;
                    server.run(&format!("{{update: 'c', updates: [{{q: {{_id: {n}}}, u: {{$inc: {{x: 1}}, $set: {{p: {}}}}}, upsert: true}}]}}", n % 8));
                    server.run(&format!("{{delete: 'c', deletes: [{{q: {{_id: {}}}, limit: 1}}]}}", n / 3));
                    server.run(&format!("{{update: 'p', updates: [{{q: {{_id: {}}}, u: {{$inc: {{edits: 1}}}}}}]}}", n % 7));
                }
            });
        }
        server.run("{createPatterns: 'p', patterns: [{name: 's', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}, n: {$count: {}}, best: {$topN: {n: 3, sortBy: {x: -1}, output: '$_id'}}, values: {$addToSet: '$p'}}}]}");
        server.run("{createPatterns: 'c', patterns: [{name: 'r', kind: 'extendedReference', ref: 'p', from: 'p', into: 'parent', fields: ['edits'], fanoutLimit: 100000}, {name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}");
        stop.store(true, Ordering::Relaxed);
    });
    server.verify("p");
    server.verify("c");
}

#[test]
fn a_hot_parent_fails_nobody() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1, name: 0}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}, s: {$sum: '$x'}}}]}");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for n in 0..250 {
                    server.run(&format!(
                        "{{insert: 'c', documents: [{{_id: {}, p: 1, x: 0.1}}]}}",
                        writer * 1000 + n
                    ));
                }
            });
        }
        let server = &server;
        scope.spawn(move || {
            for _ in 0..200 {
                server.run("{update: 'p', updates: [{q: {_id: 1}, u: {$inc: {name: 1}}}]}");
            }
        });
    });
    same(&server.one("p", "1"), "{_id: 1, name: 200, n: 2000, s: 200.0}");
    server.verify("p");
}

#[test]
fn a_new_reference_never_misses_a_rename() {
    let server = Server::new();
    server.run("{insert: 'customers', documents: [{_id: 1, name: 0}]}");
    server.run("{createPatterns: 'orders', patterns: [{name: 'customer', kind: 'extendedReference', ref: 'c', from: 'customers', into: 'customer', fields: ['name'], fanoutLimit: 100000}]}");
    std::thread::scope(|scope| {
        let server = &server;
        scope.spawn(move || {
            for n in 0..1000 {
                server.run(&format!("{{insert: 'orders', documents: [{{_id: {n}, c: 1}}]}}"));
            }
        });
        scope.spawn(move || {
            for n in 0..300 {
                server.run(&format!("{{update: 'customers', updates: [{{q: {{_id: 1}}, u: {{$set: {{name: {n}}}}}}}]}}"));
            }
        });
    });
    assert_eq!(server.find("orders", "{'customer.name': {$ne: 299}}").len(), 0);
}

#[test]
fn transactions_see_what_they_derive_and_commit_it_on_the_newest_state() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1, name: 'a'}, {_id: 2}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}, s: {$sum: '$x'}}}]}");
    server.run("{createPatterns: 'c', patterns: [{name: 'r', kind: 'extendedReference', ref: 'p', from: 'p', into: 'parent', fields: ['name']}]}");
    let t = |first| within(1, 1, first);
    server.run(&format!("{{insert: 'c', documents: [{{_id: 1, p: 1, x: 1}}]{}}}", t(true)));
    let inside = server.run(&format!("{{find: 'p', filter: {{_id: 1}}{}}}", t(false)));
    assert_eq!(batch(&inside)[0].get("n"), Some(Val::Int32(1)), "it sees its own");
    same(&server.one("p", "1"), "{_id: 1, name: 'a', n: 0, s: 0}");
    server.run(&format!(
        "{{update: 'p', updates: [{{q: {{_id: 2}}, u: {{$set: {{name: 'two'}}}}}}]{}}}",
        t(false)
    ));
    // Others go on meanwhile: with the same parent, and with the parent that it edits.
    server.run("{insert: 'c', documents: [{_id: 2, p: 1, x: 10}, {_id: 3, p: 2, x: 5}]}");
    server.run("{update: 'p', updates: [{q: {_id: 1}, u: {$set: {name: 'b'}}}]}");
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    same(&server.one("p", "1"), "{_id: 1, name: 'b', n: 2, s: 11}");
    same(&server.one("p", "2"), "{_id: 2, n: 1, s: 5, name: 'two'}");
    same(&server.one("c", "1"), "{_id: 1, p: 1, x: 1, parent: {name: 'b'}}");
    same(&server.one("c", "3"), "{_id: 3, p: 2, x: 5, parent: {name: 'two'}}");
    // What is aborted leaves nothing.
    server.run(&format!(
        "{{insert: 'c', documents: [{{_id: 9, p: 1, x: 1}}]{}}}",
        within(1, 2, true)
    ));
    server.run(&format!(
        "{{delete: 'c', deletes: [{{q: {{_id: 1}}, limit: 1}}]{}}}",
        within(1, 2, false)
    ));
    assert_eq!(server.end("abortTransaction", 1, 2), 0);
    same(&server.one("p", "1"), "{_id: 1, name: 'b', n: 2, s: 11}");
    server.verify("p");
    server.verify("c");
}

#[test]
fn two_moves_that_would_make_a_cycle_do_not_both_commit() {
    let server = Server::new();
    server.run(
        "{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {ancestors: 'up'}}]}",
    );
    for round in 0..20_i64 {
        server.run("{delete: 'n', deletes: [{q: {}, limit: 0}]}");
        server.run("{insert: 'n', documents: [{_id: 'a'}, {_id: 'b'}]}");
        let number = round + 1;
        server.run(&format!(
            "{{update: 'n', updates: [{{q: {{_id: 'a'}}, u: {{$set: {{parent: 'b'}}}}}}]{}}}",
            within(3, number, true)
        ));
        server.run(&format!(
            "{{update: 'n', updates: [{{q: {{_id: 'b'}}, u: {{$set: {{parent: 'a'}}}}}}]{}}}",
            within(4, number, true)
        ));
        assert_eq!(server.end("commitTransaction", 3, number), 0);
        assert_eq!(server.end("commitTransaction", 4, number), 112);
        same(&server.one("n", "'a'"), "{_id: 'a', up: ['b'], parent: 'b'}");
        same(&server.one("n", "'b'"), "{_id: 'b', up: []}");
    }
    server.verify("n");
}
