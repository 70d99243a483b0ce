//! What declaring patterns does to existing documents: values that are replaced, names that no
//! document has, and how much is written. Nothing is changed here.

use super::{TransactionDocuments, backfill, declare};
use crate::catalog::Catalog;
use crate::layout::{self, DocumentRange};
use crate::txn::{Data, Transaction};
use ::patterns::scratch::Scratch;
use ::patterns::{Pattern, Pending, Phase, labels, paths};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Bytes, Space};
use value::path::{Path, walk};
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer, compare};

/// Maximum number of samples of each field.
const SAMPLES_MAX: usize = 3;

/// The numbers of patterns that are only tried. No declared pattern has such a number.
const TRIAL_ID: u32 = u32::MAX - 1;

/// What a written document costs, besides reading and deriving it.
const WRITE_COST: Duration = Duration::from_micros(20);

/// What declaring patterns does.
#[derive(Default)]
pub struct Preview {
    /// Values that documents hold and that become others.
    replaced: Vec<Replaced>,
    /// A pattern and what is odd about its declaration.
    warnings: Vec<(String, String)>,
    /// How many documents are written.
    documents: u64,
    /// How many bytes they have.
    bytes: u64,
    /// How long that takes.
    time: Duration,
}

/// Replaced values of one field.
struct Replaced {
    pattern: String,
    field: String,
    documents: u64,
    /// `{_id, was, becomes}`.
    samples: Vec<DocBuf>,
}

impl Preview {
    /// Writes the fields of the reply.
    pub fn write(&self, out: &mut Writer<'_>) {
        self.write_replaced(out);
        out.array("warnings", |list| {
            for (pattern, message) in &self.warnings {
                list.push_doc(|out| {
                    out.str("pattern", pattern).str("message", message);
                });
            }
        });
        out.doc("estimate", |out| {
            out.count("documents", self.documents).count("bytes", self.bytes);
            out.count("ms", u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX));
        });
    }

    fn write_replaced(&self, out: &mut Writer<'_>) {
        out.array("replaced", |list| {
            for replaced in &self.replaced {
                list.push_doc(|out| {
                    out.str("pattern", &replaced.pattern).str("field", &replaced.field);
                    out.count("documents", replaced.documents);
                    out.array("samples", |list| {
                        let samples = replaced.samples.iter();
                        samples.for_each(|sample| list.push(Val::Document(sample.as_doc())));
                    });
                });
            }
        });
    }

    /// Refuses to replace anything.
    ///
    /// # Errors
    /// PatternViolation with the first field.
    pub fn refuse(&self) -> Result<()> {
        let Some(first) = self.replaced.first() else { return Ok(()) };
        let number = match first.documents {
            1 => "1 document holds".to_owned(),
            number => format!("{number} documents hold"),
        };
        let error = Error::new(
            Code::PATTERN_VIOLATION,
            format!(
                "{number} another value in '{}', which the pattern '{}' would maintain, and \
                 existing is 'refuse'",
                first.field, first.pattern
            ),
        );
        Err(error.with_info(DocBuf::build(|out| self.write_replaced(out))))
    }

    fn note(
        &mut self,
        pattern: &Pattern,
        field: &str,
        id: Val<'_>,
        was: Val<'_>,
        is: Option<Val<'_>>,
    ) {
        let known = |r: &&mut Replaced| r.pattern == pattern.name && r.field == field;
        let replaced = match self.replaced.iter_mut().find(known) {
            Some(replaced) => replaced,
            None => {
                let (pattern, field) = (pattern.name.clone(), field.to_owned());
                self.replaced.push(Replaced { pattern, field, documents: 0, samples: Vec::new() });
                match self.replaced.last_mut() {
                    Some(last) => last,
                    None => return,
                }
            }
        };
        replaced.documents += 1;
        if replaced.samples.len() < SAMPLES_MAX {
            replaced.samples.push(DocBuf::build(|out| {
                out.append("_id", id).append("was", was);
                if let Some(is) = is {
                    out.append("becomes", is);
                }
            }));
        }
    }
}

/// Looks at what declaring patterns does. `whole` derives every document, for a declaration that is
/// only tried; otherwise documents are only derived if some hold a value where one is maintained.
///
/// # Errors
/// What a build of the patterns would fail with, if `whole`; that the operation was stopped.
pub fn preview(
    data: &Data,
    db: &str,
    patterns: &[&Pattern],
    whole: bool,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Preview> {
    let started = Instant::now();
    let mut preview = Preview::default();
    let mut txn = data.reader();
    for pattern in patterns {
        warn(&txn, db, pattern, patterns, &mut preview, stop)?;
    }
    let order = ::patterns::graph::order(patterns)?;
    for (number, at) in order.iter().enumerate() {
        let Some(pattern) = patterns.get(*at) else { continue };
        let later = order.iter().skip(number + 1).filter_map(|at| patterns.get(*at));
        let is_read = later.clone().any(|later| {
            let mut reads = later.reads().into_iter();
            reads.any(|(collection, _)| *collection == pattern.target)
        });
        if pattern.is_pointer() || pattern.layout().is_some() || pattern.shape().is_some() {
            // Nothing is derived that is stored.
            estimate(&txn.catalog, db, pattern, &mut preview);
            continue;
        }
        let needed = whole || is_read || holds_values(&txn, db, pattern, stop)?;
        if !needed {
            estimate(&txn.catalog, db, pattern, &mut preview);
            continue;
        }
        let id = TRIAL_ID - u32::try_from(number).unwrap_or(0);
        let trial = pattern.altered(|trial| (trial.id, trial.phase) = (id, Phase::Building))?;
        match derive_all(&mut txn, db, &Arc::new(trial), is_read, &mut preview, stop) {
            Ok(()) => {}
            // The build fails in the same way and says so.
            Err(error) if !whole && error.code() != Code::INTERRUPTED => stop()?,
            Err(error) => return Err(backfill::cannot_be_built(pattern, &error.to_string())),
        }
    }
    let writes = u32::try_from(preview.documents).unwrap_or(u32::MAX);
    preview.time = preview.time.max(started.elapsed()) + WRITE_COST.saturating_mul(writes);
    Ok(preview)
}

/// Adds what a pattern writes to all documents of its target, without reading them.
fn estimate(catalog: &Catalog, db: &str, pattern: &Pattern, preview: &mut Preview) {
    if pattern.is_pointer() {
        return;
    }
    if let Some(target) = catalog.get(db, &pattern.target) {
        preview.documents += target.counters.documents();
        preview.bytes += target.counters.bytes();
    }
}

fn range(txn: &Transaction, db: &str, name: &str) -> Result<Option<DocumentRange>> {
    let Some(collection) = txn.catalog.get(db, name) else { return Ok(None) };
    layout::all(collection, &txn.snapshot).map(Some)
}

/// Visits the documents of a collection until `visit` returns false.
fn each(
    txn: &Transaction,
    db: &str,
    name: &str,
    stop: &dyn Fn() -> Result<()>,
    visit: &mut dyn FnMut(RawDoc<'_>) -> bool,
) -> Result<()> {
    let Some(mut range) = range(txn, db, name)? else { return Ok(()) };
    let mut count = 0_u64;
    while let Some((_, doc)) = range.next_entry()? {
        count += 1;
        if count.is_multiple_of(1000) {
            stop()?;
        }
        if !visit(RawDoc::new(&doc)) {
            break;
        }
    }
    Ok(())
}

/// The value at a path; through arrays, the array of all values.
fn value_at(doc: RawDoc<'_>, path: &Path) -> Option<OwnedVal> {
    if let Some(value) = path.find(doc) {
        return Some(OwnedVal::new(value.get()));
    }
    let mut bytes = Vec::new();
    let mut count = 0;
    value::writer::write_array(&mut bytes, |list| {
        let _ = walk::<()>(doc, path.parts(), false, &mut |found| {
            if !found.value.is_missing() {
                count += 1;
                list.push(found.value);
            }
            ControlFlow::Continue(())
        });
    });
    (count > 0).then(|| OwnedVal::new(Val::Array(RawDoc::new(&bytes))))
}

/// Whether a document has a value at a path.
fn has(doc: RawDoc<'_>, path: &Path) -> bool {
    let found = walk(doc, path.parts(), false, &mut |found| match found.value.is_missing() {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    found.is_break()
}

/// Whether a document of the target has a value where the pattern maintains one.
fn holds_values(
    txn: &Transaction,
    db: &str,
    pattern: &Pattern,
    stop: &dyn Fn() -> Result<()>,
) -> Result<bool> {
    let mut found = false;
    each(txn, db, &pattern.target, stop, &mut |doc| {
        found = pattern.kept.iter().any(|path| has(doc, path));
        !found
    })?;
    Ok(found)
}

/// Derives all targets. With `keeps`, later patterns of the same declaration see them.
fn derive_all(
    txn: &mut Transaction,
    db: &str,
    trial: &Arc<Pattern>,
    keeps: bool,
    preview: &mut Preview,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    trial.kind.begin_build(trial, &mut TransactionDocuments::new(txn, db))?;
    let mut scratch = Scratch::default();
    if let Some(source) = trial.source().filter(|_| trial.traits.records_of_sources) {
        read_sources(txn, db, trial, source, &mut scratch, stop)?;
    }
    let known = trial.kind.begin_check(trial, &mut TransactionDocuments::new(txn, db))?;
    let mut range = range(txn, db, &trial.target)?;
    let mut images: Vec<(Bytes, DocBuf)> = Vec::new();
    let mut count = 0_u64;
    while let Some((key, bytes)) = range.as_mut().map_or(Ok(None), DocumentRange::next_entry)? {
        count += 1;
        if count.is_multiple_of(1000) {
            stop()?;
        }
        let doc = RawDoc::new(&bytes);
        let mut documents = TransactionDocuments::new(txn, db);
        let image = trial.kind.built(trial, &mut documents, &mut scratch, doc, &known);
        let image = image.map_err(|error| ::patterns::error_context::on_document(doc, error))?;
        if image.as_doc() == doc {
            continue;
        }
        preview.documents += 1;
        preview.bytes += image.bytes().len() as u64;
        let id = doc.get("_id").unwrap_or(Val::Null);
        for path in &trial.kept {
            let Some(was) = value_at(doc, path) else { continue };
            let is = value_at(image.as_doc(), path);
            if !is.as_ref().is_some_and(|is| compare::equal(is.get(), was.get())) {
                let is = is.as_ref().map(OwnedVal::get);
                preview.note(trial, path.text(), id, was.get(), is);
            }
        }
        if keeps {
            images.push((key, image));
        }
    }
    if trial.owns_documents() {
        let mut documents = TransactionDocuments::new(txn, db);
        let none = BTreeSet::new();
        let missing = trial.kind.missing_documents(trial, &mut documents, &mut scratch, &none)?;
        for id in missing.ids {
            let made = DocBuf::build(|out| {
                out.append("_id", id.get());
            });
            let image = trial.kind.derive(trial, &mut scratch, made.as_doc())?;
            preview.documents += 1;
            preview.bytes += image.bytes().len() as u64;
        }
    }
    for (key, image) in images {
        txn.put(Space::Documents, key, image.into_bytes().into());
    }
    Ok(())
}

/// Folds the sources into records in memory.
fn read_sources(
    txn: &mut Transaction,
    db: &str,
    trial: &Arc<Pattern>,
    source: &str,
    scratch: &mut Scratch,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Some(mut range) = range(txn, db, source)? else { return Ok(()) };
    let mut pending = Pending::default();
    let mut count = 0_u64;
    while let Some((_, doc)) = range.next_entry()? {
        let doc = RawDoc::new(&doc);
        let mut documents = TransactionDocuments::new(txn, db);
        let delta = trial.kind.recount(trial, &mut documents, doc, &|_| true);
        let delta = delta.map_err(|error| ::patterns::error_context::on_document(doc, error))?;
        if let Some(delta) = delta {
            pending.add_delta(trial, delta);
        }
        count += 1;
        if count.is_multiple_of(1000) {
            stop()?;
            while let Some(settlement) = pending.pop() {
                settlement.settle(scratch)?;
            }
        }
    }
    while let Some(settlement) = pending.pop() {
        settlement.settle(scratch)?;
    }
    Ok(())
}

/// Adds warnings about collections and fields that do not exist. `all` are the patterns of the same
/// declaration.
fn warn(
    txn: &Transaction,
    db: &str,
    pattern: &Pattern,
    all: &[&Pattern],
    preview: &mut Preview,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let source = pattern.source().unwrap_or(&pattern.target);
    if source != pattern.target && txn.catalog.get(db, source).is_none() {
        let message = format!("there is no collection '{source}' yet");
        preview.warnings.push((pattern.name.clone(), message));
    }
    // Fields that are maintained come into being.
    let known = txn.catalog.patterns(db).iter().map(|known| &**known);
    let others: Vec<&Pattern> = known.chain(all.iter().copied()).collect();
    let is_made = |collection: &str, path: &str| {
        others.iter().any(|other| {
            other.target == collection
                && other.kept.iter().any(|kept| paths::meet(kept.text(), path))
        })
    };
    let joins = pattern.kind.joins();
    let of_fields = labels::of(pattern).into_iter();
    let of_fields = of_fields.flat_map(|label| {
        let collection = label.collection;
        label.sources.into_iter().map(move |path| (collection.clone(), path))
    });
    let of_source = joins.source.into_iter().map(|path| (source.to_owned(), path));
    let of_target = joins.target.into_iter().map(|path| (pattern.target.clone(), path));
    let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (collection, path) in of_source.chain(of_target).chain(of_fields) {
        let paths = wanted.entry(collection.clone()).or_default();
        if !path.is_empty() && !paths.contains(&path) && !is_made(&collection, &path) {
            paths.push(path);
        }
    }
    for (collection, paths) in wanted {
        let mut missing: Vec<Path> = paths.iter().map(|path| Path::new(path)).collect();
        let mut is_empty = true;
        each(txn, db, &collection, stop, &mut |doc| {
            is_empty = false;
            missing.retain(|path| !has(doc, path));
            !missing.is_empty()
        })?;
        for path in missing.iter().filter(|_| !is_empty) {
            let message = format!("no document of '{collection}' has the field '{}'", path.text());
            preview.warnings.push((pattern.name.clone(), message));
        }
    }
    Ok(())
}

/// The patterns of a declaration that are new, or replace one that could not be built.
#[must_use]
pub fn new_ones<'p>(
    catalog: &Catalog,
    db: &str,
    collection: &str,
    patterns: &'p [Pattern],
) -> Vec<&'p Pattern> {
    let is_new = |pattern: &&Pattern| match declare::find(catalog, db, collection, &pattern.name) {
        Ok(known) => known.phase == Phase::Failed,
        Err(_) => true,
    };
    patterns.iter().filter(is_new).collect()
}
