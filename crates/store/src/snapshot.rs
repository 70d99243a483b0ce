//! Reading: snapshots, ranges, and blocks of entries that are taken or borrowed from a range.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::{DiskRange, DiskSnapshot, Page};
use crate::long::{self, Bounds, Group};
use crate::memory::{MemoryRange, MemorySnapshot};
use crate::overlay::{OverlaidRange, Overlay};
use crate::{Batch, Bytes, MAX_KEY_BYTES, Result, Seqno, Space};

/// The order in which a range is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Direction {
    /// From the smallest key upwards.
    Forward,
    /// From the largest key downwards.
    Reverse,
}

/// How much open snapshots may keep. Beyond a limit the oldest ones fail with
/// [`crate::StoreError::SnapshotTooOld`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotLimits {
    /// Bytes of replaced tables, for all of them together.
    pub bytes: u64,
    /// How long tables are kept for a snapshot after the first flush since it was opened.
    pub age: Duration,
}

/// A consistent view at one seqno, with private writes above it if there are any. Its data is kept
/// until the last clone is dropped.
#[derive(Clone)]
pub struct Snapshot {
    base: Inner,
    own: Option<Arc<Overlay>>,
}

#[derive(Clone)]
enum Inner {
    Disk(DiskSnapshot),
    Memory(MemorySnapshot),
}

impl Snapshot {
    pub(crate) fn disk(snapshot: DiskSnapshot) -> Snapshot {
        Snapshot { base: Inner::Disk(snapshot), own: None }
    }

    pub(crate) fn memory(snapshot: MemorySnapshot) -> Snapshot {
        Snapshot { base: Inner::Memory(snapshot), own: None }
    }

    /// The same with these private writes.
    pub(crate) fn with_writes(mut self, own: Arc<Overlay>) -> Snapshot {
        self.own = Some(own);
        self
    }

    /// The last commit that this snapshot sees.
    pub fn seqno(&self) -> Seqno {
        match &self.base {
            Inner::Disk(snapshot) => snapshot.seqno(),
            Inner::Memory(snapshot) => snapshot.seqno(),
        }
    }

    /// Sets `key` to `value` in this snapshot only.
    pub fn put(&mut self, space: Space, key: Bytes, value: Bytes) {
        self.write(space, key, Some(value));
    }

    /// Removes `key` in this snapshot only.
    pub fn delete(&mut self, space: Space, key: Bytes) {
        self.write(space, key, None);
    }

    fn write(&mut self, space: Space, mut key: Bytes, mut value: Option<Bytes>) {
        if long::is_long(&key) {
            value = value.map(|value| long::with_rest(&key, &value));
            key = long::stored_key(&key);
        }
        let own = self.own.get_or_insert_default();
        Arc::make_mut(own).set(space, key, value);
    }

    /// Bytes of private keys and values.
    pub fn written_bytes(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.bytes())
    }

    /// Whether there are private writes.
    pub fn has_writes(&self) -> bool {
        self.own.is_some()
    }

    /// Takes the private writes out.
    pub fn take_writes(&mut self) -> Batch {
        let own = self.own.take().map(Arc::unwrap_or_clone);
        own.map_or_else(Batch::new, Overlay::into_batch)
    }

    /// Returns the value of `key`, if it has one.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if long::is_long(key) {
            return self.get_long(space, key);
        }
        self.get_stored(space, key)
    }

    /// Returns what is stored under a stored key.
    pub(crate) fn get_stored(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if key.is_empty() {
            return Ok(None);
        }
        if let Some(own) = self.own.as_ref().and_then(|own| own.get(space, key)) {
            return Ok(own);
        }
        match &self.base {
            Inner::Disk(snapshot) => snapshot.get(space, key),
            Inner::Memory(snapshot) => Ok(snapshot.get(space, key)),
        }
    }

    #[cold]
    fn get_long(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let stored = self.get_stored(space, &long::stored_key(key))?;
        stored.map(|stored| long::value_of(key, &stored)).transpose()
    }

    /// Like `get`, for a key that is about to be written: prepares nothing for later readers.
    pub fn get_to_write(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if key.is_empty() {
            return Ok(None);
        }
        if long::is_long(key) {
            return self.get_long(space, key);
        }
        if let Some(own) = self.own.as_ref().and_then(|own| own.get(space, key)) {
            return Ok(own.clone());
        }
        match &self.base {
            Inner::Disk(snapshot) => snapshot.get_to_write(space, key),
            Inner::Memory(snapshot) => Ok(snapshot.get(space, key)),
        }
    }

    /// Returns the entries between two bounds. If the lower bound is above the upper bound, the
    /// range is empty. The range holds the snapshot, so it may outlive this handle.
    pub fn range(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Range> {
        let bounds = Bounds::of(from, to);
        let is_empty = is_empty(&from, &to);
        let to = long::stored_to(to);
        let to = to.as_ref().map(|to| &**to);
        let (from, to) = (fit_lower(long::stored_from(from)), to);
        let source = if is_empty {
            Source::Empty
        } else {
            match &self.base {
                Inner::Disk(snapshot) => {
                    Source::Disk(Box::new(snapshot.range(space, from, to, direction)?))
                }
                Inner::Memory(snapshot) => {
                    Source::Memory(Box::new(snapshot.range(space, from, to, direction)))
                }
            }
        };
        let own = self.own.as_ref();
        let source = match own.filter(|own| !source.is_empty() && own.touches(space, from, to)) {
            None => source,
            Some(own) => Source::Overlaid(Box::new(OverlaidRange::new(
                source,
                own.clone(),
                space,
                from,
                to,
                direction,
            ))),
        };
        Ok(Range {
            source,
            space,
            direction,
            bounds,
            group: None,
            current: None,
            lent: Block::new(),
        })
    }

    /// Returns the commit that wrote the first entry between two keys, if there is one. Private
    /// writes are ignored. Bounds above the longest plain key are those of their whole groups.
    pub fn commit_of_first(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Seqno>> {
        if is_empty(&from, &to) {
            return Ok(None);
        }
        let to = long::stored_to(to);
        let (from, to) = (fit_lower(long::stored_from(from)), to.as_ref().map(|to| &**to));
        match &self.base {
            Inner::Disk(snapshot) => snapshot.commit_of_first(space, from, to),
            Inner::Memory(snapshot) => Ok(snapshot.commit_of_first(space, from, to)),
        }
    }

    /// Returns keys that split `[from, to)` into up to `parts` ranges of about equal size, in
    /// order, for parallel readers. The first range begins at `from`, each other one at its key. A
    /// small range is split into fewer parts, or not at all.
    pub fn split(&self, space: Space, from: &[u8], to: &[u8], parts: usize) -> Result<Vec<Bytes>> {
        if let Inner::Disk(snapshot) = &self.base
            && let Some(mut keys) = snapshot.split(space, from, to, parts)
        {
            // A group stays in one part.
            for key in keys.iter_mut().filter(|key| long::is_long(key)) {
                *key = Bytes::copy_from(&key[..long::PLAIN_MAX]);
            }
            keys.dedup();
            keys.retain(|key| key.as_slice() > from);
            return Ok(keys);
        }
        let end = |direction| {
            self.range(space, Bound::Included(from), Bound::Excluded(to), direction)?.next_entry()
        };
        let (Some((first, _)), Some((last, _))) =
            (end(Direction::Forward)?, end(Direction::Reverse)?)
        else {
            return Ok(Vec::new());
        };
        Ok(interpolate(&first, &last, parts))
    }
}

/// Returns keys at equal distances between two others, as if keys were evenly distributed.
fn interpolate(first: &[u8], last: &[u8], parts: usize) -> Vec<Bytes> {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(key.iter().skip(shared)) {
            *to = *from;
        }
        u128::from(u64::from_be_bytes(bytes))
    };
    let (low, high) = (number(first), number(last));
    let mut keys: Vec<Bytes> = Vec::new();
    for part in 1..parts as u128 {
        let at = low + high.saturating_sub(low) * part / parts as u128;
        let mut key = first.iter().copied().take(shared).collect::<Vec<u8>>();
        key.extend_from_slice(&(at as u64).to_be_bytes());
        let above = keys.last().map_or(first, |last| last.as_slice());
        if key.as_slice() > above && key.as_slice() <= last {
            keys.push(key.into());
        }
    }
    keys
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Snapshot").field("seqno", &self.seqno()).finish()
    }
}

/// A lower bound that is not longer than the longest key and admits the same keys. No key is
/// between a bound that is too long and its longest prefix that is not, so keys above one are
/// above the other.
pub(crate) fn fit_lower(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Included([]) | Bound::Excluded([]) => Bound::Unbounded,
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Excluded(&key[..MAX_KEY_BYTES])
        }
        other => other,
    }
}

/// An upper bound that is not longer than the longest key and admits the same keys.
pub(crate) fn fit_upper(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Included(&key[..MAX_KEY_BYTES])
        }
        other => other,
    }
}

/// Whether no key can lie between the bounds. The trees must not see such bounds.
pub(crate) fn is_empty(from: &Bound<&[u8]>, to: &Bound<&[u8]>) -> bool {
    match (from, to) {
        (_, Bound::Included([]) | Bound::Excluded([])) => true,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}

/// Entries of a snapshot in key order. It owns its data and may be sent to another thread.
pub struct Range {
    /// The stored entries.
    source: Source,
    space: Space,
    direction: Direction,
    /// The bounds, if one of them is in a group of long keys.
    bounds: Option<Box<Bounds>>,
    /// The group of long keys that is being read.
    group: Option<Box<Group>>,
    /// The current entry, unless the disk's range lends it.
    current: Option<(Bytes, Bytes)>,
    /// The block that `lend_block` lends.
    lent: Block,
}

/// The most entries, and bytes, that are lent at once.
const LENT_ITEMS: usize = 128;
const LENT_BYTES: usize = 64 << 10;

pub(crate) enum Source {
    Empty,
    Disk(Box<DiskRange>),
    Memory(Box<MemoryRange>),
    Overlaid(Box<OverlaidRange>),
}

impl Source {
    fn is_empty(&self) -> bool {
        matches!(self, Source::Empty)
    }

    /// The snapshot that it reads, with its private writes.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        match self {
            Source::Empty => None,
            Source::Disk(range) => Some(Snapshot::disk(range.snapshot().clone())),
            Source::Memory(range) => Some(Snapshot::memory(range.snapshot().clone())),
            Source::Overlaid(range) => range.snapshot(),
        }
    }

    /// The next entry. Must not be called after the end, or an error.
    pub(crate) fn step(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        match self {
            Source::Empty => Ok(None),
            Source::Disk(range) => range.advance().map(|more| more.then(|| range.own())),
            Source::Memory(range) => Ok(range.next()),
            Source::Overlaid(range) => range.next(),
        }
    }

    /// The next entry. After the end, or an error, there is none.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let result = self.step();
        if !matches!(result, Ok(Some(_))) {
            *self = Source::Empty;
        }
        result
    }
}

impl Range {
    /// The next key and value, borrowed until the next call. After an error the range is at its
    /// end.
    #[expect(clippy::should_implement_trait, reason = "the entry is borrowed from the range")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.advance()? {
            return Ok(None);
        }
        Ok(match (&self.current, &self.source) {
            (Some((key, value)), _) => Some((key, value)),
            (None, Source::Disk(range)) => Some(range.current()),
            (None, _) => None,
        })
    }

    /// The entry that the last call of [`Range::next`] lent, as handles that outlive the range.
    pub fn own(&self) -> Option<(Bytes, Bytes)> {
        match (&self.current, &self.source) {
            (None, Source::Disk(range)) => Some(range.own()),
            _ => self.current.clone(),
        }
    }

    /// The value that the last call of [`Range::next`] lent, as a handle that outlives the range.
    pub fn own_value(&self) -> Option<Bytes> {
        match (&self.current, &self.source) {
            (None, Source::Disk(range)) => Some(range.own_value()),
            _ => self.current.as_ref().map(|(_, value)| value.clone()),
        }
    }

    /// Whether the next entry is not adjacent to the last one in memory. A caller that writes to
    /// the entries it reads, in chunks, should end a chunk here.
    pub fn is_at_seam(&self) -> bool {
        match (&self.current, &self.source) {
            (None, Source::Disk(range)) => range.is_at_seam(),
            _ => true,
        }
    }

    /// The next key and value as handles that outlive the range.
    pub fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        if !self.advance()? {
            return Ok(None);
        }
        Ok(match (&self.current, &self.source) {
            (None, Source::Disk(range)) => Some(range.own()),
            _ => self.current.take(),
        })
    }

    /// Refills `block` with up to `max_items` entries, stopping earlier once they hold `max_bytes`
    /// (but never with less than one entry). At the end it returns false, and the block is empty.
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
            let Some((key, value)) = self.next_entry()? else { break };
            block.bytes += key.len() + value.len();
            block.entries.push((key, value));
        }
        Ok(!block.entries.is_empty())
    }

    /// Returns the next run of entries, borrowed until the next call; `None` at the end. The
    /// cheapest way to read a whole range: it needs no reference count per entry.
    pub fn lend_block(&mut self) -> Result<Option<BorrowedRun<'_>>> {
        if !self.find_run()? {
            let mut block = std::mem::take(&mut self.lent);
            let filled = self.next_block(&mut block, LENT_ITEMS, LENT_BYTES);
            self.lent = block;
            return Ok(filled?.then(|| BorrowedRun(Run::Entries(self.lent.entries.iter()))));
        }
        Ok(match &self.source {
            Source::Disk(range) => range
                .run()
                .map(|(page, left, direction)| BorrowedRun(Run::Page { page, left, direction })),
            _ => None,
        })
    }

    /// Moves to the next page that can be lent as it is. Returns false if entries must be read one
    /// by one.
    fn find_run(&mut self) -> Result<bool> {
        let (Source::Disk(range), None) = (&mut self.source, &self.group) else { return Ok(false) };
        self.current = None;
        let more = range.next_run();
        if !matches!(more, Ok(true)) {
            self.source = Source::Empty;
            return more;
        }
        let is_long = range.run().is_some_and(|(page, run, _)| page.has_long_keys(run));
        if is_long {
            range.undo_run();
        }
        Ok(!is_long)
    }

    /// Moves to the next entry; false at the end, and in all later calls.
    fn advance(&mut self) -> Result<bool> {
        if self.group.is_some() {
            return self.advance_in_group();
        }
        let Source::Disk(range) = &mut self.source else {
            return match self.source.next()? {
                Some(entry) if long::is_stored_long(&entry.0) => self.begin_group(entry),
                entry => {
                    self.current = entry;
                    Ok(self.current.is_some())
                }
            };
        };
        self.current = None;
        let more = range.advance();
        if !matches!(more, Ok(true)) {
            self.source = Source::Empty;
        } else if long::is_stored_long(range.current().0) {
            let entry = range.own();
            return self.begin_group(entry);
        }
        more
    }

    /// Reads a group of long keys and moves to its first entry.
    #[cold]
    fn begin_group(&mut self, entry: (Bytes, Bytes)) -> Result<bool> {
        let Some(snapshot) = self.source.snapshot() else { return Ok(false) };
        let space = self.space;
        let again = Box::new(move |key: &[u8]| snapshot.get_stored(space, key));
        let next = || self.source.next();
        let is_reverse = self.direction == Direction::Reverse;
        match Group::read(entry, next, self.bounds.as_deref(), is_reverse, again) {
            Ok(group) => self.group = Some(Box::new(group)),
            Err(error) => {
                self.source = Source::Empty;
                return Err(error);
            }
        }
        self.advance_in_group()
    }

    #[cold]
    fn advance_in_group(&mut self) -> Result<bool> {
        let Some(group) = &mut self.group else { return Ok(false) };
        match group.next() {
            Ok(None) => {}
            Ok(entry) => {
                self.current = entry;
                return Ok(true);
            }
            Err(error) => {
                (self.group, self.source) = (None, Source::Empty);
                return Err(error);
            }
        }
        let after = group.after.take();
        self.group = None;
        match after {
            Some(entry) if long::is_stored_long(&entry.0) => self.begin_group(entry),
            after => {
                self.current = after;
                Ok(self.current.is_some())
            }
        }
    }
}

/// Keys and values of consecutive entries, lent by [`Range::lend_block`].
#[derive(Clone)]
pub struct BorrowedRun<'a>(Run<'a>);

#[derive(Clone)]
enum Run<'a> {
    Entries(std::slice::Iter<'a, (Bytes, Bytes)>),
    Page { page: &'a Page, left: std::ops::Range<usize>, direction: Direction },
}

impl<'a> Iterator for BorrowedRun<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        match &mut self.0 {
            Run::Entries(entries) => {
                entries.next().map(|(key, value)| (key.as_slice(), value.as_slice()))
            }
            Run::Page { page, left, direction: Direction::Forward } => {
                left.next().map(|at| page.entry(at))
            }
            Run::Page { page, left, direction: Direction::Reverse } => {
                left.next_back().map(|at| page.entry(at))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Run::Entries(entries) => entries.size_hint(),
            Run::Page { left, .. } => left.size_hint(),
        }
    }
}

impl ExactSizeIterator for BorrowedRun<'_> {}

/// Entries taken from a range at once. Reuse one block for a whole scan: its memory is kept.
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

    /// Removes the entries but keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}
