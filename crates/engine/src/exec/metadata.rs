//! Metadata of documents for `$meta`: the sort key, the index key, the record key, the distance from
//! a point, and the staleness of maintained values.

use super::return_key::key_of;
use super::write::record_of_id;
use super::{Doc, Examined, Stream};
use crate::catalog::Collection;
use crate::operation::Operation;
use crate::planner::Access;
use crate::upkeep::staleness::Staleness;
use query::filter::Filter;
use query::sort::SortSpec;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// The metadata that are returned.
#[derive(Clone, Default)]
pub struct Metadata {
    /// `sortKey`: the sort order.
    pub sort: Option<SortSpec>,
    /// `indexKey`: the access whose index is used.
    pub access: Option<Access>,
    /// `recordId`: the collection. The record key of a capped collection is a sequence number,
    /// which is not part of the document.
    pub record: Option<Arc<Collection>>,
    /// `patterns`: the staleness of maintained values.
    pub patterns: Option<Staleness>,
    /// `geoNearDistance` and `geoNearPoint`: the filter with the `$near`.
    pub near: Option<Arc<Filter>>,
}

impl Metadata {
    /// Returns whether no metadata are requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sort.is_none()
            && self.access.is_none()
            && self.record.is_none()
            && self.patterns.is_none()
            && self.near.is_none()
    }

    /// Writes the metadata of a document, by keyword.
    ///
    /// # Errors
    /// When the document has no sort key.
    pub fn write(&self, doc: RawDoc<'_>, out: &mut Writer<'_>) -> Result<()> {
        if let Some(sort) = &self.sort {
            let values = sort.values(doc)?;
            out.array("sortKey", |list| values.iter().for_each(|value| list.push(value.get())));
        }
        if let Some(access) = &self.access {
            let key = key_of(access, doc)?;
            if !key.as_doc().is_empty() {
                out.append("indexKey", Val::Document(key.as_doc()));
            }
        }
        if let (Some(collection), Some(id)) = (&self.record, doc.get("_id"))
            && collection.capped().is_none()
        {
            out.append("recordId", Val::Binary(0, &record_of_id(collection, id)));
        }
        if let Some(filter) = &self.near {
            write_distance(filter, doc, out)?;
        }
        if let Some(patterns) = &self.patterns {
            patterns.write(doc, out)?;
        }
        Ok(())
    }
}

/// Writes the distance of a document from the point of a `$near`, and its nearest location.
///
/// # Errors
/// None at present; walking a path may fail.
pub fn write_distance(filter: &Filter, doc: RawDoc<'_>, out: &mut Writer<'_>) -> Result<()> {
    if let Some((path, near)) = filter.near()
        && let Some((distance, location)) = near.nearest_of(path, doc)?
    {
        out.f64("geoNearDistance", distance).append("geoNearPoint", location);
    }
    Ok(())
}

/// A stream that adds metadata to its documents.
pub struct WithMeta {
    input: Box<dyn Stream>,
    metadata: Metadata,
    meta: Option<DocBuf>,
}

impl WithMeta {
    /// Adds metadata to the documents of a stream.
    #[must_use]
    pub fn new(input: Box<dyn Stream>, metadata: Metadata) -> WithMeta {
        WithMeta { input, metadata, meta: None }
    }
}

impl Stream for WithMeta {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let Some(doc) = self.input.next(op)? else { return Ok(None) };
        let mut failed = Ok(());
        self.meta = Some(DocBuf::build(|out| {
            if let Some(meta) = self.input.meta() {
                out.extend(meta.as_doc());
            }
            failed = self.metadata.write(doc.raw(), out);
        }));
        failed.map(|()| Some(doc))
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn score(&self) -> Option<f64> {
        self.input.score()
    }

    fn meta(&self) -> Option<DocBuf> {
        self.meta.clone()
    }

    fn has_meta(&self) -> bool {
        true
    }

    fn write_own_stats(&self, out: &mut Writer<'_>) {
        self.input.write_own_stats(out);
    }

    fn examined(&self, total: &mut Examined) {
        self.input.examined(total);
    }
}
