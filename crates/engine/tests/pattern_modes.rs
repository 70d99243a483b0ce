//! States and modes of patterns: clearing, degraded builds, queues, schedules, what readers are told.

use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use motifdb::{Engine, Options, Storage};
use std::time::{Duration, Instant};

struct Server(Engine);

impl Server {
    fn new() -> Server {
        Server(Engine::open(Options::default()).expect("memory opens"))
    }

    fn try_run(&self, text: &str) -> Result<DocBuf, i32> {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        self.0.run_command("t", command.as_doc()).map_err(|error| error.code().0)
    }

    fn run(&self, text: &str) -> DocBuf {
        let reply = self.try_run(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(reply.as_doc().get("writeErrors").is_none(), "{text}: {reply:?}");
        reply
    }

    fn docs(&self, text: &str) -> Vec<DocBuf> {
        let reply = self.run(text);
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
        batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from).collect()
    }

    fn insert_many(&self, collection: &str, count: usize, fields: &str) {
        for from in (0..count).step_by(1000) {
            let ids = from..(from + 1000).min(count);
            let list: Vec<String> = ids.map(|n| format!("{{_id: {n}, {fields}}}")).collect();
            self.run(&format!("{{insert: '{collection}', documents: [{}]}}", list.join(",")));
        }
    }

    fn pattern(&self, collection: &str) -> DocBuf {
        self.docs(&format!("{{listPatterns: '{collection}'}}")).pop().expect("a pattern")
    }

    fn wait_until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is() {
            assert!(begin.elapsed() < Duration::from_secs(90), "never: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn text<'d>(doc: &'d DocBuf, name: &str) -> &'d str {
    doc.as_doc().get(name).and_then(Val::as_str).unwrap_or("")
}

fn whole(doc: &DocBuf, name: &str) -> i64 {
    doc.as_doc().get(name).and_then(Val::as_i64_exact).unwrap_or(-1)
}

#[test]
fn a_dropped_pattern_is_cleared_in_the_background() {
    let server = Server::new();
    server.insert_many("c", 30_000, "x: 2");
    let create = "{createPatterns: 'c', patterns: [{name: 'd', kind: 'computed', fields: {twice: {$multiply: ['$x', 2]}}, backfill: {rate: 1000000}}]}";
    server.run(create);
    server.run("{dropPatterns: 'c', names: ['d'], wait: false}");
    // The field is the client's at once, before the walk came by and behind it.
    server.run("{update: 'c', updates: [{q: {_id: 29999}, u: {$set: {twice: 'mine'}}}, {q: {_id: 29998}, u: {$set: {y: 1}}}]}");
    server.run("{insert: 'c', documents: [{_id: 40000, twice: 'mine too'}]}");
    server.wait_until("cleared", || server.docs("{listPatterns: 'c'}").is_empty());
    let left = server.docs("{find: 'c', filter: {twice: {$exists: true}}, sort: {_id: 1}}");
    let kept: Vec<&str> = left.iter().map(|doc| text(doc, "twice")).collect();
    assert_eq!(kept, ["mine", "mine too"]);
    // The name and the field are free while values are still being removed.
    server.run(create);
    server.run("{dropPatterns: 'c', names: ['d'], wait: false}");
    server.run(create);
    server.wait_until("cleared", || server.docs("{listPatterns: 'c'}").len() == 1);
    let wrong = server
        .docs("{find: 'c', filter: {$expr: {$ne: ['$twice', {$multiply: ['$x', 2]}]}}, limit: 5}");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn who_writes_while_a_pattern_is_cleared_leaves_nothing_behind() {
    let server = Server::new();
    server.run("{insert: 's', documents: [{_id: 1, name: 'one'}, {_id: 2, name: 'two'}]}");
    server.insert_many("c", 30_000, "r: 1");
    server.run(
        "{update: 'c', updates: [{q: {_id: {$gte: 29997}}, u: {$set: {r: [1, 2]}}, multi: true}]}",
    );
    server.run("{createPatterns: 'c', patterns: [{name: 'd', kind: 'extendedReference', ref: 'r', from: 's', into: 'copy', fields: ['name'], fanoutLimit: 100000, backfill: {rate: 60000}}]}");
    server.run("{dropPatterns: 'c', names: ['d'], wait: false}");
    // The copies are of no reference any more, but still those that the pattern left.
    server.run("{update: 'c', updates: [{q: {_id: 29999}, u: {$set: {r: 2}}}, {q: {_id: 29998}, u: {$set: {r: [2, 2, 2]}}}, {q: {_id: 29995}, u: {$set: {r: 2}}}, {q: {_id: 29994}, u: {$unset: {r: 1}}}, {q: {_id: 29993}, u: {$set: {r: [1]}}}]}");
    server.run("{update: 'c', updates: [{q: {_id: 29992}, u: {$set: {r: [], copy: {name: 'mine'}}}}, {q: {_id: 29991}, u: {copy: {name: 'mine'}}}]}");
    // What is refused was not written.
    let twice = "{insert: 'c', ordered: false, documents: [{_id: 29990}, {_id: 50000}]}";
    assert_eq!(server.try_run(twice).map(|reply| whole(&reply, "n")), Ok(1));
    server.wait_until("cleared", || server.docs("{listPatterns: 'c'}").is_empty());
    let left = server.docs("{find: 'c', filter: {copy: {$exists: true}}, sort: {_id: 1}}");
    let ids: Vec<i64> = left.iter().map(|doc| whole(doc, "_id")).collect();
    assert_eq!(ids, [29991, 29992], "{left:?}");
}

#[test]
fn readers_may_be_refused_during_a_build_and_its_rate_is_kept() {
    let server = Server::new();
    server.insert_many("c", 3000, "x: 2");
    let begin = Instant::now();
    server.run("{createPatterns: 'c', wait: false, patterns: [{name: 'd', kind: 'computed', fields: {twice: {$multiply: ['$x', 2]}}, duringBuild: 'error', backfill: {rate: 1000, batch: 100}}]}");
    server.run("{create: 'v', viewOn: 'c', pipeline: []}");
    server.run("{create: 'w', viewOn: 'other', pipeline: [{$unionWith: 'v'}]}");
    assert_eq!(server.try_run("{find: 'c', limit: 1}").map(drop), Err(96002));
    assert_eq!(server.try_run("{find: 'v', limit: 1}").map(drop), Err(96002));
    assert_eq!(server.try_run("{count: 'w'}").map(drop), Err(96002));
    assert_eq!(server.try_run("{aggregate: 'd', pipeline: [{$lookup: {from: 'c', as: 'c', pipeline: []}}], cursor: {}}").map(drop), Err(96002));
    server.run("{find: 'other', limit: 1}");
    let known = server.pattern("c");
    assert_eq!(text(&known, "state"), "building");
    server.wait_until("progress", || {
        let progress = server.pattern("c");
        let progress = progress.as_doc().get("progress").and_then(Val::as_doc).map(DocBuf::from);
        progress.is_none_or(|progress| {
            whole(&progress, "etaMS") >= 0 && whole(&progress, "total") == 3000
        })
    });
    let operations = server
        .0
        .run_command("admin", ejson::parse_doc("{currentOp: 1}").expect("test text").as_doc())
        .expect("works");
    assert!(format!("{operations:?}").contains("Pattern Build: d"), "{operations:?}");
    server.wait_until("ready", || text(&server.pattern("c"), "state") == "ready");
    assert!(begin.elapsed() > Duration::from_millis(1800), "it took {:?}", begin.elapsed());
    assert_eq!(server.docs("{find: 'c', limit: 1}").len(), 1);
}

#[test]
fn readers_see_what_a_build_has_not_derived_yet() {
    let server = Server::new();
    server.insert_many("c", 3000, "x: 2, p: 1");
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{createIndexes: 'c', indexes: [{key: {twice: 1}, name: 'twice'}]}");
    server.run("{create: 'v', viewOn: 'c', pipeline: []}");
    server.run("{create: 'w', viewOn: 'v', pipeline: [{$match: {x: 2}}]}");
    server.run("{createPatterns: 'c', wait: false, patterns: [{name: 'd', kind: 'computed', fields: {twice: {$multiply: ['$x', 2]}}, backfill: {rate: 500, batch: 50}}]}");
    server.run("{createPatterns: 'p', wait: false, patterns: [{name: 's', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$twice'}}, backfill: {rate: 500, batch: 50}}]}");
    // By `_id`, by a filter with an index, counted, grouped and joined.
    for _ in 0..3 {
        let last = server.docs("{find: 'c', filter: {_id: 2999}}").pop().expect("is there");
        assert_eq!(whole(&last, "twice"), 4);
        assert_eq!(whole(&server.run("{count: 'c', query: {twice: 4}}"), "n"), 3000);
        let hinted =
            server.docs("{find: 'c', filter: {twice: 4, _id: {$gt: 2990}}, hint: 'twice'}");
        assert_eq!(hinted.len(), 9);
        let parents = server.docs("{find: 'p', sort: {_id: 1}}");
        assert_eq!((whole(&parents[0], "s"), whole(&parents[1], "s")), (12_000, 0));
        // By views, of views too.
        let seen = server.docs("{find: 'v', filter: {_id: 2999}}").pop().expect("is there");
        assert_eq!(whole(&seen, "twice"), 4);
        let seen = server.docs("{aggregate: 'w', pipeline: [{$match: {_id: 2998}}], cursor: {}}");
        assert_eq!(whole(&seen[0], "twice"), 4);
        server.run("{update: 'c', updates: [{q: {_id: 2999}, u: {$inc: {y: 1}}}]}");
    }
    let states = server.docs("{listPatterns: 1}");
    assert!(states.iter().all(|doc| text(doc, "state") == "building"), "{states:?}");
    server.wait_until("ready", || {
        server.docs("{listPatterns: 1}").iter().all(|doc| text(doc, "state") == "ready")
    });
    assert_eq!(whole(&server.run("{count: 'c', query: {twice: 4}}"), "n"), 3000);
    assert_eq!(whole(&server.docs("{find: 'p', filter: {_id: 1}}")[0], "s"), 12_000);
    assert!(server.0.check(&mut |_, _, _| {}).expect("can be read").is_empty());
}

#[test]
fn readers_see_through_what_is_built_to_what_is_not_yet() {
    let server = Server::new();
    server.insert_many("c", 1000, "x: 2, p: 1");
    server.run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{createPatterns: 'c', wait: false, patterns: [{name: 'd', kind: 'computed', fields: {twice: {$multiply: ['$x', 2]}}, backfill: {rate: 50, batch: 10}}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 's', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$twice'}}}]}");
    assert_eq!(text(&server.pattern("p"), "state"), "ready");
    assert_eq!(text(&server.pattern("c"), "state"), "building");
    for filter in ["{}", "{_id: 1}", "{s: {$gt: 3999}}"] {
        let parents = server.docs(&format!("{{find: 'p', filter: {filter}, sort: {{_id: 1}}}}"));
        assert_eq!(whole(&parents[0], "s"), 4000, "{filter}");
    }
    assert_eq!(text(&server.pattern("c"), "state"), "building");
}

#[test]
fn what_follows_later_follows_once_and_can_be_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = Storage::Disk(folder.path().to_owned());
    let server = Server(Engine::open(Options { storage, ..Options::default() }).expect("opens"));
    server.run("{insert: 'p', documents: [{_id: 1, name: 'a'}, {_id: 2, name: 'b'}]}");
    // A schedule that does not come round shows that only readers who ask for it wait.
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}}, mode: {every: '1d'}, maxStalenessMS: 1}]}");
    server.run("{createPatterns: 'c', patterns: [{name: 'r', kind: 'extendedReference', ref: 'p', from: 'p', into: 'who', fields: ['name'], mode: {async: {maxLagMS: 100}}}]}");
    server.run("{insert: 'c', documents: [{_id: 1, p: 1}, {_id: 2, p: 1}, {_id: 3, p: 2}]}");
    server.run("{delete: 'c', deletes: [{q: {_id: 2}, limit: 1}]}");
    let n = |more: &str| -> Vec<i64> {
        let docs = server.docs(&format!("{{find: 'p', sort: {{_id: 1}}{more}}}"));
        docs.iter().map(|doc| whole(doc, "n")).collect()
    };
    assert_eq!(n(""), [0, 0]);
    std::thread::sleep(Duration::from_millis(5));
    let listed = server.pattern("p");
    assert_eq!(whole(&listed, "pending"), 2, "{listed:?}");
    assert!(whole(&listed, "lagMS") > 0 && listed.as_doc().get("overdue") == Some(Val::Bool(true)));
    assert!(matches!(listed.as_doc().get("asOf"), Some(Val::DateTime(_))), "{listed:?}");
    let report = server.run("{validatePatterns: 'p'}");
    let report = report.as_doc().get("patterns").and_then(Val::as_array).and_then(RawDoc::first);
    let report = DocBuf::from(report.and_then(|(_, report)| report.as_doc()).expect("a report"));
    assert_eq!((whole(&report, "drift"), whole(&report, "stale")), (0, 2), "{report:?}");
    assert_eq!(n(", readConcern: {patterns: 'fresh'}"), [1, 1]);
    assert_eq!(whole(&server.pattern("p"), "pending"), 0);
    // Through views, and where another collection brings the parents in.
    server.run("{create: 'few', viewOn: 'p', pipeline: [{$match: {_id: 2}}]}");
    server.run("{create: 'fewer', viewOn: 'few', pipeline: [{$project: {n: 1}}]}");
    let through = [
        "{find: 'few', readConcern: {patterns: 'fresh'}}",
        "{aggregate: 'fewer', pipeline: [], cursor: {}, readConcern: {patterns: 'fresh'}}",
        "{aggregate: 'c', pipeline: [{$match: {_id: 3}}, {$lookup: {from: 'fewer', localField: 'p', foreignField: '_id', as: 'of'}}, \
         {$project: {n: {$first: '$of.n'}}}], cursor: {}, readConcern: {patterns: 'fresh'}}",
    ];
    for (number, read) in (0..).zip(through) {
        server.run(&format!("{{insert: 'c', documents: [{{_id: {}, p: 2}}]}}", 10 + number));
        assert_eq!(n(""), [1, 1 + number], "nobody has asked yet");
        assert_eq!(whole(&server.docs(read)[0], "n"), 2 + number, "{read}");
    }
    // Those that follow soon do so by themselves.
    server.run("{update: 'p', updates: [{q: {_id: 1}, u: {$set: {name: 'new'}}}]}");
    server.wait_until("followed", || {
        server.docs("{find: 'c', filter: {'who.name': 'new'}}").len() == 1
    });
    assert_eq!(server.try_run("{find: 'p', readConcern: {patterns: 'old'}}").map(drop), Err(2));
    server.0.close().expect("closes");
}

#[test]
fn what_a_suspended_pattern_missed_is_seen_and_made_up_for() {
    let server = Server::new();
    server.insert_many("c", 100, "x: 2");
    server.run("{createPatterns: 'c', patterns: [{name: 'd', kind: 'computed', fields: {twice: {$multiply: ['$x', 2]}}}]}");
    // Repairing what drifted is tested beside `verify`: here the pattern is built again.
    server.run("{suspendPatterns: 'c', names: ['d']}");
    server.run("{update: 'c', updates: [{q: {_id: {$lt: 5}}, u: {$set: {x: 7}}, multi: true}]}");
    let report = server.run("{validatePatterns: 'c', names: ['d']}");
    assert!(format!("{report:?}").contains("\"drift\": Int32(5)"), "{report:?}");
    server.run("{resumePatterns: 'c', names: ['d']}");
    let report = server.run("{validatePatterns: 'c', names: ['d']}");
    assert!(format!("{report:?}").contains("\"drift\": Int32(0)"), "{report:?}");
}

#[test]
fn modes_that_make_no_sense_are_refused_by_name() {
    let server = Server::new();
    let declare = |body: &str| {
        server
            .try_run(&format!("{{createPatterns: 'c', patterns: [{{name: 'x', {body}}}]}}"))
            .map(drop)
    };
    let fold = "kind: 'computed', from: 'o', on: {foreign: 'c'}, fields: {n: {$count: {}}}";
    for (body, code) in [
        ("kind: 'computed', fields: {a: '$b'}, mode: {async: {}}".to_owned(), 2),
        (
            "kind: 'tree', strategy: 'pointer', maintain: {depth: 'd'}, mode: {every: '1h'}"
                .to_owned(),
            2,
        ),
        (format!("{fold}, mode: {{every: 'soon'}}"), 2),
        (format!("{fold}, mode: {{async: {{maxLagMS: 0}}}}"), 2),
        (format!("{fold}, mode: {{async: {{lag: 5}}}}"), 2),
        (format!("{fold}, mode: 'later'"), 2),
        (format!("{fold}, maxStalenessMS: 5"), 2),
        (format!("{fold}, backfill: {{rate: 0}}"), 2),
        (format!("{fold}, backfill: {{rate: 'fast'}}"), 2),
        (format!("{fold}, duringBuild: 'wait'"), 2),
    ] {
        assert_eq!(declare(&body), Err(code), "{body}");
    }
    assert_eq!(declare(&format!("{fold}, mode: {{async: {{}}}}, maxStalenessMS: 5")), Ok(()));
}

#[test]
fn changes_that_patterns_make_may_be_shown() {
    let server = Server::new();
    server.run("{insert: 'p', documents: [{_id: 1}]}");
    server.run("{createPatterns: 'p', patterns: [{name: 'n', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {n: {$count: {}}}, changeEvents: 'flagged'}]}");
    let mut client = server.0.connect(motifdb::Peer::default());
    let mut run = |text: &str| {
        let command = ejson::parse_doc(text).expect("test text");
        client.run_command("t", command.as_doc()).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    let opened = run("{aggregate: 'p', pipeline: [{$changeStream: {}}], cursor: {}}");
    let cursor = opened.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
    let id = cursor.get("id").and_then(Val::as_i64_exact).expect("an id");
    run("{insert: 'c', documents: [{_id: 1, p: 1}]}");
    run("{modifyPattern: 'p', name: 'n', set: {changeEvents: 'none'}}");
    run("{update: 'p', updates: [{q: {_id: 1}, u: {$set: {name: 'mine'}}}]}");
    run("{modifyPattern: 'p', name: 'n', set: {changeEvents: 'flagged'}}");
    let more = run(&format!("{{getMore: NumberLong({id}), collection: 'p', maxTimeMS: 5000}}"));
    let shown = format!("{more:?}");
    assert_eq!(shown.matches("\"patternUpdate\": Bool(true)").count(), 1, "{shown}");
    assert_eq!(shown.matches("\"operationType\": String(\"update\")").count(), 2, "{shown}");
}
