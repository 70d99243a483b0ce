//! What runs for too long is stopped by `killOp` and by `maxTimeMS`, wherever it spends its time:
//! inside of one expression, of one pattern, of one document.

mod harness;

use harness::Server;
use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use std::sync::mpsc;

/// An expression that takes hours: loops in loops in loops.
const ENDLESS: &str = "{$reduce: {input: {$range: [0, {$add: ['$k', 20000]}]}, initialValue: 0,
    in: {$reduce: {input: {$range: [0, {$add: ['$k', 20000]}]}, initialValue: 0,
    in: {$reduce: {input: {$range: [0, {$add: ['$k', 20000]}]}, initialValue: 0,
    in: {$add: ['$$value', 1]}}}}}}}";

/// Sorts that take hours.
const SORTS: &str = "{$map: {input: {$range: [0, {$add: ['$k', 1000000]}]}, in: {$size: {
    $sortArray: {input: {$range: [0, {$add: ['$k', 100000]}]}, sortBy: -1}}}}}";

/// A server with documents to work on.
fn server() -> Server {
    let server = Server::new();
    server.run("{insert: 'c', documents: [{_id: 1, k: 1}, {_id: 2, k: 1}, {_id: 3, k: 1}]}");
    let text = "ab".repeat(200_000);
    server.run(&format!("{{insert: 'texts', documents: [{{_id: 1, t: '{text}'}}]}}"));
    let links: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let links = links.join(", ");
    for from in (0..300).step_by(50) {
        let docs: Vec<String> =
            (from..from + 50).map(|n| format!("{{_id: {n}, to: [{links}]}}")).collect();
        server.run(&format!("{{insert: 'graph', documents: [{}]}}", docs.join(", ")));
    }
    let create = format!("{{create: 'checked', validator: {{$expr: {{$gt: [{ENDLESS}, 0]}}}}}}");
    server.run(&create);
    server
}

/// Commands that would run for hours, without their end brace.
fn endless() -> Vec<(&'static str, String)> {
    let patterns: Vec<String> = (0..3000).map(|n| format!("/(?=a.*x{n})b.*y/s")).collect();
    let stage = |name: &'static str, stages: String| {
        (name, format!("{{aggregate: 'c', pipeline: [{stages}], cursor: {{}}"))
    };
    let project = format!("{{$project: {{v: {ENDLESS}}}}}");
    vec![
        stage("nested loops", project.clone()),
        stage("sorts", format!("{{$project: {{v: {{$size: {SORTS}}}}}}}")),
        stage("$match", format!("{{$match: {{$expr: {{$lt: [{ENDLESS}, 0]}}}}}}")),
        stage("$group", format!("{{$group: {{_id: null, v: {{$sum: {ENDLESS}}}}}}}")),
        stage("$bucketAuto", format!("{{$bucketAuto: {{groupBy: {ENDLESS}, buckets: 2}}}}")),
        stage("$facet", format!("{{$facet: {{a: [{project}]}}}}")),
        stage("$unionWith", format!("{{$unionWith: {{coll: 'c', pipeline: [{project}]}}}}")),
        stage("$lookup", format!("{{$lookup: {{from: 'c', as: 'x', pipeline: [{project}]}}}}")),
        stage("$redact", format!("{{$redact: {{$cond: [{ENDLESS}, '$$KEEP', '$$PRUNE']}}}}")),
        stage(
            "$setWindowFields",
            format!(
                "{{$setWindowFields: {{sortBy: {{_id: 1}}, output: {{v: {{$push: {ENDLESS}}}}}}}}}"
            ),
        ),
        stage(
            "$merge",
            format!("{{$merge: {{into: 'c', whenMatched: [{{$set: {{v: {ENDLESS}}}}}]}}}}"),
        ),
        (
            "$graphLookup",
            "{aggregate: 'graph', pipeline: [{$unwind: '$to'}, {$graphLookup: {from: 'graph', startWith: '$_id',
                connectFromField: 'to', connectToField: '_id', as: 'all'}}, {$count: 'n'}],
                cursor: {}"
                .to_owned(),
        ),
        ("a look-ahead", "{find: 'texts', filter: {t: /(?=.*x)(?=.*y)a/s}".to_owned()),
        ("patterns", format!("{{find: 'texts', filter: {{t: {{$in: [{}]}}}}", patterns.join(", "))),
        ("count", format!("{{count: 'c', query: {{$expr: {{$lt: [{ENDLESS}, 0]}}}}")),
        (
            "distinct",
            format!("{{distinct: 'c', key: 'k', query: {{$expr: {{$lt: [{ENDLESS}, 0]}}}}"),
        ),
        (
            "a pipeline update",
            format!(
                "{{update: 'c', updates: [{{q: {{}}, u: [{{$set: {{v: {ENDLESS}}}}}], multi: true}}]"
            ),
        ),
        (
            "findAndModify",
            format!(
                "{{findAndModify: 'c', query: {{_id: 1}}, update: [{{$set: {{v: {ENDLESS}}}}}]"
            ),
        ),
        (
            "delete",
            format!(
                "{{delete: 'c', deletes: [{{q: {{$expr: {{$lt: [{ENDLESS}, 0]}}}}, limit: 0}}]"
            ),
        ),
        ("a validator", "{insert: 'checked', documents: [{_id: 1, k: 1}]".to_owned()),
    ]
}

fn code(server: &Server, text: &str) -> i32 {
    let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text:.200}: {e}"));
    server.0.run_command("t", command.as_doc()).map_or_else(|error| error.code().0, |_| 0)
}

/// The operation that runs with a comment.
fn running(server: &Server, comment: &str) -> Option<i64> {
    let command = ejson::parse_doc("{currentOp: 1}").expect("a command");
    let reply: DocBuf = server.0.run_command("admin", command.as_doc()).expect("works");
    let list = reply.as_doc().get("inprog").and_then(Val::as_array).expect("a list");
    let found = list.iter().filter_map(|(_, one)| one.as_doc()).find(|one: &RawDoc<'_>| {
        let command = one.get("command").and_then(Val::as_doc);
        command.and_then(|command| command.get("comment")) == Some(Val::String(comment))
    })?;
    found.get("opid").and_then(Val::as_i64_exact)
}

#[test]
fn what_runs_for_hours_ends_when_it_is_killed() {
    let server = server();
    for (name, text) in endless() {
        let text = format!("{text}, comment: 'endless'}}");
        let long = text.len() > 4000;
        std::thread::scope(|threads| {
            let (sender, ended) = mpsc::channel();
            let server = &server;
            threads.spawn(move || sender.send(code(server, &text)));
            // Commands too long to be shown are found by what else runs: nothing.
            let operation = loop {
                let found = if long { longest(server) } else { running(server, "endless") };
                if let Some(found) = found {
                    break found;
                }
                assert!(ended.try_recv().is_err(), "{name}: ended before it was killed");
                std::thread::yield_now();
            };
            let kill = ejson::parse_doc(&format!("{{killOp: 1, op: {operation}}}"));
            server.0.run_command("admin", kill.expect("a command").as_doc()).expect("kills");
            let code = ended.recv().expect("an end");
            assert_eq!(code, 11601, "{name}");
        });
    }
    assert_eq!(server.find("c", "{v: {$exists: true}}").len(), 0, "nothing was written");
    assert_eq!(server.find("checked", "{}").len(), 0);
}

/// An operation that runs and is not `currentOp` itself.
fn longest(server: &Server) -> Option<i64> {
    let command = ejson::parse_doc("{currentOp: 1}").expect("a command");
    let reply: DocBuf = server.0.run_command("admin", command.as_doc()).expect("works");
    let list = reply.as_doc().get("inprog").and_then(Val::as_array).expect("a list");
    let found = list.iter().filter_map(|(_, one)| one.as_doc()).find(|one: &RawDoc<'_>| {
        one.get("active") == Some(Val::Bool(true))
            && one.get("command").and_then(Val::as_doc).is_none_or(RawDoc::is_empty)
    })?;
    found.get("opid").and_then(Val::as_i64_exact)
}

#[test]
fn what_runs_for_hours_ends_when_its_time_is_over() {
    let server = server();
    for (name, text) in endless() {
        assert_eq!(code(&server, &format!("{text}, maxTimeMS: 30}}")), 50, "{name}");
    }
    assert_eq!(server.find("c", "{v: {$exists: true}}").len(), 0, "nothing was written");
}
