//! The scenarios of subset.

use crate::harness::{Server, whole, within};
use motifdb::value::{Val, path::Path};

fn declare(server: &Server, limit: usize) {
    server.run("{insert: 'products', documents: [{_id: 1}, {_id: 2}]}");
    server.run(&format!(
        "{{createPatterns: 'products', patterns: [{{name: 'topReviews', kind: 'subset', into: 'top_reviews',
          from: 'reviews', on: {{local: '_id', foreign: 'product_id'}},
          filter: {{status: 'published'}}, sort: {{rating: -1, _id: -1}}, limit: {limit},
          fields: ['rating', 'headline', 'author'], idAs: 'review_id', count: 'review_count'}}]}}"
    ));
}

fn shop() -> Server {
    let server = Server::new();
    declare(&server, 3);
    for (id, rating) in [("r1", 5), ("r2", 4), ("r3", 4), ("r4", 3)] {
        server.run(&format!("{{insert: 'reviews', documents: [{{_id: '{id}', product_id: 1, rating: {rating}, status: 'published'}}]}}"));
    }
    server
}

fn top(server: &Server, product: i32) -> (Vec<String>, i64) {
    let doc = server.get("products", &product.to_string());
    let list = Path::new("top_reviews").get(doc.as_doc());
    let list = list.as_array().expect("a list");
    let id = |row: value::RawDoc<'_>| row.get("review_id").and_then(Val::as_str).map(str::to_owned);
    let ids = list.iter().filter_map(|(_, row)| row.as_doc().and_then(id)).collect();
    (ids, whole(&doc, "review_count"))
}

fn is(server: &Server, product: i32, ids: &[&str], count: i64) {
    assert_eq!(top(server, product), (ids.iter().map(|id| (*id).to_owned()).collect(), count));
}

fn set(server: &Server, review: &str, fields: &str) {
    server.run(&format!(
        "{{update: 'reviews', updates: [{{q: {{_id: '{review}'}}, u: {{$set: {{{fields}}}}}}}]}}"
    ));
}

#[test]
fn subset_1_to_5_the_best_three_follow_every_change() {
    let server = shop();
    is(&server, 1, &["r1", "r3", "r2"], 4);
    server.run("{delete: 'reviews', deletes: [{q: {_id: 'r1'}, limit: 1}]}");
    is(&server, 1, &["r3", "r2", "r4"], 3);
    set(&server, "r4", "rating: 5");
    is(&server, 1, &["r4", "r3", "r2"], 3);
    set(&server, "r3", "product_id: 2");
    is(&server, 1, &["r4", "r2"], 2);
    is(&server, 2, &["r3"], 1);
    set(&server, "r2", "status: 'hidden'");
    is(&server, 1, &["r4"], 1);
    set(&server, "r2", "status: 'published'");
    is(&server, 1, &["r4", "r2"], 2);
    server.verify("products");
}

#[test]
fn subset_6_an_aborted_transaction_was_never_there() {
    let server = shop();
    let before = (server.one("products", "1"), server.writes("products"));
    let is_untouched = || assert_eq!(server.one("products", "1"), before.0);
    server.run(&format!("{{insert: 'reviews', documents: [{{_id: 'r5', product_id: 1, rating: 9, status: 'published'}}]{}}}", within(1, 1, true)));
    is_untouched();
    // Its own eyes see it.
    let inside =
        server.docs(&format!("{{find: 'products', filter: {{_id: 1}}{}}}", within(1, 1, false)));
    assert_eq!(whole(&inside[0], "review_count"), 5);
    server.run(&format!(
        "{{delete: 'reviews', deletes: [{{q: {{_id: 'r5'}}, limit: 1}}]{}}}",
        within(1, 1, false)
    ));
    is_untouched();
    assert_eq!(server.end("abortTransaction", 1, 1), 0);
    is_untouched();
    assert_eq!(server.writes("products"), before.1, "no snapshot can show what was never written");
    server.verify("products");
}

/// How many entries a refill looks at is counted in the patterns' own tests:
/// `a_refill_reads_a_handful_of_entries` in `crates/patterns/tests/refill.rs`.
#[test]
fn subset_7_the_next_five_stand_in_for_five_that_go() {
    const REVIEWS: i64 = 10_234;
    let server = Server::new();
    declare(&server, 5);
    let list: Vec<String> = (0..REVIEWS)
        .map(|n| {
            format!("{{_id: 'r{n:05}', product_id: 1, rating: {}, status: 'published'}}", n / 10)
        })
        .collect();
    server.run(&format!("{{insert: 'reviews', documents: [{}]}}", list.join(",")));
    is(&server, 1, &["r10233", "r10232", "r10231", "r10230", "r10229"], REVIEWS);
    let reply = server.run("{delete: 'reviews', deletes: [{q: {_id: {$in: ['r10233', 'r10232', 'r10231', 'r10230', 'r10229']}}, limit: 0}]}");
    assert_eq!(whole(&reply, "n"), 5);
    is(&server, 1, &["r10228", "r10227", "r10226", "r10225", "r10224"], REVIEWS - 5);
    server.verify("products");
}
