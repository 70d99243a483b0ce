//! Transactions of sessions beside patterns that change what is the client's: children that are adopted,
//! elements that go with what they refer to, documents that go and come again.

mod harness;

use harness::{Server, same, text, whole, within};
use std::time::Duration;

#[test]
fn what_went_with_its_source_may_come_again_in_one_transaction() {
    let server = Server::new();
    server.run("{createPatterns: 'orders', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'customers', into: 'customer', fields: ['name'], onSourceDelete: 'cascade'}]}");
    server.run("{insert: 'customers', documents: [{_id: 1, name: 'Ann'}]}");
    server.run("{insert: 'orders', documents: [{_id: 5, c: 1, old: true}, {_id: 6, c: 1}]}");
    let place = |first| within(1, 1, first);
    server.run(&format!(
        "{{delete: 'customers', deletes: [{{q: {{_id: 1}}, limit: 1}}]{}}}",
        place(true)
    ));
    server.run(&format!(
        "{{insert: 'customers', documents: [{{_id: 1, name: 'Eve'}}]{}}}",
        place(false)
    ));
    server.run(&format!("{{insert: 'orders', documents: [{{_id: 5, c: 1}}]{}}}", place(false)));
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    let orders = server.find("orders", "{}");
    assert_eq!(orders.len(), 1, "{orders:?}");
    same(&orders[0], "{_id: 5, c: 1, customer: {name: 'Eve'}}");
    server.verify("orders");
}

fn tree() -> Server {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', onMissingParent: 'defer', onDelete: 'adopt', maintain: {ancestors: 'up'}}]}");
    server.run("{insert: 'n', documents: [{_id: 1}, {_id: 2, parent: 1}, {_id: 3, parent: 2}]}");
    server
}

#[test]
fn a_child_that_a_transaction_wrote_is_adopted_after_it() {
    let server = tree();
    server.run(&format!(
        "{{update: 'n', updates: [{{q: {{_id: 3}}, u: {{$set: {{label: 'new'}}}}}}]{}}}",
        within(1, 1, true)
    ));
    std::thread::scope(|scope| {
        let delete =
            scope.spawn(|| server.code("{delete: 'n', deletes: [{q: {_id: 2}, limit: 1}]}"));
        std::thread::sleep(Duration::from_millis(80));
        assert!(!delete.is_finished(), "the node's child belongs to the transaction until it ends");
        assert_eq!(server.end("commitTransaction", 1, 1), 0);
        assert_eq!(delete.join().expect("no panic"), 0);
    });
    same(&server.one("n", "3"), "{_id: 3, parent: 1, up: [1], label: 'new'}");
    server.verify("n");
}

#[test]
fn a_transaction_that_saw_the_old_parent_is_in_conflict() {
    let server = tree();
    // It begins before the child is adopted, and writes it afterwards.
    server.run(&format!("{{find: 'n', filter: {{_id: 3}}{}}}", within(1, 1, true)));
    server.run("{delete: 'n', deletes: [{q: {_id: 2}, limit: 1}]}");
    let text_of = |number, first| {
        format!(
            "{{update: 'n', updates: [{{q: {{_id: 3}}, u: {{$set: {{label: 'new'}}}}}}]{}}}",
            within(1, number, first)
        )
    };
    assert_eq!(server.code(&text_of(1, false)), 112);
    assert_eq!(server.code(&text_of(2, true)), 0);
    assert_eq!(server.end("commitTransaction", 1, 2), 0);
    same(&server.one("n", "3"), "{_id: 3, parent: 1, up: [1], label: 'new'}");
}

#[test]
fn an_element_that_went_does_not_come_back_with_a_transaction() {
    let server = Server::new();
    server.run("{createPatterns: 'carts', patterns: [{name: 'p', kind: 'extendedReference', ref: 'items.p', from: 'products', into: 'items.info', fields: ['name'], onSourceDelete: 'cascade'}]}");
    server.run("{insert: 'products', documents: [{_id: 'a', name: 'A'}, {_id: 'b', name: 'B'}]}");
    server.run("{insert: 'carts', documents: [{_id: 1, items: [{p: 'a', n: 1}, {p: 'b', n: 1}]}]}");
    server.run(&format!("{{find: 'carts'{}}}", within(1, 1, true)));
    server.run("{delete: 'products', deletes: [{q: {_id: 'a'}, limit: 1}]}");
    let again = |number, first| {
        format!(
            "{{update: 'carts', updates: [{{q: {{_id: 1}}, u: {{$set: {{note: 'x'}}}}}}]{}}}",
            within(1, number, first)
        )
    };
    assert_eq!(server.code(&again(1, false)), 112);
    assert_eq!(server.code(&again(2, true)), 0);
    assert_eq!(server.end("commitTransaction", 1, 2), 0);
    same(
        &server.one("carts", "1"),
        "{_id: 1, items: [{p: 'b', n: 1, info: {name: 'B'}}], note: 'x'}",
    );
    server.verify("carts");
}

#[test]
fn counts_and_copies_are_in_nobodys_way() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1, name: 'a'}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}}}]}");
    server.run("{createPatterns: 'c', patterns: [{name: 'r', kind: 'extendedReference', ref: 'p', from: 'p', into: 'who', fields: ['name']}]}");
    server.run("{insert: 'c', documents: [{_id: 0, p: 1}]}");
    // Two transactions and a statement, all with one parent, each of which changes what another wrote.
    server.run(&format!("{{insert: 'c', documents: [{{_id: 1, p: 1}}]{}}}", within(1, 1, true)));
    server.run(&format!("{{insert: 'c', documents: [{{_id: 2, p: 1}}]{}}}", within(2, 1, true)));
    server.run(&format!(
        "{{update: 'p', updates: [{{q: {{_id: 1}}, u: {{$set: {{name: 'b'}}}}}}]{}}}",
        within(3, 1, true)
    ));
    server.run("{insert: 'c', documents: [{_id: 3, p: 1}]}");
    for session in 1..=3 {
        assert_eq!(server.end("commitTransaction", session, 1), 0);
    }
    let parent = server.get("p", "1");
    assert_eq!((whole(&parent, "n"), text(&parent, "name")), (4, "b"));
    assert_eq!(server.find("c", "{'who.name': 'b'}").len(), 4);
    server.verify("p");
    server.verify("c");
}
