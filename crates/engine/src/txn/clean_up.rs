//! Removal of what an operation made that has failed: unfinished indexes, temporary collections.
//!
//! The operation may have been stopped, so the removal does not ask it whether to go on. If it takes
//! long, because of `fsync` with lock for example, the operation ends, and housekeeping does the
//! rest.

use super::Data;
use parking_lot::Mutex;
use query::interrupt::{self, Killed, Watch};
use std::sync::Arc;
use std::time::{Duration, Instant};
use value::{Code, Result};

/// How long an operation that has failed may take to remove what it made.
const PATIENCE: Duration = Duration::from_secs(1);

type Work = Box<dyn Fn(&Data) -> Result<()> + Send>;

/// What is still to be removed.
#[derive(Default)]
pub(crate) struct CleanUps {
    waiting: Mutex<Vec<CleanUp>>,
}

struct CleanUp {
    what: &'static str,
    work: Work,
}

/// Work that nobody kills.
struct Unstoppable;

impl Killed for Unstoppable {
    fn is_killed(&self) -> bool {
        false
    }
}

/// Runs work with a limit of its own.
fn patiently(data: &Data, work: &Work) -> Result<()> {
    let _watching = interrupt::watch(Watch {
        killed: Arc::new(Unstoppable),
        cursor_killed: None,
        deadline: Instant::now().checked_add(PATIENCE),
    });
    work(data)
}

impl Data {
    /// Removes what a failed operation made, now or in the background. `work` may run several
    /// times, so it must find out whether there is still something to remove.
    pub(crate) fn clean_up(
        &self,
        what: &'static str,
        work: impl Fn(&Data) -> Result<()> + Send + 'static,
    ) {
        let work: Work = Box::new(work);
        let Err(error) = patiently(self, &work) else { return };
        if error.code() == Code::SHUTDOWN_IN_PROGRESS {
            // The next start removes temporary collections, and builds unfinished indexes.
            return;
        }
        tracing::warn!(code = error.code().0, what, "cannot be removed yet; it is tried again");
        self.clean_ups.waiting.lock().push(CleanUp { what, work });
    }

    /// Removes what is still waiting for it. Called periodically.
    pub(crate) fn clean_up_rest(&self) {
        if self.fsync_lock.is_held() {
            return;
        }
        let waiting = std::mem::take(&mut *self.clean_ups.waiting.lock());
        for one in waiting {
            match patiently(self, &one.work) {
                Ok(()) => tracing::info!(what = one.what, "removed what a failed operation left"),
                Err(_) => self.clean_ups.waiting.lock().push(one),
            }
        }
    }
}
