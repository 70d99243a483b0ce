//! Reading: a snapshot, a range of it, and blocks of entries taken from a range at once.

use std::ops::Bound;

use crate::disk::{DiskRange, DiskSnapshot};
use crate::memory::{MemoryRange, MemorySnapshot};
use crate::{Bytes, MAX_KEY_BYTES, Result, Seqno, Space};

/// In which order a range is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Direction {
    /// From the smallest key upwards.
    Forward,
    /// From the largest key downwards.
    Reverse,
}

/// A view of one moment. What it sees is kept until the last clone is dropped.
#[derive(Clone)]
pub struct Snapshot(Inner);

#[derive(Clone)]
enum Inner {
    Disk(DiskSnapshot),
    Memory(MemorySnapshot),
}

impl Snapshot {
    pub(crate) fn disk(snapshot: DiskSnapshot) -> Snapshot {
        Snapshot(Inner::Disk(snapshot))
    }

    pub(crate) fn memory(snapshot: MemorySnapshot) -> Snapshot {
        Snapshot(Inner::Memory(snapshot))
    }

    /// The last commit that this snapshot sees.
    pub fn seqno(&self) -> Seqno {
        match &self.0 {
            Inner::Disk(snapshot) => snapshot.seqno(),
            Inner::Memory(snapshot) => snapshot.seqno(),
        }
    }

    /// The value of `key`, if it had one at this moment.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        match &self.0 {
            Inner::Disk(snapshot) => snapshot.get(space, key),
            Inner::Memory(snapshot) => Ok(snapshot.get(space, key)),
        }
    }

    /// The entries between two bounds. A range whose lower bound lies above its upper bound is
    /// empty. The range holds the snapshot, so it may outlive this handle.
    pub fn range(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Range> {
        let (from, to) = (fit_lower(from), fit_upper(to));
        let source = if is_empty(&from, &to) {
            Source::Empty
        } else {
            match &self.0 {
                Inner::Disk(snapshot) => {
                    Source::Disk(Box::new(snapshot.range(space, from, to, direction)))
                }
                Inner::Memory(snapshot) => {
                    Source::Memory(Box::new(snapshot.range(space, from, to, direction)))
                }
            }
        };
        Ok(Range { source, current: None })
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Snapshot").field("seqno", &self.seqno()).finish()
    }
}

/// A lower bound that is no longer than a key can be and admits the same keys. No key lies between
/// a bound that is too long and its longest part that is not, so keys above the one are above
/// the other.
fn fit_lower(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Included([]) | Bound::Excluded([]) => Bound::Unbounded,
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Excluded(&key[..MAX_KEY_BYTES])
        }
        other => other,
    }
}

/// An upper bound that is no longer than a key can be and admits the same keys.
fn fit_upper(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Included(&key[..MAX_KEY_BYTES])
        }
        other => other,
    }
}

/// Whether no key can lie between the bounds. The trees must not see such bounds.
fn is_empty(from: &Bound<&[u8]>, to: &Bound<&[u8]>) -> bool {
    match (from, to) {
        (_, Bound::Included([]) | Bound::Excluded([])) => true,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}

/// Entries of a snapshot in key order. Owns what it reads; may be sent to another thread.
pub struct Range {
    source: Source,
    current: Option<(Bytes, Bytes)>,
}

enum Source {
    Empty,
    Disk(Box<DiskRange>),
    Memory(Box<MemoryRange>),
}

impl Range {
    /// The next key and value, borrowed until the next call. After an error the range is at its
    /// end.
    #[expect(clippy::should_implement_trait, reason = "the entry is borrowed from the range")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.current = self.take_next()?;
        Ok(self.current.as_ref().map(|(key, value)| (&**key, &**value)))
    }

    /// The next key and value as handles that outlive the range.
    pub fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        self.take_next()
    }

    /// Fills `block` anew with up to `max_items` entries, ending earlier once they hold
    /// `max_bytes` (but never with less than one entry). False, and an empty block, at the end.
    pub fn next_block(
        &mut self,
        block: &mut Block,
        max_items: usize,
        max_bytes: usize,
    ) -> Result<bool> {
        block.clear();
        while block.entries.len() < max_items.max(1)
            && (block.bytes < max_bytes || block.entries.is_empty())
        {
            let Some((key, value)) = self.take_next()? else { break };
            block.bytes += key.len() + value.len();
            block.entries.push((key, value));
        }
        Ok(!block.entries.is_empty())
    }

    fn take_next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let result = match &mut self.source {
            Source::Empty => return Ok(None),
            Source::Disk(range) => range.next(),
            Source::Memory(range) => Ok(range.next()),
        };
        if !matches!(result, Ok(Some(_))) {
            self.source = Source::Empty;
        }
        result
    }
}

/// Entries taken from a range at once. Reuse one block for a whole scan: it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Block {
    entries: Vec<(Bytes, Bytes)>,
    bytes: usize,
}

impl Block {
    /// An empty block.
    pub fn new() -> Block {
        Block::default()
    }

    /// The entries, in the order of the range.
    pub fn entries(&self) -> &[(Bytes, Bytes)] {
        &self.entries
    }

    /// The entries as borrowed bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Takes the entries out, keeping the memory of the block.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = (Bytes, Bytes)> {
        self.bytes = 0;
        self.entries.drain(..)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets the entries but keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}
