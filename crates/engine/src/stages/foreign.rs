//! The other side of a join: finds the documents of a collection or view whose field has one of
//! some values, by an index or by one table in memory of everything that is there.

use super::nested::{Nested, collect};
use crate::exec::pipeline::{everything, front};
use crate::exec::{Doc, Stream};
use crate::operation::Operation;
use crate::planner::Access;
use hashbrown::HashMap;
use query::filter::Filter;
use std::ops::ControlFlow;
use value::path::{Path, walk};
use value::{DocBuf, RawDoc, Result, Val, keys, limits};

/// Finds documents by the values of a field.
pub(super) struct Foreign {
    field: Path,
    way: Way,
}

enum Way {
    /// Nothing was asked yet.
    Unknown,
    /// By a query for each question.
    Query,
    /// In a table of all documents.
    Table(Table),
}

struct Table {
    docs: Vec<Doc>,
    /// Which documents have a value, by its key.
    places: HashMap<Vec<u8>, Vec<u32>>,
}

impl Foreign {
    pub(super) fn new(field: Path) -> Foreign {
        Foreign { field, way: Way::Unknown }
    }

    /// The documents whose field has one of the values, and match `also`.
    pub(super) fn find(
        &mut self,
        nested: &Nested,
        values: &[Val<'_>],
        also: Option<RawDoc<'_>>,
        op: &Operation,
    ) -> Result<Box<dyn Stream>> {
        let filter = question(self.field.text(), values, also);
        if matches!(self.way, Way::Unknown) {
            self.way = self.choose(nested, filter.as_doc(), op)?;
        }
        let Way::Table(table) = &self.way else { return nested.open_matching(filter.as_doc()) };
        let context = nested.kept().get();
        // The table may know too many; the filter decides, as it would in a query.
        let filter = Filter::parse(filter.as_doc(), &context)?;
        let mut places: Vec<u32> = Vec::new();
        for value in values {
            let value = if value.is_nullish() { Val::Null } else { *value };
            let key = keys::key_with(value, context.collation.map(|collation| &**collation));
            places.extend(table.places.get(&key).into_iter().flatten());
        }
        places.sort_unstable();
        places.dedup();
        let mut found = Vec::with_capacity(places.len());
        for place in places {
            let Some(doc) = table.docs.get(place as usize) else { continue };
            if filter.matches(doc.raw())? {
                found.push(doc.clone());
            }
        }
        Ok(Box::new(Found(found.into_iter())))
    }

    /// Looks whether an index answers; otherwise builds the table, when it fits into memory.
    fn choose(&self, nested: &Nested, filter: RawDoc<'_>, op: &Operation) -> Result<Way> {
        let kept = nested.kept();
        if let (Some(scope), Some(collection), false) =
            (&kept.scope, nested.collection(), nested.is_on_view())
        {
            let stage = vec![super::match_stage::make(filter, &kept.get())?];
            let front = front(&stage, collection, &scope.snapshot, None, &everything()?)?;
            if !matches!(front.plan.access, Access::Collection(_)) {
                return Ok(Way::Query);
            }
            if collection.counters.bytes() > limits::BLOCKING_STAGE_BYTES_MAX as u64 {
                return Ok(Way::Query);
            }
        }
        let mut all = nested.open_below()?;
        let Some(docs) = collect(&mut *all, op, limits::BLOCKING_STAGE_BYTES_MAX)? else {
            return Ok(Way::Query);
        };
        let context = kept.get();
        let collation = context.collation.map(|collation| &**collation);
        let mut places: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
        for (place, doc) in docs.iter().enumerate() {
            op.check()?;
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            let mut add = |value: Val<'_>| {
                let value = if value.is_nullish() { Val::Null } else { value };
                let known = places.entry(keys::key_with(value, collation)).or_default();
                if known.last() != Some(&place) {
                    known.push(place);
                }
            };
            let mut any = false;
            let _ = walk(doc.raw(), self.field.parts(), true, &mut |found| {
                any = true;
                add(found.value);
                ControlFlow::<()>::Continue(())
            });
            if !any {
                add(Val::Null);
            }
        }
        Ok(Way::Table(Table { docs, places }))
    }
}

/// The filter that asks for the values.
fn question(field: &str, values: &[Val<'_>], also: Option<RawDoc<'_>>) -> DocBuf {
    let also = also.filter(|doc| !doc.is_empty());
    DocBuf::build(|out| {
        if let Some(also) = also {
            out.array("$and", |list| {
                list.push_doc(|out| write_question(out, field, values));
                list.push_doc_bytes(also.bytes());
            });
        } else {
            write_question(out, field, values);
        }
    })
}

fn write_question(out: &mut value::Writer<'_>, field: &str, values: &[Val<'_>]) {
    // Inside of $in a regular expression would be a pattern; here it is a value.
    if values.iter().any(|value| matches!(value, Val::Regex(..))) {
        out.array("$or", |list| {
            for value in values {
                list.push_doc(|out| {
                    out.doc(field, |out| {
                        out.append("$eq", *value);
                    });
                });
            }
        });
        return;
    }
    out.doc(field, |out| match values {
        [one] => {
            out.append("$eq", *one);
        }
        many => {
            out.array("$in", |list| many.iter().for_each(|value| list.push(*value)));
        }
    });
}

/// The values that a field has in the document of the near side: all that the path means, each
/// element of an array at its end by itself; null when there is none.
pub(super) fn values_at<'a>(doc: RawDoc<'a>, field: &Path) -> Vec<Val<'a>> {
    let mut values = Vec::new();
    let _ = walk(doc, field.parts(), true, &mut |found| {
        let whole = matches!(found.value, Val::Array(_)) && !found.element;
        if !whole && !found.value.is_missing() {
            values.push(found.value);
        }
        ControlFlow::<()>::Continue(())
    });
    if values.is_empty() {
        values.push(Val::Null);
    }
    values
}

/// Documents that were found already.
pub(super) struct Found(pub(super) std::vec::IntoIter<Doc>);

impl Stream for Found {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        op.check()?;
        Ok(self.0.next())
    }

    fn is_done(&self) -> bool {
        self.0.len() == 0
    }
}
