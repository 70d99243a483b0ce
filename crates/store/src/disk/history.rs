//! The past: what trees looked like when their memory was written to tables, so that a commit of
//! the last minutes can be read again though merging has thrown away what it replaced.
//!
//! Memtables keep every version, and so does a table that one is written to. Only merging forgets,
//! and it reads tables only. So the tables as they were right after a flush answer for every
//! commit between the flush before and this one. They are held as long as those commits are asked
//! for; what merging has replaced meanwhile stays on disk until then.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::{AbstractTree, InternalValue, Memtable, SeqNo, TableId, Tree};
use parking_lot::Mutex;

use super::trees::tables;
use crate::{Seqno, Space};

/// Entries of a tree as it was, in key order.
pub(super) type Entries =
    Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + Send>;

/// Reads the entries between two bounds below a number. A function, because what it reads from has
/// a type that the trees keep to themselves.
type Read = dyn Fn((Bound<&[u8]>, Bound<&[u8]>), SeqNo) -> Entries + Send + Sync;

/// A tree as it was at some moment.
pub(super) struct View {
    read: Box<Read>,
    /// Its tables with their sizes.
    tables: Vec<(TableId, u64)>,
}

/// All trees as they were at one moment.
pub(super) type Views = [Arc<View>; 4];

/// What is kept of the past.
pub(super) struct History(Mutex<State>);

struct State {
    /// In the order of commits; each answers for the commits behind the one before.
    past: VecDeque<Past>,
    /// Commits before this one cannot be read.
    floor: Seqno,
    /// Whether anything is kept at all.
    wanted: bool,
}

struct Past {
    /// The last commit that it answers for.
    last: Seqno,
    views: Views,
}

impl View {
    /// The tree as it is, with or without the commits that are in its memory.
    pub(super) fn of(tree: &Tree, with_memory: bool) -> View {
        let mut version = tree.get_version_history_lock().latest_version();
        if !with_memory {
            // What is in there is newer than what is asked of this view; it need not be held.
            version.active_memtable = Arc::new(Memtable::new(0));
        }
        let tables =
            tables(tree).iter().map(|table| (table.id(), table.metadata.file_size)).collect();
        let read = move |bounds: (Bound<&[u8]>, Bound<&[u8]>), seqno| -> Entries {
            let version = version.clone();
            Box::new(Tree::create_internal_range::<&[u8], _>(version, &bounds, seqno, None))
        };
        View { read: Box::new(read), tables }
    }

    /// The entries between two bounds as of a commit.
    pub(super) fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, seqno: Seqno) -> Entries {
        // A tree shows what lies below the number it is asked for.
        (self.read)((from, to), seqno + 1)
    }
}

impl History {
    /// Nothing is known of what was before `floor`.
    pub(super) fn new(floor: Seqno) -> History {
        History(Mutex::new(State { past: VecDeque::new(), floor, wanted: false }))
    }

    /// Memory has been sealed, and commits up to `last` are in it or in tables. Runs inside the
    /// commit lock, before anything of it is in a table.
    pub(super) fn seal(&self, trees: &[Tree; 4], last: Seqno) {
        let mut state = self.0.lock();
        if !state.wanted {
            // What is in memory can be read without being kept, from now on what comes next.
            state.floor = last + 1;
            return;
        }
        let views = trees.each_ref().map(|tree| Arc::new(View::of(tree, false)));
        state.past.push_back(Past { last, views });
    }

    /// The sealed memory of a tree is in these tables: they take its place. Should they have been
    /// merged already, the memory stays.
    pub(super) fn written(&self, space: Space, tree: &Tree, written: &[TableId]) {
        let mut state = self.0.lock();
        let Some(newest) = state.past.back_mut() else { return };
        let view = View::of(tree, false);
        // Looked up after the view was taken: a table that is still there was there then.
        let now = tables(tree);
        if written.iter().all(|id| now.iter().any(|table| table.id() == *id)) {
            newest.views[space.index()] = Arc::new(view);
        }
    }

    /// Keeps commits from `since` on, and forgets those before; with nothing, keeps none.
    pub(super) fn keep(&self, since: Option<Seqno>) {
        let mut state = self.0.lock();
        state.wanted = since.is_some();
        state.forget_before(since.unwrap_or(Seqno::MAX));
    }

    /// Forgets the oldest until what only the past needs takes no more than so many bytes.
    pub(super) fn fit(&self, trees: &[Tree; 4], bytes_max: u64) {
        let mut state = self.0.lock();
        while state.bytes(trees) > bytes_max
            && let Some(oldest) = state.past.front().map(|past| past.last)
        {
            state.forget_before(oldest + 1);
        }
    }

    /// Forgets everything so far.
    pub(super) fn forget(&self) {
        self.0.lock().forget_before(Seqno::MAX);
    }

    /// Bytes of tables that only the past needs.
    pub(super) fn bytes(&self, trees: &[Tree; 4]) -> u64 {
        self.0.lock().bytes(trees)
    }

    /// The trees that answer for a commit, if it can be read.
    pub(super) fn views(&self, trees: &[Tree; 4], seqno: Seqno) -> Option<Arc<Views>> {
        let state = self.0.lock();
        if seqno < state.floor {
            return None;
        }
        let at = state.past.partition_point(|past| past.last < seqno);
        Some(Arc::new(match state.past.get(at) {
            Some(past) => past.views.clone(),
            // Since the last flush, which cannot happen meanwhile.
            None => trees.each_ref().map(|tree| Arc::new(View::of(tree, true))),
        }))
    }
}

impl State {
    /// Forgets what answers only for commits before this one.
    fn forget_before(&mut self, seqno: Seqno) {
        while self.past.front().is_some_and(|past| past.last < seqno) {
            if let Some(past) = self.past.pop_front() {
                self.floor = self.floor.max(past.last + 1);
            }
        }
    }

    fn bytes(&self, trees: &[Tree; 4]) -> u64 {
        let mut bytes = 0;
        for (at, tree) in trees.iter().enumerate() {
            let mut old = BTreeMap::new();
            for view in self.past.iter().filter_map(|past| past.views.get(at)) {
                old.extend(view.tables.iter().copied());
            }
            for table in tables(tree) {
                old.remove(&table.id());
            }
            bytes += old.values().sum::<u64>();
        }
        bytes
    }
}
