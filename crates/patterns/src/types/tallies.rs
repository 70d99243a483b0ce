//! Counts of documents by type, kept as records of the pattern.
//!
//! | key | record |
//! |---|---|
//! | `KNOWN` + type | how many documents have the type, and their bytes |
//! | `UNKNOWN` | the same for types that are not declared |
//! | `FOREIGN` + field | how many documents have a field that does not belong to their type |
//! | `UNRESOLVED` | how many documents have no type, or are not valid for it |
//! | `UNRESOLVED_ID` + `_id` | one of these |

use super::{Found, Types};
use crate::delta::OwnDeltas;
use crate::documents::Documents;
use crate::pattern::Pattern;
use crate::scratch::Scratch;
use std::any::Any;
use std::collections::BTreeMap;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, keys};

const KNOWN: u8 = 5;
const UNKNOWN: u8 = 6;
const FOREIGN: u8 = 7;
const UNRESOLVED: u8 = 8;
const UNRESOLVED_ID: u8 = 9;

/// How many unresolved documents `listPatterns` names.
const IDS_MAX: usize = 3;

/// Changes of counts, by their keys.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    changes: BTreeMap<Vec<u8>, Change>,
    documents: usize,
}

/// The change of one count.
#[derive(Debug, Default)]
struct Change {
    documents: i64,
    bytes: i64,
    id: Option<OwnedVal>,
}

impl Change {
    fn is_nothing(&self) -> bool {
        self.documents == 0 && self.bytes == 0
    }
}

impl OwnDeltas for Tallies {
    fn merge(&mut self, later: Box<dyn OwnDeltas>) {
        let later: Box<dyn Any> = later;
        let Ok(later) = later.downcast::<Tallies>() else { return };
        for (key, change) in later.changes {
            let known = self.changes.entry(key).or_default();
            known.documents += change.documents;
            known.bytes += change.bytes;
            known.id = change.id.or(known.id.take());
        }
        self.documents += later.documents;
    }

    fn count(&self) -> usize {
        self.documents
    }
}

impl Tallies {
    fn add(&mut self, key: Vec<u8>, sign: i64, bytes: usize) -> &mut Change {
        let change = self.changes.entry(key).or_default();
        change.documents += sign;
        change.bytes += sign * bytes as i64;
        change
    }
}

fn key(sort: u8, name: &[u8]) -> Vec<u8> {
    [&[sort], name].concat()
}

fn number(doc: RawDoc<'_>, name: &str) -> i64 {
    doc.get(name).and_then(Val::as_i64_exact).unwrap_or(0)
}

/// The key of the count of a type.
pub(super) fn known(name: &str) -> Vec<u8> {
    key(KNOWN, name.as_bytes())
}

/// The key of the count of types that are not declared.
pub(super) fn unknown() -> Vec<u8> {
    vec![UNKNOWN]
}

/// The key of the count of documents that have a field of another type.
pub(super) fn foreign(field: &str) -> Vec<u8> {
    key(FOREIGN, field.as_bytes())
}

/// The number of documents in a count.
pub(super) fn documents(record: RawDoc<'_>) -> i64 {
    number(record, "n")
}

impl Types {
    /// The change of counts by the change of a document; `None` if there is none.
    ///
    /// # Errors
    /// When the operation is stopped.
    pub(super) fn tallies(
        &self,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Option<Box<Tallies>>> {
        let mut tallies = Tallies { documents: 1, ..Tallies::default() };
        for (doc, sign) in [(before, -1), (after, 1)] {
            if let Some(doc) = doc {
                self.count(doc, sign, &mut tallies)?;
            }
        }
        tallies.changes.retain(|_, change| !change.is_nothing());
        Ok((!tallies.changes.is_empty()).then(|| Box::new(tallies)))
    }

    /// Adds a document to the counts, or takes it from them.
    fn count(&self, doc: RawDoc<'_>, sign: i64, tallies: &mut Tallies) -> Result<()> {
        let found = self.found(doc);
        let bytes = doc.bytes().len();
        match found {
            Found::Known(at) => {
                let name = self.at(at).map_or("", |of| &of.name);
                tallies.add(known(name), sign, bytes);
            }
            Found::Unknown(_) => {
                tallies.add(unknown(), sign, bytes);
            }
            Found::Nothing => {}
        }
        for (name, _) in doc {
            let Some(owners) = self.owners.get(name) else { continue };
            if !matches!(found, Found::Known(at) if owners.contains(&at)) {
                tallies.add(foreign(name), sign, 0);
            }
        }
        if !self.conforms(doc)? {
            tallies.add(vec![UNRESOLVED], sign, 0);
            let id = doc.get("_id").unwrap_or(Val::Null);
            let change = tallies.add(key(UNRESOLVED_ID, &keys::key(id)), sign, 0);
            change.id = Some(OwnedVal::new(id));
        }
        Ok(())
    }
}

impl Tallies {
    /// Applies the changes to the records.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn settle(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<()> {
        for (key, change) in &self.changes {
            if change.is_nothing() {
                continue;
            }
            if key.first() == Some(&UNRESOLVED_ID) {
                let id = change.id.as_ref().filter(|_| change.documents > 0);
                let record = id.map(|id| {
                    DocBuf::build(|out| {
                        out.append("_id", id.get());
                    })
                });
                documents.set_state(pattern.id, key, record)?;
                continue;
            }
            let known = documents.state(pattern.id, key)?;
            let of = |name| known.as_ref().map_or(0, |known| number(known.as_doc(), name));
            let (count, bytes) = (of("n") + change.documents, of("b") + change.bytes);
            let record = (count != 0 || bytes != 0).then(|| {
                DocBuf::build(|out| {
                    out.i64("n", count).i64("b", bytes);
                })
            });
            documents.set_state(pattern.id, key, record)?;
        }
        Ok(())
    }
}

/// What the records say.
#[derive(Default)]
pub(super) struct Totals {
    /// Documents and bytes of each declared type.
    pub(super) types: Vec<(i64, i64)>,
    /// The same for types that are not declared.
    pub(super) unknown: (i64, i64),
    /// Documents without a type, or not valid for it.
    pub(super) unresolved: i64,
    /// The first `_id`s of these.
    pub(super) ids: Vec<OwnedVal>,
}

impl Types {
    /// Reads all counts.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn totals(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
    ) -> Result<Totals> {
        let mut read = |key: &[u8]| -> Result<(i64, i64)> {
            let record = documents.state(pattern.id, key)?;
            Ok(record.map_or((0, 0), |doc| (number(doc.as_doc(), "n"), number(doc.as_doc(), "b"))))
        };
        let mut totals = Totals::default();
        for of in &self.all {
            totals.types.push(read(&known(&of.name))?);
        }
        totals.unknown = read(&unknown())?;
        totals.unresolved = read(&[UNRESOLVED])?.0;
        documents.states(pattern.id, &[UNRESOLVED_ID], &[], &mut |_, doc| {
            totals.ids.push(OwnedVal::new(doc.get("_id").unwrap_or(Val::Null)));
            Ok(totals.ids.len() < IDS_MAX)
        })?;
        Ok(totals)
    }

    /// Whether the records differ from recomputed ones.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn has_wrong_tallies(
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &Scratch,
    ) -> Result<bool> {
        let (mut kept, mut same) = (0, true);
        for sort in KNOWN..=UNRESOLVED_ID {
            documents.states(pattern.id, &[sort], &[], &mut |key, doc| {
                kept += 1;
                same = records.states.get(key).is_some_and(|expected| expected.as_doc() == doc);
                Ok(same)
            })?;
            if !same {
                return Ok(true);
            }
        }
        Ok(kept != records.states.len())
    }
}
