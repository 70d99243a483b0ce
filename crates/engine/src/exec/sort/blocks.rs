//! Sort input in memory: documents and their sort keys in large blocks. The memory used is known
//! exactly, without the allocator's rounding per document. Blocks are reused after their contents
//! are written to disk.

use query::interrupt;
use value::Result;

/// Maximum size of a block that several documents share.
const BLOCK_BYTES_MAX: usize = 256 * 1024;
/// Minimum size, for sorts with little memory.
const BLOCK_BYTES_MIN: usize = 64;
/// Approximate minimum number of blocks of a sort.
const BLOCKS: usize = 64;
/// Memory of a block in addition to its bytes.
const BLOCK_OVERHEAD: usize = size_of::<Vec<u8>>() * 2;
/// Positions that are sorted without a look whether to stop.
const SORTED_AT_ONCE: usize = 1 << 15;
/// Steps that it takes to sort one entry by its whole key.
const STEPS_OF_ENTRY: usize = 8;
/// Bytes of the two lengths before each key and document.
const LENGTHS: usize = 8;

/// The position of an entry.
#[derive(Clone, Copy)]
pub(super) struct BlockPosition {
    /// The first bytes of the key, which suffice to compare most keys.
    head: u64,
    block: u32,
    start: u32,
}

/// Documents and their keys in arrival order.
pub(super) struct Blocks {
    block_bytes: usize,
    /// In the order in which they were filled.
    used: Vec<Vec<u8>>,
    /// Empty blocks, all of the same size.
    free: Vec<Vec<u8>>,
    bytes: usize,
    count: usize,
}

/// Returns the allocation size for a requested size: the allocator has four size classes between
/// two powers of two.
pub(super) fn allocated(bytes: usize) -> usize {
    let step = (bytes.saturating_sub(1).max(1).ilog2().saturating_sub(2)).max(3);
    bytes.next_multiple_of(1 << step)
}

impl Blocks {
    /// Creates empty blocks for about `bytes_max` bytes of memory.
    pub(super) fn new(bytes_max: usize) -> Blocks {
        Blocks {
            block_bytes: (bytes_max / BLOCKS).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
            used: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            count: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the memory of the documents, including what sorting them needs.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.count * size_of::<BlockPosition>()
    }

    /// Returns the same with one more document.
    pub(super) fn bytes_with(&self, key: &[u8], doc: &[u8]) -> usize {
        let entry = LENGTHS + key.len() + doc.len();
        let block = match self.has_room(entry) {
            true => 0,
            false => cost(self.size_for(entry)),
        };
        self.bytes() + block + size_of::<BlockPosition>()
    }

    /// Adds a document.
    pub(super) fn push(&mut self, key: &[u8], doc: &[u8]) {
        let entry = LENGTHS + key.len() + doc.len();
        if !self.has_room(entry) {
            let size = self.size_for(entry);
            let block = match self.free.pop().filter(|free| free.capacity() == size) {
                Some(free) => free,
                None => {
                    // Frees the unused blocks before it allocates a large one.
                    self.free.clear();
                    Vec::with_capacity(size)
                }
            };
            self.bytes += cost(size);
            self.used.push(block);
        }
        if let Some(block) = self.used.last_mut() {
            // A document has at most some megabytes.
            block.extend_from_slice(&(key.len() as u32).to_le_bytes());
            block.extend_from_slice(&(doc.len() as u32).to_le_bytes());
            block.extend_from_slice(key);
            block.extend_from_slice(doc);
            self.count += 1;
        }
    }

    fn has_room(&self, entry: usize) -> bool {
        self.used.last().is_some_and(|block| block.capacity() - block.len() >= entry)
    }

    /// Returns the size of the block for an entry. An entry that would waste much of a shared block
    /// gets its own.
    fn size_for(&self, entry: usize) -> usize {
        if entry > self.block_bytes / 4 { entry } else { self.block_bytes }
    }

    /// Returns the positions of the entries in key order; equal keys stay in arrival order.
    ///
    /// # Errors
    /// When the operation shall end.
    pub(super) fn sorted(&self) -> Result<Vec<BlockPosition>> {
        let mut places = Vec::with_capacity(self.count);
        for (number, block) in self.used.iter().enumerate() {
            let mut start = 0;
            while let Some((key, doc)) = entry_at(block, start) {
                interrupt::check()?;
                places.push(BlockPosition {
                    head: head_of(key),
                    block: number as u32,
                    start: start as u32,
                });
                start += LENGTHS + key.len() + doc.len();
            }
        }
        self.sort(&mut places)?;
        Ok(places)
    }

    /// Sorts positions: by the first bytes of the keys, then those with the same first bytes by the
    /// whole keys. So most positions are sorted without a look at their entries.
    fn sort(&self, places: &mut [BlockPosition]) -> Result<()> {
        let place = |at: &BlockPosition| (at.head, at.block, at.start);
        // Sorted parts of bounded size; the stable sort merges them in linear time.
        let mut run = SORTED_AT_ONCE;
        for part in places.chunks_mut(run) {
            interrupt::charge(part.len())?;
            part.sort_unstable_by_key(place);
        }
        while run < places.len() {
            run = run.saturating_mul(2);
            for part in places.chunks_mut(run) {
                interrupt::charge(part.len())?;
                part.sort_by_key(place);
            }
        }
        for same in places.chunk_by_mut(|a, b| a.head == b.head) {
            match same.len() {
                1 => {}
                // In arrival order already, which the stable sort keeps for equal keys.
                0..=SORTED_AT_ONCE => {
                    interrupt::charge(same.len().saturating_mul(STEPS_OF_ENTRY))?;
                    same.sort_by(|a, b| self.entry(a).0.cmp(self.entry(b).0));
                }
                _ => interrupt::sort_by(same, |a, b| self.entry(a).0.cmp(self.entry(b).0))?,
            }
        }
        Ok(())
    }

    /// Returns the key and the document at a position.
    pub(super) fn entry(&self, place: &BlockPosition) -> (&[u8], &[u8]) {
        let block = self.used.get(place.block as usize);
        block.and_then(|block| entry_at(block, place.start as usize)).unwrap_or_default()
    }

    /// Removes all documents and keeps the memory for reuse.
    pub(super) fn clear(&mut self) {
        for mut block in self.used.drain(..) {
            if block.capacity() == self.block_bytes {
                block.clear();
                self.free.push(block);
            }
        }
        self.bytes = 0;
        self.count = 0;
    }
}

fn cost(block: usize) -> usize {
    allocated(block) + BLOCK_OVERHEAD
}

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    for (to, from) in head.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_be_bytes(head)
}

fn entry_at(block: &[u8], start: usize) -> Option<(&[u8], &[u8])> {
    let rest = block.get(start..)?;
    let (key, rest) = rest.split_first_chunk::<4>()?;
    let (doc, rest) = rest.split_first_chunk::<4>()?;
    let (key, doc) = (u32::from_le_bytes(*key) as usize, u32::from_le_bytes(*doc) as usize);
    let (key, rest) = rest.split_at_checked(key)?;
    Some((key, rest.get(..doc)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_order_and_blocks_are_used_again() {
        let mut blocks = Blocks::new(64 * 1024);
        for round in 0..3_usize {
            let mut expected = Vec::new();
            for n in 0..500_usize {
                let key = ((n * 7919) % 100).to_be_bytes()[6..].to_vec();
                let doc = vec![n as u8; 1 + (n * 31 + round) % 400];
                let before = blocks.bytes_with(&key, &doc);
                blocks.push(&key, &doc);
                assert_eq!(blocks.bytes(), before);
                expected.push((key, doc));
            }
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            let places = blocks.sorted().expect("nobody stops it");
            let found: Vec<_> = places.iter().map(|place| blocks.entry(place)).collect();
            let expected: Vec<_> = expected.iter().map(|(k, d)| (&k[..], &d[..])).collect();
            assert_eq!(found, expected);
            let own: usize = expected.iter().map(|(k, d)| k.len() + d.len()).sum();
            assert!(blocks.bytes() >= own && blocks.bytes() < 2 * own + 64 * 1024);
            blocks.clear();
            assert!(blocks.is_empty() && blocks.bytes() == 0 && !blocks.free.is_empty());
        }
    }

    #[test]
    fn sizes_are_those_of_the_allocator() {
        assert_eq!([1, 8, 9, 64, 65].map(allocated), [8, 8, 16, 64, 80]);
        assert_eq!([1024, 1025, 1280, 1281].map(allocated), [1024, 1280, 1280, 1536]);
        assert_eq!(allocated(0), 0);
    }
}
