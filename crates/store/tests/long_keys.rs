//! Keys that are longer than the trees take: their order, bounds and values are those of a plain map.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use common::memory_folder;
use proptest::prelude::*;
use store::{
    Batch, Bytes, Direction, DiskStore, MemoryStore, Options, Snapshot, Space, Store, stored_entry,
};

/// Both ends of a range of keys.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const SPACE: Space = Space::Indexes;
/// Where the trees cut a key.
const CUT: usize = store::MAX_KEY_BYTES - 32;

/// A key: short, about as long as the trees take, or much longer with one of few beginnings.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop::collection::vec(prop_oneof![Just(0_u8), Just(7), Just(255)], 0..4);
    let length = prop_oneof![
        Just(1_usize),
        CUT - 2..CUT + 3,
        store::MAX_KEY_BYTES - 1..store::MAX_KEY_BYTES + 2,
        Just(CUT + 100),
        Just(CUT + 300),
        Just(200_000)
    ];
    (0_u8..2, length, tail).prop_map(|(first, length, tail)| {
        let mut key = vec![0, 0, 0, 9, first];
        key.resize(4 + length, 7);
        key.extend(tail);
        key
    })
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// All entries between two bounds, read in one of three ways.
fn entries(
    snapshot: &Snapshot,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
    way: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut range = snapshot.range(SPACE, from, to, direction).unwrap();
    let mut found = Vec::new();
    match way {
        0 => {
            while let Some((key, value)) = range.next().unwrap() {
                found.push((key.to_vec(), value.to_vec()));
                let own = range.own().unwrap();
                assert_eq!(own.0.as_slice(), found.last().unwrap().0);
                assert_eq!(range.own_value().unwrap(), own.1);
            }
        }
        1 => {
            while let Some((key, value)) = range.next_entry().unwrap() {
                found.push((key.to_vec(), value.to_vec()));
            }
        }
        _ => {
            while let Some(block) = range.lend_block().unwrap() {
                found.extend(block.map(|(key, value)| (key.to_vec(), value.to_vec())));
            }
        }
    }
    if direction == Direction::Reverse {
        found.reverse();
    }
    found
}

/// The same of the plain map.
fn expected(model: &Model, (from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inside = |key: &Vec<u8>| {
        (match from {
            Bound::Included(from) => key.as_slice() >= from,
            Bound::Excluded(from) => key.as_slice() > from,
            Bound::Unbounded => true,
        }) && match to {
            Bound::Included(to) => key.as_slice() <= to,
            Bound::Excluded(to) => key.as_slice() < to,
            Bound::Unbounded => true,
        }
    };
    let entries = model.iter().filter(|(key, _)| inside(key));
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A failure shows lengths and ends, not hundreds of kilobytes.
fn same(found: &[(Vec<u8>, Vec<u8>)], expected: &[(Vec<u8>, Vec<u8>)]) {
    let brief = |entries: &[(Vec<u8>, Vec<u8>)]| {
        let of = |(key, value): &(Vec<u8>, Vec<u8>)| {
            (key[4], key.len(), key[key.len().saturating_sub(4)..].to_vec(), value.clone())
        };
        entries.iter().map(of).collect::<Vec<_>>()
    };
    assert!(found == expected, "found {:?}\nexpected {:?}", brief(found), brief(expected));
}

fn check(snapshot: &Snapshot, model: &Model, keys: &[Vec<u8>], bounds: &[Bounds]) {
    for key in keys {
        let found = snapshot.get(SPACE, key).unwrap();
        assert_eq!(found.as_deref(), model.get(key).map(Vec::as_slice));
        let found = snapshot.get_to_write(SPACE, key).unwrap();
        assert_eq!(found.as_deref(), model.get(key).map(Vec::as_slice));
    }
    let whole = (Bound::Unbounded, Bound::Unbounded);
    for (from, to) in bounds.iter().chain([&whole]) {
        let bounds = (as_slice(from), as_slice(to));
        for (way, direction) in
            (0..3).flat_map(|way| [(way, Direction::Forward), (way, Direction::Reverse)])
        {
            same(&entries(snapshot, bounds, direction, way), &expected(model, bounds));
        }
    }
}

fn tiny() -> Options {
    Options { memtable_bytes: 1 << 20, cache_bytes: 1 << 20, ..Options::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn long_keys_are_in_the_order_of_plain_bytes(
        committed in prop::collection::vec((key(), any::<u8>(), prop::bool::weighted(0.8)), 1..24),
        own in prop::collection::vec((key(), any::<u8>(), any::<bool>()), 0..8),
        bounds in prop::collection::vec((bound(), bound()), 4),
        prefixed: bool,
    ) {
        let folder = memory_folder();
        let disk = DiskStore::open(folder.path(), tiny()).unwrap();
        let mut keys: Vec<Vec<u8>> = committed.iter().map(|(key, ..)| key.clone()).collect();
        keys.extend(own.iter().map(|(key, ..)| key.clone()));
        let mut bounds = bounds;
        if prefixed {
            // As the engine asks: all bounds within one prefix, so that pages are used.
            let (first, last) = (vec![0, 0, 0, 9], vec![0, 0, 0, 10]);
            for (from, to) in &mut bounds {
                if *from == Bound::Unbounded { *from = Bound::Included(first.clone()); }
                if *to == Bound::Unbounded { *to = Bound::Excluded(last.clone()); }
            }
            bounds.push((Bound::Included(first), Bound::Excluded(last)));
        }
        for store in [&disk as &dyn Store, &MemoryStore::new()] {
            let mut model = Model::new();
            for (key, value, live) in &committed {
                let mut batch = Batch::new();
                match live {
                    true => {
                        batch.put(SPACE, key, &[*value]);
                        model.insert(key.clone(), vec![*value]);
                    }
                    false => {
                        batch.delete(SPACE, key);
                        model.remove(key);
                    }
                }
                store.write(&batch).unwrap();
            }
            check(&store.snapshot(), &model, &keys, &bounds);
            let mut snapshot = store.snapshot();
            let before = model.clone();
            for (key, value, live) in &own {
                match live {
                    true => {
                        snapshot.put(SPACE, key.as_slice().into(), Bytes::copy_from(&[*value]));
                        model.insert(key.clone(), vec![*value]);
                    }
                    false => {
                        snapshot.delete(SPACE, key.as_slice().into());
                        model.remove(key);
                    }
                }
            }
            check(&snapshot, &model, &keys, &bounds);
            let old = store.snapshot();
            store.write(&snapshot.take_writes()).unwrap();
            store.checkpoint().unwrap();
            for _ in 0..2 {
                check(&store.snapshot(), &model, &keys, &bounds);
            }
            check(&old, &before, &keys, &bounds);
        }
        let whole = (Bound::Unbounded, Bound::Unbounded);
        let at_end = entries(&disk.snapshot(), whole, Direction::Forward, 0);
        drop(disk);
        let disk = DiskStore::open(folder.path(), tiny()).unwrap();
        same(&entries(&disk.snapshot(), whole, Direction::Forward, 0), &at_end);
    }
}

/// More than is kept in memory, with keys that agree for longer than is compared at once.
#[test]
fn a_group_larger_than_its_memory_is_sorted() {
    let folder = memory_folder();
    let disk = DiskStore::open(folder.path(), Options::default()).unwrap();
    let mut model = Model::new();
    let mut batch = Batch::new();
    for number in 0..48_u32 {
        let mut key = vec![0, 0, 0, 9];
        key.resize(1 << 20, 3);
        // Differs from others at several depths.
        for (at, bit) in (0..6).map(|bit| (CUT + 200 * (bit as usize + 1), bit)) {
            key[at] += (number >> bit & 1) as u8;
        }
        model.insert(key.clone(), number.to_be_bytes().to_vec());
        batch.put(SPACE, &key, &number.to_be_bytes());
    }
    disk.write(&batch).unwrap();
    let bounds: (Bound<&[u8]>, Bound<&[u8]>) =
        (Bound::Included(&[0, 0, 0, 9]), Bound::Excluded(&[0, 0, 0, 10]));
    for direction in [Direction::Forward, Direction::Reverse] {
        same(&entries(&disk.snapshot(), bounds, direction, 0), &expected(&model, bounds));
    }
}

#[test]
fn a_damaged_folder_gives_whole_keys() {
    let folder = memory_folder();
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    let key = |end: u8| {
        let mut key = vec![5; 100_000];
        key.push(end);
        key
    };
    for end in [1, 2] {
        let mut batch = Batch::new();
        batch.put(SPACE, &key(end), &[end]);
        disk.write(&batch).unwrap();
        if end == 1 {
            disk.checkpoint().unwrap();
        }
    }
    drop(disk);
    let mut found = Model::new();
    let salvage = store::Salvage::open(folder.path()).unwrap();
    salvage
        .read::<()>(SPACE, &mut |key, value, _| {
            found.insert(key.to_vec(), value.unwrap().to_vec());
            Ok(())
        })
        .unwrap();
    assert!(found == Model::from([(key(1), vec![1]), (key(2), vec![2])]));
}

#[test]
fn a_load_takes_the_stored_form() {
    let folder = memory_folder();
    let disk = DiskStore::open(folder.path(), tiny()).unwrap();
    for store in [&disk as &dyn Store, &MemoryStore::new()] {
        let mut model = Model::new();
        let mut stored = BTreeMap::new();
        for number in 0..20_u8 {
            let mut key = vec![0, 0, 0, 9];
            key.resize(CUT + 50 + usize::from(number % 3), 1);
            key.push(number);
            model.insert(key.clone(), vec![number]);
            let (key, value) = stored_entry(&key, &model[&key]);
            stored.insert(key.into_owned(), value.into_owned());
        }
        let load = store.load(SPACE, &[[0, 0, 0, 9]]).unwrap();
        // A commit during the load writes one of the keys, and another one.
        let mut batch = Batch::new();
        let first = model.keys().next().unwrap().clone();
        batch.put(SPACE, &first, b"new");
        store.write(&batch).unwrap();
        model.insert(first, b"new".to_vec());
        let loaded = stored.into_iter().map(|(key, value)| Ok((key.into(), value.into())));
        load.write(vec![Box::new(loaded)]).unwrap();
        load.finish().unwrap();
        let keys: Vec<_> = model.keys().cloned().collect();
        check(&store.snapshot(), &model, &keys, &[]);
    }
}
