//! Comparing what is maintained with a recomputation, at one moment.

use super::{Opened, build};
use crate::engine::Inner;
use crate::store_failed;
use crate::txn::Transaction;
use ::patterns::pattern::Behaviour;
use ::patterns::{Documents, Find, Pattern, Pending, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{Bytes, Range, Space};
use value::path::Path;
use value::{DocBuf, Error, OwnedVal, RawDoc, Result, Val};

/// Samples of what is wrong beyond this many are only counted.
const SAMPLES_MAX: usize = 100;

/// What a check found.
#[derive(Default)]
pub struct Report {
    /// Documents that were looked at.
    pub checked: u64,
    /// Values that are wrong.
    pub drift: u64,
    /// Some of them.
    pub samples: Vec<DocBuf>,
}

/// Checks a pattern at one moment.
///
/// # Errors
/// When the store fails or the operation is stopped.
pub fn check(
    engine: &Inner,
    db: &str,
    pattern: &Arc<Pattern>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Report> {
    let mut txn = engine.reader();
    let mut report = Report::default();
    // A pattern that is being built trusts nothing but sources, and writes no targets.
    let fresh = Arc::new(pattern.altered(|fresh| fresh.phase = Phase::Building)?);
    let mut scratch = Scratch { states: BTreeMap::new() };
    if let Behaviour::Grouped(grouped) = &fresh.behaviour {
        let mut pending = Pending::default();
        let mut count = 0_u64;
        let mut range = range(&txn, db, &grouped.source)?;
        while let Some((_, doc)) = next(&mut range)? {
            if let Some(child) = grouped.child(RawDoc::new(&doc))? {
                pending.add_child(&fresh, child);
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
    let mut there: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut range = range(&txn, db, &pattern.target)?;
    while let Some((key, doc)) = next(&mut range)? {
        let doc = RawDoc::new(&doc);
        if pattern.owns_documents() {
            there.insert(key.get(4..).unwrap_or(&[]).to_vec());
        }
        report.checked += 1;
        if report.checked.is_multiple_of(1000) {
            stop()?;
        }
        let expected = match &fresh.behaviour {
            Behaviour::Grouped(_) => build::image(&fresh, &mut scratch, doc)?,
            Behaviour::Tree(tree) => {
                tree.recomputed(&fresh, &mut Opened::new(&mut txn, db), doc)?
            }
            _ => build::image(&fresh, &mut Opened::new(&mut txn, db), doc)?,
        };
        compare(pattern, doc, expected.as_doc(), &mut report);
    }
    if pattern.owns_documents() {
        missing_groups(&fresh, &mut scratch, &there, &mut report)?;
    }
    Ok(report)
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

/// Notes groups that have no document.
fn missing_groups(
    pattern: &Pattern,
    scratch: &mut Scratch,
    there: &BTreeSet<Vec<u8>>,
    report: &mut Report,
) -> Result<()> {
    let mut missing: Vec<OwnedVal> = Vec::new();
    scratch.states(pattern.id, &[1], &[], &mut |key, doc| {
        if !there.contains(key.get(1..).unwrap_or(&[])) {
            missing.push(OwnedVal::new(doc.get("k").unwrap_or(Val::Null)));
        }
        Ok(true)
    })?;
    for id in missing {
        note(report, id.get(), "", None, Some(id.clone()));
    }
    Ok(())
}

/// The documents of a collection; none if it is not there.
fn range(txn: &Transaction, db: &str, name: &str) -> Result<Option<Range>> {
    let Some(collection) = txn.catalog.get(db, name) else { return Ok(None) };
    let to = (collection.id + 1).to_be_bytes();
    txn.range(Space::Documents, &collection.prefix(), &to).map(Some)
}

fn next(range: &mut Option<Range>) -> Result<Option<(Bytes, Bytes)>> {
    match range {
        Some(range) => range.next_entry().map_err(store_failed),
        None => Ok(None),
    }
}

/// Records of a recomputation, in memory. It has no documents.
struct Scratch {
    states: BTreeMap<Vec<u8>, DocBuf>,
}

fn no_documents() -> Error {
    Error::internal("a recomputation writes no documents")
}

impl Documents for Scratch {
    fn get(&mut self, _: &str, _: Val<'_>) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    fn find(&mut self, _: &Find<'_>, _: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>) -> Result<()> {
        Ok(())
    }

    fn insert(&mut self, _: u32, _: &str, _: &DocBuf) -> Result<()> {
        Err(no_documents())
    }

    fn replace(&mut self, _: u32, _: &str, _: RawDoc<'_>, _: &DocBuf) -> Result<()> {
        Err(no_documents())
    }

    fn delete(&mut self, _: u32, _: &str, _: RawDoc<'_>) -> Result<()> {
        Err(no_documents())
    }

    fn state(&mut self, _: u32, key: &[u8]) -> Result<Option<DocBuf>> {
        Ok(self.states.get(key).cloned())
    }

    fn set_state(&mut self, _: u32, key: &[u8], state: Option<DocBuf>) -> Result<()> {
        match state {
            Some(state) => self.states.insert(key.to_vec(), state),
            None => self.states.remove(key),
        };
        Ok(())
    }

    fn states(
        &mut self,
        _: u32,
        prefix: &[u8],
        after: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        for (key, doc) in self.states.range(prefix.to_vec()..) {
            if !key.starts_with(prefix) {
                break;
            }
            if (after.is_empty() || key.as_slice() > after) && !visit(key, doc.as_doc())? {
                break;
            }
        }
        Ok(())
    }
}
