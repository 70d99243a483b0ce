//! Limits on the size of the log, and statistics of dropped records.

use super::log::ChangeLog;
use crate::store_failed;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use store::{Space, Store};
use value::{RawDoc, Result, Val, Writer};

/// The default limit for the bytes of records.
const BYTES_MAX: u64 = 990 * MEGABYTE;
/// Bytes of a megabyte.
pub(crate) const MEGABYTE: u64 = 1024 * 1024;
/// The key of the settings in the log space.
pub(crate) const SETTINGS: &[u8] = b"r";

/// The limits, and statistics of dropped records.
pub(crate) struct Limits {
    pub(crate) bytes_max: AtomicU64,
    /// Younger records are kept even beyond the limit, in milliseconds.
    pub(crate) keep_ms: AtomicI64,
    pub(crate) truncations: AtomicU64,
    pub(crate) truncation_us: AtomicU64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_max: AtomicU64::new(BYTES_MAX),
            keep_ms: AtomicI64::new(0),
            truncations: AtomicU64::new(0),
            truncation_us: AtomicU64::new(0),
        }
    }
}

impl Limits {
    /// Reads the settings of an earlier process.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn load(&self, store: &dyn Store) -> Result<()> {
        let stored = store.snapshot().get(Space::Log, SETTINGS).map_err(store_failed)?;
        let Some(stored) = stored else { return Ok(()) };
        let number = |name| RawDoc::new(&stored).get(name).and_then(Val::as_i64_exact);
        if let Some(bytes) = number("bytes").and_then(|bytes| u64::try_from(bytes).ok()) {
            self.bytes_max.store(bytes, Ordering::Relaxed);
        }
        if let Some(keep) = number("keepMs") {
            self.keep_ms.store(keep, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl ChangeLog {
    /// The limit for the bytes of records.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.limits.bytes_max.load(Ordering::Relaxed)
    }

    /// The minimum age of dropped records, in hours.
    pub(crate) fn keep_hours(&self) -> f64 {
        self.limits.keep_ms.load(Ordering::Relaxed) as f64 / 3_600_000.0
    }

    /// Bytes of the records, and the approximate number of changes in them.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        (bytes, (bytes / self.average_bytes().max(1)).max(u64::from(bytes > 0)))
    }

    /// Writes the section on truncation for `serverStatus`.
    pub(crate) fn write_truncation(&self, out: &mut Writer<'_>) {
        out.f64("oplogMinRetentionHours", self.keep_hours());
        out.count("totalTimeTruncatingMicros", self.limits.truncation_us.load(Ordering::Relaxed));
        out.count("truncateCount", self.limits.truncations.load(Ordering::Relaxed));
    }
}
