//! New versions of patterns that are there, and strategies that are left to the database.

use super::*;

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
