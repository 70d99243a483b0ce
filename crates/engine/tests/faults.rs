//! What a failing disk does to commands: a full one stops writes with a clear error and nothing is
//! half done, a broken one stops writes for good; reads go on in both cases. And a sweep: power
//! goes at every write and flush of the log, and what was acknowledged is there afterwards.

use faults::{Fault, FaultPlan, FaultStore};
use motifdb::{Engine, Options, Result};
use std::sync::Arc;
use value::{Code, DocBuf, Val, ejson};

fn open(folder: &std::path::Path, plan: &Arc<FaultPlan>) -> Result<Engine> {
    let options = store::Options { segment_bytes: 64 << 10, ..store::Options::default() };
    let store = FaultStore::open(folder, options, plan.clone())
        .map_err(|error| motifdb::Error::new(Code::INTERNAL_ERROR, error.to_string()))?;
    Engine::with_store(Options::default(), Box::new(store))
}

fn run(engine: &Engine, command: &str) -> Result<DocBuf> {
    let command = ejson::parse_doc(command).expect("the command is written well");
    engine.run_command("test", command.as_doc())
}

/// Inserts a document with an indexed field; the error of the command or of its statement.
fn insert(engine: &Engine, id: i32) -> Result<()> {
    let text = "x".repeat(2000);
    let reply =
        run(engine, &format!("{{insert: 'c', documents: [{{_id: {id}, a: {id}, t: '{text}'}}]}}"))?;
    match reply.as_doc().get("n").and_then(Val::as_i64_exact) {
        Some(1) => Ok(()),
        _ => Err(motifdb::Error::new(Code::INTERNAL_ERROR, format!("{reply:?}"))),
    }
}

fn count(engine: &Engine, filter: &str) -> i64 {
    let reply = run(engine, &format!("{{count: 'c', query: {filter}}}")).expect("reads go on");
    reply.as_doc().get("n").and_then(Val::as_i64_exact).expect("a count has n")
}

fn assert_valid(engine: &Engine, what: &str) {
    let findings = engine.check(&mut |_, _, _| {}).expect("the folder can be checked");
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

#[test]
fn a_full_disk_stops_writes_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::new(Fault::NoSpace, 4);
    let engine = open(folder.path(), &plan).unwrap();
    run(&engine, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}").unwrap();
    let mut inserted = 0;
    let refused = loop {
        match insert(&engine, inserted) {
            Ok(()) => inserted += 1,
            Err(error) => break error,
        }
        assert!(inserted < 10_000, "the disk never became full");
    };
    assert_eq!(refused.code(), Code::OUT_OF_DISK_SPACE, "{refused}");
    assert!(refused.message().contains("full"), "{refused}");
    // Nothing of the refused document is there, and reads go on.
    assert_eq!(count(&engine, "{}"), i64::from(inserted));
    assert_eq!(count(&engine, &format!("{{a: {inserted}}}")), 0);
    let update =
        run(&engine, "{update: 'c', updates: [{q: {_id: 0}, u: {$set: {a: -1}}}]}").unwrap();
    assert!(update.as_doc().find("writeErrors").is_some(), "{update:?}");
    assert_eq!(count(&engine, "{a: -1}"), 0);
    // With room again, writes go on where they stopped, when the store has noticed.
    plan.make_room();
    let begun = std::time::Instant::now();
    while let Err(error) = insert(&engine, inserted) {
        assert_eq!(error.code(), Code::OUT_OF_DISK_SPACE, "{error}");
        assert!(begun.elapsed().as_secs() < 60, "{error}");
    }
    assert_eq!(count(&engine, "{}"), i64::from(inserted) + 1);
    assert_valid(&engine, "after the disk was full");
    engine.close().unwrap();
}

#[test]
fn compact_can_be_ended_while_it_waits_for_the_fsync_lock() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), &FaultPlan::none()).unwrap();
    insert(&engine, 1).unwrap();
    let admin = |command: &str| {
        let command = ejson::parse_doc(command).unwrap();
        engine.run_command("admin", command.as_doc()).unwrap()
    };
    admin("{fsync: 1, lock: true}");
    let error = run(&engine, "{compact: 'c', force: true, maxTimeMS: 50}").unwrap_err();
    assert_eq!(error.code(), Code::MAX_TIME_MS_EXPIRED, "{error}");
    admin("{fsyncUnlock: 1}");
    run(&engine, "{compact: 'c', force: true, maxTimeMS: 60000}").unwrap();
    assert_eq!(count(&engine, "{}"), 1);
    engine.close().unwrap();
}

#[test]
fn on_a_full_disk_the_change_log_gives_way_first() {
    let folder = tempfile::tempdir().unwrap();
    // Before memory is flushed for the first time, because flushing recycles segments.
    let plan = FaultPlan::new(Fault::NoSpace, 22);
    let options = store::Options { segment_bytes: 1 << 20, ..store::Options::default() };
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    let engine = Engine::with_store(Options::default(), Box::new(store)).unwrap();
    let log_bytes = || {
        let command = ejson::parse_doc("{collStats: 'oplog.rs'}").unwrap();
        let reply = engine.run_command("local", command.as_doc()).unwrap();
        reply.as_doc().get("size").and_then(Val::as_i64_exact).unwrap()
    };
    // Compressed it would not be shorter.
    let mut number = 1_u64;
    let letter = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'0' + (number >> 58) as u8)
    };
    let text: String = std::iter::repeat_with(letter).take(1_000_000).collect();
    let text = text.replace(['\\', '\''], "x");
    let mut inserted = 0;
    let refused = loop {
        assert!(inserted < 1000, "the disk never became full");
        let insert = format!("{{insert: 'c', documents: [{{_id: {inserted}, t: '{text}'}}]}}");
        match run(&engine, &insert) {
            Ok(_) => inserted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Code::OUT_OF_DISK_SPACE, "{refused}");
    assert!(inserted > 17, "{inserted}");
    // Housekeeping halves it until little is left. No document has to go.
    let begun = std::time::Instant::now();
    while log_bytes() > 14 << 20 {
        assert!(begun.elapsed().as_secs() < 60, "{} bytes of changes", log_bytes());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(count(&engine, "{}"), i64::from(inserted));
    engine.close().unwrap();
}

#[test]
fn a_broken_disk_acknowledges_nothing_and_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let plan = FaultPlan::new(Fault::FailSync, 12);
    let engine = open(folder.path(), &plan).unwrap();
    let mut inserted = 0;
    while insert(&engine, inserted).is_ok() {
        inserted += 1;
        assert!(inserted < 10_000, "the flush never failed");
    }
    assert!(insert(&engine, 100_000).is_err(), "nothing is acknowledged after a failed flush");
    assert!(count(&engine, "{}") >= i64::from(inserted));
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power_at_any_write() {
    for fault in [Fault::TearWrite, Fault::ForgetBeforeSync, Fault::StopAfterSync] {
        let mut fired = 0;
        for nth in 1.. {
            let folder = tempfile::tempdir().unwrap();
            let plan = FaultPlan::new(fault, nth);
            let what = format!("{fault:?} at {nth}");
            let mut acknowledged = 0;
            let (mut indexed, mut done) = (false, false);
            if let Ok(engine) = open(folder.path(), &plan) {
                let index =
                    "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1', unique: true}]}";
                indexed = run(&engine, index).is_ok();
                while acknowledged < 12 && insert(&engine, acknowledged).is_ok() {
                    acknowledged += 1;
                }
                done = !plan.fired();
                // The power is gone: nothing that happens from here on reaches the disk.
                plan.lose_power();
            }
            let engine = open(folder.path(), &FaultPlan::none()).expect(&what);
            for id in 0..acknowledged {
                assert_eq!(count(&engine, &format!("{{_id: {id}}}")), 1, "{what}: {id} is lost");
                if indexed {
                    assert_eq!(
                        count(&engine, &format!("{{a: {id}}}")),
                        1,
                        "{what}: {id} in the index"
                    );
                }
            }
            let stored = count(&engine, "{}");
            assert!(stored <= i64::from(acknowledged) + 1, "{what}: {stored} documents");
            assert_valid(&engine, &what);
            if done {
                break;
            }
            fired += 1;
        }
        assert!(fired > 10, "{fault:?} was tried only {fired} times");
    }
}
