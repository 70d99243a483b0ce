//! Range reads at one snapshot: from pages where they exist, from the tree in between. Entries
//! that are read from the tree become pages.
//!
//! A range first returns entries of the tree one by one, since it may end early. Once a page is
//! full, it reads page by page.

use std::ops::{Bound, Range as Span};
use std::sync::Arc;

use super::pages::{Builder, Lookup, Page, PrefixPages, Watch, end_of, prefix_of};
use super::read::{DiskSnapshot, Pairs};
use super::readers::OpenReader;
use super::trees::read_error;
use crate::snapshot::{fit_lower, fit_upper, is_empty};
use crate::{Bytes, Direction, Result, Space};

/// The most entries of a page that is read for later readers.
const AHEAD_ENTRIES: usize = 128;
/// ... and its share of a page's bytes.
const AHEAD_SHARE: usize = 2;
/// After so many pages that were read from the tree, a range is a scan: the system reads ahead.
const SCAN_PAGES: usize = 8;
/// Pages smaller than this share of a page are not kept, unless they adjoin others.
const WORTH_SHARE: usize = 16;

/// Entries of a snapshot in key order.
pub(crate) struct DiskRange {
    snapshot: DiskSnapshot,
    space: Space,
    direction: Direction,
    /// The range still to be read, `[low, high)`, within one prefix. Not used when `prefix` is
    /// `None`.
    low: Bytes,
    high: Bytes,
    prefix: Option<u32>,
    prefix_pages: Option<Arc<PrefixPages>>,
    watch: Option<Watch>,
    /// The current page.
    cursor: Option<Cursor>,
    /// The current entry, if it was read from the tree.
    entry: Option<(Bytes, Bytes)>,
    reader: Option<Reader>,
    /// Collects the entries that are read, if they are to become a page.
    builder: Option<Builder>,
    /// Whether the next page is to be added to the pages of its prefix.
    keep: bool,
    /// Whether to add it even if it is small, since it is read only for later readers.
    ahead: bool,
    /// Bytes of entries that were read one by one without being collected.
    passed: usize,
    /// Which entries of the current page are in the current run.
    run: Span<usize>,
    /// Whether the tree is read page by page.
    by_page: bool,
    /// Whether the first position was looked up.
    begun: bool,
    /// Number of pages found.
    pages_read: usize,
    /// Number of pages read from the tree.
    tree_pages: usize,
}

/// A position in a page.
struct Cursor {
    page: Arc<Page>,
    /// The remaining entries, and the current one.
    left: Span<usize>,
    at: usize,
}

/// A reader of a range of the tree.
struct Reader {
    open: Arc<OpenReader>,
    /// The bounds of the range.
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    /// The last key that was read.
    last: Option<Bytes>,
    /// Where the range ends: forward the first key after it, in reverse its first key.
    end: Bytes,
    /// Whether a page, or the end of the prefix, adjoins the end.
    joins: bool,
}

impl Reader {
    /// Returns the bounds of the unread part.
    fn rest(&self, direction: Direction) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let last = self.last.as_ref().map(|key| Bound::Excluded(&**key));
        let (from, to) = (self.from.as_ref().map(|key| &**key), self.to.as_ref().map(|key| &**key));
        match direction {
            Direction::Forward => (last.unwrap_or(from), to),
            Direction::Reverse => (from, last.unwrap_or(to)),
        }
    }
}

impl Cursor {
    fn step(&mut self, direction: Direction) -> bool {
        let at = match direction {
            Direction::Forward => self.left.next(),
            Direction::Reverse => self.left.next_back(),
        };
        self.at = at.unwrap_or(self.at);
        at.is_some()
    }
}

impl DiskRange {
    pub(super) fn new(
        snapshot: DiskSnapshot,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<DiskRange> {
        let mut range = DiskRange {
            snapshot,
            space,
            direction,
            low: Bytes::default(),
            high: Bytes::default(),
            prefix: None,
            prefix_pages: None,
            watch: None,
            cursor: None,
            entry: None,
            reader: None,
            builder: None,
            keep: false,
            ahead: false,
            passed: 0,
            run: 0..0,
            by_page: false,
            begun: false,
            pages_read: 0,
            tree_pages: 0,
        };
        let paged = matches!(space, Space::Documents | Space::Indexes);
        match single_prefix(from, to).filter(|_| paged) {
            Some((prefix, low, high)) => {
                range.prefix_pages = range.snapshot.shared.pages.prefix_pages(space, prefix);
                (range.prefix, range.low, range.high) = (Some(prefix), low, high);
            }
            None => range.reader = Some(range.open(from, to, Bytes::default(), false)?),
        }
        Ok(range)
    }

    /// The snapshot that it reads.
    pub(crate) fn snapshot(&self) -> &DiskSnapshot {
        &self.snapshot
    }

    /// Moves to the next entry; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if let Some(cursor) = &mut self.cursor
            && cursor.step(self.direction)
        {
            return Ok(true);
        }
        self.refill()
    }

    /// Returns the current entry. Valid after [`DiskRange::advance`] returned true.
    pub(crate) fn current(&self) -> (&[u8], &[u8]) {
        match (&self.cursor, &self.entry) {
            (Some(cursor), _) => cursor.page.entry(cursor.at),
            (None, Some((key, value))) => (key, value),
            (None, None) => (&[], &[]),
        }
    }

    /// Whether the current page has no more entries.
    pub(crate) fn is_at_seam(&self) -> bool {
        self.cursor.as_ref().is_none_or(|cursor| cursor.left.is_empty())
    }

    /// Returns the current entry as handles.
    pub(crate) fn own(&self) -> (Bytes, Bytes) {
        match (&self.cursor, &self.entry) {
            (Some(Cursor { page, at, .. }), _) => (page.shared_key(*at), page.shared_value(*at)),
            (None, Some(entry)) => entry.clone(),
            (None, None) => (Bytes::default(), Bytes::default()),
        }
    }

    /// Returns the current value as a handle.
    pub(crate) fn own_value(&self) -> Bytes {
        match (&self.cursor, &self.entry) {
            (Some(Cursor { page, at, .. }), _) => page.shared_value(*at),
            (None, Some((_, value))) => value.clone(),
            (None, None) => Bytes::default(),
        }
    }

    /// Moves to the next run of entries; false at the end.
    pub(crate) fn next_run(&mut self) -> Result<bool> {
        self.by_page = true;
        self.run = 0..0;
        // The rest of the current page, or the next one.
        if !self.advance()? {
            return Ok(false);
        }
        if let Some(cursor) = &mut self.cursor {
            let left = std::mem::replace(&mut cursor.left, 0..0);
            self.run = match self.direction {
                Direction::Forward => cursor.at..left.end.max(cursor.at + 1),
                Direction::Reverse => left.start.min(cursor.at)..cursor.at + 1,
            };
        }
        Ok(true)
    }

    /// Returns the current run: a page, the range of its entries, and their order.
    pub(crate) fn run(&self) -> Option<(&Page, Span<usize>, Direction)> {
        let cursor = self.cursor.as_ref()?;
        Some((&cursor.page, self.run.clone(), self.direction))
    }

    /// Returns to the position before the current run, so that its entries can be read one by one.
    pub(crate) fn undo_run(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.left = std::mem::replace(&mut self.run, 0..0);
        }
    }

    /// Called at the end of a page: takes the next page, or entries of the tree.
    #[cold]
    fn refill(&mut self) -> Result<bool> {
        self.cursor = None;
        self.entry = None;
        loop {
            if self.reader.is_some() {
                let found = if self.by_page { self.read_page()? } else { self.read_entry()? };
                if found {
                    return Ok(true);
                }
            } else if self.prefix.is_none() || self.low >= self.high {
                return Ok(false);
            } else if self.seek_page()? {
                return Ok(true);
            }
        }
    }

    fn position(&self) -> &Bytes {
        match self.direction {
            Direction::Forward => &self.low,
            Direction::Reverse => &self.high,
        }
    }

    /// Looks for a page at the position; if there is none, begins to read the tree. Returns
    /// whether there is a current entry.
    fn seek_page(&mut self) -> Result<bool> {
        let mut found = self.find();
        if !std::mem::replace(&mut self.begun, true) {
            if self.prefix_pages.is_none()
                && let Some(prefix) = self.prefix
            {
                self.prefix_pages = self.snapshot.make_prefix_pages(self.space, prefix);
            }
            let pages = &self.snapshot.shared.pages;
            match (&found, &self.prefix_pages) {
                (Lookup::Page(_), Some(prefix_pages)) => pages.count_hit(prefix_pages),
                (Lookup::Gap(_), Some(prefix_pages)) => {
                    let worth = pages.count_miss(prefix_pages);
                    // A range in page mode reads this page anyway.
                    if worth && !self.by_page {
                        self.read_ahead()?;
                        found = self.find();
                    }
                }
                (_, None) => {}
            }
        }
        // The second page in a row: this is a scan, for which small pages are expensive.
        if let (Lookup::Page(page), true, Some(prefix_pages), Some(prefix)) =
            (&found, self.pages_read > 0, &self.prefix_pages, self.prefix)
            && self.direction == Direction::Forward
            && *page.from() == self.low
            && self.snapshot.shared.pages.join((self.space, prefix, prefix_pages), page).is_some()
        {
            found = self.find();
        }
        if self.pages_read == 1
            && self.watch.is_none()
            && let Some(prefix_pages) = &self.prefix_pages
        {
            // There may be gaps later, after the scanning statement has written.
            self.watch = prefix_pages.watch(self.snapshot.seqno);
        }
        match found {
            Lookup::Page(page) => {
                self.pages_read += 1;
                let left = page.lower_bound(&self.low)..page.lower_bound(&self.high);
                match self.direction {
                    Direction::Forward => self.low = page.to().clone(),
                    Direction::Reverse => self.high = page.from().clone(),
                }
                Ok(self.take(page, left))
            }
            Lookup::Gap(page) => {
                let (low, high, joins) = match (page, self.direction) {
                    (Some(page), Direction::Forward) if page < self.high => {
                        (self.low.clone(), page, true)
                    }
                    (Some(page), Direction::Reverse) if page > self.low => {
                        (page, self.high.clone(), true)
                    }
                    _ => (self.low.clone(), self.high.clone(), self.is_whole()),
                };
                let end = match self.direction {
                    Direction::Forward => high.clone(),
                    Direction::Reverse => low.clone(),
                };
                let bounds = (Bound::Included(&*low), Bound::Excluded(&*high));
                self.reader = Some(self.open(bounds.0, bounds.1, end, joins)?);
                // If commits came in between, the page would be refused.
                let is_newest = || match &self.prefix_pages {
                    Some(prefix_pages) => !prefix_pages.is_newer(self.snapshot.seqno),
                    None => false,
                };
                self.keep = (self.watch.is_some() || is_newest())
                    && self.snapshot.shared.pages.wants_page();
                self.builder = self.keep.then(Builder::default);
                self.passed = 0;
                Ok(false)
            }
        }
    }

    /// Whether the whole prefix is still to be read.
    fn is_whole(&self) -> bool {
        let prefix = self.prefix.map(u32::to_be_bytes).unwrap_or_default();
        *self.low == prefix && self.prefix.and_then(end_of).is_some_and(|end| end == self.high)
    }

    fn find(&self) -> Lookup {
        match &self.prefix_pages {
            Some(prefix_pages) => {
                prefix_pages.find(self.position(), self.direction, self.snapshot.seqno)
            }
            None => Lookup::Gap(None),
        }
    }

    fn open(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        end: Bytes,
        joins: bool,
    ) -> Result<Reader> {
        let (from, to) = (fit_lower(from), fit_upper(to));
        let open = self.snapshot.shared.readers.add();
        open.put(self.snapshot.entries(self.space, from, to)?);
        let (from, to) = (from.map(Bytes::copy_from), to.map(Bytes::copy_from));
        Ok(Reader { open, from, to, last: None, end, joins })
    }

    /// Takes the iterator out of the reader; reopens it if it was closed.
    fn take_entries(&mut self) -> Result<Option<Pairs>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        if let Some(entries) = reader.open.take() {
            return Ok(Some(entries));
        }
        let (from, to) = reader.rest(self.direction);
        if is_empty(&from, &to) {
            return Ok(Some(Box::new(std::iter::empty())));
        }
        let open = self.snapshot.shared.readers.add();
        let entries = self.snapshot.entries(self.space, from, to)?;
        reader.open = open;
        Ok(Some(entries))
    }

    /// Returns the iterator to the reader, after the last key that it returned.
    fn put_entries(&mut self, entries: Pairs, last: Option<&Bytes>) {
        if let Some(reader) = &mut self.reader {
            if last.is_some() {
                reader.last = last.cloned();
            }
            reader.open.put(entries);
        }
    }

    /// The next entry of an iterator.
    fn next_of(&self, entries: &mut Pairs) -> Result<Option<(Bytes, Bytes)>> {
        let entry = match self.direction {
            Direction::Forward => entries.next(),
            Direction::Reverse => entries.next_back(),
        };
        match entry {
            None => Ok(None),
            Some(Ok((key, value))) => Ok(Some((Bytes::from_tree(key), Bytes::from_tree(value)))),
            Some(Err(error)) => {
                Err(read_error(&self.snapshot.shared.trees[self.space.index()], &error))
            }
        }
    }

    /// The next entry of the tree.
    fn next_of_tree(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let Some(mut entries) = self.take_entries()? else { return Ok(None) };
        let entry = self.next_of(&mut entries)?;
        self.put_entries(entries, entry.as_ref().map(|(key, _)| key));
        Ok(entry)
    }

    /// Adds entries of the tree to a builder while it accepts more. Returns the last entry, or
    /// `None` at the end of the range.
    fn collect(
        &mut self,
        builder: &mut Builder,
        wants_more: impl Fn(&Builder) -> bool,
    ) -> Result<Option<(Bytes, Bytes)>> {
        let mut last: Option<(Bytes, Bytes)> = None;
        let Some(mut entries) = self.take_entries()? else { return Ok(None) };
        while wants_more(builder) {
            let next = self.next_of(&mut entries)?;
            if let Some((key, value)) = &next {
                builder.push_shared(key, value.clone());
            }
            last = next;
            if last.is_none() {
                break;
            }
        }
        self.put_entries(entries, last.as_ref().map(|(key, _)| key));
        Ok(last)
    }

    /// Reads one entry from the tree; false at the end of the range.
    fn read_entry(&mut self) -> Result<bool> {
        let entry = self.next_of_tree()?;
        let page_bytes = self.snapshot.shared.pages.page_bytes();
        match &entry {
            Some((key, value)) => {
                let passed = match &mut self.builder {
                    Some(builder) => {
                        builder.push_shared(key, value.clone());
                        builder.bytes()
                    }
                    None => {
                        self.passed += key.len() + value.len();
                        self.passed
                    }
                };
                // A range without a prefix does not use pages.
                if passed >= page_bytes && self.prefix.is_some() {
                    self.finish_page(Some(key));
                    self.by_page = true;
                }
            }
            None => drop(self.finish_page(None)),
        }
        self.entry = entry;
        Ok(self.entry.is_some())
    }

    /// Reads a page of entries from the tree; false if the range has no more entries.
    fn read_page(&mut self) -> Result<bool> {
        let page_bytes = self.snapshot.shared.pages.page_bytes();
        let mut builder = self.builder.take().unwrap_or_default();
        self.tree_pages += 1;
        if self.tree_pages > SCAN_PAGES {
            let (shared, at) = (&self.snapshot.shared, self.space.index());
            shared.advice.note_scan(self.space, &shared.trees[at], &shared.newest[at]);
        }
        // Entries that were read one by one are in the builder, and were returned already.
        let already = builder.len();
        let last = match self.collect(&mut builder, |builder| builder.bytes() < page_bytes) {
            Ok(last) => last,
            Err(error) => {
                self.reader = None;
                return Err(error);
            }
        };
        self.builder = Some(builder);
        let page = self.finish_page(last.as_ref().map(|(key, _)| key));
        let Some(page) = page else { return Ok(false) };
        let left = match self.direction {
            Direction::Forward => already..page.len(),
            Direction::Reverse => 0..page.len().saturating_sub(already),
        };
        Ok(self.take(page, left))
    }

    /// Makes the page current; false if it has no entries left.
    fn take(&mut self, page: Arc<Page>, left: Span<usize>) -> bool {
        let mut cursor = Cursor { page, left, at: 0 };
        let has_entry = cursor.step(self.direction);
        self.cursor = has_entry.then_some(cursor);
        has_entry
    }

    /// Builds a page of the entries collected since the position, up to and including the key
    /// `last`, or up to the end of the range. Moves the position after it.
    fn finish_page(&mut self, last: Option<&Bytes>) -> Option<Arc<Page>> {
        let ended = last.is_none();
        let (end, joins) = match &self.reader {
            Some(reader) => (reader.end.clone(), reader.joins),
            None => return None,
        };
        let end = match (last, self.direction) {
            (Some(key), Direction::Forward) => successor(key),
            (Some(key), Direction::Reverse) => key.clone(),
            (None, _) => end,
        };
        let (from, to) = match self.direction {
            Direction::Forward => (std::mem::replace(&mut self.low, end.clone()), end),
            Direction::Reverse => (end.clone(), std::mem::replace(&mut self.high, end)),
        };
        if ended {
            self.reader = None;
        }
        let mut builder = match ended {
            true => self.builder.take()?,
            false => std::mem::take(self.builder.as_mut()?),
        };
        let direction = self.direction;
        let bytes = builder.bytes();
        let page = builder.finish(from, to, direction);
        if !ended {
            self.builder = Some(builder);
        }
        let worth = self.ahead || bytes >= self.snapshot.shared.pages.page_bytes() / WORTH_SHARE;
        if self.keep && (worth || (ended && joins)) {
            self.put(&page, !ended);
        }
        self.keep = self.snapshot.shared.pages.wants_page();
        Some(page)
    }

    /// Adds a page to the pages of its prefix for other readers.
    fn put(&mut self, page: &Arc<Page>, stay: bool) {
        let Some(prefix) = self.prefix else { return };
        if self.prefix_pages.is_none() {
            self.prefix_pages = self.snapshot.make_prefix_pages(self.space, prefix);
        }
        let Some(prefix_pages) = &self.prefix_pages else { return };
        let pages = &self.snapshot.shared.pages;
        let seqno = self.snapshot.seqno;
        pages.put((self.space, prefix, prefix_pages), page, seqno, &mut self.watch, stay);
    }

    /// Reads a page at a key, for later readers.
    pub(super) fn read_page_at(snapshot: &DiskSnapshot, space: Space, key: &[u8]) -> Result<()> {
        let Some((prefix, end)) = prefix_of(key).and_then(|p| Some((p, end_of(p)?))) else {
            return Ok(());
        };
        let (from, to) = (Bound::Included(key), Bound::Excluded(&*end));
        let mut range = DiskRange::new(snapshot.clone(), space, from, to, Direction::Forward)?;
        if range.prefix_pages.is_none() {
            range.prefix_pages = snapshot.make_prefix_pages(space, prefix);
        }
        range.read_ahead()
    }

    /// Reads a page at the position, beyond what this range needs, for later readers.
    fn read_ahead(&mut self) -> Result<()> {
        let (Some(prefix_pages), Some(prefix)) = (&self.prefix_pages, self.prefix) else {
            return Ok(());
        };
        prefix_pages.pay();
        let Lookup::Gap(page) = self.find() else { return Ok(()) };
        let (low, high) = match self.direction {
            Direction::Forward => (Some(self.low.clone()), page.or_else(|| end_of(prefix))),
            Direction::Reverse => {
                let start = || Bytes::copy_from(&prefix.to_be_bytes());
                (Some(page.unwrap_or_else(start)), Some(self.high.clone()))
            }
        };
        let (Some(low), Some(high)) = (low, high) else { return Ok(()) };
        let end = match self.direction {
            Direction::Forward => high.clone(),
            Direction::Reverse => low.clone(),
        };
        let bytes = self.snapshot.shared.pages.page_bytes() / AHEAD_SHARE;
        self.reader = Some(self.open(Bound::Included(&low), Bound::Excluded(&high), end, true)?);
        let mut builder = Builder::default();
        let last = self.collect(&mut builder, |builder| {
            builder.len() < AHEAD_ENTRIES && builder.bytes() <= bytes
        })?;
        (self.builder, self.keep, self.ahead) = (Some(builder), true, true);
        // The position does not move: the page will be found there.
        let (low, high) = (self.low.clone(), self.high.clone());
        self.finish_page(last.as_ref().map(|(key, _)| key));
        (self.low, self.high) = (low, high);
        (self.reader, self.builder, self.ahead) = (None, None, false);
        Ok(())
    }
}

/// Returns the smallest key above `key`.
fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// Returns the bounds as `[low, high)`, if all keys between them have one prefix.
fn single_prefix(from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<(u32, Bytes, Bytes)> {
    let low = match from {
        Bound::Included(key) => Bytes::copy_from(key),
        Bound::Excluded(key) => successor(key),
        Bound::Unbounded => return None,
    };
    let high = match to {
        Bound::Excluded(key) => Bytes::copy_from(key),
        Bound::Included(key) => successor(key),
        Bound::Unbounded => return None,
    };
    let prefix = prefix_of(&low)?;
    (high <= end_of(prefix)?).then_some((prefix, low, high))
}
