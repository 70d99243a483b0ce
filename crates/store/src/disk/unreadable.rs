//! Tests of tables that the disk cannot read: the system reports an error instead of bytes.
//!
//! A file of which every read fails in this way, for any user, is the memory of the process itself,
//! below its first page.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, GlobalTableId, Table};

use super::trees::tables;
use super::{DiskStore, Options};
use crate::{Batch, Direction, Space, Store, StoreError};

const UNREADABLE: &str = "/proc/self/mem";
const SPACE: Space = Space::Documents;

fn options() -> Options {
    Options {
        cache_bytes: 1 << 20,
        memtable_bytes: 1 << 20,
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn key(number: u32) -> Vec<u8> {
    [&[0, 0, 0, 1][..], &number.to_be_bytes()].concat()
}

/// Writes a table with these keys.
fn write_table(store: &DiskStore, keys: impl Iterator<Item = u32>, value: u8) {
    let mut batch = Batch::new();
    keys.for_each(|number| batch.put(SPACE, &key(number), &[value; 100]));
    store.write(&batch).unwrap();
    store.checkpoint().unwrap();
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tables_of(store: &DiskStore) -> Vec<Table> {
    let mut tables = tables(&store.shared.trees[SPACE.index()]);
    tables.sort_by_key(Table::id);
    tables
}

/// Makes the file that readers have open unreadable.
fn fail_reads(store: &DiskStore, table: &Table) {
    let tree = &store.shared.trees[SPACE.index()];
    let id = GlobalTableId::from((tree.id(), table.id()));
    let files = tree.tree_config().descriptor_table.as_ref().unwrap();
    files.insert_for_table(id, Arc::new(File::open(UNREADABLE).unwrap()));
}

/// Makes the file that merges open unreadable; returns where it is now.
fn fail_merges(table: &Table) -> PathBuf {
    let path = table.path.to_path_buf();
    let kept = path.parent().unwrap().parent().unwrap().join("kept");
    std::fs::rename(&path, &kept).unwrap();
    std::os::unix::fs::symlink(UNREADABLE, &path).unwrap();
    kept
}

#[test]
fn reads_fail_where_the_disk_fails_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    {
        let store = DiskStore::open(folder.path(), options()).unwrap();
        write_table(&store, 0..1000, 1);
        write_table(&store, (0..1000).step_by(2), 2);
        store.close().unwrap();
    }
    // Nothing is cached.
    let store = DiskStore::open(folder.path(), options()).unwrap();
    let tables = tables_of(&store);
    assert_eq!(tables.len(), 2);
    fail_reads(&store, &tables[0]);
    let snapshot = store.snapshot();
    for number in 0..1000 {
        match snapshot.get(SPACE, &key(number)) {
            Ok(value) => assert!(number % 2 == 0 && value.unwrap()[..] == [2; 100], "{number}"),
            Err(error) => {
                assert!(number % 2 == 1, "{number}");
                assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
                assert!(error.to_string().contains("os error 5"), "{error}");
            }
        }
    }
    // A scan ends with the error and leaves nothing out.
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut range =
            snapshot.range(SPACE, Bound::Unbounded, Bound::Unbounded, direction).unwrap();
        let error = loop {
            match range.next_entry() {
                Ok(Some((found, _))) => assert!(found[..] == key(0) || found[..] == key(998)),
                Ok(None) => panic!("entries were left out"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
    // Readable again: no state of the failure is kept.
    let id = GlobalTableId::from((store.shared.trees[SPACE.index()].id(), tables[0].id()));
    let files = store.shared.trees[SPACE.index()].tree_config().descriptor_table.clone().unwrap();
    files.remove_for_table(&id);
    assert_eq!(snapshot.get(SPACE, &key(1)).unwrap().as_deref(), Some(&[1; 100][..]));
}

#[test]
fn what_cannot_be_read_is_set_aside_from_merging() {
    let folder = tempfile::tempdir().unwrap();
    let store = DiskStore::open(folder.path(), options()).unwrap();
    write_table(&store, 0..1000, 1);
    let table = tables_of(&store).remove(0);
    let kept = fail_merges(&table);
    let damage = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].file, *table.path);
    for round in 0..20_u32 {
        write_table(&store, (round..1000).step_by(20), 2);
    }
    eventually("young tables are merged", || {
        let stats = store.stats();
        stats.space(SPACE).young_tables < 12 && !stats.merge_failures.is_empty()
    });
    let failures = store.stats().merge_failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].error.to_string().contains("os error 5"), "{failures:?}");
    // It rests: nothing is tried again for each further table.
    let tries = failures[0].tries;
    for round in 0..20_u32 {
        write_table(&store, (round..1000).step_by(20), 3);
    }
    eventually("young tables are merged", || store.stats().space(SPACE).young_tables < 12);
    assert_eq!(store.stats().merge_failures[0].tries, tries);
    eventually("nothing unfinished is left", || {
        let files = std::fs::read_dir(table.path.parent().unwrap()).unwrap();
        files.count() == tables_of(&store).len()
    });
    // The disk can read it again: after its rest it is merged as any other.
    std::fs::remove_file(&*table.path).unwrap();
    std::fs::rename(kept, &*table.path).unwrap();
    store.shared.set_aside[SPACE.index()].lock().end_rest();
    eventually("it is no longer set aside", || {
        store.shared.work.want_merge(SPACE);
        store.stats().merge_failures.is_empty()
    });
    store.compact(SPACE, &|| true).unwrap();
    assert!(tables_of(&store).iter().all(|now| now.id() != table.id()));
    assert_eq!(store.stats().space(SPACE).entries, 1000);
}
