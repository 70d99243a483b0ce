//! Statements that change many documents, while others write the same ones: nothing is lost, and
//! nothing is done twice.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use motifdb::value::{DocBuf, Val, ejson};
use motifdb::{Engine, Options};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

const DOCUMENTS: i64 = 3000;

fn run(engine: &Engine, command: &str) -> DocBuf {
    let command = ejson::parse_doc(command).unwrap();
    engine.run_command("test", command.as_doc()).unwrap()
}

fn number(reply: &DocBuf, name: &str) -> i64 {
    reply.as_doc().get(name).and_then(Val::as_i64_exact).unwrap()
}

fn filled() -> Engine {
    let engine = Engine::open(Options::default()).unwrap();
    let docs: Vec<String> =
        (0..DOCUMENTS).map(|id| format!("{{_id: {id}, n: 0, m: 0, k: {id}}}")).collect();
    run(&engine, &format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
    engine
}

/// The sums of two fields over all documents, and how many documents there are.
fn sums(engine: &Engine) -> (i64, i64, i64) {
    let reply = run(
        engine,
        "{aggregate: 'c', cursor: {}, pipeline: [{$group: {_id: null, n: {$sum: '$n'}, m: {$sum: '$m'}, c: {$sum: 1}}}]}",
    );
    let batch = reply.as_doc().get("cursor").and_then(Val::as_doc).unwrap().get("firstBatch");
    let first = batch.and_then(Val::as_array).unwrap().iter().next().unwrap().1.as_doc().unwrap();
    let of = |name| first.get(name).and_then(Val::as_i64_exact).unwrap();
    (of("n"), of("m"), of("c"))
}

#[test]
fn no_increment_is_lost_beside_writers_of_single_documents() {
    let engine = filled();
    let stop = AtomicBool::new(false);
    let single = AtomicI64::new(0);
    let mut many = 0;
    std::thread::scope(|scope| {
        for seed in 1..3_i64 {
            let (engine, stop, single) = (&engine, &stop, &single);
            scope.spawn(move || {
                let mut id = seed;
                while !stop.load(Ordering::Relaxed) {
                    id = (id * 7919 + seed) % DOCUMENTS;
                    let update = format!(
                        "{{update: 'c', updates: [{{q: {{_id: {id}}}, u: {{$inc: {{n: 1, m: 1}}}}}}]}}"
                    );
                    single.fetch_add(number(&run(engine, &update), "nModified"), Ordering::Relaxed);
                }
            });
        }
        for _ in 0..15 {
            let update = "{update: 'c', updates: [{q: {}, u: {$inc: {n: 1}}, multi: true}]}";
            let reply = run(&engine, update);
            assert_eq!(number(&reply, "n"), DOCUMENTS);
            many += number(&reply, "nModified");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let single = single.load(Ordering::Relaxed);
    assert_eq!(sums(&engine), (many + single, single, DOCUMENTS));
}

#[test]
fn what_stops_matching_in_between_is_left_alone() {
    let engine = filled();
    // Each is either claimed by the one statement or changed by many others, never both.
    std::thread::scope(|scope| {
        for start in 0..2 {
            let engine = &engine;
            scope.spawn(move || {
                for id in (start..DOCUMENTS).rev().step_by(2) {
                    let update = format!(
                        "{{update: 'c', updates: [{{q: {{_id: {id}, n: 0}}, u: {{$inc: {{n: 1}}}}}}]}}"
                    );
                    run(engine, &update);
                }
            });
        }
        let update = "{update: 'c', updates: [{q: {n: 0}, u: {$inc: {n: 1, m: 1}}, multi: true}]}";
        let reply = run(&engine, update);
        let (_, marked, _) = sums(&engine);
        assert_eq!(number(&reply, "nModified"), marked);
    });
    let (changed, _, count) = sums(&engine);
    assert_eq!((changed, count), (DOCUMENTS, DOCUMENTS));
}

#[test]
fn a_unique_key_that_one_document_gives_up_another_takes() {
    let engine = filled();
    run(&engine, "{createIndexes: 'c', indexes: [{key: {k: 1}, name: 'k', unique: true}]}");
    // From the highest down, so that each takes what the one before it gave up.
    let update = "{update: 'c', updates: [{q: {k: {$gte: 0}}, u: {$inc: {k: -1}}, multi: true}]}";
    assert_eq!(number(&run(&engine, update), "nModified"), DOCUMENTS);
    let found = run(&engine, "{count: 'c', query: {k: {$gte: -1, $lt: 2999}}, hint: 'k'}");
    assert_eq!(number(&found, "n"), DOCUMENTS);
    let found = run(&engine, "{validate: 'c'}");
    assert_eq!(found.as_doc().get("valid"), Some(Val::Bool(true)));
}

#[test]
fn deletes_and_updates_of_many_meet_each_document_once() {
    let engine = filled();
    let (mut updated, mut deleted) = (0, 0);
    std::thread::scope(|scope| {
        let deleting = scope
            .spawn(|| run(&engine, "{delete: 'c', deletes: [{q: {k: {$mod: [3, 0]}}, limit: 0}]}"));
        for _ in 0..5 {
            let update = "{update: 'c', updates: [{q: {}, u: {$inc: {n: 1}}, multi: true}]}";
            updated += number(&run(&engine, update), "nModified");
        }
        deleted += number(&deleting.join().unwrap(), "n");
    });
    let (sum, _, count) = sums(&engine);
    assert_eq!((deleted, count), (DOCUMENTS / 3, DOCUMENTS - DOCUMENTS / 3));
    assert!(sum == count * 5 && updated >= sum, "{sum} {updated}");
}
