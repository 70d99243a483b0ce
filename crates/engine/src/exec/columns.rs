//! Reading the values of consecutive index entries without building documents.
//!
//! Consecutive entries usually share a prefix, so only the part after it is parsed again. A value
//! is decoded only if it is needed as a value; to compare values, their keys suffice.

use super::FieldRead;
use crate::catalog::Index;
use value::key_types::{Decoded, Decoder};
use value::{RawVal, keys};

/// Maximum number of values of one reader.
const VALUES_MAX: usize = 8;

/// The selected values of one entry.
pub struct Columns<'a> {
    /// Their encoded keys.
    pub keys: &'a [&'a [u8]],
    /// The decoded values; those that are not needed decoded are missing.
    pub values: &'a [RawVal<'a>],
}

/// Reads the selected values of entries that contain all of them in full.
pub struct ColumnReader {
    /// The end of each column of the last entry, up to the last selected one.
    ends: Vec<usize>,
    /// Which of them are descending.
    descending: Vec<bool>,
    places: Vec<ColumnSource>,
    /// Number of leading columns that the current entry shares with the last one.
    shared: usize,
}

/// A selected field and its value in the current entry.
struct ColumnSource {
    column: usize,
    /// Whether the value is decoded.
    value: bool,
    kind: u8,
    bytes: Vec<u8>,
}

impl ColumnReader {
    /// Creates a reader of these fields; `None` if the index cannot supply them.
    #[must_use]
    pub fn new(index: &Index, wanted: &[FieldRead]) -> Option<ColumnReader> {
        let mut places = Vec::with_capacity(wanted.len());
        for FieldRead { path, value } in wanted {
            let column = index.fields.iter().position(|field| field.path.text() == path)?;
            // The key of a descending value differs from the ascending one.
            if *index.columns.get(column)? {
                return None;
            }
            places.push(ColumnSource { column, value: *value, kind: 0, bytes: Vec::new() });
        }
        let count = places.iter().map(|place| place.column + 1).max().unwrap_or(0);
        let descending = index.columns.iter().take(count).copied().collect();
        (places.len() <= VALUES_MAX).then(|| ColumnReader {
            ends: vec![0; count],
            descending,
            places,
            shared: 0,
        })
    }

    /// Moves to an entry, given without the index's prefix; `previous` is the entry before, or
    /// empty. `None` if the entry is damaged.
    #[inline]
    pub fn go_to(&mut self, entry: &[u8], previous: &[u8]) -> Option<()> {
        let common = common(entry, previous);
        let shared = self.ends.iter().take_while(|end| **end <= common && **end > 0).count();
        let mut at = shared.checked_sub(1).and_then(|last| self.ends.get(last)).copied();
        for (end, descending) in self.ends.iter_mut().zip(&self.descending).skip(shared) {
            let from = at.unwrap_or(0);
            *end = from + keys::skip(entry.get(from..)?, *descending)?;
            at = Some(*end);
        }
        self.shared = shared;
        for place in &mut self.places {
            if !place.value || place.column < shared {
                continue;
            }
            let (from, to) = span(&self.ends, place.column);
            place.bytes.clear();
            let mut decoder = Decoder::new(entry.get(from..to)?, &[]);
            match decoder.next(false, &mut place.bytes)? {
                Decoded::Value(kind) => place.kind = kind as u8,
                Decoded::Missing => return None,
            }
        }
        Some(())
    }

    /// Returns the values of the current entry, borrowed.
    #[inline]
    pub fn lend<R>(&self, entry: &[u8], take: impl FnOnce(Columns<'_>) -> R) -> R {
        let mut keys: [&[u8]; VALUES_MAX] = [&[]; VALUES_MAX];
        let mut values = [RawVal { kind: 0, bytes: &[] }; VALUES_MAX];
        for ((place, key), value) in self.places.iter().zip(&mut keys).zip(&mut values) {
            let (from, to) = span(&self.ends, place.column);
            *key = entry.get(from..to).unwrap_or(&[]);
            if place.value {
                *value = RawVal { kind: place.kind, bytes: &place.bytes };
            }
        }
        let count = self.places.len();
        let (keys, values) = (keys.get(..count), values.get(..count));
        take(Columns { keys: keys.unwrap_or(&[]), values: values.unwrap_or(&[]) })
    }
}

/// Returns the range of bytes of a column.
#[inline]
fn span(ends: &[usize], column: usize) -> (usize, usize) {
    let from = column.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    (from, ends.get(column).copied().unwrap_or(from))
}

/// Returns the length of the common prefix of two keys.
#[inline]
fn common(one: &[u8], other: &[u8]) -> usize {
    let (ones, others) = (one.chunks_exact(8), other.chunks_exact(8));
    let mut at = 0;
    for (a, b) in ones.zip(others) {
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let differ = word(a) ^ word(b);
        if differ != 0 {
            return at + (differ.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = one.iter().zip(other).skip(at);
    at + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};
    use value::{Val, ejson};

    #[test]
    fn common_beginnings_are_counted_in_bytes() {
        let text = b"0123456789abcdefghij";
        for length in 0..text.len() {
            let mut other = text.to_vec();
            other[length] = b'!';
            assert_eq!(common(text, &other), length);
            assert_eq!(common(&text[..length], text), length);
        }
    }

    #[test]
    fn values_come_back_from_entries() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works");
        };
        run("{insert: 'c', documents: [{a: 1}]}");
        run("{createIndexes: 'c', indexes: [{key: {a: 1, b: 1, c: -1, d: 1}, name: 'i'}]}");
        let collection = engine.inner().data.collection("t", "c").expect("is there");
        let index = collection.indexes.iter().find(|index| &*index.name == "i").expect("is there");
        let wanted = |path: &str, value| FieldRead { path: path.to_owned(), value };
        let both = [wanted("d", true), wanted("b", true), wanted("a", false)];
        assert!(ColumnReader::new(index, &[wanted("c", true)]).is_none());
        assert!(ColumnReader::new(index, &[wanted("zz", true)]).is_none());
        let mut reader = ColumnReader::new(index, &both).expect("has them");
        let rows = [("x", "one", 7), ("x", "one", 8), ("x", "two", 8), ("xy", "two", 8)];
        let mut previous = Vec::new();
        for (a, b, d) in rows {
            let mut entry = Vec::new();
            keys::encode(&mut entry, Val::String(a), false);
            keys::encode(&mut entry, Val::String(b), false);
            keys::encode(&mut entry, Val::Double(2.5), true);
            keys::encode(&mut entry, Val::Int32(d), false);
            entry.extend_from_slice(b"record");
            reader.go_to(&entry, &previous).expect("an entry");
            reader.lend(&entry, |columns| {
                let values: Vec<Val<'_>> = columns.values.iter().map(|value| value.get()).collect();
                assert_eq!(values, [Val::Int32(d), Val::String(b), Val::Missing]);
                assert_eq!(columns.keys[2], keys::key(Val::String(a)));
            });
            previous = entry;
        }
        assert!(reader.go_to(&[60, 65], &[]).is_none());
    }
}
