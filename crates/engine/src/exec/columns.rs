//! Rows of an index: the values of one entry after another, with no documents in between.
//!
//! Neighbours in an index mostly begin alike, so that only what follows the common beginning is
//! looked at anew. A value is decoded only where it is wanted as such: to be told apart from others
//! its key is enough.

use super::FieldRead;
use crate::catalog::Index;
use value::key_types::{Decoded, Decoder};
use value::{RawVal, keys};

/// Values that one reader can give.
const VALUES_MAX: usize = 8;

/// The wanted values of one entry.
pub struct Columns<'a> {
    /// Their keys.
    pub keys: &'a [&'a [u8]],
    /// The values themselves; those that are not wanted as such count as missing.
    pub values: &'a [RawVal<'a>],
}

/// Reads the wanted values of entries that have them all, of their usual types.
pub struct ColumnReader {
    /// Where each column of the last entry ended, up to the last one that is wanted.
    ends: Vec<usize>,
    /// Which of them run downwards.
    descending: Vec<bool>,
    places: Vec<ColumnSource>,
    /// How many of the last entry's columns the one at hand shares.
    shared: usize,
}

/// A field that is read, and its value in the entry at hand.
struct ColumnSource {
    column: usize,
    /// Whether it is decoded.
    value: bool,
    kind: u8,
    bytes: Vec<u8>,
}

impl ColumnReader {
    /// A reader of these fields; `None` where the index does not have them as they are wanted.
    #[must_use]
    pub fn new(index: &Index, wanted: &[FieldRead]) -> Option<ColumnReader> {
        let mut places = Vec::with_capacity(wanted.len());
        for FieldRead { path, value } in wanted {
            let column = index.fields.iter().position(|field| field.path.text() == path)?;
            // The key of a value that runs downwards is another.
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

    /// Goes on to an entry, given without the index's prefix; `previous` is the one before, or
    /// nothing. `None` if it is no entry.
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

    /// Lends the values of the entry that the reader went to.
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

/// Where a column begins and ends.
#[inline]
fn span(ends: &[usize], column: usize) -> (usize, usize) {
    let from = column.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    (from, ends.get(column).copied().unwrap_or(from))
}

/// How many bytes two keys begin with in common.
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
