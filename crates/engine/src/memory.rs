//! The memory budget that running operations share: large messages, replies, and the state of
//! stages.
//!
//! An operation that needs much memory holds a `Share`. When the budget is used up, a sort or a
//! group spills to disk earlier, a large message waits until other operations end, a batch ends
//! early, and any other request is refused. Small operations are not counted.
//!
//! Layer: base.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use value::{Code, Error};

/// Bytes that every holder may use without being counted.
const FREE_BYTES: usize = 1024 * 1024;
/// Shares grow in steps of this size, so that not every document updates the counter.
const STEP_BYTES: usize = 1024 * 1024;

/// The memory budget of all operations.
#[derive(Debug)]
pub struct Memory {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Memory {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Memory {
        Memory { used: AtomicUsize::new(0), bytes_max }
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of the whole budget.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Whether most of the budget is used, so that operations should keep as little as possible.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.used() > self.bytes_max / 4 * 3
    }

    /// An empty share of the budget.
    #[must_use]
    pub fn share(self: &Arc<Memory>) -> Share {
        Share { memory: Arc::clone(self), held: 0 }
    }
}

/// The part of the budget that one holder uses; released when dropped.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Memory>,
    held: usize,
}

impl Share {
    /// Grows the share to `bytes` in total. Returns false, and changes nothing, if the budget does
    /// not allow it.
    #[inline]
    #[must_use]
    pub fn covers(&mut self, bytes: usize) -> bool {
        bytes <= self.held || bytes <= FREE_BYTES || self.grow(bytes)
    }

    fn grow(&mut self, bytes: usize) -> bool {
        let wanted = bytes.div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES);
        let more = wanted.saturating_sub(self.held);
        let within =
            |used: usize| used.checked_add(more).filter(|used| *used <= self.memory.bytes_max);
        let grown =
            self.memory.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok();
        if grown {
            self.held = wanted;
        }
        grown
    }

    /// Counts bytes that are already in use, even if they exceed the budget.
    pub fn take(&mut self, bytes: usize) {
        if bytes > self.held && bytes > FREE_BYTES {
            self.memory.used.fetch_add(bytes - self.held, Ordering::Relaxed);
            self.held = bytes;
        }
    }

    /// Releases all but so many bytes.
    #[inline]
    pub fn shrink(&mut self, bytes: usize) {
        let kept = if bytes <= FREE_BYTES { 0 } else { bytes };
        if kept < self.held {
            self.memory.used.fetch_sub(self.held - kept, Ordering::Relaxed);
            self.held = kept;
        }
    }

    /// The error for an operation that exceeds the budget and can neither spill to disk nor wait.
    #[must_use]
    pub fn refusal(&self) -> Error {
        Error::new(
            Code::EXCEEDED_MEMORY_LIMIT,
            format!(
                "all memory for operations is in use ({} bytes); try again when others have ended",
                self.memory.bytes_max
            ),
        )
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn shares_stay_within_the_limit_and_come_back() {
        let memory = Arc::new(Memory::new(10 * MIB));
        let (mut one, mut two) = (memory.share(), memory.share());
        assert!(one.covers(FREE_BYTES) && memory.used() == 0, "small holders are not counted");
        assert!(one.covers(7 * MIB - 1) && memory.used() == 7 * MIB);
        assert!(one.covers(3 * MIB), "what is held covers less");
        assert!(two.covers(3 * MIB) && !two.covers(3 * MIB + 1));
        assert_eq!(memory.used(), 10 * MIB, "a refusal changes nothing");
        assert!(memory.is_tight());
        one.shrink(2 * MIB);
        assert!(two.covers(8 * MIB));
        two.take(50 * MIB);
        assert_eq!(memory.used(), 52 * MIB);
        drop(two);
        one.shrink(10);
        assert_eq!(memory.used(), 0);
    }
}
