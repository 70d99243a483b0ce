//! Kept versions of the past: the tables of all trees as they were after a flush.
//!
//! Memtables keep every version of a key, and so does the table that a memtable is flushed to.
//! Merging keeps only the newest. So the tables right after a flush can serve every commit since
//! the previous flush. A version is kept while it is needed: by an open snapshot older than the
//! flush, or by `Store::keep_since`. It holds tables, no memory. Tables that merging replaced stay
//! on disk until no kept version holds them.
//!
//! Bytes are charged when a table is replaced and released when its last kept version is dropped,
//! so no computation here covers all versions or all tables of the past.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lsm_tree::{SeqNo, TableId, Tree};
use parking_lot::{Mutex, MutexGuard};

use super::trees::tables;
use super::view::{Newest, Tables, View};
use crate::tracker::Tracker;
use crate::{Result, Seqno, SnapshotLimits, Space, StoreError};

/// The most gaps that are distinguished.
const GAPS_MAX: usize = 256;

/// All trees at one moment.
pub(super) type Views = [Arc<View>; 4];

/// The trees as they were after one flush.
pub(super) struct KeptVersion {
    /// The range of commits that it serves, both included.
    first: Seqno,
    last: Seqno,
    sealed_at: Instant,
    /// `None` if the version was dropped while snapshots still needed it.
    views: Mutex<Option<Views>>,
}

impl KeptVersion {
    /// Returns one tree of this version.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the version was dropped.
    pub(super) fn view(&self, space: Space) -> Result<Arc<View>> {
        let views = self.views.lock();
        let view = views.as_ref().map(|views| views[space.index()].clone());
        view.ok_or(StoreError::SnapshotTooOld)
    }
}

/// The kept versions.
pub(super) struct History {
    kept: Mutex<Kept>,
    /// The last sealed commit. Later commits are in memory only, so the newest trees serve every
    /// snapshot that is not older than this.
    sealed: AtomicU64,
    /// Commits of which a large value is gone (`replaced`): from the first until before the second,
    /// sorted, apart from each other.
    gaps: Mutex<Vec<(Seqno, Seqno)>>,
}

/// Limits of what is kept.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of replaced tables, for reading the past.
    pub(super) history_bytes: u64,
    pub(super) snapshots: SnapshotLimits,
}

#[derive(Default)]
struct Kept {
    /// By the last commit that each serves.
    states: BTreeMap<Seqno, Entry>,
    /// The first commit that `Store::keep_since` asked to keep.
    since: Option<Seqno>,
    /// The tables of each tree when last recorded: the first version that can hold each, and its
    /// size.
    live: [HashMap<TableId, (Seqno, u64)>; 4],
    /// Bytes of all replaced tables that kept versions hold.
    bytes: u64,
    /// Versions that were dropped while snapshots needed them.
    expired: u64,
    /// Dropped versions that still hold their tables.
    removed: Removed,
}

/// Dropped versions. The last holder of a replaced table removes its file, which may take long, so
/// they must be freed outside of the lock: flushes take it inside the commit lock.
#[derive(Default)]
struct Removed {
    versions: Vec<Arc<KeptVersion>>,
    views: Vec<Views>,
}

struct Entry {
    state: Arc<KeptVersion>,
    /// Replaced tables whose newest kept version is this one.
    replaced: Vec<Replaced>,
}

/// A table that only kept versions hold.
struct Replaced {
    /// The seqno of the first version that holds it.
    first: Seqno,
    bytes: u64,
}

/// Space that the past takes, for statistics.
#[derive(Default)]
pub(super) struct Sizes {
    pub(super) bytes: u64,
    pub(super) states: u64,
    /// Age of the oldest version that an open snapshot needs.
    pub(super) oldest_pinned: Option<Duration>,
    pub(super) expired: u64,
}

impl History {
    /// Creates a history. Commits up to `sealed` are in tables or were recovered; earlier states
    /// cannot be read.
    pub(super) fn new(sealed: Seqno, trees: &[Tree; 4]) -> History {
        let live = trees
            .each_ref()
            .map(|tree| tables(tree).iter().map(|t| (t.id(), (0, t.metadata.file_size))).collect());
        let kept = Kept { live, ..Kept::default() };
        let (kept, gaps) = (Mutex::new(kept), Mutex::default());
        History { kept, sealed: AtomicU64::new(sealed), gaps }
    }

    /// Whether the newest trees can serve a commit. Call this after reading from them: tables
    /// merged after this becomes false may lack versions that the commit needs.
    pub(super) fn is_newest(&self, seqno: Seqno) -> bool {
        seqno >= self.sealed.load(Ordering::Acquire)
    }

    /// When tables are merged, a version below this number may be dropped if it is not the newest
    /// of its key.
    pub(super) fn merge_watermark(&self) -> SeqNo {
        self.sealed.load(Ordering::Acquire) + 1
    }

    /// Records that memory was sealed; commits up to `last` are in it or in tables. Runs inside
    /// the commit lock, before any of it is written to a table.
    pub(super) fn seal(&self, newest: &[Newest; 4], tracker: &Tracker, last: Seqno) {
        let mut kept = self.kept.lock();
        let first = self.sealed.load(Ordering::Acquire);
        // A snapshot that is opened concurrently has the number `last`, which needs no kept
        // version yet.
        if last > first
            && (kept.since.is_some() || has_any(&tracker.open_numbers(), first, last - 1))
        {
            let views = Space::ALL.map(|space| {
                let newest = &newest[space.index()];
                Arc::new(newest.tables().with_sealed(newest.sealed().as_ref()))
            });
            let views = Mutex::new(Some(views));
            let state = Arc::new(KeptVersion { first, last, sealed_at: Instant::now(), views });
            kept.states.insert(last, Entry { state, replaced: Vec::new() });
        }
        self.sealed.store(last, Ordering::Release);
    }

    /// Replaces the sealed memory of a tree by the tables that it was flushed to. If these were
    /// merged already, the memory is kept.
    pub(super) fn written(&self, space: Space, tables: &Tables, written: &[TableId]) {
        let mut before = None;
        {
            let kept = self.kept.lock();
            let sealed = self.sealed.load(Ordering::Acquire);
            if let Some(entry) = kept.states.get(&sealed)
                && written.iter().all(|id| tables.list.iter().any(|table| table.id() == *id))
                && let Some(views) = &mut *entry.state.views.lock()
            {
                let view = Arc::new(tables.with_sealed(None));
                before = Some(std::mem::replace(&mut views[space.index()], view));
            }
        }
        // Outside of the locks: this may free the memory of the memtable.
        drop(before);
        self.note_tables(space, tables, written);
    }

    /// Records which tables a tree has now; `flushed` are those of the newest version.
    pub(super) fn note_tables(&self, space: Space, tables: &Tables, flushed: &[TableId]) {
        let now: HashMap<TableId, u64> =
            tables.list.iter().map(|table| (table.id(), table.metadata.file_size)).collect();
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

    /// Keeps commits from `since` on for later readers; with `None`, keeps none.
    pub(super) fn keep(&self, since: Option<Seqno>, tracker: &Tracker) {
        let mut kept = self.kept.lock();
        kept.since = since;
        kept.prune(&tracker.open_numbers());
        free(kept);
    }

    /// Drops versions that are not needed, then versions above the limits: first those for reading
    /// the past, then those of open snapshots, oldest first.
    pub(super) fn fit(&self, tracker: &Tracker, limits: Limits) {
        let mut kept = self.kept.lock();
        // Inside the lock: opening a snapshot of the past registers it before it looks up a
        // version.
        let open = tracker.open_numbers();
        kept.prune(&open);
        while kept.bytes > limits.history_bytes
            && let Some(oldest) = kept.oldest(|state| !state.is_needed(&open))
        {
            kept.forget(oldest);
        }
        while let Some(oldest) = kept.oldest(|state| state.is_needed(&open)) {
            let age = kept.states[&oldest].state.sealed_at.elapsed();
            if kept.bytes <= limits.snapshots.bytes && age <= limits.snapshots.age {
                break;
            }
            tracing::warn!(
                age_seconds = age.as_secs(),
                pinned_bytes = kept.bytes,
                "snapshots that keep too many replaced tables, or are too old, fail with SnapshotTooOld"
            );
            kept.expire(oldest);
        }
        free(kept);
    }

    /// Drops all versions that only readers of the past need.
    pub(super) fn forget(&self, tracker: &Tracker) {
        let mut kept = self.kept.lock();
        let open = tracker.open_numbers();
        while let Some(oldest) = kept.oldest(|state| !state.is_needed(&open)) {
            kept.forget(oldest);
        }
        free(kept);
    }

    /// The space that the past takes.
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

    /// The bytes of replaced tables that an open snapshot of a commit needs.
    pub(super) fn pinned_bytes(&self, seqno: Seqno, tracker: &Tracker) -> u64 {
        let kept = self.kept.lock();
        if self.is_newest(seqno) || tracker.open_numbers().binary_search(&seqno).is_err() {
            return 0;
        }
        let state =
            kept.states.range(seqno..).next().filter(|(_, entry)| entry.state.first <= seqno);
        let Some((last, _)) = state else { return 0 };
        // A table is listed with the newest version that holds it.
        let replaced = kept.states.range(*last..).flat_map(|(_, entry)| &entry.replaced);
        replaced.filter(|table| table.first <= *last).map(|table| table.bytes).sum()
    }

    /// Makes the commits from `first` until before `next` unreadable, before a value that only they
    /// read is removed. Returns false, with nothing changed, if a snapshot of one of them is open.
    pub(super) fn add_gap(&self, first: Seqno, next: Seqno, tracker: &Tracker) -> bool {
        // Opening a snapshot of the past registers it before it takes this lock.
        let mut gaps = self.gaps.lock();
        if next > first && has_any(&tracker.open_numbers(), first, next - 1) {
            return false;
        }
        join_gap(&mut gaps, (first, next));
        true
    }

    /// Whether a commit is in a gap.
    pub(super) fn is_in_gap(&self, seqno: Seqno) -> bool {
        let gaps = self.gaps.lock();
        let at = gaps.partition_point(|(first, _)| *first <= seqno);
        at.checked_sub(1).and_then(|at| gaps.get(at)).is_some_and(|(_, end)| seqno < *end)
    }

    /// Returns the version that serves a commit; `None` if the newest trees do.
    ///
    /// # Errors
    /// `SnapshotTooOld` if the commit can no longer be read.
    pub(super) fn state(&self, seqno: Seqno) -> Result<Option<Arc<KeptVersion>>> {
        let kept = self.kept.lock();
        if self.is_newest(seqno) {
            return Ok(None);
        }
        let state = kept.states.range(seqno..).next().map(|(_, entry)| &entry.state);
        let state = state.filter(|state| state.first <= seqno).ok_or(StoreError::SnapshotTooOld)?;
        Ok(Some(state.clone()))
    }
}

impl KeptVersion {
    /// Whether an open snapshot reads from this version; `open` holds the seqnos of all open
    /// snapshots, sorted.
    fn is_needed(&self, open: &[Seqno]) -> bool {
        has_any(open, self.first, self.last)
    }
}

/// Releases the lock, then frees the versions that were dropped under it.
fn free(mut kept: MutexGuard<'_, Kept>) {
    let removed = std::mem::take(&mut kept.removed);
    drop(kept);
    drop(removed);
}

/// Adds a range to sorted ranges that do not touch. If there are too many, the oldest two become one.
fn join_gap(gaps: &mut Vec<(Seqno, Seqno)>, (mut first, mut next): (Seqno, Seqno)) {
    let from = gaps.partition_point(|(_, end)| *end < first);
    let to = gaps.partition_point(|(start, _)| *start <= next);
    for (start, end) in gaps.drain(from..to.max(from)) {
        (first, next) = (first.min(start), next.max(end));
    }
    gaps.insert(from, (first, next));
    if gaps.len() > GAPS_MAX {
        let (first, _) = gaps.remove(0);
        gaps[0].0 = first;
    }
}

/// Whether any of the sorted numbers is between `from` and `to`, both included.
fn has_any(sorted: &[Seqno], from: Seqno, to: Seqno) -> bool {
    let at = sorted.partition_point(|number| *number < from);
    sorted.get(at).is_some_and(|number| *number <= to)
}

impl Kept {
    fn oldest(&self, wanted: impl Fn(&KeptVersion) -> bool) -> Option<Seqno> {
        self.states.iter().find(|(_, entry)| wanted(&entry.state)).map(|(last, _)| *last)
    }

    /// Drops versions that neither readers of the past nor snapshots need.
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
        self.removed.versions.push(entry.state);
        for table in entry.replaced {
            self.charge(last, table, false);
        }
    }

    /// Drops a version although snapshots need it; their reads fail from now on.
    fn expire(&mut self, last: Seqno) {
        if let Some(entry) = self.states.get(&last) {
            self.removed.views.extend(entry.state.views.lock().take());
            self.expired += 1;
        }
        self.forget(last);
    }

    /// Charges a replaced table to the newest version before `end` that holds it, if any.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_touch_are_one() {
        let mut gaps = Vec::new();
        for gap in [(10, 20), (30, 40), (50, 60), (20, 25), (45, 50), (5, 8), (24, 46)] {
            join_gap(&mut gaps, gap);
        }
        assert_eq!(gaps, [(5, 8), (10, 60)]);
        for first in 100..100 + 2 * GAPS_MAX as u64 {
            join_gap(&mut gaps, (first * 10, first * 10 + 1));
        }
        assert_eq!(gaps.len(), GAPS_MAX);
        assert_eq!(gaps[0].0, 5);
        assert!(gaps.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn a_commit_that_is_open_has_no_gap() {
        let tracker = Tracker::new(7);
        let history =
            History { kept: Mutex::default(), sealed: AtomicU64::new(0), gaps: Mutex::default() };
        let (seqno, shard) = tracker.open();
        assert!(!history.add_gap(5, 8, &tracker) && !history.is_in_gap(7));
        assert!(history.add_gap(5, 7, &tracker) && history.add_gap(8, 9, &tracker));
        tracker.close(seqno, shard);
        assert!(history.add_gap(7, 8, &tracker));
        let inside: Vec<Seqno> = (0..12).filter(|seqno| history.is_in_gap(*seqno)).collect();
        assert_eq!(inside, [5, 6, 7, 8]);
    }
}
