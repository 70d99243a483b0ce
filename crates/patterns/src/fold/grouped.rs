//! Documents of one collection (children) folded by a key into documents of another one.
//!
//! For each key there is an internal record: the number of its children, and the state of each
//! field that is needed to apply single changes. It is kept whether or not a target exists, so
//! that a parent that is inserted later gets its values at once. The write of a child only records
//! what it adds and removes (`groups`); `settle` applies all changes of a key at once and writes
//! its targets.

use super::accumulators::{self, Accumulator, AccumulatorState};
use super::flush::Flush;
use super::groups::Child;
use super::record::{Record, record_key};
use super::unwind::{Siblings, Unwind};
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
    /// What children are grouped by.
    pub keys: Keys,
    /// The array whose elements are folded instead of the children.
    pub unwind: Option<Unwind>,
    /// Fields that are read beside the keys; they must not be in the same array.
    pub siblings: Option<Siblings>,
    /// Which children count.
    pub filter: Option<Filter>,
    /// For how long they count.
    pub window: Option<Window>,
    /// The maintained fields.
    pub fields: Vec<Field>,
    /// What happens to a child whose parent does not exist.
    pub missing: MissingParent,
    /// Whether a child whose expressions fail adds nothing, instead of being refused.
    pub skip_errors: bool,
    /// The paths that are read of the children.
    pub reads: Vec<String>,
    /// Whether fields are shown with their bounds.
    pub bounds: bool,
    /// The fields that are written to targets later.
    pub flush: Option<Flush>,
}

/// What children are grouped by.
#[derive(Debug)]
pub enum Keys {
    /// The value of a field, which the parents have in another field.
    Parents {
        /// The field of the parents.
        local: Path,
        /// The field of the children; a child with an array belongs to each of its values.
        foreign: Path,
    },
    /// An expression; each group is a separate document with the key as `_id`.
    Groups(GroupKey),
}

/// The key of groups, as `$group` computes it.
#[derive(Debug)]
pub struct GroupKey {
    expression: Expr,
    /// The name of the only field, if the key is a document with one.
    single: Option<String>,
}

impl GroupKey {
    /// The key of a declared `groupBy`, which is also given compiled.
    #[must_use]
    pub fn new(declared: Val<'_>, expression: Expr) -> GroupKey {
        let fields = declared.as_doc().filter(|doc| doc.count() == 1);
        let first = fields.and_then(RawDoc::first).map(|(name, _)| name);
        let single = first.filter(|name| !name.starts_with('$')).map(str::to_owned);
        GroupKey { expression, single }
    }

    fn of(&self, doc: RawDoc<'_>) -> Result<OwnedVal> {
        let arena = Bump::new();
        let key = self.expression.eval(&Env::new(doc, &arena));
        let key = key.map_err(|error| error.context("groupBy: "))?;
        Ok(match (key, &self.single) {
            (Val::Missing, _) => OwnedVal::new(Val::Null),
            // A missing value is null if it is the only one.
            (Val::Document(empty), Some(name)) if empty.is_empty() => {
                let null = DocBuf::build(|out| {
                    out.append(name, Val::Null);
                });
                OwnedVal::new(Val::Document(null.as_doc()))
            }
            (key, _) => OwnedVal::new(key),
        })
    }
}

/// What happens to a child whose parent does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingParent {
    /// Nothing; a parent that is inserted later gets its values.
    Ignore,
    /// The child is refused, and so is the removal of a parent that has children.
    Reject,
    /// The parent is created.
    Create,
}

/// One maintained field.
#[derive(Debug)]
pub struct Field {
    /// Its path in the target.
    pub path: Path,
    /// How it is maintained.
    pub accumulator: Accumulator,
}

/// The path and value of a maintained field.
pub type Value<'g> = (&'g Path, Option<OwnedVal>);

impl Fold {
    /// Whether the results are in a collection of groups.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.keys, Keys::Groups(_))
    }

    /// Whether children that match its filter may be left out, so that a query cannot be answered
    /// from its counts.
    #[must_use]
    pub fn skips(&self) -> bool {
        self.skip_errors || self.window.is_some()
    }

    /// The paths that are read of the targets.
    #[must_use]
    pub fn target_reads(&self) -> Vec<String> {
        match &self.keys {
            Keys::Parents { local, .. } => vec![local.text().to_owned()],
            Keys::Groups(_) => Vec::new(),
        }
    }

    /// The maintained paths; the whole document in a collection of groups.
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

    /// Whether the number of a group's children is known. If there are only rankings with an entry
    /// for each child, it is only known whether there are any: a child outside of the result must
    /// not cause the list to be written again.
    #[must_use]
    pub fn counts_children(&self) -> bool {
        self.window.is_some()
            || self.fields.is_empty()
            || self.fields.iter().any(|field| !field.accumulator.ranks_every_child())
    }

    /// Returns the contribution of a child; `None` if it does not count. `horizon` is the start of
    /// the window, if there is one.
    ///
    /// # Errors
    /// Errors of expressions, unless such children are skipped.
    pub fn child(&self, doc: RawDoc<'_>, horizon: &[u8]) -> Result<Option<Child>> {
        self.child_at(doc, None, horizon)
    }

    /// As `child`, for an element at this position of an unwound array.
    pub(super) fn child_at(
        &self,
        doc: RawDoc<'_>,
        element: Option<u32>,
        horizon: &[u8],
    ) -> Result<Option<Child>> {
        let child = match self.evaluate(doc, element) {
            Err(_) if self.skip_errors => return Ok(None),
            outcome => outcome?,
        };
        let Some(mut child) = child else { return Ok(None) };
        if let Some(part) = child.parts.get(self.fields.len()) {
            let counts = |group: &[u8]| {
                window::entry_key(part, group).is_some_and(|place| place.as_slice() >= horizon)
            };
            child.keys.retain(|(group, _)| counts(group));
        }
        Ok((!child.keys.is_empty()).then_some(child))
    }

    /// Whether a child does not count only because an expression fails on it.
    #[must_use]
    pub fn is_skipped(&self, doc: RawDoc<'_>) -> bool {
        self.skip_errors && self.evaluate(doc, None).is_err()
    }

    fn evaluate(&self, doc: RawDoc<'_>, element: Option<u32>) -> Result<Option<Child>> {
        if let Some(filter) = &self.filter
            && !filter.matches(doc).map_err(|error| error.context("filter: "))?
        {
            return Ok(None);
        }
        let keys = self.keys_of(doc)?;
        if keys.is_empty() {
            return Ok(None);
        }
        if let (Some(siblings), Keys::Parents { foreign, .. }) = (&self.siblings, &self.keys) {
            siblings.check(doc, foreign)?;
        }
        let mut parts = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let part = field.accumulator.part(doc, element);
            parts.push(part.map_err(|e| e.context(format!("field '{}': ", field.path.text())))?);
        }
        if let Some(window) = &self.window {
            let Some(part) = window.part(doc, element) else { return Ok(None) };
            parts.push(part);
        }
        Ok(Some(Child { keys, parts }))
    }

    fn keys_of(&self, doc: RawDoc<'_>) -> Result<Vec<(Vec<u8>, OwnedVal)>> {
        match &self.keys {
            Keys::Parents { foreign, .. } => Ok(values_at(doc, foreign)),
            Keys::Groups(group) => {
                let key = group.of(doc)?;
                if matches!(key.get(), Val::Array(_) | Val::Regex(..) | Val::Undefined) {
                    return Err(Error::bad_value(format!(
                        "'groupBy' gives a value of type {}, which cannot be an _id",
                        key.get().kind().name()
                    )));
                }
                Ok(vec![(keys::key(key.get()), key)])
            }
        }
    }

    /// Refuses a child with new parents that do not exist, if so declared. Its earlier parents may
    /// have been missing when the pattern was declared.
    ///
    /// # Errors
    /// PatternViolation.
    pub fn check_parents(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: &[&Child],
        child: &Child,
    ) -> Result<()> {
        if self.missing != MissingParent::Reject {
            return Ok(());
        }
        let had =
            |key: &[u8]| before.iter().any(|old| old.keys.iter().any(|(known, _)| *known == *key));
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

    /// Refuses the removal of a parent that has children, if so declared.
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

    /// The encoded key of a target's group; `None` if it has none.
    #[must_use]
    pub fn local_key(&self, parent: RawDoc<'_>) -> Option<Vec<u8>> {
        let value = match &self.keys {
            Keys::Parents { local, .. } => local.get(parent),
            Keys::Groups(_) => parent.get("_id").unwrap_or(Val::Null),
        };
        let lonely = value.is_nullish() && !self.is_own();
        (!lonely && !matches!(value, Val::Array(_))).then(|| keys::key(value))
    }

    /// Returns the image of a written target with its maintained fields; `None` if it has them
    /// already.
    ///
    /// # Errors
    /// If the store fails, or a value is in the way of a path.
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
            // Most writes do not change them.
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

    /// Whether two images of a target belong to the same group.
    fn has_same_key(&self, before: RawDoc<'_>, after: RawDoc<'_>) -> bool {
        let key = |doc| match &self.keys {
            Keys::Parents { local, .. } => local.find(doc),
            Keys::Groups(_) => doc.find("_id"),
        };
        key(before) == key(after) || self.local_key(before) == self.local_key(after)
    }

    /// Whether each group has a single target, whose `_id` is the key.
    pub(super) fn has_one_target(&self) -> bool {
        match &self.keys {
            Keys::Parents { local, .. } => local.text() == "_id",
            Keys::Groups(_) => true,
        }
    }

    /// Returns the targets of a group.
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
                    // An array that contains the value is not a parent's key.
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

    /// The current values of a target's fields, for builds and checks.
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

    /// Whether a document of a collection of groups has children.
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

    /// The number of a group's children, if known, and the values of its fields, from its record.
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
            .map(|(field, state)| (&field.path, Some(self.shown(field, record, state))))
            .collect()
    }

    /// A field's value as it is stored in targets.
    fn shown(&self, field: &Field, record: &Record, state: &AccumulatorState) -> OwnedVal {
        if self.bounds {
            let bounded = accumulators::bounded(&field.accumulator, record.children, state);
            return bounded.into_document(record.at);
        }
        field.accumulator.value(record.children, state)
    }

    pub(super) fn empty_record(&self) -> Record {
        let states = vec![AccumulatorState::Empty; self.fields.len()];
        Record { children: 0, states, at: None, held: 0 }
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
