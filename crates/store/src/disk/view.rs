//! A tree at one moment: its tables, and a sealed memtable that is not in tables yet.
//!
//! The version types of the tree crate have no public names, so a view holds closures that own
//! them.

use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::table::filter::standard_bloom::Builder as Filter;
use lsm_tree::{AbstractTree, InternalValue, Memtable, SeqNo, Tree};

use crate::Seqno;

/// Entries of a view, in key order.
pub(super) type Entries =
    Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + Send>;

type ReadRange = dyn Fn((Bound<&[u8]>, Bound<&[u8]>), SeqNo) -> Entries + Send + Sync;
type ReadKey = dyn Fn(&[u8], SeqNo) -> lsm_tree::Result<Option<InternalValue>> + Send + Sync;

/// A tree at one moment.
pub(super) struct View {
    range: Box<ReadRange>,
    get: Box<ReadKey>,
}

impl View {
    /// The current tree, with the commits in its memory.
    pub(super) fn newest(tree: &Tree) -> View {
        View::of(tree, true, None)
    }

    /// The tables of a tree and its newly sealed memtable.
    pub(super) fn of_sealed(tree: &Tree, sealed: Option<Arc<Memtable>>) -> View {
        View::of(tree, false, sealed)
    }

    /// The tables of a tree, after its sealed memtable was flushed.
    pub(super) fn of_tables(tree: &Tree) -> View {
        View::of(tree, false, None)
    }

    fn of(tree: &Tree, with_memory: bool, sealed: Option<Arc<Memtable>>) -> View {
        let mut version = tree.get_version_history_lock().latest_version();
        let mut memory: Vec<Arc<Memtable>> = Vec::new();
        if with_memory {
            memory.push(version.active_memtable.clone());
        } else {
            // Its content is newer than any read of this view, so it need not be held.
            version.active_memtable = Arc::new(Memtable::new(0));
        }
        memory.extend(sealed);
        let tables = tree.current_version();
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
        let range = move |bounds: (Bound<&[u8]>, Bound<&[u8]>), seqno| -> Entries {
            let version = version.clone();
            Box::new(Tree::create_internal_range::<&[u8], _>(version, &bounds, seqno, None))
        };
        View { range: Box::new(range), get: Box::new(get) }
    }

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
