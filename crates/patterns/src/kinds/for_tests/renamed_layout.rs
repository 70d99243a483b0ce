//! A layout for tests that belongs to the shape of `renamed`: documents are stored in the older
//! version, with the field `_v`, as if they were written before the declaration. Readers get them
//! in the present version; only those that ask for stored documents see what is there.

use super::renamed::OlderForm;
use crate::layout::{Area, Demand, Layout, RecordCursor, Records, RecordsMut, Span};
use crate::shape::ShapeView;
use value::{DocBuf, RawDoc, Result, Val};

/// The field that marks a document of the older version.
const MARK: &str = "_v";

/// Stores documents in the older version.
#[derive(Clone, Debug)]
pub struct StoredOlder(pub(super) OlderForm);

impl StoredOlder {
    /// The canonical document of a record; `None` if it is stored like this.
    fn canonical(&self, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let doc = RawDoc::new(stored);
        if doc.get(MARK) != Some(Val::Int32(1)) {
            return Ok(None);
        }
        let older = DocBuf::build(|out| {
            for (name, value) in doc.iter().filter(|(name, _)| *name != MARK) {
                out.raw(name, value);
            }
        });
        self.0.accept(None, older.as_doc()).map(|doc| Some(doc.into_bytes()))
    }
}

impl Layout for StoredOlder {
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }

    fn get(&self, records: &dyn Records, key: &[u8], _: &Demand) -> Result<Option<Vec<u8>>> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(None) };
        Ok(Some(self.canonical(&stored)?.unwrap_or(stored)))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        _: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let stored = records.scan(Area::Documents, span)?;
        Ok(Box::new(Canonical { layout: self.clone(), stored, doc: Vec::new() }))
    }

    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        _: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        // Only what has both forms without loss is stored in the older one.
        let older = self.0.show(new)?.filter(|_| new.find(MARK).is_none());
        let stored = older.map(|older| {
            DocBuf::build(|out| {
                out.extend(older.as_doc()).i32(MARK, 1);
            })
        });
        let stored = match stored {
            Some(stored) if self.canonical(stored.bytes())?.as_deref() == Some(new.bytes()) => {
                stored.into_bytes()
            }
            _ => new.bytes().to_vec(),
        };
        records.put(Area::Documents, key, stored)
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        records.delete(Area::Documents, key)
    }

    fn check(&self, _: &dyn Records, _: &mut dyn FnMut(String)) -> Result<()> {
        Ok(())
    }
}

/// Canonical documents of a range of records.
struct Canonical {
    layout: StoredOlder,
    stored: Box<dyn RecordCursor>,
    doc: Vec<u8>,
}

impl RecordCursor for Canonical {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, stored)) = self.stored.next()? else { return Ok(None) };
        match self.layout.canonical(stored)? {
            None => Ok(Some((key, stored))),
            Some(doc) => {
                self.doc = doc;
                Ok(Some((key, &self.doc)))
            }
        }
    }
}
