//! The logical clock: seconds and a counter, growing with every change. Replies carry it as
//! `operationTime` and `$clusterTime`.
//!
//! Layer: base.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// The current second as a timestamp with counter 1.
#[must_use]
pub fn now_timestamp() -> u64 {
    ((now_ms() / 1000) as u64) << 32 | 1
}

/// The clock.
pub struct Clock(AtomicU64);

impl Clock {
    /// A clock that begins now.
    #[must_use]
    pub fn new() -> Clock {
        Clock(AtomicU64::new(now_timestamp()))
    }

    /// The time of the newest commit.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes so many times in a row, all later than every time before; returns the first. They
    /// begin with the current second, or go on within it.
    pub fn reserve(&self, count: u64) -> u64 {
        let wall = now_timestamp();
        let first = |time: u64| if wall > time { wall } else { time + 1 };
        let last = |time: u64| first(time) + count.saturating_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |time| Some(last(time)))
            .map_or(wall, first)
    }

    /// Begins anew after a restart: later than what the log holds, and than what clients may have
    /// seen of times that never reached the log.
    pub fn begin_after(&self, last: u64) {
        let next_second = (last.max(now_timestamp()) >> 32) + 1;
        self.0.fetch_max(next_second << 32, Ordering::Relaxed);
    }

    /// Makes sure that the clock is not behind a time that a client has seen.
    pub fn advance_to(&self, seen: u64) {
        // A client cannot push the clock far into the future.
        if seen >> 32 <= (now_timestamp() >> 32) + 60 {
            self.0.fetch_max(seen, Ordering::Relaxed);
        }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}
