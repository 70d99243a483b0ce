//! A cache of pages above the trees. Pages hold the newest state of ranges of documents and index
//! entries. Scans read them without merging, and point reads without searching tables.
//!
//! `page.rs` is one page, `prefix.rs` the pages of one prefix and which snapshots may read them.
//! This file has the pages of all prefixes, their common memory limit, and eviction. The evicted page is chosen
//! at random: repeated scans of more than fits then still hit the share that fits, while LRU would
//! hit nothing. Own code, because pages follow commits: a general cache does not know for which
//! snapshots an entry is valid.

mod page;
mod prefix;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

pub(super) use page::Builder;
pub(crate) use page::Page;
use prefix::Changed;
pub(super) use prefix::{Lookup, PrefixPages, Shared, Watch};

use crate::{Batch, Bytes, Seqno, Space};

/// Bytes of a key that identify its collection or index.
const PREFIX_BYTES: usize = 4;
/// If others must be evicted for a page, one page in this many is accepted.
const TAKEN_WHEN_FULL: u64 = 8;
/// No pages are read for this time after one could not be read.
const REST: Duration = Duration::from_secs(1);
/// The largest share of the budget that one page may take.
const SHARE_MAX: u64 = 16;

/// The pages of all prefixes.
pub(super) struct Pages {
    /// By prefix, for documents and for indexes.
    by_prefix: [RwLock<BTreeMap<u32, Arc<PrefixPages>>>; 2],
    places: Mutex<Places>,
    /// Bytes that pages take, and their limit.
    used: AtomicU64,
    budget: u64,
    /// Bytes of entries per page.
    page_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Set while no pages are read because reading one has failed, and until when.
    rests: AtomicBool,
    rests_until: Mutex<Option<Instant>>,
    /// Counter for actions that are done once in so many times.
    turn: AtomicU64,
}

/// All pages, unordered, so that one can be chosen at random.
#[derive(Default)]
struct Places {
    pages: Vec<(usize, u32, Arc<Page>)>,
    random: u64,
}

/// The result of a point read.
pub(super) enum PointRead {
    /// A page answers: the value, or `None` if the key does not exist.
    Known(Option<Bytes>),
    /// No page covers the key.
    Unknown {
        /// Whether to read a page once the key is found in the tree.
        read_page: bool,
    },
}

/// The prefix of a key.
pub(super) fn prefix_of(key: &[u8]) -> Option<u32> {
    key.first_chunk::<PREFIX_BYTES>().map(|prefix| u32::from_be_bytes(*prefix))
}

/// Returns the first key after a prefix.
pub(super) fn end_of(prefix: u32) -> Option<Bytes> {
    prefix.checked_add(1).map(|next| Bytes::copy_from(&next.to_be_bytes()))
}

fn cached_space(space: Space) -> Option<usize> {
    match space {
        Space::Documents => Some(0),
        Space::Indexes => Some(1),
        Space::Catalog | Space::Log => None,
    }
}

impl Pages {
    pub(super) fn new(budget: u64, page_bytes: usize) -> Pages {
        Pages {
            by_prefix: Default::default(),
            places: Mutex::default(),
            used: AtomicU64::new(0),
            budget,
            page_bytes: page_bytes.max(1),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            rests: AtomicBool::new(false),
            rests_until: Mutex::new(None),
            turn: AtomicU64::new(0),
        }
    }

    /// Bytes of entries per page.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes that pages take, and their limit.
    pub(super) fn sizes(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.budget)
    }

    /// How often a reader found a page at its position, and how often not.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// The pages of a prefix, if any are kept.
    pub(super) fn prefix_pages(&self, space: Space, prefix: u32) -> Option<Arc<PrefixPages>> {
        let by_prefix = self.by_prefix.get(cached_space(space)?)?.read();
        by_prefix.get(&prefix).cloned()
    }

    /// Returns the pages of a prefix; creates the set if needed. The caller holds the commit lock: from
    /// here on every commit must see the set. `written` is the last commit.
    pub(super) fn make_prefix_pages(
        &self,
        space: Space,
        prefix: u32,
        written: Seqno,
    ) -> Option<Arc<PrefixPages>> {
        if self.budget == 0 {
            return None;
        }
        let mut by_prefix = self.by_prefix.get(cached_space(space)?)?.write();
        Some(by_prefix.entry(prefix).or_insert_with(|| Arc::new(PrefixPages::new(written))).clone())
    }

    /// Looks up a key.
    pub(super) fn get(&self, space: Space, key: &[u8], seqno: Seqno) -> PointRead {
        let (Some(space), Some(prefix)) = (cached_space(space), prefix_of(key)) else {
            return PointRead::Unknown { read_page: false };
        };
        let Some(by_prefix) = self.by_prefix.get(space).map(|by_prefix| by_prefix.read()) else {
            return PointRead::Unknown { read_page: false };
        };
        let Some(prefix_pages) = by_prefix.get(&prefix) else {
            return PointRead::Unknown { read_page: self.budget > 0 && !self.is_resting() };
        };
        let look = |page: &Page| page.find(key).map(|at| page.shared_value(at));
        match prefix_pages.with_page(key, seqno, look) {
            Some(value) => {
                self.count_hit(prefix_pages);
                PointRead::Known(value)
            }
            None => PointRead::Unknown { read_page: self.count_miss(prefix_pages) },
        }
    }

    /// Counts a reader that found a page.
    pub(super) fn count_hit(&self, prefix_pages: &PrefixPages) {
        prefix_pages.hit();
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reader that found no page. Returns whether to read one for later readers.
    pub(super) fn count_miss(&self, prefix_pages: &PrefixPages) -> bool {
        self.misses.fetch_add(1, Ordering::Relaxed);
        prefix_pages.miss() && self.wants_page()
    }

    fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) + self.page_bytes as u64 <= self.budget
    }

    /// Called when entries beside one that was read cannot be read: for some time only what is asked
    /// for is read. A disk may take long to say that it cannot read a block.
    pub(super) fn rest(&self) {
        *self.rests_until.lock() = Some(Instant::now() + REST);
        self.rests.store(true, Ordering::Release);
    }

    fn is_resting(&self) -> bool {
        if !self.rests.load(Ordering::Acquire) {
            return false;
        }
        let rests = self.rests_until.lock().is_some_and(|time| Instant::now() < time);
        self.rests.store(rests, Ordering::Release);
        rests
    }

    /// Whether a new page would be accepted now.
    pub(super) fn wants_page(&self) -> bool {
        if self.is_resting() {
            return false;
        }
        let turn = || self.turn.fetch_add(1, Ordering::Relaxed);
        self.has_room() || (self.budget > 0 && turn().is_multiple_of(TAKEN_WHEN_FULL))
    }

    /// Adds a page that was read at `seqno`, if it is still valid. Evicts others if needed.
    pub(super) fn put(
        &self,
        (space, prefix, prefix_pages): (Space, u32, &Arc<PrefixPages>),
        page: &Arc<Page>,
        seqno: Seqno,
        watch: &mut Option<Watch>,
        stay: bool,
    ) {
        let Some(space) = cached_space(space) else { return };
        if page.cost() > self.budget / SHARE_MAX {
            return;
        }
        {
            // Held while the page is added, so that its removal finds its place.
            let mut places = self.places.lock();
            if !prefix_pages.put(page, seqno, watch, stay) {
                return;
            }
            self.exchange(&mut places, (space, prefix), std::slice::from_ref(page), &[]);
        }
        self.make_room();
    }

    /// Evicts pages until the others fit.
    fn make_room(&self) {
        while self.used.load(Ordering::Relaxed) > self.budget {
            let Some((space, prefix, victim)) = self.places.lock().pick() else { break };
            let prefix_pages = self
                .by_prefix
                .get(space)
                .and_then(|by_prefix| by_prefix.read().get(&prefix).cloned());
            let mut places = self.places.lock();
            match prefix_pages.is_some_and(|prefix_pages| prefix_pages.remove(&victim)) {
                true => self.exchange(&mut places, (space, prefix), &[], &[victim]),
                // Its prefix is being dropped by another thread, which counts it as removed.
                false => places.remove(&victim),
            }
        }
    }

    /// Joins this page with small pages after it; `None` if there is nothing to join.
    pub(super) fn join(
        &self,
        (space, prefix, prefix_pages): (Space, u32, &Arc<PrefixPages>),
        page: &Page,
    ) -> Option<()> {
        if page.bytes() >= self.page_bytes / 2 {
            return None;
        }
        let space = cached_space(space)?;
        // Held meanwhile, as in `put`.
        let mut places = self.places.lock();
        let (made, gone) = prefix_pages.join(page.from(), self.page_bytes)?;
        self.exchange(&mut places, (space, prefix), &[made], &gone);
        Some(())
    }

    /// Records added and removed pages.
    fn exchange(
        &self,
        places: &mut Places,
        (space, prefix): (usize, u32),
        made: &[Arc<Page>],
        gone: &[Arc<Page>],
    ) {
        for page in made {
            places.add(space, prefix, page);
            self.used.fetch_add(page.cost(), Ordering::Relaxed);
        }
        for page in gone {
            places.remove(page);
            self.used.fetch_sub(page.cost(), Ordering::Relaxed);
        }
    }

    /// Removes or renews the pages whose keys a commit writes. Called inside the commit lock,
    /// before the commit is published. Returns values that are now in pages, in the order of the
    /// operations, so that memtables can share their memory.
    pub(super) fn write(&self, batch: &Batch, seqno: Seqno) -> Vec<Shared> {
        let mut shared = Vec::new();
        for (number, by_prefix) in self.by_prefix.iter().enumerate() {
            let by_prefix = by_prefix.read();
            if by_prefix.is_empty() {
                continue;
            }
            let of_space = || {
                batch
                    .operations()
                    .iter()
                    .enumerate()
                    .filter(|(_, operation)| cached_space(operation.space) == Some(number))
            };
            // Batches write to few prefixes, so a list is the fastest set.
            let mut seen: Vec<u32> = Vec::new();
            for prefix in of_space().filter_map(|(_, operation)| prefix_of(&operation.key)) {
                if seen.contains(&prefix) {
                    continue;
                }
                seen.push(prefix);
                let Some(prefix_pages) = by_prefix.get(&prefix) else { continue };
                let own =
                    of_space().filter(|(_, operation)| prefix_of(&operation.key) == Some(prefix));
                let mut changed = Changed::default();
                // Held meanwhile, as in `put`.
                let mut places = self.places.lock();
                prefix_pages.write(seqno, own, self.page_bytes, &mut changed);
                let Changed { made, gone, shared: mut lent } = changed;
                shared.append(&mut lent);
                self.exchange(&mut places, (number, prefix), &made, &gone);
            }
            drop(by_prefix);
            self.make_room();
        }
        if !shared.is_sorted_by_key(|(operation, _)| *operation) {
            shared.sort_unstable_by_key(|(operation, _)| *operation);
        }
        shared
    }

    /// Drops the pages of prefixes whose keys are in `[from, to)`, in whole or in part.
    pub(super) fn drop_range(&self, space: Space, from: &[u8], to: &[u8]) {
        let Some(by_prefix) = cached_space(space).and_then(|space| self.by_prefix.get(space))
        else {
            return;
        };
        let mut dropped = Vec::new();
        by_prefix.write().retain(|prefix, prefix_pages| {
            let start: &[u8] = &prefix.to_be_bytes();
            let within = start < to && end_of(*prefix).is_none_or(|end| &*end > from);
            if within {
                dropped.push(prefix_pages.clone());
            }
            !within
        });
        for prefix_pages in dropped {
            let mut places = self.places.lock();
            self.exchange(&mut places, (0, 0), &[], &prefix_pages.close());
        }
    }

    /// Returns keys that split `[from, to)` into parts of about equal size, if the pages are
    /// sufficient for that.
    pub(super) fn split(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        parts: usize,
    ) -> Option<Vec<Bytes>> {
        let prefix = prefix_of(from)?;
        let cuts = self.prefix_pages(space, prefix)?.cuts(from, to)?;
        if cuts.len() < parts.saturating_mul(4) {
            return None;
        }
        Some((1..parts).filter_map(|part| cuts.get(cuts.len() * part / parts).cloned()).collect())
    }
}

impl Places {
    fn add(&mut self, space: usize, prefix: u32, page: &Arc<Page>) {
        page.place.store(self.pages.len(), Ordering::Relaxed);
        self.pages.push((space, prefix, page.clone()));
    }

    fn remove(&mut self, page: &Arc<Page>) {
        let at = page.place.load(Ordering::Relaxed);
        if self.pages.get(at).is_some_and(|(_, _, other)| Arc::ptr_eq(other, page)) {
            self.pages.swap_remove(at);
            if let Some((_, _, moved)) = self.pages.get(at) {
                moved.place.store(at, Ordering::Relaxed);
            }
        }
    }

    fn pick(&mut self) -> Option<(usize, u32, Arc<Page>)> {
        // A linear congruential generator; its high bits are random enough for this.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (self.random >> 33) as usize % self.pages.len().max(1);
        self.pages.get(at).cloned()
    }
}
