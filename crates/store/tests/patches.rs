//! Large values that change a little are short in the log, and are whole after every crash.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::time::Duration;

use common::{memory_folder, tiny};
use faults::{Fault, FaultPlan, FaultStore};
use store::{Batch, DiskStore, Options, Space, Store};

const KEYS: u64 = 2;
const BATCHES: u64 = 24;

/// Flushes come only when they are asked for.
fn quiet() -> Options {
    Options {
        sync_interval: Duration::from_secs(3600),
        memtable_bytes: 64 << 20,
        segment_bytes: 32 << 10,
        ..tiny()
    }
}

/// Replaced values leave memory soon.
fn removing() -> Options {
    Options { memtable_bytes: 512 << 10, history_bytes: 0, ..quiet() }
}

/// The value that batch `number` writes: most differ a little from the one before, some are replaced.
fn value(number: u64) -> Vec<u8> {
    let seed = number / 9;
    // Bytes that the log cannot compress.
    let noise = |at: u64| {
        let mixed = (at + seed * 1_000_003 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56) as u8
    };
    let mut value: Vec<u8> = (0..70_000).map(noise).collect();
    value[40_000..40_008].copy_from_slice(&number.to_be_bytes());
    value.splice(60_000..60_000, vec![7; (number % 5) as usize]);
    value.extend_from_slice(&number.to_be_bytes());
    value
}

fn key(number: u64) -> [u8; 8] {
    (number % KEYS).to_be_bytes()
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Space::Catalog, b"last", &number.to_be_bytes());
    // The same key twice in one batch now and then: the later one wins.
    if number % 4 == 3 {
        batch.put(Space::Documents, &key(number), &value(number + 1000));
    }
    if number % 11 == 10 {
        batch.delete(Space::Documents, &key(number));
    } else {
        batch.put(Space::Documents, &key(number), &value(number));
    }
    batch
}

/// Writes until a fault stops it; returns how many batches were acknowledged.
fn work(store: &dyn Store, from: u64) -> u64 {
    for number in from..BATCHES {
        let done = store.write(&batch(number)).and_then(|seqno| store.sync(seqno));
        if done.is_err() || (number % 10 == 9 && store.checkpoint().is_err()) {
            return number;
        }
    }
    BATCHES
}

/// Checks all values after a crash; returns how many batches are there.
fn check(folder: &Path, options: Options, acknowledged: u64, what: &str) -> u64 {
    let store = DiskStore::open(folder, options).unwrap_or_else(|e| panic!("{what}: {e}"));
    let snapshot = store.snapshot();
    let last = snapshot.get(Space::Catalog, b"last").unwrap();
    let present = last.map_or(0, |last| u64::from_be_bytes((*last).try_into().unwrap()) + 1);
    assert!(present >= acknowledged, "{what}: {acknowledged} acknowledged, {present} present");
    for at in 0..KEYS {
        let last = (0..present).rev().find(|number| number % KEYS == at);
        let expected = last.filter(|number| number % 11 != 10).map(value);
        let found = snapshot.get(Space::Documents, &at.to_be_bytes()).unwrap();
        assert!(found.as_deref() == expected.as_deref(), "{what}: key {at} of {present} batches");
    }
    assert_eq!(store.verify(&mut |_, _| {}).unwrap(), vec![], "{what}");
    present
}

#[test]
fn values_are_whole_after_a_crash_at_any_moment() {
    for fault in [Fault::TearWrite, Fault::ForgetBeforeSync, Fault::StopAfterSync] {
        for nth in 0.. {
            let folder = memory_folder();
            let plan = FaultPlan::new(fault, nth);
            let what = format!("{fault:?} at {nth}");
            let options = if nth.is_multiple_of(3) { removing() } else { quiet() };
            let Ok(store) = FaultStore::open(folder.path(), options, plan.clone()) else {
                assert!(plan.fired(), "{what}");
                continue;
            };
            let acknowledged = work(&store, 0);
            let done = !plan.fired();
            store.crash();
            // Recovery with little memory flushes between segments: then bases are in tables.
            let small = Options { memtable_bytes: 16 << 10, ..quiet() };
            let options = if nth.is_multiple_of(2) { quiet() } else { small };
            let present = check(folder.path(), options, acknowledged, &what);
            let again = FaultStore::open(folder.path(), quiet(), FaultPlan::none()).unwrap();
            assert_eq!(work(&again, present), BATCHES, "{what}");
            again.crash();
            check(folder.path(), quiet(), BATCHES, &what);
            if done {
                assert!(nth > 10, "{fault:?}");
                break;
            }
        }
    }
}

#[test]
fn a_small_change_of_a_large_value_writes_little() {
    let folder = memory_folder();
    let store = DiskStore::open(folder.path(), quiet()).unwrap();
    let write = |number: u64| {
        let mut batch = Batch::new();
        batch.put(Space::Documents, b"k", &value(number));
        store.write(&batch).unwrap();
        store.stats().log_written_bytes
    };
    let whole = write(0);
    assert!(whole > 70_000);
    let more = write(1) - whole;
    assert!(more < 1000, "{more} bytes for a change of some bytes");
    // A value that is in tables is no base: recovery could need a table to read the log.
    store.checkpoint().unwrap();
    let before = store.stats().log_written_bytes;
    assert!(write(2) - before > 70_000);
}
