//! Background work that is shown in `currentOp`, with its progress.
//!
//! Layer: base.

use query::interrupt::{self, Killed, Watch, Watching};
use std::sync::Arc;
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

    /// Makes loops and waits of this thread end when the job is killed, until the result is
    /// dropped. Those of the operation that runs the job end with the operation, too.
    #[must_use]
    pub fn watch(self: &Arc<Self>) -> Watching {
        let outer = interrupt::current();
        let operation = outer.as_ref().map(|outer| outer.killed.clone());
        interrupt::watch(Watch {
            killed: Arc::new(KilledEither { job: self.clone(), operation }),
            cursor_killed: outer.as_ref().and_then(|outer| outer.cursor_killed.clone()),
            deadline: outer.and_then(|outer| outer.deadline),
        })
    }
}

/// The kill flags of a job and of the operation that runs it.
struct KilledEither {
    job: Arc<Job>,
    operation: Option<Arc<dyn Killed>>,
}

impl Killed for KilledEither {
    fn is_killed(&self) -> bool {
        self.job.killed.load(Ordering::Relaxed)
            || self.operation.as_ref().is_some_and(|operation| operation.is_killed())
    }

    fn note_wait(&self, begins: bool) {
        self.operation.iter().for_each(|operation| operation.note_wait(begins));
    }

    fn note_conflict(&self) {
        self.operation.iter().for_each(|operation| operation.note_conflict());
    }
}
