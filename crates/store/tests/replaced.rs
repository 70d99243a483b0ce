//! Large values that are replaced all the time: older versions leave memory, and nobody notices who
//! may still read them.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{memory_folder, tiny};
use store::{Batch, DiskStore, Options, Seqno, Snapshot, Space, Store};

const VALUE_BYTES: usize = 70_000;
const KEY: &[u8] = b"\0\0\0\x01k";

/// Flushes come only when they are asked for, and no past is so long that it must be kept.
fn removing() -> Options {
    Options {
        sync_interval: Duration::from_secs(3600),
        memtable_bytes: 1 << 20,
        segment_bytes: 1 << 20,
        history_bytes: 0,
        ..tiny()
    }
}

fn value(number: u64) -> Vec<u8> {
    let mut value = vec![7; VALUE_BYTES];
    value[100..108].copy_from_slice(&number.to_be_bytes());
    value
}

fn write(store: &dyn Store, number: u64) -> Seqno {
    let mut batch = Batch::new();
    batch.put(Space::Catalog, b"last", &number.to_be_bytes());
    batch.put(Space::Documents, KEY, &value(number));
    store.write(&batch).unwrap()
}

/// The number of the version that a snapshot sees; the small and the large value must agree.
fn version(snapshot: &Snapshot) -> u64 {
    let last = snapshot.get(Space::Catalog, b"last").unwrap().unwrap();
    let last = u64::from_be_bytes((*last).try_into().unwrap());
    let found = snapshot.get(Space::Documents, KEY).unwrap();
    assert!(found.as_deref() == Some(&*value(last)), "version {last}");
    last
}

fn open(folder: &Path) -> DiskStore {
    DiskStore::open(folder, removing()).unwrap()
}

fn memory(store: &DiskStore) -> u64 {
    store.stats().space(Space::Documents).memtable_bytes
}

#[test]
fn replaced_versions_take_no_memory_and_no_table() {
    let folder = memory_folder();
    let store = open(folder.path());
    store.keep_since(Some(store.snapshot().seqno()));
    let seqnos: Vec<Seqno> = (0..100).map(|number| write(&store, number)).collect();
    assert!(memory(&store) < (1 << 20) / 4 + 3 * VALUE_BYTES as u64, "{}", memory(&store));
    assert_eq!(store.stats().flushes, 0);
    assert_eq!(version(&store.snapshot()), 99);
    assert!(store.snapshot_at(seqnos[10]).is_none(), "its value is gone");
    // The last ones are there.
    assert_eq!(version(&store.snapshot_at(seqnos[98]).unwrap()), 98);
    store.checkpoint().unwrap();
    assert_eq!(memory(&store), 0);
    assert!(store.snapshot_at(seqnos[10]).is_none());
    let disk = store.stats().space(Space::Documents).disk_bytes;
    assert!(disk < 10 * VALUE_BYTES as u64, "{disk}");
    assert_eq!(version(&store.snapshot()), 99);
    drop(store);
    assert_eq!(version(&open(folder.path()).snapshot()), 99);
}

#[test]
fn recovery_makes_the_newest_version_from_the_log() {
    let folder = memory_folder();
    let store = open(folder.path());
    let last = (0..100).map(|number| write(&store, number)).last().unwrap();
    store.sync(last).unwrap();
    assert_eq!(store.stats().flushes, 0);
    drop(store);
    let store = open(folder.path());
    assert_eq!(version(&store.snapshot()), 99);
    assert!(memory(&store) < 3 * VALUE_BYTES as u64, "{}", memory(&store));
}

#[test]
fn an_open_snapshot_keeps_its_version() {
    let folder = memory_folder();
    let store = open(folder.path());
    (0..5).for_each(|number| _ = write(&store, number));
    let snapshot = store.snapshot();
    (5..100).for_each(|number| _ = write(&store, number));
    assert_eq!(version(&snapshot), 4);
    store.checkpoint().unwrap();
    (100..200).for_each(|number| _ = write(&store, number));
    assert_eq!(version(&snapshot), 4);
    assert_eq!(version(&store.snapshot()), 199);
}

#[test]
fn slow_changes_keep_the_past() {
    let folder = memory_folder();
    // With a past of 100 MB within ten seconds, 7 MB are few.
    let options = Options { history_bytes: 100 << 20, memtable_bytes: 4 << 20, ..removing() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    store.keep_since(Some(store.snapshot().seqno()));
    let seqnos: Vec<Seqno> = (0..40).map(|number| write(&store, number)).collect();
    for (number, seqno) in seqnos.iter().enumerate() {
        assert_eq!(version(&store.snapshot_at(*seqno).unwrap()), number as u64);
    }
}

#[test]
fn readers_beside_a_writer_see_whole_commits() {
    const COMMITS: u64 = 3000;
    let folder = memory_folder();
    let store = open(folder.path());
    store.keep_since(Some(store.snapshot().seqno()));
    let (newest, done) = (AtomicU64::new(write(&store, 0)), AtomicBool::new(false));
    std::thread::scope(|threads| {
        for reader in 0..2 {
            let (store, newest, done) = (&store, &newest, &done);
            threads.spawn(move || {
                let mut held: Vec<(Snapshot, u64)> = Vec::new();
                let mut round = reader;
                while !done.load(Ordering::Acquire) {
                    round += 1;
                    let back = round % 5;
                    let snapshot = match back {
                        0 => Some(store.snapshot()),
                        _ => store.snapshot_at(newest.load(Ordering::Acquire) - back),
                    };
                    // Before the first commit there is nothing.
                    let Some(snapshot) = snapshot.filter(|snapshot| {
                        snapshot.get(Space::Catalog, b"last").unwrap().is_some()
                    }) else {
                        continue;
                    };
                    let seen = version(&snapshot);
                    held.push((snapshot, seen));
                    if held.len() > 8 {
                        let (snapshot, seen) = held.remove((round % 8) as usize);
                        assert_eq!(version(&snapshot), seen);
                    }
                }
            });
        }
        for number in 1..COMMITS {
            newest.store(write(&store, number), Ordering::Release);
            if number % 500 == 0 {
                store.checkpoint().unwrap();
            }
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(version(&store.snapshot()), COMMITS - 1);
}
