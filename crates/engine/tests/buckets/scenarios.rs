//! The scenarios of the specification: full buckets, pages, unique times, statistics, and what is
//! answered from them.

use super::harness::{self, Dice, Server, batch, print, within};
use super::{seed, value};
use motifdb::value::{DocBuf, Val, ejson};

fn at(minute: u64, second: u64) -> String {
    format!("{{$date: {{$numberLong: '{}'}}}}", 36_000_000 + minute * 60_000 + second * 1000)
}

#[test]
fn two_open_transactions_append_to_one_bucket() {
    let server = Server::new();
    server.run(&format!(
        "{{create: 'c', patterns: [{}]}}",
        "{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h'}"
    ));
    for (session, minute) in [(1, 1), (2, 2)] {
        let ts = at(minute, 0);
        server.run(&format!(
            "{{insert: 'c', documents: [{{_id: {session}, s: 1, ts: {ts}}}]{}}}",
            within(session, 1, true)
        ));
    }
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    assert_eq!(server.end("commitTransaction", 2, 1), 0);
    assert_eq!(server.find("c", "{}").len(), 2);
    server.verify("c");
}

#[test]
fn two_points_of_a_series_cannot_have_one_time() {
    let server = Server::new();
    server.run("{create: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', unique: true}]}");
    let (one, two) = (at(1, 3), at(1, 4));
    let run = |text: String| {
        let command = ejson::parse_doc(&text).expect("test text");
        server.0.run_command("t", command.as_doc()).expect("runs")
    };
    let reply = run(format!(
        "{{insert: 'c', ordered: false, documents: [{{_id: 1, s: 1, ts: {one}}}, {{_id: 2, s: 1, ts: {one}}}, {{_id: 3, s: 2, ts: {one}}}, {{_id: 4, s: 1, ts: {two}}}]}}"
    ));
    let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array).expect("errors");
    assert_eq!(errors.count(), 1);
    let error = errors.first().and_then(|(_, error)| error.as_doc()).expect("an error");
    assert_eq!(error.get("code").and_then(Val::as_i64_exact), Some(11000));
    let pattern = error.get("keyPattern").and_then(Val::as_doc).expect("a pattern");
    assert_eq!(pattern.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["s", "ts"]);
    assert_eq!(server.find("c", "{}").len(), 3);
    let code = |text: String| run(text).as_doc().get("writeErrors").is_some();
    assert!(code(format!(
        "{{update: 'c', updates: [{{q: {{_id: 4}}, u: {{$set: {{ts: {one}}}}}}}]}}"
    )));
    assert!(!code("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {v: 1}}}]}".to_owned()));
    server.verify("c");
    assert!(!batch(&server.run("{find: 'c'}")).is_empty());
}

/// The buckets, as `rawBuckets` shows them.
fn raw(server: &Server, rest: &str) -> Vec<DocBuf> {
    server.docs(&format!(
        "{{find: 'c', rawBuckets: true, sort: {{start: 1}}, batchSize: 1000{rest}}}"
    ))
}

fn insert_points(server: &Server, points: impl Iterator<Item = (u64, String, String)>) {
    let docs: Vec<String> =
        points.map(|(id, ts, rest)| format!("{{_id: {id}, s: 1, ts: {ts}{rest}}}")).collect();
    for docs in docs.chunks(500) {
        let reply = server.run(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
        assert!(reply.as_doc().get("writeErrors").is_none(), "{reply:?}");
    }
}

#[test]
fn a_full_bucket_is_followed_by_another() {
    let server = Server::new();
    server.run("{create: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h'}]}");
    insert_points(&server, (0..1000).map(|n| (n, at(n / 20, n % 20 * 3), String::new())));
    assert_eq!(raw(&server, "").len(), 1);
    insert_points(&server, std::iter::once((1000, at(59, 59), String::new())));
    let counts = |server: &Server| -> Vec<i64> {
        raw(server, "").iter().map(|bucket| harness::whole(bucket, "count")).collect()
    };
    assert_eq!(counts(&server), [1000, 1]);
    // A late one divides the bucket of its time.
    insert_points(&server, std::iter::once((1001, at(3, 1), String::new())));
    assert_eq!(counts(&server).iter().sum::<i64>(), 1002);
    assert_eq!(server.docs("{find: 'c', sort: {ts: 1, _id: 1}, batchSize: 2000}").len(), 1002);
    server.verify("c");
    // More points at one moment than fit into a bucket.
    insert_points(&server, (2000..5000).map(|n| (n, at(30, 30), String::new())));
    assert!(counts(&server).iter().all(|count| *count <= 1000), "{:?}", counts(&server));
    server.verify("c");
    server.run("{delete: 'c', deletes: [{q: {_id: {$gte: 2000, $lt: 4900}}, limit: 0}]}");
    server.verify("c");
    assert_eq!(counts(&server).iter().sum::<i64>(), 1102);
}

#[test]
fn a_bucket_is_a_page() {
    let server = Server::new();
    server.run("{create: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: {count: 10}}]}");
    insert_points(&server, (0..95).map(|n| (n, at(n, 0), String::new())));
    let pages: Vec<i64> =
        raw(&server, "").iter().map(|page| harness::whole(page, "count")).collect();
    assert_eq!(pages, [10, 10, 10, 10, 10, 10, 10, 10, 10, 5]);
    let page = raw(&server, ", skip: 9, limit: 1");
    let points = page[0].as_doc().get("points").and_then(Val::as_array).expect("points");
    let ids: Vec<i64> =
        points.iter().filter_map(|(_, point)| point.as_doc()?.get("_id")?.as_i64_exact()).collect();
    assert_eq!(ids, [90, 91, 92, 93, 94]);
}

#[test]
fn what_is_not_committed_is_not_counted() {
    let server = Server::new();
    server.run("{create: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', rollup: {fields: {v: ['sum', 'count']}}}]}");
    insert_points(&server, (0..3).map(|n| (n, at(n, 0), ", v: 1.5".to_owned())));
    let (a, b) = (at(7, 0), at(8, 0));
    server.run(&format!(
        "{{insert: 'c', documents: [{{_id: 10, s: 1, ts: {a}, v: 1}}, {{_id: 11, s: 1, ts: {b}, v: 1}}]{}}}",
        within(1, 1, true)
    ));
    assert_eq!(server.end("abortTransaction", 1, 1), 0);
    let bucket = raw(&server, "");
    assert_eq!(harness::whole(&bucket[0], "count"), 3);
    assert_eq!(harness::whole(&bucket[0], "rollup.v.count"), 3);
    server.verify("c");
}

#[test]
fn groups_from_statistics_are_those_of_documents() {
    let server = Server::new();
    server.run("{create: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s', 'm.k'], time: 'ts', span: '1h', maxCount: 20, rollup: {fields: {v: ['min', 'max', 'sum', 'count'], w: ['sum']}, levels: ['10m', '1h', '1d']}}]}");
    let mut dice = Dice(seed() + 4);
    let mut answered = 0;
    for round in 0..60 {
        let docs: Vec<String> = (0..10)
            .map(|n| {
                let s = dice.pick(&["s: 1,", "s: 2,", "s: 2.0,", "s: 'x',", "s: null,", ""]);
                let (ts, v, w) = (dice.below(3000) * 100_000, value(&mut dice), dice.below(90));
                let k = dice.below(2);
                format!("{{_id: {}, {s} ts: {{$date: {{$numberLong: '{ts}'}}}}, m: {{k: {k}}}, v: {v}, w: {w}.25}}", round * 10 + n)
            })
            .collect();
        server.run(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
        let id = dice.below(600);
        server.run(&match dice.below(3) {
            0 => format!("{{delete: 'c', deletes: [{{q: {{_id: {id}}}, limit: 1}}]}}"),
            1 => format!("{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{$set: {{v: {}}}}}}}]}}", value(&mut dice)),
            _ => format!("{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{$inc: {{w: 1}}, $max: {{v: 50}}}}}}]}}"),
        });
        let hour = "{$dateTrunc: {date: '$ts', unit: 'hour'}}";
        let id = match dice.below(7) {
            0 => "null".to_owned(),
            1 => "'$s'".to_owned(),
            2 => hour.to_owned(),
            3 => format!("{{s: '$s', k: '$m.k', h: {hour}}}"),
            4 => "{$dateTrunc: {date: '$ts', unit: 'minute', binSize: 20}}".to_owned(),
            5 => "{d: {$dateTrunc: {date: '$ts', unit: 'day'}}, k: '$m.k'}".to_owned(),
            _ => "{w: {$dateTrunc: {date: '$ts', unit: 'week'}}}".to_owned(),
        };
        let filter = match dice.below(5) {
            0 => "{'m.k': 1}".to_owned(),
            1 => "{s: 2, 'm.k': 0}".to_owned(),
            2 => format!(
                "{{ts: {{$gte: {{$date: {{$numberLong: '{}'}}}}}}}}",
                dice.below(40) * 3_600_000
            ),
            3 => format!(
                "{{ts: {{$lt: {{$date: {{$numberLong: '{}'}}}}}}}}",
                dice.below(400) * 600_000
            ),
            _ => "{}".to_owned(),
        };
        let pipeline = format!(
            "[{{$match: {filter}}}, {{$group: {{_id: {id}, n: {{$sum: 1}}, c: {{$count: {{}}}}, min: {{$min: '$v'}}, max: {{$max: '$v'}}, sum: {{$sum: '$v'}}, avg: {{$avg: '$w'}}}}}}, {{$sort: {{_id: 1}}}}]"
        );
        let ask = |rewrite: bool| {
            let text = format!(
                "{{aggregate: 'c', pipeline: {pipeline}, cursor: {{batchSize: 5000}}, rewrite: {rewrite}}}"
            );
            server.docs(&text).iter().map(|doc| print(doc.as_doc())).collect::<Vec<_>>()
        };
        let (with, without) = (ask(true), ask(false));
        // Equal values of other types are one value: whichever came first is returned.
        let plain = |lines: Vec<String>| {
            let same = |line: String| {
                line.replace("Int", "Double").replace("Long", "Double").replace(".0\"", "\"")
            };
            lines.into_iter().map(same).collect::<Vec<_>>()
        };
        assert_eq!(plain(with), plain(without), "{pipeline}");
        let explain = server.run(&format!("{{explain: {{aggregate: 'c', pipeline: {pipeline}, cursor: {{}}}}, verbosity: 'queryPlanner'}}"));
        answered += u64::from(explain.as_doc().get("rewrites").is_some());
    }
    assert!(answered > 20, "{answered} of 60");
    server.verify("c");
}

#[test]
fn points_that_share_a_time_are_not_made_unique() {
    let server = Server::new();
    server.run("{create: 'c'}");
    insert_points(&server, (0..2).map(|n| (n, at(1, 0), String::new())));
    let declare = "{createPatterns: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', unique: true}]}";
    let command = ejson::parse_doc(declare).expect("test text");
    assert!(server.0.run_command("t", command.as_doc()).is_err());
    assert_eq!(server.find("c", "{}").len(), 2);
    let listed = server.docs("{listPatterns: 'c'}");
    assert_eq!(harness::text(&listed[0], "state"), "failed");
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}

#[test]
fn statistics_follow_updates_and_deletes() {
    let server = Server::new();
    server.run("{create: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', rollup: {fields: {t: ['min', 'max', 'sum', 'count']}, levels: ['1h', '1d']}}]}");
    let temps = ["22.1", "22.3", "23.1"];
    let times = [at(0, 5), at(1, 3), at(59, 59)];
    let points = temps.iter().zip(times.clone()).zip(1..);
    insert_points(&server, points.map(|((t, ts), id)| (id, ts, format!(", t: {t}"))));
    let rollup = |level: &str, expected: &str| {
        let text = format!(
            "{{find: 'c', rawBuckets: {level}, projection: {{_id: 0, count: 1, rollup: 1}}}}"
        );
        let found = server.docs(&text);
        assert_eq!(found.len(), 1);
        harness::same(&print(found[0].as_doc()), expected);
    };
    rollup("true", "{count: 3, rollup: {t: {min: 22.1, max: 23.1, sum: 67.5, count: 3}}}");
    let [first, _, last] = &times;
    server.run(&format!("{{delete: 'c', deletes: [{{q: {{ts: {last}}}, limit: 1}}]}}"));
    rollup(
        "true",
        "{count: 2, rollup: {t: {min: 22.1, max: 22.3, sum: 44.400000000000006, count: 2}}}",
    );
    server.run(&format!(
        "{{update: 'c', updates: [{{q: {{ts: {first}}}, u: {{$set: {{t: 30}}}}}}]}}"
    ));
    rollup("true", "{count: 2, rollup: {t: {min: 22.3, max: 30, sum: 52.3, count: 2}}}");
    rollup("'1d'", "{count: 2, rollup: {t: {min: 22.3, max: 30, sum: 52.3, count: 2}}}");
    let explain =
        server.run("{explain: {find: 'c', rawBuckets: true}, verbosity: 'executionStats'}");
    assert_eq!(harness::whole(&explain, "executionStats.totalDocsExamined"), 1);
    let refused = |text: &str| {
        let command = ejson::parse_doc(text).expect("test text");
        server.0.run_command("t", command.as_doc()).expect_err("is refused").code().0
    };
    assert_eq!(refused("{find: 'c', rawBuckets: 'week'}"), 2);
    assert_eq!(refused("{find: 'c', rawBuckets: 5}"), 14);
    assert_eq!(refused("{find: 'c', rawBuckets: true, hint: {_id: 1}}"), 72);
    server.run("{create: 'plain'}");
    assert_eq!(refused("{find: 'plain', rawBuckets: true}"), 72);
    server.verify("c");
}

#[test]
fn buckets_that_cannot_match_are_not_read() {
    let server = Server::new();
    server.run("{create: 'c', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', rollup: {fields: {v: ['max']}}}]}");
    insert_points(&server, (0..600).map(|n| (n, at(n, 0), format!(", v: {n}"))));
    let examined = |filter: &str| {
        let text =
            format!("{{explain: {{find: 'c', filter: {filter}}}, verbosity: 'executionStats'}}");
        let reply = server.run(&text);
        let of = |name: &str| harness::whole(&reply, &format!("executionStats.{name}"));
        (of("nReturned"), of("totalDocsExamined"))
    };
    let (from, to) = (at(130, 0), at(150, 0));
    assert_eq!(examined(&format!("{{s: 1, ts: {{$gte: {from}, $lt: {to}}}}}")), (20, 1));
    assert_eq!(examined(&format!("{{s: 1, ts: {from}}}")), (1, 1));
    assert_eq!(examined("{v: {$gte: 590}}").0, 10);
    assert_eq!(examined("{s: 2}"), (0, 0));
    assert_eq!(examined("{}"), (600, 10));
}
