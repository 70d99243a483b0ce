//! What people see of trees: nodes that wait for parents, and those that follow later.

use super::*;

#[test]
fn nodes_that_wait_for_their_parents_are_counted() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', onMissingParent: 'defer', maintain: {depth: 'd'}}]}");
    server.run("{insert: 'n', documents: [{_id: 3, parent: 2}, {_id: 2, parent: 1}, {_id: 9}]}");
    assert_eq!(number(server.pattern("n").as_doc(), "awaiting"), 2);
    server.run("{insert: 'n', documents: [{_id: 1}]}");
    assert_eq!(number(server.pattern("n").as_doc(), "awaiting"), 0);
}

#[test]
fn nodes_of_which_nothing_is_stored_are_counted_while_they_wait() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', strategy: 'pointer', onMissingParent: 'defer', maintain: {depth: 'd'}}]}");
    server.run("{insert: 'n', documents: [{_id: 3, parent: 2}, {_id: 2, parent: 1}, {_id: 9}]}");
    assert_eq!(number(server.pattern("n").as_doc(), "awaiting"), 2);
    server.run("{insert: 'n', documents: [{_id: 1}]}");
    assert_eq!(number(server.pattern("n").as_doc(), "awaiting"), 0);
}

static LATER: &str = "{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', mode: {every: '1h'}, maintain: {ancestors: 'a', depth: 'd', childCount: 'kids', descendantCount: 'below'}}]}";

/// A root, 300 nodes below it and one below the last of those.
fn later() -> Server {
    let server = Server::new();
    server.run("{insert: 'n', documents: [{_id: 0}, {_id: 1}]}");
    let nodes: Vec<String> = (2..302).map(|n| format!("{{_id: {n}, parent: 1}}")).collect();
    server.run(&format!("{{insert: 'n', documents: [{}]}}", nodes.join(",")));
    server.run("{insert: 'n', documents: [{_id: 999, parent: 301}]}");
    server.run(LATER);
    server
}

static FRESH: &str = "readConcern: {patterns: 'fresh'}";

#[test]
fn nodes_may_follow_later_and_say_so() {
    let server = later();
    let behind =
        || server.docs("{find: 'n', filter: {a: {$ne: 0}, _id: {$gt: 1}}, batchSize: 1000}").len();
    assert_eq!(number(server.pattern("n").as_doc(), "pending"), 0);
    server.run("{update: 'n', updates: [{q: {_id: 1}, u: {$set: {parent: 0}}}]}");
    // The node itself is right; those below it and the counts above it wait, and say so.
    server.shows(
        "{find: 'n', filter: {_id: 1}, projection: {parent: 0}}",
        "{_id: 1, a: [0], d: 1, kids: 300, below: 301}",
    );
    assert_eq!(behind(), 301);
    let listed = server.pattern("n");
    assert!(number(listed.as_doc(), "pending") >= 1, "{listed:?}");
    let is_exact = |id: i32| {
        let found = server.docs(&format!(
            "{{find: 'n', filter: {{_id: {id}}}, projection: {{m: {{$meta: 'patterns'}}}}}}"
        ));
        format!("{found:?}").contains("\"exact\": Bool(true)")
    };
    server.run("{insert: 'n', documents: [{_id: -1}]}");
    assert_eq!(
        (is_exact(-1), is_exact(2), is_exact(999), is_exact(0)),
        (true, false, false, false)
    );
    let report = server.validate("{validatePatterns: 'n'}");
    assert_eq!((number(report.as_doc(), "drift"), number(report.as_doc(), "stale")), (0, 302));
    // A circle is refused all the same.
    let refused =
        server.run_code("{update: 'n', updates: [{q: {_id: 0}, u: {$set: {parent: 999}}}]}");
    assert_eq!(refused, 96001);
    // Queries over the plain model are not answered from what is behind.
    let walked = server.docs("{aggregate: 'n', cursor: {}, pipeline: [{$match: {_id: 999}}, {$graphLookup: {from: 'n', startWith: '$parent', connectFromField: 'parent', connectToField: '_id', as: 'up'}}, {$project: {up: {$size: '$up'}}}]}");
    assert_eq!(number(walked[0].as_doc(), "up"), 3);
    // Who asks for it waits.
    server.docs(&format!("{{find: 'n', filter: {{_id: 0}}, {FRESH}}}"));
    assert_eq!(behind(), 0);
    server.shows("{find: 'n', filter: {_id: 0}}", "{_id: 0, a: [], d: 0, kids: 1, below: 302}");
    server.shows(
        "{find: 'n', filter: {_id: 999}}",
        "{_id: 999, parent: 301, a: [0, 1, 301], d: 3, kids: 0, below: 0}",
    );
    let report = server.validate("{validatePatterns: 'n'}");
    assert_eq!((number(report.as_doc(), "drift"), number(report.as_doc(), "stale")), (0, 0));
}

#[test]
fn a_tree_catches_up_by_itself_and_may_change_its_mode() {
    let server = later();
    server.run("{modifyPattern: 'n', name: 't', set: {mode: {async: {maxLagMS: 50}}}}");
    server.run("{update: 'n', updates: [{q: {_id: 1}, u: {$set: {parent: 0}}}]}");
    wait_until("caught up", || number(server.pattern("n").as_doc(), "pending") == 0);
    assert_eq!(server.docs("{find: 'n', filter: {a: 0}, batchSize: 1000}").len(), 302);
    server.run("{modifyPattern: 'n', name: 't', set: {mode: {every: '1h'}}}");
    server.run("{delete: 'n', deletes: [{q: {_id: 999}, limit: 1}]}");
    server.run("{update: 'n', updates: [{q: {_id: 1}, u: {$set: {parent: null}}}]}");
    // From here on nodes follow at once; what was queued is still done, and until then answers nobody.
    server.run("{modifyPattern: 'n', name: 't', set: {mode: 'sync'}}");
    server.run("{insert: 'n', documents: [{_id: 2000, parent: 5}]}");
    wait_until("caught up", || server.docs("{find: 'n', filter: {a: 0}}").is_empty());
    let report = server.validate("{validatePatterns: 'n'}");
    assert_eq!(number(report.as_doc(), "drift"), 0, "{report:?}");
}

#[test]
fn what_becomes_of_children_is_decided_at_once() {
    for (on_delete, left) in
        [("adopt", "{_id: 3, parent: 1}"), ("root", "{_id: 3, parent: null}"), ("cascade", "")]
    {
        let server = Server::new();
        server
            .run("{insert: 'n', documents: [{_id: 1}, {_id: 2, parent: 1}, {_id: 3, parent: 2}]}");
        server.run(&format!("{{createPatterns: 'n', patterns: [{{name: 't', kind: 'tree', onDelete: '{on_delete}', mode: {{every: '1h'}}, maintain: {{depth: 'd'}}}}]}}"));
        server.run("{delete: 'n', deletes: [{q: {_id: 2}, limit: 1}]}");
        server.shows("{find: 'n', filter: {_id: 3}, projection: {parent: 1}}", left);
    }
    let server = later();
    assert_eq!(server.run_code("{delete: 'n', deletes: [{q: {_id: 1}, limit: 1}]}"), 96001);
    assert_eq!(server.run_code("{insert: 'n', documents: [{_id: 5000, parent: 4999}]}"), 96001);
}
