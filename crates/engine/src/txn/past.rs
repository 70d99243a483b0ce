//! Past states: finds the state at a cluster time of the last minutes (`atClusterTime`).
//!
//! The store keeps the data by commit. The change log gives the commit of a time: the last one
//! before the first commit with a later time. The catalog of that commit is computed from the
//! newest one by undoing later changes.
//!
//! The clock and the newest commit are sampled periodically, to know which commits are older than
//! the window.

use super::Data;
use super::View;
use crate::catalog::{Absent, Catalog, Collection};
use ::patterns::Pattern;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use store::Seqno;
use value::{Code, Error, Result};

/// The default of `window_seconds`.
const WINDOW_SECONDS: i64 = 300;
/// The approximate number of samples kept; with a longer window they are taken less often.
const SAMPLES: i64 = 600;

/// The data for finding past states.
pub(crate) struct Past {
    /// The number of seconds for which past states can be read.
    pub(crate) window_seconds: AtomicI64,
    state: Mutex<History>,
}

struct History {
    /// The first is the start of the window: older states cannot be read.
    looks: VecDeque<ClockSample>,
    /// Changes of collections, in commit order.
    changes: VecDeque<Change>,
    /// Changes of patterns, in commit order.
    patterns: VecDeque<Redeclared>,
}

/// Commits up to `seqno` have times up to `time`, later ones have later times.
struct ClockSample {
    taken: Instant,
    time: u64,
    seqno: Seqno,
}

/// A collection that a commit created, changed or removed.
struct Change {
    seqno: Seqno,
    time: u64,
    db: Box<str>,
    name: Box<str>,
    /// The collection before the commit; `None` if it did not exist.
    before: Option<Arc<Collection>>,
}

/// The patterns of a database before a commit changed them.
struct Redeclared {
    seqno: Seqno,
    db: Box<str>,
    before: Vec<Arc<Pattern>>,
}

impl Past {
    /// An empty history that starts at this time and commit.
    pub(crate) fn new(time: u64, seqno: Seqno) -> Past {
        let look = ClockSample { taken: Instant::now(), time, seqno };
        Past {
            window_seconds: AtomicI64::new(WINDOW_SECONDS),
            state: Mutex::new(History {
                looks: VecDeque::from([look]),
                changes: VecDeque::new(),
                patterns: VecDeque::new(),
            }),
        }
    }

    /// Records the catalog change of a commit. Runs inside the commit lock.
    pub(crate) fn note(&self, old: &Catalog, new: &Catalog, time: u64, seqno: Seqno) {
        let mut state = self.state.lock();
        let mut push = |changed: &Collection, before: Option<Arc<Collection>>| {
            let (db, name) = (changed.db.clone(), changed.name.clone());
            state.changes.push_back(Change { seqno, time, db, name, before });
        };
        for was in old.differing(new) {
            push(was, Some(was.clone()));
        }
        for now in new.differing(old).filter(|now| old.get(&now.db, &now.name).is_none()) {
            push(now, None);
        }
        for db in old.databases.keys().chain(new.databases.keys()).collect::<BTreeSet<_>>() {
            if !old.has_patterns_of(new, db) {
                let (db, before) = (db.clone(), old.patterns(db).to_vec());
                state.patterns.push_back(Redeclared { seqno, db, before });
            }
        }
    }

    /// The start of the window, as a cluster time.
    fn begins(&self) -> u64 {
        self.state.lock().looks.front().map_or(u64::MAX, |look| look.time)
    }

    /// The catalog at a commit. Collections that were replaced by others since then are absent.
    fn catalog(&self, newest: &Arc<Catalog>, at: u64, seqno: Seqno) -> Arc<Catalog> {
        let state = self.state.lock();
        let mut changed = BTreeMap::new();
        for change in state.changes.iter().rev().take_while(|change| change.seqno > seqno) {
            let latest = changed
                .get(&(&change.db, &change.name))
                .map_or(change.time, |(_, latest): &(_, u64)| *latest);
            changed.insert((&change.db, &change.name), (&change.before, latest));
        }
        let mut patterns = BTreeMap::new();
        for change in state.patterns.iter().rev().take_while(|change| change.seqno > seqno) {
            patterns.insert(&change.db, &change.before);
        }
        if changed.is_empty() && patterns.is_empty() {
            return newest.clone();
        }
        let mut catalog = Catalog::clone(newest);
        let mut absent = Absent { at, names: BTreeMap::new(), patterns: BTreeSet::new() };
        for (db, before) in patterns {
            let there = |id: u32| newest.patterns(db).iter().any(|known| known.id == id);
            let gone = before.iter().map(|pattern| pattern.id).filter(|id| !there(*id));
            absent.patterns.extend(gone);
            catalog.restore_patterns(db, before.clone());
        }
        for ((db, name), (then, latest)) in changed {
            match (then, newest.get(db, name)) {
                (None, None) => {}
                (Some(then), Some(now)) if then.id == now.id => {
                    catalog.restore(Arc::new(without_dropped_indexes(then, now)));
                }
                _ => {
                    catalog.remove(db, name);
                    absent.names.insert((db.clone(), name.clone()), latest);
                }
            }
        }
        catalog.absent = Some(Arc::new(absent));
        Arc::new(catalog)
    }
}

/// A collection at an earlier commit, without indexes that were dropped since: their entries are
/// not kept.
fn without_dropped_indexes(then: &Collection, now: &Collection) -> Collection {
    let mut then = then.clone();
    then.indexes.retain(|index| now.indexes.iter().any(|kept| kept.id == index.id));
    then
}

impl Data {
    /// Samples the clock and drops what is older than the window. Called periodically.
    pub(crate) fn forget_past(&self) {
        let seconds = self.past.window_seconds.load(Ordering::Relaxed).max(0);
        let window = Duration::from_secs(seconds.unsigned_abs());
        let step = Duration::from_secs((seconds / SAMPLES).max(1).unsigned_abs());
        let commit = self.commit.lock();
        let (time, seqno) = (self.clock.now(), self.store.snapshot().seqno());
        drop(commit);
        let mut state = self.past.state.lock();
        if state.looks.back().is_none_or(|last| last.taken.elapsed() >= step) {
            state.looks.push_back(ClockSample { taken: Instant::now(), time, seqno });
        }
        while state.looks.get(1).is_some_and(|second| second.taken.elapsed() >= window) {
            state.looks.pop_front();
        }
        let Some(first) = state.looks.front().map(|look| look.seqno) else { return };
        while state.changes.front().is_some_and(|change| change.seqno <= first) {
            state.changes.pop_front();
        }
        while state.patterns.front().is_some_and(|change| change.seqno <= first) {
            state.patterns.pop_front();
        }
        drop(state);
        self.store.keep_since((seconds > 0).then_some(first));
    }

    /// The newest state, or that of a cluster time, with its time.
    ///
    /// # Errors
    /// SnapshotTooOld when the state is no longer kept.
    pub(crate) fn moment(&self, at: Option<u64>) -> Result<(View, u64)> {
        // Inside the lock, so that nothing is committed in between. A client that knows the time of
        // a commit in progress waits for it.
        let lock = self.lock()?;
        let (newest, now, last) = (self.newest(), self.clock.now(), self.changes.newest().0);
        drop(lock);
        let Some(at) = at.filter(|at| *at < last) else { return Ok((newest, at.unwrap_or(now))) };
        let later = self.changes.commit_after(&newest.snapshot, at)?;
        // Checked afterwards, because the state may have been dropped meanwhile.
        if at < self.past.begins() || at < self.changes.lost() {
            return Err(too_old(at));
        }
        let Some(later) = later else { return Ok((newest, at)) };
        let seqno = later.saturating_sub(1);
        let snapshot = self.store.snapshot_at(seqno).ok_or_else(|| too_old(at))?;
        let catalog = self.past.catalog(&newest.catalog, at, seqno);
        Ok((View::new(catalog, snapshot), at))
    }
}

#[cold]
fn too_old(at: u64) -> Error {
    Error::new(
        Code::SNAPSHOT_TOO_OLD,
        format!(
            "Read timestamp Timestamp({}, {}) is older than the oldest available timestamp.",
            at >> 32,
            at & 0xFFFF_FFFF
        ),
    )
}
