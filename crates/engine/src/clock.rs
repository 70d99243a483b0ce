//! The logical clock: seconds and a counter, growing with every commit. Replies carry it as
//! `operationTime` and `$clusterTime`.

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

    /// Moves on: to the current second, or by one within it.
    pub fn tick(&self) -> u64 {
        let wall = now_timestamp();
        let next = |time: u64| if wall > time { wall } else { time + 1 };
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |t| Some(next(t)))
            .map_or(wall, next)
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
