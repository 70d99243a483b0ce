//! Keys that are longer than the trees take.
//!
//! The *stored key* of a long key is its first [`PLAIN_MAX`] bytes and the SHA-256 of the whole key. The
//! rest of the key is in front of the value. Everything below [`crate::Snapshot`] and [`crate::Batch`]
//! (log, trees, pages, private writes) works with stored keys; everything above with whole keys.
//!
//! Stored keys are in the order of whole keys, except for long keys that share their first
//! [`PLAIN_MAX`] bytes: those are a *group*, adjacent in the trees, and a range sorts each group that
//! it meets. Reading one costs a pass over all of its entries that are inside of the bounds; their values
//! are kept in memory up to a limit, and read again beyond it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use sha2::{Digest, Sha256};

use crate::{Bytes, MAX_KEY_BYTES, Result, StoreError};

/// Bytes of a digest.
const DIGEST: usize = 32;
/// The longest key that is stored as it is.
pub const PLAIN_MAX: usize = MAX_KEY_BYTES - DIGEST;
/// Bytes in front of the rest of a key: its length.
const LENGTH: usize = 4;
/// How much of the values of a group is kept in memory.
const GROUP_BYTES: usize = 32 << 20;
/// How many bytes of each key are compared at once.
const HEAD: usize = 64;

/// Whether a key is too long to be stored as it is.
#[inline]
pub(crate) fn is_long(key: &[u8]) -> bool {
    key.len() > PLAIN_MAX
}

/// Whether a stored key stands for a long key.
#[inline]
pub(crate) fn is_stored_long(stored: &[u8]) -> bool {
    stored.len() == MAX_KEY_BYTES
}

/// Returns the stored key of a long key.
pub(crate) fn stored_key(key: &[u8]) -> Bytes {
    let digest = Sha256::digest(key);
    Bytes::joined(&[&key[..key.len().min(PLAIN_MAX)], digest.as_slice()])
}

/// Returns the form in which the trees take an entry.
#[must_use]
pub fn stored_entry<'e>(key: &'e [u8], value: &'e [u8]) -> (Cow<'e, [u8]>, Cow<'e, [u8]>) {
    if !is_long(key) {
        return (key.into(), value.into());
    }
    (stored_key(key).to_vec().into(), with_rest(key, value).to_vec().into())
}

/// Returns the stored value of a long key.
pub(crate) fn with_rest(key: &[u8], value: &[u8]) -> Bytes {
    let rest = key.get(PLAIN_MAX..).unwrap_or_default();
    // Keys are made of documents, far below four gigabytes.
    Bytes::joined(&[&(rest.len() as u32).to_le_bytes(), rest, value])
}

/// Returns the rest of a long key, and where its value begins.
fn split(stored: &[u8]) -> Result<(&[u8], usize)> {
    let found = stored.split_first_chunk::<LENGTH>().and_then(|(length, after)| {
        let length = u32::from_le_bytes(*length) as usize;
        Some((after.get(..length)?, LENGTH + length))
    });
    found.ok_or_else(|| damaged("the rest of a long key is missing"))
}

fn damaged(what: &str) -> StoreError {
    StoreError::Corrupt { file: "the store".into(), offset: None, what: what.to_owned() }
}

/// Returns the value of a long key, given what is stored for it.
pub(crate) fn value_of(key: &[u8], stored: &Bytes) -> Result<Bytes> {
    let (rest, at) = split(stored)?;
    if key.get(PLAIN_MAX..) != Some(rest) {
        return Err(damaged("two long keys have the same digest"));
    }
    Ok(stored.part(at))
}

/// Returns the whole key and its value, given a stored entry of a long key.
pub(crate) fn whole(stored: &[u8], value: &Bytes) -> Result<(Bytes, Bytes)> {
    let (rest, at) = split(value)?;
    let first = stored.get(..PLAIN_MAX).unwrap_or_default();
    Ok((Bytes::joined(&[first, rest]), value.part(at)))
}

/// The bounds of a range over whole keys.
pub(crate) struct Bounds {
    from: Bound<Bytes>,
    to: Bound<Bytes>,
}

impl Bounds {
    /// Returns the bounds, if a group may be partly outside of them.
    pub(crate) fn of(from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<Box<Bounds>> {
        let long = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => is_long(key),
            Bound::Unbounded => false,
        };
        let copy = |bound: Bound<&[u8]>| bound.map(Bytes::copy_from);
        (long(from) || long(to)).then(|| Box::new(Bounds { from: copy(from), to: copy(to) }))
    }

    /// Returns the bounds of the rests of a group's keys, given what they share.
    fn of_group(&self, first: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
        // A bound that differs in the shared part has the whole group on one side; the range of
        // stored keys has left out those on the wrong one.
        (rest_of(&self.from, first), rest_of(&self.to, first))
    }
}

/// Returns a bound of the rests of keys that begin with `first`.
fn rest_of<'b>(bound: &'b Bound<Bytes>, first: &[u8]) -> Bound<&'b [u8]> {
    match bound {
        Bound::Included(key) if key.starts_with(first) => Bound::Included(&key[first.len()..]),
        Bound::Excluded(key) if key.starts_with(first) => Bound::Excluded(&key[first.len()..]),
        _ => Bound::Unbounded,
    }
}

/// Returns a lower bound for stored keys. If it is long, its whole group is inside.
pub(crate) fn stored_from(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        // A key that is as long as the shared part is below the group.
        Bound::Included(key) | Bound::Excluded(key) if is_long(key) => {
            Bound::Excluded(&key[..PLAIN_MAX])
        }
        other => other,
    }
}

/// Returns an upper bound for stored keys. If it is long, its whole group is inside.
pub(crate) fn stored_to(bound: Bound<&[u8]>) -> Bound<Cow<'_, [u8]>> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if is_long(key) => {
            let mut last = key[..PLAIN_MAX].to_vec();
            last.resize(MAX_KEY_BYTES, 0xFF);
            Bound::Included(last.into())
        }
        other => other.map(Cow::Borrowed),
    }
}

/// An entry of a group.
struct Member {
    digest: [u8; DIGEST],
    /// How many bytes of the rest are those of the reference.
    shared: usize,
    /// The next bytes of the rest.
    head: Vec<u8>,
    /// The length of the rest.
    length: usize,
    /// What is stored for it, if there was memory to keep it.
    value: Option<Bytes>,
}

impl Member {
    fn new(digest: [u8; DIGEST], rest: &[u8], reference: &[u8]) -> Member {
        let mut member =
            Member { digest, shared: 0, head: Vec::new(), length: rest.len(), value: None };
        member.compare_with(rest, reference);
        member
    }

    /// Sets what is known of the rest, relative to a reference.
    fn compare_with(&mut self, rest: &[u8], reference: &[u8]) {
        self.shared = rest.iter().zip(reference).take_while(|(a, b)| a == b).count();
        let end = rest.len().min(self.shared + HEAD);
        self.head = rest.get(self.shared..end).unwrap_or_default().to_vec();
    }

    /// The order of two members of the same reference; equal if more of them must be read.
    fn order(&self, other: &Member, reference: &[u8]) -> Ordering {
        // One of them follows the reference further than the other.
        let against = |member: &Member, at: usize| {
            let of_reference = reference.get(at);
            member.head.first().cmp(&of_reference)
        };
        match self.shared.cmp(&other.shared) {
            Ordering::Less => against(self, self.shared),
            Ordering::Greater => against(other, other.shared).reverse(),
            Ordering::Equal => self.head.cmp(&other.head).then_with(|| {
                let is_known = |member: &Member| member.shared + member.head.len() == member.length;
                match is_known(self) || is_known(other) {
                    true => self.length.cmp(&other.length),
                    false => Ordering::Equal,
                }
            }),
        }
    }
}

/// Long keys that share their first bytes, in order.
pub(crate) struct Group {
    /// What they share.
    first: Bytes,
    members: std::vec::IntoIter<Member>,
    /// The entry behind the group, which was read already.
    pub(crate) after: Option<(Bytes, Bytes)>,
    /// Reads what was not kept, by its stored key.
    again: ReadAgain,
}

/// Reads what is stored under a stored key.
pub(crate) type ReadAgain = Box<dyn Fn(&[u8]) -> Result<Option<Bytes>> + Send + Sync>;

impl Group {
    /// Reads the group of a stored entry. `next` returns the stored entries that follow, in the order
    /// of the range.
    pub(crate) fn read(
        (key, value): (Bytes, Bytes),
        mut next: impl FnMut() -> Result<Option<(Bytes, Bytes)>>,
        bounds: Option<&Bounds>,
        is_reverse: bool,
        again: ReadAgain,
    ) -> Result<Group> {
        let first = Bytes::copy_from(key.get(..PLAIN_MAX).unwrap_or_default());
        // The rest of the first member.
        let mut reference: Option<Bytes> = None;
        let mut members: Vec<Member> = Vec::new();
        let mut kept = 0;
        let inside = bounds.map(|bounds| bounds.of_group(&first));
        let mut entry = Some((key, value));
        while let Some((key, value)) = entry.take_if(|(key, _)| belongs(key, &first)) {
            let (rest, _) = split(&value)?;
            if inside.is_none_or(|inside| inside.contains(rest)) {
                let reference = reference.get_or_insert_with(|| Bytes::copy_from(rest));
                let mut member = Member::new(digest_of(&key), rest, reference);
                kept += value.len();
                if kept <= GROUP_BYTES {
                    member.value = Some(value);
                }
                members.push(member);
            }
            entry = next()?;
        }
        let mut group = Group { first, members: Vec::new().into_iter(), after: entry, again };
        group.sort(&mut members, &reference.unwrap_or_default())?;
        if is_reverse {
            members.reverse();
        }
        group.members = members.into_iter();
        Ok(group)
    }

    /// Sorts members by their rests.
    fn sort(&self, members: &mut [Member], reference: &[u8]) -> Result<()> {
        members.sort_by(|a, b| a.order(b, reference));
        let mut left = members;
        while let Some((first, others)) = left.split_first() {
            let undecided = others
                .iter()
                .take_while(|other| first.order(other, reference) == Ordering::Equal)
                .count();
            let (equal, rest) = left.split_at_mut(undecided + 1);
            if undecided > 0 {
                self.sort_by_more(equal)?;
            }
            left = rest;
        }
        Ok(())
    }

    /// Sorts members that agree in all that is known of them.
    fn sort_by_more(&self, members: &mut [Member]) -> Result<()> {
        let Some(reference) = members.first().map(|first| self.stored(first)).transpose()? else {
            return Ok(());
        };
        let (reference, _) = split(&reference)?;
        for member in members.iter_mut() {
            let stored = self.stored(member)?;
            let (rest, _) = split(&stored)?;
            member.compare_with(rest, reference);
        }
        self.sort(members, reference)
    }

    /// What is stored for a member.
    fn stored(&self, member: &Member) -> Result<Bytes> {
        if let Some(value) = &member.value {
            return Ok(value.clone());
        }
        let key = Bytes::joined(&[self.first.as_slice(), &member.digest]);
        let value = (self.again)(&key)?;
        value.ok_or_else(|| damaged("an entry that was read is gone"))
    }

    /// Returns the next entry, with its whole key.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let Some(member) = self.members.next() else { return Ok(None) };
        let value = self.stored(&member)?;
        whole(&self.first, &value).map(Some)
    }
}

/// Whether a stored key is one of a group.
fn belongs(stored: &[u8], first: &[u8]) -> bool {
    is_stored_long(stored) && stored.starts_with(first)
}

fn digest_of(stored: &[u8]) -> [u8; DIGEST] {
    stored.last_chunk().copied().unwrap_or_default()
}
