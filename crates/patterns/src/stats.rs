//! What a pattern did since the process started, for those who ask whether it is worth its cost.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one pattern. They outlive changes of its declaration.
#[derive(Debug, Default)]
pub struct Stats {
    /// Changes of sources that had to be followed.
    pub deltas: AtomicU64,
    /// Documents that were written to follow them.
    pub writes: AtomicU64,
    /// Groups whose lists were read anew, because one statement changed a large part of them.
    pub recomputed: AtomicU64,
    /// Changes of what a reference copies of its sources, be it stored or not.
    pub changes: AtomicU64,
    /// Queries that were answered from what it maintains.
    pub rewrites: AtomicU64,
    /// Children that added nothing because an expression failed on them.
    pub errors: AtomicU64,
    /// Writes that went past it.
    pub passed: AtomicU64,
    /// Documents that clients wrote with other values than the maintained ones.
    pub ignored: AtomicU64,
}

impl Stats {
    /// Raises a counter.
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    /// Reads a counter.
    #[must_use]
    pub fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// Documents that are written for each change of a source, the source itself included; none
    /// before the first change.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        let deltas = Stats::read(&self.deltas);
        (deltas > 0).then(|| 1.0 + Stats::read(&self.writes) as f64 / deltas as f64)
    }
}
