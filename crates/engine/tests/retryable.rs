//! Retryable writes of many statements: what they write of their own history grows with the
//! statements and not with their square, and every statement counts once, also over restarts.

mod harness;

use harness::Server;
use motifdb::value::{DocBuf, Val};
use std::fmt::Write as _;
use std::ops::Bound;
use store::{Direction, DiskStore, Space, Store};

const SESSION: &str = "lsid: {id: UUID('00000000-0000-4000-8000-000000000001')}";

/// Bytes that the server has written of what retryable writes did.
fn history_bytes(server: &Server) -> i64 {
    let status = server.run("{serverStatus: 1}");
    let metrics = status.as_doc().get("metrics").and_then(Val::as_doc).expect("metrics");
    let writes = metrics.get("retryableWrites").and_then(Val::as_doc).expect("retryable writes");
    writes.get("historyBytesWritten").and_then(Val::as_i64_exact).expect("a number")
}

/// A command with so many statements, each made by `statement` from its number.
fn batch(
    head: &str,
    field: &str,
    count: usize,
    number: i64,
    statement: impl Fn(usize) -> String,
) -> String {
    let mut text = format!("{{{head}, {field}: [");
    for at in 0..count {
        let _ = write!(text, "{}, ", statement(at));
    }
    let _ = write!(text, "], {SESSION}, txnNumber: NumberLong({number})}}");
    text
}

fn upserts(count: usize, number: i64) -> String {
    batch("update: 'c'", "updates", count, number, |at| {
        format!("{{q: {{_id: {at}}}, u: {{$inc: {{n: 1}}}}, upsert: true}}")
    })
}

/// Increments of which every second one matches nothing.
fn matches_and_misses(count: usize, number: i64) -> String {
    batch("update: 'c'", "updates", count, number, |at| {
        let id = if at % 2 == 0 { at } else { at + 1_000_000 };
        format!("{{q: {{_id: {id}}}, u: {{$inc: {{n: 1}}}}}}")
    })
}

fn inserts(count: usize, number: i64) -> String {
    batch("insert: 'd'", "documents", count, number, |at| format!("{{_id: {at}}}"))
}

/// Deletes of which every second one matches nothing.
fn deletes(count: usize, number: i64) -> String {
    batch("delete: 'd'", "deletes", count, number, |at| {
        let id = if at % 2 == 0 { at } else { at + 1_000_000 };
        format!("{{q: {{_id: {id}}}, limit: 1}}")
    })
}

fn bulk(count: usize, number: i64) -> String {
    let head = "bulkWrite: 1, nsInfo: [{ns: 't.e'}]";
    batch(head, "ops", count, number, |at| match at % 3 {
        0 => format!("{{insert: 0, document: {{_id: {at}, n: 0}}}}"),
        1 => format!(
            "{{update: 0, filter: {{_id: {}}}, updateMods: {{$inc: {{n: 1}}}}, upsert: true}}",
            at - at % 2
        ),
        _ => format!("{{delete: 0, filter: {{_id: {}}}}}", at - 2),
    })
}

/// Runs a command on the database that it belongs to.
fn run(server: &Server, text: &str) -> DocBuf {
    let db = if text.starts_with("{bulkWrite") { "admin" } else { "t" };
    let command = motifdb::value::ejson::parse_doc(text).expect("a command");
    server.0.run_command(db, command.as_doc()).expect("works")
}

/// The parts of a reply that must be the same when the command is sent again.
fn counts(reply: &DocBuf) -> Vec<String> {
    let same = |name: &&str| {
        matches!(
            *name,
            "n" | "nModified" | "upserted" | "nInserted" | "nMatched" | "nUpserted" | "nDeleted"
        )
    };
    let fields = reply.as_doc().iter().filter(|(name, _)| same(name));
    fields.map(|(name, value)| format!("{name}: {:?}", value.get())).collect()
}

type Batch = fn(usize, i64) -> String;
const BATCHES: [(&str, Batch); 5] = [
    ("upserts", upserts),
    ("matches and misses", matches_and_misses),
    ("inserts", inserts),
    ("deletes", deletes),
    ("bulkWrite", bulk),
];

#[test]
fn the_history_of_a_batch_grows_with_its_statements() {
    for (name, make) in BATCHES {
        let mut written = Vec::new();
        for count in [300, 1200] {
            let server = Server::new();
            for collection in ["c", "d", "e"] {
                server.run(&format!("{{create: '{collection}'}}"));
            }
            if name == "matches and misses" {
                run(&server, &upserts(count, 1));
            }
            if name == "deletes" {
                run(&server, &inserts(count, 1));
            }
            let before = history_bytes(&server);
            run(&server, &make(count, 2));
            written.push(history_bytes(&server) - before);
        }
        let (short, long) = (written[0], written[1]);
        assert!(short > 0, "{name}: a history is written");
        assert!(long <= short * 5, "{name}: {short} bytes for 300 statements, {long} for 1200");
        assert!(long <= 1200 * 600, "{name}: {long} bytes for 1200 statements");
    }
}

#[test]
fn a_batch_that_is_sent_again_does_nothing_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::on(folder.path());
    for (number, (name, make)) in (1..).zip(BATCHES) {
        let text = make(400, number);
        let first = run(&server, &text);
        let state =
            |server: &Server| ["c", "d", "e"].map(|collection| server.find(collection, "{}"));
        let before = state(&server);
        let again = run(&server, &text);
        assert_eq!(counts(&again), counts(&first), "{name}");
        assert!(state(&server) == before, "{name}: sent again, it changed something");
        server.close();
        server = Server::on(folder.path());
        let again = run(&server, &text);
        assert_eq!(counts(&again), counts(&first), "{name}, after a restart");
        assert!(state(&server) == before, "{name}: after a restart it changed something");
    }
    assert_eq!(server.code(&upserts(1, 2)), 225, "older numbers are refused");
}

#[test]
fn the_rest_of_a_batch_that_ended_early_is_done_and_nothing_twice() {
    let server = Server::new();
    run(&server, &upserts(150, 1));
    let bytes = history_bytes(&server);
    // The client sends the whole batch again, of which the first part is done.
    run(&server, &upserts(400, 1));
    let found = server.find("c", "{n: {$ne: 1}}");
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(server.find("c", "{n: 1}").len(), 101, "the first batch of a cursor");
    assert!(history_bytes(&server) > bytes);
}

#[test]
fn two_clients_that_send_the_same_batch_do_it_once() {
    let server = Server::new();
    run(&server, "{create: 'c'}");
    let text = upserts(500, 1);
    std::thread::scope(|threads| {
        let all: Vec<_> = (0..3).map(|_| threads.spawn(|| counts(&run(&server, &text)))).collect();
        let replies: Vec<_> = all.into_iter().map(|one| one.join().expect("no panic")).collect();
        assert!(replies.iter().all(|reply| *reply == replies[0]));
    });
    assert!(server.find("c", "{n: {$ne: 1}}").is_empty());
    assert_eq!(server.run("{count: 'c'}").as_doc().get("n"), Some(Val::Int32(500)));
}

#[test]
fn a_transaction_behind_a_long_batch_takes_its_history_away() {
    let server = Server::new();
    run(&server, &upserts(200, 1));
    let within = format!("{SESSION}, txnNumber: NumberLong(2), autocommit: false");
    server.run(&format!(
        "{{insert: 'c', documents: [{{_id: 'x'}}], startTransaction: true, {within}}}"
    ));
    let commit = format!("{{commitTransaction: 1, {within}}}");
    let command = motifdb::value::ejson::parse_doc(&commit).expect("a command");
    server.0.run_command("admin", command.as_doc()).expect("commits");
    assert_eq!(server.code(&upserts(1, 2)), 217, "the number is a transaction's");
    run(&server, &upserts(200, 3));
    assert_eq!(server.find("c", "{n: 1}").len(), 0);
    run(&server, &upserts(200, 3));
    assert_eq!(server.find("c", "{n: 3}").len(), 0);
}

#[test]
fn find_and_modify_under_many_statement_numbers_is_answered_for_each() {
    let server = Server::new();
    server.run("{insert: 'c', documents: [{_id: 1, n: 0}]}");
    let command = |statement: i32| {
        format!(
            "{{findAndModify: 'c', query: {{_id: 1}}, update: {{$inc: {{n: 1}}}},
            stmtId: {statement}, {SESSION}, txnNumber: NumberLong(1)}}"
        )
    };
    for _ in 0..2 {
        for statement in 0..40 {
            let reply = server.run(&command(statement));
            let value = reply.as_doc().get("value").and_then(Val::as_doc).expect("a document");
            assert_eq!(value.get("n"), Some(Val::Int32(statement)));
        }
    }
    assert_eq!(server.find("c", "{n: 40}").len(), 1);
}

#[test]
fn a_statement_that_wrote_nothing_is_executed_again() {
    let server = Server::new();
    run(&server, "{create: 'c'}");
    let within = |number: i64| format!("{SESSION}, txnNumber: NumberLong({number})");
    let counted = |reply: &DocBuf| reply.as_doc().get("n").and_then(Val::as_i64_exact);
    let update = |number| {
        let text = "{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {x: 1}}}]";
        run(&server, &format!("{text}, {}}}", within(number)))
    };
    let delete = |number| {
        let text = "{delete: 'c', deletes: [{q: {_id: 2}, limit: 1}]";
        run(&server, &format!("{text}, {}}}", within(number)))
    };
    assert_eq!(counted(&update(1)), Some(0));
    run(&server, "{insert: 'c', documents: [{_id: 1, x: 0}]}");
    assert_eq!(counted(&update(1)), Some(1), "a miss is tried again");
    assert_eq!(counted(&update(1)), Some(1), "what has written is not");
    assert_eq!(server.find("c", "{_id: 1, x: 1}").len(), 1);
    assert_eq!(counted(&delete(2)), Some(0));
    run(&server, "{insert: 'c', documents: [{_id: 2}]}");
    assert_eq!(counted(&delete(2)), Some(1));
    assert_eq!(counted(&delete(2)), Some(1));
    let bytes = history_bytes(&server);
    assert_eq!(counted(&update(3)), Some(1));
    assert!(history_bytes(&server) > bytes);
    let bytes = history_bytes(&server);
    let miss = format!(
        "{{update: 'c', updates: [{{q: {{_id: 9}}, u: {{$inc: {{x: 1}}}}}}], {}}}",
        within(4)
    );
    run(&server, &miss);
    assert_eq!(history_bytes(&server), bytes, "a miss writes nothing");
}

#[test]
fn the_history_of_an_earlier_version_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    let text = upserts(300, 1);
    run(&server, &text);
    server.close();
    // Earlier versions kept it in the space of the change log.
    let store = DiskStore::open(folder.path(), store::Options::default()).expect("opens");
    let (from, to) = (Bound::Included(&b"s"[..]), Bound::Excluded(&b"t"[..]));
    let mut moved = store::Batch::new();
    let snapshot = store.snapshot();
    let mut range =
        snapshot.range(Space::Catalog, from, to, Direction::Forward).expect("can be read");
    while let Some((key, record)) = range.next_entry().expect("can be read") {
        moved.delete(Space::Catalog, &key);
        moved.put(Space::Log, &key, &record);
    }
    drop((range, snapshot));
    assert!(moved.len() > 2, "there are several records");
    store.write(&moved).expect("writes");
    store.close().expect("closes");
    drop(store);
    let server = Server::on(folder.path());
    run(&server, &text);
    assert!(server.find("c", "{n: {$ne: 1}}").is_empty(), "nothing is done twice");
    server.close();
    let store = DiskStore::open(folder.path(), store::Options::default()).expect("opens");
    let snapshot = store.snapshot();
    let mut range = snapshot.range(Space::Log, from, to, Direction::Forward).expect("can be read");
    assert_eq!(range.next_entry().expect("can be read"), None);
}
