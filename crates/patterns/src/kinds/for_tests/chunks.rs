//! A layout for tests, several documents in one record: chunks of documents with adjacent record
//! keys. A chunk has the key of the first document that it ever held, and holds all documents up
//! to the key of the next chunk.

use crate::layout::{Area, Demand, Layout, RecordCursor, Records, RecordsMut, Span, merged};
use std::collections::VecDeque;
use value::{DocBuf, Error, RawDoc, Result, Val};

/// The most documents of a chunk.
const DOCUMENTS_MAX: usize = 4;

/// Stores documents in chunks.
#[derive(Clone, Debug)]
pub struct Chunks;

/// The documents of a chunk with their record keys, in the order of the keys.
type Chunk = Vec<(Vec<u8>, Vec<u8>)>;

fn read(bytes: &[u8]) -> Result<Chunk> {
    let documents = RawDoc::new(bytes).get("d").and_then(Val::as_array);
    let documents = documents.ok_or_else(|| Error::internal("a chunk without documents"))?;
    let one = |entry: RawDoc<'_>| match (entry.get("k"), entry.get("v")) {
        (Some(Val::Binary(_, key)), Some(Val::Document(doc))) => {
            Ok((key.to_vec(), doc.bytes().to_vec()))
        }
        _ => Err(Error::internal("a chunk with something else than documents")),
    };
    documents.iter().map(|(_, entry)| one(entry.as_doc().unwrap_or(RawDoc::empty()))).collect()
}

fn write(documents: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let chunk = DocBuf::build(|out| {
        out.array("d", |list| {
            for (key, doc) in documents {
                list.push_doc(|out| {
                    out.append("k", Val::Binary(0, key));
                    out.append("v", Val::Document(RawDoc::new(doc)));
                });
            }
        });
    });
    chunk.into_bytes()
}

/// The chunk for documents with this key, with its own key.
fn chunk_of(records: &dyn Records, key: &[u8]) -> Result<Option<(Vec<u8>, Chunk)>> {
    let mut chunks = records.scan(Area::Own, &Span::down_from(key))?;
    let found = chunks.next()?;
    found.map(|(first, chunk)| Ok((first.to_vec(), read(chunk)?))).transpose()
}

impl Layout for Chunks {
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }

    fn holds_many(&self) -> bool {
        true
    }

    fn get(&self, records: &dyn Records, key: &[u8], _: &Demand) -> Result<Option<Vec<u8>>> {
        if let Some(plain) = records.get(Area::Documents, key)? {
            return Ok(Some(plain));
        }
        let Some((_, chunk)) = chunk_of(records, key)? else { return Ok(None) };
        Ok(chunk.into_iter().find(|(known, _)| known == key).map(|(_, doc)| doc))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        _: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let first = chunk_of(records, &span.from)?.map(|(first, _)| first);
        let own = Span { from: first.unwrap_or_else(|| span.from.clone()), ..span.clone() };
        let chunked = Box::new(ChunkedDocuments {
            chunks: records.scan(Area::Own, &own)?,
            span: span.clone(),
            left: VecDeque::new(),
            lent: None,
        });
        Ok(merged(records.scan(Area::Documents, span)?, chunked, span.backward))
    }

    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        _: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        if records.get(Area::Documents, key)?.is_some() {
            records.delete(Area::Documents, key)?;
        }
        let (first, mut chunk) =
            chunk_of(records, key)?.unwrap_or_else(|| (key.to_vec(), Vec::new()));
        let new = new.bytes().to_vec();
        match chunk.binary_search_by(|(known, _)| known.as_slice().cmp(key)) {
            Ok(at) => chunk.splice(at..=at, [(key.to_vec(), new)]).for_each(drop),
            Err(at) => chunk.insert(at, (key.to_vec(), new)),
        }
        if chunk.len() > DOCUMENTS_MAX {
            let second = chunk.split_off(chunk.len() / 2);
            if let Some((key, _)) = second.first() {
                records.put(Area::Own, key, write(&second))?;
            }
        }
        records.put(Area::Own, &first, write(&chunk))
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        if records.get(Area::Documents, key)?.is_some() {
            records.delete(Area::Documents, key)?;
        }
        let Some((first, mut chunk)) = chunk_of(records, key)? else { return Ok(()) };
        let before = chunk.len();
        chunk.retain(|(known, _)| known != key);
        match chunk.len() {
            0 => records.delete(Area::Own, &first),
            now if now < before => records.put(Area::Own, &first, write(&chunk)),
            _ => Ok(()),
        }
    }

    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
        let mut chunks = records.scan(Area::Own, &Span::all())?;
        let mut last: Option<Vec<u8>> = None;
        while let Some((first, chunk)) = chunks.next()? {
            let documents = read(chunk)?;
            if documents.is_empty() || documents.len() > DOCUMENTS_MAX {
                find(format!("the chunk {first:?} has {} documents", documents.len()));
            }
            for (at, (key, _)) in documents.iter().enumerate() {
                let ordered = last.as_ref().is_none_or(|last| last < key);
                if !ordered || key.as_slice() < first {
                    find(format!("document {at} of the chunk {first:?} stands in the wrong place"));
                }
                if records.get(Area::Documents, key)?.is_some() {
                    find(format!("document {at} of the chunk {first:?} is stored twice"));
                }
                last = Some(key.clone());
            }
        }
        Ok(())
    }
}

/// The documents in chunks of a range.
struct ChunkedDocuments {
    chunks: Box<dyn RecordCursor>,
    span: Span,
    left: VecDeque<(Vec<u8>, Vec<u8>)>,
    lent: Option<(Vec<u8>, Vec<u8>)>,
}

impl RecordCursor for ChunkedDocuments {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.left.is_empty() {
            let Some((_, chunk)) = self.chunks.next()? else { return Ok(None) };
            let mut documents = read(chunk)?;
            documents.retain(|(key, _)| self.span.has(key));
            if self.span.backward {
                documents.reverse();
            }
            self.left = documents.into();
        }
        self.lent = self.left.pop_front();
        Ok(self.lent.as_ref().map(|(key, doc)| (key.as_slice(), doc.as_slice())))
    }
}
