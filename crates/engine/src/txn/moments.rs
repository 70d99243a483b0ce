//! Moments that commands read again: `readConcern: snapshot` names one by its cluster time.

use super::View;
use crate::engine::Inner;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use value::{Code, Error, Result};

/// The moments that are kept, by cluster time.
#[derive(Default)]
pub(crate) struct Moments(Mutex<BTreeMap<u64, (View, Instant)>>);

/// How long a moment is kept after it was last read.
const KEEP: Duration = Duration::from_secs(300);
/// Most moments that are kept; the oldest go first.
const KEPT_MAX: usize = 256;

impl Moments {
    fn keep(&self, time: u64, view: &View) {
        let mut kept = self.0.lock();
        kept.insert(time, (view.clone(), Instant::now()));
        while kept.len() > KEPT_MAX {
            kept.pop_first();
        }
    }

    fn find(&self, time: u64) -> Option<View> {
        let mut kept = self.0.lock();
        let (view, used) = kept.get_mut(&time)?;
        *used = Instant::now();
        Some(view.clone())
    }

    /// Forgets moments that nobody reads.
    pub(crate) fn forget_old(&self) {
        self.0.lock().retain(|_, (_, used)| used.elapsed() < KEEP);
    }
}

impl Inner {
    /// The newest moment or the one of a cluster time, with its time. It can be read again.
    ///
    /// # Errors
    /// SnapshotTooOld when the moment is not kept any more.
    pub(crate) fn moment(&self, at: Option<u64>) -> Result<(View, u64)> {
        if let Some(at) = at
            && let Some(view) = self.moments.find(at)
        {
            return Ok((view, at));
        }
        // Inside the lock: nothing is committed between the looks.
        let lock = self.commit.lock();
        let (view, now) = (self.newest(), self.clock.now());
        drop(lock);
        let time = at.unwrap_or(now);
        if time < now {
            return Err(Error::new(
                Code::SNAPSHOT_TOO_OLD,
                format!(
                    "Read timestamp Timestamp({}, {}) is older than the oldest available timestamp.",
                    time >> 32,
                    time & 0xFFFF_FFFF
                ),
            ));
        }
        self.moments.keep(time, &view);
        Ok((view, time))
    }
}
