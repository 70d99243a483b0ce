//! Sorting the entries of indexes during a build: each thread collects entries in memory, and
//! writes them to disk as a sorted run when its share of memory is full. At the end all runs are
//! merged.

use super::maintain::record_of;
use crate::catalog::Index;
use crate::store_failed;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use store::{Bytes, Entries, Run, Scratch, StoreError};
use value::Result;

/// The position of an entry in its arena: the key, then the value.
#[derive(Clone, Copy)]
struct EntryPosition {
    /// The first bytes of the key after the index prefix, which suffice to compare most keys.
    head: u64,
    start: usize,
    key: u32,
    value: u32,
}

/// Entries of one index in memory, sorted once they are complete.
#[derive(Default)]
struct Arena {
    bytes: Vec<u8>,
    places: Vec<EntryPosition>,
}

/// Length of an index prefix in bytes.
const PREFIX: usize = 4;

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    for (to, from) in head.iter_mut().zip(key.iter().skip(PREFIX)) {
        *to = *from;
    }
    u64::from_be_bytes(head)
}

impl Arena {
    fn key(&self, place: &EntryPosition) -> &[u8] {
        self.bytes.get(place.start..place.start + place.key as usize).unwrap_or_default()
    }

    fn value(&self, place: &EntryPosition) -> &[u8] {
        let start = place.start + place.key as usize;
        self.bytes.get(start..start + place.value as usize).unwrap_or_default()
    }

    fn sort(&mut self) {
        let mut places = std::mem::take(&mut self.places);
        places.sort_unstable_by(|a, b| {
            a.head.cmp(&b.head).then_with(|| self.key(a).cmp(self.key(b)))
        });
        self.places = places;
    }

    /// Returns the position of the first entry at or after a key.
    fn position(&self, key: &[u8]) -> usize {
        self.places.partition_point(|place| self.key(place) < key)
    }
}

/// The entries that one thread collects.
pub(super) struct Collector<'e> {
    scratch: &'e Scratch,
    /// Maximum bytes in memory.
    limit: usize,
    used: usize,
    /// One for each index.
    indexes: Vec<Collected>,
}

/// Entries of one index: sorted runs on disk, and entries in memory.
#[derive(Default)]
pub(super) struct Collected {
    memory: Arena,
    disk: Vec<Run>,
}

impl<'e> Collector<'e> {
    pub(super) fn new(scratch: &'e Scratch, indexes: usize, limit: usize) -> Collector<'e> {
        let indexes = (0..indexes).map(|_| Collected::default()).collect();
        Collector { scratch, limit, used: 0, indexes }
    }

    /// Adds an entry of index number `at`.
    ///
    /// # Errors
    /// When a run cannot be written.
    pub(super) fn add(
        &mut self,
        at: usize,
        index: &Index,
        (values, record, types): (&[u8], &[u8], &[u8]),
    ) -> Result<()> {
        let Some(Collected { memory, .. }) = self.indexes.get_mut(at) else { return Ok(()) };
        let start = memory.bytes.len();
        memory.bytes.extend_from_slice(&index.prefix());
        memory.bytes.extend_from_slice(values);
        memory.bytes.extend_from_slice(record);
        let mut length = memory.bytes.len() - start;
        if length <= store::PLAIN_KEY_BYTES_MAX {
            memory.bytes.extend_from_slice(types);
        } else {
            // The tables take a long key in another form, and in the order of that form.
            let whole = memory.bytes.split_off(start);
            let (key, value) = store::stored_entry(&whole, types);
            length = key.len();
            memory.bytes.extend_from_slice(&key);
            memory.bytes.extend_from_slice(&value);
        }
        let entry = memory.bytes.get(start..).unwrap_or_default();
        // Keys and values of documents are far below four gigabytes.
        let (key, value) = (length as u32, (entry.len() - length) as u32);
        let head = head_of(entry.get(..length).unwrap_or_default());
        self.used += entry.len() + size_of::<EntryPosition>();
        memory.places.push(EntryPosition { head, start, key, value });
        if self.used > self.limit {
            self.spill().map_err(store_failed)?;
        }
        Ok(())
    }

    fn spill(&mut self) -> store::Result<()> {
        for Collected { memory, disk } in &mut self.indexes {
            if memory.places.is_empty() {
                continue;
            }
            memory.sort();
            let mut writer = self.scratch.create()?;
            for place in &memory.places {
                writer.push(memory.key(place), memory.value(place))?;
            }
            disk.push(writer.finish()?);
            memory.places.clear();
            memory.bytes.clear();
        }
        self.used = 0;
        Ok(())
    }

    /// Returns the sorted entries of each index.
    pub(super) fn finish(mut self) -> Vec<Collected> {
        self.indexes.iter_mut().for_each(|index| index.memory.sort());
        self.indexes
    }
}

/// Flags that the merge shares with the build.
pub(super) struct Watch<'w> {
    /// Set when a unique index has two entries of equal values, or may have.
    pub(super) equal: &'w AtomicBool,
    /// Returns whether to stop.
    pub(super) stop: &'w (dyn Fn() -> bool + Sync),
}

/// Returns all entries in key order, in up to `parts` parts for as many threads. Indexes are in the
/// order of their prefixes; for each there are the entries that each thread collected.
pub(super) fn merged<'w>(
    indexes: &'w [Arc<Index>],
    collected: &'w mut [Vec<Collected>],
    parts: usize,
    watch: &'w Watch<'w>,
) -> Vec<Entries<'w>> {
    let mut disk: Vec<Vec<Run>> = Vec::new();
    for at in 0..indexes.len() {
        let of_index = collected.iter_mut().filter_map(|thread| thread.get_mut(at));
        disk.push(of_index.flat_map(|collected| std::mem::take(&mut collected.disk)).collect());
    }
    let collected: &'w [Vec<Collected>] = collected;
    let memory = |at: usize| {
        collected.iter().filter_map(move |thread| thread.get(at)).map(|found| &found.memory)
    };
    // Runs on disk are read once and sequentially, so by one thread.
    let cut = match parts > 1 && disk.iter().all(Vec::is_empty) {
        true => cut(indexes, &memory),
        false => None,
    };
    let mut first: Vec<Merge<'w>> = Vec::new();
    let mut second: Vec<Merge<'w>> = Vec::new();
    for (at, (index, runs)) in indexes.iter().zip(disk).enumerate() {
        let merge = |sources: Vec<Source<'w>>| Merge::new(index, sources, watch);
        let Some(cut) = &cut else {
            let whole = memory(at).map(|arena| Source::Memory(arena, 0..arena.places.len()));
            first.push(merge(whole.chain(runs.into_iter().map(Source::Disk)).collect()));
            continue;
        };
        let of = |range: &dyn Fn(&Arena) -> Range<usize>| {
            memory(at).map(|arena| Source::Memory(arena, range(arena))).collect::<Vec<_>>()
        };
        first.push(merge(of(&|arena| 0..arena.position(cut))));
        second.push(merge(of(&|arena| arena.position(cut)..arena.places.len())));
    }
    [first, second]
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| Box::new(part.into_iter().flatten()) as Entries<'w>)
        .collect()
}

/// Returns a key with about half of all entries before it, at the boundary between two values, so
/// that equal values stay in one part.
fn cut<'w, I: Iterator<Item = &'w Arena>>(
    indexes: &[Arc<Index>],
    memory: &dyn Fn(usize) -> I,
) -> Option<Vec<u8>> {
    let counts: Vec<usize> =
        (0..indexes.len()).map(|at| memory(at).map(|arena| arena.places.len()).sum()).collect();
    let mut left = counts.iter().sum::<usize>() / 2;
    for (at, (index, count)) in indexes.iter().zip(counts).enumerate() {
        if left >= count {
            left -= count;
            continue;
        }
        // Each thread read a similar sample of the documents.
        let arena = memory(at).max_by_key(|arena| arena.places.len())?;
        let place = arena.places.get(arena.places.len() * left / count)?;
        let key = arena.key(place);
        let record = record_of(index, key)?.len();
        return key.get(..key.len() - record).map(<[u8]>::to_vec);
    }
    None
}

/// A sorted source of entries.
enum Source<'a> {
    Memory(&'a Arena, Range<usize>),
    Disk(Run),
}

/// The next entry of a source.
struct Head<'a> {
    head: u64,
    key: Cow<'a, [u8]>,
    value: Cow<'a, [u8]>,
    source: usize,
}

impl<'a> Source<'a> {
    fn next(&mut self, source: usize) -> store::Result<Option<Head<'a>>> {
        match self {
            Source::Memory(arena, left) => {
                let arena: &'a Arena = arena;
                let Some(place) = left.next().and_then(|at| arena.places.get(at)) else {
                    return Ok(None);
                };
                let (key, value) = (arena.key(place).into(), arena.value(place).into());
                Ok(Some(Head { head: place.head, key, value, source }))
            }
            Source::Disk(run) => Ok(run.next()?.map(|(key, value)| Head {
                head: head_of(&key),
                key: key.into(),
                value: value.into(),
                source,
            })),
        }
    }
}

impl Ord for Head<'_> {
    /// Reversed, because the heap returns its largest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.head.cmp(&self.head).then_with(|| other.key.cmp(&self.key))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

/// The merged entries of one index, or of a part of it.
struct Merge<'w> {
    index: &'w Index,
    sources: Vec<Source<'w>>,
    heads: BinaryHeap<Head<'w>>,
    begun: bool,
    watch: &'w Watch<'w>,
    passed: usize,
    /// The values of the last entry of a unique index.
    last: Vec<u8>,
}

/// Number of entries after which the merge checks whether to stop.
const BETWEEN_CHECKS: usize = 1024;

impl<'w> Merge<'w> {
    fn new(index: &'w Index, sources: Vec<Source<'w>>, watch: &'w Watch<'w>) -> Merge<'w> {
        let heads = BinaryHeap::with_capacity(sources.len());
        Merge { index, sources, heads, begun: false, watch, passed: 0, last: Vec::new() }
    }

    fn begin(&mut self) -> store::Result<()> {
        self.begun = true;
        for (number, source) in self.sources.iter_mut().enumerate() {
            self.heads.extend(source.next(number)?);
        }
        Ok(())
    }

    fn step(&mut self) -> store::Result<Option<(Bytes, Bytes)>> {
        if !self.begun {
            self.begin()?;
        }
        self.passed += 1;
        if self.passed.is_multiple_of(BETWEEN_CHECKS) && (self.watch.stop)() {
            return Err(StoreError::Closed);
        }
        let Some(mut top) = self.heads.peek_mut() else { return Ok(None) };
        if self.index.unique && top.key.len() > store::PLAIN_KEY_BYTES_MAX {
            // Long keys are not in the order of their values: those are compared afterwards.
            self.watch.equal.store(true, Atomic::Relaxed);
        } else if self.index.unique {
            let record = record_of(self.index, &top.key).map_or(0, <[u8]>::len);
            let values = top.key.get(..top.key.len() - record).unwrap_or_default();
            if values == self.last {
                self.watch.equal.store(true, Atomic::Relaxed);
            }
            self.last.clear();
            self.last.extend_from_slice(values);
        }
        let entry = (Bytes::copy_from(&top.key), Bytes::copy_from(&top.value));
        let number = top.source;
        let next = match self.sources.get_mut(number) {
            Some(source) => source.next(number)?,
            None => None,
        };
        match next {
            Some(next) => *top = next,
            None => drop(PeekMut::pop(top)),
        }
        Ok(Some(entry))
    }
}

impl Iterator for Merge<'_> {
    type Item = store::Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
