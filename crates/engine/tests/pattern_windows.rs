//! Windows of time: children that leave what is maintained because they have become too old.

#[path = "harness/mod.rs"]
mod harness;

use harness::Server;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const HOUR: i64 = 3_600_000;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("not so late")
}

/// A child that becomes too old for a window of an hour in so many milliseconds.
fn child(id: &str, product: &str, left: i64) -> String {
    format!("{{_id: {id}, p: {product}, x: {id}, at: new Date({})}}", now() - HOUR + left)
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One after the other, so that fields come in this order: builds of one command run side by side.
static SALES: [&str; 2] = [
    "{createPatterns: 'p', patterns: [
    {name: 'sales', kind: 'computed', from: 'o', on: {foreign: 'p'}, window: {field: 'at', last: '1h'},
     fields: {n: {$count: {}}, s: {$sum: '$x'}, top: {$max: '$x'}}}]}",
    "{createPatterns: 'p', patterns: [
    {name: 'twice', kind: 'computed', fields: {twice: {$multiply: ['$s', 2]}}}]}",
];

/// A document without quotes and types: whole numbers are all that is compared.
fn plain(text: &str) -> String {
    text.replace("{\"$numberInt\":\"", "").replace("\"}", "").replace('"', "")
}

fn one(server: &Server, collection: &str, id: &str) -> String {
    plain(&server.one(collection, id))
}

#[test]
fn children_leave_when_they_have_become_too_old() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    // What is there when the pattern is declared: too old, about to be, for long, without a date.
    let soon = 4000;
    server.run(&format!(
        "{{insert: 'o', documents: [{}, {}, {}, {{_id: 4, p: 1, x: 4}}, {{_id: 5, p: 1, x: 5, at: 'today'}}]}}",
        child("1", "1", -5000),
        child("2", "1", soon),
        child("3", "1", HOUR)
    ));
    for command in SALES {
        server.run(command);
    }
    assert_eq!(one(&server, "p", "1"), "{_id:1,n:2,s:5,top:3,twice:10}");
    server.run(&format!(
        "{{insert: 'o', documents: [{}, {}, {}]}}",
        child("10", "[1, 2]", soon),
        child("11", "2", HOUR),
        child("12", "2", -2 * HOUR)
    ));
    server.verify("p");
    wait_until("children leave", || {
        one(&server, "p", "1") == "{_id:1,n:1,s:3,top:3,twice:6}"
            && one(&server, "p", "2") == "{_id:2,n:1,s:11,top:11,twice:22}"
    });
    server.verify("p");
    // Those that are out may change and go without a trace, and come back with another date.
    server.run("{delete: 'o', deletes: [{q: {_id: 2}, limit: 1}]}");
    server.run("{update: 'o', updates: [{q: {_id: 10}, u: {$set: {x: 100}}}]}");
    assert_eq!(one(&server, "p", "1"), "{_id:1,n:1,s:3,top:3,twice:6}");
    let date = now();
    server.run(&format!(
        "{{update: 'o', updates: [{{q: {{_id: 10}}, u: {{$set: {{at: new Date({date})}}}}}}]}}"
    ));
    assert_eq!(one(&server, "p", "1"), "{_id:1,n:2,s:103,top:100,twice:206}");
    // An update may put a child out of the window, too.
    server.run("{update: 'o', updates: [{q: {_id: 10}, u: {$set: {at: new Date(0)}}}]}");
    assert_eq!(one(&server, "p", "1"), "{_id:1,n:1,s:3,top:3,twice:6}");
    server.run("{update: 'o', updates: [{q: {_id: 3}, u: {$unset: {at: 1}}}]}");
    assert_eq!(one(&server, "p", "1"), "{_id:1,n:0,s:0,top:null,twice:0}");
    server.verify("p");
}

#[test]
fn queries_for_all_children_are_not_answered_from_a_window() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run(&format!(
        "{{insert: 'o', documents: [{}, {}]}}",
        child("1", "1", -HOUR),
        child("2", "1", HOUR)
    ));
    for command in SALES {
        server.run(command);
    }
    let counted = server.run("{count: 'o', query: {p: 1}}");
    assert!(harness::whole(&counted, "n") == 2, "{counted:?}");
    let summed = server.run(
        "{aggregate: 'o', pipeline: [{$match: {p: 1}}, {$group: {_id: null, n: {$count: {}}}}], cursor: {}}",
    );
    assert!(plain(&harness::print(summed.as_doc())).contains("n:2"), "{summed:?}");
}

#[test]
fn groups_and_lists_have_windows_too_and_a_window_can_be_changed() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run(&format!(
        "{{insert: 'o', documents: [{}, {}, {}]}}",
        child("1", "1", 1000),
        child("2", "1", HOUR),
        child("3", "1", HOUR / 2)
    ));
    server.run("{createPatterns: 'o', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$x', window: {field: 'at', last: '1h'}, fields: {n: {$count: {}}}}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 't', kind: 'subset', into: 't', from: 'o', on: {foreign: 'p'}, window: {field: 'at', last: '1h'}, sort: {x: 1}, limit: 2, fields: ['x'], count: 'n'}]}");
    wait_until("a child leaves", || {
        one(&server, "p", "1") == "{_id:1,t:[{_id:2,x:2},{_id:3,x:3}],n:2}"
            && server.find("g", "{}").iter().map(|doc| plain(doc)).collect::<Vec<_>>()
                == ["{_id:2,n:1}", "{_id:3,n:1}"]
    });
    server.run("{modifyPattern: 'p', name: 't', set: {window: {field: 'at', last: '20m'}}}");
    assert_eq!(one(&server, "p", "1"), "{_id:1,t:[{_id:2,x:2}],n:1}");
    server.run("{modifyPattern: 'p', name: 't', set: {window: null}}");
    assert_eq!(one(&server, "p", "1"), "{_id:1,t:[{_id:1,x:1},{_id:2,x:2}],n:3}");
}

#[test]
fn who_becomes_too_old_while_nobody_looks_leaves_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    for command in SALES {
        server.run(command);
    }
    let many: Vec<String> = (0..1000).map(|n| child(&n.to_string(), "1", 5000)).collect();
    server.run(&format!(
        "{{insert: 'o', documents: [{}, {}]}}",
        many.join(", "),
        child("-7", "1", HOUR)
    ));
    assert!(one(&server, "p", "1").contains("n:1001"), "{}", one(&server, "p", "1"));
    server.close();
    std::thread::sleep(Duration::from_millis(5500));
    let server = Server::on(folder.path());
    // Whoever wants to know need not wait for the database to get round to it.
    let fresh = server.run("{find: 'p', readConcern: {patterns: 'fresh'}}");
    assert!(
        plain(&harness::print(fresh.as_doc())).contains("n:1,s:-7,top:-7,twice:-14"),
        "{fresh:?}"
    );
    server.verify("p");
    server.close();
}

#[test]
fn writes_and_the_passing_of_time_do_not_disturb_each_other() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    for command in SALES {
        server.run(command);
    }
    std::thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for n in 0..150 {
                    let id = (client * 1000 + n).to_string();
                    let left = [20, 150, 400, HOUR][n % 4];
                    let product = ["1", "2", "[1, 2]"][n % 3];
                    server.run(&format!("{{insert: 'o', documents: [{}]}}", child(&id, product, left)));
                    if n % 5 == 0 {
                        server.run(&format!("{{delete: 'o', deletes: [{{q: {{_id: {}}}, limit: 1}}]}}", client * 1000 + n / 2));
                    }
                    if n % 7 == 0 {
                        let date = now() - HOUR + 100;
                        server.run(&format!("{{update: 'o', updates: [{{q: {{_id: {}}}, u: {{$set: {{at: new Date({date})}}}}}}]}}", client * 1000 + n / 3));
                    }
                    if n % 25 == 0 {
                        server.verify("p");
                    }
                }
            });
        }
    });
    std::thread::sleep(Duration::from_millis(600));
    server.run("{find: 'p', readConcern: {patterns: 'fresh'}}");
    server.verify("p");
    let from = now() - HOUR;
    for product in [1, 2] {
        let left = server.run(&format!(
            "{{count: 'o', query: {{p: {product}, at: {{$gte: new Date({from})}}}}}}"
        ));
        let shown = one(&server, "p", &product.to_string());
        let expected = format!(",n:{},", harness::whole(&left, "n"));
        assert!(shown.contains(&expected), "{expected} {shown}");
    }
}
