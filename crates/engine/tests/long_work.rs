//! Work on a hundred thousand documents ends in the middle, by `killOp` and by `maxTimeMS`, and
//! leaves nothing half done: index builds, builds of patterns, upkeep, `$out` and `$merge`.
//!
//! A command is stopped at one of its checks whether to stop: the test lets it run up to there, and
//! then kills it. How much it may do between checks is a matter of `interrupt_checks.rs`.

mod harness;

use harness::{Server, batch, text, whole};
use motifdb::value::{DocBuf, Val, ejson};
use query::interrupt;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc;

const MANY: i32 = 100_000;

/// A server with orders of a hundred customers.
fn server() -> Server {
    let server = Server::new();
    let customers: Vec<String> = (0..100).map(|n| format!("{{_id: {n}, name: 'c{n}'}}")).collect();
    server.run(&format!("{{insert: 'customers', documents: [{}]}}", customers.join(", ")));
    for from in (0..MANY).step_by(10_000) {
        let command = DocBuf::build(|out| {
            out.str("insert", "orders");
            out.array("documents", |out| {
                for n in from..from + 10_000 {
                    // Nine of ten orders are of the first customer.
                    let customer = if n % 10 == 0 { n / 10 % 100 } else { 0 };
                    out.push_doc(|out| {
                        out.i32("_id", n).i32("n", n.wrapping_mul(7919) % MANY).i32("v", 1);
                        out.doc("customer", |out| {
                            out.i32("_id", customer);
                        });
                    });
                }
            });
        });
        server.0.run_command("t", command.as_doc()).expect("inserts");
    }
    server
}

/// The code of a command; 0 if it works.
fn code(server: &Server, text: &str) -> i64 {
    server.code(text)
}

/// How often a command checks whether to stop.
fn checks(server: &Server, text: &str) -> usize {
    let count = Rc::new(Cell::new(0));
    let inner = count.clone();
    let observing = interrupt::observe(move || {
        inner.set(inner.get() + 1);
        false
    });
    assert_eq!(code(server, text), 0, "{text}");
    drop(observing);
    count.get()
}

/// The operation that runs with a comment.
fn running(server: &Server, comment: &str) -> i64 {
    let list = operations(server);
    let found = list.iter().find(|one| {
        let command = one.as_doc().get("command").and_then(Val::as_doc);
        command.and_then(|command| command.get("comment")) == Some(Val::String(comment))
    });
    whole(found.expect("it runs"), "opid")
}

fn operations(server: &Server) -> Vec<DocBuf> {
    let command = ejson::parse_doc("{currentOp: 1, $all: true}").expect("a command");
    let reply: DocBuf = server.0.run_command("admin", command.as_doc()).expect("works");
    let list = reply.as_doc().get("inprog").and_then(Val::as_array).expect("a list");
    list.iter().filter_map(|(_, one)| one.as_doc()).map(DocBuf::from).collect()
}

fn kill(server: &Server, operation: i64) {
    let kill = ejson::parse_doc(&format!("{{killOp: 1, op: {operation}}}")).expect("a command");
    server.0.run_command("admin", kill.as_doc()).expect("kills");
}

/// Adds fields to the text of a command.
fn with(command: &str, fields: &str) -> String {
    format!("{}, {fields}}}", command.strip_suffix('}').expect("a document"))
}

/// Runs a command and kills it at one of its checks; its code. `None` if it has ended before.
fn killed_at(server: &Server, command: &str, number: usize) -> Option<i64> {
    let text = with(command, "comment: 'long work'");
    std::thread::scope(|threads| {
        let (reached, is_there) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let thread = threads.spawn(move || {
            let mut seen = 0;
            let _observing = interrupt::observe(move || {
                seen += 1;
                if seen == number {
                    reached.send(()).expect("the test waits");
                    may_go.recv().expect("the test goes on");
                }
                false
            });
            code(server, &text)
        });
        let found = is_there.recv();
        if found.is_ok() {
            kill(server, running(server, "long work"));
            go.send(()).expect("it waits");
        }
        let code = thread.join().expect("no panic");
        found.ok().map(|()| code)
    })
}

/// Stops a command at the beginning, in the middle and near its end, and by its time limit. `check`
/// is called after each. Where several threads share the work, the one that is watched may do less
/// of it than before: then `undo` is called, and it is stopped earlier.
fn stop_everywhere(
    server: &Server,
    command: &str,
    checks: usize,
    undo: impl Fn(),
    check: impl Fn(&str),
) {
    assert!(checks >= 20, "{checks} checks of {command}");
    for mut number in [1, checks / 2, checks * 9 / 10] {
        let code = loop {
            if let Some(code) = killed_at(server, command, number) {
                break code;
            }
            assert!(number > 1, "{command} does not check");
            number = number.div_ceil(2);
            undo();
        };
        assert_eq!(code, 11601, "{command} at {number} of {checks}");
        check(&format!("killed at {number} of {checks}"));
    }
    assert_eq!(code(server, &with(command, "maxTimeMS: 20")), 50, "{command}");
    check("after 20 ms");
}

fn sound(server: &Server) {
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}

fn count(server: &Server, collection: &str, filter: &str) -> i64 {
    whole(&server.run(&format!("{{count: '{collection}', query: {filter}}}")), "n")
}

fn names(server: &Server, list: &str) -> Vec<String> {
    let reply = server.run(list);
    let mut names: Vec<String> =
        batch(&reply).into_iter().map(|doc| text(&DocBuf::from(doc), "name").to_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_index_build_ends_and_leaves_no_index() {
    let server = server();
    for (name, key, options) in [("n_1", "{n: 1, v: 1}", ""), ("u_1", "{n: 1}", ", unique: true")] {
        let build = format!(
            "{{createIndexes: 'orders', indexes: [{{key: {key}, name: '{name}'{options}}}]}}"
        );
        let checks = checks(&server, &build);
        let undo = || drop(server.run(&format!("{{dropIndexes: 'orders', index: '{name}'}}")));
        undo();
        stop_everywhere(&server, &build, checks, undo, |when| {
            assert_eq!(names(&server, "{listIndexes: 'orders'}"), ["_id_"], "{when}");
            // Writers maintain no index that nobody sees.
            server.run("{update: 'orders', updates: [{q: {_id: 5}, u: {$inc: {v: 1}}}]}");
        });
        sound(&server);
        assert_eq!(code(&server, &build), 0, "it can be built");
        assert_eq!(count(&server, "orders", "{n: {$gte: 0}}"), i64::from(MANY));
        sound(&server);
        undo();
    }
}

#[test]
fn a_stage_that_writes_ends() {
    let server = server();
    server.run("{insert: 'target', documents: [{_id: 'old'}]}");
    server.run("{createIndexes: 'target', indexes: [{key: {n: 1}, name: 'n_1'}]}");
    let collections = names(&server, "{listCollections: 1}");
    let stage = |stage: &str| format!("{{aggregate: 'orders', pipeline: [{stage}], cursor: {{}}}}");
    let out = stage("{$out: 'target'}");
    let needed = checks(&server, &stage("{$out: 'other'}"));
    server.run("{drop: 'other'}");
    stop_everywhere(
        &server,
        &out,
        needed,
        || {},
        |when| {
            assert_eq!(server.find("target", "{}"), ["{\"_id\":\"old\"}"], "{when}");
            assert_eq!(names(&server, "{listCollections: 1}"), collections, "{when}");
            assert_eq!(names(&server, "{listIndexes: 'target'}"), ["_id_", "n_1"], "{when}");
            sound(&server);
        },
    );
    // What was merged stays, and is whole.
    let merge = stage("{$merge: {into: 'target'}}");
    let needed = checks(&server, &stage("{$merge: {into: 'other'}}"));
    stop_everywhere(
        &server,
        &merge,
        needed,
        || {},
        |when| {
            let merged = count(&server, "target", "{}");
            assert!(merged <= i64::from(MANY), "{when}: {merged}");
            sound(&server);
        },
    );
}

const CUSTOMER: &str = "{name: 'customer', kind: 'extendedReference', ref: 'customer._id',
    from: 'customers', fields: ['name'], into: 'customer', fanoutLimit: 1000000}";

#[test]
fn upkeep_of_many_documents_ends_and_values_stay_right() {
    let server = server();
    server.run(&format!("{{createPatterns: 'orders', patterns: [{CUSTOMER}]}}"));
    server.run("{createPatterns: 'customers', patterns: [{name: 'total', kind: 'computed', from: 'orders', on: {local: '_id', foreign: 'customer._id'}, fields: {total: {$sum: '$v'}}}]}");
    let orders = count(&server, "orders", "{'customer._id': 0}");
    let rename = |name: &str| {
        format!(
            "{{update: 'customers', updates: [{{q: {{_id: 0}}, u: {{$set: {{name: '{name}'}}}}}}]}}"
        )
    };
    let needed = checks(&server, &rename("first"));
    assert_eq!(count(&server, "orders", "{'customer.name': 'first'}"), orders);
    stop_everywhere(
        &server,
        &rename("second"),
        needed,
        || {},
        |when| {
            // One parent and its copies: all or nothing.
            assert_eq!(count(&server, "customers", "{name: 'first'}"), 1, "{when}");
            assert_eq!(count(&server, "orders", "{'customer.name': 'first'}"), orders, "{when}");
        },
    );
    server.verify("orders");
    let update = "{update: 'orders', updates: [{q: {}, u: {$inc: {v: 1}}, multi: true}]}";
    let needed = checks(&server, update);
    stop_everywhere(&server, update, needed, || {}, |_| {});
    server.verify("customers");
    server.verify("orders");
}

#[test]
fn a_build_of_a_pattern_ends() {
    let server = server();
    let declare = |name: &str, options: &str| {
        format!(
            "{{createPatterns: 'orders', patterns: [{{name: '{name}', kind: 'computed', fields: {{{name}: {{$add: ['$v', 1]}}}}, backfill: {{rate: 1000}}, duringBuild: 'missing'}}]{options}}}"
        )
    };
    let state = |name: &str| {
        let found = server.docs("{listPatterns: 'orders'}");
        let found = found.into_iter().find(|one| text(one, "name") == name);
        found.map(|one| text(&one, "state").to_owned())
    };
    let job = |name: &str| {
        let what = format!("Pattern Build: {name}");
        let found = operations(&server).into_iter().find(|one| text(one, "msg").contains(&what));
        found.map(|one| whole(&one, "opid"))
    };
    // The command waits for the build; whoever stops waiting does not stop the build.
    // Before it is declared, the documents are read once; ending that leaves nothing.
    let mut limit = 20;
    while state("a").is_none() {
        assert_eq!(code(&server, &declare("a", &format!(", wait: true, maxTimeMS: {limit}"))), 50);
        limit *= 2;
    }
    assert_eq!(state("a").as_deref(), Some("building"));
    kill(&server, job("a").expect("it is listed"));
    while state("a").as_deref() == Some("building") {
        std::thread::yield_now();
    }
    assert_eq!(state("a").as_deref(), Some("failed"));
    assert!(job("a").is_none());
    let derived = count(&server, "orders", "{a: {$exists: true}}");
    assert!(derived < i64::from(MANY), "the build went on to its end");
    server.run("{dropPatterns: 'orders', names: ['a']}");
    assert_eq!(count(&server, "orders", "{a: {$exists: true}}"), 0);
    let mut number = 1;
    while state("b").is_none() {
        assert_eq!(killed_at(&server, &declare("b", ", wait: true"), number), Some(11601));
        number += number.div_ceil(4);
    }
    kill(&server, job("b").expect("it is listed"));
    while state("b").as_deref() == Some("building") {
        std::thread::yield_now();
    }
    server.run("{dropPatterns: 'orders', names: ['b']}");
    assert_eq!(count(&server, "orders", "{b: {$exists: true}}"), 0);
    sound(&server);
}
