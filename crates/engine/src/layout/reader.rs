//! A reader of a collection with layouts: what it needs, and what is read for it.

use patterns::layout::Demand;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a reader needs of documents, and how much is read from the store for it.
#[derive(Debug)]
pub struct Reader {
    /// What it needs.
    pub demand: Demand,
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Reader {
    /// A reader for which nothing was read yet.
    #[must_use]
    pub fn new(demand: Demand) -> Reader {
        Reader { demand, records: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Counts a stored record.
    pub(super) fn note(&self, value: &[u8]) {
        self.records.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(value.len() as u64, Ordering::Relaxed);
    }

    /// The stored records that were read.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// The bytes of these records.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
