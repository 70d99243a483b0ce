//! Many threads at once: group commit, isolation while memory is flushed and tables are merged.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{scan, tiny};
use store::{Batch, Direction, DiskStore, MemoryStore, Options, Space, Store};

#[test]
fn writers_share_flushes() {
    const WRITERS: u64 = 16;
    const EACH: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let options = Options { sync_interval: Duration::from_secs(3600), ..Options::default() };
    let store = DiskStore::open(folder.path(), options.clone()).unwrap();
    // All have written before the first one flushes: where a flush takes no time they would hardly
    // meet by chance.
    let written = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, written) = (&store, &written);
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut batch = Batch::new();
                    let key = [writer.to_be_bytes(), number.to_be_bytes()].concat();
                    batch.put(Space::Documents, &key, &[1; 100]);
                    let seqno = store.write(&batch).unwrap();
                    written.wait();
                    store.sync(seqno).unwrap();
                    assert!(store.stats().durable >= seqno);
                }
            });
        }
    });
    let stats = store.stats();
    assert_eq!(stats.writes, WRITERS * EACH);
    assert_eq!(stats.synced_batches, WRITERS * EACH);
    assert!(stats.syncs < stats.writes / 2, "{} flushes for {} batches", stats.syncs, stats.writes);
    drop(store);
    let store = DiskStore::open(folder.path(), options).unwrap();
    let entries = scan(&store.snapshot(), Space::Documents, Direction::Forward);
    assert_eq!(entries.len() as u64, WRITERS * EACH);
}

/// Every batch moves an amount between accounts, in two spaces at once; whatever a snapshot sees,
/// the sums agree, and it sees the same twice. Goes on for so long and until `enough` has happened.
fn isolation(store: &dyn Store, time: Duration, enough: &dyn Fn() -> bool) {
    const ACCOUNTS: u64 = 50;
    let mut batch = Batch::new();
    for account in 0..ACCOUNTS {
        batch.put(Space::Documents, &account.to_be_bytes(), &1000_u64.to_be_bytes());
        batch.put(Space::Indexes, &account.to_be_bytes(), &1000_u64.to_be_bytes());
    }
    store.write(&batch).unwrap();
    let stop = AtomicBool::new(false);
    let checks = AtomicU64::new(0);
    let commit = std::sync::Mutex::new(());
    let read = |snapshot: &store::Snapshot, account: u64| {
        let value = snapshot.get_to_write(Space::Documents, &account.to_be_bytes());
        let value = value.unwrap().unwrap();
        u64::from_be_bytes((*value).try_into().unwrap())
    };
    std::thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (stop, commit, read) = (&stop, &commit, &read);
            scope.spawn(move || {
                let mut random = writer + 1;
                while !stop.load(Ordering::Relaxed) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    let (from, to) = ((random >> 33) % ACCOUNTS, (random >> 45) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    let _lock = commit.lock().unwrap();
                    let snapshot = store.snapshot();
                    let (a, b) = (read(&snapshot, from), read(&snapshot, to));
                    let amount = a.min(random % 10);
                    let mut batch = Batch::new();
                    for space in [Space::Documents, Space::Indexes] {
                        batch.put(space, &from.to_be_bytes(), &(a - amount).to_be_bytes());
                        batch.put(space, &to.to_be_bytes(), &(b + amount).to_be_bytes());
                    }
                    // Something that comes and goes, so that merging has work.
                    batch.put(Space::Log, &random.to_be_bytes(), &[0; 200]);
                    let seqno = store.write(&batch).unwrap();
                    assert!(seqno > snapshot.seqno());
                }
            });
        }
        for reader in 0..3_u64 {
            let (stop, checks) = (&stop, &checks);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let direction =
                        if reader == 0 { Direction::Reverse } else { Direction::Forward };
                    let documents = scan(&snapshot, Space::Documents, direction);
                    if reader == 2 {
                        std::thread::sleep(Duration::from_millis(30));
                    }
                    let indexes = scan(&snapshot, Space::Indexes, direction);
                    assert_eq!(documents, indexes);
                    let sum: u64 = documents
                        .iter()
                        .map(|(_, value)| u64::from_be_bytes(value[..].try_into().unwrap()))
                        .sum();
                    assert_eq!(sum, ACCOUNTS * 1000);
                    for (key, value) in &documents {
                        let got = snapshot.get(Space::Documents, key).unwrap();
                        assert_eq!(got.as_deref(), Some(&value[..]));
                        let got = snapshot.get_to_write(Space::Documents, key).unwrap();
                        assert_eq!(got.as_deref(), Some(&value[..]));
                    }
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // At least so long, and until enough was seen: that takes longer on a slow machine.
        let begun = Instant::now();
        let done = || checks.load(Ordering::Relaxed) > 20 && enough();
        while begun.elapsed() < time || (!done() && begun.elapsed() < Duration::from_secs(60)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(checks.load(Ordering::Relaxed) > 20);
}

#[test]
fn snapshots_are_isolated_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    let enough = || {
        let stats = store.stats();
        stats.flushes > 5 && stats.compactions > 2
    };
    isolation(&store, Duration::from_secs(3), &enough);
    assert!(enough(), "{:?}", store.stats());
    assert_eq!(store.verify(&mut |_, _| {}).unwrap(), vec![]);
}

#[test]
fn snapshots_are_isolated_in_memory() {
    isolation(&MemoryStore::new(), Duration::from_secs(1), &|| true);
}

#[test]
fn the_log_is_released_and_reopening_is_quick() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memtable_bytes: 256 << 10, segment_bytes: 64 << 10, ..tiny() };
    let store = DiskStore::open(folder.path(), options.clone()).unwrap();
    for number in 0..2000_u32 {
        let mut batch = Batch::new();
        batch.put(Space::Documents, &number.to_be_bytes(), &[7; 1000]);
        store.write(&batch).unwrap();
    }
    store.checkpoint().unwrap();
    let stats = store.stats();
    assert!(stats.log_segments <= 1, "{stats:?}");
    // The active segment, the one that is ready behind it, and spares for one memtable.
    assert!(stats.log_bytes <= (2 + 4) * (64 << 10), "{stats:?}");
    assert_eq!(stats.space(Space::Documents).memtable_bytes, 0);
    store.close().unwrap();
    drop(store);
    let start = Instant::now();
    let store = DiskStore::open(folder.path(), options).unwrap();
    assert!(start.elapsed() < Duration::from_secs(15));
    let bytes = store.approximate_range_bytes(Space::Documents, &[0], &[0xff]);
    assert!(bytes > 10_000, "{bytes}");
    assert_eq!(scan(&store.snapshot(), Space::Documents, Direction::Forward).len(), 2000);
}

/// Who makes room after each write finds some, however much it writes: it is held back hardly ever, and
/// so are others.
#[test]
fn who_makes_room_is_hardly_ever_held_back() {
    const WRITES: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memtable_bytes: 64 << 10, ..tiny() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    for number in 0..WRITES {
        let mut batch = Batch::new();
        batch.put(Space::Documents, &number.to_be_bytes(), &[7; 8 << 10]);
        store.write(&batch).unwrap();
        store.make_room();
    }
    // Fifty times what memory may hold. A busy machine may be slow for longer than anybody waits.
    let stalls = store.stats().stalls;
    assert!(stalls < WRITES / 20, "{stalls} of {WRITES} writes");
    // It waits for a moment, not for ever: a store that is closed has nothing to wait for.
    store.close().unwrap();
    let begun = Instant::now();
    store.make_room();
    assert!(begun.elapsed() < Duration::from_secs(10));
}
