//! A layout for tests, one document in two records: the value of one field is stored separately
//! and replaced by a placeholder. Readers that do not need the field do not read its record.

use crate::layout::{Area, Demand, Layout, RecordCursor, Records, RecordsMut, Span};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// How many values were read in this process, by field.
static READ: Mutex<BTreeMap<Arc<str>, u64>> = Mutex::new(BTreeMap::new());

/// How many values of a field were read in this process.
#[must_use]
pub fn values_read(field: &str) -> u64 {
    READ.lock().unwrap_or_else(PoisonError::into_inner).get(field).copied().unwrap_or(0)
}

/// Replaces a value that is stored separately. If a document has the same bytes as its own value,
/// it either has no separate record, or its value is stored separately as any other.
const PLACEHOLDER: Val<'static> = Val::Binary(0x80, b"apart");

/// Stores the value of a top-level field separately.
#[derive(Clone, Debug)]
pub struct Apart {
    field: Arc<str>,
}

impl Apart {
    /// The layout for a field.
    #[must_use]
    pub fn new(field: &str) -> Apart {
        Apart { field: field.into() }
    }

    /// The document with another value of the field, or without the field.
    fn with(&self, doc: RawDoc<'_>, value: Option<RawVal<'_>>) -> Vec<u8> {
        let made = DocBuf::build(|out| {
            for (name, known) in doc {
                match value {
                    _ if *name != *self.field => {
                        out.raw(name, known);
                    }
                    Some(value) => {
                        out.raw(name, value);
                    }
                    None => {}
                }
            }
        });
        made.into_bytes()
    }

    /// The document of a record, as far as it is needed.
    fn whole(
        &self,
        records: &dyn Records,
        key: &[u8],
        stored: &[u8],
        demand: &Demand,
    ) -> Result<Option<Vec<u8>>> {
        let doc = RawDoc::new(stored);
        if doc.get(&self.field) != Some(PLACEHOLDER) {
            return Ok(None);
        }
        if !demand.reads(&self.field) {
            return Ok(Some(self.with(doc, None)));
        }
        *READ
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(self.field.clone())
            .or_default() += 1;
        let Some(own) = records.get(Area::Own, key)? else { return Ok(None) };
        Ok(Some(self.with(doc, RawDoc::new(&own).find("v"))))
    }
}

impl Layout for Apart {
    fn paths(&self) -> Vec<String> {
        vec![self.field.to_string()]
    }

    fn get(&self, records: &dyn Records, key: &[u8], demand: &Demand) -> Result<Option<Vec<u8>>> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(None) };
        Ok(Some(self.whole(records, key, &stored, demand)?.unwrap_or(stored)))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        Ok(Box::new(Wholes {
            layout: self.clone(),
            records: records.share(),
            stored: records.scan(Area::Documents, span)?,
            demand: demand.clone(),
            whole: Vec::new(),
        }))
    }

    fn put(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        let Some(value) = new.find(&self.field) else {
            records.delete(Area::Own, key)?;
            return records.put(Area::Documents, key, new.bytes().to_vec());
        };
        let known = old.and_then(|old| old.find(&self.field));
        let same =
            known.is_some_and(|known| known.kind == value.kind && known.bytes == value.bytes);
        if !same || records.get(Area::Own, key)?.is_none() {
            let own = DocBuf::build(|out| {
                out.raw("v", value);
            });
            records.put(Area::Own, key, own.into_bytes())?;
        }
        let placeholder = value::OwnedVal::new(PLACEHOLDER);
        records.put(Area::Documents, key, self.with(new, Some(placeholder.raw())))
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        records.delete(Area::Own, key)?;
        records.delete(Area::Documents, key)
    }

    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
        let mut own = records.scan(Area::Own, &Span::all())?;
        while let Some((key, _)) = own.next()? {
            let stored = records.get(Area::Documents, key)?;
            let value = stored.as_deref().and_then(|doc| RawDoc::new(doc).get(&self.field));
            if value != Some(PLACEHOLDER) {
                find(format!("the value under {key:?} belongs to no document"));
            }
        }
        Ok(())
    }
}

/// Whole documents of a range of records.
struct Wholes {
    layout: Apart,
    records: Arc<dyn Records>,
    stored: Box<dyn RecordCursor>,
    demand: Demand,
    whole: Vec<u8>,
}

impl RecordCursor for Wholes {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, stored)) = self.stored.next()? else { return Ok(None) };
        match self.layout.whole(&*self.records, key, stored, &self.demand)? {
            None => Ok(Some((key, stored))),
            Some(whole) => {
                self.whole = whole;
                Ok(Some((key, &self.whole)))
            }
        }
    }
}
