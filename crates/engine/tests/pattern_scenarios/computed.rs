//! The scenarios of computed.

use crate::harness::{Server, text, whole};
use motifdb::value::{DocBuf, Val};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SALES: &str = "{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders',
    on: {local: '_id', foreign: 'product_id'}, filter: {status: {$ne: 'cancelled'}},
    fields: {total_revenue: {$sum: {$multiply: ['$price', '$quantity']}}, total_units: {$sum: '$quantity'},
             orders: {$count: {}}, avg_price: {$avg: '$price'}, last_order: {$max: '$created_at'}}}]}";

fn shop() -> Server {
    let server = Server::new();
    server.run("{insert: 'products', documents: [{_id: 'p1', name: 'one'}, {_id: 'p2'}]}");
    server.run(SALES);
    server
}

fn orders(server: &Server, list: &str) {
    server.run(&format!("{{insert: 'orders', documents: [{list}]}}"));
}

fn update(server: &Server, order: &str, change: &str) {
    server.run(&format!(
        "{{update: 'orders', updates: [{{q: {{_id: '{order}'}}, u: {change}, upsert: true}}]}}"
    ));
}

/// Revenue, units, orders and the mean price.
fn sales(product: &DocBuf) -> (i64, i64, i64, Option<f64>) {
    let mean = product.as_doc().get("avg_price").expect("the field stays").as_f64();
    (whole(product, "total_revenue"), whole(product, "total_units"), whole(product, "orders"), mean)
}

#[test]
fn computed_1_to_4_sums_follow_every_change() {
    let server = shop();
    orders(
        &server,
        "{_id: 'o1', product_id: 'p1', price: 10, quantity: 2}, {_id: 'o2', product_id: 'p1', price: 5, quantity: 1}",
    );
    let is = |expected| assert_eq!(sales(&server.get("products", "'p1'")), expected);
    is((25, 3, 2, Some(7.5)));
    update(&server, "o1", "{$inc: {quantity: 1}}");
    is((35, 4, 2, Some(7.5)));
    update(&server, "o2", "{$set: {status: 'cancelled'}}");
    is((30, 3, 1, Some(10.0)));
    server.run("{delete: 'orders', deletes: [{q: {_id: 'o1'}, limit: 1}]}");
    is((0, 0, 0, None));
    let product = server.get("products", "'p1'");
    assert_eq!(product.as_doc().get("avg_price"), Some(Val::Null));
    assert_eq!(product.as_doc().get("last_order"), Some(Val::Null));
    server.verify("products");
}

#[test]
fn computed_5_and_6_an_upsert_counts_once_and_moves_whole() {
    let server = shop();
    for _ in 0..2 {
        update(&server, "o3", "{$setOnInsert: {product_id: 'p1', price: 1, quantity: 1}}");
    }
    assert_eq!(sales(&server.get("products", "'p1'")), (1, 1, 1, Some(1.0)));
    // It goes back and forth while others look: at every moment exactly one product has it.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (server, stop) = (&server, &stop);
        scope.spawn(move || {
            for n in 0..2001 {
                update(
                    server,
                    "o3",
                    ["{$set: {product_id: 'p2'}}", "{$set: {product_id: 'p1'}}"][n % 2],
                );
            }
            stop.store(true, Ordering::Relaxed);
        });
        scope.spawn(move || {
            let mut looks = 0;
            while !stop.load(Ordering::Relaxed) || looks < 100 {
                let both = server.docs("{find: 'products', sort: {_id: 1}}");
                let counts = (whole(&both[0], "orders"), whole(&both[1], "orders"));
                assert!(counts == (1, 0) || counts == (0, 1), "{counts:?}");
                looks += 1;
            }
        });
    });
    assert_eq!(sales(&server.get("products", "'p1'")), (0, 0, 0, None));
    assert_eq!(sales(&server.get("products", "'p2'")), (1, 1, 1, Some(1.0)));
}

/// With kills at random points: `a_hot_parent_equals_its_children_after_every_kill` in
/// `crates/spec/tests/patterns`.
#[test]
fn computed_7_sixty_four_clients_and_one_who_edits_the_parent() {
    const CLIENTS: i64 = 64;
    const EACH: i64 = 1000;
    let server = shop();
    let (left, edits) = (AtomicU64::new(CLIENTS as u64), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (server, left, edits) = (&server, &left, &edits);
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for n in 0..EACH {
                    // `orders` fails the test on any error, WriteConflict included.
                    let id = client * EACH + n;
                    orders(
                        server,
                        &format!("{{_id: {id}, product_id: 'p1', price: 0.1, quantity: 1}}"),
                    );
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(move || {
            while left.load(Ordering::Relaxed) > 0 {
                let n = edits.fetch_add(1, Ordering::Relaxed);
                server.run(&format!("{{update: 'products', updates: [{{q: {{_id: 'p1'}}, u: {{$set: {{name: 'name {n}'}}, $inc: {{edits: 1}}}}}}]}}"));
            }
        });
    });
    let product = server.get("products", "'p1'");
    let edits = edits.load(Ordering::Relaxed);
    assert_eq!(whole(&product, "orders"), CLIENTS * EACH);
    assert_eq!(whole(&product, "edits"), edits as i64);
    assert_eq!(text(&product, "name"), format!("name {}", edits - 1));
    assert!(edits > 10, "only {edits} edits");
    server.verify("products");
}

#[test]
fn computed_8_sums_of_doubles_are_exact_and_patterns_do_not_disturb_each_other() {
    let server = shop();
    let mut list = vec!["{_id: 'big', product_id: 'p1', price: 1e16, quantity: 1}".to_owned()];
    list.extend(
        (0..10).map(|n| format!("{{_id: {n}, product_id: 'p1', price: 0.1, quantity: 1}}")),
    );
    orders(&server, &list.join(","));
    server.run("{delete: 'orders', deletes: [{q: {_id: 'big'}, limit: 1}]}");
    let summed = server.docs("{aggregate: 'orders', rewrite: false, cursor: {}, pipeline: [{$group: {_id: 0, s: {$sum: {$multiply: ['$price', '$quantity']}}}}]}");
    let bits = |value: Option<Val<'_>>| match value {
        Some(Val::Double(number)) => number.to_bits(),
        other => panic!("no double: {other:?}"),
    };
    let before = server.get("products", "'p1'");
    assert_eq!(bits(before.as_doc().get("total_revenue")), bits(summed[0].as_doc().get("s")));
    server.run("{createPatterns: 'products', patterns: [{name: 'second', kind: 'computed', from: 'orders', on: {foreign: 'product_id'}, fields: {n: {$count: {}}}}]}");
    let after = server.get("products", "'p1'");
    assert_eq!(whole(&after, "n"), 10);
    for (name, value) in before.as_doc() {
        assert_eq!(after.as_doc().get(name), Some(value.get()), "{name}");
    }
    orders(&server, "{_id: 'next', product_id: 'p1', price: 4, quantity: 1}");
    let after = server.get("products", "'p1'");
    assert_eq!((whole(&after, "orders"), whole(&after, "n")), (11, 11));
    server.verify("products");
}
