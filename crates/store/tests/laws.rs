//! The disk store, the memory store and a plain map agree, whatever is done to them.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::ops::Bound;

use common::{Model, apply, assert_same, scan_range, tiny};
use proptest::prelude::*;
use store::{Batch, Direction, DiskStore, MemoryStore, Snapshot, Space, Store, StoreError};

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u8, u8, Option<u16>)>),
    Snapshot,
    DropSnapshot(u8),
    Range(u8, Bound<u8>, Bound<u8>),
    Checkpoint,
    Sync,
    Reopen,
    CloseAndReopen,
}

fn bound() -> impl Strategy<Value = Bound<u8>> {
    prop_oneof![
        any::<u8>().prop_map(Bound::Included),
        any::<u8>().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let operation = (0..4_u8, any::<u8>(), prop::option::weighted(0.7, any::<u16>()));
    prop_oneof![
        12 => prop::collection::vec(operation, 1..24).prop_map(Step::Write),
        2 => Just(Step::Snapshot),
        1 => any::<u8>().prop_map(Step::DropSnapshot),
        3 => (0..4_u8, bound(), bound()).prop_map(|(space, from, to)| Step::Range(space, from, to)),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Sync),
        1 => Just(Step::Reopen),
        1 => Just(Step::CloseAndReopen),
    ]
}

fn key(number: u8) -> Vec<u8> {
    // Keys of several lengths that share prefixes.
    let mut key = vec![b'k', number / 16];
    key.extend(std::iter::repeat_n(number % 16, usize::from(number % 4)));
    key
}

fn value(number: u16) -> Vec<u8> {
    number.to_le_bytes().repeat(usize::from(number % 200))
}

fn batch_of(operations: &[(u8, u8, Option<u16>)]) -> Batch {
    let mut batch = Batch::new();
    for (space, number, content) in operations {
        let space = Space::from_number(*space).unwrap();
        match content {
            Some(content) => batch.put(space, &key(*number), &value(*content)),
            None => batch.delete(space, &key(*number)),
        }
    }
    batch
}

struct Held {
    disk: Snapshot,
    memory: Snapshot,
    model: Model,
}

fn run(steps: Vec<Step>) {
    let folder = common::memory_folder();
    let mut disk = DiskStore::open(folder.path(), tiny()).unwrap();
    let memory = MemoryStore::new();
    let mut model = Model::new();
    let mut held: Vec<Held> = Vec::new();
    for step in steps {
        match step {
            Step::Write(operations) => {
                let batch = batch_of(&operations);
                disk.write(&batch).unwrap();
                memory.write(&batch).unwrap();
                apply(&mut model, &batch);
            }
            Step::Snapshot => held.push(Held {
                disk: disk.snapshot(),
                memory: memory.snapshot(),
                model: model.clone(),
            }),
            Step::DropSnapshot(number) if !held.is_empty() => {
                let held = held.swap_remove(usize::from(number) % held.len());
                assert_same(&held.disk, &held.model);
                assert_same(&held.memory, &held.model);
            }
            Step::DropSnapshot(_) => {}
            Step::Range(space, from, to) => {
                let space = Space::from_number(space).unwrap();
                let (from, to) = (from.map(key), to.map(key));
                let (from, to) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
                for direction in [Direction::Forward, Direction::Reverse] {
                    let on_disk = scan_range(&disk.snapshot(), space, from, to, direction);
                    let in_memory = scan_range(&memory.snapshot(), space, from, to, direction);
                    assert_eq!(on_disk, in_memory);
                    let mut expected: Vec<_> = model
                        .iter()
                        .filter(|((number, key), _)| {
                            *number == space as u8 && above(from, key) && below(to, key)
                        })
                        .map(|((_, key), value)| (key.clone(), value.clone()))
                        .collect();
                    if direction == Direction::Reverse {
                        expected.reverse();
                    }
                    assert_eq!(on_disk, expected);
                }
            }
            Step::Checkpoint => disk.checkpoint().unwrap(),
            Step::Sync => disk.sync(disk.snapshot().seqno()).unwrap(),
            Step::Reopen | Step::CloseAndReopen => {
                for held in held.drain(..) {
                    assert_same(&held.disk, &held.model);
                }
                if matches!(step, Step::CloseAndReopen) {
                    disk.close().unwrap();
                    assert!(matches!(
                        disk.write(&batch_of(&[(0, 1, Some(1))])),
                        Err(StoreError::Closed)
                    ));
                }
                drop(disk);
                disk = DiskStore::open(folder.path(), tiny()).unwrap();
                assert_same(&disk.snapshot(), &model);
            }
        }
    }
    for held in &held {
        assert_same(&held.disk, &held.model);
        assert_same(&held.memory, &held.model);
    }
    assert_same(&disk.snapshot(), &model);
    assert_same(&memory.snapshot(), &model);
    assert_eq!(disk.verify(&mut |_, _| {}).unwrap(), vec![]);
}

fn above(bound: Bound<&[u8]>, key: &[u8]) -> bool {
    match bound {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    }
}

fn below(bound: Bound<&[u8]>, key: &[u8]) -> bool {
    match bound {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn disk_and_memory_agree_with_a_map(steps in prop::collection::vec(step(), 1..80)) {
        run(steps);
    }
}

#[test]
fn blocks_hold_what_single_steps_return() {
    let folder = common::memory_folder();
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    let memory = MemoryStore::new();
    let mut batch = Batch::new();
    for number in 0..1000_u32 {
        batch.put(Space::Documents, &number.to_be_bytes(), &[number as u8; 50]);
    }
    disk.write(&batch).unwrap();
    memory.write(&batch).unwrap();
    disk.checkpoint().unwrap();
    for snapshot in [disk.snapshot(), memory.snapshot()] {
        let mut range = snapshot
            .range(Space::Documents, Bound::Unbounded, Bound::Unbounded, Direction::Forward)
            .unwrap();
        let mut block = store::Block::new();
        let mut seen = 0;
        while range.next_block(&mut block, 64, 1 << 20).unwrap() {
            assert!(block.len() <= 64);
            for (key, value) in block.iter() {
                assert_eq!(key, u32::to_be_bytes(seen));
                assert_eq!(value, [seen as u8; 50]);
                seen += 1;
            }
        }
        assert!(block.is_empty());
        assert_eq!(seen, 1000);
        let mut range = snapshot
            .range(Space::Documents, Bound::Unbounded, Bound::Unbounded, Direction::Reverse)
            .unwrap();
        assert!(range.next_block(&mut block, 1000, 1).unwrap());
        assert_eq!(block.len(), 1, "a byte limit still gives one entry");
        assert_eq!(&*block.entries()[0].0, 999_u32.to_be_bytes());
    }
}

#[test]
fn limits_are_refused_before_anything_is_applied() {
    let folder = common::memory_folder();
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    for store in [&disk as &dyn Store, &MemoryStore::new()] {
        let mut batch = Batch::new();
        batch.put(Space::Documents, b"fine", b"1");
        batch.put(Space::Documents, b"", b"1");
        assert!(matches!(store.write(&batch), Err(StoreError::TooLarge { .. })));
        assert_eq!(store.snapshot().get(Space::Documents, b"fine").unwrap(), None);
        let mut batch = Batch::new();
        batch.put(Space::Documents, &vec![b'x'; store::MAX_KEY_BYTES], b"1");
        batch.put(Space::Documents, b"big", &vec![7; 3 << 20]);
        let seqno = store.write(&batch).unwrap();
        store.sync(seqno).unwrap();
        // Nothing to write is the newest state, which what moves memory to tables may have numbered.
        assert!(store.write(&Batch::new()).unwrap() >= seqno);
    }
    drop(disk);
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    let value = disk.snapshot().get(Space::Documents, b"big").unwrap().unwrap();
    assert_eq!(&*value, &vec![7; 3 << 20][..]);
}

#[test]
fn keys_and_bounds_of_any_length_may_be_asked_for() {
    let folder = common::memory_folder();
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    let longest = vec![b'm'; store::MAX_KEY_BYTES];
    let too_long = vec![b'm'; store::MAX_KEY_BYTES + 9];
    for store in [&disk as &dyn Store, &MemoryStore::new()] {
        let mut batch = Batch::new();
        for key in [b"a".as_slice(), b"z", &longest] {
            batch.put(Space::Documents, key, b"1");
        }
        store.write(&batch).unwrap();
        for round in 0..2 {
            let snapshot = store.snapshot();
            assert_eq!(snapshot.get(Space::Documents, b"").unwrap(), None);
            assert_eq!(snapshot.get(Space::Documents, &too_long).unwrap(), None);
            let count = |from: Bound<&[u8]>, to: Bound<&[u8]>| {
                let forward =
                    scan_range(&snapshot, Space::Documents, from, to, Direction::Forward).len();
                let reverse =
                    scan_range(&snapshot, Space::Documents, from, to, Direction::Reverse).len();
                assert_eq!(forward, reverse, "round {round}");
                forward
            };
            assert_eq!(count(Bound::Included(b""), Bound::Unbounded), 3);
            assert_eq!(count(Bound::Excluded(b""), Bound::Included(b"z")), 3);
            assert_eq!(count(Bound::Unbounded, Bound::Included(b"")), 0);
            assert_eq!(count(Bound::Included(&too_long), Bound::Unbounded), 1);
            assert_eq!(count(Bound::Excluded(&too_long), Bound::Unbounded), 1);
            assert_eq!(count(Bound::Unbounded, Bound::Excluded(&too_long)), 2);
            assert_eq!(count(Bound::Included(&longest), Bound::Included(&too_long)), 1);
            assert_eq!(count(Bound::Included(&too_long), Bound::Included(&longest)), 0);
            store.checkpoint().unwrap();
        }
    }
}

#[test]
fn lent_blocks_and_split_ranges_hold_every_entry_once() {
    let folder = common::memory_folder();
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    for store in [&disk as &dyn Store, &MemoryStore::new()] {
        let mut batch = Batch::new();
        for number in 0..5000_u64 {
            batch.put(Space::Documents, &[&[0, 0, 0, 7], &number.to_be_bytes()[..]].concat(), &[1]);
        }
        store.write(&batch).unwrap();
        let snapshot = store.snapshot();
        let (from, to) = ([0, 0, 0, 7], [0, 0, 0, 8]);
        let mut bounds = vec![from.to_vec()];
        let cuts = snapshot.split(Space::Documents, &from, &to, 4).unwrap();
        assert_eq!(cuts.len(), 3);
        bounds.extend(cuts.iter().map(|key| key.to_vec()));
        bounds.push(to.to_vec());
        let mut next = 0_u64;
        for pair in bounds.windows(2) {
            let (from, to) = (Bound::Included(&pair[0][..]), Bound::Excluded(&pair[1][..]));
            let mut range = snapshot.range(Space::Documents, from, to, Direction::Forward).unwrap();
            let before = next;
            while let Some(block) = range.lend_block().unwrap() {
                assert!(block.len() > 0);
                for (key, value) in block {
                    assert_eq!((&key[4..], value), (&next.to_be_bytes()[..], &[1_u8][..]));
                    next += 1;
                }
            }
            assert!((500..2500).contains(&(next - before)), "{}", next - before);
        }
        assert_eq!(next, 5000);
        assert!(snapshot.split(Space::Documents, &[9], &[10], 4).unwrap().is_empty());
    }
}

#[test]
fn a_folder_is_opened_once() {
    let folder = common::memory_folder();
    let first = DiskStore::open(folder.path(), tiny()).unwrap();
    let error = DiskStore::open(folder.path(), tiny()).err().unwrap();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    drop(first);
    DiskStore::open(folder.path(), tiny()).unwrap();
}

#[test]
fn read_only_reads_the_log_and_refuses_writes() {
    let folder = common::memory_folder();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    let batch = batch_of(&[(1, 5, Some(9))]);
    let seqno = store.write(&batch).unwrap();
    store.sync(seqno).unwrap();
    drop(store);
    let names = || {
        let mut names: Vec<_> = walk(folder.path());
        names.sort();
        names
    };
    let before = names();
    let options = store::Options { read_only: true, ..tiny() };
    let store = DiskStore::open(folder.path(), options.clone()).unwrap();
    assert_eq!(
        store.snapshot().get(Space::Documents, &key(5)).unwrap().as_deref(),
        Some(&value(9)[..])
    );
    assert!(matches!(store.write(&batch), Err(StoreError::ReadOnly)));
    assert_eq!(store.verify(&mut |_, _| {}).unwrap(), vec![]);
    drop(store);
    assert_eq!(names(), before);
    let nowhere = folder.path().join("nothing");
    assert!(DiskStore::open(&nowhere, options).is_err());
    assert!(!nowhere.exists());
}

fn walk(folder: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    files
}

#[test]
fn dropped_ranges_give_their_space_back() {
    let folder = common::memory_folder();
    let options = store::Options { memtable_bytes: 1 << 20, ..tiny() };
    let store = DiskStore::open(folder.path(), options.clone()).unwrap();
    let fill = |prefix: u8| {
        for chunk in 0..20_u8 {
            let mut batch = Batch::new();
            for number in 0..200_u8 {
                let value: Vec<u8> = (0..500_u32)
                    .map(|i| (i * 7919 + u32::from(number) * 31 + u32::from(chunk)) as u8)
                    .collect();
                batch.put(Space::Documents, &[prefix, chunk, number], &value);
            }
            store.write(&batch).unwrap();
        }
    };
    for prefix in 1..=3 {
        fill(prefix);
    }
    store.checkpoint().unwrap();
    let full = store.approximate_range_bytes(Space::Documents, &[2], &[3]);
    assert!(full > 500_000, "{full}");
    store.delete_range(Space::Documents, &[2], &[3]).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while store.approximate_range_bytes(Space::Documents, &[2], &[3]) > 0 {
        assert!(std::time::Instant::now() < deadline, "the range is still there");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let snapshot = store.snapshot();
    for prefix in [1, 3] {
        assert!(snapshot.get(Space::Documents, &[prefix, 3, 3]).unwrap().is_some());
    }
    drop(snapshot);
    store.close().unwrap();
    drop(store);
    let store = DiskStore::open(folder.path(), options).unwrap();
    let snapshot = store.snapshot();
    let left = common::scan(&snapshot, Space::Documents, Direction::Forward);
    assert_eq!(left.len(), 2 * 20 * 200);
}
