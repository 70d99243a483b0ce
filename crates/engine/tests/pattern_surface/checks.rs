//! Writes that go past patterns, and checks that find and repair what is wrong.

use super::*;

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
