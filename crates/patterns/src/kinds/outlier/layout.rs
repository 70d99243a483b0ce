//! Documents with large arrays, and the chunks of these.
//!
//! The record of a document has a stand-in at the place of a spilled array, with the elements that
//! are kept. The layout's own area has a directory for the document and a record for each chunk.

use super::arrange::{self, Known};
use super::elements;
use super::settings::{Bound, Settings};
use super::stand_in::{self, Chunk, StandIn, chunk_key, damaged, directory_key};
use crate::layout::{Area, Demand, Layout, RecordCursor, Records, RecordsMut, Span};
use std::sync::Arc;
use value::writer::write_array;
use value::{RawDoc, RawVal, Result, Val};

/// The type byte of arrays.
const ARRAY: u8 = 0x04;

/// The layout.
#[derive(Clone, Debug)]
pub(super) struct Overflow {
    pub(super) settings: Arc<Settings>,
}

/// A spilled array: what its document has of it, and its chunks.
pub(super) struct Spilled<'d> {
    pub(super) stand_in: StandIn<'d>,
    pub(super) chunks: Vec<Chunk>,
}

impl Overflow {
    pub(super) fn new(settings: Settings) -> Overflow {
        Overflow { settings: Arc::new(settings) }
    }

    fn reads(&self, demand: &Demand) -> bool {
        demand.reads(self.settings.array.text())
    }

    /// The spilled array of a stored document.
    pub(super) fn spilled<'d>(
        &self,
        records: &dyn Records,
        key: &[u8],
        stored: RawDoc<'d>,
    ) -> Result<Option<Spilled<'d>>> {
        let Some(stand_in) = self.settings.array.find(stored).and_then(StandIn::of) else {
            return Ok(None);
        };
        let Some(directory) = records.get(Area::Own, &directory_key(key))? else { return Ok(None) };
        Ok(Some(Spilled { stand_in, chunks: stand_in::chunks(&directory)? }))
    }

    /// The document of a record with the whole array; `None` if it is the record.
    fn whole(&self, records: &dyn Records, key: &[u8], stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let stored = RawDoc::new(stored);
        let Some(spilled) = self.spilled(records, key, stored)? else { return Ok(None) };
        let mut array = Vec::with_capacity(spilled.stand_in.array.bytes);
        let mut outcome = Ok(());
        write_array(&mut array, |array| {
            elements::unpack(spilled.stand_in.head, array);
            outcome = spilled.chunks.iter().try_for_each(|chunk| {
                elements::unpack(&load(records, key, *chunk)?, array);
                Ok(())
            });
            elements::unpack(spilled.stand_in.tail, array);
        });
        outcome?;
        let value = RawVal { kind: ARRAY, bytes: &array };
        Ok(Some(elements::with(stored, &self.settings.array, value)))
    }

    /// Whether the array of a document is to be stored spilled.
    fn spills(&self, doc: RawDoc<'_>, was: bool, array: Bound) -> bool {
        // The flag was decided from the same sizes. It decides, so that it never lies.
        let was = match &self.settings.flag {
            Some(flag) => flag.get(doc) == Val::Bool(true),
            None => was,
        };
        self.settings.spills(was, array)
    }

    /// Stores a document. If the demand does not read the array, it is as it is stored.
    fn write(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        demand: &Demand,
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        if !self.reads(demand) {
            return records.put(Area::Documents, key, new.bytes().to_vec());
        }
        let stored = match old {
            Some(_) => records.get(Area::Documents, key)?,
            None => None,
        };
        let known = match &stored {
            Some(stored) => self.spilled(records, key, RawDoc::new(stored))?,
            None => None,
        };
        let found = elements::at(&self.settings.array, new);
        let spills = found.as_ref().is_some_and(|(array, elements)| {
            self.spills(new, known.is_some(), elements::measure(*array, elements))
        });
        let Some((array, elements)) = found.filter(|_| spills) else {
            if let Some(known) = known {
                drop_chunks(records, key, &known.chunks, &[])?;
                records.delete(Area::Own, &directory_key(key))?;
            }
            return records.put(Area::Documents, key, new.bytes().to_vec());
        };
        let before = old.and_then(|old| elements::at(&self.settings.array, old));
        let before = before.as_ref().zip(known.as_ref()).map(|((_, elements), known)| Known {
            elements,
            head: RawDoc::new(known.stand_in.head).count(),
            chunks: &known.chunks,
        });
        let division = arrange::divide(&self.settings, &elements, before.as_ref());
        let old_chunks = known.as_ref().map_or(&[][..], |known| &known.chunks);
        let part = |range: std::ops::Range<usize>| elements.get(range).unwrap_or(&[]);
        let mut next = old_chunks.iter().map(|chunk| chunk.id).max().map_or(0, |id| id + 1);
        let mut chunks = Vec::with_capacity(division.parts.len());
        for found in &division.parts {
            chunks.push(match found.known {
                Some(chunk) => chunk,
                None => {
                    let chunk = store(records, key, next, part(found.range.clone()))?;
                    next += 1;
                    chunk
                }
            });
        }
        drop_chunks(records, key, old_chunks, &chunks)?;
        if known.is_none() || chunks != old_chunks {
            let directory = stand_in::directory(&chunks);
            records.put(Area::Own, &directory_key(key), directory)?;
        }
        let (head, tail) = (part(0..division.head), part(division.tail.clone()));
        let value = StandIn {
            array: elements::measure(array, &elements),
            head: &elements::pack(head),
            tail: &elements::pack(tail),
        };
        let record = elements::with(new, &self.settings.array, value.value().raw());
        records.put(Area::Documents, key, record)
    }
}

/// Loads the elements of a chunk.
pub(super) fn load(records: &dyn Records, key: &[u8], chunk: Chunk) -> Result<Vec<u8>> {
    let found = records.get(Area::Own, &chunk_key(key, chunk.id))?;
    found.ok_or_else(|| damaged("a chunk of a spilled array is missing"))
}

/// Stores elements as a new chunk.
fn store(
    records: &mut dyn RecordsMut,
    key: &[u8],
    id: u32,
    elements: &[RawVal<'_>],
) -> Result<Chunk> {
    let packed = elements::pack(elements);
    let chunk = Chunk { id, count: elements.len(), bytes: packed.len() };
    records.put(Area::Own, &chunk_key(key, id), packed)?;
    Ok(chunk)
}

/// Removes chunks that are not used any more.
fn drop_chunks(
    records: &mut dyn RecordsMut,
    key: &[u8],
    old: &[Chunk],
    used: &[Chunk],
) -> Result<()> {
    let mut used: Vec<u32> = used.iter().map(|chunk| chunk.id).collect();
    used.sort_unstable();
    for chunk in old.iter().filter(|chunk| used.binary_search(&chunk.id).is_err()) {
        records.delete(Area::Own, &chunk_key(key, chunk.id))?;
    }
    Ok(())
}

impl Layout for Overflow {
    fn paths(&self) -> Vec<String> {
        vec![self.settings.array.text().to_owned()]
    }

    fn get(&self, records: &dyn Records, key: &[u8], demand: &Demand) -> Result<Option<Vec<u8>>> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(None) };
        if !self.reads(demand) {
            return Ok(Some(stored));
        }
        Ok(Some(self.whole(records, key, &stored)?.unwrap_or(stored)))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let stored = records.scan(Area::Documents, span)?;
        if !self.reads(demand) {
            return Ok(stored);
        }
        let (layout, records) = (self.clone(), records.share());
        Ok(Box::new(Wholes { layout, records, stored, whole: Vec::new() }))
    }

    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        self.write(records, key, Demand::WHOLE, old, new)
    }

    fn writes_parts(&self) -> bool {
        true
    }

    fn put_part(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        demand: &Demand,
        old: RawDoc<'_>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        self.write(records, key, demand, Some(old), new)
    }

    fn whole_size(&self, part: RawDoc<'_>, demand: &Demand) -> usize {
        let size = part.bytes().len();
        let value = self.settings.array.find(part).filter(|_| !self.reads(demand));
        let spilled = value.and_then(|value| Some((value, StandIn::of(value)?)));
        spilled.map_or(size, |(value, stand_in)| {
            size.saturating_sub(value.bytes.len()).saturating_add(stand_in.array.bytes)
        })
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(()) };
        if let Some(spilled) = self.spilled(records, key, RawDoc::new(&stored))? {
            drop_chunks(records, key, &spilled.chunks, &[])?;
            records.delete(Area::Own, &directory_key(key))?;
        }
        records.delete(Area::Documents, key)
    }

    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
        super::check::check(self, records, find)
    }
}

/// Documents of a range of records with their whole arrays.
struct Wholes {
    layout: Overflow,
    records: Arc<dyn Records>,
    stored: Box<dyn RecordCursor>,
    whole: Vec<u8>,
}

impl RecordCursor for Wholes {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, stored)) = self.stored.next()? else { return Ok(None) };
        match self.layout.whole(&*self.records, key, stored)? {
            None => Ok(Some((key, stored))),
            Some(whole) => {
                self.whole = whole;
                Ok(Some((key, &self.whole)))
            }
        }
    }
}
