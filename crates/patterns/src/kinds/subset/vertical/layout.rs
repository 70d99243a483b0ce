//! Documents without their cold fields, and records of these.
//!
//! The record of a document holds everything but the cold values that are large; each of these has
//! a record in the layout's own area, under the key of the document and the number of the value. In
//! the document a short value stands in for it, at its place, so that whole documents come back with
//! their order of fields, and a document that is read without its cold fields is the record as it is.
//! A value that only looks as if it stood in for another has no record: it was there before the
//! pattern.

use super::cold::{Cold, Found, kept, stand_in, stands_for};
use crate::layout::{Area, Demand, Layout, RecordCursor, Records, RecordsMut, Span};
use std::sync::Arc;
use value::{RawDoc, Result};

/// The layout.
#[derive(Clone, Debug)]
pub(super) struct ColdFields {
    cold: Cold,
    /// Values with fewer bytes stay in the document.
    inline_below: usize,
}

/// The key of a cold value's record.
fn own_key(key: &[u8], slot: u32) -> Vec<u8> {
    [key, &slot.to_be_bytes()].concat()
}

impl ColdFields {
    pub(super) fn new(paths: &[&str], inline_below: usize) -> ColdFields {
        ColdFields { cold: Cold::new(paths), inline_below }
    }

    /// Whether a demand reads a cold field.
    fn reads(&self, demand: &Demand, field: usize) -> bool {
        self.cold.paths().get(field).is_some_and(|path| demand.reads(path))
    }

    /// Whether a demand reads any cold field.
    fn reads_any(&self, demand: &Demand) -> bool {
        self.cold.paths().iter().any(|path| demand.reads(path))
    }

    /// The document of a record with the cold values that are needed; `None` if it is the record.
    fn whole(
        &self,
        records: &dyn Records,
        key: &[u8],
        stored: &[u8],
        demand: &Demand,
    ) -> Result<Option<Vec<u8>>> {
        let doc = RawDoc::new(stored);
        let found = self.cold.of(doc);
        let mut values = Vec::new();
        let mut changes = false;
        for Found { field, slot, value } in found {
            let wanted = stands_for(value).is_some() && self.reads(demand, field);
            let own = match wanted {
                true => records.get(Area::Own, &own_key(key, slot))?,
                false => None,
            };
            changes |= own.is_some();
            values.push(own);
        }
        Ok(changes.then(|| self.cold.with(doc, &values)))
    }

    /// Stores a document of which fields that the demand does not read are as they are stored.
    fn write(
        &self,
        records: &mut dyn RecordsMut,
        key: &[u8],
        demand: &Demand,
        old: Option<RawDoc<'_>>,
        new: RawDoc<'_>,
    ) -> Result<()> {
        let stored = match old {
            Some(_) => records.get(Area::Documents, key)?,
            None => None,
        };
        let apart = stored.as_deref().map(|doc| self.cold.of(RawDoc::new(doc))).unwrap_or_default();
        let mut apart: Vec<u32> = apart
            .iter()
            .filter(|found| stands_for(found.value).is_some())
            .map(|found| found.slot)
            .collect();
        let known = old.map(|old| self.cold.of(old)).unwrap_or_default();
        let mut values = Vec::new();
        for Found { field, slot, value } in self.cold.of(new) {
            let was_apart = apart.iter().position(|known| *known == slot);
            let seems_apart = stands_for(value).is_some();
            if seems_apart && !self.reads(demand, field) {
                if let Some(at) = was_apart {
                    apart.swap_remove(at);
                }
                values.push(None);
                continue;
            }
            if value.bytes.len() < self.inline_below && !seems_apart {
                values.push(None);
                continue;
            }
            let same = known.iter().any(|known| known.slot == slot && known.value == value);
            if was_apart.is_none() || !same {
                records.put(Area::Own, &own_key(key, slot), kept(value))?;
            }
            if let Some(at) = was_apart {
                apart.swap_remove(at);
            }
            values.push(Some(stand_in(slot, value.bytes.len())));
        }
        for slot in apart {
            records.delete(Area::Own, &own_key(key, slot))?;
        }
        let record = match values.iter().any(Option::is_some) {
            true => self.cold.with(new, &values),
            false => new.bytes().to_vec(),
        };
        records.put(Area::Documents, key, record)
    }
}

impl Layout for ColdFields {
    fn paths(&self) -> Vec<String> {
        self.cold.paths().to_vec()
    }

    fn get(&self, records: &dyn Records, key: &[u8], demand: &Demand) -> Result<Option<Vec<u8>>> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(None) };
        if !self.reads_any(demand) {
            return Ok(Some(stored));
        }
        Ok(Some(self.whole(records, key, &stored, demand)?.unwrap_or(stored)))
    }

    fn scan(
        &self,
        records: &dyn Records,
        span: &Span,
        demand: &Demand,
    ) -> Result<Box<dyn RecordCursor>> {
        let stored = records.scan(Area::Documents, span)?;
        if !self.reads_any(demand) {
            return Ok(stored);
        }
        Ok(Box::new(Wholes {
            layout: self.clone(),
            records: records.share(),
            stored,
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
        let mut size = part.bytes().len();
        for Found { field, value, .. } in self.cold.of(part) {
            if let Some(apart) = stands_for(value).filter(|_| !self.reads(demand, field)) {
                size = size.saturating_sub(value.bytes.len()).saturating_add(apart);
            }
        }
        size
    }

    fn delete(&self, records: &mut dyn RecordsMut, key: &[u8]) -> Result<()> {
        let Some(stored) = records.get(Area::Documents, key)? else { return Ok(()) };
        for Found { slot, value, .. } in self.cold.of(RawDoc::new(&stored)) {
            if stands_for(value).is_some() {
                records.delete(Area::Own, &own_key(key, slot))?;
            }
        }
        records.delete(Area::Documents, key)
    }

    fn check(&self, records: &dyn Records, find: &mut dyn FnMut(String)) -> Result<()> {
        let mut own = records.scan(Area::Own, &Span::all())?;
        while let Some((key, _)) = own.next()? {
            let Some((key, slot)) = key.split_last_chunk::<4>() else {
                find(format!("the record {key:?} of a cold field has no document"));
                continue;
            };
            let slot = u32::from_be_bytes(*slot);
            let stored = records.get(Area::Documents, key)?;
            let found = stored.as_deref().map(|doc| self.cold.of(RawDoc::new(doc)));
            let belongs = found
                .unwrap_or_default()
                .iter()
                .any(|found| found.slot == slot && stands_for(found.value).is_some());
            if !belongs {
                find(format!("the cold value {slot} under {key:?} belongs to no document"));
            }
        }
        let mut stored = records.scan(Area::Documents, &Span::all())?;
        while let Some((key, doc)) = stored.next()? {
            for Found { slot, value, .. } in self.cold.of(RawDoc::new(doc)) {
                let own = own_key(key, slot);
                if stands_for(value).is_some() && records.get(Area::Own, &own)?.is_none() {
                    find(format!("the cold value {slot} of the document {key:?} is missing"));
                }
            }
        }
        Ok(())
    }
}

/// Documents of a range of records with their cold fields.
struct Wholes {
    layout: ColdFields,
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
