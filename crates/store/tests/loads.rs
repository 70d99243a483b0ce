//! Loads beside commits: entries of a snapshot are brought in while commits go on to change what
//! they are made of. Afterwards they are exactly what the documents say, by range and by key.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use common::{Model, assert_same, scan, scan_range, tiny};
use faults::{FaultPlan, FaultStore};
use store::{
    Batch, Bytes, Direction, DiskStore, Entries, Load, MemoryStore, Options, Snapshot, Space,
    Store, StoreError,
};

const INDEX: [u8; 4] = [0, 0, 0, 7];

/// The key of the entry of a document with a value.
fn entry(value: u64, document: u64) -> Vec<u8> {
    [&INDEX[..], &value.to_be_bytes(), &document.to_be_bytes()].concat()
}

/// The entries that the documents of a snapshot make.
fn expected(snapshot: &Snapshot) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    for (key, value) in scan(snapshot, Space::Documents, Direction::Forward) {
        let document = u64::from_be_bytes(key[4..].try_into().unwrap());
        let value = u64::from_be_bytes(value[..8].try_into().unwrap());
        entries.insert(entry(value, document), value.to_be_bytes()[7..].to_vec());
    }
    entries
}

fn assert_right(snapshot: &Snapshot, gone: &[Vec<u8>]) {
    let expected = expected(snapshot);
    let whole: Vec<_> = expected.clone().into_iter().collect();
    assert_eq!(scan(snapshot, Space::Indexes, Direction::Forward), whole);
    for (key, value) in &whole {
        assert_eq!(snapshot.get(Space::Indexes, key).unwrap().as_deref(), Some(&value[..]));
    }
    for key in gone.iter().filter(|key| !expected.contains_key(*key)) {
        assert!(snapshot.get(Space::Indexes, key).unwrap().is_none());
        let mut end = key.clone();
        end.push(0);
        let bounds = (std::ops::Bound::Included(&key[..]), std::ops::Bound::Excluded(&end[..]));
        let found = scan_range(snapshot, Space::Indexes, bounds.0, bounds.1, Direction::Forward);
        assert!(found.is_empty());
    }
}

/// Documents that are changed at random, with their entries.
struct Writer<'s> {
    store: &'s dyn Store,
    state: Mutex<State>,
    documents: u64,
}

#[derive(Default)]
struct State {
    values: BTreeMap<u64, u64>,
    random: u64,
    /// Entries that were deleted at some time.
    gone: Vec<Vec<u8>>,
}

impl Writer<'_> {
    fn new(store: &dyn Store, documents: u64) -> Writer<'_> {
        Writer { store, state: Mutex::default(), documents }
    }

    /// Changes, adds or removes a few documents in one commit; `indexed` with their entries.
    fn step(&self, indexed: bool) {
        let mut state = self.state.lock().unwrap();
        let mut batch = Batch::new();
        for _ in 0..4 {
            let mut random = || {
                state.random = state.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.random >> 33
            };
            // Few values, so that entries come back that were deleted before.
            let (document, value, kind) = (random() % self.documents, random() % 3, random() % 4);
            let key = [&[0, 0, 0, 1][..], &document.to_be_bytes()].concat();
            if let Some(old) = state.values.remove(&document) {
                state.gone.push(entry(old, document));
                if indexed {
                    batch.delete(Space::Indexes, &entry(old, document));
                }
            }
            match kind {
                0 => batch.delete(Space::Documents, &key),
                _ => {
                    state.values.insert(document, value);
                    let stored = [&value.to_be_bytes()[..], &[1; 40]].concat();
                    batch.put(Space::Documents, &key, &stored);
                    if indexed {
                        let types = &value.to_be_bytes()[7..];
                        batch.put(Space::Indexes, &entry(value, document), types);
                    }
                }
            }
        }
        self.store.write(&batch).unwrap();
    }

    fn gone(&self) -> Vec<Vec<u8>> {
        self.state.lock().unwrap().gone.clone()
    }
}

fn parts<'a>(
    entries: &'a BTreeMap<Vec<u8>, Vec<u8>>,
    each: &'a (dyn Fn() + Sync),
) -> Vec<Entries<'a>> {
    let middle = entry(1, 0);
    let part = |from: Vec<u8>, to: Vec<u8>| -> Entries<'a> {
        Box::new(entries.range(from..to).map(move |(key, value)| {
            each();
            Ok((Bytes::copy_from(key), Bytes::copy_from(value)))
        }))
    };
    vec![part(entry(0, 0), middle.clone()), part(middle, entry(u64::MAX, 0))]
}

struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn load_beside_commits(store: &dyn Store, documents: u64) -> Vec<Vec<u8>> {
    let writer = Writer::new(store, documents);
    (0..documents).for_each(|_| writer.step(false));
    let stop = AtomicBool::new(false);
    let steps = AtomicU64::new(0);
    let stepped = (Mutex::new(()), Condvar::new());
    std::thread::scope(|scope| {
        // Also when a check fails.
        let _stop = StopAtEnd(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    writer.step(true);
                    steps.fetch_add(1, Ordering::Relaxed);
                    stepped.1.notify_all();
                }
            });
        }
        let wait_for = |count: u64| {
            let until = steps.load(Ordering::Relaxed) + count;
            let mut lock = stepped.0.lock().unwrap();
            while steps.load(Ordering::Relaxed) < until {
                lock = stepped.1.wait_timeout(lock, std::time::Duration::from_millis(1)).unwrap().0;
            }
        };
        wait_for(5);
        let load = store.load(Space::Indexes, &[INDEX]).unwrap();
        wait_for(5);
        let snapshot = store.snapshot();
        wait_for(documents / 4);
        let entries = expected(&snapshot);
        drop(snapshot);
        // Commits come between the entries, too.
        let passed = AtomicU64::new(0);
        let each = || {
            if passed.fetch_add(1, Ordering::Relaxed).is_multiple_of(50) {
                wait_for(1);
            }
        };
        load.write(parts(&entries, &each)).unwrap();
        wait_for(documents / 8);
        assert!(load.finish().unwrap() > 0);
        assert_right(&store.snapshot(), &writer.gone());
        wait_for(documents);
    });
    assert_right(&store.snapshot(), &writer.gone());
    writer.gone()
}

#[test]
fn entries_are_what_the_documents_say_on_disk() {
    // With little memory for the keys that commits write meanwhile they go through files.
    for (documents, noted_bytes) in [(20, 1 << 20), (400, 300), (3000, 1 << 20), (3000, 10_000)] {
        let folder = common::memory_folder();
        let options = Options { page_bytes: 200, noted_bytes, ..tiny() };
        let store = DiskStore::open(folder.path(), options.clone()).unwrap();
        let gone = load_beside_commits(&store, documents);
        store.checkpoint().unwrap();
        assert_right(&store.snapshot(), &gone);
        assert_eq!(store.verify(&mut |_, _| {}).unwrap(), vec![]);
        // Without a clean end: the log is read again.
        drop(store);
        let store = DiskStore::open(folder.path(), options).unwrap();
        assert_right(&store.snapshot(), &gone);
        store.close().unwrap();
    }
}

#[test]
fn entries_are_what_the_documents_say_in_memory() {
    load_beside_commits(&MemoryStore::new(), 400);
}

fn files(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder.join("indexes/tables")).unwrap().count()
}

#[test]
fn a_load_that_is_given_up_leaves_nothing() {
    let folder = common::memory_folder();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    let entries: BTreeMap<_, _> = (0..1000).map(|n| (entry(n % 3, n), vec![1])).collect();
    let load = store.load(Space::Indexes, &[INDEX]).unwrap();
    load.write(parts(&entries, &|| {})).unwrap();
    assert!(files(folder.path()) > 0);
    drop(load);
    // An error in the middle.
    let load = store.load(Space::Indexes, &[INDEX]).unwrap();
    let failing =
        entries.iter().take(500).map(|(key, _)| Ok((Bytes::copy_from(key), Bytes::default())));
    let failing = failing.chain([Err(StoreError::Full)]);
    let result = load.write(vec![Box::new(failing)]);
    assert!(matches!(result, Err(StoreError::Full)), "{result:?}");
    drop(load);
    // A key that no tree could hold.
    let load = store.load(Space::Indexes, &[INDEX]).unwrap();
    let long = [Ok((Bytes::from(vec![0; 70_000]), Bytes::default()))];
    let result = load.write(vec![Box::new(long.into_iter())]);
    assert!(matches!(result, Err(StoreError::TooLarge { .. })), "{result:?}");
    drop(load);
    assert_eq!(files(folder.path()), 0);
    assert!(scan(&store.snapshot(), Space::Indexes, Direction::Forward).is_empty());
}

/// Power goes before the tables are shown, or after that but before the next commit is on disk:
/// what was committed is there, whole, and a load can be done again behind another prefix.
#[test]
fn power_may_go_at_any_time() {
    for (shown, synced) in [(false, false), (true, false), (true, true)] {
        let folder = common::memory_folder();
        let options = Options { sync_interval: std::time::Duration::from_secs(3600), ..tiny() };
        let store = FaultStore::open(folder.path(), options, FaultPlan::none()).unwrap();
        let entries: BTreeMap<_, _> = (0..1000).map(|n| (entry(n % 3, n), vec![1])).collect();
        let mut model = Model::new();
        let load: Box<dyn Load> = store.load(Space::Indexes, &[INDEX]).unwrap();
        load.write(parts(&entries, &|| {})).unwrap();
        let mut batch = Batch::new();
        batch.delete(Space::Indexes, &entry(1, 1));
        batch.put(Space::Documents, b"0001x", b"y");
        let seqno = store.write(&batch).unwrap();
        store.sync(seqno).unwrap();
        common::apply(&mut model, &batch);
        if shown {
            load.finish().unwrap();
            let all = entries.iter().filter(|(key, _)| **key != entry(1, 1));
            model.extend(all.map(|(k, v)| ((Space::Indexes as u8, k.clone()), v.clone())));
        } else {
            drop(load);
        }
        if synced {
            let mut ready = Batch::new();
            ready.put(Space::Catalog, b"ready", b"");
            let seqno = store.write(&ready).unwrap();
            store.sync(seqno).unwrap();
            common::apply(&mut model, &ready);
        }
        store.crash();
        let store = DiskStore::open(folder.path(), tiny()).unwrap();
        if !shown {
            assert_eq!(files(folder.path()), 0);
        }
        if shown && !synced {
            // The prefix is of no use, since the deletes behind it may be lost; but nothing else is.
            store.delete_range(Space::Indexes, &INDEX, &[0, 0, 0, 8]).unwrap();
            let documents = scan(&store.snapshot(), Space::Documents, Direction::Forward);
            assert_eq!(documents, vec![(b"0001x".to_vec(), b"y".to_vec())]);
            continue;
        }
        assert_same(&store.snapshot(), &model);
    }
}
