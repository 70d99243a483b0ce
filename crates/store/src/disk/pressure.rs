//! Back pressure: slows down writers when background work is behind.
//!
//! The debt of a tree is its number of overlapping young tables: flushed and not merged yet. From
//! [`SLOW_RUNS`] on, a commit to that tree owes a pause in proportion to its bytes and growing
//! with the debt, so that the write rate adapts to the speed of merging long before writers must
//! be stopped. Small commits are hardly affected. A commit runs under locks of the caller, so it
//! only records what it owes; the thread pauses after it has released them ([`Pressure::pay`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lsm_tree::{AbstractTree, Tree};

use crate::Space;

/// From this many overlapping young tables on, commits are slowed down.
pub(super) const SLOW_RUNS: usize = 12;
/// At this many, they are slowed down most.
const FULL_RUNS: usize = 40;
/// Bytes per second at the lower and at the upper end of that range.
const FAST_RATE: f64 = 96e6;
const SLOW_RATE: f64 = 512e3;
/// From this share of the memory for commits on, they are slowed down; at twice this share they
/// wait.
pub(super) const FULL_MEMORY: f64 = 1.25;
/// The longest pause of one commit.
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// Shorter pauses are accumulated: sleeping is not more precise.
const PAUSE_MIN: Duration = Duration::from_micros(200);

/// How far background work is behind.
#[derive(Default)]
pub(super) struct Pressure {
    /// Overlapping young tables of each tree; 0 if its merging fails, since pauses do not help
    /// then.
    runs: [AtomicUsize; 4],
    /// The maximum over all trees.
    most: AtomicUsize,
    /// Threads that pause now.
    pausing: AtomicUsize,
    /// The number of pauses, and their total time.
    pub(super) pauses: AtomicU64,
    pub(super) paused_micros: AtomicU64,
}

thread_local! {
    /// The pause that the commits of this thread owe, in nanoseconds.
    static OWED: Cell<u64> = const { Cell::new(0) };
}

impl Pressure {
    /// Records the debt of a tree.
    pub(super) fn note(&self, space: Space, tree: &Tree, merging_fails: bool) {
        let runs = if merging_fails { 0 } else { tree.l0_run_count() };
        self.runs[space.index()].store(runs, Ordering::Relaxed);
        let most = self.runs.iter().map(|runs| runs.load(Ordering::Relaxed)).max();
        self.most.store(most.unwrap_or(0), Ordering::Relaxed);
    }

    /// Overlapping young tables of a tree, as last recorded.
    pub(super) fn runs(&self, space: Space) -> usize {
        self.runs[space.index()].load(Ordering::Relaxed)
    }

    /// Whether merging is so far behind that writers are slowed down.
    pub(super) fn is_behind(&self) -> bool {
        self.most.load(Ordering::Relaxed) >= SLOW_RUNS
    }

    /// Whether a tree has at least this many overlapping young tables.
    pub(super) fn is_stuck(&self, runs: usize) -> bool {
        self.most.load(Ordering::Relaxed) >= runs
    }

    /// Records what a commit of these bytes to these trees owes. `memory` is the used share of the
    /// memory for commits.
    pub(super) fn charge(&self, bytes: usize, memory: f64, touched: impl Iterator<Item = Space>) {
        let mut share = ((memory - FULL_MEMORY) / (2.0 - FULL_MEMORY)).clamp(0.0, 1.0);
        if self.is_behind() {
            let runs = touched.map(|space| self.runs(space)).max().unwrap_or(0);
            let debt = runs.saturating_sub(SLOW_RUNS) as f64 / (FULL_RUNS - SLOW_RUNS) as f64;
            share = share.max(debt.min(1.0));
        }
        if share > 0.0 {
            let others = self.pausing.load(Ordering::Relaxed) as f64;
            let pause = bytes as f64 / rate(share) * (1.0 + others);
            let pause = pause.min(PAUSE_MAX.as_secs_f64());
            OWED.set(OWED.get() + (pause * 1e9) as u64);
        }
    }

    /// Clears the debt of this thread: it has waited for the background work itself.
    pub(super) fn forgive(&self) {
        OWED.set(0);
    }

    /// Pauses for what the commits of this thread owe. The caller holds no locks that others need.
    pub(super) fn pay(&self) {
        let owed = Duration::from_nanos(OWED.get());
        if owed < PAUSE_MIN {
            return;
        }
        OWED.set(0);
        let pause = owed.min(PAUSE_MAX);
        self.pausing.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(pause);
        self.pausing.fetch_sub(1, Ordering::Relaxed);
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.paused_micros.fetch_add(pause.as_micros() as u64, Ordering::Relaxed);
    }
}

/// The bytes per second that a writer may write at a share of the debt.
fn rate(share: f64) -> f64 {
    SLOW_RATE + FAST_RATE * (1.0 - share).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_debt_and_bytes_and_only_for_the_tree_that_is_behind() {
        let pressure = Pressure::default();
        let owed = |runs: usize, bytes: usize, space: Space| {
            pressure.runs[Space::Documents.index()].store(runs, Ordering::Relaxed);
            pressure.most.store(runs, Ordering::Relaxed);
            OWED.set(0);
            pressure.charge(bytes, 0.0, [space].into_iter());
            Duration::from_nanos(OWED.replace(0))
        };
        assert_eq!(owed(SLOW_RUNS, 1 << 20, Space::Documents), Duration::ZERO);
        let mut before = Duration::ZERO;
        for runs in SLOW_RUNS + 1..=FULL_RUNS {
            let pause = owed(runs, 64 << 10, Space::Documents);
            assert!(pause > before, "{runs}");
            assert_eq!(owed(runs, 64 << 10, Space::Indexes), Duration::ZERO);
            before = pause;
        }
        // A small write is hardly delayed, a large one is never stopped.
        assert!(owed(FULL_RUNS / 2, 1 << 10, Space::Documents) < Duration::from_micros(100));
        assert!(owed(FULL_RUNS * 9, 1 << 10, Space::Documents) < Duration::from_millis(3));
        assert_eq!(owed(FULL_RUNS * 9, 64 << 20, Space::Documents), PAUSE_MAX);
    }

    #[test]
    fn full_memory_slows_every_writer() {
        let pressure = Pressure::default();
        OWED.set(0);
        pressure.charge(1 << 20, 1.5, [Space::Catalog].into_iter());
        assert!(OWED.replace(0) > 0);
        pressure.charge(1 << 20, 0.9, [Space::Catalog].into_iter());
        assert_eq!(OWED.get(), 0);
    }
}
