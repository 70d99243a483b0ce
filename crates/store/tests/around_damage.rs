//! Blocks of tables are damaged at random places. What is not damaged stays readable and right,
//! nothing is left out silently, merging goes on, and so do writers.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::{Duration, Instant};

use common::{Model, apply, memory_folder, tiny};
use faults::{BackgroundWork, FaultPlan, FaultStore, damage_a_table};
use proptest::prelude::*;
use store::{Batch, Direction, DiskStore, Space, Store, StoreError};

const KEYS: u64 = 251;

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A small generator of numbers: values must not be compressible, or tables would have few blocks.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn key(number: u64) -> Vec<u8> {
    [&[0, 0, 0, 1][..], &number.to_be_bytes()].concat()
}

/// Puts and deletes at random places.
fn batch(random: &mut Random) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..4 {
        let place = key(random.next() % KEYS);
        if random.next().is_multiple_of(5) {
            batch.delete(Space::Documents, &place);
        } else {
            let value: Vec<u8> = (0..50).flat_map(|_| random.next().to_be_bytes()).collect();
            batch.put(Space::Documents, &place, &value);
        }
    }
    batch
}

fn write(
    store: &dyn Store,
    model: &mut Model,
    random: &mut Random,
    batches: usize,
) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for _ in 0..batches {
        let batch = batch(random);
        store.write(&batch).unwrap();
        apply(model, &batch);
        keys.extend(batch.operations().iter().map(|operation| operation.key.to_vec()));
    }
    keys
}

/// Reads every key. Returns those that cannot be read; fails if one is wrong.
fn unreadable(store: &dyn Store, model: &Model) -> BTreeSet<Vec<u8>> {
    let snapshot = store.snapshot();
    let mut keys = BTreeSet::new();
    for key in (0..KEYS).map(key) {
        match snapshot.get(Space::Documents, &key) {
            Ok(value) => {
                let expected = model.get(&(Space::Documents as u8, key.clone()));
                assert_eq!(value.as_deref(), expected.map(|value| &value[..]), "{key:?}");
            }
            Err(StoreError::Corrupt { .. }) => drop(keys.insert(key)),
            Err(error) => panic!("{error}"),
        }
    }
    // A scan finds everything, or it says that it cannot.
    for direction in [Direction::Forward, Direction::Reverse] {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut range = snapshot.range(Space::Documents, all.0, all.1, direction).unwrap();
        let mut found = 0;
        let end = loop {
            match range.next_entry() {
                Ok(Some((key, value))) => {
                    found += 1;
                    let expected = model.get(&(Space::Documents as u8, key.to_vec()));
                    assert_eq!(Some(&value[..]), expected.map(|value| &value[..]), "{key:?}");
                }
                end => break end,
            }
        };
        match end {
            Ok(_) => assert_eq!(found, model.len()),
            Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "{error}"),
        }
    }
    keys
}

/// What lies below the young tables when they are damaged.
#[derive(Clone, Copy)]
enum Start {
    OldTables,
    /// Nothing was ever merged.
    NoOldTables,
    /// All of it was dropped.
    OldTablesDropped,
}

fn check(start: Start, seed: u64) {
    let random = &mut Random(seed | 1);
    let folder = memory_folder();
    let mut model = Model::new();
    {
        let plan = FaultPlan::none();
        let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
        match start {
            Start::OldTables => {
                write(&store, &mut model, random, 1 + (seed % 40) as usize);
                store.checkpoint().unwrap();
                eventually("a first table is old", || {
                    store.stats().space(Space::Documents).young_tables == 0 || {
                        write(&store, &mut model, random, 5);
                        store.checkpoint().unwrap();
                        false
                    }
                });
            }
            Start::NoOldTables => plan.merges(BackgroundWork::Fail),
            Start::OldTablesDropped => {
                plan.merges(BackgroundWork::Fail);
                let mut batch = Batch::new();
                batch.put(Space::Documents, &[0, 0, 0, 3], &[1; 500]);
                store.write(&batch).unwrap();
                store.checkpoint().unwrap();
            }
        }
        if !seed.is_multiple_of(3) {
            // Many young tables.
            plan.merges(BackgroundWork::Fail);
        }
        write(&store, &mut model, random, 40 + (seed % 50) as usize);
        store.checkpoint().unwrap();
        if matches!(start, Start::OldTablesDropped) {
            let tables = store.stats().space(Space::Documents).tables;
            store.delete_range(Space::Documents, &[0, 0, 0, 3], &[0, 0, 0, 4]).unwrap();
            store.checkpoint().unwrap();
            eventually("the old table is gone", || {
                store.stats().space(Space::Documents).tables < tables
            });
        }
        store.close().unwrap();
    }
    for _ in 0..=seed % 3 {
        damage_a_table(folder.path(), Space::Documents, random.next());
    }
    let mut damaged: Option<BTreeSet<Vec<u8>>> = None;
    // The second time as after a restart: nobody knows what is damaged.
    for round in 0..2 {
        let store = DiskStore::open(folder.path(), tiny()).unwrap();
        let now = unreadable(&store, &model);
        if let Some(before) = &damaged {
            assert!(now.is_subset(before), "round {round}: more is unreadable");
        }
        let damaged = damaged.insert(now);
        for _ in 0..6 {
            for key in write(&store, &mut model, random, 25) {
                damaged.remove(&key);
            }
            let now = unreadable(&store, &model);
            assert!(now.is_subset(damaged), "round {round}: more is unreadable");
        }
        store.checkpoint().unwrap();
        eventually("merging goes on", || store.stats().space(Space::Documents).young_tables < 12);
        let now = unreadable(&store, &model);
        assert!(now.is_subset(damaged), "round {round}: more is unreadable after merging");
        store.close().unwrap();
    }
    // When all that is damaged is dropped, the tree is merged as any other.
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    store.delete_range(Space::Documents, &[0, 0, 0, 1], &[0, 0, 0, 2]).unwrap();
    store.checkpoint().unwrap();
    eventually("the damage is gone", || {
        let mut batch = Batch::new();
        batch.put(Space::Documents, &[0, 0, 0, 3], &[1]);
        store.write(&batch).unwrap();
        store.checkpoint().unwrap();
        store.verify(&mut |_, _| {}).unwrap().is_empty() && store.stats().merge_failures.is_empty()
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn damage_at_random_places_is_merged_around(seed in any::<u64>()) {
        check(Start::OldTables, seed);
    }

    #[test]
    fn damaged_young_tables_of_a_tree_without_old_ones_are_merged_around(seed in any::<u64>()) {
        check(Start::NoOldTables, seed);
    }

    #[test]
    fn damaged_young_tables_above_dropped_ones_are_merged_around(seed in any::<u64>()) {
        check(Start::OldTablesDropped, seed);
    }
}
