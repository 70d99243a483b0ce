//! Counters of a pattern since the process started, to judge its cost and benefit.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one pattern. They survive changes of its declaration.
#[derive(Debug, Default)]
pub struct Stats {
    /// Changes of sources that affected the pattern.
    pub deltas: AtomicU64,
    /// Documents written because of them.
    pub writes: AtomicU64,
    /// Groups whose lists were rebuilt, because one statement changed a large part of them.
    pub recomputed: AtomicU64,
    /// Changes of the copied fields of a reference's sources, stored or not.
    pub changes: AtomicU64,
    /// Queries answered from its values.
    pub rewrites: AtomicU64,
    /// Children that added nothing because an expression failed on them.
    pub errors: AtomicU64,
    /// Writes that bypassed it.
    pub passed: AtomicU64,
    /// Documents that clients wrote with values that differ from the maintained ones.
    pub ignored: AtomicU64,
}

impl Stats {
    /// Increments a counter.
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    /// Reads a counter.
    #[must_use]
    pub fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// Documents written for each change of a source, including the source itself; `None` before
    /// the first change.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        let deltas = Stats::read(&self.deltas);
        (deltas > 0).then(|| 1.0 + Stats::read(&self.writes) as f64 / deltas as f64)
    }
}
