//! Merges that can be cancelled. They run in a thread of their own, while the caller's thread, whose
//! operation may be stopped, checks whether they are still wanted.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::{Result, StoreError};

thread_local! {
    /// Set when the merge of this thread is no longer wanted.
    static CANCELLED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// The flag that stops the merge of this thread, if there is one.
pub(super) fn flag() -> Option<Arc<AtomicBool>> {
    CANCELLED.with_borrow(Clone::clone)
}

/// The interval at which the caller's thread checks whether a merge is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `work`, which merges tables, in a thread of its own. When `is_wanted` returns false its merges
/// stop, and the result is [`StoreError::Interrupted`] unless the work is done nevertheless.
pub(super) fn while_wanted<T: Send>(
    is_wanted: &dyn Fn() -> bool,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let flag = cancelled.clone();
    let run = move || {
        CANCELLED.set(Some(flag));
        let result = work();
        drop(done);
        result
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("store-compact".to_string());
        let thread = thread.spawn_scoped(scope, run);
        let failed = |message: String| StoreError::Io {
            action: "merge tables of",
            file: "the store".into(),
            kind: std::io::ErrorKind::Other,
            message,
        };
        let thread = thread.map_err(|error| failed(error.to_string()))?;
        while ended.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if !is_wanted() {
                cancelled.store(true, Ordering::Relaxed);
            }
        }
        let result = thread.join().unwrap_or_else(|_| Err(failed("it panicked".to_string())));
        match result {
            Err(_) if cancelled.load(Ordering::Relaxed) => Err(StoreError::Interrupted),
            result => result,
        }
    })
}
