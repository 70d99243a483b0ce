//! Statements of one `update` command that share commits: each has the result that it would have
//! alone.

mod harness;

use harness::{Server, whole, within};
use motifdb::value::{DocBuf, Val, ejson};
use std::fmt::Write as _;

/// An `update` command with these statements.
fn updates(statements: impl Iterator<Item = String>, options: &str) -> String {
    let mut text = "{update: 'c', updates: [".to_owned();
    for statement in statements {
        let _ = write!(text, "{statement}, ");
    }
    let _ = write!(text, "]{options}}}");
    text
}

fn increment(id: impl std::fmt::Display) -> String {
    format!("{{q: {{_id: {id}}}, u: {{$inc: {{n: 1}}}}}}")
}

/// Runs a command whose statements may fail.
fn run(server: &Server, text: &str) -> DocBuf {
    let command = ejson::parse_doc(text).expect("a command");
    server.0.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The positions and codes of the statements that failed.
fn errors(reply: &DocBuf) -> Vec<(i64, i64)> {
    let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
    let number = |error: &Val<'_>, name| {
        error.as_doc().and_then(|error| error.get(name)).and_then(Val::as_i64_exact)
    };
    let errors = errors.into_iter().flat_map(|errors| errors.iter());
    errors
        .map(|(_, error)| {
            let error = error.get();
            (number(&error, "index").unwrap_or(-1), number(&error, "code").unwrap_or(-1))
        })
        .collect()
}

fn filled(count: usize) -> Server {
    let server = Server::new();
    let docs: String = (0..count).map(|id| format!("{{_id: {id}, n: 0, u: {id}}}, ")).collect();
    server.run(&format!("{{insert: 'c', documents: [{docs}]}}"));
    server.run("{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u_1', unique: true}]}");
    server
}

/// Documents and index entries belong together.
fn verify(server: &Server) {
    let found = server.0.check(&mut |_, _, _| {}).expect("can be read");
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn statements_see_those_before_them() {
    let server = filled(10);
    let statements = [
        increment(1),
        increment(1),
        "{q: {_id: 'new'}, u: {$set: {a: 1}}, upsert: true}".to_owned(),
        increment("'new'"),
        "{q: {a: 1}, u: {$unset: {a: 1}}}".to_owned(),
        "{q: {a: 1}, u: {$set: {b: 1}}}".to_owned(),
        "{q: {u: {$gte: 5}}, u: {$inc: {n: 10}}, multi: true}".to_owned(),
        "{q: {n: 10}, u: {$set: {n: 11}}}".to_owned(),
        "{q: {u: 2}, u: {$set: {u: 100}}}".to_owned(),
        "{q: {u: 3}, u: {$set: {u: 2}}}".to_owned(),
    ];
    let reply = run(&server, &updates(statements.into_iter(), ""));
    assert_eq!(errors(&reply), []);
    assert_eq!((whole(&reply, "n"), whole(&reply, "nModified")), (13, 12));
    let new = server.get("c", "'new'");
    assert_eq!((whole(&new, "n"), whole(&new, "a"), whole(&new, "b")), (1, -1, -1));
    assert_eq!(whole(&server.get("c", "1"), "n"), 2);
    assert_eq!(whole(&server.get("c", "3"), "u"), 2);
    assert_eq!(server.find("c", "{n: 11}").len(), 1);
    verify(&server);
}

#[test]
fn a_refused_statement_leaves_nothing_and_the_others_are_done() {
    for ordered in [true, false] {
        let server = filled(300);
        let statement = |at: usize| match at {
            120 => "{q: {_id: 120}, u: {$set: {u: 7}}}".to_owned(),
            150 => "{q: {_id: 150}, u: {$push: {n: 1}}}".to_owned(),
            170 => "{q: {_id: 170}, u: {$nothing: {n: 1}}}".to_owned(),
            _ => increment(at),
        };
        let options = format!(", ordered: {ordered}");
        let reply = run(&server, &updates((0..300).map(statement), &options));
        let failed = errors(&reply);
        let expected: &[(i64, i64)] =
            if ordered { &[(120, 11000)] } else { &[(120, 11000), (150, 2), (170, 9)] };
        assert_eq!(failed, expected);
        let done = if ordered { 120 } else { 297 };
        assert_eq!(whole(&reply, "nModified"), done);
        let counted = server.run("{count: 'c', query: {n: 1}}");
        assert_eq!(whole(&counted, "n"), done);
        verify(&server);
    }
}

#[test]
fn a_statement_waits_for_a_transaction_and_those_before_it_do_not() {
    let server = filled(20);
    server.run(&format!(
        "{{update: 'c', updates: [{}]{}}}",
        "{q: {_id: 5}, u: {$inc: {n: 100}}}",
        within(1, 1, true)
    ));
    std::thread::scope(|threads| {
        let batch = threads.spawn(|| run(&server, &updates((0..20).map(increment), "")));
        while whole(&server.get("c", "4"), "n") < 1 {
            std::thread::yield_now();
        }
        assert!(!batch.is_finished());
        assert_eq!(whole(&server.get("c", "6"), "n"), 0);
        assert_eq!(server.end("commitTransaction", 1, 1), 0);
        let reply = batch.join().expect("no panic");
        assert_eq!((whole(&reply, "n"), errors(&reply)), (20, vec![]));
    });
    assert_eq!(whole(&server.get("c", "5"), "n"), 101);
    assert_eq!(server.find("c", "{n: 1}").len(), 19);
}

#[test]
fn batches_over_the_same_documents_lose_no_update() {
    const ROUNDS: usize = 20;
    let server = filled(50);
    std::thread::scope(|threads| {
        for client in 0..3 {
            let server = &server;
            threads.spawn(move || {
                for round in 0..ROUNDS {
                    let id = |at: usize| if client == 1 { 49 - at } else { (at + round) % 50 };
                    let text = updates((0..50).map(|at| increment(id(at))), "");
                    assert_eq!(errors(&run(server, &text)), []);
                }
            });
        }
    });
    let wrong = server.find("c", &format!("{{n: {{$ne: {}}}}}", 3 * ROUNDS));
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn statements_share_commits() {
    let server = filled(100);
    let commits = |server: &Server| {
        let reply = server.run("{serverStatus: 1}");
        whole(&reply, "store.published")
    };
    let before = commits(&server);
    run(&server, &updates((0..100).map(increment), ""));
    let made = commits(&server) - before;
    assert!(before >= 0 && made < 10, "{made} commits for 100 statements");
}
