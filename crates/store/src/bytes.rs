//! Shared bytes, as returned by reads and held by batches. A clone increments a counter and copies
//! nothing; short values are stored inside the handle.

use std::fmt;
use std::io;
use std::ops::{Deref, Range};

use byteview::ByteView;

/// Immutable shared bytes. Cloning is cheap; up to 20 bytes need no heap allocation.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(lsm_tree::Slice);

impl Bytes {
    /// Copies `bytes` once.
    pub fn copy_from(bytes: &[u8]) -> Bytes {
        Bytes(lsm_tree::Slice::new(bytes))
    }

    /// Concatenates a prefix and the rest of a key.
    pub fn copy_prefixed(prefix: [u8; 4], rest: &[u8]) -> Bytes {
        // Short results are built without a heap allocation, too.
        let mut short = [0; 20];
        let length = prefix.len() + rest.len();
        match short.get_mut(..length).and_then(|room| room.split_first_chunk_mut()) {
            Some((first, others)) => {
                *first = prefix;
                others.copy_from_slice(rest);
                Bytes::copy_from(&short[..length])
            }
            None => Bytes::copy_from(&[prefix.as_slice(), rest].concat()),
        }
    }

    /// Copies `bytes` once and returns handles of parts of the copy that share its memory. A part
    /// out of bounds is empty.
    pub fn copy_with_parts(
        bytes: &[u8],
        parts: impl Iterator<Item = Range<usize>>,
    ) -> (Bytes, impl Iterator<Item = Bytes>) {
        let whole = ByteView::new(bytes);
        let handle = Bytes(whole.clone().into());
        (handle, parts.map(move |part| Bytes::part_of(&whole, part.start, part.end)))
    }

    /// Joins parts, copying each once.
    pub fn joined<P: AsRef<[u8]>>(parts: &[P]) -> Bytes {
        Bytes(joined(parts).into())
    }

    /// The bytes themselves.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The bytes from `start` on, sharing memory; empty if out of bounds.
    pub(crate) fn part(&self, start: usize) -> Bytes {
        Bytes::part_of(&ByteView::from(self.0.clone()), start, self.len())
    }

    /// The bytes of `whole` from `start` to `end`, sharing its memory; empty if out of bounds.
    pub(crate) fn part_of(whole: &ByteView, start: usize, end: usize) -> Bytes {
        if start <= end && end <= whole.len() {
            Bytes(whole.slice(start..end).into())
        } else {
            Bytes::default()
        }
    }

    pub(crate) fn from_tree(slice: lsm_tree::Slice) -> Bytes {
        Bytes(slice)
    }

    pub(crate) fn into_tree(self) -> lsm_tree::Slice {
        self.0
    }

    pub(crate) fn to_tree(&self) -> lsm_tree::Slice {
        self.0.clone()
    }
}

/// Joins parts, copying each once.
pub(crate) fn joined<P: AsRef<[u8]>>(parts: &[P]) -> ByteView {
    let length = parts.iter().map(|part| part.as_ref().len()).sum();
    let mut parts = Parts { parts, rest: &[] };
    // Cannot fail: the parts have this length.
    ByteView::from_reader(&mut parts, length).unwrap_or_default()
}

/// Reads parts one after another.
struct Parts<'p, P> {
    parts: &'p [P],
    /// The unread rest of the current part.
    rest: &'p [u8],
}

impl<P: AsRef<[u8]>> io::Read for Parts<'_, P> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty()
            && let Some((next, others)) = self.parts.split_first()
        {
            (self.rest, self.parts) = (next.as_ref(), others);
        }
        self.rest.read(room)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::borrow::Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes::copy_from(bytes)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(lsm_tree::Slice::from(bytes))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "b\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_in_order() {
        assert_eq!(&*Bytes::joined::<&[u8]>(&[]), b"");
        assert_eq!(&*Bytes::joined(&["", "a", "", "bc"]), b"abc");
        let long = vec![7; 100_000];
        let joined = Bytes::joined(&[b"head".as_slice(), &long, b"tail"]);
        assert_eq!(joined.len(), 100_008);
        assert!(joined.starts_with(b"head") && joined.ends_with(b"tail"));
        assert!(joined[4..100_004] == *long);
    }
}
