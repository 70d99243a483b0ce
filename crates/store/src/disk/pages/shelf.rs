//! The pages of one prefix, and which snapshots may read them.
//!
//! A commit takes away the pages whose keys it writes before it is published, under the lock under
//! which pages are put up and looked up. So a page that stands here holds the newest state of its
//! keys, and whoever finds it may read it if nothing was written there between the snapshot of
//! the reader and the page: if the page is valid from the reader's number on.
//!
//! A page that was read at an older snapshot is put up only if nothing was written to its keys
//! since. As long as nothing at all was written that is plain; a reader that means to go on while
//! commits go on *watches*: from then on what is written is noted, unless a page stands there that
//! the commit renews, which keeps others out of its place. Once such a page goes, its whole stretch
//! is noted.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::RwLock;

use super::page::{Builder, Change, Page};
use crate::{Bytes, Direction, Operation, Seqno};

/// So many written keys are noted for those who watch; then they have watched in vain.
const NOTED_MAX: usize = 1 << 16;
/// The same for stretches, which are searched one by one.
const STRETCHES_MAX: usize = 1 << 10;
/// What a hit brings, what a miss brings, and what reading a page ahead of need costs: a page pays
/// for itself once it was hit a few times, and where that never happens few are read.
const HIT: i64 = 8;
const MISS: i64 = 1;
const READ: i64 = 128;
/// What a page costs that a commit took away: where much is written, reading ahead is in vain.
const LOST: i64 = 4 * READ;
/// What a shelf starts with, the most that it saves up, and the most that it can owe.
const CREDIT_START: i64 = 64 * READ;
const CREDIT_MAX: i64 = 512 * READ;
const CREDIT_MIN: i64 = -64 * READ;
/// A page of which a commit writes this share, or more, is made anew with what is written.
const PATCHED_SHARE: usize = 16;
/// Values of which a page that is made anew consists, and which are not shorter, are lent to the
/// memtable: so it needs no memory of its own, which would be asked for and freed value by value.
const LENT_SHARE: usize = 2;
const LENT_BYTES_MIN: usize = 64;

/// The pages of one prefix.
pub(crate) struct Shelf {
    state: RwLock<State>,
    credit: AtomicI64,
}

struct State {
    /// By their first key; they do not overlap.
    pages: BTreeMap<Bytes, Standing>,
    /// The last commit that wrote to this prefix.
    written: Seqno,
    /// How many watch, and what was written since the first of them began.
    watchers: usize,
    noted: BTreeMap<Bytes, Seqno>,
    /// Stretches of pages that were renewed since and then went, with the last commit to them.
    stretches: Vec<(Bytes, Bytes, Seqno)>,
    /// The last commit before the first of them began.
    watched_from: Seqno,
    /// Those who watch since an earlier round have watched in vain.
    round: u64,
    /// Whether the prefix was dropped.
    closed: bool,
}

struct Standing {
    page: Arc<Page>,
    valid_from: Seqno,
}

/// What lies at a position.
pub(crate) enum Found {
    /// A page that holds the keys from there on.
    Page(Arc<Page>),
    /// Nothing; the next page begins, or in reverse ends, here.
    Gap(Option<Bytes>),
}

/// What a commit did to pages.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) gone: Vec<Arc<Page>>,
    pub(super) made: Vec<Arc<Page>>,
    /// Values that stand in the pages made, by the number of their operation.
    pub(super) shared: Vec<Shared>,
}

/// The number of an operation of a batch, and its value in the memory of a page.
pub(crate) type Shared = (usize, Bytes);

/// The sign that a reader watches; given back when it is dropped.
pub(crate) struct Watch {
    shelf: Arc<Shelf>,
    round: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.shelf.state.write();
        if state.round == self.round {
            state.watchers = state.watchers.saturating_sub(1);
            if state.watchers == 0 {
                state.forget_notes();
            }
        }
    }
}

impl Shelf {
    /// An empty shelf. `written` is the last commit; the caller keeps others from committing until
    /// the shelf can be found.
    pub(super) fn new(written: Seqno) -> Shelf {
        Shelf {
            state: RwLock::new(State {
                pages: BTreeMap::new(),
                written,
                watchers: 0,
                noted: BTreeMap::new(),
                stretches: Vec::new(),
                watched_from: 0,
                round: 0,
                closed: false,
            }),
            credit: AtomicI64::new(CREDIT_START),
        }
    }

    /// Runs `look` on the page that answers for `key` at a snapshot, without counting a handle.
    pub(super) fn look<T>(
        &self,
        key: &[u8],
        seqno: Seqno,
        look: impl FnOnce(&Page) -> T,
    ) -> Option<T> {
        let state = self.state.read();
        state.page_of(key, seqno).map(|page| look(page))
    }

    /// What lies at a position: forward, that of the keys from `position` on; in reverse, that
    /// of the keys below it.
    pub(crate) fn find(&self, position: &[u8], direction: Direction, seqno: Seqno) -> Found {
        let state = self.state.read();
        match direction {
            Direction::Forward => {
                if let Some(page) = state.page_of(position, seqno) {
                    return Found::Page(page.clone());
                }
                let behind = (Bound::Excluded(position), Bound::Unbounded);
                let next = state
                    .pages
                    .range::<[u8], _>(behind)
                    .find(|(_, standing)| standing.valid_from <= seqno);
                Found::Gap(next.map(|(from, _)| from.clone()))
            }
            Direction::Reverse => {
                let below = (Bound::Unbounded, Bound::Excluded(position));
                let mut before = state
                    .pages
                    .range::<[u8], _>(below)
                    .rev()
                    .map(|(_, standing)| standing)
                    .filter(|standing| standing.valid_from <= seqno);
                match before.next() {
                    Some(standing) if &*standing.page.to >= position => {
                        Found::Page(standing.page.clone())
                    }
                    Some(standing) => Found::Gap(Some(standing.page.to.clone())),
                    None => Found::Gap(None),
                }
            }
        }
    }

    /// Joins the page that begins at a key with those right behind it, as long as they hold no
    /// more than `bytes_max` together. Point reads leave small pages; scans want large ones.
    /// Nothing when there is nothing to join.
    pub(super) fn join(
        &self,
        from: &[u8],
        bytes_max: usize,
    ) -> Option<(Arc<Page>, Vec<Arc<Page>>)> {
        let mut state = self.state.write();
        let mut bytes = 0;
        let mut valid_from = 0;
        let mut joined: Vec<Arc<Page>> = Vec::new();
        for (start, standing) in state.pages.range::<[u8], _>((Bound::Included(from), Unbounded)) {
            bytes += standing.page.bytes();
            let adjoins = joined.last().map_or(&**start == from, |last| last.to == *start);
            if !adjoins || bytes > bytes_max {
                break;
            }
            valid_from = standing.valid_from.max(valid_from);
            joined.push(standing.page.clone());
        }
        if joined.len() < 2 {
            return None;
        }
        let page = Page::joined(&joined)?;
        for old in &joined {
            state.pages.remove(old.from.as_slice());
        }
        // Each was the newest state of its keys; together they are right for who may read all.
        let standing = Standing { page: page.clone(), valid_from };
        state.pages.insert(page.from.clone(), standing);
        Some((page, joined))
    }

    /// Whether something was written here after `seqno`.
    pub(crate) fn is_newer(&self, seqno: Seqno) -> bool {
        self.state.read().written > seqno
    }

    /// Puts up a page that was read at `seqno`, unless it could be wrong for later snapshots or
    /// others stand in its place. With `stay`, a reader that means to read on begins to watch.
    pub(super) fn put(
        self: &Arc<Shelf>,
        page: &Arc<Page>,
        seqno: Seqno,
        watch: &mut Option<Watch>,
        stay: bool,
    ) -> bool {
        // Declared before the lock and so dropped after it, which it takes itself.
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
        state.pages.insert(page.from.clone(), Standing { page: page.clone(), valid_from });
        true
    }

    /// Begins to watch for a reader of `seqno` that means to read on; nothing if it is too late.
    pub(crate) fn watch(self: &Arc<Shelf>, seqno: Seqno) -> Option<Watch> {
        let mut state = self.state.write();
        (state.written <= seqno && !state.closed).then(|| state.watch(self))
    }

    /// Notes what commit `seqno` writes, before it is published. Pages of which it writes much are
    /// made anew, so that a statement that changes many documents leaves its pages behind; others
    /// are taken away.
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
            // Batches hold their operations in the order of keys, so those of a page stand
            // together. If not, the page is taken away twice, which is right too.
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
            let standing = state.pages.remove(page.from.as_slice());
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
                let standing = Standing { page: patched.clone(), valid_from: seqno };
                state.pages.insert(patched.from.clone(), standing);
                changed.made.push(patched);
            } else {
                if let Some(standing) = standing {
                    state.note_gone(&standing);
                }
                own.iter().for_each(|(key, _)| state.note(key, seqno));
                if self.credit.load(Ordering::Relaxed) > CREDIT_MIN {
                    self.credit.fetch_sub(LOST, Ordering::Relaxed);
                }
            }
            changed.gone.push(page);
        }
    }

    /// Takes a page away if it still stands here.
    pub(super) fn remove(&self, page: &Arc<Page>) -> bool {
        let mut state = self.state.write();
        let stands = state
            .pages
            .get(page.from.as_slice())
            .is_some_and(|standing| Arc::ptr_eq(&standing.page, page));
        if stands && let Some(standing) = state.pages.remove(page.from.as_slice()) {
            state.note_gone(&standing);
        }
        stands
    }

    /// Takes all pages away and takes no others, because the prefix was dropped.
    pub(super) fn close(&self) -> Vec<Arc<Page>> {
        let mut state = self.state.write();
        state.closed = true;
        std::mem::take(&mut state.pages).into_values().map(|standing| standing.page).collect()
    }

    /// The first keys of the pages that stand between two keys, if they hold most of what is there.
    pub(super) fn cuts(&self, from: &[u8], to: &[u8]) -> Option<Vec<Bytes>> {
        let state = self.state.read();
        let range = (Bound::Included(from), Bound::Excluded(to));
        let pages: Vec<&Arc<Page>> =
            state.pages.range::<[u8], _>(range).map(|(_, standing)| &standing.page).collect();
        let (first, last) = (pages.first()?, pages.last()?);
        let gaps = pages.windows(2).filter(|pair| pair[0].to != pair[1].from).count();
        let whole = state.page_of(from, Seqno::MAX).is_some_and(|page| page.to > first.from)
            || &*first.from == from;
        (whole && &*last.to >= to && gaps <= pages.len() / 8)
            .then(|| pages.iter().map(|page| page.from.clone()).collect())
    }

    /// A reader found what it looked for in a page.
    pub(super) fn hit(&self) {
        if self.credit.load(Ordering::Relaxed) < CREDIT_MAX {
            self.credit.fetch_add(HIT, Ordering::Relaxed);
        }
    }

    /// A reader found no page: whether to read one, for later readers.
    pub(super) fn miss(&self) -> bool {
        self.credit.fetch_add(MISS, Ordering::Relaxed) >= READ
    }

    /// A page was read for later readers.
    pub(crate) fn pay(&self) {
        self.credit.fetch_sub(READ, Ordering::Relaxed);
    }
}

/// Puts changes into the order of keys; the last one of a key counts.
fn keep_last(changes: &mut Vec<(&Bytes, Option<&[u8]>)>) {
    changes.reverse();
    changes.sort_by(|a, b| a.0.cmp(b.0));
    changes.dedup_by(|later, kept| later.0 == kept.0);
}

impl State {
    /// One more watches.
    fn watch(&mut self, shelf: &Arc<Shelf>) -> Watch {
        if self.watchers == 0 {
            self.watched_from = self.written;
        }
        self.watchers += 1;
        Watch { shelf: shelf.clone(), round: self.round }
    }

    /// Notes a written key for those who watch.
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

    /// Notes the stretch of a page that was taken away, if it was renewed while some watch: what
    /// the commits wrote there was not noted.
    fn note_gone(&mut self, standing: &Standing) {
        if self.watchers == 0 || standing.valid_from <= self.watched_from {
            return;
        }
        if self.stretches.len() < STRETCHES_MAX {
            let page = &standing.page;
            self.stretches.push((page.from.clone(), page.to.clone(), standing.valid_from));
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
        self.stretches.clear();
    }

    fn page_of(&self, key: &[u8], seqno: Seqno) -> Option<&Arc<Page>> {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let (_, standing) = self.pages.range::<[u8], _>(up_to).next_back()?;
        (standing.valid_from <= seqno && key < &*standing.page.to).then_some(&standing.page)
    }

    /// Whether a key of the page was written after `seqno`, as far as was noted.
    fn noted_within(&self, page: &Page, seqno: Seqno) -> bool {
        let renewed = |(from, to, written): &(Bytes, Bytes, Seqno)| {
            *written > seqno && *from < page.to && page.from < *to
        };
        if page.from >= page.to || self.stretches.iter().any(renewed) {
            return true;
        }
        let range = (Bound::Included(page.from.as_slice()), Bound::Excluded(page.to.as_slice()));
        self.noted.range::<[u8], _>(range).any(|(_, written)| *written > seqno)
    }

    fn overlaps(&self, page: &Page) -> bool {
        let below = (Bound::Unbounded, Bound::Excluded(page.to.as_slice()));
        let before = self.pages.range::<[u8], _>(below).next_back();
        page.from >= page.to || before.is_some_and(|(_, standing)| standing.page.to > page.from)
    }
}
