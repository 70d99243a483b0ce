//! A table in memory of all documents of a collection by the values of one field, for joins without
//! an index.

use super::StageContext;
use super::foreign::{is_plain, question};
use crate::exec::Doc;
use crate::memory::Share;
use crate::operation::Operation;
use hashbrown::HashMap;
use query::filter::Filter;
use query::interrupt;
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;
use value::path::{Path, walk};
use value::{Collation, DocBuf, Result, Val, keys};

/// Documents by the values of a field.
pub(super) struct Table {
    docs: Vec<Doc>,
    /// The first and the last entry of each value's chain.
    chains: HashMap<Box<[u8]>, (u32, u32)>,
    /// Indexes of documents, each with the next entry of its chain.
    entries: Vec<(u32, u32)>,
    field: String,
    now_ms: i64,
    collation: Option<Arc<Collation>>,
    /// The memory accounting of the documents.
    _share: Share,
}

/// Marks the end of a chain.
const END: u32 = u32::MAX;

/// Memory overhead of an entry and a chain.
const ENTRY_BYTES: usize = 64;

/// Steps that it takes to look up a value.
const STEPS_OF_VALUE: usize = 8;

impl Table {
    /// Builds a table of documents; `None` when it exceeds its memory limit.
    pub(super) fn new(
        docs: Vec<Doc>,
        field: &Path,
        context: &StageContext<'_>,
        bytes_max: usize,
        share: Share,
        op: &Operation,
    ) -> Result<Option<Table>> {
        let mut table = Table {
            docs: Vec::new(),
            chains: HashMap::new(),
            entries: Vec::new(),
            field: field.text().to_owned(),
            now_ms: context.parse.now_ms,
            collation: context.parse.collation.cloned(),
            _share: share,
        };
        let mut bytes = 0;
        let mut key = Vec::new();
        for (place, doc) in docs.iter().enumerate() {
            op.check()?;
            let Ok(place) = u32::try_from(place) else { return Ok(None) };
            let mut any = false;
            let _ = walk(doc.raw(), field.parts(), true, &mut |found| {
                any = true;
                bytes += table.add(found.value, place, &mut key);
                ControlFlow::<()>::Continue(())
            });
            if !any {
                bytes += table.add(Val::Null, place, &mut key);
            }
            if bytes > bytes_max {
                return Ok(None);
            }
        }
        table.docs = docs;
        Ok(Some(table))
    }

    /// Adds a document under a value. Returns the memory that it took.
    fn add(&mut self, value: Val<'_>, place: u32, key: &mut Vec<u8>) -> usize {
        let value = if value.is_nullish() { Val::Null } else { value };
        key.clear();
        keys::encode_with(key, value, false, self.collation.as_deref());
        let entry = u32::try_from(self.entries.len()).unwrap_or(END);
        match self.chains.get_mut(key.as_slice()) {
            Some((_, last)) => {
                let before = self.entries.get_mut(*last as usize);
                if let Some((known, next)) = before {
                    if *known == place {
                        return 0;
                    }
                    *next = entry;
                }
                *last = entry;
                self.entries.push((place, END));
                8
            }
            None => {
                self.chains.insert(key.as_slice().into(), (entry, entry));
                self.entries.push((place, END));
                ENTRY_BYTES + key.len()
            }
        }
    }

    /// Returns the documents that have one of the values and match `also`, in table order.
    pub(super) fn find(
        &self,
        values: &[Val<'_>],
        also: Option<&Filter>,
        op: &Operation,
    ) -> Result<SmallVec<[Doc; 2]>> {
        let mut places: SmallVec<[u32; 8]> = SmallVec::new();
        let mut key = Vec::new();
        for value in values {
            interrupt::charge(STEPS_OF_VALUE)?;
            let value = if value.is_nullish() { Val::Null } else { *value };
            key.clear();
            keys::encode_with(&mut key, value, false, self.collation.as_deref());
            let Some((first, _)) = self.chains.get(key.as_slice()) else { continue };
            let mut at = *first;
            while let Some((place, next)) = self.entries.get(at as usize) {
                interrupt::check()?;
                places.push(*place);
                at = *next;
            }
        }
        if values.len() > 1 {
            interrupt::sort_by(&mut places, u32::cmp)?;
            places.dedup();
        }
        // The table may return too many documents for values with several meanings; the filter
        // decides, as in a query.
        let exact = match values.iter().all(is_plain) {
            true => None,
            false => Some(self.filter(values)?),
        };
        let mut found = SmallVec::with_capacity(places.len());
        for place in places {
            op.check()?;
            let Some(doc) = self.docs.get(place as usize) else { continue };
            let passes = |filter: &Filter| filter.matches(doc.raw());
            if also.map_or(Ok(true), passes)? && exact.as_ref().map_or(Ok(true), passes)? {
                found.push(doc.clone());
            }
        }
        Ok(found)
    }

    fn filter(&self, values: &[Val<'_>]) -> Result<Filter> {
        let question: DocBuf = question(&self.field, values, None);
        let context = query::ParseContext::new(self.now_ms);
        Filter::parse(question.as_doc(), &context.with_collation(self.collation.as_ref()))
    }
}
