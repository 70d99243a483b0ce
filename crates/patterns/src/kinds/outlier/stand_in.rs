//! What a document has in place of a spilled array, and the directory of the chunks.

use super::settings::Bound;
use value::{Code, Error, OwnedVal, RawVal, Result, Val};

/// What the value begins with.
const MARK: &[u8] = b"\xC0\x1Dspilled\0\xA3\x5E\x91\x0B\x77";

/// What a document has in place of a spilled array. A value of a client may look the same: an array
/// is spilled only if there is a directory, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandIn<'d> {
    /// The size of the array.
    pub(super) array: Bound,
    /// The first elements of the array, if those are kept: as they are stored.
    pub(super) head: &'d [u8],
    /// The last elements: as they are stored.
    pub(super) tail: &'d [u8],
}

/// Splits a document off the start of some bytes.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_le_bytes(*bytes.first_chunk::<4>()?) as usize;
    bytes.split_at_checked(length).filter(|(doc, _)| doc.len() >= 5)
}

impl<'d> StandIn<'d> {
    /// What a value stands in for; `None` if it does not.
    pub(super) fn of(value: RawVal<'d>) -> Option<StandIn<'d>> {
        let Val::Binary(0x80, bytes) = value.get() else { return None };
        let rest = bytes.strip_prefix(MARK)?;
        let (count, rest) = rest.split_first_chunk::<8>()?;
        let (bytes, rest) = rest.split_first_chunk::<8>()?;
        let (head, rest) = split(rest)?;
        let (tail, rest) = split(rest)?;
        let [count, bytes] = [count, bytes].map(|number| u64::from_be_bytes(*number) as usize);
        rest.is_empty().then_some(StandIn { array: Bound { count, bytes }, head, tail })
    }

    /// The value.
    pub(super) fn value(&self) -> OwnedVal {
        let size = [self.array.count, self.array.bytes].map(|number| (number as u64).to_be_bytes());
        let bytes = [MARK, &size.concat(), self.head, self.tail].concat();
        OwnedVal::new(Val::Binary(0x80, &bytes))
    }
}

/// A chunk of a spilled array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chunk {
    /// Its number, which is part of the key of its record.
    pub(super) id: u32,
    pub(super) count: usize,
    pub(super) bytes: usize,
}

/// The key of the directory of a document's chunks.
pub(super) fn directory_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The key of a chunk.
pub(super) fn chunk_key(key: &[u8], id: u32) -> Vec<u8> {
    [key, &[1], &id.to_be_bytes()].concat()
}

/// A directory as it is stored.
pub(super) fn directory(chunks: &[Chunk]) -> Vec<u8> {
    let mut out = Vec::with_capacity(chunks.len() * 12);
    for chunk in chunks {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        for number in [chunk.id, number(chunk.count), number(chunk.bytes)] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
    out
}

/// Reads a directory.
///
/// # Errors
/// When it is damaged.
pub(super) fn chunks(directory: &[u8]) -> Result<Vec<Chunk>> {
    let (chunks, rest) = directory.as_chunks::<12>();
    if !rest.is_empty() {
        return Err(damaged("the directory of a spilled array is damaged"));
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0_u32, |n, byte| (n << 8) | u32::from(*byte));
    let chunk = |bytes: &[u8; 12]| {
        let [id, count, size] = [0, 4, 8].map(|at| number(bytes.get(at..at + 4).unwrap_or(&[])));
        Chunk { id, count: count as usize, bytes: size as usize }
    };
    Ok(chunks.iter().map(chunk).collect())
}

/// The error for damaged records.
#[cold]
pub(super) fn damaged(what: &str) -> Error {
    Error::new(Code::DATA_CORRUPTION_DETECTED, format!("{what}; run `motif check`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::RawDoc;

    #[test]
    fn what_is_written_is_read() {
        let (head, tail) = (RawDoc::empty().bytes(), b"\x08\0\0\0\x0A\0\0\0".as_slice());
        let array = Bound { count: 300, bytes: 70_000 };
        let value = StandIn { array, head, tail }.value();
        let read = StandIn::of(value.raw()).expect("stands in");
        assert_eq!((read.array, read.head, read.tail), (array, head, tail));
        assert!(StandIn::of(OwnedVal::new(Val::Binary(0x80, MARK)).raw()).is_none());
        let list = [Chunk { id: 7, count: 1000, bytes: 4 }, Chunk { id: 1, count: 2, bytes: 9 }];
        assert_eq!(chunks(&directory(&list)).expect("is whole"), list);
        assert!(chunks(b"abc").is_err());
    }
}
