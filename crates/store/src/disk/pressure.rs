//! Back pressure: slows down writers when background work is behind.
//!
//! There are two kinds of debt. The debt of a tree is its number of overlapping young tables:
//! flushed and not merged yet. The debt of memory is what is not flushed yet. From [`SLOW_RUNS`]
//! and [`SLOW_MEMORY`] on, a commit owes a pause in proportion to its bytes and growing with the
//! debt, so that the write rate adapts to the speed of the disk. The rate falls without end, so
//! writers never have to be stopped for young tables. Small commits are hardly affected, and
//! neither are commits to other trees. A commit runs under locks of the caller, so it only records
//! what it owes; the thread pauses after it has released them ([`Pressure::pay`]). What a large
//! commit owes beyond the longest pause is paid before the next commit of the thread
//! ([`Pressure::repay`]). `admission.rs` has what happens when memory is used up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, Tree};

use crate::Space;

/// From this many overlapping young tables on, commits are slowed down, ...
pub(super) const SLOW_RUNS: usize = 12;
/// ... from this on much, ...
const FULL_RUNS: usize = 40;
/// ... and here most. Far below the number at which flushing waits for merging.
const LAST_RUNS: usize = 200;
/// The same for what is not flushed yet, as multiples of the memory for commits. At the second of
/// them large commits wait, ...
pub(super) const SLOW_MEMORY: f64 = 1.0;
pub(super) const LARGE_MEMORY_MAX: f64 = 1.5;
/// ... and here all.
pub(super) const MEMORY_MAX: f64 = 2.0;
/// Commits up to this size do not wait for large ones.
pub(super) const SMALL_BYTES: usize = 16 << 10;
/// Bytes per second at the first two of these points, ...
const FAST_RATE: f64 = 96e6;
const SLOW_RATE: f64 = 512e3;
/// ... and at the last one.
const LAST_RATE: f64 = 8e3;
/// The longest pause of one commit.
const PAUSE_MAX: Duration = Duration::from_millis(800);
/// The longest time for which a commit repays what earlier large ones of its thread owe.
const REPAY_MAX: Duration = Duration::from_secs(4);
/// Shorter pauses are accumulated: sleeping is not more precise.
const PAUSE_MIN: Duration = Duration::from_micros(200);
/// How often a pausing thread looks whether it shall end.
const PAUSE_STEP: Duration = Duration::from_millis(20);

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
    /// The longest time that one commit was asked to pause, or that a small one waited.
    pub(super) longest_micros: AtomicU64,
    /// How often large commits waited before they were admitted, and the longest of these waits.
    pub(super) large_waits: AtomicU64,
    pub(super) longest_large_micros: AtomicU64,
}

thread_local! {
    /// The pause that the commits of this thread owe, in nanoseconds.
    static OWED: Cell<u64> = const { Cell::new(0) };
    /// The bytes of large commits of this thread for which it has not paused yet.
    static CARRIED: Cell<f64> = const { Cell::new(0.0) };
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

    /// Records what a commit of these bytes to these trees owes. `memory` is the used share of the
    /// memory for commits.
    pub(super) fn charge(&self, bytes: usize, memory: f64, touched: impl Iterator<Item = Space>) {
        let runs = match self.is_behind() {
            true => touched.map(|space| self.runs(space)).max().unwrap_or(0),
            false => 0,
        };
        let share = total_debt(memory, runs);
        if share > 0.0 {
            let others = self.pausing.load(Ordering::Relaxed) as f64;
            let most = PAUSE_MAX.as_secs_f64();
            let pause = bytes as f64 / rate(share) * (1.0 + others);
            if pause > most && bytes > SMALL_BYTES {
                CARRIED.set(CARRIED.get() + bytes as f64 * (1.0 - most / pause));
            }
            OWED.set(OWED.get() + (pause.min(most) * 1e9) as u64);
        }
    }

    /// Pauses for what earlier large commits of this thread still owe, as long as the debt lasts and
    /// `is_wanted` says so; returns false if that ended it. `memory` as in [`Pressure::charge`].
    pub(super) fn repay(&self, memory: impl Fn() -> f64, is_wanted: impl Fn() -> bool) -> bool {
        let mut left = CARRIED.take();
        if left == 0.0 {
            return true;
        }
        let begun = Instant::now();
        self.pausing.fetch_add(1, Ordering::Relaxed);
        let mut goes_on = true;
        while left > 0.0 && begun.elapsed() < REPAY_MAX {
            let share = total_debt(memory(), self.most.load(Ordering::Relaxed));
            goes_on = is_wanted();
            if share == 0.0 || !goes_on {
                break;
            }
            std::thread::sleep(PAUSE_STEP);
            let all = self.pausing.load(Ordering::Relaxed).max(1) as f64;
            left -= rate(share) * PAUSE_STEP.as_secs_f64() / all;
        }
        self.pausing.fetch_sub(1, Ordering::Relaxed);
        self.note_large_wait(begun);
        goes_on
    }

    /// Records that a large commit has waited since `begun`.
    pub(super) fn note_large_wait(&self, begun: Instant) {
        self.large_waits.fetch_add(1, Ordering::Relaxed);
        let waited = begun.elapsed().as_micros() as u64;
        self.longest_large_micros.fetch_max(waited, Ordering::Relaxed);
    }

    /// Clears the debt of this thread: it has waited for the background work itself.
    pub(super) fn forgive(&self) {
        OWED.set(0);
        CARRIED.set(0.0);
    }

    /// Pauses for what the commits of this thread owe, as long as `is_wanted` says so. The caller
    /// holds no locks that others need.
    pub(super) fn pay(&self, is_wanted: impl Fn() -> bool) {
        let owed = Duration::from_nanos(OWED.get());
        if owed < PAUSE_MIN {
            return;
        }
        OWED.set(0);
        let pause = owed.min(PAUSE_MAX);
        self.longest_micros.fetch_max(pause.as_micros() as u64, Ordering::Relaxed);
        self.pausing.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        while let Some(left) = pause.checked_sub(begun.elapsed())
            && is_wanted()
        {
            std::thread::sleep(left.min(PAUSE_STEP));
        }
        self.pausing.fetch_sub(1, Ordering::Relaxed);
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.paused_micros.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

/// The larger of the debts of memory and of a tree with so many young tables.
fn total_debt(memory: f64, runs: usize) -> f64 {
    let [slow, full, last] = [SLOW_RUNS, FULL_RUNS, LAST_RUNS].map(|runs| runs as f64);
    let of_memory = debt(memory, SLOW_MEMORY, LARGE_MEMORY_MAX, MEMORY_MAX);
    of_memory.max(debt(runs as f64, slow, full, last))
}

/// Returns how large a debt is: 0 up to `slow`, 1 at `full`, 2 from `last` on.
fn debt(value: f64, slow: f64, full: f64, last: f64) -> f64 {
    if value <= full {
        ((value - slow) / (full - slow)).max(0.0)
    } else {
        1.0 + ((value - full) / (last - full)).min(1.0)
    }
}

/// The bytes per second that writers may write at a debt.
fn rate(debt: f64) -> f64 {
    if debt <= 1.0 {
        SLOW_RATE + FAST_RATE * (1.0 - debt).powi(3)
    } else {
        SLOW_RATE * (LAST_RATE / SLOW_RATE).powf(debt - 1.0)
    }
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
        assert!(owed(FULL_RUNS, 1 << 10, Space::Documents) < Duration::from_millis(3));
        assert!(owed(LAST_RUNS, 1 << 10, Space::Documents) < Duration::from_millis(200));
        assert_eq!(owed(FULL_RUNS * 9, 64 << 20, Space::Documents), PAUSE_MAX);
    }

    #[test]
    fn rate_falls_without_a_step() {
        let rates: Vec<f64> = (0..=200).map(|step| rate(f64::from(step) / 100.0)).collect();
        assert!(rates.windows(2).all(|pair| pair[1] < pair[0] && pair[1] > pair[0] * 0.85));
        assert!((rates[200] - LAST_RATE).abs() < 1.0);
    }

    #[test]
    fn full_memory_slows_every_writer() {
        let pressure = Pressure::default();
        let owed = |memory| {
            pressure.charge(1 << 10, memory, [Space::Catalog].into_iter());
            OWED.replace(0)
        };
        OWED.set(0);
        assert_eq!(owed(SLOW_MEMORY), 0);
        assert!(owed(1.25) > 0);
        assert!(owed(LARGE_MEMORY_MAX) > owed(1.25));
        assert!(owed(MEMORY_MAX) > 10 * owed(LARGE_MEMORY_MAX));
    }

    #[test]
    fn a_large_commit_pays_the_rest_before_the_next_one_while_the_debt_lasts() {
        let pressure = Pressure::default();
        OWED.set(0);
        CARRIED.set(0.0);
        let charge = |bytes| {
            pressure.charge(bytes, LARGE_MEMORY_MAX, [Space::Documents].into_iter());
            (Duration::from_nanos(OWED.replace(0)), CARRIED.get())
        };
        // A small commit owes nothing later, whatever the debt.
        assert_eq!(charge(SMALL_BYTES).1, 0.0);
        let (pause, rest) = charge(4 << 20);
        assert_eq!(pause, PAUSE_MAX);
        let paid = SLOW_RATE * PAUSE_MAX.as_secs_f64();
        assert!((rest - ((4 << 20) as f64 - paid)).abs() < 1.0, "{rest}");
        // Who is killed stops at once and owes it no longer.
        assert!(!pressure.repay(|| LARGE_MEMORY_MAX, || false));
        assert_eq!(CARRIED.get(), 0.0);
        assert!(pressure.repay(|| LARGE_MEMORY_MAX, || false), "nothing is owed");
        charge(4 << 20);
        // It ends with the debt.
        let looks = Cell::new(0);
        let memory = || {
            looks.set(looks.get() + 1);
            if looks.get() < 4 { LARGE_MEMORY_MAX } else { 0.5 }
        };
        assert!(pressure.repay(memory, || true));
        assert_eq!(looks.get(), 4);
        assert_eq!(pressure.large_waits.load(Ordering::Relaxed), 2);
        assert_eq!(pressure.pausing.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_pause_ends_when_it_is_no_longer_wanted() {
        let pressure = Pressure::default();
        OWED.set(PAUSE_MAX.as_nanos() as u64);
        let looks = Cell::new(0);
        pressure.pay(|| {
            looks.set(looks.get() + 1);
            looks.get() < 3
        });
        assert_eq!(looks.get(), 3);
        assert_eq!(OWED.get(), 0);
    }
}
