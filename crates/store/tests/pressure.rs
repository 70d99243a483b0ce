//! Writers while the disk is slower than they are: they are slowed down smoothly, never wait long,
//! and no tree gets more young tables than its format can count.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// A batch of one of 64 writers: 64 documents of 1 KiB.
fn large(writer: u64, number: u64) -> Batch {
    let mut batch = Batch::new();
    for part in 0..64_u64 {
        let key = [&[0, 0, 0, 2][..], &(writer << 32 | number << 8 | part).to_be_bytes()].concat();
        batch.put(Space::Documents, &key, &[part as u8; 1024]);
    }
    batch
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
    while memory(&store) < limit / 4 * 7 {
        let admission = store.admit(batch(number).bytes(), &|| true);
        store.write(&batch(number)).unwrap();
        drop(admission);
        store.pace(&|| true);
        apply(&mut model, &batch(number));
        number += 1;
    }
    let stats = store.stats();
    assert_eq!(stats.stalls, 0, "a writer was stopped");
    assert!(stats.pauses > 0, "writers were not slowed down");
    assert!(stats.longest_wait < Duration::from_secs(1), "{:?}", stats.longest_wait);
    assert!(plan.flushed_entries() > 0, "nothing was to be flushed");
    // Large commits already wait, as long as somebody wants them to; small ones do not.
    assert!(store.admit(17 << 10, &|| false).is_none());
    assert_eq!(store.stats().large_waits, 1);
    assert!(store.admit(16 << 10, &|| false).is_some());
    // Beyond the bound all wait, without locks.
    while memory(&store) <= limit / 2 * 5 {
        store.write(&batch(number)).unwrap();
        apply(&mut model, &batch(number));
        number += 1;
    }
    assert!(store.admit(1, &|| false).is_none());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _admission = store.admit(1, &|| true).unwrap();
            store.write(&batch(number)).unwrap();
            is_done.store(true, Ordering::Release);
        });
        eventually("the writer waits", || store.stats().stalls >= 2);
        assert!(!is_done.load(Ordering::Acquire));
        plan.flushes(BackgroundWork::Run);
    });
    apply(&mut model, &batch(number));
    assert!(is_done.load(Ordering::Acquire));
    eventually("there is room again", || store.admit(17 << 10, &|| false).is_some());
    assert_same(&store.snapshot(), &model);
}

#[test]
fn many_writers_of_large_batches_share_memory_and_leave_small_ones_alone() {
    const WRITERS: u64 = 64;
    let folder = memory_folder();
    let plan = FaultPlan::none();
    plan.flushes(BackgroundWork::Slow(Duration::from_micros(50)));
    plan.merges(BackgroundWork::Slow(Duration::from_micros(50)));
    let options = Options { memtable_bytes: 256 << 10, segment_bytes: 1 << 20, ..tiny() };
    let limit = options.memtable_bytes;
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    let most = AtomicU64::new(0);
    let left = AtomicU64::new(WRITERS);
    let small = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, most, left) = (&store, &most, &left);
            scope.spawn(move || {
                for number in 0..2 {
                    let batch = large(writer, number);
                    let admission = store.admit(batch.bytes(), &|| true);
                    store.write(&batch).unwrap();
                    drop(admission);
                    most.fetch_max(memory(store), Ordering::Relaxed);
                    store.pace(&|| true);
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while left.load(Ordering::Relaxed) > 0 {
                let batch = batch(small.fetch_add(1, Ordering::Relaxed));
                let admission = store.admit(batch.bytes(), &|| true);
                store.write(&batch).unwrap();
                drop(admission);
                store.pace(&|| true);
            }
        });
    });
    let stats = store.stats();
    // All of them at once would be sixteen times the memory.
    let most = most.load(Ordering::Relaxed);
    assert!(most <= limit * 4, "{most} of {limit}");
    assert!(stats.large_waits > 0, "nobody waited for memory");
    // What is small was slowed down at most, however many large batches waited.
    assert_eq!(stats.stalls, 0, "a small write was stopped");
    assert!(stats.longest_wait < Duration::from_secs(1), "{:?}", stats.longest_wait);
    assert!(small.load(Ordering::Relaxed) > 1);
    plan.flushes(BackgroundWork::Run);
    plan.merges(BackgroundWork::Run);
    for writer in 0..WRITERS {
        for operation in (0..2).flat_map(|number| large(writer, number).operations().to_vec()) {
            let found = store.snapshot().get(Space::Documents, &operation.key).unwrap();
            assert_eq!(found, operation.value);
        }
    }
}

#[test]
fn a_large_commit_that_is_killed_leaves_its_place_to_the_next() {
    let folder = memory_folder();
    let plan = FaultPlan::none();
    plan.flushes(BackgroundWork::Hold);
    let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
    let mut number = 0;
    while memory(&store) <= tiny().memtable_bytes / 4 * 7 {
        store.write(&batch(number)).unwrap();
        number += 1;
    }
    let is_wanted = AtomicBool::new(true);
    let looks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let look = || {
                looks.fetch_add(1, Ordering::Relaxed);
                is_wanted.load(Ordering::Acquire)
            };
            store.admit(17 << 10, &look).is_some()
        });
        eventually("it waits", || looks.load(Ordering::Relaxed) > 0);
        let second = scope.spawn(|| store.admit(17 << 10, &|| true).is_some());
        is_wanted.store(false, Ordering::Release);
        assert!(!first.join().unwrap());
        assert!(!second.is_finished());
        plan.flushes(BackgroundWork::Run);
        assert!(second.join().unwrap());
    });
    assert_eq!(store.stats().large_waits, 2);
}

#[test]
fn a_commit_that_was_not_admitted_can_be_ended_while_it_waits_for_memory() {
    let folder = memory_folder();
    let plan = FaultPlan::none();
    plan.flushes(BackgroundWork::Hold);
    let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
    let mut model = Model::new();
    let mut number = 0;
    let error = loop {
        // Nobody asks before it has to wait.
        match store.write_while(&batch(number), &|| false) {
            Ok(_) => apply(&mut model, &batch(number)),
            Err(error) => break error,
        }
        number += 1;
    };
    assert!(matches!(error, StoreError::Interrupted), "{error}");
    assert!(memory(&store) > tiny().memtable_bytes * 4 - (16 << 10));
    assert_eq!(store.stats().stalls, 1);
    assert_same(&store.snapshot(), &model);
    // One that is wanted goes on when memory is flushed.
    let (looks, number) = (AtomicU64::new(0), number + 1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let is_wanted = || looks.fetch_add(1, Ordering::Relaxed) < u64::MAX;
            store.write_while(&batch(number), &is_wanted).map(drop)
        });
        eventually("it waits", || looks.load(Ordering::Relaxed) > 0);
        plan.flushes(BackgroundWork::Run);
        writer.join().unwrap().unwrap();
    });
    apply(&mut model, &batch(number));
    assert_same(&store.snapshot(), &model);
}

#[test]
fn a_commit_can_be_ended_while_the_files_are_frozen() {
    let folder = memory_folder();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    store.freeze(&|| true).unwrap();
    for _ in 0..2 {
        let error = store.write_while(&batch(1), &|| false).unwrap_err();
        assert!(matches!(error, StoreError::Interrupted), "{error}");
        let error = store.compact(Space::Documents, &|| false).unwrap_err();
        assert!(matches!(error, StoreError::Interrupted), "{error}");
    }
    store.thaw();
    store.write_while(&batch(1), &|| false).unwrap();
    store.compact(Space::Documents, &|| true).unwrap();
    store.close().unwrap();
}

#[test]
fn compacting_can_be_ended_in_the_middle() {
    let folder = memory_folder();
    let plan = FaultPlan::none();
    let options = Options { memtable_bytes: 64 << 20, ..tiny() };
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    let mut model = Model::new();
    for part in 0..2 {
        for number in part * 40..part * 40 + 60 {
            store.write(&batch(number)).unwrap();
            apply(&mut model, &batch(number));
        }
        store.checkpoint().unwrap();
    }
    let tables = || store.stats().space(Space::Documents).tables;
    let before = tables();
    // Without an end it would take a quarter of an hour.
    plan.merges(BackgroundWork::Slow(Duration::from_secs(2)));
    let entries = plan.merged_entries();
    let is_wanted = || plan.merged_entries() == entries;
    let error = store.compact(Space::Documents, &is_wanted).unwrap_err();
    assert!(matches!(error, StoreError::Interrupted), "{error}");
    plan.merges(BackgroundWork::Run);
    assert_eq!(tables(), before);
    assert_same(&store.snapshot(), &model);
    store.compact(Space::Documents, &|| true).unwrap();
    assert_eq!(tables(), 1);
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
