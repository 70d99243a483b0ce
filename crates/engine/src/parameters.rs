//! The parameters that `setParameter` changes while the server runs.
//!
//! Layer: service.

use parking_lot::Mutex;
use std::sync::atomic::AtomicI32;

/// The function called when the log level changes.
type Listener = Box<dyn Fn(i32) + Send + Sync>;

/// Parameters that can change while the server runs.
#[derive(Default)]
pub struct Parameters {
    /// The log level, 0 to 5.
    pub log_level: AtomicI32,
    /// The function that applies a new log level; without one the level cannot change.
    pub(crate) log_listener: Mutex<Option<Listener>>,
}
