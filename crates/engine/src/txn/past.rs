//! The past: which state a cluster time of the last minutes names (`atClusterTime`).
//!
//! The data is kept by the store, by commit. Which commit a time names stands in the log of
//! changes: the last one before the first that came later. What the catalog was then is told from
//! what it is by going back through its changes.
//!
//! A look is taken now and then at the clock and the newest commit, so that it is known which
//! commits are older than the window.

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

/// How far back can be read when nobody says otherwise.
const WINDOW_SECONDS: i64 = 300;
/// How many looks are kept, about; with a long window they are taken less often.
const LOOKS: i64 = 600;

/// What is known of the past.
pub(crate) struct Past {
    /// How many seconds back can be read.
    pub(crate) window_seconds: AtomicI64,
    state: Mutex<History>,
}

struct History {
    /// The first is the end of the window: what is older cannot be read.
    looks: VecDeque<ClockSample>,
    /// What became of collections, in the order of commits.
    changes: VecDeque<Change>,
    /// What became of patterns, in the order of commits.
    patterns: VecDeque<Redeclared>,
}

/// Commits up to `seqno` have times up to `time`, later ones have later times.
struct ClockSample {
    taken: Instant,
    time: u64,
    seqno: Seqno,
}

/// A collection that a commit made, changed or removed.
struct Change {
    seqno: Seqno,
    time: u64,
    db: Box<str>,
    name: Box<str>,
    /// What it was before.
    before: Option<Arc<Collection>>,
}

/// The patterns of a database that a commit changed, as they were before.
struct Redeclared {
    seqno: Seqno,
    db: Box<str>,
    before: Vec<Arc<Pattern>>,
}

impl Past {
    /// A past that begins now.
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

    /// Notes what a commit made of the catalog. Runs inside the commit lock.
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

    /// The end of the window, as a cluster time.
    fn begins(&self) -> u64 {
        self.state.lock().looks.front().map_or(u64::MAX, |look| look.time)
    }

    /// What the catalog was at a commit. Collections that are not what they were then, but another
    /// one, are absent.
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
            catalog.set_patterns_as_they_were(db, before.clone());
        }
        for ((db, name), (then, latest)) in changed {
            match (then, newest.get(db, name)) {
                (None, None) => {}
                (Some(then), Some(now)) if then.id == now.id => {
                    catalog.set_as_it_was(Arc::new(without_dropped_indexes(then, now)));
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

/// A collection as it was, with those of its indexes that still are there: entries of others are
/// not kept.
fn without_dropped_indexes(then: &Collection, now: &Collection) -> Collection {
    let mut then = then.clone();
    then.indexes.retain(|index| now.indexes.iter().any(|kept| kept.id == index.id));
    then
}

impl Data {
    /// Looks at the clock and lets go of what is older than the window. Runs now and then.
    pub(crate) fn forget_past(&self) {
        let seconds = self.past.window_seconds.load(Ordering::Relaxed).max(0);
        let window = Duration::from_secs(seconds.unsigned_abs());
        let step = Duration::from_secs((seconds / LOOKS).max(1).unsigned_abs());
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

    /// The newest state or that of a cluster time, with its time.
    ///
    /// # Errors
    /// SnapshotTooOld when the time is not kept any more.
    pub(crate) fn moment(&self, at: Option<u64>) -> Result<(View, u64)> {
        // Inside the lock: nothing is committed between the looks, and who was given the time of a
        // commit that is under way waits for it.
        let lock = self.commit.lock();
        let (newest, now, last) = (self.newest(), self.clock.now(), self.changes.newest().0);
        drop(lock);
        let Some(at) = at.filter(|at| *at < last) else { return Ok((newest, at.unwrap_or(now))) };
        let later = self.changes.commit_after(&newest.snapshot, at)?;
        // Looked at afterwards: what was asked for may have been dropped meanwhile.
        if at < self.past.begins() || at < self.changes.lost() {
            return Err(too_old(at));
        }
        let Some(later) = later else { return Ok((newest, at)) };
        let seqno = later.saturating_sub(1);
        let snapshot = self.store.snapshot_at(seqno).ok_or_else(|| too_old(at))?;
        let catalog = self.past.catalog(&newest.catalog, at, seqno);
        Ok((View { catalog, snapshot }, at))
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
