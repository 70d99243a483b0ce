//! A page: all entries of a key range, contiguous in memory. Reading one needs no reference count
//! per entry and no access to the trees.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use byteview::ByteView;

use crate::bytes::joined;
use crate::long::is_stored_long;
use crate::{Bytes, Direction, MAX_KEY_BYTES};

/// Approximate memory of a page besides its entries.
const OVERHEAD: usize = 256;

/// A key and its new value; `None` for a delete.
pub(super) type Change<'c> = (&'c [u8], Option<&'c [u8]>);

/// All entries of the keys in `[from, to)`, in order. Immutable.
pub(crate) struct Page {
    pub(super) from: Bytes,
    pub(super) to: Bytes,
    keys: ByteView,
    values: ByteView,
    /// End offsets of the key and the value of each entry.
    ends: Box<[Ends]>,
    /// Index of the page in the list of all pages; see `Places`.
    pub(super) place: AtomicUsize,
}

#[derive(Clone, Copy, Default)]
struct Ends {
    key: u32,
    value: u32,
}

impl Page {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The first key after the page.
    pub(crate) fn to(&self) -> &Bytes {
        &self.to
    }

    /// The first key that the page covers.
    pub(crate) fn from(&self) -> &Bytes {
        &self.from
    }

    /// The memory that the page takes.
    pub(crate) fn cost(&self) -> u64 {
        let entries = self.keys.len() + self.values.len();
        (entries + self.ends.len() * size_of::<Ends>() + OVERHEAD) as u64
    }

    /// Where entry `at` begins and ends.
    #[inline]
    fn span(&self, at: usize) -> (Ends, Ends) {
        let start = match at.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or_default(),
            None => Ends::default(),
        };
        (start, self.ends.get(at).copied().unwrap_or(start))
    }

    fn key(&self, at: usize) -> &[u8] {
        let (start, end) = self.span(at);
        self.keys.get(start.key as usize..end.key as usize).unwrap_or(&[])
    }

    /// The key and value of an entry; empty after the last entry.
    #[inline]
    pub(crate) fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let (start, end) = self.span(at);
        let key = self.keys.get(start.key as usize..end.key as usize);
        let value = self.values.get(start.value as usize..end.value as usize);
        (key.unwrap_or(&[]), value.unwrap_or(&[]))
    }

    /// Whether one of these entries stands for a long key.
    pub(crate) fn has_long_keys(&self, mut entries: Range<usize>) -> bool {
        // Nearly all pages have fewer bytes of keys than one such key.
        self.keys.len() >= MAX_KEY_BYTES && entries.any(|at| is_stored_long(self.key(at)))
    }

    /// The value of an entry, sharing the memory of the page.
    pub(crate) fn shared_value(&self, at: usize) -> Bytes {
        let (start, end) = self.span(at);
        Bytes::part_of(&self.values, start.value as usize, end.value as usize)
    }

    /// The key of an entry, sharing the memory of the page.
    pub(crate) fn shared_key(&self, at: usize) -> Bytes {
        let (start, end) = self.span(at);
        Bytes::part_of(&self.keys, start.key as usize, end.key as usize)
    }

    /// Bytes of all values.
    pub(super) fn value_bytes(&self) -> usize {
        self.values.len()
    }

    /// Bytes of all entries.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.values.len()
    }

    /// Joins several adjacent pages into one.
    pub(super) fn joined(pages: &[Arc<Page>]) -> Option<Arc<Page>> {
        let mut builder = Builder::default();
        for page in pages {
            for at in 0..page.len() {
                let (key, value) = page.entry(at);
                builder.push(key, value);
            }
        }
        let (from, to) = (pages.first()?.from.clone(), pages.last()?.to.clone());
        Some(builder.finish(from, to, Direction::Forward))
    }

    /// Whether the page covers a key.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        *self.from <= *key && *key < *self.to
    }

    /// Returns the page with some entries set, or removed where there is no value; `None` if it
    /// would be larger than `bytes_max`. The changes are in key order, one per key. Adds the
    /// indexes of the entries that were set to `set_at`.
    pub(super) fn patched(
        &self,
        changes: &[Change<'_>],
        bytes_max: usize,
        builder: &mut Builder,
        set_at: &mut Vec<usize>,
    ) -> Option<Arc<Page>> {
        if changes.iter().filter_map(|(_, set)| *set).any(|value| value.len() > bytes_max) {
            return None;
        }
        builder.clear();
        builder.keys.reserve(self.keys.len());
        builder.values.reserve(self.values.len());
        builder.ends.reserve(self.ends.len());
        let mut changes = changes.iter().copied().peekable();
        let mut set_entry = |builder: &mut Builder, key: &[u8], value: &[u8]| {
            set_at.push(builder.len());
            builder.push(key, value);
        };
        // A statement that updates documents does not change their keys.
        let mut same_keys = true;
        for at in 0..self.len() {
            let (key, value) = self.entry(at);
            while let Some((new, set)) = changes.next_if(|(new, _)| *new < key) {
                same_keys &= set.is_none();
                set.into_iter().for_each(|value| set_entry(builder, new, value));
            }
            match changes.next_if(|(new, _)| *new == key) {
                Some((_, Some(value))) => set_entry(builder, key, value),
                Some((_, None)) => same_keys = false,
                None => builder.push(key, value),
            }
            if builder.bytes() > bytes_max {
                return None;
            }
        }
        for (key, set) in changes {
            same_keys &= set.is_none();
            set.into_iter().for_each(|value| set_entry(builder, key, value));
            if builder.bytes() > bytes_max {
                return None;
            }
        }
        let keys = if same_keys { self.keys.clone() } else { ByteView::new(&builder.keys) };
        Some(builder.finish_with(keys, self.from.clone(), self.to.clone()))
    }

    /// How many entries lie before `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the index of the entry with exactly this key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let at = self.lower_bound(key);
        (at < self.ends.len() && self.key(at) == key).then_some(at)
    }
}

/// Collects the entries of a page. Its memory is reused for the next page.
#[derive(Default)]
pub(crate) struct Builder {
    keys: Vec<u8>,
    values: Vec<u8>,
    /// The values instead, if they are shared until the page is built. A builder has either.
    shared: Vec<Bytes>,
    ends: Vec<Ends>,
}

impl Builder {
    /// Adds the next entry.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        // An entry is at most as large as a batch, so 32 bits are sufficient.
        self.ends.push(Ends { key: self.keys.len() as u32, value: self.values.len() as u32 });
    }

    /// Adds the next entry. Its value is copied when the page is built, and only then.
    pub(crate) fn push_shared(&mut self, key: &[u8], value: Bytes) {
        self.keys.extend_from_slice(key);
        let before = self.ends.last().map_or(0, |ends| ends.value);
        self.ends.push(Ends { key: self.keys.len() as u32, value: before + value.len() as u32 });
        self.shared.push(value);
    }

    /// Bytes of all entries so far.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.ends.last().map_or(0, |ends| ends.value as usize)
    }

    /// Entries so far.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Builds the page of all entries, which were added in `direction` and are all entries of
    /// `[from, to)`. The builder is empty afterwards.
    pub(crate) fn finish(&mut self, from: Bytes, to: Bytes, direction: Direction) -> Arc<Page> {
        if direction == Direction::Reverse {
            self.reverse();
        }
        self.finish_with(ByteView::new(&self.keys), from, to)
    }

    /// Builds the page of all entries; `keys` has the bytes of their keys.
    fn finish_with(&mut self, keys: ByteView, from: Bytes, to: Bytes) -> Arc<Page> {
        let values = match self.shared.is_empty() {
            true => ByteView::new(&self.values),
            false => joined(&self.shared),
        };
        let page = Page {
            from,
            to,
            keys,
            values,
            ends: self.ends.as_slice().into(),
            place: AtomicUsize::new(usize::MAX),
        };
        self.clear();
        Arc::new(page)
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.shared.clear();
        self.ends.clear();
    }

    fn reverse(&mut self) {
        let mut turned = Builder::default();
        turned.keys.reserve(self.keys.len());
        turned.values.reserve(self.values.len());
        turned.ends.reserve(self.ends.len());
        for at in (0..self.ends.len()).rev() {
            let start = match at.checked_sub(1) {
                Some(before) => self.ends.get(before).copied().unwrap_or_default(),
                None => Ends::default(),
            };
            let end = self.ends.get(at).copied().unwrap_or(start);
            let key = self.keys.get(start.key as usize..end.key as usize).unwrap_or(&[]);
            match self.shared.pop() {
                Some(value) => turned.push_shared(key, value),
                None => {
                    let span = start.value as usize..end.value as usize;
                    turned.push(key, self.values.get(span).unwrap_or(&[]));
                }
            }
        }
        *self = turned;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_and_shared_in_both_directions_of_building() {
        let mut builder = Builder::default();
        let entries: Vec<_> = (0..50_u8).map(|n| (vec![n * 2; 30], vec![n; 100])).collect();
        let both = [Direction::Forward, Direction::Reverse].map(|way| [(way, false), (way, true)]);
        for (direction, is_shared) in both.into_iter().flatten() {
            let mut order = entries.clone();
            if direction == Direction::Reverse {
                order.reverse();
            }
            for (key, value) in &order {
                match is_shared {
                    true => builder.push_shared(key, value.as_slice().into()),
                    false => builder.push(key, value),
                }
            }
            assert_eq!((builder.len(), builder.bytes()), (50, 50 * 130));
            let page = builder.finish(Bytes::default(), vec![200].into(), direction);
            assert_eq!((page.len(), builder.bytes()), (50, 0));
            for (at, (key, value)) in entries.iter().enumerate() {
                assert_eq!(page.entry(at), (key.as_slice(), value.as_slice()));
                assert_eq!(page.find(key), Some(at));
                assert_eq!(&*page.shared_key(at), key.as_slice());
                assert_eq!(&*page.shared_value(at), value.as_slice());
            }
            assert_eq!(page.find(&[3; 30]), None);
            assert_eq!((page.lower_bound(&[]), page.lower_bound(&[255])), (0, 50));
            assert_eq!(page.entry(50), (&[][..], &[][..]));
            let mut set_at = Vec::new();
            let changes = [
                (&[0; 30][..], None),
                (&[3; 30][..], Some(&[7_u8; 9][..])),
                (&[4; 30][..], Some(&[8; 8][..])),
                (&[98; 30][..], None),
                (&[99; 30][..], Some(&[1][..])),
            ];
            let patched = page.patched(&changes, 10_000, &mut builder, &mut set_at).unwrap();
            assert_eq!(patched.len(), 50);
            assert_eq!(set_at, [1, 2, 49]);
            assert_eq!(patched.entry(0), (&[2; 30][..], &[1; 100][..]));
            assert_eq!(patched.entry(1), (&[3; 30][..], &[7; 9][..]));
            assert_eq!(patched.entry(2), (&[4; 30][..], &[8; 8][..]));
            assert_eq!(patched.entry(49), (&[99; 30][..], &[1][..]));
            assert!(page.patched(&changes, 1000, &mut builder, &mut Vec::new()).is_none());
            let changes = [(&[1; 30][..], None), (&[4; 30][..], Some(&[8_u8; 8][..]))];
            let patched = page.patched(&changes, 10_000, &mut builder, &mut Vec::new()).unwrap();
            assert_eq!((patched.len(), builder.len()), (50, 0));
            assert_eq!(patched.entry(2), (&[4; 30][..], &[8; 8][..]));
            assert_eq!(patched.entry(49), page.entry(49));
        }
    }
}
