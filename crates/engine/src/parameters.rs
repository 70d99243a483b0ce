//! The parameters that `setParameter` changes while the server runs.

use std::sync::atomic::AtomicI32;

/// Parameters that can change while the server runs.
#[derive(Default)]
pub struct Parameters {
    /// How much is logged, 0 to 5.
    pub log_level: AtomicI32,
}
