//! Reading as of one commit: a key from a page or from its tree. Ranges are in `range.rs`.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use lsm_tree::KvPair;

use super::Shared;
use super::history::KeptVersion;
use super::pages::{PointRead, PrefixPages};
use super::range::DiskRange;
use super::trees::read_error;
use super::view::{Entries, View};
use crate::{Bytes, Direction, Result, Seqno, Space};

/// Entries of a tree in key order.
pub(super) type Pairs = Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<KvPair>> + Send>;

/// A registered view of a disk store.
pub(crate) struct DiskSnapshot {
    pub(super) shared: Arc<Shared>,
    pub(super) seqno: Seqno,
    shard: u8,
    /// The kept version, once the newest trees no longer serve this commit.
    state: OnceLock<Arc<KeptVersion>>,
}

impl DiskSnapshot {
    pub(super) fn open(shared: &Arc<Shared>) -> DiskSnapshot {
        let (seqno, shard) = shared.tracker.open();
        DiskSnapshot { shared: shared.clone(), seqno, shard, state: OnceLock::new() }
    }

    /// Opens a snapshot of an earlier commit, if it can still be read.
    pub(super) fn open_at(shared: &Arc<Shared>, seqno: Seqno) -> Option<DiskSnapshot> {
        // Registered before the lookup, so that the version found is kept.
        let shard = shared.tracker.open_at(seqno);
        let state = OnceLock::new();
        let snapshot = DiskSnapshot { shared: shared.clone(), seqno, shard, state };
        if shared.history.is_in_gap(seqno) {
            return None;
        }
        snapshot.state().is_ok().then_some(snapshot)
    }

    /// Returns the kept version, if the newest trees do not serve this commit.
    ///
    /// # Errors
    /// `SnapshotTooOld` if no such version is kept.
    fn state(&self) -> Result<Option<&Arc<KeptVersion>>> {
        if let Some(state) = self.state.get() {
            return Ok(Some(state));
        }
        Ok(match self.shared.history.state(self.seqno)? {
            Some(state) => Some(self.state.get_or_init(|| state)),
            None => None,
        })
    }

    /// Whether the newest trees serve this commit.
    fn is_newest(&self) -> bool {
        self.shared.history.is_newest(self.seqno)
    }

    pub(crate) fn seqno(&self) -> Seqno {
        self.seqno
    }

    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let read_page = match self.shared.pages.get(space, key, self.seqno) {
            PointRead::Known(value) => return Ok(value),
            PointRead::Unknown { read_page } => read_page,
        };
        let value = self.get_from_tree(space, key)?;
        let page_bytes = self.shared.pages.page_bytes();
        let fits = |value: &Bytes| value.len() <= page_bytes;
        if read_page && value.as_ref().is_some_and(fits) && self.is_newest() {
            // The value is known. If something beside it cannot be read, there is no page.
            if DiskRange::read_page_at(self, space, key).is_err() {
                self.shared.pages.rest();
            }
        }
        Ok(value)
    }

    fn newest(&self, space: Space) -> Arc<View> {
        self.shared.newest[space.index()].view()
    }

    fn get_from_tree(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let tree = &self.shared.trees[space.index()];
        let failed = |error| read_error(tree, &error);
        self.shared.advice.note_point_read(space, tree, &self.shared.newest[space.index()]);
        if self.is_newest() {
            let entry = self.newest(space).get(key, self.seqno).map_err(failed)?;
            if self.is_newest() {
                return Ok(entry.map(|entry| Bytes::from_tree(entry.value)));
            }
        }
        let Some(state) = self.state()? else { return self.get_from_tree(space, key) };
        let entry = state.view(space)?.get(key, self.seqno).map_err(failed)?;
        Ok(entry.map(|entry| Bytes::from_tree(entry.value)))
    }

    /// Like `get`, but reads no page for later readers. For callers that are about to write the
    /// key, which would remove the page again.
    pub(crate) fn get_to_write(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let hot = &self.shared.hot;
        if let Some(value) = hot.get(space, key, self.seqno) {
            return Ok(Some(value));
        }
        let value = match self.shared.pages.get(space, key, self.seqno) {
            PointRead::Known(value) => value,
            PointRead::Unknown { .. } => self.get_from_tree(space, key)?,
        };
        if let Some(value) = &value
            && hot.want(space, key, value)
            // If a commit is running, it may write a newer version of this key.
            && let Some(_commit) = self.shared.commit.try_lock()
            && self.shared.tracker.published() == self.seqno
        {
            hot.leave(space, key, value, self.seqno);
        }
        Ok(value)
    }

    /// The entries of a tree between two bounds.
    pub(super) fn entries(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Pairs> {
        let pairs = |entries: Entries| -> Pairs {
            Box::new(entries.map(|entry| entry.map(|entry| (entry.key.user_key, entry.value))))
        };
        if self.is_newest() {
            let entries = self.newest(space).range(from, to, self.seqno);
            if self.is_newest() {
                return Ok(pairs(entries));
            }
        }
        let Some(state) = self.state()? else { return self.entries(space, from, to) };
        Ok(pairs(state.view(space)?.range(from, to, self.seqno)))
    }

    /// The commit that wrote the first entry between two bounds, if there is one.
    pub(crate) fn commit_of_first(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Seqno>> {
        let tree = &self.shared.trees[space.index()];
        let mut view = self.newest(space);
        if !self.is_newest()
            && let Some(state) = self.state()?
        {
            view = state.view(space)?;
        }
        let first = view.range(from, to, self.seqno).next().transpose();
        let first = first.map_err(|error| read_error(tree, &error))?;
        Ok(first.map(|entry| entry.key.seqno))
    }

    pub(crate) fn range(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<DiskRange> {
        DiskRange::new(self.clone(), space, from, to, direction)
    }

    /// Returns keys that split a range into parts, if the pages are sufficient for that.
    pub(crate) fn split(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        parts: usize,
    ) -> Option<Vec<Bytes>> {
        self.shared.pages.split(space, from, to, parts)
    }

    /// Returns the pages of a prefix; creates the set if needed.
    pub(super) fn make_prefix_pages(&self, space: Space, prefix: u32) -> Option<Arc<PrefixPages>> {
        if let Some(prefix_pages) = self.shared.pages.prefix_pages(space, prefix) {
            return Some(prefix_pages);
        }
        // With the commit lock held no commit is running, and each later one sees the set.
        let _commit = self.shared.commit.lock();
        self.shared.pages.make_prefix_pages(space, prefix, self.shared.tracker.published())
    }
}

impl Clone for DiskSnapshot {
    fn clone(&self) -> DiskSnapshot {
        self.shared.tracker.open_again(self.seqno, self.shard);
        let (seqno, shard) = (self.seqno, self.shard);
        DiskSnapshot { shared: self.shared.clone(), seqno, shard, state: self.state.clone() }
    }
}

impl Drop for DiskSnapshot {
    fn drop(&mut self) {
        self.shared.tracker.close(self.seqno, self.shard);
    }
}
