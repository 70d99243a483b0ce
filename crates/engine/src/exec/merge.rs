//! Merging several ranges of one index into the order of the key after their prefixes. So `{a:
//! {$in: [..]}}` sorted by `b` is read from an index on `{a: 1, b: 1}` without a sort.

use crate::store_failed;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use store::{Bytes, Direction, Range};
use value::Result;

/// Ranges of an index that are merged.
pub struct Merged {
    sources: Vec<Range>,
    /// The next entry of each range that has one. The top is the first in order.
    heads: BinaryHeap<Head>,
}

struct Head {
    key: Bytes,
    types: Bytes,
    /// Offset of the part of the key that determines the order.
    skip: usize,
    direction: Direction,
    source: usize,
}

impl Head {
    fn rest(&self) -> &[u8] {
        self.key.get(self.skip..).unwrap_or(&[])
    }
}

impl Ord for Head {
    /// A heap returns the largest first, so the entry that comes first compares as the largest.
    fn cmp(&self, other: &Head) -> Ordering {
        let order = self.rest().cmp(other.rest());
        let order = match self.direction {
            Direction::Forward => order.reverse(),
            Direction::Reverse => order,
        };
        order.then(other.source.cmp(&self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Merged {
    /// Merges ranges; each is given with the length of its prefix.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(ranges: Vec<(Range, usize)>, direction: Direction) -> Result<Merged> {
        let mut merged = Merged { sources: Vec::new(), heads: BinaryHeap::new() };
        for (source, (mut range, skip)) in ranges.into_iter().enumerate() {
            if let Some((key, types)) = range.next_entry().map_err(store_failed)? {
                merged.heads.push(Head { key, types, skip, direction, source });
            }
            merged.sources.push(range);
        }
        Ok(merged)
    }

    /// Returns the next entry: its key and its value.
    ///
    /// # Errors
    /// When the store fails.
    pub fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let Some(Head { key, types, skip, direction, source }) = self.heads.pop() else {
            return Ok(None);
        };
        if let Some(range) = self.sources.get_mut(source)
            && let Some((key, types)) = range.next_entry().map_err(store_failed)?
        {
            self.heads.push(Head { key, types, skip, direction, source });
        }
        Ok(Some((key, types)))
    }
}
