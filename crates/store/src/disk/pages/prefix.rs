//! The pages of one prefix, and which snapshots may read them.
//!
//! Before a commit is published, it removes the pages whose keys it writes, under the same lock
//! under which pages are added and found. So a page here holds the newest state of its keys.
//! A reader may use it if nothing was written there between the reader's snapshot and the page,
//! which means that the page is valid from the reader's seqno on.
//!
//! A page that was read at an older snapshot is added only if none of its keys was written since.
//! That is certain while nothing was written to the prefix. A reader that continues during commits
//! *watches*: from then on written keys are recorded, except those in a page that the commit
//! renews, since no other page can be added in its place. When such a page is removed, its whole
//! range is recorded.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::RwLock;

use super::page::{Builder, Change, Page};
use crate::{Bytes, Direction, Operation, Seqno};

/// How many written keys are recorded for watchers. Above it all watches become invalid.
const NOTED_MAX: usize = 1 << 16;
/// The same limit for ranges, which are searched one by one.
const REMOVED_RANGES_MAX: usize = 1 << 10;
/// Credit of a hit, of a miss, and the price of reading a page ahead of need. A page is paid for
/// by a few hits; where hits are rare, few pages are read.
const HIT: i64 = 8;
const MISS: i64 = 1;
const READ: i64 = 128;
/// The price of a page that a commit removed: where much is written, reading ahead is useless.
const LOST: i64 = 4 * READ;
/// The initial credit of a prefix, its maximum and its minimum.
const CREDIT_START: i64 = 64 * READ;
const CREDIT_MAX: i64 = 512 * READ;
const CREDIT_MIN: i64 = -64 * READ;
/// A page of which a commit writes this share, or more, is rebuilt with the new values.
const PATCHED_SHARE: usize = 16;
/// If a commit sets at least this share of a rebuilt page's value bytes, and values of
/// `LENT_BYTES_MIN` on average, the memtable shares the page's memory. This saves an allocation for
/// each value.
const LENT_SHARE: usize = 2;
const LENT_BYTES_MIN: usize = 64;

/// The pages of one prefix.
pub(crate) struct PrefixPages {
    state: RwLock<PrefixState>,
    credit: AtomicI64,
}

struct PrefixState {
    /// By their first key; they do not overlap.
    pages: BTreeMap<Bytes, ValidPage>,
    /// The last commit that wrote to this prefix.
    written: Seqno,
    /// The number of watchers, and what was written since the first of them began.
    watchers: usize,
    noted: BTreeMap<Bytes, Seqno>,
    /// Ranges of pages that were renewed since and then removed, with the last commit to each.
    removed_ranges: Vec<(Bytes, Bytes, Seqno)>,
    /// The last commit before the first watcher began.
    watched_from: Seqno,
    /// Watches of an earlier round are invalid.
    round: u64,
    /// Whether the prefix was dropped.
    closed: bool,
}

struct ValidPage {
    page: Arc<Page>,
    valid_from: Seqno,
}

/// The result of a lookup at a position.
pub(crate) enum Lookup {
    /// A page with the keys from the position on.
    Page(Arc<Page>),
    /// No page. Holds the key at which the next page begins or, in reverse, ends.
    Gap(Option<Bytes>),
}

/// The changes that a commit made to pages.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) gone: Vec<Arc<Page>>,
    pub(super) made: Vec<Arc<Page>>,
    /// Values in the new pages, by the index of their operation.
    pub(super) shared: Vec<Shared>,
}

/// The index of an operation in a batch, and its value in the memory of a page.
pub(crate) type Shared = (usize, Bytes);

/// Registers a reader as a watcher until it is dropped.
pub(crate) struct Watch {
    prefix_pages: Arc<PrefixPages>,
    round: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.prefix_pages.state.write();
        if state.round == self.round {
            state.watchers = state.watchers.saturating_sub(1);
            if state.watchers == 0 {
                state.forget_notes();
            }
        }
    }
}

impl PrefixPages {
    /// Creates an empty set. `written` is the last commit; the caller prevents commits until the
    /// set can be found.
    pub(super) fn new(written: Seqno) -> PrefixPages {
        PrefixPages {
            state: RwLock::new(PrefixState {
                pages: BTreeMap::new(),
                written,
                watchers: 0,
                noted: BTreeMap::new(),
                removed_ranges: Vec::new(),
                watched_from: 0,
                round: 0,
                closed: false,
            }),
            credit: AtomicI64::new(CREDIT_START),
        }
    }

    /// Calls `look` with the page that covers `key` at a snapshot, without cloning its handle.
    pub(super) fn with_page<T>(
        &self,
        key: &[u8],
        seqno: Seqno,
        look: impl FnOnce(&Page) -> T,
    ) -> Option<T> {
        let state = self.state.read();
        state.page_of(key, seqno).map(|page| look(page))
    }

    /// Looks up the page at a position: forward, of the keys from `position` on; in reverse, of
    /// the keys below it.
    pub(crate) fn find(&self, position: &[u8], direction: Direction, seqno: Seqno) -> Lookup {
        let state = self.state.read();
        match direction {
            Direction::Forward => {
                if let Some(page) = state.page_of(position, seqno) {
                    return Lookup::Page(page.clone());
                }
                let behind = (Bound::Excluded(position), Bound::Unbounded);
                let next = state
                    .pages
                    .range::<[u8], _>(behind)
                    .find(|(_, valid)| valid.valid_from <= seqno);
                Lookup::Gap(next.map(|(from, _)| from.clone()))
            }
            Direction::Reverse => {
                let below = (Bound::Unbounded, Bound::Excluded(position));
                let mut before = state
                    .pages
                    .range::<[u8], _>(below)
                    .rev()
                    .map(|(_, valid)| valid)
                    .filter(|valid| valid.valid_from <= seqno);
                match before.next() {
                    Some(valid) if &*valid.page.to >= position => Lookup::Page(valid.page.clone()),
                    Some(valid) => Lookup::Gap(Some(valid.page.to.clone())),
                    None => Lookup::Gap(None),
                }
            }
        }
    }

    /// Joins the page that begins at a key with the pages right after it, up to `bytes_max`
    /// together. Point reads leave small pages; scans need large ones. Returns `None` if there is
    /// nothing to join.
    pub(super) fn join(
        &self,
        from: &[u8],
        bytes_max: usize,
    ) -> Option<(Arc<Page>, Vec<Arc<Page>>)> {
        let mut state = self.state.write();
        let mut bytes = 0;
        let mut valid_from = 0;
        let mut joined: Vec<Arc<Page>> = Vec::new();
        for (start, valid) in state.pages.range::<[u8], _>((Bound::Included(from), Unbounded)) {
            bytes += valid.page.bytes();
            let adjoins = joined.last().map_or(&**start == from, |last| last.to == *start);
            if !adjoins || bytes > bytes_max {
                break;
            }
            valid_from = valid.valid_from.max(valid_from);
            joined.push(valid.page.clone());
        }
        if joined.len() < 2 {
            return None;
        }
        let page = Page::joined(&joined)?;
        for old in &joined {
            state.pages.remove(old.from.as_slice());
        }
        // Each page holds the newest state of its keys. The joined page is valid for snapshots
        // that may read all of them.
        let valid = ValidPage { page: page.clone(), valid_from };
        state.pages.insert(page.from.clone(), valid);
        Some((page, joined))
    }

    /// Whether a commit after `seqno` wrote to this prefix.
    pub(crate) fn is_newer(&self, seqno: Seqno) -> bool {
        self.state.read().written > seqno
    }

    /// Adds a page that was read at `seqno`, unless it could be wrong for later snapshots or
    /// overlaps other pages. With `stay`, a reader that continues begins to watch.
    pub(super) fn put(
        self: &Arc<PrefixPages>,
        page: &Arc<Page>,
        seqno: Seqno,
        watch: &mut Option<Watch>,
        stay: bool,
    ) -> bool {
        // Declared before the guard and so dropped after it: dropping it takes the lock.
        let _old;
        let mut state = self.state.write();
        let watches = watch.as_ref().is_some_and(|watch| watch.round == state.round);
        let valid_from = if state.written <= seqno {
            state.written
        } else if watches && !state.noted_within(page, seqno) {
            seqno
        } else {
            return false;
        };
        if state.closed || state.overlaps(page) {
            return false;
        }
        if stay && !watches && state.written <= seqno {
            _old = watch.replace(state.watch(self));
        }
        state.pages.insert(page.from.clone(), ValidPage { page: page.clone(), valid_from });
        true
    }

    /// Starts a watch for a reader of `seqno` that continues; `None` if later commits wrote
    /// already.
    pub(crate) fn watch(self: &Arc<PrefixPages>, seqno: Seqno) -> Option<Watch> {
        let mut state = self.state.write();
        (state.written <= seqno && !state.closed).then(|| state.watch(self))
    }

    /// Records the writes of commit `seqno`, before it is published. Pages of which it writes a
    /// large share are rebuilt, so that a statement that updates many documents keeps its pages;
    /// others are removed.
    pub(super) fn write<'o>(
        &self,
        seqno: Seqno,
        operations: impl Iterator<Item = (usize, &'o Operation)>,
        page_bytes: usize,
        changed: &mut Changed,
    ) {
        let mut state = self.state.write();
        state.written = seqno;
        if state.pages.is_empty() && state.watchers == 0 {
            return;
        }
        let mut operations = operations.peekable();
        let mut own: Vec<(&Bytes, Option<&[u8]>)> = Vec::new();
        let mut numbers: Vec<usize> = Vec::new();
        let mut set_at: Vec<usize> = Vec::new();
        let mut builder = Builder::default();
        while let Some((number, operation)) = operations.next() {
            let Some(page) = state.page_of(&operation.key, Seqno::MAX).cloned() else {
                state.note(&operation.key, seqno);
                continue;
            };
            // The operations of a batch are in key order, so those of a page are adjacent. If not,
            // the page is removed twice, which is correct too.
            own.clear();
            numbers.clear();
            set_at.clear();
            let mut next = Some((number, operation));
            while let Some((number, operation)) = next {
                own.push((&operation.key, operation.value.as_deref()));
                if operation.value.is_some() {
                    numbers.push(number);
                }
                next = operations.next_if(|(_, next)| page.covers(&next.key));
            }
            if !own.is_sorted_by(|a, b| a.0 < b.0) {
                keep_last(&mut own);
                numbers.clear();
            }
            let valid = state.pages.remove(page.from.as_slice());
            let patched = (own.len() * PATCHED_SHARE >= page.len().max(PATCHED_SHARE))
                .then(|| {
                    let changes: Vec<Change<'_>> =
                        own.iter().map(|(key, value)| (key.as_slice(), *value)).collect();
                    page.patched(&changes, 2 * page_bytes, &mut builder, &mut set_at)
                })
                .flatten();
            if let Some(patched) = patched {
                let set = own.iter().filter_map(|(_, value)| value.map(<[u8]>::len)).sum::<usize>();
                if set * LENT_SHARE >= patched.value_bytes() && set >= own.len() * LENT_BYTES_MIN {
                    let values = set_at.iter().map(|at| patched.shared_value(*at));
                    changed.shared.extend(numbers.iter().copied().zip(values));
                }
                let valid = ValidPage { page: patched.clone(), valid_from: seqno };
                state.pages.insert(patched.from.clone(), valid);
                changed.made.push(patched);
            } else {
                if let Some(valid) = valid {
                    state.note_gone(&valid);
                }
                own.iter().for_each(|(key, _)| state.note(key, seqno));
                if self.credit.load(Ordering::Relaxed) > CREDIT_MIN {
                    self.credit.fetch_sub(LOST, Ordering::Relaxed);
                }
            }
            changed.gone.push(page);
        }
    }

    /// Removes a page if it is still here.
    pub(super) fn remove(&self, page: &Arc<Page>) -> bool {
        let mut state = self.state.write();
        let stands = state
            .pages
            .get(page.from.as_slice())
            .is_some_and(|valid| Arc::ptr_eq(&valid.page, page));
        if stands && let Some(valid) = state.pages.remove(page.from.as_slice()) {
            state.note_gone(&valid);
        }
        stands
    }

    /// Removes all pages and accepts no more, because the prefix was dropped.
    pub(super) fn close(&self) -> Vec<Arc<Page>> {
        let mut state = self.state.write();
        state.closed = true;
        std::mem::take(&mut state.pages).into_values().map(|valid| valid.page).collect()
    }

    /// Returns the first keys of the pages between two keys, if they cover most of the range.
    pub(super) fn cuts(&self, from: &[u8], to: &[u8]) -> Option<Vec<Bytes>> {
        let state = self.state.read();
        let range = (Bound::Included(from), Bound::Excluded(to));
        let pages: Vec<&Arc<Page>> =
            state.pages.range::<[u8], _>(range).map(|(_, valid)| &valid.page).collect();
        let (first, last) = (pages.first()?, pages.last()?);
        let gaps = pages.windows(2).filter(|pair| pair[0].to != pair[1].from).count();
        let whole = state.page_of(from, Seqno::MAX).is_some_and(|page| page.to > first.from)
            || &*first.from == from;
        (whole && &*last.to >= to && gaps <= pages.len() / 8)
            .then(|| pages.iter().map(|page| page.from.clone()).collect())
    }

    /// Counts a reader that found a page.
    pub(super) fn hit(&self) {
        if self.credit.load(Ordering::Relaxed) < CREDIT_MAX {
            self.credit.fetch_add(HIT, Ordering::Relaxed);
        }
    }

    /// Counts a reader that found no page. Returns whether to read one for later readers.
    pub(super) fn miss(&self) -> bool {
        self.credit.fetch_add(MISS, Ordering::Relaxed) >= READ
    }

    /// Charges for a page that was read for later readers.
    pub(crate) fn pay(&self) {
        self.credit.fetch_sub(READ, Ordering::Relaxed);
    }
}

/// Sorts changes by key; keeps the last change of each key.
fn keep_last(changes: &mut Vec<(&Bytes, Option<&[u8]>)>) {
    changes.reverse();
    changes.sort_by(|a, b| a.0.cmp(b.0));
    changes.dedup_by(|later, kept| later.0 == kept.0);
}

impl PrefixState {
    /// Adds a watcher.
    fn watch(&mut self, prefix_pages: &Arc<PrefixPages>) -> Watch {
        if self.watchers == 0 {
            self.watched_from = self.written;
        }
        self.watchers += 1;
        Watch { prefix_pages: prefix_pages.clone(), round: self.round }
    }

    /// Records a written key for watchers.
    fn note(&mut self, key: &Bytes, seqno: Seqno) {
        if self.watchers == 0 {
            return;
        }
        if self.noted.len() < NOTED_MAX {
            self.noted.insert(key.clone(), seqno);
        } else {
            self.give_up_watching();
        }
    }

    /// Records the range of a removed page if it was renewed while there were watchers: the keys
    /// written there were not recorded.
    fn note_gone(&mut self, valid: &ValidPage) {
        if self.watchers == 0 || valid.valid_from <= self.watched_from {
            return;
        }
        if self.removed_ranges.len() < REMOVED_RANGES_MAX {
            let page = &valid.page;
            self.removed_ranges.push((page.from.clone(), page.to.clone(), valid.valid_from));
        } else {
            self.give_up_watching();
        }
    }

    fn give_up_watching(&mut self) {
        self.round += 1;
        self.watchers = 0;
        self.forget_notes();
    }

    fn forget_notes(&mut self) {
        self.noted.clear();
        self.removed_ranges.clear();
    }

    fn page_of(&self, key: &[u8], seqno: Seqno) -> Option<&Arc<Page>> {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let (_, valid) = self.pages.range::<[u8], _>(up_to).next_back()?;
        (valid.valid_from <= seqno && key < &*valid.page.to).then_some(&valid.page)
    }

    /// Whether a key of the page was written after `seqno`, according to the recorded keys.
    fn noted_within(&self, page: &Page, seqno: Seqno) -> bool {
        let renewed = |(from, to, written): &(Bytes, Bytes, Seqno)| {
            *written > seqno && *from < page.to && page.from < *to
        };
        if page.from >= page.to || self.removed_ranges.iter().any(renewed) {
            return true;
        }
        let range = (Bound::Included(page.from.as_slice()), Bound::Excluded(page.to.as_slice()));
        self.noted.range::<[u8], _>(range).any(|(_, written)| *written > seqno)
    }

    fn overlaps(&self, page: &Page) -> bool {
        let below = (Bound::Unbounded, Bound::Excluded(page.to.as_slice()));
        let before = self.pages.range::<[u8], _>(below).next_back();
        page.from >= page.to || before.is_some_and(|(_, valid)| valid.page.to > page.from)
    }
}
