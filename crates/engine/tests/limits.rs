//! What operations may have open and hold in memory: at the limit they get MongoDB's errors, go to
//! the disk, or are told to try again, and everything is given back.

use motifdb::{Client, Engine, Options, Peer, Request};
use value::{DocBuf, ejson};

const MIB: u64 = 1024 * 1024;

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("test text")
}

fn engine(operation_bytes: u64) -> Engine {
    Engine::open(Options { operation_bytes, ..Options::default() }).expect("memory opens")
}

fn code(engine: &Engine, db: &str, text: &str) -> i32 {
    engine.run_command(db, doc(text).as_doc()).map_or_else(|error| error.code().0, |_| 0)
}

/// The reply as it is, labels included.
fn reply(client: &mut Client, db: &str, text: &str) -> DocBuf {
    let body = DocBuf::build(|out| {
        out.extend(doc(text).as_doc()).str("$db", db);
    });
    let mut reply = Vec::new();
    client.run(&Request::new(body.as_doc()), &mut reply);
    DocBuf::from_bytes(reply)
}

fn number(reply: &DocBuf, name: &str) -> i64 {
    reply.as_doc().get(name).and_then(|value| value.as_i64_exact()).unwrap_or(-1)
}

fn is_transient(reply: &DocBuf) -> bool {
    let labels = reply.as_doc().get("errorLabels").and_then(|labels| labels.as_array());
    labels.is_some_and(|labels| {
        labels.iter().any(|(_, label)| label.get().as_str() == Some("TransientTransactionError"))
    })
}

fn session(number: u8) -> String {
    format!("lsid: {{id: UUID('000000000000000000000000000000{number:02x}')}}")
}

#[test]
fn cursors_sessions_and_transactions_have_a_limit() {
    let engine = engine(1024 * MIB);
    let limits = "{setParameter: 1, maxOpenCursors: 2, maxSessions: 3, maxOpenTransactions: 1}";
    assert_eq!(code(&engine, "admin", limits), 0);
    assert_eq!(code(&engine, "admin", "{setParameter: 1, maxSessions: 0}"), 2);
    assert_eq!(code(&engine, "test", "{insert: 'c', documents: [{_id: 1}, {_id: 2}]}"), 0);

    for expected in [0, 0, 146] {
        assert_eq!(code(&engine, "test", "{find: 'c', batchSize: 1}"), expected);
    }
    assert_eq!(code(&engine, "test", "{find: 'c'}"), 0, "what needs no cursor goes on");

    for (number, expected) in [(1, 0), (2, 0), (3, 0), (4, 261), (2, 0)] {
        let ping = format!("{{ping: 1, {}}}", session(number));
        assert_eq!(code(&engine, "admin", &ping), expected, "session {number}");
    }

    let begin = |number: u8| {
        let text = format!(
            "{{insert: 'c', documents: [{{}}], {}, txnNumber: NumberLong(1), startTransaction: true, \
             autocommit: false}}",
            session(number)
        );
        reply(&mut engine.connect(Peer::default()), "test", &text)
    };
    assert_eq!(number(&begin(1), "ok"), 1);
    let refused = begin(2);
    assert_eq!(number(&refused, "code"), 365);
    assert!(is_transient(&refused));
    let abort = format!(
        "{{abortTransaction: 1, {}, txnNumber: NumberLong(1), autocommit: false}}",
        session(1)
    );
    assert_eq!(code(&engine, "admin", &abort), 0);
    assert_eq!(number(&begin(3), "ok"), 1, "there is room again");
}

/// Documents of 100 kB each.
fn fill(engine: &Engine, count: usize) {
    let text = "x".repeat(100_000);
    for id in 0..count {
        let next = (id + 1) % count;
        let insert =
            format!("{{insert: 'c', documents: [{{_id: {id}, next: {next}, text: '{text}'}}]}}");
        assert_eq!(code(engine, "test", &insert), 0);
    }
}

#[test]
fn sorts_and_groups_go_to_the_disk_when_all_memory_is_taken() {
    let engine = engine(4 * MIB);
    fill(&engine, 200);
    let all = |pipeline: &str, options: &str| {
        let command = format!(
            "{{aggregate: 'c', pipeline: {pipeline}, cursor: {{batchSize: 1000}}{options}}}"
        );
        engine.run_command("test", doc(&command).as_doc())
    };
    let sort = "[{$sort: {next: -1}}, {$project: {_id: 1}}]";
    let group = "[{$group: {_id: {$add: ['$next', 1]}, all: {$push: '$text'}}}, {$project: {n: {$strLenBytes: {$first: '$all'}}}}]";
    let facet = "[{$facet: {a: [{$count: 'n'}], b: [{$project: {_id: 1}}]}}]";
    for pipeline in [sort, group, facet] {
        all(pipeline, "").unwrap_or_else(|error| panic!("{pipeline}: {error}"));
        let refused = all(pipeline, ", allowDiskUse: false").expect_err("it needs the disk");
        assert_eq!(refused.code().0, 292, "{pipeline}");
    }
    let graph = "[{$limit: 1}, {$graphLookup: {from: 'c', startWith: '$next', connectFromField: 'next', \
                 connectToField: '_id', as: 'all'}}, {$project: {n: {$size: '$all'}}}]";
    assert_eq!(all(graph, "").expect_err("it cannot use the disk").code().0, 146);
    let sample = "[{$match: {next: {$gte: 0}}}, {$sample: {size: 190}}]";
    assert_eq!(all(sample, "").expect_err("it cannot use the disk").code().0, 146);
    // Small ones go on whatever the others hold.
    all("[{$sort: {next: 1}}, {$limit: 3}]", ", allowDiskUse: false").expect("three fit");
    assert_eq!(engine.memory().used(), 0, "everything was given back");
}

#[test]
fn a_transaction_that_finds_no_memory_is_told_to_try_again() {
    let engine = engine(4 * MIB);
    assert_eq!(code(&engine, "test", "{create: 'c'}"), 0);
    let text = "x".repeat(1_000_000);
    let mut client = engine.connect(Peer::default());
    let mut refused = DocBuf::new();
    for at in 0..8 {
        let start = if at == 0 { ", startTransaction: true" } else { "" };
        let insert = format!(
            "{{insert: 'c', documents: [{{_id: {at}, text: '{text}'}}], {}, txnNumber: NumberLong(1), \
             autocommit: false{start}}}",
            session(1)
        );
        refused = reply(&mut client, "test", &insert);
        if number(&refused, "ok") == 0 {
            break;
        }
    }
    assert_eq!(number(&refused, "code"), 365, "eight megabytes do not fit");
    assert!(is_transient(&refused));
    assert_eq!(engine.memory().used(), 0, "it was aborted");
    let count = engine.run_command("test", doc("{count: 'c'}").as_doc()).expect("it counts");
    assert_eq!(number(&count, "n"), 0);
}

#[test]
fn an_exchange_of_documents_that_patterns_follow_is_counted() {
    let engine = engine(4 * MIB);
    fill(&engine, 60);
    let declare = "{createPatterns: 'n', patterns: [{name: 's', kind: 'computed', fields: {double: {$add: ['$next', '$next']}}}]}";
    assert_eq!(code(&engine, "test", declare), 0);
    let out = |count: usize| {
        format!(
            "{{aggregate: 'c', pipeline: [{{$match: {{_id: {{$lt: {count}}}}}}}, {{$out: 'n'}}], cursor: {{}}}}"
        )
    };
    assert_eq!(code(&engine, "test", &out(20)), 0);
    assert_eq!(code(&engine, "test", &out(60)), 146, "6 MB of new documents");
    assert_eq!(code(&engine, "test", &out(25)), 146, "2.5 MB of new ones beside 2 MB of old ones");
    // Everything was given back, and nothing has changed.
    assert_eq!(code(&engine, "test", &out(18)), 0);
    let found = engine.run_command("test", doc("{count: 'n'}").as_doc()).expect("a count");
    assert_eq!(number(&found, "n"), 18);
}
