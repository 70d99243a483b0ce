//! Accumulators that gather: arrays, sets, merged documents.

use crate::key_table::{Insertion, KeyTable};
use crate::show::show;
use hashbrown::HashMap;
use std::sync::Arc;
use value::writer::{close, open, write_index, write_value};
use value::{Code, Collation, Error, OwnedVal, Result, Type, Val, Writer, keys};

/// An array that grows as bytes.
#[derive(Debug, Default)]
pub(super) struct Push {
    elements: Vec<u8>,
    count: usize,
}

impl Push {
    /// Appends a value; a missing one is skipped.
    pub(super) fn add(&mut self, value: Val<'_>) {
        if value.is_missing() {
            return;
        }
        self.make_room(value);
        self.elements.push(value.kind() as u8);
        write_index(&mut self.elements, self.count);
        self.elements.push(0);
        write_value(&mut self.elements, value);
        self.count += 1;
    }

    /// Large arrays grow by an eighth instead of doubling, so that they may fill what they may hold.
    #[inline]
    fn make_room(&mut self, value: Val<'_>) {
        const LARGE: usize = 1024 * 1024;
        let length = self.elements.len();
        if length < LARGE {
            return;
        }
        let needed = 32
            + match value {
                Val::String(text) => text.len(),
                Val::Binary(_, bytes) => bytes.len(),
                Val::Document(doc) | Val::Array(doc) => doc.bytes().len(),
                _ => 0,
            };
        if self.elements.capacity() - length < needed {
            self.elements.reserve_exact(needed.max(length / 8));
        }
    }

    /// The whole array.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.elements.len() + 5);
        let token = open(&mut bytes);
        bytes.extend_from_slice(&self.elements);
        close(&mut bytes, token);
        bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.elements.capacity()
    }
}

/// Distinct values in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Set {
    /// Keys are equal for equal numbers of different types.
    known: KeyTable,
    values: Vec<OwnedVal>,
    bytes: usize,
    collation: Option<Arc<Collation>>,
    key: Vec<u8>,
}

impl Set {
    /// An empty set. Text is compared under the collation.
    pub(super) fn new(collation: Option<Arc<Collation>>) -> Set {
        Set { collation, ..Set::default() }
    }

    /// Adds a value; a missing one is skipped.
    pub(super) fn add(&mut self, value: Val<'_>) {
        if value.is_missing() {
            return;
        }
        self.key.clear();
        keys::encode_with(&mut self.key, value, false, self.collation.as_deref());
        if matches!(self.known.get_or_insert(&self.key), Insertion::Known(_)) {
            return;
        }
        let value = OwnedVal::new(value);
        self.bytes += value.raw().bytes.len() + 48;
        self.values.push(value);
    }

    /// Adds the elements of an array.
    pub(super) fn add_elements(&mut self, name: &str, value: Val<'_>) -> Result<()> {
        match value {
            Val::Missing => Ok(()),
            Val::Array(array) => {
                array.iter().for_each(|(_, element)| self.add(element.get()));
                Ok(())
            }
            other => Err(not_an_array(name, other)),
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = Val<'_>> {
        self.values.iter().map(OwnedVal::get)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.known.memory_bytes()
    }
}

/// The number of distinct values: a set of which only the size is needed.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    known: KeyTable,
    key: Vec<u8>,
    collation: Option<Arc<Collation>>,
}

impl Distinct {
    /// No values. Text is compared under the collation.
    pub(super) fn new(collation: Option<Arc<Collation>>) -> Distinct {
        Distinct { collation, ..Distinct::default() }
    }

    /// Adds a value; a missing one is skipped.
    pub(super) fn add(&mut self, value: Val<'_>) {
        if value.is_missing() {
            return;
        }
        self.key.clear();
        keys::encode_with(&mut self.key, value, false, self.collation.as_deref());
        self.known.get_or_insert(&self.key);
    }

    /// Adds a value by its key.
    pub(super) fn add_key(&mut self, key: &[u8]) {
        self.known.get_or_insert(key);
    }

    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// Writes everything that `absorb` needs.
    pub(super) fn save(&self, out: &mut value::writer::ArrayWriter<'_>) {
        (0..self.known.len()).for_each(|at| out.push(Val::Binary(0, self.known.key(at))));
    }

    /// Adds a saved state.
    pub(super) fn absorb(&mut self, saved: value::RawDoc<'_>) {
        for (_, key) in saved {
            if let Val::Binary(_, key) = key.get() {
                self.known.get_or_insert(key);
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.known.memory_bytes()
    }
}

fn not_an_array(name: &str, value: Val<'_>) -> Error {
    Error::type_mismatch(format!(
        "{name} requires array inputs, but input {} is of type {}",
        show(value),
        value.kind().name()
    ))
}

/// Arrays one after another.
#[derive(Debug, Default)]
pub(super) struct Concat {
    all: Push,
}

impl Concat {
    pub(super) fn add(&mut self, value: Val<'_>) -> Result<()> {
        match value {
            Val::Missing => Ok(()),
            Val::Array(array) => {
                array.iter().for_each(|(_, element)| self.all.add(element.get()));
                Ok(())
            }
            other => Err(not_an_array("$concatArrays", other)),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.all.bytes()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.all.memory_bytes()
    }
}

/// Documents merged: later fields replace earlier ones in place.
#[derive(Debug, Default)]
pub(super) struct Merge {
    fields: Vec<(Box<str>, OwnedVal)>,
    places: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
    bytes: usize,
}

impl Merge {
    pub(super) fn add(&mut self, value: Val<'_>) -> Result<()> {
        let doc = match value {
            Val::Missing | Val::Null | Val::Undefined => return Ok(()),
            Val::Document(doc) => doc,
            other => {
                return Err(Error::new(
                    Code(40400),
                    format!(
                        "$mergeObjects requires object inputs, but input {} is of type {}",
                        show(other),
                        other.kind().name()
                    ),
                ));
            }
        };
        for (name, value) in doc {
            debug_assert!(value.kind() != Type::Missing, "documents hold no missing values");
            let value = OwnedVal::new(value.get());
            self.bytes += value.raw().bytes.len();
            match self.places.get(name).and_then(|at| self.fields.get_mut(*at)) {
                Some((_, slot)) => {
                    self.bytes -= slot.raw().bytes.len();
                    *slot = value;
                }
                None => {
                    self.bytes += 2 * name.len() + 80;
                    self.places.insert(name.into(), self.fields.len());
                    self.fields.push((name.into(), value));
                }
            }
        }
        Ok(())
    }

    /// The whole document.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes + 5);
        let mut writer = Writer::start(&mut bytes);
        for (name, value) in &self.fields {
            writer.raw(name, value.raw());
        }
        writer.finish();
        bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
