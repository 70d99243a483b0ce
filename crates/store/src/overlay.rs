//! Private writes above a snapshot: what a transaction sees of itself before it commits.
//!
//! A snapshot with private writes answers every read as if they were committed. Clones keep what
//! they saw: a write copies the private writes if a clone still uses them.
//!
//! Most transactions write much and read little of it back, so writes are sorted only when they
//! are read, or at the end.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::snapshot::Source;
use crate::{Batch, Bytes, Direction, Result, Snapshot, Space};

/// Private writes, by space.
#[derive(Clone, Default)]
pub(crate) struct Overlay {
    spaces: [Writes; 4],
    bytes: usize,
}

/// Up to this many writes are searched unsorted, which is cheaper than sorting them.
const FEW: usize = 8;

/// A key and its value; `None` for a delete.
type Write = (Bytes, Option<Bytes>);

/// The writes to one space.
#[derive(Default)]
struct Writes(RwLock<Layers>);

#[derive(Clone, Default)]
struct Layers {
    ordered: BTreeMap<Bytes, Option<Bytes>>,
    /// Later writes, in the order in which they were made.
    recent: Vec<Write>,
}

impl Layers {
    fn put_in_order(&mut self) {
        self.ordered.extend(self.recent.drain(..));
    }
}

impl Clone for Writes {
    fn clone(&self) -> Writes {
        Writes(RwLock::new(self.0.read().clone()))
    }
}

impl Writes {
    /// All writes, sorted.
    fn ordered(&self) -> RwLockReadGuard<'_, Layers> {
        let layers = self.0.read();
        if layers.recent.is_empty() {
            return layers;
        }
        drop(layers);
        let mut layers = self.0.write();
        layers.put_in_order();
        RwLockWriteGuard::downgrade(layers)
    }

    /// All writes in key order, one for each key.
    fn into_ordered(self) -> Vec<Write> {
        let mut layers = self.0.into_inner();
        if !layers.ordered.is_empty() {
            layers.put_in_order();
            return layers.ordered.into_iter().collect();
        }
        let mut recent = layers.recent;
        if !recent.is_sorted_by(|a, b| a.0 < b.0) {
            // The last write of a key counts: later ones are in front, and the others are removed.
            recent.reverse();
            recent.sort_by(|a, b| a.0.cmp(&b.0));
            recent.dedup_by(|older, newer| older.0 == newer.0);
        }
        recent
    }
}

impl Overlay {
    /// The write of a key, if any.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Option<Option<Bytes>> {
        let writes = &self.spaces[space.index()];
        let layers = writes.0.read();
        if layers.recent.len() > FEW {
            drop(layers);
            return writes.ordered().ordered.get(key).cloned();
        }
        let recent = layers.recent.iter().rev().find(|(known, _)| **known == *key);
        recent.map(|(_, value)| value).or_else(|| layers.ordered.get(key)).cloned()
    }

    /// Adds a write; the last write of a key counts.
    pub(crate) fn set(&mut self, space: Space, key: Bytes, value: Option<Bytes>) {
        self.bytes += key.len() + value.as_ref().map_or(0, |value| value.len());
        self.spaces[space.index()].0.get_mut().recent.push((key, value));
    }

    /// Bytes of all keys and values written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether anything was written between two bounds. The bounds must not cross.
    pub(crate) fn touches(&self, space: Space, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
        let writes = self.spaces[space.index()].ordered();
        writes.ordered.range::<[u8], _>((from, to)).next().is_some()
    }

    /// The writes as changes of a batch, in the order of spaces and keys.
    pub(crate) fn into_batch(self) -> Batch {
        let spaces = self.spaces.map(Writes::into_ordered);
        // Capacity for the counters and the log record that a commit adds.
        let mut batch = Batch::with_capacity(spaces.iter().map(Vec::len).sum::<usize>() + 3);
        for (space, own) in Space::ALL.into_iter().zip(spaces) {
            for (key, value) in own {
                batch.push_stored(space, key, value);
            }
        }
        batch
    }
}

/// Entries of a snapshot and of the private writes above it, in key order; the writes win.
pub(crate) struct OverlaidRange {
    base: Source,
    /// The snapshot of the base, once that has ended.
    ended: Option<Snapshot>,
    own: Arc<Overlay>,
    space: Space,
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    direction: Direction,
    next_base: Option<(Bytes, Bytes)>,
    next_own: Option<(Bytes, Option<Bytes>)>,
    started: bool,
}

impl OverlaidRange {
    pub(crate) fn new(
        base: Source,
        own: Arc<Overlay>,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> OverlaidRange {
        OverlaidRange {
            base,
            ended: None,
            own,
            space,
            from: from.map(Bytes::copy_from),
            to: to.map(Bytes::copy_from),
            direction,
            next_base: None,
            next_own: None,
            started: false,
        }
    }

    /// The snapshot that it reads, with the private writes.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let base = self.base.snapshot().or_else(|| self.ended.clone());
        base.map(|base| base.with_writes(self.own.clone()))
    }

    /// The next entry of the base.
    fn take_base(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let entry = self.base.step();
        if !matches!(entry, Ok(Some(_))) {
            // The entries before may be a group that reads its values again.
            self.ended = self.base.snapshot().or_else(|| self.ended.take());
            self.base = Source::Empty;
        }
        entry
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        if !self.started {
            self.started = true;
            self.next_base = self.take_base()?;
            self.next_own = self.take_own();
        }
        loop {
            let own_first = match (&self.next_base, &self.next_own) {
                (None, None) => return Ok(None),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((base, _)), Some((own, _))) => match (own.cmp(base), self.direction) {
                    (std::cmp::Ordering::Equal, _) => {
                        self.next_base = self.take_base()?;
                        true
                    }
                    (order, Direction::Forward) => order.is_lt(),
                    (order, Direction::Reverse) => order.is_gt(),
                },
            };
            if !own_first {
                let next = self.take_base()?;
                return Ok(std::mem::replace(&mut self.next_base, next));
            }
            let next = self.take_own();
            if let Some((key, Some(value))) = std::mem::replace(&mut self.next_own, next) {
                return Ok(Some((key, value)));
            }
        }
    }

    fn take_own(&mut self) -> Option<(Bytes, Option<Bytes>)> {
        let bounds = (self.from.as_ref().map(|b| &**b), self.to.as_ref().map(|b| &**b));
        let writes = self.own.spaces[self.space.index()].ordered();
        let mut entries = writes.ordered.range::<[u8], _>(bounds);
        let (key, value) = match self.direction {
            Direction::Forward => entries.next(),
            Direction::Reverse => entries.next_back(),
        }?;
        let entry = (key.clone(), value.clone());
        // The key is strictly inside of an excluded bound, so the bounds never cross.
        match self.direction {
            Direction::Forward => self.from = Bound::Excluded(entry.0.clone()),
            Direction::Reverse => self.to = Bound::Excluded(entry.0.clone()),
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStore, Store};
    use proptest::prelude::*;

    fn key(number: u8) -> Bytes {
        Bytes::copy_from(&[number])
    }

    fn all(snapshot: &Snapshot, from: Bound<&[u8]>, to: Bound<&[u8]>, d: Direction) -> Vec<u8> {
        let mut range = snapshot.range(Space::Documents, from, to, d).unwrap();
        let mut found = Vec::new();
        while let Some((key, value)) = range.next().unwrap() {
            found.extend([key[0], value[0]]);
        }
        found
    }

    proptest! {
        #[test]
        fn own_writes_read_as_if_they_were_committed(
            stored in prop::collection::vec((0_u8..40, any::<bool>()), 0..40),
            own in prop::collection::vec((0_u8..40, any::<bool>(), any::<bool>()), 0..40),
            from in 0_u8..40, to in 0_u8..40, open: bool,
        ) {
            let store = MemoryStore::new();
            let mut batch = Batch::new();
            for (number, live) in stored {
                match live {
                    true => batch.put_owned(Space::Documents, key(number), key(1)),
                    false => batch.delete_owned(Space::Documents, key(number)),
                }
            }
            store.write(&batch).unwrap();
            let mut snapshot = store.snapshot();
            for (number, live, reads) in own {
                match live {
                    true => snapshot.put(Space::Documents, key(number), key(2)),
                    false => snapshot.delete(Space::Documents, key(number)),
                }
                if reads {
                    let expected = live.then(|| key(2));
                    prop_assert_eq!(snapshot.get(Space::Documents, &[number]).unwrap(), expected);
                }
            }
            let mut committed = snapshot.clone();
            store.write(&committed.take_writes()).unwrap();
            let after = store.snapshot();
            let (from, to) = ([from], [to]);
            let bounds = match open {
                true => (Bound::Excluded(&from[..]), Bound::Included(&to[..])),
                false => (Bound::Included(&from[..]), Bound::Excluded(&to[..])),
            };
            for direction in [Direction::Forward, Direction::Reverse] {
                for (from, to) in [bounds, (Bound::Unbounded, Bound::Unbounded)] {
                    prop_assert_eq!(
                        all(&snapshot, from, to, direction),
                        all(&after, from, to, direction)
                    );
                }
            }
            for number in 0..40 {
                prop_assert_eq!(
                    snapshot.get(Space::Documents, &[number]).unwrap(),
                    after.get(Space::Documents, &[number]).unwrap()
                );
            }
        }
    }

    #[test]
    fn a_clone_keeps_what_it_saw() {
        let store = MemoryStore::new();
        let mut snapshot = store.snapshot();
        snapshot.put(Space::Documents, key(1), key(7));
        let before = snapshot.clone();
        let mut range = before
            .range(Space::Documents, Bound::Unbounded, Bound::Unbounded, Direction::Forward)
            .unwrap();
        snapshot.delete(Space::Documents, key(1));
        assert_eq!(before.get(Space::Documents, &[1]).unwrap(), Some(key(7)));
        assert_eq!(snapshot.get(Space::Documents, &[1]).unwrap(), None);
        assert!(range.next().unwrap().is_some());
        assert!(store.snapshot().get(Space::Documents, &[1]).unwrap().is_none());
    }
}
