//! Work in the background that people may want to see: a row in `currentOp` with its progress.
//!
//! Layer: base.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// One piece of background work.
pub struct Job {
    /// Number of the operation.
    pub id: u64,
    /// What it does, in words.
    pub what: String,
    /// What it works on.
    pub namespace: String,
    /// When it began.
    pub started: Instant,
    /// How much is done.
    pub done: AtomicU64,
    /// How much there is.
    pub total: AtomicU64,
    /// Set to stop it.
    pub killed: AtomicBool,
}

impl Job {
    /// Moves the progress on.
    pub fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }
}
