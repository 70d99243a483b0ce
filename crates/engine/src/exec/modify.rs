//! Updates and deletes: find the documents and change each, inside transactions.
//!
//! A statement for one document runs in one transaction. A statement for many documents scans one
//! snapshot, so that it finds each document once, and commits in chunks. A document that changed
//! since the snapshot is tested again before it is changed.
//!
//! For a reader with a form of its own (`Collection::form`) filters and updates work on documents in
//! that form; what is written is the canonical document that the form accepts.

use super::parts;
use super::scan::{Row, Scan};
use super::write;
use crate::catalog::Collection;
use crate::layout::{self, Reader};
use crate::operation::Operation;
use crate::planner::Question;
use crate::planner::logical::{self, Needs};
use crate::planner::min_max::MinMax;
use crate::planner::request::{parse_sort, refuse_index_with_natural};
use crate::records::resolve::{self, Resolver};
use crate::txn::Data;
use crate::txn::{PartWrite, Transaction, write_conflict};
use bumpalo::Bump;
use patterns::layout::{Demand, Hidden};
use query::ParseContext;
use query::filter::Filter;
use query::sort::SortSpec;
use query::update::delta::{LoggedUpdate, between, of_whole};
use query::update::{Edit, Series, Update};
use std::borrow::Cow;
use std::sync::Arc;
use store::{Seqno, Snapshot};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Selects the documents that a statement changes.
pub struct Target<'a> {
    /// The filter as it was sent.
    pub query: RawDoc<'a>,
    /// The compiled filter.
    pub filter: Arc<Filter>,
    /// The order that selects one of several documents, for statements that change one.
    pub sort: Option<SortSpec>,
    /// The index to use.
    pub hint: Option<Val<'a>>,
    /// What the statement itself reads of the documents; `None` for all of them.
    pub reads: Option<parts::Reads>,
}

/// A document that a statement is about to change.
pub struct Chosen {
    /// The key of its record.
    pub record: store::Bytes,
    /// The document as the client sees it.
    pub doc: store::Bytes,
    /// The position in an array that the filter matched.
    pub position: Option<usize>,
    /// The canonical document, if the client sees it in another form.
    canonical: Option<store::Bytes>,
    /// What was read of the document, if that is not all of it.
    part: Option<Arc<Demand>>,
}

impl Chosen {
    /// A document that a transaction finds by its record.
    ///
    /// # Errors
    /// WriteConflict when a client sees it in its own form and it is gone; errors of the store.
    pub fn new(
        txn: &Transaction,
        collection: &Collection,
        Row { record, doc }: Row,
        position: Option<usize>,
    ) -> Result<Chosen> {
        let mut canonical = None;
        if collection.form.is_some() {
            let key = write::document_key(collection, &record);
            let stored = txn.document(collection, &key)?.ok_or_else(write_conflict)?;
            canonical = Some(resolve::canonical_document(collection, &txn.snapshot, stored)?);
        }
        Ok(Chosen { record, doc, position, canonical, part: None })
    }

    /// What tells a transaction that only a part of the document was read.
    fn part_write(&self, collection: &Collection, hidden: Option<Hidden>) -> Option<PartWrite> {
        self.part.as_ref().map(|demand| PartWrite {
            collection: collection.id,
            record: self.record.clone(),
            demand: demand.clone(),
            hidden,
        })
    }

    /// The document in its canonical form, which is what writes take.
    #[must_use]
    pub fn canonical(&self) -> RawDoc<'_> {
        RawDoc::new(self.canonical.as_ref().unwrap_or(&self.doc))
    }
}

/// Returns the first document that matches, as a transaction sees the collection.
///
/// # Errors
/// Errors of the filter or the store.
pub fn choose_one(
    txn: &Transaction,
    op: &Operation,
    collection: &Arc<Collection>,
    target: &Target<'_>,
) -> Result<Option<Chosen>> {
    write::refuse_capped_in_transaction(txn, collection)?;
    let question = Question {
        collection,
        filter: &target.filter,
        sort: target.sort.as_ref(),
        hint: target.hint,
        snapshot: &txn.snapshot,
        projection: None,
        written: Some(target.query),
    };
    let plan = logical::decide(&question, &Needs::Documents, MinMax::default())?.plan;
    plan.note_in(&question, "IXSCAN", op);
    let mut scan = Scan::new(txn.snapshot.clone(), collection.clone(), &plan.access);
    let part = part_demand(txn, collection, target);
    if let Some(part) = &part {
        scan.set_demand(|| (**part).clone());
    }
    let chosen = |row: Row, position: Option<usize>| -> Result<Chosen> {
        let chosen = Chosen::new(txn, collection, row, position)?;
        Ok(Chosen { part: part.clone(), ..chosen })
    };
    let mut best: Option<(Vec<u8>, Row, Option<usize>)> = None;
    while let Some(Row { record, doc }) = scan.next(op)? {
        let mut position = None;
        if !target.filter.matches_at(RawDoc::new(&doc), &mut position)? {
            continue;
        }
        let Some(sort) = target.sort.as_ref().filter(|_| !plan.sorted) else {
            op.add_cost(scan.examined(), 0);
            return chosen(Row { record, doc }, position).map(Some);
        };
        let mut key = Vec::new();
        sort.key(RawDoc::new(&doc), &mut key)?;
        if best.as_ref().is_none_or(|(smallest, ..)| key < *smallest) {
            best = Some((key, Row { record, doc }, position));
        }
    }
    op.add_cost(scan.examined(), 0);
    best.map(|(_, row, position)| chosen(row, position)).transpose()
}

/// What must be read of the documents that a statement changes, if that is not all. The statements of
/// a session's transaction keep whole images, to repeat them at commit.
fn part_demand(
    txn: &Transaction,
    collection: &Collection,
    target: &Target<'_>,
) -> Option<Arc<Demand>> {
    let whole = txn.is_of_session() || txn.work.bypasses();
    if whole { None } else { parts::demand(collection, target) }
}

/// Returns the records that match now, for statements that change many, and the commit at which
/// they were read.
///
/// # Errors
/// Errors of the filter or the store.
fn scan_many(
    data: &Data,
    op: &Operation,
    collection: &Arc<Collection>,
    target: &Target<'_>,
) -> Result<(Scan, Seqno)> {
    let snapshot = data.view(op).snapshot;
    let question = Question {
        collection,
        filter: &target.filter,
        sort: None,
        hint: target.hint,
        snapshot: &snapshot,
        projection: None,
        written: Some(target.query),
    };
    let plan = logical::decide(&question, &Needs::Documents, MinMax::default())?.plan;
    plan.note_in(&question, "IXSCAN", op);
    let seqno = snapshot.seqno();
    let mut scan = Scan::new(snapshot, collection.clone(), &plan.access);
    // The documents are read again before they are changed.
    if let Some(part) = parts::demand(collection, target).filter(|_| !op.is_in_transaction()) {
        scan.set_demand(|| (*part).clone());
    }
    Ok((scan, seqno))
}

/// Returns whether documents that were read at a commit can be changed without testing them again.
/// The conflict check at commit detects changes by others.
fn can_trust(data: &Data, op: &Operation, collection: &Collection, seqno: Seqno) -> bool {
    // A unique key that one chunk frees and the next one takes would look like a conflict.
    let has_unique = collection.indexes.iter().any(|i| !i.is_clustered() && i.refuses_equal_keys());
    !op.is_in_transaction()
        && !collection.is_written_locked()
        && !has_unique
        && data.has_commits_after(seqno)
}

/// Documents per commit of a statement that changes many. The old and new images and the log
/// records should fit into the cache of a core. A commit that changes a whole page of the store is
/// cheaper than two that change parts of it, so the number may be exceeded slightly.
const CHUNK_ROWS: usize = 200;
const CHUNK_ROWS_MAX: usize = 400;
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Runs `change` on every document that matches, with many documents per commit.
///
/// # Errors
/// Errors of the filter, the change or the store. Earlier commits of the statement remain.
pub fn for_each_match(
    data: &Data,
    op: &Operation,
    collection: &Arc<Collection>,
    target: &Target<'_>,
    mut change: impl FnMut(&mut Transaction, &Arc<Collection>, &Chosen) -> Result<bool>,
) -> Result<Many> {
    if op.is_in_transaction() {
        op.with_transaction(|txn| write::refuse_capped_in_transaction(txn, collection))?;
    }
    let (mut scan, scanned_at) = scan_many(data, op, collection, target)?;
    let mut total = Many::default();
    // An open transaction commits later anyway. With one chunk its writes need not be copied while
    // the scan still reads them.
    let whole = op.is_in_transaction();
    loop {
        let mut rows = Vec::new();
        let mut bytes = 0;
        let is_full = |scan: &Scan, rows: usize, bytes: usize| {
            bytes >= CHUNK_BYTES
                || rows >= CHUNK_ROWS_MAX
                || (rows >= CHUNK_ROWS && scan.is_at_seam())
        };
        while whole || !is_full(&scan, rows.len(), bytes) {
            let Some(row) = scan.next(op)? else { break };
            let mut position = None;
            if target.filter.matches_at(RawDoc::new(&row.doc), &mut position)? {
                bytes += row.doc.len();
                // Documents of a reader with a form of its own are read again below.
                let (record, doc) = (row.record, row.doc);
                rows.push(Chosen { record, doc, position, canonical: None, part: None });
            }
        }
        if rows.is_empty() {
            op.add_cost(scan.examined(), 0);
            return Ok(total);
        }
        let mut trusted = can_trust(data, op, collection, scanned_at);
        let (part, seqno) = data.transact(op, collection.is_written_locked(), |txn| {
            // A concurrent change makes the commit fail; then each document is tested again.
            let mut trusted = std::mem::take(&mut trusted) && txn.read_at(scanned_at);
            let mut part = Many::default();
            let current = txn.catalog.get(&collection.db, &collection.name).cloned();
            let Some(mut current) = current.filter(|now| now.id == collection.id) else {
                return Ok(part);
            };
            // So may a layout that makes other documents of the same records.
            trusted &= current.layouts.is_none();
            // A shape may have been declared since the scan began. A statement that scans a
            // collection with shapes in its canonical form goes on like this.
            if collection.form.is_some() || collection.shapes.is_none() {
                current = op.sees_to_write(current)?;
            }
            // Resolved values are those before the changes of this chunk, like stored values.
            let seen = resolve::is_needed(&current).then(|| txn.snapshot.clone());
            let mut resolver = match &seen {
                Some(seen) => Resolver::of(&current, seen)?.map(|resolver| (resolver, seen)),
                None => None,
            };
            let part_read = part_demand(txn, &current, target);
            let part_read = part_read.map(|part| Arc::new(Reader::new((*part).clone())));
            txn.begin_storing_later(&current);
            for row in &rows {
                let newer;
                let row = if trusted {
                    row
                } else {
                    let reader = part_read.as_ref();
                    let found = read_again(txn, &current, row, target, (&mut resolver, reader))?;
                    let Some(found) = found else { continue };
                    newer = found;
                    newer.as_ref().unwrap_or(row)
                };
                part.matched += 1;
                match change(txn, &current, row) {
                    Ok(changed) => part.changed += u64::from(changed),
                    // Earlier changes remain, as in MongoDB. A refused document has written
                    // nothing, so the others of this chunk can commit.
                    Err(error) => {
                        part.failed = Some(error);
                        break;
                    }
                }
            }
            txn.store_now()?;
            Ok(part)
        })?;
        total.matched += part.matched;
        total.changed += part.changed;
        total.newest = Some(seqno);
        if let Some(error) = part.failed {
            return Err(error);
        }
    }
}

/// What resolves fields of documents, with the state that it reads, if that is needed.
type OpenResolver<'s> = Option<(Box<Resolver>, &'s Snapshot)>;

/// Returns a document as a transaction sees it: the newer image if it changed since it was read,
/// `None` if it no longer matches.
fn read_again(
    txn: &Transaction,
    collection: &Collection,
    row: &Chosen,
    target: &Target<'_>,
    (resolver, reader): (&mut OpenResolver<'_>, Option<&Arc<Reader>>),
) -> Result<Option<Option<Chosen>>> {
    let key = write::document_key(collection, &row.record);
    let doc = match reader {
        None => txn.document(collection, &key)?,
        Some(reader) => layout::get_part(collection, &txn.snapshot, &key, Some(reader))?,
    };
    let Some(mut doc) = doc else { return Ok(None) };
    let mut canonical = None;
    if let Some((resolver, seen)) = resolver {
        if let Some(resolved) = resolver.resolve(seen, RawDoc::new(&doc))? {
            doc = resolved.into_bytes().into();
        }
        if let Some(form) = &collection.form {
            let shown = form.show(RawDoc::new(&doc))?;
            canonical = Some(doc.clone());
            doc = shown.map_or(doc, |shown| shown.into_bytes().into());
        }
    }
    // What was scanned may be whole, or another part.
    if doc == row.doc && canonical.is_none() && collection.layouts.is_none() {
        return Ok(Some(None));
    }
    let mut position = None;
    if !target.filter.matches_at(RawDoc::new(&doc), &mut position)? {
        return Ok(None);
    }
    let part = reader.map(|reader| Arc::new(reader.demand.clone()));
    Ok(Some(Some(Chosen { record: row.record.clone(), doc, position, canonical, part })))
}

/// The result of a statement for many documents.
#[derive(Default)]
pub struct Many {
    /// Number of documents that matched.
    pub matched: u64,
    /// Number of documents that changed.
    pub changed: u64,
    /// The newest commit.
    pub newest: Option<Seqno>,
    /// The error that stopped it early.
    failed: Option<value::Error>,
}

/// A document after an update.
pub enum Updated {
    /// In memory of its own.
    Own(DocBuf),
    /// In memory that the store has, too.
    Shared(store::Bytes),
}

impl Updated {
    /// The document.
    #[must_use]
    pub fn as_doc(&self) -> RawDoc<'_> {
        match self {
            Updated::Own(doc) => doc.as_doc(),
            Updated::Shared(bytes) => RawDoc::new(bytes),
        }
    }
}

/// Deletes a chosen document.
///
/// # Errors
/// When the store fails or a pattern refuses it.
pub fn delete_chosen(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    chosen: &Chosen,
) -> Result<()> {
    txn.part = chosen.part_write(collection, None);
    let deleted = write::delete(txn, collection, &chosen.record, chosen.canonical());
    txn.part = None;
    deleted
}

/// Applies one update of a series to a chosen document. Returns the new image, or `None` if nothing
/// changes.
///
/// # Errors
/// Errors of the update, the validator or the indexes.
pub fn update_chosen(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    updates: &mut Series<'_>,
    chosen: &Chosen,
    bypass: bool,
) -> Result<Option<Updated>> {
    let seen = RawDoc::new(&chosen.doc);
    check_owner(txn, collection, updates.update())?;
    if write::takes_shared(txn, collection) {
        match updates.edit(seen) {
            Some(Edit::Same) => return Ok(None),
            Some(Edit::Parts(parts)) => {
                let new = store::Bytes::joined(&parts);
                let logged = updates.update().logged(seen, RawDoc::new(&new), chosen.position);
                collection.validate_update(seen, RawDoc::new(&new), bypass)?;
                let record = &chosen.record;
                write::replace_shared(txn, collection, record, seen, new.clone(), &logged)?;
                return Ok(Some(Updated::Shared(new)));
            }
            None => {}
        }
    }
    // The limit for what is not stored apart is checked when the document is written.
    let layouts = collection.layouts.as_ref();
    if layouts.is_some_and(|layouts| layouts.headed().next().is_some()) {
        updates.update().allow_large();
    }
    let hidden = match &chosen.part {
        Some(part) => layout::hidden(collection, &txn.snapshot, &chosen.record, part)?,
        None => None,
    };
    let Some((mut new, mut logged)) = updates.apply(seen, chosen.position)? else {
        return Ok(None);
    };
    if let (Some(hidden), LoggedUpdate::Delta(delta)) = (&hidden, &logged) {
        let whole = of_whole(delta, &hidden.path, hidden.count, &[]).ok_or_else(no_append)?;
        logged = LoggedUpdate::Delta(whole);
    }
    if updates.update().is_replacement() {
        layout::check_replacement(collection, &txn.snapshot, &chosen.record, new.as_doc())?;
    }
    if let Some(view) = &collection.written_through {
        if updates.update().is_replacement() {
            new = view.complete(new.as_doc())?.unwrap_or(new);
        }
        view.check(new.as_doc())?;
    }
    if collection.form.is_some() {
        let new = with_written_faces(collection, seen, new, updates.update())?;
        let kept = replace_seen(txn, collection, chosen, new.as_doc(), &logged, bypass)?;
        return kept.map(|kept| as_seen(collection, kept).map(Updated::Own)).transpose();
    }
    let old = seen;
    collection.validate_update(old, new.as_doc(), bypass)?;
    txn.part = chosen.part_write(collection, hidden);
    let written = write::replace(txn, collection, &chosen.record, old, &new, &logged);
    txn.part = None;
    match written? {
        None => Ok(Some(Updated::Own(new))),
        // Patterns may revert every change of the update.
        Some(image) => Ok((image.bytes() != old.bytes()).then_some(Updated::Own(image))),
    }
}

#[cold]
fn no_append() -> Error {
    Error::internal("an update of an array that was not read does more than to add elements")
}

/// Replaces a document by an image in the form of the reader. Returns the canonical document that is
/// stored, or `None` if nothing changes.
///
/// # Errors
/// PatternViolation and similar when the image has no canonical form; errors of the validator or
/// the indexes.
pub fn replace_seen(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    chosen: &Chosen,
    image: RawDoc<'_>,
    logged: &LoggedUpdate,
    bypass: bool,
) -> Result<Option<DocBuf>> {
    let old = chosen.canonical();
    let new = match &collection.form {
        Some(form) => form.accept(Some(old), image)?,
        None => DocBuf::from(image),
    };
    if new.bytes() == old.bytes() {
        return Ok(None);
    }
    collection.validate_update(old, new.as_doc(), bypass)?;
    let logged = match logged {
        LoggedUpdate::Replacement => LoggedUpdate::Replacement,
        _ => between(old, new.as_doc()),
    };
    match write::replace(txn, collection, &chosen.record, old, &new, &logged)? {
        None => Ok(Some(new)),
        // Patterns may revert every change of the update.
        Some(image) => Ok((image.bytes() != old.bytes()).then_some(image)),
    }
}

/// Returns the canonical document of one that a client inserts, in the form in which it sees the
/// collection.
///
/// # Errors
/// When it has no canonical form, or cannot be stored.
pub fn accept_new<'d>(collection: &Collection, doc: RawDoc<'d>) -> Result<Cow<'d, [u8]>> {
    let Some(view) = &collection.written_through else { return accept_in_form(collection, doc) };
    let completed = view.complete(doc)?;
    view.check(completed.as_ref().map_or(doc, DocBuf::as_doc))?;
    match completed {
        None => accept_in_form(collection, doc),
        Some(completed) => {
            Ok(Cow::Owned(accept_in_form(collection, completed.as_doc())?.into_owned()))
        }
    }
}

/// The same for a document that is not written through a view, or completed by it.
fn accept_in_form<'d>(collection: &Collection, doc: RawDoc<'d>) -> Result<Cow<'d, [u8]>> {
    match &collection.form {
        None => Ok(Cow::Borrowed(doc.bytes())),
        Some(form) => {
            let accepted = form.accept(None, doc)?;
            // Empty timestamps have their values by now.
            Ok(Cow::Owned(write::prepare_with(accepted.as_doc(), false)?.into_owned()))
        }
    }
}

/// Returns a canonical document as the client sees it.
fn as_seen(collection: &Collection, canonical: DocBuf) -> Result<DocBuf> {
    match &collection.form {
        None => Ok(canonical),
        Some(form) => Ok(form.show(canonical.as_doc())?.unwrap_or(canonical)),
    }
}

/// Refuses an update whose operators name fields that a pattern maintains. A field that differs in
/// the form of the reader is another one; if it is maintained, its value is ignored.
fn check_owner(txn: &Transaction, collection: &Collection, update: &Update) -> Result<()> {
    let Some(bound) = &collection.patterns else { return Ok(()) };
    if txn.work.bypasses() {
        return Ok(());
    }
    let mut named = update.named_paths();
    if let Some(form) = &collection.form {
        named.retain(|path| !form.differs_at(path));
    }
    patterns::ownership::check(bound, &named)
}

/// Returns the image without the faces that the operators of an update do not name: these are as
/// they were shown before.
///
/// # Errors
/// PatternViolation if an operator removes a face. It is not stored, so nothing would change.
fn with_written_faces(
    collection: &Collection,
    seen: RawDoc<'_>,
    image: DocBuf,
    update: &Update,
) -> Result<DocBuf> {
    let named = update.named_paths();
    let Some(shapes) = collection.shapes.as_ref().filter(|_| !named.is_empty()) else {
        return Ok(image);
    };
    let mut image = image;
    for face in shapes.faces() {
        let names = |path: &String| patterns::paths::is_within(path, face);
        if !named.iter().any(names) {
            image = DocBuf::build(|out| {
                for (name, value) in image.as_doc().iter().filter(|(name, _)| *name != face) {
                    out.raw(name, value);
                }
            });
        } else if seen.find(face).is_some() && image.as_doc().find(face).is_none() {
            let message = format!("'{face}' is shown by a pattern and cannot be removed");
            return Err(Error::new(Code::PATTERN_VIOLATION, message));
        }
    }
    Ok(image)
}

/// Inserts the document of an upsert that matched nothing.
///
/// # Errors
/// Errors of the update, the validator or the indexes.
pub fn upsert(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    update: &Update,
    target: &Target<'_>,
    bypass: bool,
) -> Result<DocBuf> {
    check_owner(txn, collection, update)?;
    let start = update.upsert_document(target.query)?;
    let arena = Bump::new();
    let made = update.apply(start.as_doc(), None, true, &arena)?.unwrap_or(start);
    let prepared = write::prepare_with(made.as_doc(), update.sets_empty_timestamps())?;
    let doc = DocBuf::from_bytes(accept_new(collection, RawDoc::new(&prepared))?.into_owned());
    collection.validate(doc.as_doc(), bypass)?;
    let stored = write::insert_image(txn, collection, doc.as_doc())?;
    write::trim_capped(txn, collection)?;
    as_seen(collection, stored.unwrap_or(doc))
}

/// Returns a target that selects all documents.
///
/// # Errors
/// Never: the empty filter always compiles.
pub fn everything() -> Result<Target<'static>> {
    let filter = Arc::new(Filter::parse(RawDoc::empty(), &ParseContext::new(0))?);
    Ok(Target { query: RawDoc::empty(), filter, sort: None, hint: None, reads: None })
}

/// Compiles the parts of a target.
///
/// # Errors
/// Errors of the filter, the sort or the hint.
pub fn target<'a>(
    context: &ParseContext<'_>,
    query: RawDoc<'a>,
    sort: Option<RawDoc<'a>>,
    hint: Option<Val<'a>>,
) -> Result<Target<'a>> {
    let filter = Arc::new(Filter::parse(query, context)?);
    let (sort, natural) = parse_sort(sort, context.collation)?;
    refuse_index_with_natural(hint, natural)?;
    Ok(Target { query, filter, sort, hint: hint.or(natural), reads: None })
}
