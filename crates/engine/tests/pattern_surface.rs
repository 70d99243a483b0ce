//! What people see of patterns and do to them while they are there: what explain and listPatterns tell,
//! writes that go past them, checks by the clock, new versions, copies of collections.

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options, Storage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct Server(Engine);

impl Server {
    fn new() -> Server {
        Server(Engine::open(Options::default()).expect("memory opens"))
    }

    fn try_in(&self, db: &str, text: &str) -> Result<DocBuf, (i32, String)> {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        self.0
            .run_command(db, command.as_doc())
            .map_err(|error| (error.code().0, error.message().to_owned()))
    }

    fn try_run(&self, text: &str) -> Result<DocBuf, (i32, String)> {
        self.try_in("t", text)
    }

    fn run(&self, text: &str) -> DocBuf {
        let reply = self.try_run(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert!(reply.as_doc().get("writeErrors").is_none(), "{text}: {reply:?}");
        reply
    }

    fn docs(&self, text: &str) -> Vec<DocBuf> {
        batch(&self.run(text))
    }

    fn shows(&self, find: &str, wanted: &str) {
        let found: Vec<String> =
            self.docs(find).iter().map(|doc| format!("{:?}", doc.as_doc())).collect();
        let wanted = ejson::parse_doc(&format!("{{v: [{wanted}]}}")).expect("test text");
        let wanted = wanted.as_doc().get("v").and_then(Val::as_array).expect("a list");
        let wanted: Vec<String> = wanted
            .iter()
            .filter_map(|(_, doc)| doc.as_doc())
            .map(|doc| format!("{doc:?}"))
            .collect();
        assert_eq!(found, wanted, "{find}");
    }

    fn pattern(&self, collection: &str) -> DocBuf {
        self.docs(&format!("{{listPatterns: '{collection}'}}")).pop().expect("a pattern")
    }

    fn state(&self, collection: &str) -> String {
        let pattern = self.pattern(collection);
        pattern.as_doc().get("state").and_then(Val::as_str).unwrap_or("").to_owned()
    }

    fn validate(&self, text: &str) -> DocBuf {
        let reply = self.run(text);
        let list = reply.as_doc().get("patterns").and_then(Val::as_array).expect("reports");
        list.first().and_then(|(_, report)| report.as_doc()).map(DocBuf::from).expect("a report")
    }
}

fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
    batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from).collect()
}

fn number(doc: RawDoc<'_>, path: &str) -> i64 {
    let mut at = doc;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        match (at.get(part), parts.peek()) {
            (Some(Val::Document(inner)), Some(_)) => at = inner,
            (Some(value), None) => return value.as_i64_exact().unwrap_or(-1),
            _ => return -1,
        }
    }
    -1
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(90), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

static SALES: &str = "{createPatterns: 'p', patterns: [{name: 'sales', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}, n: {$count: {}}}}]}";

fn sales() -> Server {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, x: 5}, {_id: 2, p: 1, x: 6}, {_id: 3, p: 2, x: 7}]}");
    server.run(SALES);
    server
}

#[test]
fn explain_of_a_write_tells_what_patterns_would_do_and_does_nothing() {
    let server = sales();
    let explained = server.run(
        "{explain: {update: 'c', updates: [{q: {}, u: {$inc: {x: 1}}, multi: true}]}, verbosity: 'executionStats'}",
    );
    let list = explained.as_doc().get("patterns").and_then(Val::as_array).expect("patterns");
    let first = list.first().and_then(|(_, doc)| doc.as_doc()).expect("one");
    assert_eq!(first.get("name"), Some(Val::String("sales")));
    assert_eq!((number(first, "deltas"), number(first, "fanoutWrites")), (3, 2), "{first:?}");
    assert!(number(first, "micros") >= 0);
    let explained = server.run(
        "{explain: {delete: 'c', deletes: [{q: {_id: 3}, limit: 1}]}, verbosity: 'executionStats'}",
    );
    let list = explained.as_doc().get("patterns").and_then(Val::as_array).expect("patterns");
    let first = list.first().and_then(|(_, doc)| doc.as_doc()).expect("one");
    assert_eq!((number(first, "deltas"), number(first, "fanoutWrites")), (1, 1), "{first:?}");
    // What changes nothing that is read is no delta.
    let explained = server.run(
        "{explain: {update: 'c', updates: [{q: {_id: 1}, u: {$set: {y: 1}}}]}, verbosity: 'executionStats'}",
    );
    let list = explained.as_doc().get("patterns").and_then(Val::as_array).expect("patterns");
    assert!(list.is_empty(), "{list:?}");
    server.shows("{find: 'p'}", "{_id: 1, s: 11, n: 2}, {_id: 2, s: 7, n: 1}");
    // Without patterns there is nothing to tell, and plans alone tell nothing.
    server.run("{insert: 'plain', documents: [{_id: 1}]}");
    let explained =
        server.run("{explain: {update: 'plain', updates: [{q: {}, u: {$set: {y: 1}}}]}}");
    assert!(explained.as_doc().get("patterns").is_none());
}

#[test]
fn list_patterns_tells_what_a_pattern_costs_and_is_good_for() {
    let server = sales();
    let before = server.pattern("p");
    assert_eq!(number(before.as_doc(), "stats.deltas"), 0, "a build is no delta: {before:?}");
    server.run("{insert: 'c', documents: [{_id: 4, p: 1, x: 1}, {_id: 5, p: 1, x: 1}]}");
    server.run("{update: 'c', updates: [{q: {_id: 4}, u: {$set: {x: 2}}}]}");
    server.run("{update: 'c', updates: [{q: {_id: 4}, u: {$set: {other: 2}}}]}");
    server.run("{count: 'c', query: {p: 1}}");
    server.run("{update: 'p', updates: [{q: {_id: 1}, u: {_id: 1, s: 99, n: 2, name: 'one'}}]}");
    server.run("{insert: 'p', documents: [{_id: 3, s: 5}]}");
    let listed = server.pattern("p");
    let stats = listed.as_doc().get("stats").and_then(Val::as_doc).expect("stats");
    assert_eq!((number(stats, "deltas"), number(stats, "fanoutWrites")), (3, 2), "{stats:?}");
    assert_eq!(
        (number(stats, "rewrites"), number(stats, "ignoredClientWrites")),
        (1, 2),
        "{stats:?}"
    );
    assert!(number(stats, "bytes") > 0, "{stats:?}");
    let factor = stats.get("writeAmplification").and_then(Val::as_f64).expect("a factor");
    assert!((factor - (1.0 + 2.0 / 3.0)).abs() < 1e-9, "{stats:?}");
    // What fails is left out and counted.
    server.run("{createPatterns: 'p', patterns: [{name: 'z', kind: 'computed', from: 'c', on: {foreign: 'p'}, onError: 'skip', fields: {z: {$sum: {$multiply: ['$x', '$y']}}}}]}");
    server.run("{insert: 'c', documents: [{_id: 6, p: 1, x: 1, y: 'text'}]}");
    let all = server.docs("{listPatterns: 'p'}");
    let skipping = all.iter().find(|p| p.as_doc().get("name") == Some(Val::String("z")));
    assert_eq!(number(skipping.expect("z").as_doc(), "errors"), 1);
}

#[test]
fn writes_that_go_past_patterns_degrade_them_until_they_are_repaired() {
    let server = sales();
    server.run("{insert: 'c', documents: [{_id: 4, p: 1, x: 100}], bypassPatterns: true}");
    assert_eq!(server.state("p"), "degraded");
    server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 11, n: 2}");
    // Queries are not answered from it any more.
    let count = server.run("{count: 'c', query: {p: 1}}");
    assert_eq!(number(count.as_doc(), "n"), 3);
    // It is maintained on, whatever its records are worth.
    server.run("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}]}");
    server.run("{insert: 'c', documents: [{_id: 5, p: 1, x: 1}]}");
    let report = server.validate("{validatePatterns: 'p'}");
    assert_eq!(report.as_doc().get("state"), Some(Val::String("degraded")));
    assert_eq!(server.state("p"), "degraded");
    server.validate("{validatePatterns: 'p', repair: true}");
    assert_eq!(server.state("p"), "ready");
    server.shows("{find: 'p'}", "{_id: 1, s: 107, n: 3}, {_id: 2, s: 7, n: 1}");
    assert_eq!(number(server.validate("{validatePatterns: 'p'}").as_doc(), "drift"), 0);
    // Maintained fields can be written so too, with every command that writes.
    server.run("{update: 'p', updates: [{q: {_id: 2}, u: {$set: {s: 1}}}], bypassPatterns: true}");
    server.shows("{find: 'p', filter: {_id: 2}}", "{_id: 2, s: 1, n: 1}");
    server.run("{findAndModify: 'c', query: {_id: 5}, remove: true, bypassPatterns: true}");
    server.run("{delete: 'c', deletes: [{q: {_id: 3}, limit: 1}], bypassPatterns: true}");
    server.run("{aggregate: 'p', pipeline: [{$project: {n: {$literal: 50}}}, {$merge: 'p'}], cursor: {}, bypassPatterns: true}");
    server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 107, n: 50}");
    assert_eq!(server.state("p"), "degraded");
    server.run("{resumePatterns: 'p', names: ['sales']}");
    assert_eq!(server.state("p"), "ready");
    server.shows("{find: 'p'}", "{_id: 1, s: 106, n: 2}, {_id: 2, s: 0, n: 0}");
    // A collection without patterns does not mind.
    server.run("{insert: 'plain', documents: [{_id: 1}], bypassPatterns: true}");
}

#[test]
fn records_that_nobody_sees_are_found_to_be_wrong_after_a_bypass() {
    let server = sales();
    // There is no parent 9, so no value is wrong; but there would be when it comes.
    server.run("{insert: 'c', documents: [{_id: 9, p: 9, x: 100}], bypassPatterns: true}");
    let report = server.validate("{validatePatterns: 'p'}");
    assert_eq!(number(report.as_doc(), "drift"), 0);
    assert_eq!(server.state("p"), "degraded");
    server.validate("{validatePatterns: 'p', repair: true}");
    assert_eq!(server.state("p"), "ready");
    server.run("{insert: 'p', documents: [{_id: 9}]}");
    server.shows("{find: 'p', filter: {_id: 9}}", "{_id: 9, s: 100, n: 1}");
}

#[test]
fn a_cycle_that_was_written_past_a_tree_is_found_and_never_hangs() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {ancestors: 'a', descendantCount: 'd'}}]}");
    server.run("{insert: 'n', documents: [{_id: 1}, {_id: 2, parent: 1}, {_id: 3, parent: 2}]}");
    server.run(
        "{update: 'n', updates: [{q: {_id: 1}, u: {$set: {parent: 3}}}], bypassPatterns: true}",
    );
    assert_eq!(server.state("n"), "degraded");
    // Writes to the cycle are refused or work, but they end.
    let _ = server.try_run("{update: 'n', updates: [{q: {_id: 2}, u: {$set: {x: 1}}}]}");
    let _ = server.try_run("{insert: 'n', documents: [{_id: 4, parent: 3}]}");
    let _ = server.try_run("{validatePatterns: 'n'}");
    assert!(server.try_run("{resumePatterns: 'n', names: ['t']}").is_err());
    assert_eq!(server.state("n"), "failed");
    server.run("{update: 'n', updates: [{q: {_id: 1}, u: {$unset: {parent: 1}}}]}");
    server.run("{resumePatterns: 'n', names: ['t']}");
    assert_eq!(server.state("n"), "ready");
    let report = server.validate("{validatePatterns: 'n'}");
    assert_eq!(number(report.as_doc(), "drift"), 0);
}

#[test]
fn what_is_wrong_is_found_and_repaired_by_the_clock() {
    let server = sales();
    server.run("{modifyPattern: 'p', name: 'sales', set: {verify: {scrub: '20/second'}}}");
    server.run("{update: 'p', updates: [{q: {_id: 1}, u: {$set: {s: 99}}}], bypassPatterns: true}");
    wait_until("a repair", || server.state("p") == "ready");
    server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 11, n: 2}");
    wait_until("a check", || number(server.pattern("p").as_doc(), "lastVerify.checked") == 2);
    // Reported only, with the time at which it was first seen.
    server.run("{modifyPattern: 'p', name: 'sales', set: {verify: {scrub: '20/second', onDrift: 'report'}}}");
    server.run("{update: 'p', updates: [{q: {_id: 2}, u: {$set: {s: 99}}}], bypassPatterns: true}");
    wait_until("a drift", || number(server.pattern("p").as_doc(), "lastVerify.drift") == 1);
    assert_eq!(server.state("p"), "degraded");
    let seen = |report: &DocBuf| {
        let samples = report.as_doc().get("samples").and_then(Val::as_array).expect("samples");
        let first = samples.first().and_then(|(_, sample)| sample.as_doc()).expect("a sample");
        match first.get("firstSeen") {
            Some(Val::DateTime(at)) => at,
            other => panic!("{other:?}"),
        }
    };
    let first = seen(&server.validate("{validatePatterns: 'p'}"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(seen(&server.validate("{validatePatterns: 'p'}")), first);
    server.run("{modifyPattern: 'p', name: 'sales', set: {verify: {scrub: 'never'}}}");
    server.validate("{validatePatterns: 'p', repair: true}");
    assert_eq!(server.state("p"), "ready");
}

#[test]
fn a_new_version_takes_the_place_of_the_old_one_in_one_step() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    for from in (0..6000).step_by(1000) {
        let list: Vec<String> = (from..from + 1000)
            .map(|n| format!("{{_id: {n}, p: {}, x: {n}}}", n % 2 + 1))
            .collect();
        server.run(&format!("{{insert: 'c', documents: [{}]}}", list.join(",")));
    }
    server.run("{createPatterns: 'p', patterns: [{name: 'top', kind: 'subset', into: 'top', from: 'c', on: {foreign: 'p'}, sort: {x: -1}, limit: 2, fields: ['x'], count: 'n'}]}");
    let limit = |doc: &DocBuf| match doc.as_doc().get("top") {
        Some(Val::Array(list)) => list.count(),
        other => panic!("{other:?}"),
    };
    let done = AtomicBool::new(false);
    let mut written = 0;
    std::thread::scope(|scope| {
        // Readers see two or five of both parents, never a mixture, and never less again.
        let reader = scope.spawn(|| {
            let (mut most, mut reads) = (2, 0);
            while !done.load(Ordering::Relaxed) || most < 5 {
                let docs = server.docs("{find: 'p', sort: {_id: 1}}");
                let found: Vec<usize> = docs.iter().map(limit).collect();
                assert!(found == [2, 2] || found == [5, 5], "{found:?}");
                assert!(found[0] >= most, "{found:?}");
                most = found[0];
                reads += 1;
            }
            reads
        });
        let writer = scope.spawn(|| {
            let mut at = 10_000;
            while !done.load(Ordering::Relaxed) {
                server.run(&format!(
                    "{{insert: 'c', documents: [{{_id: {at}, p: {}, x: {at}}}]}}",
                    at % 2 + 1
                ));
                at += 1;
            }
            at - 10_000
        });
        server.run("{modifyPattern: 'p', name: 'top', set: {limit: 5}}");
        done.store(true, Ordering::Relaxed);
        written = writer.join().expect("writes");
        assert!(reader.join().expect("reads") > 0);
    });
    assert_eq!(server.state("p"), "ready");
    assert_eq!(server.docs("{listPatterns: 'p'}").len(), 1);
    let report = server.validate("{validatePatterns: 'p'}");
    assert_eq!((number(report.as_doc(), "drift"), report.as_doc().get("records")), (0, None));
    let docs = server.docs("{find: 'p'}");
    let total: i64 = docs.iter().map(|doc| number(doc.as_doc(), "n")).sum();
    assert_eq!(total, 6000 + written);
}

#[test]
fn new_versions_of_every_kind_are_right_and_leave_nothing_of_the_old_ones() {
    let server = sales();
    server.run("{modifyPattern: 'p', name: 'sales', set: {fields: {s: {$max: '$x'}, m: {$min: '$x'}}, filter: {x: {$gt: 5}}}}");
    server.shows("{find: 'p'}", "{_id: 1, s: 6, m: 6}, {_id: 2, s: 7, m: 7}");
    server.run("{insert: 'c', documents: [{_id: 4, p: 1, x: 9}]}");
    server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 9, m: 6}");
    server.run("{modifyPattern: 'p', name: 'sales', set: {filter: null}}");
    server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 9, m: 5}");
    // A version that cannot be built leaves the old one as it is.
    server.run("{insert: 'c', documents: [{_id: 5, p: 2, x: 1, y: 'text'}]}");
    let failed = server.try_run("{modifyPattern: 'p', name: 'sales', set: {fields: {s: {$sum: {$multiply: ['$x', '$y']}}}}}");
    assert!(failed.expect_err("it fails").1.contains("_id"));
    assert_eq!(server.state("p"), "ready");
    server.shows("{find: 'p', filter: {_id: 2}}", "{_id: 2, s: 7, m: 1}");
    server.run("{delete: 'c', deletes: [{q: {_id: 5}, limit: 1}]}");
    server.shows("{find: 'p', filter: {_id: 2}}", "{_id: 2, s: 7, m: 7}");
    for set in [
        "{name: 'x'}",
        "{kind: 'tree'}",
        "{fields: {'s.t': {$count: {}}}}",
        "{fields: 5}",
        "{nonsense: 1}",
    ] {
        let text = format!("{{modifyPattern: 'p', name: 'sales', set: {set}}}");
        assert!(server.try_run(&text).is_err(), "{text}");
    }
    // Groups in a collection of their own: other keys, other documents.
    server.run("{createPatterns: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}");
    server.run("{modifyPattern: 'c', name: 'g', set: {groupBy: {$gt: ['$x', 6]}, fields: {s: {$sum: '$x'}}}}");
    server.shows("{find: 'g', sort: {_id: 1}}", "{_id: false, s: 11}, {_id: true, s: 16}");
    server.run("{modifyPattern: 'c', name: 'g', set: {into: 'h'}}");
    server.shows("{find: 'h', sort: {_id: 1}}", "{_id: false, s: 11}, {_id: true, s: 16}");
    wait_until("no documents are left", || server.docs("{find: 'g'}").is_empty());
    // References.
    server.run("{insert: 'u', documents: [{_id: 1, name: 'Ann', mail: 'a@x', tel: '5'}]}");
    server.run("{insert: 'o', documents: [{_id: 1, u: {_id: 1}}]}");
    server.run("{createPatterns: 'o', patterns: [{name: 'u', kind: 'extendedReference', ref: 'u._id', from: 'u', into: 'u', fields: ['name', 'mail']}]}");
    server.run("{modifyPattern: 'o', name: 'u', set: {fields: ['name', 'tel']}}");
    wait_until("the old copy goes", || {
        let doc = server.docs("{find: 'o'}").pop().expect("an order");
        let user = doc.as_doc().get("u").and_then(Val::as_doc).expect("a user");
        user.get("mail").is_none()
    });
    server.shows("{find: 'o'}", "{_id: 1, u: {_id: 1, name: 'Ann', tel: '5'}}");
    server.run(
        "{update: 'u', updates: [{q: {_id: 1}, u: {$set: {name: 'Anna', tel: '6', mail: 'b@x'}}}]}",
    );
    server.shows("{find: 'o'}", "{_id: 1, u: {_id: 1, name: 'Anna', tel: '6'}}");
    // Trees.
    server.run("{insert: 'n', documents: [{_id: 1}, {_id: 2, parent: 1}]}");
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', maintain: {depth: 'd', childCount: 'k'}}]}");
    server.run(
        "{modifyPattern: 'n', name: 't', set: {maintain: {ancestors: 'a', descendantCount: 'k'}}}",
    );
    wait_until("the old depth goes", || {
        server.docs("{find: 'n', filter: {d: {$exists: true}}}").is_empty()
    });
    server.run("{insert: 'n', documents: [{_id: 3, parent: 2}]}");
    server.shows(
        "{find: 'n', projection: {parent: 0}}",
        "{_id: 1, a: [], k: 2}, {_id: 2, a: [1], k: 1}, {_id: 3, a: [1, 2], k: 0}",
    );
    for name in ["p", "c", "o", "n"] {
        wait_until("all is ready", || {
            server.docs(&format!("{{listPatterns: '{name}'}}")).len() == 1
        });
        let report = server.validate(&format!("{{validatePatterns: '{name}'}}"));
        assert_eq!(number(report.as_doc(), "drift"), 0, "{name}: {report:?}");
        assert_eq!(server.state(name), "ready");
    }
}

#[test]
fn a_new_version_goes_on_after_a_restart_and_goes_with_its_pattern() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || {
        let storage = Storage::Disk(folder.path().to_owned());
        Server(Engine::open(Options { storage, ..Options::default() }).expect("opens"))
    };
    let states = |server: &Server| -> Vec<String> {
        let all = server.docs("{listPatterns: 'p'}");
        let state = |p: &DocBuf| p.as_doc().get("state").and_then(Val::as_str).map(str::to_owned);
        all.iter().filter_map(state).collect()
    };
    {
        let server = open();
        server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
        let list: Vec<String> =
            (0..900).map(|n| format!("{{_id: {n}, p: {}, x: {n}}}", n % 2 + 1)).collect();
        server.run(&format!("{{insert: 'c', documents: [{}]}}", list.join(",")));
        server.run("{createPatterns: 'p', patterns: [{name: 's', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}}, backfill: {batch: 10}}]}");
        server.run("{modifyPattern: 'p', name: 's', set: {fields: {s: {$max: '$x'}}, backfill: {batch: 10, rate: 100}}, wait: false}");
        assert_eq!(states(&server), ["ready", "preparing"]);
        // The old version answers and is maintained on; there is one new version at a time.
        server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 202050}");
        let second =
            server.try_run("{modifyPattern: 'p', name: 's', set: {fields: {s: {$min: '$x'}}}}");
        assert_eq!(second.expect_err("refused").0, 117);
        server.run("{insert: 'c', documents: [{_id: 'new', p: 1, x: 5000}]}");
        server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 207050}");
        server.0.close().expect("closes");
    }
    let server = open();
    assert!(states(&server).len() == 2, "it was too fast");
    wait_until("the new version", || states(&server) == ["ready"]);
    server.shows("{find: 'p'}", "{_id: 1, s: 5000}, {_id: 2, s: 899}");
    // Dropping a pattern drops the version that was to replace it.
    server.run("{modifyPattern: 'p', name: 's', set: {fields: {s: {$min: '$x'}}}, wait: false}");
    server.run("{dropPatterns: 'p', names: ['s']}");
    wait_until("it is gone", || states(&server).is_empty());
    server.shows("{find: 'p'}", "{_id: 1}, {_id: 2}");
}

#[test]
fn metadata_tell_how_far_a_document_is_behind() {
    let server = sales();
    server
        .run("{modifyPattern: 'p', name: 'sales', set: {mode: {every: '1h'}, maxStalenessMS: 1}}");
    // The first round shows what there is.
    wait_until("the first round", || server.pattern("p").as_doc().get("asOf").is_some());
    server.run("{insert: 'c', documents: [{_id: 4, p: 1, x: 100}]}");
    std::thread::sleep(Duration::from_millis(20));
    let meta = |id: i32| {
        let docs = server.docs(&format!(
            "{{find: 'p', filter: {{_id: {id}}}, projection: {{s: 1, how: {{$meta: 'patterns'}}}}}}"
        ));
        let how = docs[0].as_doc().get("how").and_then(Val::as_doc).expect("metadata");
        DocBuf::from(how.get("sales").and_then(Val::as_doc).expect("the pattern"))
    };
    let (late, exact) = (meta(1), meta(2));
    assert_eq!(late.as_doc().get("exact"), Some(Val::Bool(false)), "{late:?}");
    assert!(number(late.as_doc(), "lagMS") >= 10, "{late:?}");
    assert!(matches!(late.as_doc().get("asOf"), Some(Val::DateTime(_))), "{late:?}");
    assert_eq!(exact.as_doc().get("exact"), Some(Val::Bool(true)), "{exact:?}");
    assert_eq!(number(exact.as_doc(), "lagMS"), 0, "{exact:?}");
    let docs = server.docs("{aggregate: 'p', pipeline: [{$match: {_id: 1}}, {$project: {how: {$meta: 'patterns'}}}], cursor: {}}");
    assert!(format!("{docs:?}").contains("lagMS"), "{docs:?}");
    assert_eq!(server.pattern("p").as_doc().get("overdue"), Some(Val::Bool(true)));
    let overdue = || {
        let status = server.run("{serverStatus: 1}");
        number(status.as_doc(), "patterns.overdue")
    };
    wait_until("an alarm", || overdue() == 1);
    server.docs("{find: 'p', readConcern: {patterns: 'fresh'}}");
    assert_eq!(meta(1).as_doc().get("exact"), Some(Val::Bool(true)));
    wait_until("the end of the alarm", || overdue() == 0);
    // Who maintains in the same commit is never behind; without patterns there is nothing to tell.
    server.run("{insert: 'plain', documents: [{_id: 1}]}");
    server.shows("{find: 'plain', projection: {how: {$meta: 'patterns'}}}", "{_id: 1, how: {}}");
}

#[test]
fn a_copy_by_options_and_documents_has_the_patterns_of_the_original() {
    let server = sales();
    server.run("{createPatterns: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}");
    // What a tool does that dumps and restores: options, then documents, in the order of names.
    for info in server.docs("{listCollections: 1, filter: {}}") {
        let name = info.as_doc().get("name").and_then(Val::as_str).expect("a name");
        let options = info.as_doc().get("options").and_then(Val::as_doc).expect("options");
        let create = DocBuf::build(|out| {
            out.str("create", name);
            out.extend(options);
        });
        server.0.run_command("copy", create.as_doc()).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    for name in ["c", "p"] {
        let docs = server.docs(&format!("{{find: '{name}'}}"));
        let insert = DocBuf::build(|out| {
            out.str("insert", name);
            out.array("documents", |list| {
                docs.iter().for_each(|doc| list.push_doc_bytes(doc.bytes()));
            });
        });
        let reply = server.0.run_command("copy", insert.as_doc()).expect("inserts");
        assert!(reply.as_doc().get("writeErrors").is_none(), "{reply:?}");
    }
    for name in ["p", "g"] {
        let text = format!("{{find: '{name}', sort: {{_id: 1}}}}");
        let copied = batch(&server.try_in("copy", &text).expect("finds"));
        assert_eq!(copied, server.docs(&text), "{name}");
    }
    server.try_in("copy", "{insert: 'c', documents: [{_id: 4, p: 2, x: 1}]}").expect("inserts");
    let found = batch(&server.try_in("copy", "{find: 'p', filter: {_id: 2}}").expect("finds"));
    assert_eq!(number(found[0].as_doc(), "s"), 8);
    // The documents of groups may have been restored before the declaration comes.
    server
        .try_in("late", "{insert: 'g', documents: [{_id: 1, n: 50}, {_id: 77, n: 1}]}")
        .expect("inserts");
    server.try_in("late", "{insert: 'c', documents: [{_id: 1, p: 1}]}").expect("inserts");
    server.try_in("late", "{create: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}").expect("creates");
    let found = batch(&server.try_in("late", "{find: 'g'}").expect("finds"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(number(found[0].as_doc(), "n"), 1);
    // Creating the same again is no error, another declaration is one.
    server.try_in("late", "{create: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}").expect("the same");
    assert!(server.try_in("late", "{create: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$q', fields: {n: {$count: {}}}}]}").is_err());
    assert!(server.try_in("late", "{create: 'd', patterns: []}").is_err());
}

#[test]
fn a_result_that_replaces_a_collection_is_followed() {
    let server = sales();
    server.run("{insert: 'new', documents: [{_id: 1, p: 1, x: 1}, {_id: 2, p: 2, x: 2}, {_id: 4, p: 2, x: 3}]}");
    // The sources become others, in the same commit: there is nothing to wait for.
    server.run("{aggregate: 'new', pipeline: [{$out: 'c'}], cursor: {}}");
    assert_eq!(server.state("p"), "ready");
    server.shows(
        "{find: 'c', sort: {_id: 1}}",
        "{_id: 1, p: 1, x: 1}, {_id: 2, p: 2, x: 2}, {_id: 4, p: 2, x: 3}",
    );
    server.shows("{find: 'p'}", "{_id: 1, s: 1, n: 1}, {_id: 2, s: 5, n: 2}");
    // The targets become others; what they carry of the pattern's is its own business.
    server.run("{aggregate: 'new', pipeline: [{$match: {_id: 2}}, {$project: {name: 'two', s: {$literal: 99}}}, {$out: 'p'}], cursor: {}}");
    let found = server.docs("{find: 'p'}");
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found[0].as_doc();
    assert_eq!((number(found, "_id"), number(found, "s"), number(found, "n")), (2, 5, 2));
    assert_eq!(number(server.validate("{validatePatterns: 'p'}").as_doc(), "drift"), 0);
    // What cannot be written leaves everything as it was.
    let twice =
        server.try_run("{aggregate: 'new', pipeline: [{$set: {_id: 7}}, {$out: 'c'}], cursor: {}}");
    assert_eq!(twice.expect_err("two documents with one _id").0, 11000);
    server.shows("{find: 'p', projection: {s: 1}}", "{_id: 2, s: 5}");
    // Documents that belong to a pattern cannot be replaced.
    server.run("{createPatterns: 'c', patterns: [{name: 'g', kind: 'computed', into: 'g', groupBy: '$p', fields: {n: {$count: {}}}}]}");
    let refused = server.try_run("{aggregate: 'new', pipeline: [{$out: 'g'}], cursor: {}}");
    assert_eq!(refused.expect_err("refused").0, 96001);
    // What is suspended is built anew from what is there then.
    server.run("{suspendPatterns: 'p', names: '*'}");
    server.run("{suspendPatterns: 'c', names: '*'}");
    server.run("{aggregate: 'new', pipeline: [{$match: {_id: 1}}, {$set: {p: 2}}, {$out: 'c'}], cursor: {}}");
    server.run("{resumePatterns: 'p', names: '*'}");
    server.run("{resumePatterns: 'c', names: '*'}");
    server.shows("{find: 'g'}", "{_id: 2, n: 1}");
    server.shows("{find: 'p', projection: {s: 1}}", "{_id: 2, s: 1}");
}

#[test]
fn a_result_that_replaces_nodes_may_have_them_in_any_order() {
    for strategy in ["copy", "pointer"] {
        let server = Server::new();
        server.run(&format!("{{createPatterns: 'n', patterns: [{{name: 't', kind: 'tree', strategy: '{strategy}', maintain: {{ancestors: 'a', descendantCount: 'below'}}}}]}}"));
        server.run("{insert: 'n', documents: [{_id: 5}, {_id: 6, parent: 5}]}");
        server.run("{insert: 'new', documents: [{_id: 1, parent: 2}, {_id: 2, parent: 3}, {_id: 3}, {_id: 5, parent: 1}]}");
        server.run("{aggregate: 'new', pipeline: [{$out: 'n'}], cursor: {}}");
        let below: Vec<i64> = server
            .docs("{find: 'n', sort: {_id: 1}}")
            .iter()
            .map(|d| number(d.as_doc(), "below"))
            .collect();
        assert_eq!(below, [1, 2, 3, 0]);
        // A circle is refused, and nothing changes.
        server.run("{update: 'new', updates: [{q: {_id: 3}, u: {$set: {parent: 1}}}]}");
        let refused = server.try_run("{aggregate: 'new', pipeline: [{$out: 'n'}], cursor: {}}");
        assert_eq!(refused.expect_err("a circle").0, 96001);
        assert_eq!(number(server.validate("{validatePatterns: 'n'}").as_doc(), "drift"), 0);
        let found = server.docs("{find: 'n', filter: {a: 3}}");
        assert_eq!(found.len(), 3);
    }
}

#[test]
fn a_check_may_look_at_some_documents_only() {
    let server = sales();
    server.run(
        "{update: 'p', updates: [{q: {}, u: {$set: {s: 1}}, multi: true}], bypassPatterns: true}",
    );
    let report = server.validate("{validatePatterns: 'p', filter: {_id: 2}}");
    let (checked, drift) = (number(report.as_doc(), "checked"), number(report.as_doc(), "drift"));
    assert_eq!((checked, drift), (1, 1), "{report:?}");
    // Repaired is what was looked at; the rest is as wrong as before, and so is the pattern.
    server.validate("{validatePatterns: 'p', filter: {_id: 2}, repair: true}");
    server.shows("{find: 'p'}", "{_id: 1, s: 1, n: 2}, {_id: 2, s: 7, n: 1}");
    assert_eq!(server.state("p"), "degraded");
    assert!(server.pattern("p").as_doc().get("lastVerify").is_none());
    let report = server.validate("{validatePatterns: 'p', filter: {s: 7}}");
    assert_eq!(number(report.as_doc(), "drift"), 0);
    let report = server.validate("{validatePatterns: 'p', filter: {_id: 77}}");
    assert_eq!(number(report.as_doc(), "checked"), 0);
    server.validate("{validatePatterns: 'p', repair: true}");
    assert_eq!(server.state("p"), "ready");
    server.shows("{find: 'p'}", "{_id: 1, s: 11, n: 2}, {_id: 2, s: 7, n: 1}");
    for (filter, code) in [("3", 14), ("{$nonsense: 1}", 2)] {
        let refused = server.try_run(&format!("{{validatePatterns: 'p', filter: {filter}}}"));
        assert_eq!(refused.expect_err("refused").0, code, "{filter}");
    }
    // What is not stored is filtered as clients see it.
    server.run("{insert: 'n', documents: [{_id: 1}, {_id: 2, parent: 1}]}");
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', strategy: 'pointer', maintain: {depth: 'd', childCount: 'k'}}]}");
    let report = server.validate("{validatePatterns: 'n', filter: {d: 1}}");
    assert_eq!(number(report.as_doc(), "checked"), 1);
    assert_eq!(number(report.as_doc(), "drift"), 0);
}

#[test]
fn a_strategy_that_is_left_to_the_database_goes_by_the_followers_of_a_source() {
    let server = Server::new();
    server.run("{insert: 'c', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob'}]}");
    let orders: Vec<String> = (0..60).map(|n| format!("{{_id: {n}, c: {}}}", n % 2 + 1)).collect();
    server.run(&format!("{{insert: 'o', documents: [{}]}}", orders.join(", ")));
    let declare = |more: &str| {
        server.run(&format!("{{createPatterns: 'o', patterns: [{{name: 'c', kind: 'extendedReference', ref: 'c', from: 'c', into: 'who', fields: ['name'], {more}}}]}}"));
        let declared = server.pattern("o");
        let declared = declared.as_doc().get("declaration").and_then(Val::as_doc).expect("it is");
        let text = |name| declared.get(name).and_then(Val::as_str).unwrap_or("").to_owned();
        (text("strategy"), text("chosen"))
    };
    let auto = |chosen: &str| ("auto".to_owned(), chosen.to_owned());
    let drop = || server.run("{dropPatterns: 'o', names: '*'}");
    // 30 orders a customer.
    assert_eq!(declare("onSourceDelete: 'unset', fanoutLimit: 10"), auto("pointer"));
    server.shows("{find: 'o', filter: {_id: 1}}", "{_id: 1, c: 2, who: {name: 'Bob'}}");
    // Declared again it is the same; it can be changed like any other.
    assert_eq!(declare("onSourceDelete: 'unset', fanoutLimit: 10"), auto("pointer"));
    server.run("{modifyPattern: 'o', name: 'c', set: {fanoutLimit: 20}}");
    let changed = server.run("{explain: {find: 'o'}}");
    assert!(format!("{changed:?}").contains("\"chosen\": String(\"pointer\")"), "{changed:?}");
    server.run("{modifyPattern: 'o', name: 'c', set: {strategy: 'copy'}}");
    server.run("{modifyPattern: 'o', name: 'c', set: {strategy: 'auto'}}");
    assert!(!format!("{:?}", server.run("{explain: {find: 'o'}}")).contains("resolved"));
    server.shows("{find: 'o', filter: {_id: 1}}", "{_id: 1, c: 2, who: {name: 'Bob'}}");
    drop();
    assert_eq!(declare("onSourceDelete: 'unset', fanoutLimit: 30"), auto("copy"));
    drop();
    // What needs copies has them.
    assert_eq!(declare("fanoutLimit: 10"), auto("copy"));
    drop();
    server.run("{createIndexes: 'o', indexes: [{key: {'who.name': 1}, name: 'who'}]}");
    assert_eq!(declare("onSourceDelete: 'unset', fanoutLimit: 10"), auto("copy"));
    drop();
    let text = "{createPatterns: 'o', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'c', into: 'who', fields: ['name'], strategy: 'copy', chosen: 'pointer'}]}";
    assert_eq!(server.try_run(text).expect_err("refused").0, 2);
}

#[test]
fn what_a_snapshot_never_copied_is_not_wrong() {
    let server = Server::new();
    server.run("{createPatterns: 'o', patterns: [{name: 'c', kind: 'extendedReference', ref: 'c', from: 'c', into: 'then', freshness: 'snapshot', fields: ['name']}]}");
    // The source comes later than the reference, and another one changes.
    server.run("{insert: 'o', documents: [{_id: 1, c: 1}]}");
    server.run("{insert: 'c', documents: [{_id: 1, name: 'Ann'}, {_id: 2, name: 'Bob'}]}");
    server.run("{insert: 'o', documents: [{_id: 2, c: 2}]}");
    server.run("{update: 'c', updates: [{q: {_id: 2}, u: {$set: {name: 'Zoe'}}}]}");
    let report = server.validate("{validatePatterns: 'o', repair: true}");
    assert_eq!(number(report.as_doc(), "drift"), 0, "{report:?}");
    server.shows("{find: 'o'}", "{_id: 1, c: 1}, {_id: 2, c: 2, then: {name: 'Bob'}}");
    // A copy beside no reference is wrong.
    server.run("{insert: 'o', documents: [{_id: 3, then: {name: 'Eve'}}], bypassPatterns: true}");
    let report = server.validate("{validatePatterns: 'o', repair: true}");
    assert_eq!(number(report.as_doc(), "drift"), 1, "{report:?}");
    server.shows("{find: 'o', filter: {_id: 3}}", "{_id: 3}");
}

#[test]
fn nodes_that_wait_for_their_parents_are_counted() {
    let server = Server::new();
    server.run("{createPatterns: 'n', patterns: [{name: 't', kind: 'tree', onMissingParent: 'defer', maintain: {depth: 'd'}}]}");
    server.run("{insert: 'n', documents: [{_id: 3, parent: 2}, {_id: 2, parent: 1}, {_id: 9}]}");
    assert_eq!(number(server.pattern("n").as_doc(), "awaiting"), 2);
    server.run("{insert: 'n', documents: [{_id: 1}]}");
    assert_eq!(number(server.pattern("n").as_doc(), "awaiting"), 0);
}

#[test]
fn patterns_follow_what_becomes_of_collections() {
    let server = sales();
    // A source that is dropped is a source without documents, and may come again.
    server.run("{drop: 'c'}");
    server.shows("{find: 'p'}", "{_id: 1, s: 0, n: 0}, {_id: 2, s: 0, n: 0}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1, x: 3}]}");
    server.shows("{find: 'p', filter: {_id: 1}}", "{_id: 1, s: 3, n: 1}");
    // A renamed source or target keeps the pattern.
    server.try_in("admin", "{renameCollection: 't.c', to: 't.d'}").expect("renames");
    server.try_in("admin", "{renameCollection: 't.p', to: 't.q'}").expect("renames");
    server.run("{insert: 'd', documents: [{_id: 2, p: 1, x: 4}]}");
    server.shows("{find: 'q', filter: {_id: 1}}", "{_id: 1, s: 7, n: 2}");
    assert!(server.docs("{listPatterns: 'p'}").is_empty());
    // Neither leaves its database, nor is replaced.
    for (from, to) in [("t.d", "u.d"), ("t.q", "u.q"), ("u.x", "t.d")] {
        let _ = server.try_in("u", "{insert: 'x', documents: [{_id: 1}]}");
        let text = format!("{{renameCollection: '{from}', to: '{to}', dropTarget: true}}");
        let refused = server.try_in("admin", &text).expect_err("refused");
        assert!(refused.1.contains("patterns"), "{text}: {refused:?}");
    }
    // A target that is dropped takes its patterns along.
    server.run("{drop: 'q'}");
    assert!(server.docs("{listPatterns: 1}").is_empty());
    server.run("{insert: 'd', documents: [{_id: 3, p: 1, x: 4}]}");
    server.run("{insert: 'q', documents: [{_id: 1}]}");
    server.shows("{find: 'q'}", "{_id: 1}");
}
