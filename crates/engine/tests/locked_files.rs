//! While `fsync` with lock keeps the files as they are, everything that would write waits, and ends
//! by `killOp` and `maxTimeMS`, commands as well as background work. What a command could not remove
//! then is removed later.

mod harness;

use harness::{Server, text, whole};
use motifdb::value::{DocBuf, Val, ejson};
use query::interrupt;
use std::sync::mpsc;
use std::time::Duration;

/// Only for tests that fail: how long a command that should end is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands that write. They are not executed, so they need no end brace.
const WRITES: &[&str] = &[
    "{insert: 'c', documents: [{_id: 100}]",
    "{update: 'c', updates: [{q: {}, u: {$inc: {v: 1}}, multi: true}]",
    "{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {v: 1}}}, {q: {_id: 2}, u: {$inc: {v: 1}}}]",
    "{delete: 'c', deletes: [{q: {}, limit: 0}]",
    "{findAndModify: 'c', query: {_id: 1}, update: {$inc: {v: 1}}",
    "{create: 'd'",
    "{drop: 'c'",
    "{dropDatabase: 1",
    "{collMod: 'c', validator: {v: {$lt: 100}}",
    "{createIndexes: 'c', indexes: [{key: {w: 1}, name: 'w_1'}]",
    "{createIndexes: 'd', indexes: [{key: {w: 1}, name: 'w_1'}]",
    "{dropIndexes: 'c', index: 'v_1'",
    "{convertToCapped: 'plain', size: 4096",
    "{cloneCollectionAsCapped: 'plain', toCollection: 'd', size: 4096",
    "{compact: 'c', force: true",
    "{aggregate: 'c', pipeline: [{$out: 'd'}], cursor: {}",
    "{aggregate: 'c', pipeline: [{$merge: {into: 'd'}}], cursor: {}",
    "{createPatterns: 'c', patterns: [{name: 'w', kind: 'computed', fields: {w: {$add: ['$v', 1]}}}]",
    "{dropPatterns: 'c', names: ['twice']",
    "{profile: 1",
];

/// The same, on the database `admin`.
const ADMIN_WRITES: &[&str] = &[
    "{renameCollection: 't.plain', to: 't.e'",
    "{renameCollection: 't.plain', to: 'u.e'",
    "{createUser: 'u', pwd: 'p', roles: []",
    "{appendOplogNote: 1, data: {a: 1}",
    "{replSetResizeOplog: 1, size: 2000",
    "{bulkWrite: 1, ops: [{insert: 0, document: {_id: 100}}], nsInfo: [{ns: 't.c'}]",
];

fn writes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of =
        |db: &'static str, list: &'static [&'static str]| list.iter().map(move |one| (db, *one));
    of("t", WRITES).chain(of("admin", ADMIN_WRITES))
}

fn server(folder: &std::path::Path) -> Server {
    let server = Server::on(folder);
    let docs: Vec<String> = (0..50).map(|n| format!("{{_id: {n}, v: {n}}}")).collect();
    server.run(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
    server.run("{insert: 'plain', documents: [{_id: 1}]}");
    server.run("{createIndexes: 'c', indexes: [{key: {v: 1}, name: 'v_1'}]}");
    server.run("{createPatterns: 'c', patterns: [{name: 'twice', kind: 'computed', fields: {twice: {$multiply: ['$v', 2]}}}], wait: true}");
    server
}

/// Runs a command; its code.
fn code(server: &Server, db: &str, text: &str) -> i64 {
    let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    match server.0.run_command(db, command.as_doc()) {
        Err(error) => i64::from(error.code().0),
        Ok(reply) => {
            let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
            let first = errors.and_then(|list| list.first()).and_then(|(_, one)| one.as_doc());
            first.and_then(|one| one.get("code")).and_then(Val::as_i64_exact).unwrap_or(0)
        }
    }
}

fn admin(server: &Server, text: &str) -> i64 {
    code(server, "admin", text)
}

fn lock(server: &Server) {
    assert_eq!(admin(server, "{fsync: 1, lock: true}"), 0);
}

fn unlock(server: &Server) {
    assert_eq!(admin(server, "{fsyncUnlock: 1}"), 0);
}

fn operations(server: &Server) -> Vec<DocBuf> {
    let command = ejson::parse_doc("{currentOp: 1, $all: true}").expect("a command");
    let reply: DocBuf = server.0.run_command("admin", command.as_doc()).expect("works");
    let list = reply.as_doc().get("inprog").and_then(Val::as_array).expect("a list");
    list.iter().filter_map(|(_, one)| one.as_doc()).map(DocBuf::from).collect()
}

/// The command that runs beside `currentOp`, not one that is a part of it.
fn running(server: &Server, is_it: impl Fn(&DocBuf) -> bool) -> Option<i64> {
    let list = operations(server);
    let others = list.iter().filter(|one| {
        let command = one.as_doc().get("command").and_then(Val::as_doc);
        one.as_doc().get("active") == Some(Val::Bool(true))
            && command.is_some_and(|command| command.find("currentOp").is_none())
    });
    others.filter(|one| is_it(one)).map(|one| whole(one, "opid")).min()
}

/// The command that waits for `fsyncUnlock`.
fn waiting(server: &Server) -> Option<i64> {
    running(server, |one| one.as_doc().get("waitingForLock") == Some(Val::Bool(true)))
}

fn kill(server: &Server, operation: i64) {
    assert_eq!(admin(server, &format!("{{killOp: 1, op: {operation}}}")), 0);
}

fn index_names(server: &Server) -> Vec<String> {
    let list = server.docs("{listIndexes: 'c'}");
    list.iter().map(|one| text(one, "name").to_owned()).collect()
}

fn assert_sound(server: &Server) {
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}

/// Runs the commands, each in a thread; `stop` makes a waiting one end. All end with this code.
fn all_end(server: &Server, fields: &str, expected: i64, stop: impl Fn(&Server)) {
    let before = server.find("c", "{}");
    lock(server);
    for (db, write) in writes() {
        let text = format!("{write}{fields}}}");
        std::thread::scope(|threads| {
            let (sender, ended) = mpsc::channel();
            threads.spawn(move || sender.send(code(server, db, &text)));
            stop(server);
            let Ok(code) = ended.recv_timeout(PATIENCE) else {
                unlock(server);
                panic!("does not end: {write}");
            };
            if code != expected {
                unlock(server);
            }
            assert_eq!(code, expected, "{write}");
        });
    }
    assert_eq!(server.find("c", "{}"), before, "nothing was written");
    unlock(server);
    assert_eq!(server.find("c", "{}"), before, "nor later");
    assert_eq!(index_names(server), ["_id_", "v_1"]);
    server.verify("c");
}

#[test]
fn what_waits_ends_when_its_time_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path());
    all_end(&server, ", maxTimeMS: 30", 50, |_| {});
    server.close();
}

#[test]
fn what_waits_ends_when_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path());
    all_end(&server, "", 11601, |server| {
        let begun = std::time::Instant::now();
        let operation = loop {
            if let Some(found) = running(server, |_| true) {
                break found;
            }
            if begun.elapsed() > PATIENCE {
                unlock(server);
                panic!("is not shown");
            }
            std::thread::yield_now();
        };
        kill(server, operation);
    });
    server.close();
}

#[test]
fn the_commit_of_a_transaction_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path());
    let update = "{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {v: 1}}}]";
    server.run(&format!("{update}{}}}", harness::within(1, 1, true)));
    lock(&server);
    let session = harness::within(1, 1, false);
    let commit = format!("{{commitTransaction: 1{session}, maxTimeMS: 30}}");
    assert_eq!(admin(&server, &commit), 50);
    unlock(&server);
    // It has ended without a trace.
    assert_eq!(server.end("commitTransaction", 1, 1), 251);
    assert_eq!(whole(&server.get("c", "1"), "v"), 1);
    server.run(&format!("{update}}}"));
    server.close();
}

/// The background work with this description.
fn job(server: &Server, what: &str) -> Option<i64> {
    let found = operations(server).into_iter().find(|one| text(one, "msg").contains(what));
    found.map(|one| whole(&one, "opid"))
}

#[test]
fn an_index_build_ends_while_files_are_locked_and_its_index_goes_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path());
    let build = "{createIndexes: 'c', indexes: [{key: {w: 1}, name: 'w_1'}]}";
    // Once by the number of the command, once by that of the build.
    for by_command in [true, false] {
        std::thread::scope(|threads| {
            let server = &server;
            let (reached, is_there) = mpsc::channel();
            let (go, may_go) = mpsc::channel::<()>();
            let (sender, ended) = mpsc::channel();
            threads.spawn(move || {
                let _observing = interrupt::observe(move || {
                    // When the test has ended, nobody waits.
                    if reached.send(()).is_ok() {
                        let _ = may_go.recv();
                    }
                    false
                });
                sender.send(code(server, "t", build))
            });
            let building = loop {
                is_there.recv().expect("it builds");
                if let Some(job) = job(server, "Index Build") {
                    break job;
                }
                go.send(()).expect("it waits");
            };
            lock(server);
            drop((is_there, go));
            let command = loop {
                if let Some(found) = waiting(server) {
                    break found;
                }
                std::thread::yield_now();
            };
            kill(server, if by_command { command } else { building });
            let Ok(code) = ended.recv_timeout(PATIENCE) else {
                unlock(server);
                panic!("does not end");
            };
            assert_eq!(code, 11601);
            assert_eq!(job(server, "Index Build"), None);
        });
        unlock(&server);
        while index_names(&server).len() > 2 {
            std::thread::yield_now();
        }
        assert_eq!(index_names(&server), ["_id_", "v_1"]);
        assert_sound(&server);
    }
    // Nothing is in the way of another attempt.
    server.run("{createIndexes: 'c', indexes: [{key: {w: 1}, name: 'w_1'}]}");
    assert_sound(&server);
    server.close();
}

#[test]
fn what_is_still_to_be_removed_is_removed_when_the_server_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path());
    lock(&server);
    assert_eq!(
        code(&server, "t", "{aggregate: 'c', pipeline: [{$out: 'd'}], cursor: {}, maxTimeMS: 30}"),
        50
    );
    server.close();
    let server = Server::on(folder.path());
    let names = server.docs("{listCollections: 1}");
    assert!(names.iter().all(|one| !text(one, "name").starts_with("tmp")), "{names:?}");
    assert_sound(&server);
    server.close();
}

#[test]
fn a_build_of_a_pattern_ends_while_files_are_locked() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path());
    for from in (0..30_000).step_by(1000) {
        let docs: Vec<String> =
            (from..from + 1000).map(|n| format!("{{_id: {n}, v: 1}}")).collect();
        server.run(&format!("{{insert: 'many', documents: [{}]}}", docs.join(", ")));
    }
    // Slow, so that the lock comes before its end.
    server.run("{createPatterns: 'many', patterns: [{name: 'slow', kind: 'computed', fields: {slow: {$add: ['$v', 1]}}, backfill: {rate: 1000}, duringBuild: 'missing'}], wait: false}");
    let state = || {
        let list = server.docs("{listPatterns: 'many'}");
        let found = list.iter().find(|one| text(one, "name") == "slow").expect("is there");
        text(found, "state").to_owned()
    };
    let building = loop {
        if let Some(found) = job(&server, "Pattern Build: slow") {
            break found;
        }
        assert_eq!(state(), "building");
    };
    lock(&server);
    kill(&server, building);
    let begun = std::time::Instant::now();
    while job(&server, "Pattern Build: slow").is_some() {
        assert!(begun.elapsed() < PATIENCE, "it goes on");
        std::thread::yield_now();
    }
    unlock(&server);
    while state() == "building" {
        std::thread::yield_now();
    }
    assert_eq!(state(), "failed");
    assert_sound(&server);
    server.close();
}
