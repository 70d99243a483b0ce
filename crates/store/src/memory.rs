//! A store in memory: ordered maps with versions. It has the same guarantees as the disk store,
//! except durability. Used by tests and temporary databases.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::load::{Entries, Load, check_key};
use crate::long::{stored_from, stored_to};
use crate::tracker::Tracker;
use crate::written::Written;
use crate::{
    Batch, Bytes, Damage, Direction, Result, Seqno, Snapshot, Space, Stats, Store, StoreError,
};

/// Entries that a range copies out under one lock.
const CHUNK: usize = 128;
/// The most bytes of superseded versions that are kept for reading the past.
const HISTORY_BYTES: u64 = 64 << 20;

/// Versions of one key, oldest first; `None` is a delete.
type Versions = Vec<(Seqno, Option<Bytes>)>;

/// An ordered map in memory with snapshots and atomic batches.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Default)]
struct Shared {
    tracker: Tracker,
    maps: RwLock<Maps>,
    writes: AtomicU64,
    closed: AtomicBool,
}

#[derive(Default)]
struct Maps {
    spaces: [BTreeMap<Bytes, Versions>; 4],
    bytes: [u64; 4],
    /// Keys with a superseded version, with the commit that superseded it, in commit order.
    superseded: VecDeque<(Seqno, Space, Bytes)>,
    /// The commit from which on the past is kept, if any.
    kept_since: Option<Seqno>,
    /// Versions that this commit superseded may be gone, so earlier commits cannot be read.
    floor: Seqno,
    /// Approximate bytes of superseded versions.
    superseded_bytes: u64,
    /// The running loads. Each commit reports its writes to them.
    loads: Vec<Arc<Written>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }
}

impl Maps {
    fn apply(&mut self, seqno: Seqno, space: Space, key: &Bytes, value: Option<Bytes>) {
        let index = space.index();
        let size = entry_bytes(key, value.as_ref());
        let known = self.spaces[index].contains_key(key.as_slice());
        if !known && value.is_none() {
            return;
        }
        let versions = self.spaces[index].entry(key.clone()).or_default();
        if versions.last().is_some_and(|newest| newest.0 == seqno) {
            // The same key twice in one batch: the later operation wins.
            if let Some((_, old)) = versions.pop() {
                self.bytes[index] -= entry_bytes(key, old.as_ref());
            }
        }
        self.superseded_bytes +=
            versions.last().map_or(0, |old| superseded_cost(key, old.1.as_ref()));
        versions.push((seqno, value));
        self.bytes[index] += size;
        if known {
            self.superseded.push_back((seqno, space, key.clone()));
        }
    }

    /// Drops versions that no snapshot at `watermark` or later can see, unless the past is kept.
    fn collect(&mut self, watermark: Seqno) {
        let mut kept = self.kept_since.map_or(watermark, |since| since.min(watermark));
        if self.superseded_bytes > HISTORY_BYTES {
            // Drops a quarter of the past at once, so that this does not run with every commit.
            let part = self.superseded.get(self.superseded.len() / 4);
            kept = part.map_or(kept, |part| part.0.min(watermark).max(kept));
        }
        while self.superseded.front().is_some_and(|front| front.0 <= kept) {
            let Some((seqno, space, key)) = self.superseded.pop_front() else { break };
            self.floor = seqno;
            let index = space.index();
            let Some(versions) = self.spaces[index].get_mut(key.as_slice()) else { continue };
            let visible = versions.partition_point(|version| version.0 <= kept);
            let mut forget = visible.saturating_sub(1);
            if visible > 0 && versions[visible - 1].1.is_none() {
                forget = visible;
            }
            for (_, value) in versions.drain(..forget) {
                self.bytes[index] -= entry_bytes(&key, value.as_ref());
                let cost = superseded_cost(&key, value.as_ref());
                self.superseded_bytes = self.superseded_bytes.saturating_sub(cost);
            }
            if versions.is_empty() {
                self.spaces[index].remove(key.as_slice());
            }
        }
    }
}

fn entry_bytes(key: &Bytes, value: Option<&Bytes>) -> u64 {
    (key.len() + value.map_or(0, |value| value.len())) as u64
}

/// The memory of a superseded version: its bytes, and its entries in the lists.
fn superseded_cost(key: &Bytes, value: Option<&Bytes>) -> u64 {
    entry_bytes(key, value) + 64
}

fn visible(versions: &Versions, seqno: Seqno) -> Option<&Bytes> {
    versions.iter().rev().find(|version| version.0 <= seqno)?.1.as_ref()
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Snapshot {
        let (seqno, shard) = self.0.tracker.open();
        Snapshot::memory(MemorySnapshot { shared: self.0.clone(), seqno, shard })
    }

    fn keep_since(&self, seqno: Option<Seqno>) {
        let mut maps = self.0.maps.write();
        maps.kept_since = seqno;
        maps.collect(self.0.tracker.watermark());
    }

    fn snapshot_at(&self, seqno: Seqno) -> Option<Snapshot> {
        // Registered under the lock under which versions are dropped.
        let maps = self.0.maps.read();
        if seqno < maps.floor {
            return None;
        }
        let shard = self.0.tracker.open_at(seqno);
        Some(Snapshot::memory(MemorySnapshot { shared: self.0.clone(), seqno, shard }))
    }

    fn write(&self, batch: &Batch) -> Result<Seqno> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        batch.check()?;
        let mut maps = self.0.maps.write();
        if batch.is_empty() {
            return Ok(self.0.tracker.published());
        }
        let seqno = self.0.tracker.published() + 1;
        for operation in batch.operations() {
            // A copy: a value that shares the memory of a larger one would keep all of it alive.
            let value = operation.value.as_deref().map(Bytes::copy_from);
            maps.apply(seqno, operation.space, &operation.key, value);
        }
        maps.loads.iter().for_each(|load| load.note(batch));
        self.0.tracker.publish(seqno);
        maps.collect(self.0.tracker.watermark());
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        Ok(seqno)
    }

    fn sync(&self, _seqno: Seqno) -> Result<()> {
        Ok(())
    }

    fn delete_range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<()> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        if from >= to {
            return Ok(());
        }
        let mut maps = self.0.maps.write();
        let map = &mut maps.spaces[space.index()];
        let mut dropped = map.split_off(from);
        let mut rest = dropped.split_off(to);
        map.append(&mut rest);
        let bytes: u64 = dropped
            .iter()
            .flat_map(|(key, versions)| {
                versions.iter().map(move |v| entry_bytes(key, v.1.as_ref()))
            })
            .sum();
        maps.bytes[space.index()] -= bytes;
        Ok(())
    }

    fn load(&self, space: Space, prefixes: &[[u8; 4]]) -> Result<Box<dyn Load>> {
        let written = Arc::new(Written::new(space, prefixes, None));
        self.0.maps.write().loads.push(written.clone());
        Ok(Box::new(MemoryLoad { shared: self.0.clone(), written, entries: Mutex::default() }))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats {
            open_snapshots: self.0.tracker.count(),
            oldest_snapshot: self.0.tracker.oldest(),
            published: self.0.tracker.published(),
            durable: self.0.tracker.published(),
            writes: self.0.writes.load(Ordering::Relaxed),
            history_bytes: self.0.maps.read().superseded_bytes,
            ..Stats::default()
        };
        let maps = self.0.maps.read();
        for space in Space::ALL {
            let index = space.index();
            stats.spaces[index].memtable_bytes = maps.bytes[index];
            stats.spaces[index].entries = maps.spaces[index].len() as u64;
        }
        stats
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Damage>> {
        progress(0, 0);
        Ok(Vec::new())
    }

    fn approximate_range_bytes(&self, space: Space, from: &[u8], to: &[u8]) -> u64 {
        if from >= to {
            return 0;
        }
        let maps = self.0.maps.read();
        let to = stored_to(Bound::Excluded(to));
        let (from, to) = (stored_from(Bound::Included(from)), to.as_ref().map(|to| &**to));
        maps.spaces[space.index()]
            .range::<[u8], _>((from, to))
            .filter_map(|(key, versions)| {
                let value = versions.last()?.1.as_ref()?;
                Some(entry_bytes(key, Some(value)))
            })
            .sum()
    }

    fn close(&self) -> Result<()> {
        self.0.closed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Entries that are not in the maps yet.
struct MemoryLoad {
    shared: Arc<Shared>,
    written: Arc<Written>,
    entries: Mutex<Vec<(Bytes, Bytes)>>,
}

impl Load for MemoryLoad {
    fn write(&self, parts: Vec<Entries<'_>>) -> Result<()> {
        let mut entries = self.entries.lock();
        for entry in parts.into_iter().flatten() {
            let (key, value) = entry?;
            check_key(self.written.space, &key)?;
            entries.push((key, value));
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        let mut maps = self.shared.maps.write();
        let mut written = self.written.take()?.into_ordered()?;
        let seqno = self.shared.tracker.published() + 1;
        for (key, value) in std::mem::take(&mut *self.entries.lock()) {
            if !written.has(&key)? {
                maps.apply(seqno, self.written.space, &key, Some(value));
            }
        }
        self.shared.tracker.publish(seqno);
        drop(maps);
        Ok(self.written.puts())
    }
}

impl Drop for MemoryLoad {
    fn drop(&mut self) {
        let mut maps = self.shared.maps.write();
        maps.loads.retain(|load| !Arc::ptr_eq(load, &self.written));
    }
}

/// A registered view of a [`MemoryStore`].
pub(crate) struct MemorySnapshot {
    shared: Arc<Shared>,
    seqno: Seqno,
    shard: u8,
}

impl MemorySnapshot {
    pub(crate) fn seqno(&self) -> Seqno {
        self.seqno
    }

    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Option<Bytes> {
        let maps = self.shared.maps.read();
        visible(maps.spaces[space.index()].get(key)?, self.seqno).cloned()
    }

    /// The commit that wrote the first entry between two bounds, if there is one.
    pub(crate) fn commit_of_first(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Option<Seqno> {
        let maps = self.shared.maps.read();
        let mut entries = maps.spaces[space.index()].range::<[u8], _>((from, to));
        entries.find_map(|(_, versions)| {
            let newest = versions.iter().rev().find(|version| version.0 <= self.seqno)?;
            newest.1.is_some().then_some(newest.0)
        })
    }

    pub(crate) fn range(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> MemoryRange {
        MemoryRange {
            snapshot: self.clone(),
            space,
            from: from.map(Bytes::copy_from),
            to: to.map(Bytes::copy_from),
            direction,
            chunk: VecDeque::new(),
            ended: false,
        }
    }
}

impl Clone for MemorySnapshot {
    fn clone(&self) -> MemorySnapshot {
        self.shared.tracker.open_again(self.seqno, self.shard);
        MemorySnapshot { shared: self.shared.clone(), ..*self }
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        self.shared.tracker.close(self.seqno, self.shard);
    }
}

/// A range that copies a chunk of handles at a time, so that it holds no lock between calls.
pub(crate) struct MemoryRange {
    snapshot: MemorySnapshot,
    space: Space,
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    direction: Direction,
    chunk: VecDeque<(Bytes, Bytes)>,
    ended: bool,
}

impl MemoryRange {
    /// The snapshot that it reads.
    pub(crate) fn snapshot(&self) -> &MemorySnapshot {
        &self.snapshot
    }

    pub(crate) fn next(&mut self) -> Option<(Bytes, Bytes)> {
        if self.chunk.is_empty() && !self.ended {
            self.refill();
        }
        self.chunk.pop_front()
    }

    fn refill(&mut self) {
        let seqno = self.snapshot.seqno;
        let maps = self.snapshot.shared.maps.read();
        let entries = maps.spaces[self.space.index()]
            .range::<[u8], _>((self.from.as_ref().map(|b| &**b), self.to.as_ref().map(|b| &**b)));
        let live = |(key, versions): (&Bytes, &Versions)| {
            visible(versions, seqno).map(|value| (key.clone(), value.clone()))
        };
        match self.direction {
            Direction::Forward => self.chunk.extend(entries.filter_map(live).take(CHUNK)),
            Direction::Reverse => self.chunk.extend(entries.rev().filter_map(live).take(CHUNK)),
        }
        self.ended = self.chunk.len() < CHUNK;
        if let Some((last, _)) = self.chunk.back() {
            // The rest begins after the last key. If nothing can be left, the bounds would cross,
            // which the map does not allow.
            let bound = Bound::Excluded(last.clone());
            match self.direction {
                Direction::Forward => {
                    self.ended |= match &self.to {
                        Bound::Included(to) | Bound::Excluded(to) => to <= last,
                        Bound::Unbounded => false,
                    };
                    self.from = bound;
                }
                Direction::Reverse => {
                    self.ended |= match &self.from {
                        Bound::Included(from) | Bound::Excluded(from) => from >= last,
                        Bound::Unbounded => false,
                    };
                    self.to = bound;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &MemoryStore, key: &str, value: &str) -> Seqno {
        let mut batch = Batch::new();
        batch.put(Space::Documents, key.as_bytes(), value.as_bytes());
        store.write(&batch).unwrap()
    }

    #[test]
    fn superseded_versions_are_forgotten_when_no_snapshot_sees_them() {
        let store = MemoryStore::new();
        put(&store, "a", "1");
        let old = store.snapshot();
        put(&store, "a", "2");
        put(&store, "a", "3");
        assert_eq!(old.get(Space::Documents, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        drop(old);
        let mut batch = Batch::new();
        batch.delete(Space::Documents, b"a");
        store.write(&batch).unwrap();
        put(&store, "b", "1");
        let stats = store.stats();
        assert_eq!(stats.space(Space::Documents).memtable_bytes, 2);
        assert_eq!(stats.space(Space::Documents).entries, 1);
    }

    #[test]
    fn range_longer_than_a_chunk_in_both_directions() {
        let store = MemoryStore::new();
        for number in 0..CHUNK * 3 {
            put(&store, &format!("{number:05}"), "x");
        }
        let snapshot = store.snapshot();
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut range = snapshot
                .range(Space::Documents, Bound::Unbounded, Bound::Unbounded, direction)
                .unwrap();
            let mut keys = Vec::new();
            while let Some((key, _)) = range.next().unwrap() {
                keys.push(key.to_vec());
            }
            if direction == Direction::Reverse {
                keys.reverse();
            }
            assert_eq!(keys.len(), CHUNK * 3);
            assert!(keys.is_sorted());
        }
    }
}
