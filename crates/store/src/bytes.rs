//! Shared bytes, as returned by reads and held by batches. A clone increments a counter and copies
//! nothing; short values are stored inside the handle.

use std::fmt;
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

    /// The bytes themselves.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
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
