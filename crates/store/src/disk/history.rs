//! States of the past: the tables of all trees as they were after a flush.
//!
//! Memtables keep every version, and so does a table that one is written to; merging keeps only the
//! newest one. So the tables right after a flush answer for every commit between the flush before
//! and this one. A state is kept while somebody needs it: an open snapshot that is older than the
//! flush, or who asked for the past (`Store::keep_since`). It holds tables, no memory; what merging
//! has replaced meanwhile stays on disk until then.
//!
//! Bytes are charged when a table is replaced and taken back when its last state goes, so nothing
//! here is computed over all states or all tables of the past.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lsm_tree::{Memtable, SeqNo, TableId, Tree};
use parking_lot::Mutex;

use super::trees::tables;
use super::view::View;
use crate::tracker::Tracker;
use crate::{Result, Seqno, Space, StoreError};

/// All trees as they were at one moment.
pub(super) type Views = [Arc<View>; 4];

/// The trees as they were after one flush.
pub(super) struct State {
    /// It answers for the commits from `first` to `last`.
    first: Seqno,
    last: Seqno,
    sealed_at: Instant,
    /// Nothing when the state was given up while snapshots still needed it.
    views: Mutex<Option<Views>>,
}

impl State {
    /// One tree as it was.
    ///
    /// # Errors
    /// `SnapshotTooOld` when the state was given up.
    pub(super) fn view(&self, space: Space) -> Result<Arc<View>> {
        let views = self.views.lock();
        let view = views.as_ref().map(|views| views[space.index()].clone());
        view.ok_or(StoreError::SnapshotTooOld)
    }
}

/// The states that are kept.
pub(super) struct History {
    kept: Mutex<Kept>,
    /// The last commit that was sealed: later commits are in memory only, so the newest trees
    /// answer for every snapshot that is not older than this.
    sealed: AtomicU64,
}

/// How much may be kept.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of replaced tables, for reading the past.
    pub(super) history_bytes: u64,
    /// Bytes of replaced tables, for open snapshots.
    pub(super) snapshot_bytes: u64,
    /// How long a state is kept for open snapshots.
    pub(super) snapshot_age: Duration,
}

#[derive(Default)]
struct Kept {
    /// By the last commit that each answers for.
    states: BTreeMap<Seqno, Entry>,
    /// The past is asked for from this commit on.
    since: Option<Seqno>,
    /// The tables of each tree as last noted: the first state that can hold each, and its size.
    live: [HashMap<TableId, (Seqno, u64)>; 4],
    /// The sum of all replaced tables that states hold.
    bytes: u64,
    /// States that were given up while snapshots needed them.
    expired: u64,
}

struct Entry {
    state: Arc<State>,
    /// Replaced tables whose newest kept state this is.
    replaced: Vec<Replaced>,
}

/// A table that only the past holds.
struct Replaced {
    /// The first state that holds it, by its number.
    first: Seqno,
    bytes: u64,
}

/// What the past takes, for statistics.
#[derive(Default)]
pub(super) struct Sizes {
    pub(super) bytes: u64,
    pub(super) states: u64,
    /// How long ago the oldest state that an open snapshot needs was sealed.
    pub(super) oldest_pinned: Option<Duration>,
    pub(super) expired: u64,
}

impl History {
    /// Everything up to `sealed` is in tables or was recovered; what was before cannot be read.
    pub(super) fn new(sealed: Seqno, trees: &[Tree; 4]) -> History {
        let live = trees
            .each_ref()
            .map(|tree| tables(tree).iter().map(|t| (t.id(), (0, t.metadata.file_size))).collect());
        let kept = Kept { live, ..Kept::default() };
        History { kept: Mutex::new(kept), sealed: AtomicU64::new(sealed) }
    }

    /// Whether the newest trees answer for a commit. To be asked after reading from them: tables
    /// that are merged later than this becomes false may lack what the commit needs.
    pub(super) fn is_newest(&self, seqno: Seqno) -> bool {
        seqno >= self.sealed.load(Ordering::Acquire)
    }

    /// Versions that are not the newest of their key below this number may be left out when tables
    /// are merged.
    pub(super) fn merge_watermark(&self) -> SeqNo {
        self.sealed.load(Ordering::Acquire) + 1
    }

    /// Memory has been sealed, and commits up to `last` are in it or in tables. Runs inside the
    /// commit lock, before anything of it is in a table.
    pub(super) fn seal(
        &self,
        trees: &[Tree; 4],
        memtables: &[Option<Arc<Memtable>>; 4],
        tracker: &Tracker,
        last: Seqno,
    ) {
        let mut kept = self.kept.lock();
        let first = self.sealed.load(Ordering::Acquire);
        // A snapshot that is opened meanwhile has the number `last`, which needs no state yet.
        if last > first
            && (kept.since.is_some() || has_any(&tracker.open_numbers(), first, last - 1))
        {
            let views = Space::ALL.map(|space| {
                let at = space.index();
                Arc::new(View::of_sealed(&trees[at], memtables[at].clone()))
            });
            let views = Mutex::new(Some(views));
            let state = Arc::new(State { first, last, sealed_at: Instant::now(), views });
            kept.states.insert(last, Entry { state, replaced: Vec::new() });
        }
        self.sealed.store(last, Ordering::Release);
    }

    /// The sealed memory of a tree is in these tables: they take its place. Should they have been
    /// merged already, the memory stays.
    pub(super) fn written(&self, space: Space, tree: &Tree, written: &[TableId]) {
        {
            let kept = self.kept.lock();
            let sealed = self.sealed.load(Ordering::Acquire);
            let view = View::of_tables(tree);
            // Looked up after the view was taken: a table that is still there was there then.
            let now = tables(tree);
            if let Some(entry) = kept.states.get(&sealed)
                && written.iter().all(|id| now.iter().any(|table| table.id() == *id))
                && let Some(views) = &mut *entry.state.views.lock()
            {
                views[space.index()] = Arc::new(view);
            }
        }
        self.note_tables(space, tree, written);
    }

    /// Notes which tables a tree has now; `flushed` are those of the newest state.
    pub(super) fn note_tables(&self, space: Space, tree: &Tree, flushed: &[TableId]) {
        let now: HashMap<TableId, u64> =
            tables(tree).iter().map(|table| (table.id(), table.metadata.file_size)).collect();
        let mut kept = self.kept.lock();
        let sealed = self.sealed.load(Ordering::Acquire);
        let live = &mut kept.live[space.index()];
        let mut replaced = Vec::new();
        live.retain(|id, (first, bytes)| {
            let stays = now.contains_key(id);
            if !stays {
                replaced.push(Replaced { first: *first, bytes: *bytes });
            }
            stays
        });
        for (id, bytes) in now {
            let first = if flushed.contains(&id) { sealed } else { sealed + 1 };
            live.entry(id).or_insert((first, bytes));
        }
        for table in replaced {
            kept.charge(Seqno::MAX, table, true);
        }
    }

    /// Keeps commits from `since` on for later readers; with nothing, keeps none.
    pub(super) fn keep(&self, since: Option<Seqno>, tracker: &Tracker) {
        let mut kept = self.kept.lock();
        kept.since = since;
        kept.prune(&tracker.open_numbers());
    }

    /// Gives up what nobody needs, then what is above the limits: of the past first, then of
    /// open snapshots, oldest first.
    pub(super) fn fit(&self, tracker: &Tracker, limits: Limits) {
        let mut kept = self.kept.lock();
        // Inside the lock: who opens a snapshot of the past registers it before looking for a state.
        let open = tracker.open_numbers();
        kept.prune(&open);
        while kept.bytes > limits.history_bytes
            && let Some(oldest) = kept.oldest(|state| !state.is_needed(&open))
        {
            kept.forget(oldest);
        }
        while let Some(oldest) = kept.oldest(|state| state.is_needed(&open)) {
            let age = kept.states[&oldest].state.sealed_at.elapsed();
            if kept.bytes <= limits.snapshot_bytes && age <= limits.snapshot_age {
                break;
            }
            tracing::warn!(
                age_seconds = age.as_secs(),
                pinned_bytes = kept.bytes,
                "snapshots that hold too much, or are too old, end with SnapshotTooOld"
            );
            kept.expire(oldest);
        }
    }

    /// Gives up everything that only the past needs.
    pub(super) fn forget(&self, tracker: &Tracker) {
        let mut kept = self.kept.lock();
        let open = tracker.open_numbers();
        while let Some(oldest) = kept.oldest(|state| !state.is_needed(&open)) {
            kept.forget(oldest);
        }
    }

    /// What the past takes.
    pub(super) fn sizes(&self, tracker: &Tracker) -> Sizes {
        let kept = self.kept.lock();
        let open = tracker.open_numbers();
        let oldest = kept.oldest(|state| state.is_needed(&open));
        Sizes {
            bytes: kept.bytes,
            states: kept.states.len() as u64,
            oldest_pinned: oldest.map(|oldest| kept.states[&oldest].state.sealed_at.elapsed()),
            expired: kept.expired,
        }
    }

    /// The state that answers for a commit, or nothing if the newest trees do.
    ///
    /// # Errors
    /// `SnapshotTooOld` when the commit cannot be read any more.
    pub(super) fn state(&self, seqno: Seqno) -> Result<Option<Arc<State>>> {
        let kept = self.kept.lock();
        if self.is_newest(seqno) {
            return Ok(None);
        }
        let state = kept.states.range(seqno..).next().map(|(_, entry)| &entry.state);
        let state = state.filter(|state| state.first <= seqno).ok_or(StoreError::SnapshotTooOld)?;
        Ok(Some(state.clone()))
    }
}

impl State {
    /// Whether a snapshot is open that reads from here; `open` are the numbers of all, sorted.
    fn is_needed(&self, open: &[Seqno]) -> bool {
        has_any(open, self.first, self.last)
    }
}

/// Whether one of the sorted numbers lies between two others, both included.
fn has_any(sorted: &[Seqno], from: Seqno, to: Seqno) -> bool {
    let at = sorted.partition_point(|number| *number < from);
    sorted.get(at).is_some_and(|number| *number <= to)
}

impl Kept {
    fn oldest(&self, wanted: impl Fn(&State) -> bool) -> Option<Seqno> {
        self.states.iter().find(|(_, entry)| wanted(&entry.state)).map(|(last, _)| *last)
    }

    /// Gives up states that neither the past nor a snapshot needs.
    fn prune(&mut self, open: &[Seqno]) {
        let since = self.since.unwrap_or(Seqno::MAX);
        let unneeded: Vec<Seqno> = self
            .states
            .range(..since)
            .filter(|(_, entry)| !entry.state.is_needed(open))
            .map(|(last, _)| *last)
            .collect();
        for last in unneeded {
            self.forget(last);
        }
    }

    fn forget(&mut self, last: Seqno) {
        let Some(entry) = self.states.remove(&last) else { return };
        for table in entry.replaced {
            self.charge(last, table, false);
        }
    }

    /// Gives up a state though snapshots need it: they find nothing from now on.
    fn expire(&mut self, last: Seqno) {
        if let Some(entry) = self.states.get(&last) {
            *entry.state.views.lock() = None;
            self.expired += 1;
        }
        self.forget(last);
    }

    /// Charges a replaced table to the newest state before `end` that holds it, if there is one.
    fn charge(&mut self, end: Seqno, table: Replaced, is_new: bool) {
        let bytes = table.bytes;
        let holder = self.states.range_mut(..end).next_back();
        let held = match holder {
            Some((last, entry)) if *last >= table.first => {
                entry.replaced.push(table);
                true
            }
            _ => false,
        };
        match (held, is_new) {
            (true, true) => self.bytes += bytes,
            (false, false) => self.bytes -= bytes,
            _ => {}
        }
    }
}
