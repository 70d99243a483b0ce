//! `$sort`: orders the documents.

use super::{Role, Stage, StageContext, StageRow};
use crate::exec::metadata::{Metadata, WithMeta};
use crate::exec::sort::{self, Sorter};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::planner::run::SortTotals;
use query::sort::SortSpec;
use std::sync::Arc;
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val, Writer};

pub(super) static ROW: StageRow =
    StageRow { name: "$sort", help: "Orders the documents.", parse, ..StageRow::BASE };

struct Sort {
    spec: SortSpec,
    source: DocBuf,
}

fn parse(value: Val<'_>, context: &StageContext<'_>) -> Result<Box<dyn Stage>> {
    let Val::Document(doc) = value else {
        return Err(Error::new(Code(15973), "the $sort key specification must be an object"));
    };
    if doc.is_empty() {
        return Err(Error::new(Code(15976), "$sort stage must have at least one sort key"));
    }
    make(doc, context.collation)
}

/// Creates a sort whose keys `$meta` needs.
pub(super) fn with_key_as_metadata(
    doc: RawDoc<'_>,
    collation: Option<&Arc<Collation>>,
) -> Result<Box<dyn Stage>> {
    let mut spec = SortSpec::parse(doc)?.with_collation(collation);
    spec.shows_key = true;
    Ok(Box::new(Sort { spec, source: doc.into() }))
}

/// Creates a sort from a checked specification.
pub(super) fn make(doc: RawDoc<'_>, collation: Option<&Arc<Collation>>) -> Result<Box<dyn Stage>> {
    Ok(Box::new(Sort { spec: SortSpec::parse(doc)?.with_collation(collation), source: doc.into() }))
}

impl Stage for Sort {
    fn open(&self, input: Box<dyn Stream>) -> Box<dyn Stream> {
        open_sorted(input, self.spec.clone(), None)
    }

    fn role(&self) -> Role<'_> {
        Role::Sort(&self.spec)
    }

    fn explain(&self, out: &mut Writer<'_>) {
        out.doc(ROW.name, |out| {
            out.append("sortKey", Val::Document(self.source.as_doc()));
        });
    }
}

/// Sorts a stream; with a limit, only the first documents are kept.
pub(crate) fn open_sorted(
    input: Box<dyn Stream>,
    spec: SortSpec,
    limit: Option<usize>,
) -> Box<dyn Stream> {
    let meta =
        Metadata { sort: Some(spec.clone()).filter(|sort| sort.shows_key), ..Metadata::default() };
    let sorter = Some(Sorter::new(spec, limit));
    let keeps = input.has_meta();
    let totals = SortTotals::default();
    let sorted = Box::new(Sorted { input, sorter, docs: None, totals, keeps, meta: None });
    if meta.is_empty() { sorted } else { Box::new(WithMeta::new(sorted, meta)) }
}

struct Sorted {
    input: Box<dyn Stream>,
    sorter: Option<Sorter>,
    docs: Option<sort::Sorted>,
    totals: SortTotals,
    /// Whether documents have metadata: then each is sorted with them as its last field.
    keeps: bool,
    /// The metadata of the last document.
    meta: Option<DocBuf>,
}

impl Sorted {
    /// Sorts documents together with their metadata.
    fn read_with_meta(&mut self, sorter: &mut Sorter, op: &Operation) -> Result<()> {
        while let Some(doc) = self.input.next(op)? {
            let meta = self.input.meta().unwrap_or_default();
            let number = |name: &str| meta.as_doc().get(name).and_then(Val::as_f64);
            let score = number("textScore").or_else(|| number("geoNearDistance")).unwrap_or(0.0);
            let whole = DocBuf::build(|out| {
                out.extend(doc.raw());
                out.append(META_FIELD, Val::Document(meta.as_doc()));
            });
            sorter.push_scored(whole.as_doc(), score, op)?;
        }
        Ok(())
    }

    /// Separates a document from its metadata.
    fn without_meta(&mut self, whole: Vec<u8>) -> Doc {
        let whole = RawDoc::new(&whole);
        let own = whole.count().saturating_sub(1);
        self.meta = whole.iter().nth(own).and_then(|(_, meta)| meta.as_doc()).map(DocBuf::from);
        let doc = DocBuf::build(|out| {
            for (name, value) in whole.iter().take(own) {
                out.raw(name, value);
            }
        });
        Doc::Made(doc.into_bytes())
    }
}

/// The name of the last field of documents that are sorted with their metadata.
const META_FIELD: &str = "$meta";

impl Stream for Sorted {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if let Some(mut sorter) = self.sorter.take() {
            if self.keeps {
                self.read_with_meta(&mut sorter, op)?;
            } else {
                self.input.for_each(op, &mut |doc| sorter.push(doc, op))?;
            }
            self.totals = sorter.totals();
            self.docs = Some(sorter.finish(op)?);
        }
        op.check()?;
        let next = match &mut self.docs {
            None => None,
            Some(docs) => docs.next()?,
        };
        Ok(match next {
            Some(whole) if self.keeps => Some(self.without_meta(whole)),
            next => next.map(Doc::Made),
        })
    }

    fn meta(&self) -> Option<DocBuf> {
        self.meta.clone()
    }

    fn has_meta(&self) -> bool {
        self.keeps
    }

    fn is_done(&self) -> bool {
        self.docs.as_ref().is_some_and(sort::Sorted::is_done)
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        out.i64("totalDataSizeSortedBytesEstimate", long(self.totals.bytes as u64));
        out.bool("usedDisk", self.totals.spills > 0);
        out.i64("spills", long(self.totals.spills));
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
