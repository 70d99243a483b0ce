//! Reading from the trees as of one commit.

use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::{AbstractTree, KvPair};

use super::Shared;
use super::trees::tree_error;
use crate::{Bytes, Direction, Result, Seqno, Space};

/// A registered view of a disk store.
pub(crate) struct DiskSnapshot {
    shared: Arc<Shared>,
    seqno: Seqno,
    shard: u8,
}

impl DiskSnapshot {
    pub(super) fn open(shared: &Arc<Shared>) -> DiskSnapshot {
        let (seqno, shard) = shared.tracker.open();
        DiskSnapshot { shared: shared.clone(), seqno, shard }
    }

    pub(crate) fn seqno(&self) -> Seqno {
        self.seqno
    }

    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let tree = &self.shared.trees[space.index()];
        // A tree shows what lies below the number it is asked for.
        match tree.get(key, self.seqno + 1) {
            Ok(value) => Ok(value.map(Bytes::from_tree)),
            Err(error) => Err(tree_error(tree, &error)),
        }
    }

    pub(crate) fn range(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> DiskRange {
        let tree = &self.shared.trees[space.index()];
        let entries = tree.create_range::<&[u8], _>(&(from, to), self.seqno + 1, None);
        DiskRange { entries: Box::new(entries), direction, space, snapshot: self.clone() }
    }
}

impl Clone for DiskSnapshot {
    fn clone(&self) -> DiskSnapshot {
        self.shared.tracker.open_again(self.seqno, self.shard);
        DiskSnapshot { shared: self.shared.clone(), ..*self }
    }
}

impl Drop for DiskSnapshot {
    fn drop(&mut self) {
        self.shared.tracker.close(self.seqno, self.shard);
    }
}

/// Entries of a tree in key order.
pub(crate) struct DiskRange {
    entries: Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<KvPair>> + Send>,
    direction: Direction,
    space: Space,
    snapshot: DiskSnapshot,
}

impl DiskRange {
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let entry = match self.direction {
            Direction::Forward => self.entries.next(),
            Direction::Reverse => self.entries.next_back(),
        };
        match entry {
            None => Ok(None),
            Some(Ok((key, value))) => Ok(Some((Bytes::from_tree(key), Bytes::from_tree(value)))),
            Some(Err(error)) => {
                Err(tree_error(&self.snapshot.shared.trees[self.space.index()], &error))
            }
        }
    }
}
