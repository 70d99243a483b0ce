//! A tree at one moment: memtables, and the tables that existed then.
//!
//! The tree crate finishes the tables of a merge (filter, flush to disk) under the lock of its
//! version list, which may take seconds. Readers and commits must not wait for that. So the active
//! and the sealed memtable are kept here and not in the tree, and `Newest` holds a view that
//! background threads replace after they have changed the tables.
//!
//! The version types of the tree crate have no public names, so views hold closures that own them.

use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::table::filter::standard_bloom::Builder as Filter;
use lsm_tree::{AbstractTree, InternalValue, Memtable, SeqNo, Table, Tree};
use parking_lot::RwLock;

use crate::Seqno;

/// Entries of a view, in key order.
pub(super) type Entries =
    Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + Send>;

type ReadRange = dyn Fn((Bound<&[u8]>, Bound<&[u8]>), SeqNo) -> Entries + Send + Sync;
type ReadKey = dyn Fn(&[u8], SeqNo) -> lsm_tree::Result<Option<InternalValue>> + Send + Sync;
type MakeView = dyn Fn(&Arc<Memtable>, Option<&Arc<Memtable>>) -> View + Send + Sync;

/// A tree at one moment.
pub(super) struct View {
    range: Box<ReadRange>,
    get: Box<ReadKey>,
}

impl View {
    /// The entries between two bounds as of a commit.
    pub(super) fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, seqno: Seqno) -> Entries {
        // A tree returns versions below the given number.
        (self.range)((from, to), seqno + 1)
    }

    /// The entry of a key as of a commit.
    pub(super) fn get(&self, key: &[u8], seqno: Seqno) -> lsm_tree::Result<Option<InternalValue>> {
        (self.get)(key, seqno + 1)
    }
}

/// The tables of a tree at one moment.
pub(super) struct Tables {
    /// Grows with each change of the tree.
    number: u64,
    /// All of them.
    pub(super) list: Vec<Table>,
    /// The number of runs of young tables.
    pub(super) young_runs: usize,
    make: Box<MakeView>,
}

impl Tables {
    /// The current tables. Waits while a merge of the tree finishes, so it must not be called
    /// under the commit lock, nor by readers.
    pub(super) fn of(tree: &Tree) -> Arc<Tables> {
        let (tables, version) = loop {
            let tables = tree.current_version();
            let version = tree.get_version_history_lock().latest_version();
            if tree.current_version().id() == tables.id() {
                break (tables, version);
            }
        };
        let number = tables.id();
        let list = tables.iter_tables().cloned().collect();
        let young_runs = tables.l0().run_count();
        let make = move |active: &Arc<Memtable>, sealed: Option<&Arc<Memtable>>| {
            let tables = tables.clone();
            let mut version = version.clone();
            version.active_memtable = active.clone();
            let memory: Vec<Arc<Memtable>> = [active].into_iter().chain(sealed).cloned().collect();
            let get = move |key: &[u8], seqno: SeqNo| {
                for memtable in &memory {
                    if let Some(entry) = memtable.get(key, seqno) {
                        return Ok(Some(entry).filter(|entry| !entry.is_tombstone()));
                    }
                }
                let hash = Filter::get_hash(key);
                let runs = tables.iter_levels().flat_map(|level| level.iter());
                for table in runs.filter_map(|run| run.get_for_key(key)) {
                    if let Some(entry) = table.get(key, seqno, hash)? {
                        return Ok(Some(entry).filter(|entry| !entry.is_tombstone()));
                    }
                }
                Ok(None)
            };
            let sealed = sealed.cloned();
            let range = move |bounds: (Bound<&[u8]>, Bound<&[u8]>), seqno| -> Entries {
                let sealed = sealed.clone().map(|memtable| (memtable, seqno));
                let version = version.clone();
                Box::new(Tree::create_internal_range::<&[u8], _>(version, &bounds, seqno, sealed))
            };
            View { range: Box::new(range), get: Box::new(get) }
        };
        Arc::new(Tables { number, list, young_runs, make: Box::new(make) })
    }

    /// A view of the tables and of a sealed memtable that is not in them yet.
    pub(super) fn with_sealed(&self, sealed: Option<&Arc<Memtable>>) -> View {
        // What is active is newer than any read of this view.
        (self.make)(&Arc::new(Memtable::new(0)), sealed)
    }
}

/// The newest state of a tree: the memtable that commits write to, the one that is being flushed,
/// and the tables.
pub(super) struct Newest(RwLock<Parts>);

#[derive(Clone)]
struct Parts {
    active: Arc<Memtable>,
    sealed: Option<Arc<Memtable>>,
    tables: Arc<Tables>,
    view: Arc<View>,
}

impl Newest {
    /// A tree whose commits are written to this memtable; the tree's own stays empty.
    pub(super) fn new(tree: &Tree, active: Arc<Memtable>) -> Newest {
        let tables = Tables::of(tree);
        let view = Arc::new((tables.make)(&active, None));
        Newest(RwLock::new(Parts { active, sealed: None, tables, view }))
    }

    /// What a reader sees. It has all commits that were published before the call.
    pub(super) fn view(&self) -> Arc<View> {
        self.0.read().view.clone()
    }

    /// The tables.
    pub(super) fn tables(&self) -> Arc<Tables> {
        self.0.read().tables.clone()
    }

    /// The memtable that is being flushed.
    pub(super) fn sealed(&self) -> Option<Arc<Memtable>> {
        self.0.read().sealed.clone()
    }

    /// The bytes and entries of the memtables.
    pub(super) fn memory(&self) -> (u64, u64) {
        let parts = self.0.read();
        let memtables = || [&parts.active].into_iter().chain(&parts.sealed);
        let bytes = memtables().map(|memtable| memtable.size()).sum();
        (bytes, memtables().map(|memtable| memtable.len() as u64).sum())
    }

    /// Seals the active memtable unless it is empty; returns the new active one. Runs under the
    /// commit lock, so that no commit is published before readers see the new memtable.
    pub(super) fn seal(&self) -> Option<Arc<Memtable>> {
        let mut next = None;
        self.change(|parts| {
            if !parts.active.is_empty() {
                let active = Arc::new(Memtable::new(0));
                parts.sealed = Some(std::mem::replace(&mut parts.active, active.clone()));
                next = Some(active);
            }
        });
        next
    }

    /// Called after the sealed memtable was written to some of these tables.
    pub(super) fn note_flush(&self, tables: Arc<Tables>) {
        self.change(|parts| {
            parts.sealed = None;
            parts.take(tables);
        });
    }

    /// Called after the tables have changed.
    pub(super) fn note_tables(&self, tables: Arc<Tables>) {
        self.change(|parts| parts.take(tables));
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) {
        let mut parts = self.0.write();
        let before = parts.clone();
        change(&mut parts);
        parts.view = Arc::new((parts.tables.make)(&parts.active, parts.sealed.as_ref()));
        drop(parts);
        // Outside of the lock: this may remove files.
        drop(before);
    }
}

impl Parts {
    /// Two threads that have changed the tables may come here in any order.
    fn take(&mut self, tables: Arc<Tables>) {
        if tables.number > self.tables.number {
            self.tables = tables;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Direction, DiskStore, Options, Space, Store};
    use std::sync::mpsc;
    use std::time::Duration;

    /// A merge holds the lock of the tree's version list while it finishes its tables.
    #[test]
    fn reads_commits_and_statistics_do_not_wait_for_the_end_of_a_merge() {
        let folder = tempfile::tempdir().unwrap();
        let store = DiskStore::open(folder.path(), Options::default()).unwrap();
        let put = |key: &[u8], value: &[u8]| {
            let mut batch = Batch::new();
            for space in Space::ALL {
                batch.put(space, key, value);
            }
            store.write(&batch).unwrap();
        };
        put(b"table", b"1");
        store.shared.flush().unwrap();
        put(b"memory", b"2");
        let (done, is_done) = mpsc::channel();
        std::thread::scope(|scope| {
            let locks = store.shared.trees.each_ref().map(|tree| tree.get_version_history_lock());
            scope.spawn(|| {
                let shared = &store.shared;
                put(b"later", b"3");
                let mut commit = shared.commit.lock();
                for (newest, active) in shared.newest.iter().zip(&mut commit.memtables) {
                    *active = newest.seal().unwrap();
                }
                shared.history.seal(&shared.newest, &shared.tracker, shared.tracker.published());
                drop(commit);
                put(b"last", b"4");
                let snapshot = store.snapshot();
                for space in Space::ALL {
                    assert_eq!(&*snapshot.get(space, b"table").unwrap().unwrap(), b"1");
                    assert_eq!(&*snapshot.get(space, b"memory").unwrap().unwrap(), b"2");
                    let bounds = (Bound::Unbounded, Bound::Unbounded);
                    let range = snapshot.range(space, bounds.0, bounds.1, Direction::Forward);
                    let mut range = range.unwrap();
                    let mut entries = 0;
                    while range.next_entry().unwrap().is_some() {
                        entries += 1;
                    }
                    assert_eq!(entries, 4);
                    assert!(store.approximate_range_bytes(space, b"a", b"z") > 0);
                }
                assert_eq!(store.stats().spaces[0].tables, 1);
                done.send(()).unwrap();
            });
            // Waits for ever only if the test fails.
            let result = is_done.recv_timeout(Duration::from_secs(60));
            drop(locks);
            result.expect("a reader or a commit waits for the tree");
        });
    }
}
