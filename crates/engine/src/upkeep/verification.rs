//! Comparison of maintained values with a recomputation at one snapshot, and repair of differences.

use super::{TransactionDocuments, declare};
use crate::layout::{self, DocumentRange};
use crate::txn::Data;
use crate::txn::Transaction;
use ::patterns::kind::CheckedPart;
use ::patterns::resolve::Resolver;
use ::patterns::scratch::Scratch;
use ::patterns::stats::Stats;
use ::patterns::{Documents, Pattern, Pending, Phase, queue};
use query::filter::Filter;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use store::Bytes;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val};

/// Maximum number of samples of wrong values. Further ones are only counted.
const SAMPLES_MAX: usize = 100;

/// The result of a check.
#[derive(Default)]
pub struct Report {
    /// Number of documents checked.
    pub checked: u64,
    /// Number of wrong values.
    pub drift: u64,
    /// Samples of wrong values.
    pub samples: Vec<DocBuf>,
    /// How many writes had bypassed the pattern before the check.
    passed: u64,
    /// Documents that were skipped, because updates for them are still in the queue of the pattern.
    pub stale: u64,
    /// The `_id`s of documents with wrong values.
    wrong: Vec<OwnedVal>,
    /// Whether the pattern's own state is wrong, even if no target shows it.
    pub broken: bool,
}

/// One of several parts of the keys of a pattern, chosen by hash.
#[derive(Clone, Copy)]
pub struct KeyPart {
    /// The number of the part, from 0.
    pub at: u64,
    /// The number of parts.
    pub of: u64,
}

impl KeyPart {
    /// All keys.
    pub const WHOLE: KeyPart = KeyPart { at: 0, of: 1 };

    /// Returns whether this part is all keys.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.of <= 1
    }

    fn has(self, key: &[u8]) -> bool {
        if self.is_whole() {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() % self.of == self.at
    }
}

/// The part of a pattern that is checked.
#[derive(Clone, Copy)]
pub struct Scope<'f> {
    /// The part of the keys.
    pub part: KeyPart,
    /// Checks only targets that match this filter, as clients see them.
    pub filter: Option<&'f Filter>,
}

impl Scope<'_> {
    /// The whole pattern.
    pub const WHOLE: Scope<'static> = Scope { part: KeyPart::WHOLE, filter: None };

    /// Returns whether this is the whole pattern.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.part.is_whole() && self.filter.is_none()
    }
}

/// The keys that a check compares.
struct Keys {
    part: KeyPart,
    /// The keys of the targets that match, if the scope has a filter.
    chosen: Option<BTreeSet<Vec<u8>>>,
}

impl Keys {
    /// Determines the keys that a scope selects.
    fn of(
        txn: &Transaction,
        db: &str,
        pattern: &Pattern,
        scope: Scope<'_>,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<Keys> {
        let part = scope.part;
        let Some(filter) = scope.filter else { return Ok(Keys { part, chosen: None }) };
        let mut chosen = BTreeSet::new();
        let target = txn.catalog.get(db, &pattern.target);
        let mut resolver = match target {
            Some(target) => crate::records::resolve::Resolver::of(target, &txn.snapshot)?,
            None => None,
        };
        let (mut range, mut count) = (range(txn, db, &pattern.target)?, 0_u64);
        while let Some((key, doc)) = next(&mut range)? {
            count += 1;
            if count.is_multiple_of(1000) {
                stop()?;
            }
            let doc = RawDoc::new(&doc);
            let matches = match &mut resolver {
                None => filter.matches(doc)?,
                Some(resolver) => {
                    let resolved = resolver.resolve(&txn.snapshot, doc)?;
                    filter.matches(resolved.as_ref().map_or(doc, DocBuf::as_doc))?
                }
            };
            if matches {
                chosen.insert(key_of(pattern, &key, doc));
            }
        }
        Ok(Keys { part, chosen: Some(chosen) })
    }

    fn is_whole(&self) -> bool {
        self.part.is_whole() && self.chosen.is_none()
    }

    fn has(&self, key: &[u8]) -> bool {
        self.part.has(key) && self.chosen.as_ref().is_none_or(|chosen| chosen.contains(key))
    }
}

/// Returns the key by which a check selects a target.
fn key_of(pattern: &Pattern, key: &[u8], doc: RawDoc<'_>) -> Vec<u8> {
    pattern.kind.check_key(key.get(4..).unwrap_or(&[]), doc)
}

/// Checks a pattern, or the part that a scope selects, at one snapshot.
///
/// # Errors
/// When the store fails or the operation is stopped.
pub fn check(
    data: &Data,
    db: &str,
    pattern: &Arc<Pattern>,
    scope: Scope<'_>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Report> {
    let passed = Stats::read(&pattern.stats.passed);
    let mut txn = data.reader();
    let known = txn.catalog.patterns(db).iter().find(|p| p.id == pattern.id);
    let same = |known: &&Arc<Pattern>| {
        known.target == pattern.target && (known.phase.is_built() || !pattern.phase.is_built())
    };
    if known.filter(same).is_none() {
        return Err(Error::new(
            Code::CONFLICTING_OPERATION_IN_PROGRESS,
            format!("the pattern '{}' changed when it was to be checked", pattern.name),
        ));
    }
    let mut report = Report { passed, ..Report::default() };
    let keys = Keys::of(&txn, db, pattern, scope, stop)?;
    // A pattern that is being built relies on sources only, and writes no targets.
    let fresh = Arc::new(pattern.altered(|fresh| fresh.phase = Phase::Building)?);
    let mut scratch = Scratch::default();
    if let Some(source) = fresh.source().filter(|_| fresh.traits.records_of_sources) {
        let mut pending = Pending::default();
        let mut count = 0_u64;
        let mut range = range(&txn, db, source)?;
        while let Some((_, doc)) = next(&mut range)? {
            let has = |key: &[u8]| keys.has(key);
            let mut documents = TransactionDocuments::new(&mut txn, db);
            let doc = RawDoc::new(&doc);
            if let Some(delta) = fresh.kind.recount(pattern, &mut documents, doc, &has)? {
                pending.add_delta(&fresh, delta);
            }
            count += 1;
            if count.is_multiple_of(1000) {
                stop()?;
                while let Some(settlement) = pending.pop() {
                    settlement.settle(&mut scratch)?;
                }
            }
        }
        while let Some(settlement) = pending.pop() {
            settlement.settle(&mut scratch)?;
        }
    }
    let known = fresh.kind.begin_check(&fresh, &mut TransactionDocuments::new(&mut txn, db))?;
    let mut there: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut impossible = false;
    let mut range = range(&txn, db, &pattern.target)?;
    while let Some((key, doc)) = next(&mut range)? {
        let doc = RawDoc::new(&doc);
        if !keys.has(&key_of(pattern, &key, doc)) {
            continue;
        }
        if pattern.owns_documents() {
            there.insert(key.get(4..).unwrap_or(&[]).to_vec());
        }
        report.checked += 1;
        if report.checked.is_multiple_of(1000) {
            stop()?;
        }
        if pattern.is_pointer() {
            check_pointer(
                pattern,
                &fresh,
                &mut TransactionDocuments::new(&mut txn, db),
                doc,
                &mut report,
            )?;
            continue;
        }
        let mut documents = TransactionDocuments::new(&mut txn, db);
        let expected = fresh.kind.expected(&fresh, &mut documents, &mut scratch, doc, &known);
        let expected = match expected {
            Ok(expected) => expected,
            // Writes that bypassed the pattern may be ones that it would have refused.
            Err(error) if error.code() == Code::PATTERN_VIOLATION => {
                let why = OwnedVal::new(Val::String(error.message()));
                note(&mut report, doc.get("_id").unwrap_or(Val::Null), "", None, Some(why));
                impossible = true;
                continue;
            }
            Err(error) => return Err(error),
        };
        if expected.as_doc() == doc {
            continue;
        }
        if pattern.may_queue()
            && queue::is_stale(pattern, &mut TransactionDocuments::new(&mut txn, db), doc)?
        {
            report.stale += 1;
            continue;
        }
        let before = report.drift;
        compare(pattern, doc, expected.as_doc(), &mut report);
        if report.drift > before {
            report.wrong.push(OwnedVal::new(doc.get("_id").unwrap_or(Val::Null)));
        }
    }
    let mut documents = TransactionDocuments::new(&mut txn, db);
    // Missing documents cannot be tested against a filter.
    if pattern.owns_documents() && scope.filter.is_none() {
        let missing =
            pattern.kind.missing_documents(pattern, &mut documents, &mut scratch, &there)?;
        report.stale += missing.stale;
        for id in missing.ids {
            note(&mut report, id.get(), "", None, Some(id.clone()));
        }
    }
    let has = |key: &[u8]| keys.has(key);
    let part = CheckedPart { is_whole: keys.is_whole(), has: &has, drift: report.drift };
    let wrong = pattern.kind.has_wrong_records(pattern, &mut documents, &scratch, &part)?;
    report.broken = impossible || wrong;
    Ok(report)
}

/// Checks a document of a pattern that stores no values. Its fields must not be stored, and the
/// counted values that readers see must equal a recomputation.
fn check_pointer(
    pattern: &Arc<Pattern>,
    fresh: &Arc<Pattern>,
    documents: &mut TransactionDocuments<'_>,
    doc: RawDoc<'_>,
    report: &mut Report,
) -> Result<()> {
    let known = report.drift;
    let stored = fresh.kind.derive(fresh, documents, doc)?;
    compare(pattern, doc, stored.as_doc(), report);
    if report.drift > known {
        report.wrong.push(OwnedVal::new(doc.get("_id").unwrap_or(Val::Null)));
    }
    let expected = fresh.kind.expected_by_readers(fresh, documents, stored.as_doc())?;
    let resolver = Resolver::new(std::slice::from_ref(pattern), documents)?;
    let (Some(expected), Some(mut resolver)) = (expected, resolver) else { return Ok(()) };
    let resolved = resolver.resolve(documents, stored.as_doc())?;
    let known = report.drift;
    compare(pattern, resolved.as_doc(), expected.as_doc(), report);
    // Only counted values can differ, and they are stored apart from the documents.
    report.broken |= report.drift > known;
    Ok(())
}

/// Returns how many of the first 100,000 targets wait for a source; `None` if the kind has no such
/// targets or the pattern is not built.
///
/// # Errors
/// When the store fails.
pub fn awaiting(data: &Data, db: &str, pattern: &Pattern) -> Result<Option<u64>> {
    const TARGETS_MAX: usize = 100_000;
    if !pattern.traits.awaits || !pattern.phase.is_built() {
        return Ok(None);
    }
    let mut txn = data.reader();
    let mut targets = range(&txn, db, &pattern.target)?;
    let mut documents = TransactionDocuments::new(&mut txn, db);
    let (mut count, mut cache) = (0, pattern.kind.reader_cache());
    for _ in 0..TARGETS_MAX {
        let Some((_, doc)) = next(&mut targets)? else { break };
        let doc = RawDoc::new(&doc);
        count += u64::from(pattern.kind.is_awaiting(pattern, &mut documents, doc, &mut cache)?);
    }
    Ok(Some(count))
}

/// Repairs the values that a check found wrong: targets are derived again from the current state,
/// in short commits. Returns whether that is sufficient; wrong state of the pattern requires a
/// rebuild.
///
/// # Errors
/// When a target cannot be written, or the operation is stopped.
pub fn repair(
    data: &Data,
    db: &str,
    pattern: &Arc<Pattern>,
    report: &Report,
    stop: &dyn Fn() -> Result<()>,
) -> Result<bool> {
    if report.broken || (report.wrong.is_empty() && report.drift > 0) {
        return Ok(false);
    }
    for ids in report.wrong.chunks(50) {
        stop()?;
        data.transact_alone(stop, true, |txn| {
            let now = txn.catalog.patterns(db).iter().find(|p| p.id == pattern.id).cloned();
            let Some(now) = now.filter(|now| now.phase.is_built()) else { return Ok(()) };
            let mut documents = TransactionDocuments::new(txn, db);
            for id in ids {
                let Some(doc) = documents.get(&now.target, id.get())? else { continue };
                let image = now.kind.derive(&now, &mut documents, doc.as_doc())?;
                if image != doc {
                    documents.replace(now.id, &now.target, doc.as_doc(), &image)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(true)
}

/// Records the result of a check. A pattern with wrong values answers no queries until it is
/// repaired.
///
/// # Errors
/// When the catalog cannot be written.
pub fn mark(
    data: &Data,
    db: &str,
    pattern: &Pattern,
    report: &Report,
    repaired: bool,
) -> Result<()> {
    let right = repaired || (report.drift == 0 && !report.broken);
    match pattern.phase {
        Phase::Ready if !right => {
            declare::set_phase(data, db, pattern.id, Phase::Degraded, "its values were wrong")
        }
        Phase::Degraded if right => data.change_catalog(|catalog, batch| {
            let known = catalog.patterns(db).iter().find(|p| p.id == pattern.id).cloned();
            let Some(known) = known.filter(|known| known.phase == Phase::Degraded) else {
                return Ok(());
            };
            // Writes that bypassed the pattern since the check were not checked.
            if Stats::read(&known.stats.passed) != report.passed {
                return Ok(());
            }
            let ready = known.altered(|pattern| {
                pattern.phase = Phase::Ready;
                pattern.failure.clear();
            })?;
            declare::put(catalog, batch, db, ready)
        }),
        _ => Ok(()),
    }
}

fn compare(pattern: &Pattern, found: RawDoc<'_>, expected: RawDoc<'_>, report: &mut Report) {
    if found == expected {
        return;
    }
    for path in pattern.maintains() {
        let at = Path::new(&path);
        let value = |doc| at.find(doc).map(|value| OwnedVal::new(value.get()));
        let (is, should) = (value(found), value(expected));
        if is != should {
            note(report, found.get("_id").unwrap_or(Val::Null), &path, is, should);
        }
    }
}

fn note(
    report: &mut Report,
    id: Val<'_>,
    path: &str,
    maintained: Option<OwnedVal>,
    expected: Option<OwnedVal>,
) {
    report.drift += 1;
    if report.samples.len() < SAMPLES_MAX {
        report.samples.push(DocBuf::build(|out| {
            out.append("_id", id).str("path", path);
            for (name, value) in [("maintained", maintained), ("expected", expected)] {
                if let Some(value) = value {
                    out.raw(name, value.raw());
                }
            }
        }));
    }
}

/// Returns the documents of a collection; `None` if it does not exist.
fn range(txn: &Transaction, db: &str, name: &str) -> Result<Option<DocumentRange>> {
    let Some(collection) = txn.catalog.get(db, name) else { return Ok(None) };
    layout::all(collection, &txn.snapshot).map(Some)
}

fn next(range: &mut Option<DocumentRange>) -> Result<Option<(Bytes, Bytes)>> {
    match range {
        Some(range) => range.next_entry(),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use crate::records::write;
    use query::update::delta::LoggedUpdate;
    use value::{DocBuf, RawDoc, Val, ejson};

    /// Simulates a bug: overwrites a maintained value without its pattern.
    fn spoil(engine: &Engine, name: &str, id: i32, image: &str) {
        let inner = engine.inner();
        let image = ejson::parse_doc(image).expect("test text");
        let spoiled = inner.data.transact_alone(&|| Ok(()), true, |txn| {
            let collection = txn.catalog.get("t", name).cloned().expect("is there");
            let record = write::record_of_id(&collection, Val::Int32(id));
            let key = write::document_key(&collection, &record);
            let old = txn.document(&collection, &key)?.expect("is there");
            let old = RawDoc::new(&old);
            write::replace_plain(txn, &collection, &record, old, &image, &LoggedUpdate::Replacement)
        });
        spoiled.expect("works");
    }

    #[test]
    fn drift_is_found_makes_degraded_and_is_repaired() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).expect("works")
        };
        let report = |text: &str, name: &str| {
            let reply = run(text);
            let list = reply.as_doc().get("patterns").and_then(Val::as_array).expect("reports");
            let first = list.first().and_then(|(_, r)| r.as_doc()).map(DocBuf::from);
            first.and_then(|r| r.as_doc().get(name).and_then(Val::as_i64_exact)).expect("a count")
        };
        let state = || {
            let catalog = engine.inner().data.catalog.load();
            catalog.patterns("t").first().map(|pattern| pattern.phase.name())
        };
        run("{insert: 'p', documents: [{_id: 1}, {_id: 2}]}");
        run("{insert: 'c', documents: [{_id: 1, p: 1, x: 5}, {_id: 2, p: 1, x: 6}]}");
        run(
            "{createPatterns: 'p', patterns: [{name: 's', kind: 'computed', from: 'c', on: {foreign: 'p'}, fields: {s: {$sum: '$x'}}}]}",
        );
        // A wrong target is derived again.
        spoil(&engine, "p", 1, "{_id: 1, s: 99}");
        assert_eq!(report("{validatePatterns: 'p'}", "drift"), 1);
        assert_eq!(state(), Some("degraded"));
        assert_eq!(report("{validatePatterns: 'p', repair: true}", "repaired"), 1);
        assert_eq!((report("{validatePatterns: 'p'}", "drift"), state()), (0, Some("ready")));
        // A source that bypassed its pattern makes the records wrong: everything is rebuilt.
        spoil(&engine, "c", 2, "{_id: 2, p: 2, x: 7}");
        assert_eq!(report("{validatePatterns: 'p'}", "drift"), 2);
        assert_eq!(report("{validatePatterns: 'p', repair: true}", "repaired"), 2);
        assert_eq!((report("{validatePatterns: 'p'}", "drift"), state()), (0, Some("ready")));
        // Renamed collections keep their patterns.
        let rename = |from: &str, to: &str| {
            let text = format!("{{renameCollection: 't.{from}', to: 't.{to}'}}");
            let command = ejson::parse_doc(&text).expect("test text");
            engine.run_command("admin", command.as_doc()).expect("works");
        };
        rename("c", "d");
        rename("p", "q");
        run("{insert: 'd', documents: [{_id: 3, p: 1, x: 1}]}");
        let found = run("{find: 'q', filter: {_id: 1}}");
        assert!(format!("{found:?}").contains("\"s\": Int32(6)"), "{found:?}");
        assert_eq!(report("{validatePatterns: 'q'}", "drift"), 0);
        let status = run("{serverStatus: 1}");
        let patterns = status.as_doc().get("patterns").and_then(Val::as_doc).expect("a section");
        assert_eq!(patterns.get("ready").and_then(Val::as_i64_exact), Some(1));
    }
}
