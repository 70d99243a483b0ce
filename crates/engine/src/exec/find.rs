//! The stream of a `find`: scan, filter, sort, skip, limit, project.

use super::metadata::Metadata;
use super::return_key::key_of;
use super::scan::{Row, Scan};
use super::sort::{Sorted, Sorter};
use super::{Consumer, Doc, Examined, FieldRead, Stream, Visit};
use crate::operation::Operation;
use crate::planner::run::SortTotals;
use crate::planner::{Access, Plan, cover};
use bumpalo::Bump;
use patterns::layout::{Demand, Slice};
use query::filter::{Filter, Matcher};
use query::project::{Projection, Reads};
use query::sort::SortSpec;
use std::sync::Arc;
use value::{DocBuf, RawDoc, Result, Val};

/// The form of a record key in `$recordId`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordForm {
    /// A number: the sequence number in a capped collection.
    Number,
    /// Bytes: the encoded `_id` in other collections.
    Bytes,
}

/// Options of a find, applied to the documents of a plan.
#[derive(Default)]
pub struct FindOptions {
    /// The filter.
    pub filter: Option<Arc<Filter>>,
    /// The sort order.
    pub sort: Option<SortSpec>,
    /// Number of documents to skip.
    pub skip: u64,
    /// Maximum number of documents to return.
    pub limit: Option<u64>,
    /// The projection of each document.
    pub projection: Option<Arc<Projection>>,
    /// Whether the record key is added to each document, and in which form.
    pub show_record: Option<RecordForm>,
    /// Set if index keys are returned instead of documents: the access that finds them.
    pub return_key: Option<Access>,
    /// The `$meta` metadata that the projection requests.
    pub metadata: Metadata,
    /// The paths that are read of the result; `None` for everything that the projection returns.
    pub needed: Option<Vec<String>>,
    /// The arrays of which the head is enough, unless the filter or the sort reads them.
    pub heads: Vec<String>,
    /// The array of which only these elements are needed, and none by the filter or the sort.
    pub slice: Option<Slice>,
    /// The alternative if the plan reads far more than expected.
    pub escape: Option<Escape>,
}

impl FindOptions {
    /// Returns the parts of documents that a plan needs.
    fn demand(&self, plan: &Plan) -> Demand {
        let whole = self.return_key.is_some() || !self.metadata.is_empty();
        let (filter, sort) = (self.filter.as_deref(), self.sort.as_ref());
        let ordered = sort.is_some() && plan.sorted;
        let reads = match &self.projection {
            _ if whole => None,
            Some(projection) => projection.reads(),
            None => self.needed.clone().map(|paths| Reads { paths, ..Reads::default() }),
        };
        let mut heads = self.heads.clone();
        if whole {
            heads.clear();
        }
        if !heads.is_empty() {
            let read = cover::read_paths(filter, sort, Vec::new());
            let is_read = |head: &str| match &read {
                Some(read) => read.iter().any(|read| patterns::paths::meet(read, head)),
                None => true,
            };
            heads.retain(|head| !is_read(head));
        }
        let all = Demand {
            ordered,
            filter: self.filter.clone(),
            heads,
            slice: self.slice.clone(),
            ..Demand::WHOLE.clone()
        };
        let Some(Reads { paths, mut excluded, passes }) = reads else { return all };
        let read = cover::read_paths(filter, sort, paths);
        if !passes {
            return Demand { paths: read, ..all };
        }
        match read {
            Some(read) => {
                excluded.retain(|path| !read.iter().any(|read| patterns::paths::meet(read, path)));
            }
            None => excluded.clear(),
        }
        Demand { unread: excluded, ..all }
    }
}

/// The alternative to a plan whose estimate was wrong. It is used only while nothing was returned.
pub struct Escape {
    /// Maximum number of entries or documents examined before the switch.
    pub most: u64,
    /// Starts the other plan.
    pub begin: Box<dyn FnOnce() -> FindStream + Send>,
}

/// The result of one step of a find.
enum NextRow {
    Row(Row, Option<usize>),
    End,
    /// The plan exceeds its limit of examined entries.
    Lost,
}

/// The stream of a find.
pub struct FindStream {
    scan: Scan,
    filter: Option<Arc<Filter>>,
    /// Runs the filter, unless the matched array position is needed.
    matcher: Option<Matcher>,
    sorter: Option<Sorter>,
    sorted: Option<Sorted>,
    skip: u64,
    left: Option<u64>,
    projection: Option<Arc<Projection>>,
    arena: Bump,
    show_record: Option<RecordForm>,
    return_key: Option<Access>,
    metadata: Metadata,
    sort_totals: SortTotals,
    escape: Option<Escape>,
    /// The last document of a text search, kept to compute its score.
    last: Option<Doc>,
    /// The counts of earlier scans of a tailable cursor.
    before: Examined,
}

// The arena is empty between two calls of `next`.
impl FindStream {
    /// Creates a stream over the documents of a plan.
    #[must_use]
    pub fn new(mut scan: Scan, plan: &Plan, options: FindOptions) -> FindStream {
        scan.set_demand(|| options.demand(plan));
        let wanted = options.limit.map(|limit| options.skip.saturating_add(limit));
        let wanted = wanted.and_then(|count| usize::try_from(count).ok());
        let sorter = match options.sort {
            Some(sort) if !plan.sorted => Some(Sorter::new(sort, wanted)),
            _ => None,
        };
        // Conditions that the access guarantees are tested only if the matched array position is
        // needed.
        let position = options.projection.as_ref().is_some_and(|p| p.needs_position());
        let filter = match options.filter {
            Some(filter) if !position && !plan.implied.is_empty() => {
                Some(Arc::new(filter.without(plan.implied)))
            }
            filter => filter,
        };
        let filter = filter.filter(|filter| !filter.is_empty());
        let mut skip = options.skip;
        if filter.is_none() && sorter.is_none() {
            // Every row is part of the result, so the scan can skip rows without fetching them.
            scan.skip(std::mem::take(&mut skip));
        }
        FindStream {
            scan,
            matcher: filter.clone().filter(|_| !position).map(Matcher::new),
            filter,
            sorter,
            sorted: None,
            skip,
            left: options.limit,
            projection: options.projection,
            arena: Bump::new(),
            show_record: options.show_record,
            return_key: options.return_key,
            metadata: options.metadata,
            sort_totals: SortTotals::default(),
            escape: options.escape,
            last: None,
            before: Examined::default(),
        }
    }

    /// Creates a stream that only filters.
    fn of_scan(scan: Scan, filter: Option<Arc<Filter>>) -> FindStream {
        FindStream {
            scan,
            matcher: filter.clone().map(Matcher::new),
            filter,
            sorter: None,
            sorted: None,
            skip: 0,
            left: None,
            projection: None,
            arena: Bump::new(),
            show_record: None,
            return_key: None,
            metadata: Metadata::default(),
            sort_totals: SortTotals::default(),
            escape: None,
            last: None,
            before: Examined::default(),
        }
    }

    /// Returns whether the stream only filters.
    fn is_plain(&self) -> bool {
        self.escape.is_none()
            && self.sorter.is_none()
            && self.sorted.is_none()
            && self.skip == 0
            && self.left.is_none()
            && self.projection.is_none()
            && self.show_record.is_none()
            && self.return_key.is_none()
    }

    /// Returns whether all documents of the scan are returned unchanged, so that entries can be
    /// counted instead.
    #[must_use]
    pub fn lends_entries(&self) -> bool {
        self.is_plain() && self.filter.is_none()
    }

    /// Returns the resources of a blocking sort, for explain.
    #[must_use]
    pub fn sort_totals(&self) -> SortTotals {
        self.sort_totals
    }

    /// Replaces the finished scan by a new one, to continue a tailable cursor.
    pub fn continue_with(&mut self, scan: Scan) {
        let done = self.scan.examined();
        self.before.keys += done.keys;
        self.before.documents += done.documents;
        self.before.bytes += done.bytes;
        self.scan = scan;
    }

    /// Returns the next row that matches, before sort, skip and limit.
    fn matching(&mut self, op: &Operation) -> Result<Option<(Row, Option<usize>)>> {
        let mut position = None;
        let row = match (&mut self.matcher, &self.filter) {
            (Some(matcher), _) => {
                self.scan.next_where(op, &mut |doc| matcher.matches(RawDoc::new(doc)))?
            }
            (None, None) => self.scan.next(op)?,
            (None, Some(filter)) => self.scan.next_where(op, &mut |doc| {
                filter.matches_for_projection(RawDoc::new(doc), &mut position)
            })?,
        };
        let Some(row) = row else { return Ok(None) };
        let row = match self.show_record {
            Some(form) => with_record(row, form),
            None => row,
        };
        Ok(Some((row, position)))
    }

    /// Returns the next row that matches, or that the plan should be abandoned.
    fn step(&mut self, op: &Operation) -> Result<NextRow> {
        let Some(most) = self.escape.as_ref().map(|escape| escape.most) else {
            let found = self.matching(op)?;
            return Ok(found.map_or(NextRow::End, |(row, position)| NextRow::Row(row, position)));
        };
        let mut position = None;
        while let Some(row) = self.scan.next(op)? {
            let examined = self.scan.examined();
            if examined.keys.max(examined.documents) > most {
                return Ok(NextRow::Lost);
            }
            let doc = RawDoc::new(&row.doc);
            let matches = match (&mut self.matcher, &self.filter) {
                (Some(matcher), _) => matcher.matches(doc)?,
                (None, None) => true,
                (None, Some(filter)) => filter.matches_for_projection(doc, &mut position)?,
            };
            if matches {
                let row = match self.show_record {
                    Some(form) => with_record(row, form),
                    None => row,
                };
                return Ok(NextRow::Row(row, position));
            }
        }
        Ok(NextRow::End)
    }

    /// Switches to the other plan. The counts of the first one are kept.
    fn get_away(&mut self) {
        let Some(escape) = self.escape.take() else { return };
        let done = self.scan.examined();
        *self = (escape.begin)();
        self.before.keys += done.keys;
        self.before.documents += done.documents;
        self.before.bytes += done.bytes;
    }

    /// Returns the score of a document for the `$text` of the filter, or its distance from the
    /// point of the `$near`.
    fn score(&self, doc: RawDoc<'_>) -> f64 {
        let Some(filter) = &self.filter else { return 0.0 };
        if let Some(text) = filter.text() {
            return text.score(doc);
        }
        let near = filter.near().and_then(|(path, near)| near.distance_of(path, doc).ok()?);
        near.unwrap_or(0.0)
    }

    /// Passes the documents that match to `visit`, before sort, skip and limit.
    fn lend_matching(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        match (&mut self.matcher, &self.filter) {
            (Some(matcher), _) => self
                .scan
                .for_each(op, |doc| if matcher.matches(doc)? { visit(doc) } else { Ok(()) }),
            (None, None) => self.scan.for_each(op, visit),
            (None, Some(filter)) => {
                self.scan.for_each(op, |doc| if filter.matches(doc)? { visit(doc) } else { Ok(()) })
            }
        }
    }

    fn ordered(&mut self, op: &Operation) -> Result<Option<(Doc, Option<usize>)>> {
        if let Some(mut sorter) = self.sorter.take() {
            let scored = sorter.needs_score();
            if self.show_record.is_none() && !scored && self.escape.is_none() {
                self.lend_matching(op, &mut |doc| sorter.push(doc, op))?;
            } else {
                loop {
                    let row = match self.step(op)? {
                        NextRow::Row(row, _) => row,
                        NextRow::End => break,
                        NextRow::Lost => {
                            self.get_away();
                            return self.ordered(op);
                        }
                    };
                    let doc = RawDoc::new(&row.doc);
                    let score = if scored { self.score(doc) } else { 0.0 };
                    sorter.push_scored(doc, score, op)?;
                }
            }
            self.sort_totals = sorter.totals();
            self.sorted = Some(sorter.finish(op)?);
        }
        match &mut self.sorted {
            None => match self.step(op)? {
                NextRow::Row(row, position) => {
                    // The other plan would return this row again, so it can no longer be used.
                    self.escape = None;
                    Ok(Some((Doc::Stored(row.doc), position)))
                }
                NextRow::End => Ok(None),
                NextRow::Lost => {
                    self.get_away();
                    self.ordered(op)
                }
            },
            Some(docs) => {
                op.check()?;
                let Some(doc) = docs.next()? else { return Ok(None) };
                let mut position = None;
                let needs = self.projection.as_ref().is_some_and(|p| p.needs_position());
                if let (true, Some(filter)) = (needs, &self.filter) {
                    filter.matches_for_projection(RawDoc::new(&doc), &mut position)?;
                }
                Ok(Some((Doc::Made(doc), position)))
            }
        }
    }

    /// Returns the next document in natural order with its record key, for tailable cursors.
    ///
    /// # Errors
    /// As `next`.
    pub fn next_row(&mut self, op: &Operation) -> Result<Option<(Vec<u8>, Doc)>> {
        while self.left != Some(0) {
            let Some((row, position)) = self.matching(op)? else { return Ok(None) };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
            let record = row.record.to_vec();
            let doc = self.project(Doc::Stored(row.doc), position)?;
            return Ok(Some((record, doc)));
        }
        Ok(None)
    }

    /// Returns whether the limit is reached.
    #[must_use]
    pub fn has_reached_limit(&self) -> bool {
        self.left == Some(0)
    }

    fn project(&mut self, doc: Doc, position: Option<usize>) -> Result<Doc> {
        if let Some(access) = &self.return_key {
            return key_of(access, doc.raw()).map(|key| Doc::Made(key.into_bytes()));
        }
        let Some(projection) = &self.projection else { return Ok(doc) };
        let mut out = Vec::with_capacity(doc.len());
        let text = self.filter.as_ref().and_then(|filter| filter.text());
        if text.is_none() && self.metadata.is_empty() {
            projection.apply(doc.raw(), position, &self.arena, &mut out)?;
        } else {
            let mut failed = Ok(());
            let meta = DocBuf::build(|out| {
                if let Some(text) = text {
                    out.f64("textScore", text.score(doc.raw()));
                }
                failed = self.metadata.write(doc.raw(), out);
            });
            failed?;
            let (doc, meta) = (doc.raw(), meta.as_doc());
            projection.apply_with_meta(doc, meta, position, &self.arena, &mut out)?;
        }
        self.arena.reset();
        if self.show_record.is_some()
            && RawDoc::new(&out).find(RECORD_FIELD).is_none()
            && let Some(record) = doc.raw().get(RECORD_FIELD)
        {
            let with = DocBuf::build(|whole| {
                whole.extend(RawDoc::new(&out));
                whole.append(RECORD_FIELD, record);
            });
            return Ok(Doc::Made(with.into_bytes()));
        }
        Ok(Doc::Made(out))
    }
}

/// The field in which `showRecordId` returns the record key.
const RECORD_FIELD: &str = "$recordId";

/// Adds the record key to the document of a row as a field.
fn with_record(row: Row, form: RecordForm) -> Row {
    let value = match (form, row.record.first_chunk::<8>()) {
        (RecordForm::Number, Some(number)) => Val::Int64(i64::from_be_bytes(*number)),
        _ => Val::Binary(0, &row.record),
    };
    let doc = DocBuf::build(|out| {
        out.extend(RawDoc::new(&row.doc));
        out.append(RECORD_FIELD, value);
    });
    Row { doc: doc.into_bytes().into(), record: row.record.clone() }
}

impl Stream for FindStream {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        loop {
            if self.left == Some(0) {
                return Ok(None);
            }
            let Some((doc, position)) = self.ordered(op)? else { return Ok(None) };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
            if self.filter.as_ref().is_some_and(|filter| filter.text().is_some()) {
                self.last = Some(doc.clone());
            }
            return self.project(doc, position).map(Some);
        }
    }

    fn split(&mut self, parts: usize) -> Vec<Box<dyn Stream>> {
        if !self.is_plain() || Stream::has_meta(self) {
            return Vec::new();
        }
        let part = |scan| {
            let filter = self.filter.clone();
            Box::new(FindStream::of_scan(scan, filter)) as Box<dyn Stream>
        };
        self.scan.split(parts).into_iter().map(part).collect()
    }

    fn reads_all(&self) -> bool {
        self.is_plain() && self.scan.reads_all()
    }

    fn for_each(&mut self, op: &Operation, visit: &mut Visit<'_>) -> Result<()> {
        if self.is_plain() {
            return self.lend_matching(op, visit);
        }
        while let Some(doc) = self.next(op)? {
            visit(doc.raw())?;
        }
        Ok(())
    }

    fn lend(
        &mut self,
        op: &Operation,
        wanted: &[FieldRead],
        consumer: &mut dyn Consumer,
    ) -> Result<bool> {
        if self.lends_entries() {
            return self.scan.lend(op, Some(wanted), consumer);
        }
        self.for_each(op, &mut |doc| consumer.document(doc)).map(|()| false)
    }

    fn has_meta(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.text().is_some())
    }

    fn is_done(&self) -> bool {
        let empty = match &self.sorted {
            Some(docs) => docs.is_done(),
            None => self.sorter.is_none() && self.scan.is_done(),
        };
        empty || self.has_reached_limit()
    }

    fn score(&self) -> Option<f64> {
        self.last.as_ref().map(|doc| FindStream::score(self, doc.raw()))
    }

    fn examined(&self, total: &mut Examined) {
        let own = self.scan.examined();
        total.keys += own.keys + self.before.keys;
        total.documents += own.documents + self.before.documents;
        total.bytes += own.bytes + self.before.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};
    use query::ParseContext;
    use store::Direction;
    use value::ejson;

    #[test]
    fn a_plan_that_reads_too_much_is_given_up_before_it_gives_anything() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let docs: Vec<String> = (0..100).map(|n| format!("{{_id: {n}, a: {}}}", n % 10)).collect();
        let insert = format!("{{insert: 'c', documents: [{}]}}", docs.join(", "));
        let insert = ejson::parse_doc(&insert).expect("test text");
        engine.run_command("t", insert.as_doc()).expect("works");
        let collection = engine.inner().data.collection("t", "c").expect("is there");
        let filter = ejson::parse_doc("{a: 9}").expect("test text");
        let filter = Filter::parse(filter.as_doc(), &ParseContext::new(0)).expect("is right");
        let filter = Arc::new(filter);
        let op = Operation::for_tests(1 << 20);
        let scan = |direction| {
            let access = Access::Collection(direction);
            let snapshot = engine.inner().data.store.snapshot();
            (Scan::new(snapshot, collection.clone(), &access), access)
        };
        let sort = ejson::parse_doc("{a: 1}").expect("test text");
        let sort = SortSpec::parse(sort.as_doc()).expect("is right");
        for (most, sorts, examined) in
            [(5, false, 6 + 100), (20, false, 100), (50, true, 51 + 100), (200, true, 100)]
        {
            let (first, access) = scan(Direction::Forward);
            let plan = |access| Plan {
                access,
                sorted: !sorts,
                implied: query::filter::Conditions::default(),
                rejected: Vec::new(),
            };
            let options = || FindOptions {
                filter: Some(filter.clone()),
                sort: Some(sort.clone()),
                ..FindOptions::default()
            };
            let (other, other_access) = scan(Direction::Reverse);
            let (other_plan, other_options) = (plan(other_access), options());
            let begin = move || FindStream::new(other, &other_plan, other_options);
            let escape = Some(Escape { most, begin: Box::new(begin) });
            let options = FindOptions { escape, ..options() };
            let mut stream = FindStream::new(first, &plan(access), options);
            let mut ids = Vec::new();
            while let Some(doc) = stream.next(&op).expect("reads") {
                ids.push(doc.raw().get("_id").and_then(Val::as_i64_exact).expect("a number"));
            }
            assert_eq!(ids.len(), 10, "each document once");
            let escaped = examined > 100;
            assert_eq!(ids.first(), Some(&if escaped { 99 } else { 9 }));
            let mut total = Examined::default();
            stream.examined(&mut total);
            assert_eq!(total.documents, examined);
        }
    }
}
