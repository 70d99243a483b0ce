//! The bell that commits ring when they leave work to the thread of pattern queues.
//!
//! Layer: base.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::time::Duration;

/// Wakes the thread that works at the queues.
pub struct Bell {
    rung: Mutex<bool>,
    wake: Condvar,
    /// The patterns whose targets wait longer than `maxStalenessMS`.
    pub overdue: Mutex<BTreeSet<u32>>,
}

impl Default for Bell {
    fn default() -> Bell {
        // What an earlier process left is looked for at once.
        Bell { rung: Mutex::new(true), wake: Condvar::new(), overdue: Mutex::default() }
    }
}

impl Bell {
    /// Something was queued.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.wake.notify_one();
    }

    /// How many patterns have targets that wait longer than they may.
    pub fn overdue_count(&self) -> usize {
        self.overdue.lock().len()
    }

    /// Waits, at most for `pause`; true when something was queued.
    pub fn wait(&self, pause: Duration) -> bool {
        let mut rung = self.rung.lock();
        if !*rung {
            self.wake.wait_for(&mut rung, pause);
        }
        std::mem::take(&mut *rung)
    }
}
