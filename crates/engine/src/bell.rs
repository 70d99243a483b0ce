//! Wakes the thread of pattern queues when a commit adds work to a queue.
//!
//! Layer: base.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::time::Duration;

/// Wakes the thread that processes the queues.
pub struct Bell {
    rung: Mutex<bool>,
    wake: Condvar,
    /// The patterns whose targets have been waiting longer than `maxStalenessMS`.
    pub overdue: Mutex<BTreeSet<u32>>,
}

impl Default for Bell {
    fn default() -> Bell {
        // Rung at the start, so that work left by an earlier process is found at once.
        Bell { rung: Mutex::new(true), wake: Condvar::new(), overdue: Mutex::default() }
    }
}

impl Bell {
    /// Reports that something was queued.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.wake.notify_one();
    }

    /// The number of patterns whose targets have been waiting longer than `maxStalenessMS`.
    pub fn overdue_count(&self) -> usize {
        self.overdue.lock().len()
    }

    /// Waits for at most `pause`. Returns true if something was queued.
    pub fn wait(&self, pause: Duration) -> bool {
        let mut rung = self.rung.lock();
        if !*rung {
            self.wake.wait_for(&mut rung, pause);
        }
        std::mem::take(&mut *rung)
    }
}
