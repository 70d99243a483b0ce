//! What happens to a second point of a series and a time: `onDuplicate`.

use super::harness::{self, Server, print, within};
use motifdb::value::Val;
use motifdb::value::ejson;

const HOUR: &str = "{$date: {$numberLong: '3600000'}}";
const LATER: &str = "{$date: {$numberLong: '3660000'}}";

fn server(policy: &str) -> Server {
    let server = Server::new();
    server.run(&format!(
        "{{create: 'c', patterns: [{{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', unique: true, onDuplicate: '{policy}', rollup: {{fields: {{v: ['sum', 'count']}}}}}}]}}"
    ));
    server
}

/// Runs a write; the code of its first error, 0 without one.
fn write(server: &Server, text: &str) -> i64 {
    let command = ejson::parse_doc(text).expect("test text");
    let reply = server.0.run_command("t", command.as_doc()).expect("runs");
    let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
    let first = errors.and_then(|errors| errors.first()?.1.as_doc());
    first.and_then(|error| error.get("code").and_then(Val::as_i64_exact)).unwrap_or(0)
}

fn insert(server: &Server, docs: &str) -> i64 {
    write(server, &format!("{{insert: 'c', documents: [{docs}]}}"))
}

fn values(server: &Server) -> Vec<String> {
    let found = server.docs("{find: 'c', sort: {_id: 1}, projection: {v: 1}}");
    found.iter().map(|doc| print(doc.as_doc())).collect()
}

fn is(server: &Server, expected: &[(i32, i32)]) {
    let expected: Vec<String> = expected
        .iter()
        .map(|(id, v)| {
            let doc = ejson::parse_doc(&format!("{{_id: {id}, v: {v}}}")).expect("test text");
            print(doc.as_doc())
        })
        .collect();
    assert_eq!(values(server), expected);
    let sum: i64 = server.docs("{find: 'c'}").iter().map(|doc| harness::whole(doc, "v")).sum();
    let raw = server.docs("{find: 'c', rawBuckets: true}");
    let rolled: i64 = raw.iter().map(|bucket| harness::whole(bucket, "rollup.v.sum")).sum();
    assert_eq!(sum, rolled);
    server.verify("c");
}

#[test]
fn a_second_point_replaces_the_first() {
    let server = server("replace");
    assert_eq!(insert(&server, &format!("{{_id: 1, s: 1, ts: {HOUR}, v: 1}}")), 0);
    assert_eq!(insert(&server, &format!("{{_id: 2, s: 1, ts: {HOUR}, v: 2}}")), 0);
    is(&server, &[(2, 2)]);
    // The same point again, and two in one statement.
    assert_eq!(insert(&server, &format!("{{_id: 2, s: 1, ts: {HOUR}, v: 3}}")), 0);
    is(&server, &[(2, 3)]);
    let both = format!("{{_id: 3, s: 1, ts: {HOUR}, v: 4}}, {{_id: 4, s: 1, ts: {HOUR}, v: 5}}");
    assert_eq!(insert(&server, &both), 0);
    is(&server, &[(4, 5)]);
    assert_eq!(insert(&server, &format!("{{_id: 5, s: 2, ts: {HOUR}, v: 1}}")), 0);
    is(&server, &[(4, 5), (5, 1)]);
    // An upsert inserts.
    let upsert = format!(
        "{{update: 'c', updates: [{{q: {{_id: 6}}, u: {{$set: {{s: 2, ts: {HOUR}, v: 7}}}}, upsert: true}}]}}"
    );
    assert_eq!(write(&server, &upsert), 0);
    is(&server, &[(4, 5), (6, 7)]);
    // A point that is moved is no new one.
    assert_eq!(insert(&server, &format!("{{_id: 7, s: 2, ts: {LATER}, v: 1}}")), 0);
    let moved =
        format!("{{update: 'c', updates: [{{q: {{_id: 7}}, u: {{$set: {{ts: {HOUR}}}}}}}]}}");
    assert_eq!(write(&server, &moved), 11000);
    is(&server, &[(4, 5), (6, 7), (7, 1)]);
}

#[test]
fn a_point_stays_if_the_one_in_its_place_is_refused() {
    let server = server("replace");
    server.run(
        "{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u', unique: true, sparse: true}]}",
    );
    assert_eq!(insert(&server, &format!("{{_id: 1, s: 1, ts: {HOUR}, v: 1, u: 1}}")), 0);
    assert_eq!(insert(&server, &format!("{{_id: 2, s: 2, ts: {HOUR}, v: 2, u: 2}}")), 0);
    // Another point has its `_id`, or its value of a unique index.
    assert_eq!(insert(&server, &format!("{{_id: 2, s: 1, ts: {HOUR}, v: 9}}")), 11000);
    assert_eq!(insert(&server, &format!("{{_id: 3, s: 1, ts: {HOUR}, v: 9, u: 2}}")), 11000);
    is(&server, &[(1, 1), (2, 2)]);
    assert_eq!(server.docs("{find: 'c', filter: {u: 1}, hint: 'u'}").len(), 1);
    assert_eq!(insert(&server, &format!("{{_id: 3, s: 1, ts: {HOUR}, v: 9, u: 1}}")), 0);
    is(&server, &[(2, 2), (3, 9)]);
}

#[test]
fn the_first_point_stays() {
    let server = server("keep");
    let both = format!("{{_id: 1, s: 1, ts: {HOUR}, v: 1}}, {{_id: 2, s: 1, ts: {HOUR}, v: 2}}");
    let reply = server.run(&format!("{{insert: 'c', documents: [{both}]}}"));
    assert_eq!(harness::whole(&reply, "n"), 2);
    is(&server, &[(1, 1)]);
    assert_eq!(insert(&server, &format!("{{_id: 1, s: 1, ts: {HOUR}, v: 3}}")), 0);
    assert_eq!(insert(&server, &format!("{{_id: 1, s: 1, ts: {LATER}, v: 3}}")), 11000);
    is(&server, &[(1, 1)]);
    server.run("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}]}");
    assert_eq!(insert(&server, &format!("{{_id: 2, s: 1, ts: {HOUR}, v: 2}}")), 0);
    is(&server, &[(2, 2)]);
    server.run("{modifyPattern: 'c', name: 'b', set: {onDuplicate: 'replace'}}");
    assert_eq!(insert(&server, &format!("{{_id: 3, s: 1, ts: {HOUR}, v: 4}}")), 0);
    is(&server, &[(3, 4)]);
}

#[test]
fn transactions_replace_and_keep_at_their_commit() {
    for (policy, aborted, committed) in
        [("replace", [(1, 1)], [(2, 2)]), ("keep", [(1, 1)], [(1, 1)])]
    {
        let server = server(policy);
        assert_eq!(insert(&server, &format!("{{_id: 1, s: 1, ts: {HOUR}, v: 1}}")), 0);
        for (number, end) in [(1, "abortTransaction"), (2, "commitTransaction")] {
            let point = format!("{{_id: 2, s: 1, ts: {HOUR}, v: 2}}");
            let statement =
                format!("{{insert: 'c', documents: [{point}]{}}}", within(1, number, true));
            assert_eq!(write(&server, &statement), 0);
            is(&server, &aborted);
            assert_eq!(server.end(end, 1, number), 0);
        }
        is(&server, &committed);
    }
    // Another client made the point that the transaction meets.
    let server = server("keep");
    let point = format!("{{_id: 2, s: 1, ts: {HOUR}, v: 2}}");
    let statement = format!("{{insert: 'c', documents: [{point}]{}}}", within(1, 1, true));
    assert_eq!(write(&server, &statement), 0);
    assert_eq!(insert(&server, &format!("{{_id: 1, s: 1, ts: {HOUR}, v: 1}}")), 0);
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    is(&server, &[(1, 1)]);
}
