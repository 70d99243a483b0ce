//! Background work that is behind, fails, or has nothing to do: writers go on, memory and disk stay
//! bounded, and the store can be closed.
#![allow(clippy::unwrap_used)]

mod common;

use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Model, apply, assert_same, tiny};
use faults::{BackgroundWork, Fault, FaultPlan, FaultStore, damage_table};
use store::{Batch, Direction, DiskStore, Options, Space, Store, StoreError};

/// Waits for something that background threads do.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A batch that overwrites keys all over the range, so that tables overlap.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    for part in 0..4_u64 {
        let key = [&[0, 0, 0, 1][..], &((number * 7 + part * 61) % 251).to_be_bytes()].concat();
        batch.put(Space::Documents, &key, &[number as u8; 400]);
        batch.put(Space::Indexes, &key, &[part as u8; 40]);
    }
    batch
}

fn write(store: &dyn Store, model: &mut Model, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let batch = batch(number);
        store.write(&batch).unwrap();
        store.pace(&|| true);
        apply(model, &batch);
    }
}

fn files(folder: &Path, space: Space) -> u64 {
    std::fs::read_dir(folder.join(space.name()).join("tables")).unwrap().count() as u64
}

/// Whether every table file belongs to a tree. Not so while a merge runs or has just ended.
fn only_files_of_trees(store: &dyn Store, folder: &Path) -> bool {
    let stats = store.stats();
    Space::ALL.iter().all(|space| files(folder, *space) == stats.space(*space).tables)
}

#[test]
fn nothing_is_flushed_when_there_is_nothing_to_flush() {
    let folder = tempfile::tempdir().unwrap();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    store.keep_since(Some(store.stats().published));
    write(&store, &mut Model::new(), 0..3);
    store.checkpoint().unwrap();
    let before = store.stats();
    for _ in 0..20 {
        store.checkpoint().unwrap();
    }
    let after = store.stats();
    assert_eq!(after.flushes, before.flushes);
    assert_eq!(after.history_states, before.history_states);
}

#[test]
fn writers_go_on_while_merging_stands_still() {
    let folder = common::memory_folder();
    let plan = FaultPlan::none();
    plan.merges(BackgroundWork::Hold);
    let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
    store.keep_since(Some(store.stats().published));
    let mut model = Model::new();
    write(&store, &mut model, 0..400);
    eventually("many young tables", || {
        let last = model.len() as u64;
        write(&store, &mut model, last..last + 20);
        store.stats().space(Space::Documents).young_tables > 60
    });
    let stats = store.stats();
    // Each flush has written about what fits into memory: nobody asks for more flushes than that.
    let flushed = stats.log_written_bytes / (tiny().memtable_bytes / 4);
    assert!(stats.flushes <= flushed, "{} flushes, expected at most {flushed}", stats.flushes);
    assert!(stats.pauses > 0, "writers were not slowed down");
    plan.merges(BackgroundWork::Run);
    eventually("merging has caught up", || store.stats().space(Space::Documents).young_tables < 12);
    assert_same(&store.snapshot(), &model);
}

#[test]
fn an_open_snapshot_holds_no_memory_and_reads_what_it_saw() {
    let folder = common::memory_folder();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    let mut model = Model::new();
    write(&store, &mut model, 0..300);
    let (snapshot, seen) = (store.snapshot(), model.clone());
    let everything = |direction| {
        let (from, to) = (Bound::Included(&[0, 0, 0, 1][..]), Bound::Excluded(&[0, 0, 0, 2][..]));
        snapshot.range(Space::Documents, from, to, direction).unwrap()
    };
    // Two that are in the middle, as cursors between two batches.
    let mut ranges = [everything(Direction::Forward), everything(Direction::Reverse)];
    let mut read = [Vec::new(), Vec::new()];
    for round in 0..40 {
        for (range, read) in ranges.iter_mut().zip(&mut read) {
            for _ in 0..3 {
                read.extend(range.next_entry().unwrap());
            }
        }
        write(&store, &mut model, 300 + round * 50..350 + round * 50);
        store.checkpoint().unwrap();
        let memory: u64 = store.stats().spaces.iter().map(|space| space.memtable_bytes).sum();
        assert!(memory <= 2 * tiny().memtable_bytes, "{memory} bytes in round {round}");
    }
    for (range, read) in ranges.iter_mut().zip(&mut read) {
        while let Some(entry) = range.next_entry().unwrap() {
            read.push(entry);
        }
    }
    let [forward, mut reverse] = read;
    reverse.reverse();
    let expected: Vec<_> =
        seen.iter().filter(|((space, _), _)| *space == Space::Documents as u8).collect();
    for read in [forward, reverse] {
        assert_eq!(read.len(), expected.len());
        for ((key, value), ((_, seen_key), seen_value)) in read.iter().zip(&expected) {
            assert_eq!((key.as_slice(), value.as_slice()), (&seen_key[..], &seen_value[..]));
        }
    }
    assert_same(&snapshot, &seen);
    assert_same(&store.snapshot(), &model);
    // One state of the past is enough for it, and nothing is left when it ends.
    assert_eq!(store.stats().history_states, 1);
    assert!(store.stats().oldest_pinned.is_some());
    drop((snapshot, ranges));
    write(&store, &mut model, 0..1);
    store.checkpoint().unwrap();
    let stats = store.stats();
    assert_eq!((stats.history_states, stats.history_bytes), (0, 0));
}

#[test]
fn a_snapshot_that_holds_too_much_or_is_too_old_ends() {
    let too_old = Options { snapshot_age: Duration::ZERO, ..tiny() };
    let too_large = Options { snapshot_bytes: 2_000, ..tiny() };
    for options in [too_old, too_large] {
        let folder = common::memory_folder();
        let store = DiskStore::open(folder.path(), options).unwrap();
        let mut model = Model::new();
        write(&store, &mut model, 0..300);
        let snapshot = store.snapshot();
        let mut range = snapshot
            .range(Space::Documents, Bound::Unbounded, Bound::Unbounded, Direction::Forward)
            .unwrap();
        assert!(range.next_entry().unwrap().is_some());
        let key = [&[0, 0, 0, 1][..], &7_u64.to_be_bytes()].concat();
        let mut number = 300;
        eventually("the snapshot ends", || {
            write(&store, &mut model, number..number + 50);
            number += 50;
            matches!(snapshot.get(Space::Documents, &key), Err(StoreError::SnapshotTooOld))
        });
        let rest = loop {
            match range.next_entry() {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        assert!(matches!(rest, Err(StoreError::SnapshotTooOld)), "{rest:?}");
        assert!(store.stats().expired_snapshots > 0);
        assert_same(&store.snapshot(), &model);
    }
}

#[test]
fn a_merge_that_meets_a_damaged_block_leaves_nothing_and_rests() {
    let folder = common::memory_folder();
    let plan = FaultPlan::none();
    plan.merges(BackgroundWork::Fail);
    let store = FaultStore::open(folder.path(), tiny(), plan).unwrap();
    let mut model = Model::new();
    write(&store, &mut model, 0..60);
    store.checkpoint().unwrap();
    // Closed, so that no merge is running: one that has read the block already would not notice.
    store.close().unwrap();
    drop(store);
    let damaged = damage_table(folder.path(), Space::Documents);
    let store = FaultStore::open(folder.path(), tiny(), FaultPlan::none()).unwrap();
    let mut number = 60;
    eventually("the damage is reported", || {
        write(&store, &mut model, number..number + 20);
        number += 20;
        !store.stats().merge_failures.is_empty()
    });
    let failures = store.stats().merge_failures;
    assert_eq!((failures.len(), failures[0].space), (1, Space::Documents));
    assert!(failures[0].error.to_string().contains(damaged.to_str().unwrap()), "{failures:?}");
    // Writing goes on, merging of other trees too, and nothing piles up but what is written.
    write(&store, &mut model, number..number + 400);
    store.checkpoint().unwrap();
    assert_eq!(store.stats().merge_failures[0].tries, 1, "it is retried seldom");
    eventually("other trees are merged", || store.stats().space(Space::Indexes).young_tables < 12);
    eventually("no files but those of the trees", || only_files_of_trees(&store, folder.path()));
    // What is not damaged is still served.
    let snapshot = store.snapshot();
    for ((space, key), value) in &model {
        if *space == Space::Indexes as u8 {
            assert_eq!(snapshot.get(Space::Indexes, key).unwrap().as_deref(), Some(&value[..]));
        }
    }
}

#[test]
fn a_merge_that_fails_leaves_nothing_and_goes_on_later() {
    for failing in [BackgroundWork::Fail, BackgroundWork::Full] {
        let folder = common::memory_folder();
        let plan = FaultPlan::none();
        plan.merges(failing);
        let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
        let mut model = Model::new();
        let mut number = 0;
        eventually("the failure is reported", || {
            write(&store, &mut model, number..number + 20);
            number += 20;
            !store.stats().merge_failures.is_empty()
        });
        let full = matches!(store.stats().merge_failures[0].error, StoreError::Full);
        assert_eq!(full, failing == BackgroundWork::Full);
        store.checkpoint().unwrap();
        eventually("no files but those of the trees", || {
            only_files_of_trees(&store, folder.path())
        });
        plan.merges(BackgroundWork::Run);
        eventually("merging goes on", || {
            let stats = store.stats();
            stats.merge_failures.is_empty() && stats.space(Space::Documents).young_tables < 12
        });
        assert_same(&store.snapshot(), &model);
    }
}

#[test]
fn a_thousand_dropped_ranges_go_in_a_few_steps() {
    let folder = common::memory_folder();
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    let version = || {
        let pointer = std::fs::read(folder.path().join("documents/current")).unwrap();
        u64::from_le_bytes(*pointer.first_chunk().unwrap())
    };
    // Collections with numbers that are not side by side, and one between them that stays.
    let mut batch = Batch::new();
    for number in 0..1000_u32 {
        let prefix = (number * 2 + 10).to_be_bytes();
        batch.put(Space::Documents, &[&prefix[..], b"key"].concat(), &[7; 100]);
    }
    let kept = [&1001_u32.to_be_bytes()[..], b"kept"].concat();
    batch.put(Space::Documents, &kept, b"value");
    store.write(&batch).unwrap();
    store.checkpoint().unwrap();
    for number in 0..1000_u32 {
        let prefix = number * 2 + 10;
        store
            .delete_range(Space::Documents, &prefix.to_be_bytes(), &(prefix + 1).to_be_bytes())
            .unwrap();
    }
    let before = version();
    store.checkpoint().unwrap();
    eventually("the ranges are gone", || {
        store.approximate_range_bytes(Space::Documents, &[0], &1000_u32.to_be_bytes()) == 0
    });
    assert!(version() - before < 20, "{} lists of tables were written", version() - before);
    assert_eq!(
        store.snapshot().get(Space::Documents, &kept).unwrap().as_deref(),
        Some(&b"value"[..])
    );
}

#[test]
fn closing_ends_a_merge_in_the_middle() {
    let folder = common::memory_folder();
    let plan = FaultPlan::none();
    // A merge of a few hundred entries takes half a minute.
    plan.merges(BackgroundWork::Slow(Duration::from_millis(100)));
    let store = FaultStore::open(folder.path(), tiny(), plan.clone()).unwrap();
    let mut model = Model::new();
    let mut number = 0;
    eventually("a merge runs", || {
        write(&store, &mut model, number..number + 20);
        number += 20;
        plan.merged_entries() > 0
    });
    store.close().unwrap();
    assert!(plan.merged_entries() < 200, "the merge went on");
    drop(store);
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    assert_same(&store.snapshot(), &model);
}

#[test]
fn a_full_disk_takes_what_frees_space_and_nothing_else() {
    let folder = common::memory_folder();
    let plan = FaultPlan::new(Fault::NoSpace, 4);
    // Nothing is flushed by itself, so that log segments pile up.
    let options = Options {
        memtable_bytes: 64 << 20,
        reserve_bytes: 64 << 10,
        sync_interval: Duration::from_millis(1),
        ..tiny()
    };
    let store = FaultStore::open(folder.path(), options.clone(), plan.clone()).unwrap();
    let mut model = Model::new();
    write(&store, &mut model, 0..1);
    eventually("the reserve is there", || folder.path().join("RESERVE").exists());
    let mut number = 1;
    let mut refused = 0;
    // Ten times in a row, because a spare segment may be in the making at the first time.
    while refused < 10 {
        let next = batch(number);
        match store.write(&next) {
            Ok(_) => {
                apply(&mut model, &next);
                (number, refused) = (number + 1, 0);
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Full), "{error}");
                refused += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    // A drop and deletes still go, by the reserve.
    let mut deletes = Batch::new();
    let keys: Vec<_> = model.keys().filter(|(space, _)| *space == 1).cloned().collect();
    keys.iter().for_each(|(_, key)| deletes.delete(Space::Documents, key));
    store.delete_range(Space::Indexes, &[0, 0, 0, 1], &[0, 0, 0, 2]).unwrap();
    model.retain(|(space, _), _| *space != Space::Indexes as u8);
    let seqno = store.write(&deletes).unwrap();
    store.sync(seqno).unwrap();
    apply(&mut model, &deletes);
    assert!(store.is_full());
    assert!(!folder.path().join("RESERVE").exists());
    assert!(matches!(store.write(&batch(number)), Err(StoreError::Full)));
    // With room everything goes on, and the reserve is back.
    plan.make_room();
    eventually("writes go on", || store.write(&batch(number)).is_ok());
    apply(&mut model, &batch(number));
    assert!(folder.path().join("RESERVE").exists());
    let indexes = |(space, _): &(u8, Vec<u8>)| *space == Space::Indexes as u8;
    let snapshot = store.snapshot();
    for ((space, key), value) in model.iter().filter(|(key, _)| !indexes(key)) {
        let space = Space::from_number(*space).unwrap();
        assert_eq!(snapshot.get(space, key).unwrap().as_deref(), Some(&value[..]));
    }
    drop(snapshot);
    // A folder on a full disk opens by the reserve.
    store.crash();
    let plan = FaultPlan::new(Fault::NoSpace, 0);
    let spares = std::fs::read_dir(folder.path().join("log")).unwrap().flatten();
    for spare in spares.filter(|file| file.file_name().to_string_lossy().starts_with("spare")) {
        std::fs::remove_file(spare.path()).unwrap();
    }
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    let mut last = Batch::new();
    last.delete(Space::Documents, &keys[0].1);
    let seqno = store.write(&last).unwrap();
    store.sync(seqno).unwrap();
}

#[test]
fn a_folder_whose_reserve_is_used_opens_and_takes_only_what_frees_space() {
    let folder = common::memory_folder();
    let options = Options { reserve_bytes: 64 << 10, ..tiny() };
    let store = DiskStore::open(folder.path(), options.clone()).unwrap();
    let mut model = Model::new();
    write(&store, &mut model, 0..100);
    store.close().unwrap();
    drop(store);
    let reserve = folder.path().join("RESERVE");
    if reserve.exists() {
        std::fs::remove_file(&reserve).unwrap();
    }
    let plan = FaultPlan::new(Fault::NoSpace, 0);
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    assert_same(&store.snapshot(), &model);
    assert!(store.is_full());
    assert!(matches!(store.write(&batch(1000)), Err(StoreError::Full)));
    let key = model.keys().find(|(space, _)| *space == 1).unwrap().1.clone();
    let mut delete = Batch::new();
    delete.delete(Space::Documents, &key);
    let seqno = store.write(&delete).unwrap();
    store.sync(seqno).unwrap();
    apply(&mut model, &delete);
    plan.make_room();
    eventually("writes go on", || store.write(&batch(1000)).is_ok());
    apply(&mut model, &batch(1000));
    assert!(reserve.exists());
    assert!(!store.is_full());
    assert_same(&store.snapshot(), &model);
}

#[test]
fn the_past_gives_way_on_a_full_disk() {
    let folder = common::memory_folder();
    // Room for the segments of a while; see the next comment.
    let plan = FaultPlan::new(Fault::NoSpace, 8);
    let options = Options { reserve_bytes: 64 << 10, ..tiny() };
    let store = FaultStore::open(folder.path(), options, plan.clone()).unwrap();
    store.keep_since(Some(store.stats().published));
    let mut model = Model::new();
    let mut number = 0;
    // Segments are recycled, so large batches are needed to use up the room.
    while store.stats().history_bytes == 0 {
        write(&store, &mut model, number..number + 10);
        number += 10;
        assert!(number < 100_000, "nothing was ever replaced");
    }
    let mut large = Batch::new();
    large.put(Space::Documents, &[0, 0, 0, 1, 1], &[7; 12 << 10]);
    eventually("the disk is full", || match store.write(&large) {
        Ok(_) => {
            apply(&mut model, &large);
            false
        }
        Err(error) => matches!(error, StoreError::Full),
    });
    eventually("nothing is kept for readers of the past", || store.stats().history_bytes == 0);
    assert_same(&store.snapshot(), &model);
}

#[test]
fn what_was_dropped_is_not_flushed() {
    let folder = common::memory_folder();
    let options = Options { memtable_bytes: 64 << 20, ..tiny() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    write(&store, &mut Model::new(), 0..50);
    for space in [Space::Documents, Space::Indexes] {
        store.delete_range(space, &[0, 0, 0, 1], &[0, 0, 0, 2]).unwrap();
    }
    let mut model = Model::new();
    let mut kept = Batch::new();
    kept.put(Space::Documents, &[0, 0, 0, 2, 1], b"kept");
    store.write(&kept).unwrap();
    apply(&mut model, &kept);
    store.checkpoint().unwrap();
    let stats = store.stats();
    assert_eq!(stats.space(Space::Documents).entries, 1);
    assert_eq!(stats.space(Space::Indexes).tables, 0);
    store.close().unwrap();
    drop(store);
    let store = DiskStore::open(folder.path(), tiny()).unwrap();
    assert_same(&store.snapshot(), &model);
}

#[test]
fn the_files_of_what_was_dropped_are_removed_without_a_further_write() {
    let folder = common::memory_folder();
    let options = Options { memtable_bytes: 64 << 20, ..tiny() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    for number in 0..3 {
        write(&store, &mut Model::new(), number..number + 1);
        store.checkpoint().unwrap();
    }
    assert!(files(folder.path(), Space::Documents) > 0);
    for space in [Space::Documents, Space::Indexes] {
        store.delete_range(space, &[0, 0, 0, 1], &[0, 0, 0, 2]).unwrap();
    }
    eventually("the files are gone", || {
        files(folder.path(), Space::Documents) + files(folder.path(), Space::Indexes) == 0
    });
}

#[test]
fn compacting_frees_what_was_deleted() {
    let folder = common::memory_folder();
    let options = Options { memtable_bytes: 64 << 20, ..tiny() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    let mut model = Model::new();
    write(&store, &mut model, 0..200);
    store.checkpoint().unwrap();
    let mut deletes = Batch::new();
    let keys: Vec<_> = model.keys().filter(|(space, _)| *space == 1).cloned().collect();
    keys.iter().skip(5).for_each(|(_, key)| deletes.delete(Space::Documents, key));
    store.write(&deletes).unwrap();
    apply(&mut model, &deletes);
    let before = store.stats().space(Space::Documents).disk_bytes;
    let freed = store.compact(Space::Documents, &|| true).unwrap();
    let stats = store.stats();
    let after = stats.space(Space::Documents);
    assert!(freed > 0);
    assert!(after.disk_bytes < before / 2, "{} of {before}", after.disk_bytes);
    assert_eq!(after.entries, 5);
    assert_same(&store.snapshot(), &model);
}

#[test]
fn compacting_what_does_not_fit_says_so_and_changes_nothing() {
    let folder = common::memory_folder();
    let plan = FaultPlan::none();
    let options = Options { memtable_bytes: 64 << 20, reserve_bytes: 64 << 10, ..tiny() };
    let store = FaultStore::open(folder.path(), options.clone(), plan.clone()).unwrap();
    let mut model = Model::new();
    write(&store, &mut model, 0..200);
    store.checkpoint().unwrap();
    write(&store, &mut model, 150..300);
    store.checkpoint().unwrap();
    plan.merges(BackgroundWork::Full);
    let snapshot = store.snapshot();
    let before = (model.clone(), store.stats().space(Space::Documents).entries);
    for _ in 0..2 {
        let error = store.compact(Space::Documents, &|| true).unwrap_err();
        assert!(matches!(error, StoreError::Full), "{error}");
        assert_same(&store.snapshot(), &before.0);
        assert_same(&snapshot, &before.0);
        assert_eq!(store.stats().space(Space::Documents).entries, before.1);
        eventually("nothing is left of it", || only_files_of_trees(&store, folder.path()));
    }
    // It gave away the reserve, which comes back, and writers go on.
    eventually("writes go on", || store.write(&batch(1000)).is_ok());
    apply(&mut model, &batch(1000));
    plan.merges(BackgroundWork::Run);
    store.compact(Space::Documents, &|| true).unwrap();
    drop(snapshot);
    assert_same(&store.snapshot(), &model);
    assert!(store.stats().space(Space::Documents).entries < before.1);
    store.close().unwrap();
    drop(store);
    let store = DiskStore::open(folder.path(), options).unwrap();
    assert_same(&store.snapshot(), &model);
}

/// Bytes that this process has read from disks.
fn read_bytes() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = counters.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Removes the tables of the documents from the page cache of the system.
fn forget_documents(folder: &Path) {
    for file in std::fs::read_dir(folder.join("documents/tables")).unwrap().flatten() {
        let file = std::fs::File::open(file.path()).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[test]
fn a_point_read_among_many_small_entries_reads_a_part_of_the_filter() {
    const ENTRIES: u64 = 1_000_000;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options { cache_bytes: 1 << 20, ..Options::default() };
    let key = |number: u64| [&[0, 0, 0, 1][..], &number.to_be_bytes()].concat();
    let store = DiskStore::open(folder.path(), options.clone()).unwrap();
    for half in 0..2 {
        for first in (half..ENTRIES).step_by(20_000) {
            let mut batch = Batch::new();
            for number in (first..first + 20_000).step_by(2) {
                batch.put(Space::Documents, &key(number), b"small");
            }
            store.write(&batch).unwrap();
        }
        store.checkpoint().unwrap();
    }
    store.compact(Space::Documents, &|| true).unwrap();
    store.close().unwrap();
    drop(store);
    let store = DiskStore::open(folder.path(), options).unwrap();
    forget_documents(folder.path());
    let snapshot = store.snapshot();
    let before = read_bytes();
    const READS: u64 = 200;
    for read in 0..READS {
        let found = snapshot.get(Space::Documents, &key(read * 7_919_003 % ENTRIES)).unwrap();
        assert_eq!(&*found.unwrap(), b"small");
    }
    // The whole filter has more than a megabyte.
    let each = (read_bytes() - before) / READS;
    assert!(each <= 48 << 10, "{each} bytes for each read");
}

#[test]
fn a_point_read_of_what_is_not_cached_reads_little_around_it() {
    const ENTRIES: u64 = 20_000;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options { cache_bytes: 1 << 20, memtable_bytes: 16 << 20, ..Options::default() };
    let store = DiskStore::open(folder.path(), options).unwrap();
    let key = |number: u64| [&[0, 0, 0, 1][..], &number.to_be_bytes()].concat();
    let mut random = 1_u64;
    let mut noise = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random.to_be_bytes()
    };
    for first in (0..ENTRIES).step_by(500) {
        let mut batch = Batch::new();
        for number in first..first + 500 {
            let value: Vec<u8> = (0..256).flat_map(|_| noise()).collect();
            batch.put(Space::Documents, &key(number), &value);
        }
        store.write(&batch).unwrap();
    }
    store.checkpoint().unwrap();
    forget_documents(folder.path());
    let before = read_bytes();
    let snapshot = store.snapshot();
    const READS: u64 = 200;
    for read in 0..READS {
        let found = snapshot.get(Space::Documents, &key(read * 7919 % ENTRIES)).unwrap();
        assert_eq!(found.unwrap().len(), 2048);
    }
    let each = (read_bytes() - before) / READS;
    assert!(each <= 32 << 10, "{each} bytes for each read");
    // A scan reads ahead, and the next point reads do not.
    forget_documents(folder.path());
    let (from, to) = (key(0), key(ENTRIES));
    let mut range = snapshot
        .range(Space::Documents, Bound::Included(&from), Bound::Excluded(&to), Direction::Forward)
        .unwrap();
    let mut entries = 0;
    while range.next().unwrap().is_some() {
        entries += 1;
    }
    assert_eq!(entries, ENTRIES);
}
