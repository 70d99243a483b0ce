//! The foreign side of a join: finds the documents of a collection or view whose field has one of
//! some values, by an index, by one table in memory of all documents, or by a query each time.

use super::nested::{Nested, collect};
use super::table::Table;
use crate::catalog::{Collection, Index, IndexKind, IndexState};
use crate::exec::entries::damaged;
use crate::exec::scan::{Scan, dangling, fetch_part};
use crate::exec::{Doc, Examined, Stream};
use crate::index::maintain::record_of;
use crate::layout::Reader;
use crate::operation::Operation;
use crate::planner::restrictions::Restrictions;
use crate::planner::{Access, Candidate, KeyRange};
use crate::records::resolve;
use crate::store_failed;
use hashbrown::HashMap;
use patterns::layout::Demand;
use query::filter::Filter;
use query::interrupt;
use smallvec::SmallVec;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Bytes, Direction, Snapshot, Space};
use value::path::{Part, Path};
use value::{DocBuf, RawDoc, Result, Val, Writer, keys};

/// Finds documents by the values of a field.
pub(super) struct Foreign {
    field: Path,
    /// The additional filter, in source form and compiled.
    also: Option<(DocBuf, Arc<Filter>)>,
    /// Whether the views between the pipeline and the collection are skipped.
    base: bool,
    way: FindMethod,
    cache: Cache,
    examined: Examined,
    scans: u64,
    /// What is read of the documents; `None` for all.
    pub(super) needed: Option<Vec<String>>,
    /// For whom documents that can be read in part are read.
    reader: Option<Arc<Reader>>,
    /// Whether it may read the whole collection where queries must not (`notablescan`).
    pub(super) may_scan: bool,
}

/// How documents are found.
enum FindMethod {
    /// Not decided yet: nothing was looked up.
    Unknown,
    /// By their keys: the field is `_id`.
    Id(Snapshot, Arc<Collection>),
    /// By an index that begins with the field.
    Index(Snapshot, Arc<Collection>, Arc<Index>),
    /// In a table of all documents.
    Table(Table),
    /// By one query for each lookup.
    Query,
}

/// The strategy names in explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strategy {
    /// By an index.
    Index,
    /// By a table in memory.
    Hash,
    /// By a query for each document.
    Query,
}

impl Strategy {
    /// MongoDB's name for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Strategy::Index => "IndexedLoopJoin",
            Strategy::Hash => "HashJoin",
            Strategy::Query => "NestedLoopJoin",
        }
    }
}

/// Found documents: all at once, or as a stream.
pub(super) enum Matches {
    Few(smallvec::IntoIter<[Doc; 2]>),
    Stream(Box<dyn Stream>),
}

impl Matches {
    /// Documents that are already in memory.
    pub(super) fn few(docs: SmallVec<[Doc; 2]>) -> Matches {
        Matches::Few(docs.into_iter())
    }
}

impl Stream for Matches {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        match self {
            Matches::Few(docs) => Ok(docs.next()),
            Matches::Stream(stream) => stream.next(op),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Matches::Few(docs) => docs.len() == 0,
            Matches::Stream(stream) => stream.is_done(),
        }
    }

    fn examined(&self, total: &mut Examined) {
        if let Matches::Stream(stream) = self {
            stream.examined(total);
        }
    }
}

/// A cache of recent lookups: consecutive documents often have the same value.
#[derive(Default)]
struct Cache {
    found: HashMap<Vec<u8>, SmallVec<[Doc; 2]>>,
    bytes: usize,
    asked: u32,
    hits: u32,
}

impl Cache {
    const BYTES_MAX: usize = 4 * 1024 * 1024;
    /// Maximum number of cached documents per value.
    const DOCUMENTS_MAX: usize = 16;

    /// Whether the cache is worthwhile: without repeated values it only costs.
    fn is_useful(&self) -> bool {
        self.asked < 512 || self.hits >= self.asked / 16
    }

    fn get(&mut self, key: &[u8]) -> Option<SmallVec<[Doc; 2]>> {
        self.asked = self.asked.saturating_add(1);
        let found = self.found.get(key)?.clone();
        self.hits = self.hits.saturating_add(1);
        Some(found)
    }

    fn keep(&mut self, key: Vec<u8>, docs: &[Doc]) {
        let bytes = key.len() + docs.iter().map(|doc| doc.len() + 32).sum::<usize>() + 64;
        if docs.len() > Cache::DOCUMENTS_MAX || bytes > Cache::BYTES_MAX / 16 {
            return;
        }
        self.bytes += bytes;
        if self.bytes > Cache::BYTES_MAX {
            self.found.clear();
            self.bytes = bytes;
        }
        self.found.insert(key, docs.into());
    }
}

/// Documents that are read from an index at once; more become a stream.
const FEW: usize = 64;

/// Values that are looked up one by one; more become one query.
const VALUES_MAX: usize = 4096;

impl Foreign {
    /// Finds documents by `field`; `base` skips the views below the pipeline.
    pub(super) fn new(field: Path, base: bool, also: Option<(DocBuf, Arc<Filter>)>) -> Foreign {
        Foreign {
            field,
            also,
            base,
            way: FindMethod::Unknown,
            cache: Cache::default(),
            examined: Examined::default(),
            scans: 0,
            needed: None,
            reader: None,
            may_scan: false,
        }
    }

    /// What was examined outside streams.
    pub(super) fn examined(&self) -> Examined {
        let (documents, bytes) =
            self.reader.as_ref().map_or((0, 0), |reader| (reader.records(), reader.bytes()));
        Examined {
            documents: self.examined.documents + documents,
            bytes: self.examined.bytes + bytes,
            ..self.examined
        }
    }

    /// What is read of a document.
    fn demand(&self) -> Demand {
        self.needed.clone().map_or_else(|| Demand::WHOLE.clone(), Demand::of)
    }

    /// Decides how documents will be found.
    pub(super) fn prepare(&mut self, nested: &Nested, op: &Operation) -> Result<()> {
        if matches!(self.way, FindMethod::Unknown) {
            self.way = self.choose(nested, op)?;
        }
        Ok(())
    }

    /// The field by which documents are found.
    pub(super) fn field(&self) -> &Path {
        &self.field
    }

    /// Whether documents are found by an index other than the one on `_id`.
    pub(super) fn has_index(&self) -> bool {
        matches!(self.way, FindMethod::Index(..))
    }

    /// The name of the index that is used.
    pub(super) fn index(&self) -> Option<&str> {
        match &self.way {
            FindMethod::Id(..) => Some("_id_"),
            FindMethod::Index(_, _, index) => Some(&index.name),
            FindMethod::Table(_) | FindMethod::Unknown | FindMethod::Query => None,
        }
    }

    /// How often the whole foreign side was read.
    pub(super) fn scans(&self) -> u64 {
        self.scans
    }

    /// How documents would be found; reads none.
    pub(super) fn planned_strategy(&self, nested: &Nested) -> (Strategy, Option<String>) {
        match self.index_way(nested) {
            Some(FindMethod::Id(..)) => (Strategy::Index, Some("_id_".to_owned())),
            Some(FindMethod::Index(_, _, index)) => (Strategy::Index, Some(index.name.to_string())),
            _ if self.fits_memory(nested) => (Strategy::Hash, None),
            _ => (Strategy::Query, None),
        }
    }

    /// Returns the documents whose field has one of the values, and that match the filter.
    pub(super) fn find(
        &mut self,
        nested: &Nested,
        values: &[Val<'_>],
        op: &Operation,
    ) -> Result<Matches> {
        self.prepare(nested, op)?;
        if let FindMethod::Table(table) = &self.way {
            let also = self.also.as_ref().map(|(_, filter)| &**filter);
            return Ok(Matches::few(table.find(values, also, op)?));
        }
        let direct = !matches!(self.way, FindMethod::Query) && values.len() <= VALUES_MAX;
        if !direct || !values.iter().all(is_plain) {
            let also = self.also.as_ref().map(|(source, _)| source.as_doc());
            let filter = question(self.field.text(), values, also);
            self.scans += u64::from(matches!(self.way, FindMethod::Query));
            let restrictions = Restrictions::current();
            let no_scans = restrictions.no_scans && !self.may_scan;
            let _restricted = Restrictions { no_scans, ..restrictions }.enter();
            return Ok(Matches::Stream(nested.open_matching(
                filter.as_doc(),
                self.base,
                self.needed.as_deref(),
            )?));
        }
        let collation = nested.kept().collation.clone();
        let key_of = |value: &Val<'_>| keys::key_with(*value, collation.as_deref());
        if let [value] = values {
            let key = key_of(value);
            if !self.cache.is_useful() {
                return self.by_keys(vec![key], op);
            }
            if let Some(found) = self.cache.get(&key) {
                return Ok(Matches::few(found));
            }
            let found = self.by_keys(vec![key.clone()], op)?;
            if let Matches::Few(docs) = &found {
                self.cache.keep(key, docs.as_slice());
            }
            return Ok(found);
        }
        let mut keys: Vec<Vec<u8>> = values.iter().map(key_of).collect();
        interrupt::sort_by(&mut keys, Vec::cmp)?;
        keys.dedup();
        self.by_keys(keys, op)
    }

    /// The documents whose field has a value of one of these keys, in the order of the keys.
    fn by_keys(&mut self, keys: Vec<Vec<u8>>, op: &Operation) -> Result<Matches> {
        let also = self.also.as_ref().map(|(_, filter)| filter.clone());
        let passes = |doc: &[u8]| match &also {
            None => Ok(true),
            Some(filter) => filter.matches(RawDoc::new(doc)),
        };
        let mut docs = SmallVec::new();
        match &self.way {
            FindMethod::Id(snapshot, collection) => {
                for key in &keys {
                    op.check()?;
                    self.examined.keys += 1;
                    let record = Bytes::copy_from(key);
                    let row = fetch_part(snapshot, collection, record, self.reader.as_ref())?;
                    let Some(row) = row else { continue };
                    // A reader counts records.
                    self.examined.documents += u64::from(self.reader.is_none());
                    let doc = resolve::resolve_document(collection, snapshot, row.doc)?;
                    if passes(&doc)? {
                        docs.push(Doc::Stored(doc));
                    }
                }
            }
            FindMethod::Index(snapshot, collection, index) => {
                if let ([key], false) = (keys.as_slice(), index.repeats()) {
                    let reader = self.reader.as_ref();
                    let (found, examined) = by_key((snapshot, collection, index), key, reader, op)?;
                    if let Some(found) = found {
                        self.examined.keys += examined;
                        self.examined.documents += if reader.is_none() { examined } else { 0 };
                        for doc in found {
                            if passes(&doc)? {
                                docs.push(doc);
                            }
                        }
                        return Ok(Matches::few(docs));
                    }
                }
                let access = entries_of(index, keys);
                let mut scan = Scan::new(snapshot.clone(), collection.clone(), &access);
                scan.set_demand(|| self.demand());
                while docs.len() < FEW {
                    let Some(row) = scan.next(op)? else {
                        let examined = scan.examined();
                        self.examined.keys += examined.keys;
                        self.examined.documents += examined.documents;
                        self.examined.bytes += examined.bytes;
                        return Ok(Matches::few(docs));
                    };
                    if passes(&row.doc)? {
                        docs.push(Doc::Stored(row.doc));
                    }
                }
                let more = Many { first: Matches::few(docs), scan, also };
                return Ok(Matches::Stream(Box::new(more)));
            }
            _ => {}
        }
        Ok(Matches::few(docs))
    }

    /// Chooses an index if one fits; otherwise builds the table, if it fits into memory.
    fn choose(&mut self, nested: &Nested, op: &Operation) -> Result<FindMethod> {
        if let Some(way) = self.index_way(nested) {
            if let FindMethod::Id(_, collection) | FindMethod::Index(_, collection, _) = &way
                && collection.layouts.is_some()
            {
                let whole = resolve::is_needed(collection);
                let demand = if whole { Demand::WHOLE.clone() } else { self.demand() };
                self.reader = Some(Arc::new(Reader::new(demand)));
            }
            return Ok(way);
        }
        let forbidden = Restrictions::current().no_scans && !self.may_scan;
        if !self.fits_memory(nested) || forbidden {
            return Ok(FindMethod::Query);
        }
        self.scans += 1;
        let mut all = nested.open_below(self.base, self.needed.as_deref())?;
        // The overhead per document is about the size of a small document.
        let bytes_max = op.sort_bytes_max();
        let mut share = op.share();
        let docs = collect(&mut *all, op, bytes_max, &mut share)?;
        all.examined(&mut self.examined);
        let Some(docs) = docs else { return Ok(FindMethod::Query) };
        Table::new(docs, &self.field, &nested.kept().get(), bytes_max, share, op)
            .map(|table| table.map_or(FindMethod::Query, FindMethod::Table))
    }

    fn fits_memory(&self, nested: &Nested) -> bool {
        let views = nested.is_on_view() && !self.base;
        let bytes = nested.collection().map_or(0, |collection| collection.counters.bytes());
        views || bytes <= value::limits::BLOCKING_STAGE_BYTES_MAX as u64
    }

    fn index_way(&self, nested: &Nested) -> Option<FindMethod> {
        let kept = nested.kept();
        let (scope, collection) = (kept.scope.as_ref()?, nested.collection()?);
        if nested.is_on_view() && !self.base {
            return None;
        }
        let (snapshot, collection) = (scope.snapshot.clone(), collection.clone());
        let restrictions = Restrictions::current();
        let same = |collation: &Option<Arc<value::Collation>>| *collation == kept.collation;
        let by_id = self.field.text() == "_id" && collection.capped().is_none();
        if by_id && same(&collection.collation) {
            return Some(FindMethod::Id(snapshot, collection));
        }
        let suits = |index: &&Arc<Index>| {
            index.state == IndexState::Ready
                && !index.hidden
                && restrictions.allow(index)
                && !index.is_clustered()
                && index.partial.is_none()
                && matches!(index.kind, IndexKind::Ordered)
                && same(&index.collation)
                && index.fields.first().is_some_and(|field| field.path.text() == self.field.text())
        };
        let index = collection.readable_indexes().filter(suits).min_by_key(|i| i.fields.len())?;
        let index = index.clone();
        Some(FindMethod::Index(snapshot, collection, index))
    }
}

/// Returns the documents whose entries begin with one value, and the number of entries read.
/// Cheaper than a scan. Returns no documents if there are many.
fn by_key(
    (snapshot, collection, index): (&Snapshot, &Collection, &Index),
    key: &[u8],
    reader: Option<&Arc<Reader>>,
    op: &Operation,
) -> Result<(Option<SmallVec<[Doc; 2]>>, u64)> {
    let mut from = SmallVec::<[u8; 64]>::from_slice(&index.prefix());
    from.extend_from_slice(key);
    if index.fields.first().is_some_and(|field| field.descending) {
        keys::invert(from.get_mut(4..).unwrap_or(&mut []));
    }
    let to = crate::planner::bounds::after(&from);
    let bounds = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
    let range = snapshot.range(Space::Indexes, bounds.0, bounds.1, Direction::Forward);
    let mut range = range.map_err(store_failed)?;
    index.uses.fetch_add(1, Ordering::Relaxed);
    let mut docs = SmallVec::new();
    while let Some((entry, _)) = range.next().map_err(store_failed)? {
        op.check()?;
        if docs.len() == FEW {
            return Ok((None, 0));
        }
        let record = record_of(index, entry).ok_or_else(|| damaged(index))?;
        let row = fetch_part(snapshot, collection, Bytes::copy_from(record), reader)?;
        let row = row.ok_or_else(|| dangling(collection))?;
        docs.push(Doc::Stored(resolve::resolve_document(collection, snapshot, row.doc)?));
    }
    let examined = docs.len() as u64;
    Ok((Some(docs), examined))
}

/// The entries of an index that begin with one of these values.
fn entries_of(index: &Arc<Index>, keys: Vec<Vec<u8>>) -> Access {
    let prefix = index.prefix();
    let descending = index.fields.first().is_some_and(|field| field.descending);
    let range = |mut key: Vec<u8>| {
        if descending {
            keys::invert(&mut key);
        }
        let from = [prefix.as_slice(), &key].concat();
        KeyRange { to: crate::planner::bounds::after(&from), from }
    };
    let mut ranges: Vec<KeyRange> = keys.into_iter().map(range).collect();
    if descending {
        ranges.reverse();
    }
    Access::Index(Candidate::of_first_field(index.clone(), ranges))
}

/// A stream of many documents of an index; the first ones were already read.
struct Many {
    first: Matches,
    scan: Scan,
    also: Option<Arc<Filter>>,
}

impl Stream for Many {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if let Some(doc) = self.first.next(op)? {
            return Ok(Some(doc));
        }
        let row = match &self.also {
            None => self.scan.next(op)?,
            Some(filter) => {
                self.scan.next_where(op, &mut |doc| filter.matches(RawDoc::new(doc)))?
            }
        };
        Ok(row.map(Doc::from))
    }

    fn examined(&self, total: &mut Examined) {
        let own = self.scan.examined();
        total.keys += own.keys;
        total.documents += own.documents;
        total.bytes += own.bytes;
    }
}

/// Whether equality with a value matches only the value itself. That excludes missing values,
/// regular expressions and arrays, which match as a whole or by element.
pub(super) fn is_plain(value: &Val<'_>) -> bool {
    !value.is_nullish() && !matches!(value, Val::Array(_) | Val::Regex(..))
}

/// The filter for the values.
pub(super) fn question(field: &str, values: &[Val<'_>], also: Option<RawDoc<'_>>) -> DocBuf {
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

fn write_question(out: &mut Writer<'_>, field: &str, values: &[Val<'_>]) {
    // Inside `$in` a regular expression would be a pattern; here it is a value.
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

/// The values of a field in the local document: all values at the path, and each element of an
/// array at its end separately; null when there is none.
pub(super) fn values_at<'a>(doc: RawDoc<'a>, field: &Path) -> SmallVec<[Val<'a>; 4]> {
    let mut values = SmallVec::new();
    if field.is_single()
        && let Some(value) = doc.get(field.text())
        && !matches!(value, Val::Array(_))
    {
        values.push(value);
        return values;
    }
    values = stored_values(doc, field);
    if values.is_empty() {
        values.push(Val::Null);
    }
    values
}

/// The values at a path, and each element of an array at its end separately; none when there is
/// none.
pub(super) fn stored_values<'a>(doc: RawDoc<'a>, field: &Path) -> SmallVec<[Val<'a>; 4]> {
    let mut values = SmallVec::new();
    visit_all(doc, field.parts(), &mut |value| values.push(value));
    values
}

/// Visits the values of a path. Unlike in filters, a number after an array means only the element
/// at that index.
fn visit_all<'a>(doc: RawDoc<'a>, parts: &[Part], visit: &mut dyn FnMut(Val<'a>)) {
    let Some((part, mut rest)) = parts.split_first() else { return };
    let Some(mut value) = doc.find(&part.name) else { return };
    while let (Some(array), Some(Part { index: Some(index), .. })) =
        (value.as_array(), rest.first())
    {
        let Some((_, element)) = array.iter().nth(*index) else { return };
        value = element;
        rest = rest.get(1..).unwrap_or(&[]);
    }
    match (rest.is_empty(), value.as_array()) {
        (true, None) => visit(value.get()),
        (true, Some(array)) => array.iter().for_each(|(_, element)| visit(element.get())),
        (false, None) => {
            if let Some(doc) = value.as_doc() {
                visit_all(doc, rest, visit);
            }
        }
        (false, Some(array)) => {
            for doc in array.iter().filter_map(|(_, element)| element.as_doc()) {
                visit_all(doc, rest, visit);
            }
        }
    }
}
