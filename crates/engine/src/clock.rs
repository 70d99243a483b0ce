//! The logical clock: seconds and a counter. It advances with every change; replies carry it as
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

/// The current second as a timestamp with a counter that no earlier call returned.
#[must_use]
pub fn unique_timestamp() -> u64 {
    static LAST: Clock = Clock(AtomicU64::new(0));
    LAST.reserve(1)
}

/// The clock.
pub struct Clock(AtomicU64);

impl Clock {
    /// A clock that starts at the current time.
    #[must_use]
    pub fn new() -> Clock {
        Clock(AtomicU64::new(now_timestamp()))
    }

    /// The time of the newest commit.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Reserves `count` consecutive times, all later than every earlier one, and returns the first.
    /// They start at the current second, or continue within it.
    pub fn reserve(&self, count: u64) -> u64 {
        let wall = now_timestamp();
        let first = |time: u64| if wall > time { wall } else { time + 1 };
        let last = |time: u64| first(time) + count.saturating_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |time| Some(last(time)))
            .map_or(wall, first)
    }

    /// Sets the clock after a restart: later than the times in the change log, and later than times
    /// that clients may have seen although they never reached the log.
    pub fn begin_after(&self, last: u64) {
        let next_second = (last.max(now_timestamp()) >> 32) + 1;
        self.0.fetch_max(next_second << 32, Ordering::Relaxed);
    }

    /// Advances the clock to a time that a client has seen, if it is behind.
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
