//! Memory that running operations share: large messages and replies, and what stages keep.
//!
//! Whoever holds much has a `Share`. When all of it is taken, a sort or a group goes to the disk
//! sooner, a large message waits until others are done, a batch is ended early, and what can do
//! none of these is refused. Small operations are not counted: they never notice.
//!
//! Layer: base.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use value::{Code, Error};

/// What everybody may hold without asking.
const FREE_BYTES: usize = 1024 * 1024;
/// Shares grow by steps, so that they are not counted for every document.
const STEP_BYTES: usize = 1024 * 1024;

/// The memory of all operations.
#[derive(Debug)]
pub struct Memory {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Memory {
    /// So many bytes for all together.
    #[must_use]
    pub fn new(bytes_max: usize) -> Memory {
        Memory { used: AtomicUsize::new(0), bytes_max }
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that may be held.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Whether most of it is taken, so that nobody should hold more than need be.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.used() > self.bytes_max / 4 * 3
    }

    /// A part of it, empty yet.
    #[must_use]
    pub fn share(self: &Arc<Memory>) -> Share {
        Share { memory: Arc::clone(self), held: 0 }
    }
}

/// What one holder has of the memory; given back when dropped.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Memory>,
    held: usize,
}

impl Share {
    /// Whether so many bytes may be held, all in all. False changes nothing.
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

    /// Counts bytes that are held already, whether there is room for them or not.
    pub fn take(&mut self, bytes: usize) {
        if bytes > self.held && bytes > FREE_BYTES {
            self.memory.used.fetch_add(bytes - self.held, Ordering::Relaxed);
            self.held = bytes;
        }
    }

    /// Gives back all but so many bytes.
    #[inline]
    pub fn shrink(&mut self, bytes: usize) {
        let kept = if bytes <= FREE_BYTES { 0 } else { bytes };
        if kept < self.held {
            self.memory.used.fetch_sub(self.held - kept, Ordering::Relaxed);
            self.held = kept;
        }
    }

    /// The refusal of what needs more than there is, and cannot use the disk or wait.
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
