//! The parameters that `setParameter` changes while the server runs.
//!
//! Layer: service.

use parking_lot::Mutex;
use std::sync::atomic::AtomicI32;

/// What is told when the log level changes.
type Listener = Box<dyn Fn(i32) + Send + Sync>;

/// Parameters that can change while the server runs.
#[derive(Default)]
pub struct Parameters {
    /// How much is logged, 0 to 5.
    pub log_level: AtomicI32,
    /// Who writes the log; without, the level cannot change.
    pub(crate) log_listener: Mutex<Option<Listener>>,
}
