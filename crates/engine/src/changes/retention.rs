//! How long records are kept: until they are more than so many bytes, but at least for so long.

use std::sync::atomic::{AtomicI64, AtomicU64};

/// Bytes of records that are kept when nobody says otherwise.
const BYTES_MAX: u64 = 990 * 1024 * 1024;

/// What is kept.
pub(crate) struct Limits {
    /// Most bytes.
    pub(crate) bytes_max: AtomicU64,
    /// Younger records stay even beyond that, in milliseconds.
    pub(crate) keep_ms: AtomicI64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes_max: AtomicU64::new(BYTES_MAX), keep_ms: AtomicI64::new(0) }
    }
}
