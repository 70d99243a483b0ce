//! Documents of one collection (children) folded by a key into documents of another one.
//!
//! For each key there is a record that clients never see: how many children it has and what each
//! field needs to follow single changes (`fold`). It is kept whether a target is there or not, so
//! that a parent that comes later gets its values at once. A child's write only notes what it adds
//! and what it takes away; `settle` applies all of a key's changes at once and writes its targets.

use super::entries;
use super::fold::{Fold, Part, State};
use super::record::{GROUP, MEMBER, PLACE, Record, entry_prefix, record_key};
use super::tally;
use crate::documents::{Documents, Find};
use crate::edit::{self, Patch};
use crate::pattern::{Pattern, Phase, Progress};
use crate::queue;
use bumpalo::Bump;
use query::expr::{Env, Expr};
use query::filter::Filter;
use std::ops::ControlFlow;
use value::path::{Path, walk};
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, keys};

/// Children folded by a key.
#[derive(Debug)]
pub struct Grouped {
    /// The collection of the children.
    pub source: String,
    /// The collection that holds the results.
    pub target: String,
    /// What the key is.
    pub keys: Keys,
    /// Which children count.
    pub filter: Option<Filter>,
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
    pub fold: Fold,
}

/// What a maintained field shows, and where.
pub type Value<'g> = (&'g Path, Option<OwnedVal>);

/// What a child adds to its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The keys that it belongs to, encoded and as values.
    pub keys: Vec<(Vec<u8>, OwnedVal)>,
    /// What it adds to each field.
    pub parts: Vec<Part>,
}

/// The changes of one group that are not settled yet.
#[derive(Debug)]
pub struct Group {
    key: OwnedVal,
    /// What is taken away and what is added, in the order in which it happened.
    changes: Vec<(Vec<Part>, bool)>,
}

impl Group {
    /// How many changes there are: a child that stays is one, not a removal and an addition.
    #[must_use]
    pub fn changes(&self) -> usize {
        let added = self.changes.iter().filter(|(_, adds)| *adds).count();
        added.max(self.changes.len() - added)
    }

    /// Adds later changes of the same group.
    pub fn append(&mut self, later: Group) {
        self.changes.extend(later.changes);
    }

    /// How many children it gains.
    fn gain(&self) -> i64 {
        self.changes.iter().map(|(_, adds)| if *adds { 1 } else { -1 }).sum()
    }
}

impl Grouped {
    /// Whether the results have a collection of their own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.keys, Keys::Groups(_))
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

    /// What a child adds; `None` for nothing.
    ///
    /// # Errors
    /// What an expression gives, unless such children are skipped.
    pub fn child(&self, doc: RawDoc<'_>) -> Result<Option<Child>> {
        match self.evaluate(doc) {
            Err(_) if self.skip_errors => Ok(None),
            outcome => outcome,
        }
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
        let parts = self.fields.iter().map(|field| field.fold.part(doc)).collect::<Result<_>>()?;
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
                progress.is_some_and(|p| p.targets && (before.is_none() || id <= p.at))
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

    /// Notes what changed of a child. `before` and `after` are what it adds in either image.
    pub fn note(&self, pending: &mut Groups, before: Option<Child>, after: Option<Child>) {
        if before == after {
            return;
        }
        for (child, adds) in [(before, false), (after, true)] {
            let Some(Child { keys, parts }) = child else { continue };
            let mut add = |(encoded, key), parts| {
                let group =
                    pending.entry(encoded).or_insert_with(|| Group { key, changes: Vec::new() });
                group.changes.push((parts, adds));
            };
            let mut keys = keys.into_iter();
            let last = keys.next_back();
            keys.for_each(|key| add(key, parts.clone()));
            if let Some(last) = last {
                add(last, parts);
            }
        }
    }

    /// Applies the changes of a group and writes its targets.
    ///
    /// # Errors
    /// When the store fails or a target cannot be written.
    pub fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        encoded: &[u8],
        group: &Group,
    ) -> Result<()> {
        let own_key = record_key(encoded);
        // Most changes need no more of a record than a few bytes of it.
        let in_place = pattern.phase.is_built() && !pattern.is_deferred();
        let (mut behind, mut grown, mut stored) = (false, None, None);
        documents.change_state(pattern.id, &own_key, &mut |record| {
            let record = record?;
            if let Some(kept) = self.behind(record, group) {
                behind = true;
                return Some(kept);
            }
            if in_place && let Some((kept, values)) = self.grown(record, group) {
                grown = Some(values);
                return Some(kept);
            }
            stored = Some(DocBuf::from(record));
            None
        })?;
        if behind {
            for (number, _) in self.fields.iter().enumerate() {
                let prefix = entry_prefix(PLACE, number, encoded);
                for (parts, adds) in &group.changes {
                    let Some(Part::Place(place, value)) = parts.get(number) else { continue };
                    entries::keep(pattern, documents, &prefix, place, adds.then_some(value))?;
                }
            }
            return Ok(());
        }
        if let Some(values) = grown {
            return self.write_values(pattern, documents, group.key.get(), &values, true, None);
        }
        let mut record = self.record_of(stored);
        record.children += group.gain();
        for (number, field) in self.fields.iter().enumerate() {
            let Some(state) = record.states.get_mut(number) else { break };
            let changes = group
                .changes
                .iter()
                .filter_map(|(parts, adds)| parts.get(number).map(|part| (part, *adds)));
            if let Some(limit) = field.fold.limit() {
                let prefix = entry_prefix(PLACE, number, encoded);
                entries::rank(pattern, documents, &prefix, limit, state, changes)?;
            } else if field.fold.is_set() {
                let listed = matches!(field.fold, Fold::Set(_));
                let prefix = entry_prefix(MEMBER, number, encoded);
                entries::collect(pattern, documents, &prefix, listed, state, changes)?;
            } else {
                for (part, adds) in changes {
                    if let Part::Value(value) = part {
                        field.fold.change(state, value.get(), adds);
                    }
                }
            }
        }
        let kept = (record.children > 0).then(|| record.to_doc(group.key.get()));
        documents.set_state(pattern.id, &own_key, kept)?;
        if record.children <= 0 {
            record = self.empty_record();
        }
        if pattern.is_deferred() {
            return queue::put(pattern, documents, encoded, group.key.get());
        }
        let progress = pattern.progress(documents)?;
        let targets = progress.as_ref().is_some_and(|p| p.targets);
        if pattern.phase == Phase::Preparing || (pattern.phase == Phase::Building && !targets) {
            return Ok(());
        }
        self.write_targets(pattern, documents, group.key.get(), &record, progress.as_ref())
    }

    /// The record of a group when all children that came or went stand behind the last ones that its
    /// rankings show, so that nothing else changes; `None` if something may.
    fn behind(&self, record: RawDoc<'_>, group: &Group) -> Option<DocBuf> {
        if self.missing == MissingParent::Create {
            return None;
        }
        let mut limits = self.fields.iter().map(|field| field.fold.limit());
        if limits.any(|limit| limit.is_none()) {
            return None;
        }
        let mut states = record.get("f")?.as_array()?.iter();
        for (number, field) in self.fields.iter().enumerate() {
            let limit = field.fold.limit()?;
            let last = entries::last_shown(states.next()?.1.as_array()?, limit)?;
            let unseen = |part: &Part| match part {
                Part::Nothing => true,
                Part::Place(place, _) => place.as_slice() > last,
                Part::Value(_) => false,
            };
            if !group.changes.iter().all(|(parts, _)| parts.get(number).is_some_and(unseen)) {
                return None;
            }
        }
        let children = record.find("n")?;
        let count = children.get().as_i64_exact()?.checked_add(group.gain())?;
        let mut patch = Patch::new(record);
        patch.set_i64(children, count)?;
        Some(patch.finish())
    }

    /// The record of a group to which one child was added, and what the fields show then, where all of
    /// them are counts and sums of whole numbers: only a few bytes of the record change. `None` for
    /// all others.
    fn grown(&self, record: RawDoc<'_>, group: &Group) -> Option<(DocBuf, Vec<Value<'_>>)> {
        let [(parts, true)] = group.changes.as_slice() else { return None };
        let children = record.find("n")?;
        let count = children.get().as_i64_exact()?.checked_add(1)?;
        let mut patch = Patch::new(record);
        patch.set_i64(children, count)?;
        let mut states = record.get("f")?.as_array()?.iter();
        let mut values = Vec::with_capacity(self.fields.len());
        for (field, part) in self.fields.iter().zip(parts) {
            let (_, state) = states.next()?;
            let shown = match (&field.fold, part) {
                (Fold::Count, _) => field.fold.value(count, &State::Empty),
                (Fold::Sum(_), Part::Value(value)) => {
                    OwnedVal::new(tally::add_in_place(&mut patch, state.as_doc()?, value.get())?)
                }
                _ => return None,
            };
            values.push((&field.path, Some(shown)));
        }
        (values.len() == self.fields.len()).then(|| (patch.finish(), values))
    }

    /// Brings the targets of a group up to date with its record. Returns how many groups: one.
    ///
    /// # Errors
    /// When the store fails or a target cannot be written.
    pub fn follow_group(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
    ) -> Result<usize> {
        let record = self.record(pattern, documents, &keys::key(key))?;
        self.write_targets(pattern, documents, key, &record, None)?;
        Ok(1)
    }

    fn write_targets(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        record: &Record,
        progress: Option<&Progress>,
    ) -> Result<()> {
        let values = self.values(record);
        self.write_values(pattern, documents, key, &values, record.children > 0, progress)
    }

    /// Writes what the targets of a group show; `living` if it has children.
    fn write_values(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        key: Val<'_>,
        values: &[Value<'_>],
        living: bool,
        progress: Option<&Progress>,
    ) -> Result<()> {
        let makes = match self.keys {
            Keys::Groups(_) => true,
            Keys::Parents { .. } => self.missing == MissingParent::Create,
        };
        let make = |documents: &mut dyn Documents| {
            let start = DocBuf::build(|out| {
                out.append("_id", key);
            });
            let made = edit::assign(start.as_doc(), values)?;
            documents.insert(pattern.id, &self.target, &made)
        };
        if progress.is_none() && self.has_one_target() && (living || !self.is_own()) {
            let mut edit = |target: RawDoc<'_>| edit::edited(target, values);
            let found = documents.edit(pattern.id, &self.target, key, &mut edit)?;
            return if !found && makes && living { make(documents) } else { Ok(()) };
        }
        let reached = |id: Val<'_>| progress.is_none_or(|progress| keys::key(id) <= progress.at);
        let targets = self.targets(documents, key)?;
        if targets.is_empty() && makes && living && reached(key) {
            return make(documents);
        }
        for target in targets {
            let id = target.as_doc().get("_id").unwrap_or(Val::Null);
            if !reached(id) {
                continue;
            }
            if self.is_own() && !living {
                documents.delete(pattern.id, &self.target, target.as_doc())?;
                continue;
            }
            let image = edit::assign(target.as_doc(), values)?;
            if image != target {
                documents.replace(pattern.id, &self.target, target.as_doc(), &image)?;
            }
        }
        Ok(())
    }

    /// Whether the key of a group is the `_id` of the only document that shows it.
    fn has_one_target(&self) -> bool {
        match &self.keys {
            Keys::Parents { local, .. } => local.text() == "_id",
            Keys::Groups(_) => true,
        }
    }

    /// The documents that show a group.
    fn targets(&self, documents: &mut dyn Documents, key: Val<'_>) -> Result<Vec<DocBuf>> {
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

    /// Makes the documents of groups behind `after`, at most `batch`. Returns the last one.
    ///
    /// # Errors
    /// When the store fails.
    pub fn write_groups(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        after: &[u8],
        batch: usize,
    ) -> Result<Option<(Vec<u8>, usize)>> {
        let mut groups: Vec<(Vec<u8>, OwnedVal, Record)> = Vec::new();
        let start = if after.is_empty() { Vec::new() } else { record_key(after) };
        documents.states(pattern.id, &[GROUP], &start, &mut |key, doc| {
            let encoded = key.get(1..).unwrap_or(&[]);
            let shown = OwnedVal::new(doc.get("k").unwrap_or(Val::Null));
            groups.push((encoded.to_vec(), shown, Record::of(doc, self.fields.len())));
            Ok(groups.len() < batch)
        })?;
        let count = groups.len();
        let last = groups.last().map(|(encoded, _, _)| (encoded.clone(), count));
        for (_, key, record) in groups {
            self.write_targets(pattern, documents, key.get(), &record, None)?;
        }
        Ok(last)
    }

    /// The key under which the record of a group is kept.
    #[must_use]
    pub fn record_key(key: Val<'_>) -> Vec<u8> {
        record_key(&keys::key(key))
    }

    /// How many children a group has and what its fields show, from its record.
    #[must_use]
    pub fn shown(&self, record: Option<RawDoc<'_>>) -> (i64, Vec<OwnedVal>) {
        let record =
            record.map_or_else(|| self.empty_record(), |doc| Record::of(doc, self.fields.len()));
        let values = self.fields.iter().zip(&record.states);
        let values = values.map(|(field, state)| field.fold.value(record.children, state));
        (record.children, values.collect())
    }

    fn values(&self, record: &Record) -> Vec<Value<'_>> {
        self.fields
            .iter()
            .zip(&record.states)
            .map(|(field, state)| (&field.path, Some(field.fold.value(record.children, state))))
            .collect()
    }

    fn empty_record(&self) -> Record {
        Record { children: 0, states: vec![State::Empty; self.fields.len()] }
    }

    fn record(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        encoded: &[u8],
    ) -> Result<Record> {
        Ok(self.record_of(documents.state(pattern.id, &record_key(encoded))?))
    }

    fn record_of(&self, stored: Option<DocBuf>) -> Record {
        match stored {
            Some(doc) => Record::of(doc.as_doc(), self.fields.len()),
            None => self.empty_record(),
        }
    }
}

/// The groups with changes, by their encoded keys.
pub type Groups = std::collections::BTreeMap<Vec<u8>, Group>;

/// The distinct values at a path, through arrays; null and missing are none.
#[must_use]
pub fn values_at(doc: RawDoc<'_>, path: &Path) -> Vec<(Vec<u8>, OwnedVal)> {
    let mut found: Vec<(Vec<u8>, OwnedVal)> = Vec::new();
    let _ = walk::<()>(doc, path.parts(), true, &mut |value| {
        let value = value.value;
        if !value.is_nullish() && !matches!(value, Val::Array(_)) {
            let encoded = keys::key(value);
            if found.iter().all(|(known, _)| *known != encoded) {
                found.push((encoded, OwnedVal::new(value)));
            }
        }
        ControlFlow::Continue(())
    });
    found
}
