//! Answering queries from what patterns maintain: the query stays what it was, and so does its
//! result; only where it is read from changes.
//!
//! `groups` answers `$group` and counts from folds, `subset` finds the first few children of a
//! parent, `tree` turns walks and searches in paths into lookups, `reference` lets copies stand in
//! for what a `$lookup` would read. Only patterns that are ready and
//! declared with `rewrite: true` are used, at the snapshot of the query, so that values and
//! documents are of one moment. A command with `rewrite: false` is answered without any of this.

mod groups;
mod reference;
mod subset;
pub(crate) mod tree;

use super::transaction_documents::state_key;
use crate::catalog::Collection;
use crate::exec::write;
use crate::layout;
use crate::stages::Scope;
use crate::store_failed;
use ::patterns::fold::Grouped;
use ::patterns::stats::Stats;
use ::patterns::{Pattern, Phase};
use std::ops::Bound;
use std::sync::Arc;
use store::{Direction, Space};
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Result, Val, Writer};

/// What a query was answered from, for explain.
#[derive(Clone, Debug)]
pub struct Used {
    pattern: Arc<Pattern>,
    how: &'static str,
}

/// Rewrites of one query.
pub struct Rewrites<'q> {
    scope: &'q Scope,
    db: &'q str,
    /// What was used.
    pub used: Vec<Used>,
}

/// A pipeline that was rewritten.
pub struct Pipeline {
    /// The collection that it reads now; none when it brings its own documents.
    pub collection: Option<Arc<Collection>>,
    /// Its stages.
    pub stages: DocBuf,
}

impl<'q> Rewrites<'q> {
    /// Rewrites at the moment of a query.
    #[must_use]
    pub fn new(scope: &'q Scope, db: &'q str) -> Rewrites<'q> {
        Rewrites { scope, db, used: Vec::new() }
    }

    /// The filter in place of the one of a find. `most` is how many documents it wants, from the
    /// first one in its order on.
    ///
    /// # Errors
    /// When the store fails.
    pub fn filter(
        &mut self,
        collection: &Collection,
        filter: RawDoc<'_>,
        sort: Option<RawDoc<'_>>,
        most: Option<u64>,
    ) -> Result<Option<DocBuf>> {
        if collection.patterns.is_none() {
            return Ok(None);
        }
        if let (Some(sort), Some(most)) = (sort, most)
            && let Some(found) = self.first_children(collection, filter, sort, most)?
        {
            return Ok(Some(found));
        }
        self.anchored(collection, filter)
    }

    /// How many documents match, if a pattern counts them.
    ///
    /// # Errors
    /// When the store fails.
    pub fn count(&mut self, collection: &Collection, filter: RawDoc<'_>) -> Result<Option<u64>> {
        if collection.patterns.is_none() {
            return Ok(None);
        }
        self.counted(collection, filter)
    }

    /// The pipeline in place of one over a collection.
    ///
    /// # Errors
    /// When the store fails.
    pub fn pipeline(
        &mut self,
        collection: &Arc<Collection>,
        pipeline: RawDoc<'_>,
    ) -> Result<Option<Pipeline>> {
        if collection.patterns.is_none() {
            return Ok(None);
        }
        let stages: Vec<(&str, RawVal<'_>)> = pipeline
            .iter()
            .filter_map(|(_, stage)| stage.as_doc().filter(|doc| doc.count() == 1)?.first())
            .collect();
        if stages.len() != pipeline.count() {
            return Ok(None);
        }
        if let Some(found) = self.grouped(collection, &stages)? {
            return Ok(Some(found));
        }
        let first = self.first_match(collection, &stages)?;
        let mut walks = self.walks(collection, &stages)?;
        if let Some((at, lookup)) = self.copied(collection, &stages)? {
            walks.resize(stages.len(), None);
            if let Some(place) = walks.get_mut(at) {
                *place = Some(lookup);
            }
        }
        if first.is_none() && walks.iter().all(Option::is_none) {
            return Ok(None);
        }
        let stages = written(|list| {
            for (at, (name, value)) in stages.iter().enumerate() {
                let walk = walks.get(at).and_then(Option::as_ref);
                match (walk, &first) {
                    (Some(lookup), _) => list.push_doc_bytes(lookup.bytes()),
                    (None, Some(filter)) if at == 0 => list.push_doc(|out| {
                        out.append("$match", Val::Document(filter.as_doc()));
                    }),
                    _ => list.push_doc(|out| {
                        out.raw(name, *value);
                    }),
                }
            }
        });
        Ok(Some(Pipeline { collection: Some(collection.clone()), stages }))
    }

    /// The filter in place of a leading `$match`, with the `$sort` and `$limit` behind it.
    fn first_match(
        &mut self,
        collection: &Collection,
        stages: &[(&str, RawVal<'_>)],
    ) -> Result<Option<DocBuf>> {
        let Some(("$match", filter)) = stages.first().copied() else { return Ok(None) };
        let Some(filter) = filter.as_doc() else { return Ok(None) };
        let mut behind = stages.get(1..).unwrap_or(&[]).iter().copied();
        let (mut sort, mut most, mut skip) = (None, None, 0_u64);
        if let Some(("$sort", order)) = behind.next() {
            sort = order.as_doc();
            for (name, number) in behind {
                let number = number.get().as_i64_exact().and_then(|n| u64::try_from(n).ok());
                match (name, number) {
                    ("$skip", Some(number)) => skip = skip.saturating_add(number),
                    ("$limit", Some(number)) => {
                        most = Some(skip.saturating_add(number));
                        break;
                    }
                    _ => break,
                }
            }
        }
        self.filter(collection, filter, sort, most)
    }

    /// The patterns that read or maintain a collection and may answer for it.
    fn usable<'c>(
        &self,
        collection: &'c Collection,
    ) -> impl Iterator<Item = &'c Arc<Pattern>> + use<'c> {
        let bound = collection.patterns.as_deref();
        let all = bound.into_iter().flat_map(|bound| bound.sources.iter());
        all.filter(|pattern| Rewrites::is_usable(pattern))
    }

    /// Whether what a pattern maintains is of the same moment as the documents.
    fn is_usable(pattern: &Pattern) -> bool {
        let sync = pattern.declaration.as_doc().get("mode") == Some(Val::String("sync"));
        // What is resolved when it is read saves no reading.
        let stored = !pattern.is_pointer();
        pattern.phase == Phase::Ready && pattern.common.rewrite && sync && stored
    }

    /// What a pattern keeps under a key.
    fn state(&self, pattern: &Pattern, key: &[u8]) -> Result<Option<DocBuf>> {
        let key = state_key(pattern.id, key);
        let found = self.scope.snapshot.get(Space::Documents, &key).map_err(store_failed)?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }

    /// How many children a group has, if that is known, and what its fields show.
    fn group(
        &self,
        pattern: &Pattern,
        grouped: &Grouped,
        key: Val<'_>,
    ) -> Result<(i64, Vec<OwnedVal>)> {
        let record = self.state(pattern, &Grouped::record_key(key))?;
        let record = record.as_ref().map(DocBuf::as_doc);
        let Some((record, key)) = record.and_then(|doc| Some((doc, Grouped::shown_key(doc)?)))
        else {
            return Ok(grouped.shown(record));
        };
        let Some(collection) = self.scope.catalog.get(self.db, &grouped.target) else {
            return Ok(grouped.shown(None));
        };
        let place = write::document_key(collection, &write::record_of_id(collection, key));
        let target = layout::get(collection, &self.scope.snapshot, &place)?;
        Ok(grouped.shown_in(record, target.as_deref().map(RawDoc::new)))
    }

    /// Whether a pattern keeps anything under keys that begin like this.
    fn has_states(&self, pattern: &Pattern, prefix: &[u8]) -> Result<bool> {
        let from = state_key(pattern.id, prefix);
        let snapshot = &self.scope.snapshot;
        let found = snapshot
            .range(Space::Documents, Bound::Included(&from), Bound::Unbounded, Direction::Forward)
            .and_then(|mut range| range.next_entry());
        Ok(found.map_err(store_failed)?.is_some_and(|(key, _)| key.starts_with(&from)))
    }

    /// Whether targets of a pattern wait, be it from a time when it had another mode.
    fn is_behind(&self, pattern: &Pattern) -> Result<bool> {
        self.has_states(pattern, &[::patterns::queue::QUEUE])
    }

    fn note(&mut self, pattern: &Arc<Pattern>, how: &'static str) {
        Stats::add(&pattern.stats.rewrites, 1);
        self.used.push(Used { pattern: pattern.clone(), how });
    }

    /// Writes what was used, as explain shows it.
    pub fn explain(&self, out: &mut Writer<'_>) {
        if self.used.is_empty() {
            return;
        }
        out.array("rewrites", |list| {
            for used in &self.used {
                list.push_doc(|out| {
                    out.str("pattern", &used.pattern.name);
                    out.str("collection", &used.pattern.collection).str("from", used.how);
                });
            }
        });
    }
}

/// An array as a document of its own.
fn written(write: impl FnOnce(&mut value::writer::ArrayWriter<'_>)) -> DocBuf {
    let mut bytes = Vec::new();
    value::writer::write_array(&mut bytes, write);
    DocBuf::from_bytes(bytes)
}

/// The conditions that a filter joins, each a name and what is asked of it.
fn conditions<'f>(filter: RawDoc<'f>, out: &mut Vec<(&'f str, RawVal<'f>)>) {
    for (name, value) in filter {
        match value.as_array().filter(|_| name == "$and") {
            Some(parts) => {
                let parts = parts.iter().filter_map(|(_, part)| part.as_doc());
                parts.for_each(|part| conditions(part, out));
            }
            None if name == "$comment" => {}
            None => out.push((name, value)),
        }
    }
}

/// Whether two lists of conditions are the same, in whatever order.
fn same_conditions(mut a: Vec<(&str, RawVal<'_>)>, mut b: Vec<(&str, RawVal<'_>)>) -> bool {
    let order = |c: &(&str, RawVal<'_>)| (c.0.to_owned(), c.1.kind, c.1.bytes.to_vec());
    a.sort_by_cached_key(order);
    b.sort_by_cached_key(order);
    a == b
}

/// The single value that a condition asks a field to hold.
fn equal_to(value: RawVal<'_>) -> Option<Val<'_>> {
    let value = match value.get() {
        Val::Document(doc) => match doc.first() {
            Some(("$eq", wanted)) if doc.count() == 1 => wanted.get(),
            Some((name, _)) if name.starts_with('$') => return None,
            _ => Val::Document(doc),
        },
        other => other,
    };
    let single = !value.is_nullish() && !matches!(value, Val::Array(_) | Val::Regex(..));
    single.then_some(value)
}

/// The key that a filter asks for, when all it asks beside is what a fold counts anyway.
fn asked_key<'f>(pattern: &Pattern, filter: RawDoc<'f>, foreign: &str) -> Option<Val<'f>> {
    let mut asked = Vec::new();
    conditions(filter, &mut asked);
    let declared = pattern.declaration.as_doc().get("filter").and_then(Val::as_doc);
    let mut counted = Vec::new();
    conditions(declared.unwrap_or(RawDoc::empty()), &mut counted);
    (0..asked.len()).find_map(|at| {
        let mut rest = asked.clone();
        let (name, value) = rest.remove(at);
        let key = equal_to(value).filter(|_| name == foreign)?;
        same_conditions(rest, counted.clone()).then_some(key)
    })
}
