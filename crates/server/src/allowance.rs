//! Rate limit for clients that have not logged in: a burst of messages, then so many per second.

use std::time::{Duration, Instant};

/// The messages that one connection may still send (a token bucket).
#[derive(Debug)]
pub(crate) struct Allowance {
    /// Messages left at `counted`; below one, the next message must wait.
    left: f64,
    counted: Option<Instant>,
}

/// The size of a burst, in seconds at the allowed rate.
const BURST_SECONDS: f64 = 4.0;

impl Allowance {
    pub(crate) fn new() -> Allowance {
        Allowance { left: 0.0, counted: None }
    }

    /// Takes one message from the bucket, which refills at `per_second`; `Err` says how long
    /// to wait.
    pub(crate) fn take(&mut self, per_second: u32, now: Instant) -> Result<(), Duration> {
        let pace = f64::from(per_second.max(1));
        let most = pace * BURST_SECONDS;
        self.left = match self.counted {
            None => most,
            Some(then) => {
                let passed = now.saturating_duration_since(then).as_secs_f64();
                (self.left + passed * pace).min(most)
            }
        };
        self.counted = Some(now);
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / pace));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_a_pace() {
        let mut allowance = Allowance::new();
        let start = Instant::now();
        for _ in 0..40 {
            assert_eq!(allowance.take(10, start), Ok(()));
        }
        let wait = allowance.take(10, start).expect_err("the burst is used up");
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        let later = start + Duration::from_secs(1);
        let taken = (0..100).filter(|_| allowance.take(10, later).is_ok()).count();
        assert_eq!(taken, 10);
        let much_later = start + Duration::from_secs(1000);
        let taken = (0..100).filter(|_| allowance.take(10, much_later).is_ok()).count();
        assert_eq!(taken, 40, "silence does not add up without end");
    }
}
