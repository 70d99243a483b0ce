//! Reading the past: every commit since the one that is kept reads as it was, whatever was written,
//! flushed, merged and dropped since.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Model, apply, assert_same, tiny};
use proptest::prelude::*;
use store::{Batch, DiskStore, MemoryStore, Options, Seqno, Space, Store};

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    /// Keys to set, or to delete where the value is missing.
    Write(Vec<(u8, u8, Option<u16>)>),
    Checkpoint,
    /// Forget the oldest share of what is kept, in tenths.
    Forget(u8),
    /// Read as of the commit at this share of all.
    Read(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let entry = (1_u8..3, 0_u8..40, proptest::option::weighted(0.8, 0_u16..600));
    prop_oneof![
        8 => proptest::collection::vec(entry, 1..12).prop_map(Step::Write),
        1 => Just(Step::Checkpoint),
        1 => (0_u8..4).prop_map(Step::Forget),
        3 => any::<u8>().prop_map(Step::Read),
    ]
}

fn key(number: u8) -> Vec<u8> {
    let mut key = vec![0, 0, 0, 1 + number % 3];
    key.extend_from_slice(format!("key-{number:03}").as_bytes());
    key
}

fn run(store: &dyn Store, steps: &[Step]) {
    let mut model = Model::new();
    let first = store.stats().published;
    store.keep_since(Some(first));
    let mut states: Vec<(Seqno, Model)> = vec![(first, model.clone())];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Write(entries) => {
                let mut batch = Batch::new();
                for (space, name, length) in entries {
                    let space = Space::from_number(*space).unwrap();
                    match length {
                        Some(length) => {
                            let value = vec![number as u8; usize::from(*length)];
                            batch.put(space, &key(*name), &value);
                        }
                        None => batch.delete(space, &key(*name)),
                    }
                }
                let seqno = store.write(&batch).unwrap();
                apply(&mut model, &batch);
                states.push((seqno, model.clone()));
            }
            Step::Checkpoint => store.checkpoint().unwrap(),
            Step::Forget(tenths) => {
                let gone = states.len() * usize::from(*tenths) / 10;
                states.drain(..gone.min(states.len() - 1));
                store.keep_since(Some(states[0].0));
            }
            Step::Read(share) => {
                let (seqno, expected) = &states[usize::from(*share) * states.len() / 256];
                let snapshot = store.snapshot_at(*seqno).expect("it is kept");
                assert_eq!(snapshot.seqno(), *seqno);
                assert_same(&snapshot, expected);
            }
        }
    }
    for (seqno, expected) in &states {
        assert_same(&store.snapshot_at(*seqno).expect("it is kept"), expected);
    }
    assert_same(&store.snapshot(), &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_commit_that_is_kept_reads_as_it_was_on_disk(
        steps in proptest::collection::vec(step(), 20..250)
    ) {
        let folder = common::memory_folder();
        let options = Options { memtable_bytes: 6 << 10, page_bytes: 512, ..tiny() };
        let store = DiskStore::open(folder.path(), options).unwrap();
        run(&store, &steps);
    }

    #[test]
    fn every_commit_that_is_kept_reads_as_it_was_in_memory(
        steps in proptest::collection::vec(step(), 20..250)
    ) {
        run(&MemoryStore::new(), &steps);
    }
}

#[test]
fn a_key_with_thousands_of_versions_reads_at_each_of_them() {
    let folder = common::memory_folder();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    store.keep_since(Some(store.stats().published));
    let mut commits = Vec::new();
    for number in 0..5_000_u32 {
        let mut batch = Batch::new();
        batch.put(Space::Documents, b"\0\0\0\x01hot", &number.to_be_bytes());
        if number % 7 == 0 {
            batch.put(Space::Documents, b"\0\0\0\x01warm", &number.to_be_bytes());
        }
        commits.push(store.write(&batch).unwrap());
    }
    store.checkpoint().unwrap();
    for (number, seqno) in commits.iter().enumerate() {
        let snapshot = store.snapshot_at(*seqno).unwrap();
        let read = |key: &[u8]| {
            let value = snapshot.get(Space::Documents, key).unwrap().unwrap();
            u32::from_be_bytes(value[..].try_into().unwrap())
        };
        assert_eq!(read(b"\0\0\0\x01hot"), number as u32);
        assert_eq!(read(b"\0\0\0\x01warm"), number as u32 / 7 * 7);
    }
}

#[test]
fn what_is_not_kept_is_refused_and_costs_nothing() {
    let folder = common::memory_folder();
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    let memory = MemoryStore::new();
    for store in [&disk as &dyn Store, &memory] {
        let write = |value: &[u8]| {
            let mut batch = Batch::new();
            batch.put(Space::Documents, b"\0\0\0\x01a", value);
            store.write(&batch).unwrap()
        };
        let old = write(b"1");
        write(b"2");
        store.checkpoint().unwrap();
        write(b"3");
        assert!(store.snapshot_at(old).is_none(), "nothing was to be kept");
        store.keep_since(Some(store.stats().published));
        let kept = write(b"4");
        write(b"5");
        store.checkpoint().unwrap();
        let value = |seqno| {
            let snapshot: Option<store::Snapshot> = store.snapshot_at(seqno);
            snapshot.map(|s| s.get(Space::Documents, b"\0\0\0\x01a").unwrap().unwrap().to_vec())
        };
        assert_eq!(value(kept), Some(b"4".to_vec()));
        store.keep_since(None);
        write(b"6");
        store.checkpoint().unwrap();
        assert_eq!(value(kept), None);
        assert_eq!(store.stats().history_bytes, 0);
    }
}

#[test]
fn the_past_takes_no_more_than_it_may() {
    let folder = common::memory_folder();
    let limit = 64 << 10;
    let store = DiskStore::open(folder.path(), Options { history_bytes: limit, ..tiny() }).unwrap();
    store.keep_since(Some(store.stats().published));
    let mut last = 0;
    let mut first = None;
    for number in 0..3_000_u32 {
        let mut batch = Batch::new();
        let key = [&[0, 0, 0, 1][..], &(number % 50).to_be_bytes()].concat();
        // Bytes that do not become fewer by compression.
        let mut random = u64::from(number) + 1;
        let value: Vec<u8> = (0..200)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        batch.put(Space::Documents, &key, &value);
        last = store.write(&batch).unwrap();
        first.get_or_insert(last);
    }
    store.checkpoint().unwrap();
    // It is looked after behind every flush and every merge.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while store.stats().history_bytes > limit || store.snapshot_at(first.unwrap()).is_some() {
        assert!(std::time::Instant::now() < end, "{:?}", store.stats());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let newest = store.stats().published;
    assert!(store.snapshot_at(last).is_some(), "{last} of {newest}: {:?}", store.stats());
}

#[test]
fn readers_of_the_past_are_right_while_others_write() {
    let folder = common::memory_folder();
    let store = Arc::new(DiskStore::open(folder.path(), tiny()).unwrap());
    store.keep_since(Some(store.stats().published));
    // Every commit gives all keys the same value, so a mixture of two moments is seen.
    let commits = Arc::new(std::sync::Mutex::new(Vec::<(Seqno, u32)>::new()));
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|seed| {
            let (store, commits, done) = (store.clone(), commits.clone(), done.clone());
            std::thread::spawn(move || {
                let mut turn = seed;
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) {
                    turn = (turn * 31 + 17) % 1009;
                    let picked = {
                        let commits = commits.lock().unwrap();
                        let at = turn * commits.len() / 1009;
                        commits.get(at).copied()
                    };
                    let Some((seqno, number)) = picked else { continue };
                    let snapshot = store.snapshot_at(seqno).unwrap();
                    let entries =
                        common::scan(&snapshot, Space::Documents, store::Direction::Forward);
                    assert_eq!(entries.len(), 20);
                    for (_, value) in entries {
                        assert_eq!(value, number.to_be_bytes().repeat(10));
                    }
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    for number in 0..1_500_u32 {
        let mut batch = Batch::new();
        for name in 0..20 {
            batch.put(Space::Documents, &key(name), &number.to_be_bytes().repeat(10));
        }
        let seqno = store.write(&batch).unwrap();
        commits.lock().unwrap().push((seqno, number));
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
}
