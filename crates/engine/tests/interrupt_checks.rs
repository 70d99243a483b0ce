//! Every loop that may run for long checks whether to stop: no stage and no command works for long
//! between two checks, whatever is large in its input (many documents, one long array, one group,
//! one partition, one text, one geometry).
//!
//! Work is measured as CPU time of the thread between checks, so that other processes do not count.
//! A case fails only if it exceeds the limit several times in a row. The limit is for builds without
//! optimisation, which are some 20 times slower than a server: it stands for about 10 ms.

mod harness;

use harness::Server;
use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use query::interrupt;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Most CPU time between two checks.
const LIMIT: Duration = Duration::from_millis(250);
/// How often a case may exceed it before it fails.
const TRIES: usize = 4;

/// Documents in the collection `many`.
const MANY: i32 = 6_000;
/// Elements of the long array in `one`.
const LONG: i32 = 60_000;
/// Vertices of the large polygon.
const VERTICES: i32 = 20_000;

/// The CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(first.expect("a number"))
}

/// How often a command checked, and the most work between two checks.
#[derive(Clone, Copy, Default)]
struct Checks {
    count: usize,
    longest: Duration,
    kill_at: usize,
}

/// Runs a command with all its batches.
fn run(server: &Server, command: RawDoc<'_>) -> Result<(), i32> {
    let code = |error: motifdb::Error| error.code().0;
    let mut reply = server.0.run_command("t", command).map_err(code)?;
    loop {
        let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
        if let Some((_, error)) = errors.and_then(RawDoc::first) {
            let error = error.as_doc().and_then(|error| error.get("code"));
            return Err(error.and_then(Val::as_i64_exact).unwrap_or(1) as i32);
        }
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc);
        let id = cursor.and_then(|cursor| cursor.get("id")).and_then(Val::as_i64_exact);
        let Some(id) = id.filter(|id| *id != 0) else { return Ok(()) };
        let of = cursor.and_then(|cursor| cursor.get("ns")).and_then(Val::as_str).unwrap_or("");
        let name = of.split_once('.').map_or("", |(_, name)| name).to_owned();
        let more = DocBuf::build(|out| {
            out.i64("getMore", id).str("collection", &name);
        });
        reply = server.0.run_command("t", more.as_doc()).map_err(code)?;
    }
}

/// Runs a command and observes its checks; kills it at the one with the number `kill_at`.
fn observed(server: &Server, command: RawDoc<'_>, kill_at: usize) -> (Checks, Result<(), i32>) {
    let checks = Rc::new(RefCell::new(Checks { kill_at, ..Checks::default() }));
    let inner = checks.clone();
    let mut last = cpu();
    let observing = interrupt::observe(move || {
        let mut checks = inner.borrow_mut();
        let now = cpu();
        checks.longest = checks.longest.max(now.saturating_sub(last));
        last = now;
        checks.count += 1;
        checks.count >= checks.kill_at
    });
    let before = cpu();
    let result = run(server, command);
    drop(observing);
    let mut checks = checks.take();
    if checks.count == 0 {
        checks.longest = cpu().saturating_sub(before);
    }
    (checks, result)
}

/// Runs a command with a time limit that has passed at the check with the number `at`, at the latest.
fn late(server: &Server, text: &str, at: usize) -> Result<(), i32> {
    const LIMIT: Duration = Duration::from_millis(2);
    let text = text.trim_end().strip_suffix('}').expect("a document");
    let text = format!("{text}, maxTimeMS: {}}}", LIMIT.as_millis());
    let command = ejson::parse_doc(&text).expect("test text");
    let mut count = 0;
    let _observing = interrupt::observe(move || {
        count += 1;
        if count == at {
            std::thread::sleep(LIMIT);
        }
        false
    });
    run(server, command.as_doc())
}

/// A case: the stage or command, what is large, and a command.
type Case = (&'static str, &'static str, String);

/// Runs the cases and returns what is wrong with each.
fn failures(server: &Server, cases: &[Case]) -> Vec<String> {
    let mut failures = Vec::new();
    for (what, how, text) in cases {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text:.200}: {e}"));
        let mut checks = Checks::default();
        for attempt in 0..TRIES {
            undo(server, what);
            let (found, result) = observed(server, command.as_doc(), usize::MAX);
            if let Err(code) = result {
                failures.push(format!("{what}, {how}: fails with {code}"));
                break;
            }
            checks = found;
            if found.longest <= LIMIT {
                break;
            }
            if attempt + 1 == TRIES {
                let Checks { count, longest, .. } = found;
                failures
                    .push(format!("{what}, {how}: {longest:?} without a check, {count} checks"));
            }
        }
        // A kill at any check ends it: no error is lost on its way.
        let at = checks.count.div_ceil(2);
        if at > 0 {
            undo(server, what);
            let (_, result) = observed(server, command.as_doc(), at);
            if result != Err(11601) {
                failures.push(format!("{what}, {how}: {result:?} when killed at check {at}"));
            }
            undo(server, what);
            let result = late(server, text, at);
            if result != Err(50) {
                failures.push(format!("{what}, {how}: {result:?} when late at check {at}"));
            }
        }
    }
    failures
}

fn insert(server: &Server, collection: &str, docs: &[DocBuf]) {
    let command = DocBuf::build(|out| {
        out.str("insert", collection);
        out.array("documents", |out| {
            docs.iter().for_each(|doc| out.push(Val::Document(doc.as_doc())));
        });
    });
    let reply = server.0.run_command("t", command.as_doc()).expect("inserts");
    assert!(reply.as_doc().get("writeErrors").is_none(), "{reply:?}");
}

/// A ring of so many points around a centre.
fn ring(out: &mut motifdb::value::Writer<'_>, vertices: i32) {
    out.str("type", "Polygon");
    out.array("coordinates", |out| {
        out.push_array(|out| {
            for n in (0..vertices).chain([0]) {
                let angle = f64::from(n) / f64::from(vertices) * std::f64::consts::TAU;
                let far = 1.0 + 0.001 * f64::from(n % 2);
                out.push_array(|out| {
                    out.push(Val::Double(10.0 + far * angle.cos()));
                    out.push(Val::Double(20.0 + far * angle.sin()));
                });
            }
        });
    });
}

/// A server with collections in which different things are large.
fn server() -> Server {
    let server = Server::new();
    let docs: Vec<DocBuf> = (0..MANY)
        .map(|n| {
            DocBuf::build(|out| {
                out.i32("_id", n).i32("k", n % 7).i32("n", n.wrapping_mul(7919) % MANY);
                out.i32("up", (n + 1) % MANY).str("s", &format!("text number {n}"));
                out.append("d", Val::DateTime(i64::from(n) * 60_000));
                out.array("l", |out| (0..3).for_each(|at| out.push(Val::Int32((n + at) % 50))));
                out.array("at", |out| {
                    out.push(Val::Double(f64::from(n % 100) / 10.0 + 5.0));
                    out.push(Val::Double(f64::from(n / 100 % 100) / 10.0 + 15.0));
                });
            })
        })
        .collect();
    docs.chunks(5000).for_each(|part| insert(&server, "many", part));
    let one = DocBuf::build(|out| {
        out.i32("_id", 1);
        out.array("l", |out| (0..LONG).for_each(|n| out.push(Val::Int32(n * 7919 % LONG))));
        out.array("words", |out| {
            (0..LONG / 4).for_each(|n| out.push(Val::String(&format!("w{n}"))));
        });
        out.array("docs", |out| {
            (0..LONG / 10).for_each(|n| {
                out.push_doc(|out| {
                    out.i32("a", n).str("b", "text");
                });
            });
        });
    });
    insert(&server, "one", &[one]);
    let text = DocBuf::build(|out| {
        let words: Vec<String> = (0..100_000).map(|n| format!("running{n} walks")).collect();
        out.i32("_id", 1).str("t", &words.join(" "));
    });
    insert(&server, "text", &[text]);
    let shape = DocBuf::build(|out| {
        out.i32("_id", 1).doc("g", |out| ring(out, VERTICES));
    });
    insert(&server, "shape", &[shape]);
    server.run("{insert: 'few', documents: [{_id: 1, n: 0, d: ISODate('2020-01-01T00:00:00Z')}, {_id: 2, n: 100000, d: ISODate('2020-01-02T00:00:00Z')}]}");
    server.run("{createIndexes: 'many', indexes: [{key: {at: '2d'}, name: 'at'}, {key: {k: 1}, name: 'k'}]}");
    server
}

/// Stages that show the state of the server or of a stream of changes, not stored documents.
const OF_THE_SERVER: &[&str] = &[
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
];

fn stages() -> Vec<Case> {
    let list = |name, how, from: &str, stages: &str| -> Case {
        (
            name,
            how,
            format!("{{aggregate: {from}, pipeline: [{stages}], cursor: {{batchSize: 10000000}}}}"),
        )
    };
    let window = |how, output: &str| {
        let stage = format!("{{$setWindowFields: {{sortBy: {{n: 1}}, output: {{v: {output}}}}}}}");
        list("$setWindowFields", how, "'many'", &format!("{stage}, {{$project: {{v: 1}}}}"))
    };
    vec![
        list("$addFields", "documents", "'many'", "{$addFields: {v: {$add: ['$n', 1]}}}"),
        list(
            "$addFields",
            "an array",
            "'one'",
            "{$addFields: {v: {$map: {input: '$l', in: {$add: ['$$this', 1]}}}}}",
        ),
        list("$addFields", "inside an array", "'one'", "{$addFields: {'docs.c': 1}}"),
        list("$set", "documents", "'many'", "{$set: {v: {$concat: ['$s', '!']}}}"),
        list("$set", "inside an array", "'one'", "{$set: {'docs.a': '$_id'}}"),
        list(
            "$bucket",
            "documents",
            "'many'",
            "{$bucket: {groupBy: '$n', boundaries: [0, 100, 1000, 6000], output: {all: {$push: '$n'}}}}",
        ),
        list("$bucketAuto", "documents", "'many'", "{$bucketAuto: {groupBy: '$n', buckets: 10}}"),
        list(
            "$bucketAuto",
            "equal values",
            "'many'",
            "{$bucketAuto: {groupBy: '$zz', buckets: 10}}",
        ),
        list(
            "$bucketAuto",
            "one bucket",
            "'many'",
            "{$bucketAuto: {groupBy: '$n', buckets: 1, output: {all: {$push: '$n'}}}}",
        ),
        list(
            "$bucketAuto",
            "many buckets",
            "'many'",
            "{$bucketAuto: {groupBy: '$n', buckets: 30000, granularity: 'E192'}}",
        ),
        list(
            "$bucketAuto",
            "granularity",
            "'many'",
            "{$bucketAuto: {groupBy: '$k', buckets: 3, granularity: 'R5'}}",
        ),
        list("$count", "documents", "'many'", "{$match: {s: /9$/}}, {$count: 'n'}"),
        list(
            "$densify",
            "a range",
            "'few'",
            "{$densify: {field: 'n', range: {step: 1, bounds: 'full'}}}",
        ),
        list(
            "$densify",
            "dates",
            "'few'",
            "{$densify: {field: 'd', range: {step: 1, unit: 'second', bounds: 'full'}}}",
        ),
        list(
            "$densify",
            "partitions",
            "'many'",
            "{$densify: {field: 'n', partitionByFields: ['k'], range: {step: 1, bounds: 'full'}}}",
        ),
        list(
            "$documents",
            "documents",
            "1",
            "{$documents: {$map: {input: {$range: [0, 100000]}, in: {n: '$$this'}}}}",
        ),
        list(
            "$facet",
            "documents",
            "'many'",
            "{$facet: {a: [{$match: {n: {$lt: 100}}}], b: [{$sortByCount: '$n'}, {$limit: 5}], c: [{$project: {n: 1}}]}}",
        ),
        list(
            "$fill",
            "linear",
            "'many'",
            "{$fill: {sortBy: {_id: 1}, output: {zz: {value: 1}, y: {method: 'locf'}, k: {method: 'linear'}}}}",
        ),
        list(
            "$geoNear",
            "documents",
            "'many'",
            "{$geoNear: {near: [10, 20], distanceField: 'far'}}, {$project: {far: 1}}",
        ),
        list(
            "$graphLookup",
            "a long chain",
            "'few'",
            "{$limit: 1}, {$graphLookup: {from: 'many', startWith: 0, connectFromField: 'up', connectToField: '_id', as: 'all', maxDepth: 3000}}, {$project: {n: {$size: '$all'}}}",
        ),
        list(
            "$graphLookup",
            "wide",
            "'few'",
            "{$limit: 1}, {$graphLookup: {from: 'many', startWith: {$range: [0, 7]}, connectFromField: 'k', connectToField: 'k', as: 'all'}}, {$project: {n: {$size: '$all'}}}",
        ),
        list(
            "$group",
            "one group",
            "'many'",
            "{$group: {_id: null, all: {$push: '$s'}, set: {$addToSet: '$n'}, m: {$maxN: {input: '$n', n: 1000}}}}, {$project: {n: {$size: '$all'}}}",
        ),
        list(
            "$group",
            "many groups",
            "'many'",
            "{$group: {_id: '$n', a: {$sum: 1}, b: {$avg: '$k'}}}",
        ),
        list("$group", "an array", "'one'", "{$unwind: '$l'}, {$group: {_id: '$l', a: {$sum: 1}}}"),
        list(
            "$group",
            "arrays in sets",
            "'one'",
            "{$group: {_id: '$l', a: {$addToSet: '$words'}, b: {$first: '$docs'}}}",
        ),
        list(
            "$group",
            "medians",
            "'many'",
            "{$group: {_id: null, a: {$median: {input: '$n', method: 'approximate'}}, b: {$topN: {n: 5000, sortBy: {s: 1}, output: '$s'}}}}",
        ),
        list("$limit", "documents", "'many'", "{$limit: 5999}"),
        list(
            "$lookup",
            "all of all",
            "'few'",
            "{$lookup: {from: 'many', pipeline: [{$match: {n: {$lt: 5000}}}], as: 'all'}}, {$project: {n: {$size: '$all'}}}",
        ),
        list(
            "$lookup",
            "a key of many",
            "'few'",
            "{$set: {k: {$range: [0, 7]}}}, {$lookup: {from: 'many', localField: 'k', foreignField: 'k', as: 'all'}}, {$project: {n: {$size: '$all'}}}",
        ),
        list(
            "$lookup",
            "a long array",
            "'one'",
            "{$lookup: {from: 'many', localField: 'l', foreignField: '_id', as: 'all'}}, {$project: {n: {$size: '$all'}}}",
        ),
        list(
            "$lookup",
            "without an index",
            "'one'",
            "{$lookup: {from: 'many', localField: 'l', foreignField: 'n', as: 'all'}}, {$project: {n: {$size: '$all'}}}",
        ),
        list(
            "$lookup",
            "unwound",
            "'few'",
            "{$lookup: {from: 'many', pipeline: [], as: 'all'}}, {$unwind: '$all'}, {$project: {n: '$all.n'}}",
        ),
        list("$match", "documents", "'many'", "{$match: {s: /x$/}}"),
        list("$match", "an array", "'one'", "{$match: {l: -1, 'docs.a': -1, words: /x$/}}"),
        list("$merge", "documents", "'many'", "{$merge: {into: 'merged'}}"),
        list(
            "$merge",
            "merging",
            "'many'",
            "{$merge: {into: 'merged', whenMatched: [{$set: {v: '$$new.n'}}]}}",
        ),
        list("$out", "documents", "'many'", "{$out: 'out'}"),
        list("$project", "documents", "'many'", "{$project: {v: {$toUpper: '$s'}}}"),
        list(
            "$project",
            "inside an array",
            "'one'",
            "{$project: {'docs.a': 1, w: {$size: '$words'}}}",
        ),
        list(
            "$redact",
            "documents",
            "'many'",
            "{$redact: {$cond: [{$gt: ['$n', 5]}, '$$KEEP', '$$PRUNE']}}",
        ),
        list(
            "$redact",
            "one document",
            "'one'",
            "{$redact: {$cond: [{$eq: ['$a', 5]}, '$$PRUNE', '$$DESCEND']}}",
        ),
        list("$replaceRoot", "documents", "'many'", "{$replaceRoot: {newRoot: {v: '$s'}}}"),
        list(
            "$replaceWith",
            "one document",
            "'one'",
            "{$replaceWith: {a: '$docs', b: {$objectToArray: '$$ROOT'}}}",
        ),
        list(
            "$sample",
            "documents",
            "'many'",
            "{$match: {k: {$gte: 0}}}, {$sample: {size: 4000}}, {$project: {n: 1}}",
        ),
        list(
            "$_internalInhibitOptimization",
            "documents",
            "'many'",
            "{$_internalInhibitOptimization: {}}, {$project: {n: 1}}",
        ),
        list(
            "$_internalSplitPipeline",
            "documents",
            "'many'",
            "{$_internalSplitPipeline: {}}, {$project: {n: 1}}",
        ),
        list("$skip", "documents", "'many'", "{$skip: 5990}"),
        list("$sort", "documents", "'many'", "{$sort: {s: -1, n: 1}}"),
        list(
            "$sort",
            "equal heads",
            "'many'",
            "{$set: {t: {$concat: ['a long prefix that all have ', '$s']}}}, {$sort: {t: 1}}, {$project: {n: 1}}",
        ),
        list("$sort", "with a limit", "'many'", "{$sort: {n: 1}}, {$limit: 4000}"),
        list(
            "$sort",
            "arrays",
            "'one'",
            "{$project: {docs: 1}}, {$unwind: '$docs'}, {$sort: {'docs.a': -1}}",
        ),
        list("$sort", "by an array", "'one'", "{$sort: {l: 1}}, {$project: {_id: 1}}"),
        list("$sortByCount", "documents", "'many'", "{$sortByCount: '$n'}"),
        list("$unionWith", "documents", "'many'", "{$unionWith: 'many'}, {$project: {n: 1}}"),
        list("$unset", "documents", "'many'", "{$unset: ['s', 'l']}"),
        list("$unset", "inside an array", "'one'", "{$unset: 'docs.a'}"),
        list(
            "$unwind",
            "an array",
            "'one'",
            "{$project: {l: 1}}, {$unwind: {path: '$l', includeArrayIndex: 'i'}}",
        ),
        list(
            "$unwind",
            "a large document",
            "'one'",
            "{$unwind: '$docs'}, {$limit: 500}, {$project: {docs: 1}}",
        ),
        window("the running sum", "{$sum: '$n', window: {documents: ['unbounded', 'current']}}"),
        window("a sliding set", "{$addToSet: '$k', window: {documents: [-300, 300]}}"),
        window("pushed values", "{$push: '$n', window: {documents: [-30, 30]}}"),
        list(
            "$setWindowFields",
            "all values at each",
            "'many'",
            "{$limit: 500}, {$setWindowFields: {output: {v: {$push: '$k'}}}}",
        ),
        window("ranks", "{$rank: {}}"),
        window("a document number", "{$documentNumber: {}}"),
        window("a shift", "{$shift: {output: '$s', by: 5000}}"),
        window("a range", "{$avg: '$n', window: {range: [-500, 500]}}"),
        window(
            "medians",
            "{$median: {input: '$n', method: 'approximate'}, window: {documents: [-500, 500]}}",
        ),
        window(
            "the last values",
            "{$lastN: {input: '$n', n: 1000}, window: {documents: [-1000, 0]}}",
        ),
        window("an exponential average", "{$expMovingAvg: {input: '$n', N: 5}}"),
        window("a derivative", "{$derivative: {input: '$k'}, window: {documents: [-5, 5]}}"),
        window("an integral", "{$integral: {input: '$k'}, window: {documents: [-5, 5]}}"),
        window("a covariance", "{$covariancePop: ['$n', '$k'], window: {documents: [-500, 500]}}"),
        window("a deviation", "{$stdDevPop: '$n', window: {documents: [-500, 500]}}"),
        window("extremes", "{$max: '$n', window: {documents: [-500, 500]}}"),
        window("filling", "{$linearFill: '$zz'}"),
        window("the last observation", "{$locf: '$zz'}"),
    ]
}

#[test]
fn every_stage_looks_often_enough() {
    let server = server();
    let cases = stages();
    let names: Vec<&str> = motifdb::registry()
        .iter()
        .filter(|entry| entry.kind == "stage" && !OF_THE_SERVER.contains(&entry.name))
        .map(|entry| entry.name)
        .collect();
    for name in names {
        assert!(cases.iter().any(|(stage, ..)| *stage == name), "no case for {name}");
    }
    let failures = failures(&server, &cases);
    assert!(failures.is_empty(), "{failures:#?}");
}

fn commands() -> Vec<Case> {
    let patterns: Vec<String> = (0..500).map(|n| format!("/x{n}y/")).collect();
    let patterns = patterns.join(", ");
    let numbers: Vec<String> = (0..6_000).map(|n| format!("{}", n * 3)).collect();
    let numbers = numbers.join(", ");
    let polygon = DocBuf::build(|out| ring(out, VERTICES));
    let polygon = ejson::print_value(Val::Document(polygon.as_doc()), ejson::Format::Shell);
    let index = |name: &str, from: &str, key: &str, rest: &str| {
        format!("{{createIndexes: '{from}', indexes: [{{key: {key}, name: '{name}'{rest}}}]}}")
    };
    vec![
        ("find", "many patterns", format!("{{find: 'many', filter: {{s: {{$in: [{patterns}]}}}}}}")),
        ("find", "many values", format!("{{find: 'many', filter: {{n: {{$in: [{numbers}]}}}}}}")),
        ("find", "a polygon around points", format!("{{find: 'many', filter: {{at: {{$geoWithin: {{$geometry: {polygon}}}}}}}, limit: 20}}")),
        ("find", "a polygon that meets a polygon", format!("{{find: 'shape', filter: {{g: {{$geoIntersects: {{$geometry: {polygon}}}}}}}}}")),
        ("find", "a point in a polygon", "{find: 'shape', filter: {g: {$geoIntersects: {$geometry: {type: 'Point', coordinates: [10, 20]}}}}}".to_owned()),
        ("find", "sorted", "{find: 'many', sort: {s: 1}}".to_owned()),
        ("count", "documents", "{count: 'many', query: {s: /9$/}}".to_owned()),
        ("distinct", "values", "{distinct: 'many', key: 'n'}".to_owned()),
        ("distinct", "an array", "{distinct: 'one', key: 'l'}".to_owned()),
        ("distinct", "by an index", "{distinct: 'many', key: 'k'}".to_owned()),
        ("update", "documents", "{update: 'many', updates: [{q: {}, u: {$inc: {v: 1}}, multi: true}]}".to_owned()),
        ("update", "with a pipeline", "{update: 'many', updates: [{q: {}, u: [{$set: {v: {$add: ['$n', '$k', {$rand: {}}]}}}], multi: true}]}".to_owned()),
        ("update", "a long array", "{update: 'one', updates: [{q: {}, u: {$push: {l: {$each: [1], $sort: 1}}}}]}".to_owned()),
        ("update", "elements", "{update: 'one', updates: [{q: {}, u: {$inc: {'docs.$[].a': 1}}}]}".to_owned()),
        ("findAndModify", "elements", "{findAndModify: 'one', query: {}, update: {$set: {'docs.$[e].a': 1}}, arrayFilters: [{'e.b': 'text'}]}".to_owned()),
        ("collStats", "a collection", "{collStats: 'many'}".to_owned()),
        ("validate", "a collection", "{validate: 'many', full: true}".to_owned()),
        ("dbHash", "a database", "{dbHash: 1}".to_owned()),
        ("createIndexes", "documents", index("s_1", "many", "{s: 1, n: 1}", "")),
        ("createIndexes", "a long array", index("l_1", "one", "{l: 1}", "")),
        ("createIndexes", "everything", index("all", "one", "{'$**': 1}", "")),
        ("createIndexes", "hashed", index("h", "many", "{s: 'hashed'}", "")),
        ("createIndexes", "a text", index("t", "text", "{t: 'text'}", "")),
        ("createIndexes", "a polygon", index("g", "shape", "{g: '2dsphere'}", "")),
    ]
}

/// Removes what a case may have made, so that the next run does the work again.
fn undo(server: &Server, what: &str) {
    if what == "createIndexes" {
        for name in ["s_1", "h"] {
            server.code(&format!("{{dropIndexes: 'many', index: '{name}'}}"));
        }
        for from in ["one", "text", "shape"] {
            server.code(&format!("{{dropIndexes: '{from}', index: '*'}}"));
        }
    }
}

#[test]
fn every_command_looks_often_enough() {
    let server = server();
    let failures = failures(&server, &commands());
    assert!(failures.is_empty(), "{failures:#?}");
}
