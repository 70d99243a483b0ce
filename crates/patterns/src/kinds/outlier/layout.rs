//! Documents with large arrays, and the chunks of these.
//!
//! The record of a document has a stand-in at the place of a spilled array, with the elements that
//! are kept. The layout's own area has a directory for the document and a record for each chunk.

use super::arrange::{self, Known};
use super::elements;
use super::settings::{Bound, Settings, Which};
use super::stand_in::{self, Chunk, StandIn, chunk_key, damaged, directory_key};
use crate::layout::{Area, Demand, Hidden, Layout, RecordCursor, Records, RecordsMut, Slice, Span};
use std::borrow::Cow;
use std::sync::Arc;
use value::writer::write_array;
use value::{Code, Error, RawDoc, RawVal, Result, Val, limits};

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

impl Spilled<'_> {
    /// Whether elements stand behind the chunks.
    fn has_tail(&self) -> bool {
        !RawDoc::new(self.stand_in.tail).is_empty()
    }
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

    /// The document of a record with the whole array, or its head if that is enough; `None` if it is
    /// the record.
    fn shown(
        &self,
        records: &dyn Records,
        key: &[u8],
        stored: &[u8],
        demand: &Demand,
    ) -> Result<Option<Vec<u8>>> {
        let stored = RawDoc::new(stored);
        let slice = demand.slice.as_ref();
        let slice = slice.filter(|slice| *slice.path == *self.settings.array.text());
        let Some(spilled) = self.spilled(records, key, stored)? else {
            return Ok(slice.and_then(|slice| self.sliced(stored, slice)));
        };
        if let Some(slice) = slice {
            return self.page(records, key, stored, &spilled, slice).map(Some);
        }
        if demand.heads.iter().any(|path| **path == *self.settings.array.text()) {
            return Ok(Some(self.with_head(stored, &spilled.stand_in)));
        }
        if self.reads_tail(demand) {
            return Ok(Some(self.with_elements(stored, &end_of(&spilled.stand_in))));
        }
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

    /// A document whose array is not spilled, with some of its elements.
    fn sliced(&self, doc: RawDoc<'_>, slice: &Slice) -> Option<Vec<u8>> {
        let array = self.settings.array.find(doc)?.as_array()?;
        let range = slice.of(array.count());
        let elements = array.iter().map(|(_, element)| element);
        let page: Vec<RawVal<'_>> = elements.skip(range.start).take(range.len()).collect();
        Some(self.with_elements(doc, &page))
    }

    /// A document with some elements of its spilled array. Only the chunks that have these are loaded.
    fn page(
        &self,
        records: &dyn Records,
        key: &[u8],
        doc: RawDoc<'_>,
        spilled: &Spilled<'_>,
        slice: &Slice,
    ) -> Result<Vec<u8>> {
        let stand_in = &spilled.stand_in;
        let range = slice.of(stand_in.array.count);
        let mut from = RawDoc::new(stand_in.head).count();
        let mut parts: Vec<(usize, Cow<'_, [u8]>)> = vec![(0, Cow::Borrowed(stand_in.head))];
        for chunk in &spilled.chunks {
            if from < range.end && range.start < from + chunk.count {
                parts.push((from, Cow::Owned(load(records, key, *chunk)?)));
            }
            from += chunk.count;
        }
        parts.push((from, Cow::Borrowed(stand_in.tail)));
        let mut page = Vec::with_capacity(range.len());
        for (from, part) in &parts {
            let elements = RawDoc::new(part).iter().enumerate();
            let found = elements.filter(|(at, _)| range.contains(&(from + at)));
            page.extend(found.map(|(_, (_, element))| element));
        }
        Ok(self.with_elements(doc, &page))
    }

    fn reads_tail(&self, demand: &Demand) -> bool {
        demand.tail.as_deref() == Some(self.settings.array.text())
    }

    /// Stores a document to whose array elements were added. Both images have the elements at its end
    /// only, if it is spilled.
    fn append(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        old: RawDoc<'_>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        let Some(stored) = records.get(Area::Documents, key)? else {
            return Err(damaged("a document that is written is missing"));
        };
        let known = self.spilled(records, key, RawDoc::new(&stored))?;
        let Some(Spilled { stand_in, mut chunks }) = known.filter(|known| known.has_tail()) else {
            return self.write(records, key, Demand::WHOLE, Some(old), new);
        };
        let no_array = || damaged("an array that elements are added to is missing");
        let (_, mut tail) = elements::at(&self.settings.array, new).ok_or_else(no_array)?;
        let seen = RawDoc::new(stand_in.tail).count();
        let mut array = stand_in.array;
        for element in tail.iter().skip(seen) {
            array.bytes += elements::size_at(array.count, *element);
            array.count += 1;
        }
        check_size(array, self.settings.array.text())?;
        let last;
        let mut packed = elements::pack(&tail);
        if !arrange::stays(&self.settings, array.count, &tail) {
            let (_, kept) = arrange::kept(&self.settings, array.count);
            let rest = tail.split_off(tail.len().saturating_sub(kept));
            packed = elements::pack(&rest);
            // A chunk with room is written again, with more elements.
            let mut id = chunks.iter().map(|chunk| chunk.id).max().map_or(0, |id| id + 1);
            let with_room = chunks.pop_if(|chunk| arrange::has_room(&self.settings, *chunk));
            let mut again = None;
            if let Some(chunk) = with_room {
                last = load(records, key, chunk)?;
                let before = RawDoc::new(&last).iter().map(|(_, element)| element);
                tail.splice(0..0, before);
                again = Some(chunk.id);
            }
            for part in arrange::cut(&self.settings, &tail, 0..tail.len()) {
                let elements = tail.get(part.range).unwrap_or(&[]);
                let number = again.take().unwrap_or_else(|| {
                    id += 1;
                    id - 1
                });
                chunks.push(store(records, key, number, elements)?);
            }
            records.put(Area::Own, &directory_key(key), stand_in::directory(&chunks))?;
        }
        let value = StandIn { array, head: stand_in.head, tail: &packed }.value();
        let record = elements::with(new, &self.settings.array, value.raw());
        records.put(Area::Documents, key, record)
    }

    /// The stored elements that readers of the head see.
    fn head_of<'d>(&self, stand_in: &StandIn<'d>) -> Vec<RawVal<'d>> {
        let parts = [stand_in.head, stand_in.tail].map(|part| RawDoc::new(part).iter());
        let all: Vec<RawVal<'d>> = parts.into_iter().flatten().map(|(_, value)| value).collect();
        kept(&self.settings, &all).to_vec()
    }

    fn with_head(&self, doc: RawDoc<'_>, stand_in: &StandIn<'_>) -> Vec<u8> {
        self.with_elements(doc, &self.head_of(stand_in))
    }

    /// The document with other elements in its array.
    fn with_elements(&self, doc: RawDoc<'_>, elements: &[RawVal<'_>]) -> Vec<u8> {
        let mut array = Vec::new();
        write_array(&mut array, |out| elements.iter().for_each(|element| out.push_raw(*element)));
        elements::with(doc, &self.settings.array, RawVal { kind: ARRAY, bytes: &array })
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
        check_size(elements::measure(array, &elements), self.settings.array.text())?;
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

/// The elements at the end of an array that its document has.
fn end_of<'d>(stand_in: &StandIn<'d>) -> Vec<RawVal<'d>> {
    let tail = RawDoc::new(stand_in.tail);
    let part = if tail.is_empty() { RawDoc::new(stand_in.head) } else { tail };
    part.iter().map(|(_, element)| element).collect()
}

/// The most bytes of an array.
const ARRAY_BYTES_MAX: usize = 1 << 30;

/// Refuses an array that is too large for the form of documents.
fn check_size(array: Bound, path: &str) -> Result<()> {
    if array.bytes <= ARRAY_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the array '{path}' would be larger than {ARRAY_BYTES_MAX} bytes");
    Err(Error::new(Code::BSON_OBJECT_TOO_LARGE, message))
}

/// The elements that are kept, of all or of those that stand at the start and the end.
fn kept<'e, 'd>(settings: &Settings, elements: &'e [RawVal<'d>]) -> &'e [RawVal<'d>] {
    let range = match settings.which {
        Which::First => 0..settings.keep.min(elements.len()),
        Which::Last => elements.len().saturating_sub(settings.keep)..elements.len(),
    };
    elements.get(range).unwrap_or(elements)
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
        if !self.reads(demand) && !self.reads_tail(demand) {
            return Ok(Some(stored));
        }
        Ok(Some(self.shown(records, key, &stored, demand)?.unwrap_or(stored)))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let stored = records.scan(Area::Documents, span)?;
        if !self.reads(demand) && !self.reads_tail(demand) {
            return Ok(stored);
        }
        let (layout, records) = (self.clone(), records.share());
        let demand = demand.clone();
        Ok(Box::new(Wholes { layout, records, stored, demand, whole: Vec::new() }))
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
        match self.reads_tail(demand) {
            true => self.append(records, key, old, new),
            false => self.write(records, key, demand, Some(old), new),
        }
    }

    fn tailed(&self) -> Option<&str> {
        Some(self.settings.array.text())
    }

    fn hidden(&self, records: &dyn Records, key: &[u8], demand: &Demand) -> Result<Option<Hidden>> {
        if !self.reads_tail(demand) {
            return Ok(None);
        }
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(None) };
        let Some(spilled) = self.spilled(records, key, RawDoc::new(&stored))? else {
            return Ok(None);
        };
        let stand_in = spilled.stand_in;
        let seen = end_of(&stand_in);
        let size: usize = seen.iter().enumerate().map(|(at, e)| elements::size_at(at, *e)).sum();
        Ok(Some(Hidden {
            path: self.settings.array.text().to_owned(),
            count: stand_in.array.count.saturating_sub(seen.len()),
            bytes: stand_in.array.bytes.saturating_sub(size + 5),
        }))
    }

    fn whole_size(&self, part: RawDoc<'_>, demand: &Demand) -> usize {
        let size = part.bytes().len();
        let value = self.settings.array.find(part).filter(|_| !self.reads(demand));
        let spilled = value.and_then(|value| Some((value, StandIn::of(value)?)));
        spilled.map_or(size, |(value, stand_in)| {
            size.saturating_sub(value.bytes.len()).saturating_add(stand_in.array.bytes)
        })
    }

    fn uncounted(&self, doc: RawDoc<'_>, demand: &Demand) -> usize {
        if !self.reads(demand) {
            let value = self.settings.array.find(doc).and_then(StandIn::of);
            return value.map_or(0, |stand_in| stand_in.array.bytes);
        }
        let found = elements::at(&self.settings.array, doc);
        let spills = |size: &Bound| self.settings.spills(false, *size);
        let size = found.map(|(array, elements)| elements::measure(array, &elements));
        size.filter(spills).map_or(0, |size| size.bytes)
    }

    fn put_plain(&self, records: &mut dyn RecordsMut, key: &[u8], new: RawDoc<'_>) -> Result<()> {
        if new.bytes().len() > limits::DOCUMENT_BYTES_MAX {
            let message = format!(
                "the document has {} bytes with all elements of '{}', which is more than a document \
                 may have",
                new.bytes().len(),
                self.settings.array.text()
            );
            return Err(Error::new(Code::BSON_OBJECT_TOO_LARGE, message));
        }
        self.delete(records, key)?;
        records.put(Area::Documents, key, new.bytes().to_vec())
    }

    fn too_large(&self, records: &dyn Records, find: &mut dyn FnMut(RawDoc<'_>)) -> Result<()> {
        let mut stored = records.scan(Area::Documents, &Span::all())?;
        while let Some((_, doc)) = stored.next()? {
            let doc = RawDoc::new(doc);
            let Some(value) = self.settings.array.find(doc) else { continue };
            let Some(stand_in) = StandIn::of(value) else { continue };
            let size = doc.bytes().len() - value.bytes.len() + stand_in.array.bytes;
            if size > limits::DOCUMENT_BYTES_MAX {
                find(doc);
            }
        }
        Ok(())
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(()) };
        if let Some(spilled) = self.spilled(records, key, RawDoc::new(&stored))? {
            drop_chunks(records, key, &spilled.chunks, &[])?;
            records.delete(Area::Own, &directory_key(key))?;
        }
        records.delete(Area::Documents, key)
    }

    fn headed(&self) -> Option<(&str, bool)> {
        Some((self.settings.array.text(), self.settings.reads_head))
    }

    fn head(
        &self,
        doc: RawDoc<'_>,
        is_spilled: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<Vec<u8>>> {
        let Some((array, elements)) = elements::at(&self.settings.array, doc) else {
            return Ok(None);
        };
        let size = elements::measure(array, &elements);
        // Between the two bounds it depends on what was before.
        let spilled = size.count > self.settings.keep
            && self.settings.spills(true, size)
            && (self.settings.spills(false, size) || is_spilled()?);
        Ok(spilled.then(|| self.with_elements(doc, kept(&self.settings, &elements))))
    }

    fn check_replacement(&self, records: &dyn Records, key: &[u8], new: RawDoc<'_>) -> Result<()> {
        let Some((_, elements)) = elements::at(&self.settings.array, new) else { return Ok(()) };
        if elements.len() > self.settings.keep {
            return Ok(());
        }
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(()) };
        let Some(spilled) = self.spilled(records, key, RawDoc::new(&stored))? else {
            return Ok(());
        };
        let stand_in = spilled.stand_in;
        if stand_in.array.count == elements.len() || self.head_of(&stand_in) != elements {
            return Ok(());
        }
        let array = self.settings.array.text();
        Err(Error::new(
            Code::PATTERN_VIOLATION,
            format!(
                "the new document has {} of the {} elements of '{array}', those that readers get with                  read: 'head'. Read it with read: 'full' before it is replaced, or use update operators",
                elements.len(),
                stand_in.array.count
            ),
        ))
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
    demand: Demand,
    whole: Vec<u8>,
}

impl RecordCursor for Wholes {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, stored)) = self.stored.next()? else { return Ok(None) };
        match self.layout.shown(&*self.records, key, stored, &self.demand)? {
            None => Ok(Some((key, stored))),
            Some(whole) => {
                self.whole = whole;
                Ok(Some((key, &self.whole)))
            }
        }
    }
}
