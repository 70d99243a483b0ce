//! Background work that is shown in `currentOp`, with its progress.
//!
//! Layer: base.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// One piece of background work.
pub struct Job {
    /// The operation number.
    pub id: u64,
    /// A description for `currentOp`.
    pub what: String,
    /// The namespace it works on.
    pub namespace: String,
    /// When it began.
    pub started: Instant,
    /// Units of work done.
    pub done: AtomicU64,
    /// Units of work in total.
    pub total: AtomicU64,
    /// Set to stop the work.
    pub killed: AtomicBool,
}

impl Job {
    /// Adds to the units of work done.
    pub fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }
}
