//! Sorting: a bounded heap when only the first documents are wanted, else a sort of everything.
//!
//! Documents are compared by their encoded sort keys; equal keys keep the order in which they
//! came. The documents are copied, so that they do not hold blocks of the store in memory.

use std::collections::BinaryHeap;
use value::{Code, Error, RawDoc, Result, limits};

/// Collects documents and gives them back in order.
pub struct Sorter {
    sort: query::sort::SortSpec,
    /// How many of the first documents are wanted.
    limit: Option<usize>,
    heap: BinaryHeap<Entry>,
    entries: Vec<Entry>,
    arrived: u64,
    bytes: usize,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: Vec<u8>,
    arrived: u64,
    doc: Vec<u8>,
}

impl Sorter {
    /// A sorter that keeps the first `limit` documents, or all.
    #[must_use]
    pub fn new(sort: query::sort::SortSpec, limit: Option<usize>) -> Sorter {
        Sorter { sort, limit, heap: BinaryHeap::new(), entries: Vec::new(), arrived: 0, bytes: 0 }
    }

    /// Takes a document.
    ///
    /// # Errors
    /// When the documents need more memory than a sort may use.
    pub fn push(&mut self, doc: RawDoc<'_>) -> Result<()> {
        let mut key = Vec::with_capacity(32);
        self.sort.key(doc, &mut key)?;
        let arrived = self.arrived;
        self.arrived += 1;
        let Some(limit) = self.limit else {
            self.grow(key.len() + doc.bytes().len())?;
            self.entries.push(Entry { key, arrived, doc: doc.bytes().to_vec() });
            return Ok(());
        };
        if self.heap.len() < limit {
            self.grow(key.len() + doc.bytes().len())?;
            self.heap.push(Entry { key, arrived, doc: doc.bytes().to_vec() });
        } else if self.heap.peek().is_some_and(|last| key < last.key) {
            if let Some(last) = self.heap.pop() {
                self.bytes -= last.key.len() + last.doc.len();
            }
            self.grow(key.len() + doc.bytes().len())?;
            self.heap.push(Entry { key, arrived, doc: doc.bytes().to_vec() });
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes > limits::BLOCKING_STAGE_BYTES_MAX {
            return Err(Error::new(
                Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                format!(
                    "Sort exceeded memory limit of {} bytes; add an index that gives the order, \
                     or a limit",
                    limits::BLOCKING_STAGE_BYTES_MAX
                ),
            ));
        }
        Ok(())
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The documents in order.
    #[must_use]
    pub fn finish(self) -> std::vec::IntoIter<Vec<u8>> {
        let mut entries = self.entries;
        entries.extend(self.heap);
        entries.sort_unstable();
        let docs: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.doc).collect();
        docs.into_iter()
    }
}
