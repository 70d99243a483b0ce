//! What replies count: the client's documents, whatever patterns write beside them; for every command
//! that writes.

mod harness;

use harness::{Server, whole, within};
use motifdb::value::{DocBuf, Val, ejson};

/// Customers with a count of their orders, which carry the customers' names and are counted by day; a
/// tree that adopts; orders that go with their customer.
fn shop() -> Server {
    let server = Server::new();
    server.run("{createPatterns: 'customers', patterns: [{name: 'n', kind: 'computed', from: 'orders', on: {foreign: 'c'}, fields: {n: {$count: {}}}}]}");
    server.run("{createPatterns: 'orders', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'customers', into: 'customer', fields: ['name'], onSourceDelete: 'cascade'}, {name: 'd', kind: 'computed', into: 'days', groupBy: '$day', fields: {n: {$count: {}}}}, {name: 'top', kind: 'computed', fields: {twice: {$multiply: ['$x', 2]}}}]}");
    server.run("{createPatterns: 'nodes', patterns: [{name: 't', kind: 'tree', onDelete: 'adopt', maintain: {ancestors: 'up', descendantCount: 'below'}}]}");
    server.run("{insert: 'customers', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob'}]}");
    server.run("{insert: 'nodes', documents: [{_id: 1}, {_id: 2, parent: 1}, {_id: 3, parent: 2}, {_id: 4, parent: 2}]}");
    server
}

/// Runs a command and compares numbers of its reply.
fn counts(server: &Server, text: &str, expected: &[(&str, i64)]) -> DocBuf {
    let reply = server.run(text);
    for (name, number) in expected {
        assert_eq!(whole(&reply, name), *number, "{name} of {text}: {reply:?}");
    }
    reply
}

#[test]
fn replies_count_the_clients_documents() {
    let server = shop();
    let orders: Vec<String> =
        (0..6).map(|n| format!("{{_id: {n}, c: {}, day: {}, x: {n}}}", n % 2 + 1, n % 3)).collect();
    let insert = format!("{{insert: 'orders', documents: [{}]}}", orders.join(", "));
    counts(&server, &insert, &[("n", 6)]);
    // A rename writes three orders, too.
    counts(
        &server,
        "{update: 'customers', updates: [{q: {_id: 1}, u: {$set: {name: 'Anna'}}}]}",
        &[("n", 1), ("nModified", 1)],
    );
    counts(
        &server,
        "{update: 'customers', updates: [{q: {_id: 1}, u: {$set: {name: 'Anna'}}}]}",
        &[("n", 1), ("nModified", 0)],
    );
    // What a client carries of the database's fields modifies nothing.
    counts(
        &server,
        "{update: 'customers', updates: [{q: {_id: 1}, u: {name: 'Anna', n: 99}}]}",
        &[("n", 1), ("nModified", 0)],
    );
    counts(
        &server,
        "{update: 'customers', updates: [{q: {}, u: [{$set: {name: {$concat: ['$name', '!']}}}], multi: true}]}",
        &[("n", 2), ("nModified", 2)],
    );
    counts(
        &server,
        "{update: 'orders', updates: [{q: {day: 0}, u: {$set: {c: 2}}, multi: true}]}",
        &[("n", 2), ("nModified", 1)],
    );
    let reply = counts(
        &server,
        "{update: 'orders', updates: [{q: {_id: 9}, u: {$set: {c: 1, day: 7}}, upsert: true}]}",
        &[("n", 1), ("nModified", 0)],
    );
    assert_eq!(
        reply.as_doc().get("upserted").and_then(Val::as_array).map(|list| list.count()),
        Some(1)
    );
    let reply = counts(
        &server,
        "{findAndModify: 'customers', query: {_id: 2}, update: {$set: {name: 'Rob'}}}",
        &[("lastErrorObject.n", 1)],
    );
    assert_eq!(whole(&reply, "lastErrorObject.updatedExisting"), -1, "it is no number");
    counts(
        &server,
        "{findAndModify: 'orders', query: {_id: 5}, remove: true}",
        &[("lastErrorObject.n", 1)],
    );
    counts(&server, "{delete: 'orders', deletes: [{q: {day: 1}, limit: 0}]}", &[("n", 2)]);
    // The node's children move up; the customer's orders go.
    counts(
        &server,
        "{update: 'nodes', updates: [{q: {_id: 2}, u: {$set: {parent: null}}}]}",
        &[("n", 1), ("nModified", 1)],
    );
    counts(&server, "{delete: 'nodes', deletes: [{q: {_id: 2}, limit: 1}]}", &[("n", 1)]);
    assert_eq!(server.find("nodes", "{parent: null}").len(), 3);
    let left = server.find("orders", "{c: 2}").len();
    assert!(left > 0);
    counts(&server, "{delete: 'customers', deletes: [{q: {_id: 2}, limit: 1}]}", &[("n", 1)]);
    assert!(server.find("orders", "{c: 2}").is_empty());
    server.verify("customers");
    server.verify("orders");
    server.verify("nodes");
}

#[test]
fn bulk_writes_and_transactions_count_the_clients_documents() {
    let server = shop();
    let bulk = "{bulkWrite: 1, nsInfo: [{ns: 't.orders'}, {ns: 't.customers'}], ops: [
        {insert: 0, document: {_id: 1, c: 1, day: 1}}, {insert: 0, document: {_id: 2, c: 1, day: 1}},
        {update: 1, filter: {_id: 1}, updateMods: {$set: {name: 'Zoe'}}},
        {update: 0, filter: {}, updateMods: {$set: {day: 2}}, multi: true},
        {delete: 1, filter: {_id: 1}},
        {update: 0, filter: {_id: 3}, updateMods: {$set: {c: 2}}, upsert: true}]}";
    let command = ejson::parse_doc(bulk).expect("test text");
    let reply = server.0.run_command("admin", command.as_doc()).expect("works");
    let numbers = ["nInserted", "nMatched", "nModified", "nDeleted", "nUpserted", "nErrors"]
        .map(|name| whole(&reply, name));
    assert_eq!(numbers, [2, 3, 3, 1, 1, 0], "{reply:?}");
    assert_eq!(server.find("orders", "{}").len(), 1, "the others went with their customer");
    // Inside of a transaction, and what its commit does again.
    let (first, then) = (within(1, 1, true), within(1, 1, false));
    counts(
        &server,
        &format!(
            "{{insert: 'orders', documents: [{{_id: 5, c: 2, day: 1}}, {{_id: 6, c: 2, day: 1}}]{first}}}"
        ),
        &[("n", 2)],
    );
    counts(
        &server,
        &format!(
            "{{update: 'customers', updates: [{{q: {{_id: 2}}, u: {{$set: {{name: 'Rob'}}}}}}]{then}}}"
        ),
        &[("n", 1), ("nModified", 1)],
    );
    counts(
        &server,
        &format!("{{delete: 'orders', deletes: [{{q: {{_id: 5}}, limit: 1}}]{then}}}"),
        &[("n", 1)],
    );
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    assert_eq!(server.find("orders", "{'customer.name': 'Rob'}").len(), 2);
    // What is counted elsewhere: the server's own counters of documents.
    let status = |name: &str| {
        let status = server.run("{serverStatus: 1}");
        whole(&status, &format!("metrics.document.{name}"))
    };
    let before = ["inserted", "updated", "deleted"].map(status);
    server.run("{insert: 'orders', documents: [{_id: 7, c: 2, day: 9}]}");
    server.run("{update: 'customers', updates: [{q: {_id: 2}, u: {$set: {name: 'Bo'}}}]}");
    server.run("{delete: 'orders', deletes: [{q: {_id: 7}, limit: 1}]}");
    let after = ["inserted", "updated", "deleted"].map(status);
    let grown: Vec<i64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(grown, [1, 1, 1]);
    server.verify("orders");
}

#[test]
fn what_a_pipeline_writes_counts_as_a_client_would() {
    let server = shop();
    server.run("{insert: 'import', documents: [{_id: 1, c: 1, day: 1}, {_id: 2, c: 2, day: 1}]}");
    // Such a reply has nothing to count.
    assert!(
        server
            .docs("{aggregate: 'import', pipeline: [{$merge: {into: 'orders'}}], cursor: {}}")
            .is_empty()
    );
    assert_eq!(server.find("orders", "{}").len(), 2);
    assert_eq!(whole(&server.get("customers", "1"), "n"), 1);
    server.verify("customers");
}
