//! Reading as of one commit: a key from a page or from its tree. Ranges are in `range.rs`.

use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::AbstractTree;

use super::Shared;
use super::pages::{Looked, Shelf};
use super::range::DiskRange;
use super::trees::tree_error;
use crate::{Bytes, Direction, Result, Seqno, Space};

/// A registered view of a disk store.
pub(crate) struct DiskSnapshot {
    pub(super) shared: Arc<Shared>,
    pub(super) seqno: Seqno,
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
        let read_page = match self.shared.pages.get(space, key, self.seqno) {
            Looked::Known(value) => return Ok(value),
            Looked::Unknown { read_page } => read_page,
        };
        let tree = &self.shared.trees[space.index()];
        // A tree shows what lies below the number it is asked for.
        let value = tree.get(key, self.seqno + 1).map_err(|error| tree_error(tree, &error))?;
        if read_page && value.is_some() {
            DiskRange::read_page_at(self, space, key)?;
        }
        Ok(value.map(Bytes::from_tree))
    }

    /// As `get`, but reads no page for later readers: for who is about to write the key, which
    /// takes its page away again.
    pub(crate) fn get_to_write(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if let Looked::Known(value) = self.shared.pages.get(space, key, self.seqno) {
            return Ok(value);
        }
        let tree = &self.shared.trees[space.index()];
        let value = tree.get(key, self.seqno + 1).map_err(|error| tree_error(tree, &error))?;
        Ok(value.map(Bytes::from_tree))
    }

    pub(crate) fn range(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> DiskRange {
        DiskRange::new(self.clone(), space, from, to, direction)
    }

    /// Keys that cut a range into parts, if the pages know.
    pub(crate) fn split(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        parts: usize,
    ) -> Option<Vec<Bytes>> {
        self.shared.pages.split(space, from, to, parts)
    }

    /// The shelf of a prefix, made if there is none.
    pub(super) fn make_shelf(&self, space: Space, prefix: u32) -> Option<Arc<Shelf>> {
        if let Some(shelf) = self.shared.pages.shelf(space, prefix) {
            return Some(shelf);
        }
        // No commit is under way: each later one sees the shelf.
        let _commit = self.shared.commit.lock();
        self.shared.pages.make_shelf(space, prefix, self.shared.tracker.published())
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
