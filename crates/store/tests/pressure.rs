//! Writers while the disk is slower than they are: they are slowed down smoothly, never wait long,
//! and no tree gets more young tables than its format can count.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Model, apply, assert_same, memory_folder, tiny};
use faults::{BackgroundWork, FaultPlan, FaultStore};
use store::{Batch, DiskStore, Options, Space, Store, StoreError};

/// Waits for something that background threads do.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A batch of four documents that overwrites keys all over the range.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    for part in 0..4_u64 {
        let key = [&[0, 0, 0, 1][..], &((number * 7 + part * 61) % 251).to_be_bytes()].concat();
        batch.put(Space::Documents, &key, &[number as u8; 400]);
    }
    batch
}

fn memory(store: &dyn Store) -> u64 {
    store.stats().spaces.iter().map(|space| space.memtable_bytes).sum()
}

#[test]
fn writers_go_on_while_flushing_stands_still_until_memory_is_used_up() {
    let folder = memory_folder();
    let plan = FaultPlan::none();
    plan.flushes(BackgroundWork::Hold);
    let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
    let limit = tiny().memtable_bytes;
    let mut model = Model::new();
    let mut number = 0;
    while memory(&store) < limit / 2 * 5 {
        store.write(&batch(number)).unwrap();
        store.pace(&|| true);
        apply(&mut model, &batch(number));
        number += 1;
    }
    let stats = store.stats();
    assert_eq!(stats.stalls, 0, "a writer was stopped");
    assert!(stats.pauses > 0, "writers were not slowed down");
    assert!(stats.longest_wait < Duration::from_secs(1), "{:?}", stats.longest_wait);
    assert!(plan.flushed_entries() > 0, "nothing was to be flushed");
    // Beyond the bound they wait, without locks and as long as somebody wants them to.
    while memory(&store) <= limit * 3 {
        store.write(&batch(number)).unwrap();
        apply(&mut model, &batch(number));
        number += 1;
    }
    assert!(!store.admit(&|| false));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(store.admit(&|| true));
            store.write(&batch(number)).unwrap();
            is_done.store(true, Ordering::Release);
        });
        eventually("the writer waits", || store.stats().stalls >= 2);
        assert!(!is_done.load(Ordering::Acquire));
        plan.flushes(BackgroundWork::Run);
    });
    apply(&mut model, &batch(number));
    assert!(is_done.load(Ordering::Acquire));
    assert!(store.admit(&|| false), "there is room again");
    assert_same(&store.snapshot(), &model);
}

#[test]
fn slow_flushes_slow_writers_down_and_stop_none() {
    let folder = memory_folder();
    let plan = FaultPlan::none();
    // A flush of a megabyte takes about a second.
    plan.flushes(BackgroundWork::Slow(Duration::from_micros(200)));
    let options = Options { memtable_bytes: 1 << 20, segment_bytes: 1 << 20, ..tiny() };
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..1000 {
                    store.write(&batch(number * 4 + writer)).unwrap();
                    store.pace(&|| true);
                }
            });
        }
    });
    let stats = store.stats();
    assert!(stats.flushes > 0);
    assert!(stats.pauses > 0, "writers were not slowed down");
    assert_eq!(stats.stalls, 0, "a writer was stopped");
    assert!(stats.longest_wait < Duration::from_secs(1), "{:?}", stats.longest_wait);
    plan.flushes(BackgroundWork::Run);
}

#[test]
fn a_flush_that_fails_stops_writers_only_when_memory_is_used_up() {
    let folder = memory_folder();
    let plan = FaultPlan::none();
    plan.flushes(BackgroundWork::Fail);
    let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
    let mut model = Model::new();
    let mut number = 0;
    let error = loop {
        match store.write(&batch(number)) {
            Ok(_) => apply(&mut model, &batch(number)),
            Err(error) => break error,
        }
        number += 1;
    };
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(memory(&store) > tiny().memtable_bytes * 4);
    plan.flushes(BackgroundWork::Run);
    eventually("writes go on", || store.write(&batch(number)).is_ok());
    apply(&mut model, &batch(number));
    assert_same(&store.snapshot(), &model);
}

#[test]
fn no_tree_gets_more_young_tables_than_its_format_can_count() {
    let folder = memory_folder();
    let plan = FaultPlan::none();
    plan.merges(BackgroundWork::Fail);
    let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
    let mut model = Model::new();
    let mut number = 0;
    let error = loop {
        let seqno = store.write(&batch(number)).unwrap();
        store.sync(seqno).unwrap();
        apply(&mut model, &batch(number));
        number += 1;
        if let Err(error) = store.checkpoint() {
            break error;
        }
        assert!(
            number < 300,
            "{} young tables",
            store.stats().space(Space::Documents).young_tables
        );
    };
    assert!(error.to_string().contains("injected"), "{error}");
    let young = store.stats().space(Space::Documents).young_tables;
    assert!((200..256).contains(&young), "{young} young tables");
    // What cannot be flushed is in the log.
    store.crash();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    assert_same(&store.snapshot(), &model);
    eventually("merging has caught up", || store.stats().space(Space::Documents).young_tables < 12);
    store.checkpoint().unwrap();
    assert_same(&store.snapshot(), &model);
}
