//! Documents of one collection (children) folded by a key into documents of another one.
//!
//! For each key there is a record that clients never see: how many children it has and what each
//! field needs to follow single changes (`fold`). It is kept whether a target is there or not, so
//! that a parent that comes later gets its values at once. A child's write only notes what it adds
//! and what it takes away (`groups`); `settle` applies all of a key's changes at once and writes its
//! targets.

use super::accumulators::{Accumulator, AccumulatorState};
use super::groups::Child;
use super::record::{Record, record_key};
use super::window::{self, Window};
use crate::documents::{Documents, Find};
use crate::edit;
use crate::paths::values_at;
use crate::pattern::{Pattern, Phase};
use bumpalo::Bump;
use query::expr::{Env, Expr};
use query::filter::Filter;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, keys};

/// Children folded by a key.
#[derive(Debug)]
pub struct Fold {
    /// The collection of the children.
    pub source: String,
    /// The collection that holds the results.
    pub target: String,
    /// What the key is.
    pub keys: Keys,
    /// Which children count.
    pub filter: Option<Filter>,
    /// For how long they do.
    pub window: Option<Window>,
    /// What is maintained.
    pub fields: Vec<Field>,
    /// What happens to a child whose parent is not there.
    pub missing: MissingParent,
    /// Whether a child whose expressions fail adds nothing, instead of being refused.
    pub skip_errors: bool,
    /// What is read of the children.
    pub reads: Vec<String>,
}

/// What children are grouped by.
#[derive(Debug)]
pub enum Keys {
    /// The value of a field, which the parents have in another field.
    Parents {
        /// The field of the parents.
        local: Path,
        /// The field of the children; an array belongs to each of its values.
        foreign: Path,
    },
    /// An expression; each group is a document of its own, with the key as `_id`.
    Groups(Expr),
}

/// What happens to a child whose parent is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingParent {
    /// Nothing; a parent that comes later gets its values.
    Ignore,
    /// The child is refused, and so is the removal of a parent that has children.
    Reject,
    /// The parent is made.
    Create,
}

/// One maintained field.
#[derive(Debug)]
pub struct Field {
    /// Where it stands in the target.
    pub path: Path,
    /// How it is maintained.
    pub accumulator: Accumulator,
}

/// What a maintained field shows, and where.
pub type Value<'g> = (&'g Path, Option<OwnedVal>);

impl Fold {
    /// Whether the results have a collection of their own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.keys, Keys::Groups(_))
    }

    /// Whether children may be left out that its filter takes in, so that a query cannot be answered by
    /// what it counts.
    #[must_use]
    pub fn skips(&self) -> bool {
        self.skip_errors || self.window.is_some()
    }

    /// What is read of the targets.
    #[must_use]
    pub fn target_reads(&self) -> Vec<String> {
        match &self.keys {
            Keys::Parents { local, .. } => vec![local.text().to_owned()],
            Keys::Groups(_) => Vec::new(),
        }
    }

    /// The paths that are maintained; the whole document of a collection of its own.
    #[must_use]
    pub fn maintains(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.path.text().to_owned()).collect()
    }

    /// The indexes that it needs.
    #[must_use]
    pub fn indexes(&self) -> Vec<(String, DocBuf)> {
        match &self.keys {
            Keys::Parents { local, .. } if local.text() != "_id" => {
                let key = DocBuf::build(|out| {
                    out.i32(local.text(), 1);
                });
                vec![(self.target.clone(), key)]
            }
            _ => Vec::new(),
        }
    }

    /// Whether it is known how many children a group has. Where each child has a place in a ranking
    /// and nothing else is kept, it is only known whether there are any: a child that nobody sees is
    /// no reason to write the list of the others again.
    #[must_use]
    pub fn counts_children(&self) -> bool {
        self.window.is_some()
            || self.fields.is_empty()
            || self.fields.iter().any(|field| !field.accumulator.places_all())
    }

    /// What a child adds; `None` for nothing. `horizon` is where the window begins, if there is one.
    ///
    /// # Errors
    /// What an expression gives, unless such children are skipped.
    pub fn child(&self, doc: RawDoc<'_>, horizon: &[u8]) -> Result<Option<Child>> {
        let child = match self.evaluate(doc) {
            Err(_) if self.skip_errors => return Ok(None),
            outcome => outcome?,
        };
        let Some(mut child) = child else { return Ok(None) };
        if let Some(part) = child.parts.get(self.fields.len()) {
            let counts = |group: &[u8]| {
                window::place(part, group).is_some_and(|place| place.as_slice() >= horizon)
            };
            child.keys.retain(|(group, _)| counts(group));
        }
        Ok((!child.keys.is_empty()).then_some(child))
    }

    /// Whether a child adds nothing only because an expression fails on it.
    #[must_use]
    pub fn is_skipped(&self, doc: RawDoc<'_>) -> bool {
        self.skip_errors && self.evaluate(doc).is_err()
    }

    fn evaluate(&self, doc: RawDoc<'_>) -> Result<Option<Child>> {
        if let Some(filter) = &self.filter
            && !filter.matches(doc)?
        {
            return Ok(None);
        }
        let keys = self.keys_of(doc)?;
        if keys.is_empty() {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            parts.push(field.accumulator.part(doc)?);
        }
        if let Some(window) = &self.window {
            let Some(part) = window.part(doc) else { return Ok(None) };
            parts.push(part);
        }
        Ok(Some(Child { keys, parts }))
    }

    fn keys_of(&self, doc: RawDoc<'_>) -> Result<Vec<(Vec<u8>, OwnedVal)>> {
        match &self.keys {
            Keys::Parents { foreign, .. } => Ok(values_at(doc, foreign)),
            Keys::Groups(expression) => {
                let arena = Bump::new();
                let key = expression.eval(&Env::new(doc, &arena))?;
                let key = if key.is_missing() { Val::Null } else { key };
                if matches!(key, Val::Array(_) | Val::Regex(..) | Val::Undefined) {
                    return Err(Error::bad_value(format!(
                        "'groupBy' gives a value of type {}, which cannot be an _id",
                        key.kind().name()
                    )));
                }
                Ok(vec![(keys::key(key), OwnedVal::new(key))])
            }
        }
    }

    /// Refuses a child that gets parents which are not there, where that is asked for. Those that it
    /// had before may have been missing when the pattern was declared.
    ///
    /// # Errors
    /// PatternViolation.
    pub fn check_parents(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<&Child>,
        child: &Child,
    ) -> Result<()> {
        if self.missing != MissingParent::Reject {
            return Ok(());
        }
        let had =
            |key: &[u8]| before.is_some_and(|old| old.keys.iter().any(|(known, _)| *known == *key));
        for (_, key) in child.keys.iter().filter(|(encoded, _)| !had(encoded)) {
            if self.targets(documents, key.get())?.is_empty() {
                return Err(Error::new(
                    Code::PATTERN_VIOLATION,
                    format!(
                        "pattern '{}': there is no document in '{}' for this child, and \
                         onMissingParent is 'reject'",
                        pattern.name, self.target
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Refuses the removal of a parent that has children, where that is asked for.
    ///
    /// # Errors
    /// PatternViolation.
    pub fn check_removal(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        parent: RawDoc<'_>,
    ) -> Result<()> {
        if self.missing != MissingParent::Reject {
            return Ok(());
        }
        let Some(key) = self.local_key(parent) else { return Ok(()) };
        if self.record(pattern, documents, &key)?.children > 0 {
            return Err(Error::new(
                Code::PATTERN_VIOLATION,
                format!(
                    "pattern '{}': the document has children in '{}', and onMissingParent is \
                     'reject'",
                    pattern.name, self.source
                ),
            ));
        }
        Ok(())
    }

    /// The encoded key of the group that a target shows; none for one without.
    #[must_use]
    pub fn local_key(&self, parent: RawDoc<'_>) -> Option<Vec<u8>> {
        let value = match &self.keys {
            Keys::Parents { local, .. } => local.get(parent),
            Keys::Groups(_) => parent.get("_id").unwrap_or(Val::Null),
        };
        let lonely = value.is_nullish() && !self.is_own();
        (!lonely && !matches!(value, Val::Array(_))).then(|| keys::key(value))
    }

    /// The image of a target that somebody writes, with its maintained fields; `None` if it has them
    /// already.
    ///
    /// # Errors
    /// When the store fails, or something stands in a path's way.
    pub fn shape(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        let reached = match pattern.phase {
            Phase::Ready | Phase::Degraded => true,
            Phase::Building => {
                let progress = pattern.progress(documents)?;
                let id = keys::key(after.get("_id").unwrap_or(Val::Null));
                progress.is_some_and(|p| p.targets && (before.is_none() || p.has_reached(&id)))
            }
            Phase::Preparing | Phase::Suspended | Phase::Failed | Phase::Clearing => false,
        };
        if let Some(before) = before
            && (!reached || self.has_same_key(before, after))
        {
            // Most writes leave them alone.
            let same = |field: &Field| field.path.find(before) == field.path.find(after);
            if self.fields.iter().all(same) {
                return Ok(None);
            }
            let kept = self.fields.iter().map(|field| {
                let value = field.path.find(before).map(|value| OwnedVal::new(value.get()));
                (&field.path, value)
            });
            return edit::assign(after, &kept.collect::<Vec<_>>()).map(Some);
        }
        if !reached {
            let none: Vec<Value<'_>> =
                self.fields.iter().map(|field| (&field.path, None)).collect();
            return edit::assign(after, &none).map(Some);
        }
        let record = match self.local_key(after) {
            Some(key) => self.record(pattern, documents, &key)?,
            None => self.empty_record(),
        };
        edit::assign(after, &self.values(&record)).map(Some)
    }

    /// Whether two images of a target show the same group.
    fn has_same_key(&self, before: RawDoc<'_>, after: RawDoc<'_>) -> bool {
        let key = |doc| match &self.keys {
            Keys::Parents { local, .. } => local.find(doc),
            Keys::Groups(_) => doc.find("_id"),
        };
        key(before) == key(after) || self.local_key(before) == self.local_key(after)
    }

    /// Whether the key of a group is the `_id` of the only document that shows it.
    pub(super) fn has_one_target(&self) -> bool {
        match &self.keys {
            Keys::Parents { local, .. } => local.text() == "_id",
            Keys::Groups(_) => true,
        }
    }

    /// The documents that show a group.
    pub(super) fn targets(
        &self,
        documents: &mut dyn Documents,
        key: Val<'_>,
    ) -> Result<Vec<DocBuf>> {
        match &self.keys {
            Keys::Parents { local, .. } if local.text() != "_id" => {
                let mut found = Vec::new();
                let find = Find { collection: &self.target, path: local, value: key, after: &[] };
                documents.find(&find, &mut |doc| {
                    // An array that holds the value is no parent's key.
                    if keys::key(local.get(doc)) == keys::key(key) {
                        found.push(DocBuf::from(doc));
                    }
                    Ok(true)
                })?;
                Ok(found)
            }
            _ => Ok(documents.get(&self.target, key)?.into_iter().collect()),
        }
    }

    /// The values of a target's fields now, for its build and for checks.
    ///
    /// # Errors
    /// When the store fails.
    pub fn target_values(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<Vec<Value<'_>>> {
        let record = match self.local_key(target) {
            Some(key) => self.record(pattern, documents, &key)?,
            None => self.empty_record(),
        };
        Ok(self.values(&record))
    }

    /// Whether a document of a collection of its own has children.
    ///
    /// # Errors
    /// When the store fails.
    pub fn has_group(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<bool> {
        let Some(key) = self.local_key(target) else { return Ok(false) };
        Ok(self.record(pattern, documents, &key)?.children > 0)
    }

    /// The key under which the record of a group is kept.
    #[must_use]
    pub fn record_key(key: Val<'_>) -> Vec<u8> {
        record_key(&keys::key(key)).to_vec()
    }

    /// How many children a group has, if that is known, and what its fields show, from its record.
    #[must_use]
    pub fn group_values(&self, record: Option<RawDoc<'_>>) -> (i64, Vec<OwnedVal>) {
        let record =
            record.map_or_else(|| self.empty_record(), |doc| Record::of(doc, self.fields.len()));
        self.values_of(&record)
    }

    pub(super) fn values_of(&self, record: &Record) -> (i64, Vec<OwnedVal>) {
        let values = self.fields.iter().zip(&record.states);
        let values = values.map(|(field, state)| field.accumulator.value(record.children, state));
        (record.children, values.collect())
    }

    pub(super) fn values(&self, record: &Record) -> Vec<Value<'_>> {
        self.fields
            .iter()
            .zip(&record.states)
            .map(|(field, state)| {
                (&field.path, Some(field.accumulator.value(record.children, state)))
            })
            .collect()
    }

    pub(super) fn empty_record(&self) -> Record {
        Record { children: 0, states: vec![AccumulatorState::Empty; self.fields.len()] }
    }

    pub(super) fn record(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        encoded: &[u8],
    ) -> Result<Record> {
        let stored = documents.state(pattern.id, &record_key(encoded))?;
        self.record_of(documents, stored)
    }
}
