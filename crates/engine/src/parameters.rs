//! The parameters that `setParameter` changes while the server runs.
//!
//! Layer: service.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// How much is logged, 0 to 5: 0 is what was configured.
#[derive(Clone, Default, Debug)]
pub struct LogLevels {
    /// The level of modules without one of their own.
    pub default: i32,
    /// Modules with a level of their own.
    pub modules: Vec<(&'static str, i32)>,
    /// The components that clients set, from which the modules follow.
    pub(crate) components: BTreeMap<&'static str, i32>,
}

/// The function called when log levels change.
pub(crate) type LogListener = Box<dyn Fn(&LogLevels) + Send + Sync>;

/// Parameters that can change while the server runs.
#[derive(Default)]
pub struct Parameters {
    /// How much is logged.
    pub(crate) levels: Mutex<LogLevels>,
    /// The function that applies new log levels; without one they cannot change.
    pub(crate) log_listener: Mutex<Option<LogListener>>,
}
