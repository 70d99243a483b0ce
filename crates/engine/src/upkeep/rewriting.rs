//! Rewriting of queries to read maintained values. The result of a query stays the same.
//!
//! Patterns are tried in order (`patterns::Kind::answer_*`) at the snapshot of the query, so that
//! values and documents are consistent. Only patterns that are ready, up to date and declared with
//! `rewrite: true` are tried. A command with `rewrite: false` is not rewritten.

use crate::catalog::{Collection, IndexState};
use crate::layout;
use crate::records::pattern_reads::state_key;
use crate::records::write;
use crate::store_failed;
use crate::txn::View as Scope;
use ::patterns::Pattern;
use ::patterns::answers::{AnswerSnapshot, GroupQuery, QueryKind, Question, UnwindQuery, written};
use ::patterns::layout::Records;
use ::patterns::stats::Stats;
use std::ops::Bound;
use std::sync::Arc;
use store::{Direction, Space};
use value::{DocBuf, RawDoc, RawVal, Result, Val, Writer};

/// A rewrite that was applied, for explain.
#[derive(Clone, Debug)]
pub struct Used {
    pattern: Arc<Pattern>,
    from: &'static str,
}

impl Used {
    /// The name of the pattern.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.pattern.name
    }

    /// The collection whose documents it maintains.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.pattern.target
    }
}

/// The rewrites of one query.
pub struct Rewrites<'q> {
    scope: &'q Scope,
    db: &'q str,
    /// The rewrites that were applied.
    pub used: Vec<Used>,
    /// Why patterns must not answer, for explain: the query has a hint, for example.
    barred: Option<&'static str>,
    /// The patterns that could not answer, and why; collected for explain only.
    declined: Option<Vec<(Arc<Pattern>, String)>>,
}

/// A rewritten pipeline.
pub struct Pipeline {
    /// The collection that it reads; `None` if the pipeline contains its documents.
    pub collection: Option<Arc<Collection>>,
    /// Its stages.
    pub stages: DocBuf,
}

/// The name and the argument of a stage.
type Stage<'s> = (&'s str, RawVal<'s>);

impl<'q> Rewrites<'q> {
    /// Creates the rewrites of a query at its snapshot.
    #[must_use]
    pub fn new(scope: &'q Scope, db: &'q str) -> Rewrites<'q> {
        Rewrites { scope, db, used: Vec::new(), barred: None, declined: None }
    }

    /// The rewrites of a query that is explained: patterns that do not answer are remembered with
    /// the reason. If `barred` has one, none may answer.
    #[must_use]
    pub fn explained(scope: &'q Scope, db: &'q str, barred: Option<&'static str>) -> Rewrites<'q> {
        Rewrites { barred, declined: Some(Vec::new()), ..Rewrites::new(scope, db) }
    }

    /// Returns the filter that replaces the one of a find. `most` is the number of documents that
    /// are needed, counted from the first in the requested order.
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
        if let (Some(sort), Some(most)) = (sort, most) {
            let query = QueryKind::First { filter, sort, limit: most };
            let found = self.ask(collection, "sort", &query, |pattern, question| {
                pattern.kind.answer_first(question, filter, sort, most)
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        self.ask(collection, "path", &QueryKind::Other, |pattern, question| {
            pattern.kind.answer_filter(question, filter)
        })
    }

    /// Returns how many documents match, if a pattern maintains that count.
    ///
    /// # Errors
    /// When the store fails.
    pub fn count(&mut self, collection: &Collection, filter: RawDoc<'_>) -> Result<Option<u64>> {
        self.ask(collection, "count", &QueryKind::Count(filter), |pattern, question| {
            pattern.kind.answer_count(question, filter)
        })
    }

    /// Returns the pipeline that replaces one over a collection.
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
        let stages: Vec<Stage<'_>> = pipeline
            .iter()
            .filter_map(|(_, stage)| stage.as_doc().filter(|doc| doc.count() == 1)?.first())
            .collect();
        if stages.len() != pipeline.count() {
            return Ok(None);
        }
        if let Some(found) = self.group(collection, &stages)? {
            return Ok(Some(found));
        }
        let first = self.first_match(collection, &stages)?;
        let replaced = self.stages(collection, &stages)?;
        if first.is_none() && replaced.iter().all(Option::is_none) {
            return Ok(None);
        }
        let stages = written(|list| {
            for (at, (name, value)) in stages.iter().enumerate() {
                match (replaced.get(at).and_then(Option::as_ref), &first) {
                    (Some(stage), _) => list.push_doc_bytes(stage.bytes()),
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

    /// Rewrites a pipeline that begins with `$group`, after a `$match`, an `$unwind` and another
    /// `$match`, or some of them.
    fn group(
        &mut self,
        collection: &Arc<Collection>,
        stages: &[Stage<'_>],
    ) -> Result<Option<Pipeline>> {
        let Some((query, rest)) = grouped(stages) else { return Ok(None) };
        let answer =
            self.ask(collection, "$group", &QueryKind::Group(&query), |pattern, question| {
                pattern.kind.answer_group(question, &query)
            })?;
        let Some(answer) = answer else { return Ok(None) };
        let catalog = &self.scope.catalog;
        let collection = answer.collection.and_then(|name| catalog.get(self.db, &name).cloned());
        let stages = written(|list| {
            list.push_doc_bytes(answer.stage.bytes());
            for (name, value) in rest {
                list.push_doc(|out| {
                    out.raw(name, *value);
                });
            }
        });
        Ok(Some(Pipeline { collection, stages }))
    }

    /// Rewrites a leading `$match`, with the `$sort` and `$limit` after it.
    fn first_match(
        &mut self,
        collection: &Collection,
        stages: &[Stage<'_>],
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

    /// Returns the replacement of each stage, up to the first one that no longer gets stored
    /// documents.
    fn stages(
        &mut self,
        collection: &Collection,
        stages: &[Stage<'_>],
    ) -> Result<Vec<Option<DocBuf>>> {
        let Some(bound) = &collection.patterns else { return Ok(Vec::new()) };
        let mut replaced = Vec::new();
        for (at, (name, _)) in stages.iter().enumerate() {
            let mut answer = None;
            for pattern in &bound.targets {
                let silent = self.silence(collection, pattern)?;
                if silent.is_some() && self.declined.is_none() {
                    continue;
                }
                let question = Question { pattern, collection: &collection.name, snapshot: self };
                answer = pattern.kind.answer_stage(&question, stages, at)?;
                if let (Some(why), Some(_)) = (&silent, &answer) {
                    self.decline(pattern, why.clone());
                    answer = None;
                }
                if let Some(answer) = &answer {
                    self.note(pattern, answer.from);
                    break;
                }
            }
            let goes_on = match &answer {
                Some(answer) => answer.keeps_documents,
                None => matches!(*name, "$match" | "$sort" | "$limit" | "$skip"),
            };
            replaced.push(answer.map(|answer| answer.stage));
            if !goes_on {
                break;
            }
        }
        Ok(replaced)
    }

    /// Tries the patterns that read a collection in order, and records the first that answers.
    fn ask<T>(
        &mut self,
        collection: &Collection,
        from: &'static str,
        query: &QueryKind<'_>,
        ask: impl Fn(&Pattern, &Question<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let Some(bound) = &collection.patterns else { return Ok(None) };
        let layouts = bound.targets.iter().filter(|pattern| pattern.layout().is_some());
        for pattern in bound.sources.iter().chain(layouts) {
            let silent = self.silence(collection, pattern)?;
            if silent.is_some() && self.declined.is_none() {
                continue;
            }
            let question = Question { pattern, collection: &collection.name, snapshot: self };
            let answer = ask(pattern, &question)?;
            match (silent, answer) {
                (None, Some(answer)) => {
                    self.note(pattern, from);
                    return Ok(Some(answer));
                }
                (Some(why), Some(_)) => self.decline(pattern, why),
                (_, None) if self.declined.is_some() => {
                    if let Some(why) = pattern.kind.why_not(&question, query)? {
                        self.decline(pattern, why);
                    }
                }
                (_, None) => {}
            }
        }
        Ok(None)
    }

    /// Why a pattern must not answer; `None` if it may.
    fn silence(&self, collection: &Collection, pattern: &Pattern) -> Result<Option<String>> {
        if let Some(barred) = self.barred {
            return Ok(Some(barred.to_owned()));
        }
        if let Some(why) = pattern.why_silent() {
            return Ok(Some(why));
        }
        let otherwise = self.is_seen_otherwise(collection, pattern)?;
        Ok(otherwise.then(|| "this client sees documents in another form".to_owned()))
    }

    fn decline(&mut self, pattern: &Arc<Pattern>, why: String) {
        let Some(declined) = &mut self.declined else { return };
        if !declined.iter().any(|(known, _)| known.id == pattern.id) {
            declined.push((pattern.clone(), why));
        }
    }

    /// Whether the reader sees documents of the queried collection, or of one that a pattern reads
    /// or maintains, in a form of its own. Maintained values are those of canonical documents.
    fn is_seen_otherwise(&self, collection: &Collection, pattern: &Pattern) -> Result<bool> {
        if collection.form.is_some() {
            return Ok(true);
        }
        for name in [Some(&*pattern.target), pattern.source()].into_iter().flatten() {
            let found = self.scope.catalog.get(self.db, name);
            if let Some(found) = found
                && self.scope.seen(found)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn note(&mut self, pattern: &Arc<Pattern>, from: &'static str) {
        Stats::add(&pattern.stats.rewrites, 1);
        self.used.push(Used { pattern: pattern.clone(), from });
    }

    /// Writes the applied rewrites, and the patterns that nearly answered, for explain.
    pub fn explain(&self, out: &mut Writer<'_>) {
        let is_used =
            |pattern: &Pattern| self.used.iter().any(|used| used.pattern.id == pattern.id);
        let declined = self.declined.iter().flatten();
        let mut declined: Vec<_> = declined.filter(|(pattern, _)| !is_used(pattern)).collect();
        declined.sort_by_key(|(pattern, _)| (&pattern.collection, &pattern.name));
        if !declined.is_empty() {
            out.array("unusedPatterns", |list| {
                for (pattern, why) in declined {
                    list.push_doc(|out| {
                        out.str("pattern", &pattern.name).str("collection", &pattern.collection);
                        out.str("why", why);
                    });
                }
            });
        }
        if self.used.is_empty() {
            return;
        }
        out.array("rewrites", |list| {
            for used in &self.used {
                list.push_doc(|out| {
                    out.str("pattern", &used.pattern.name);
                    out.str("collection", &used.pattern.collection).str("from", used.from);
                });
            }
        });
    }
}

/// The stages of a pipeline up to its `$group`, and the rest.
fn grouped<'s>(stages: &'s [Stage<'s>]) -> Option<(GroupQuery<'s>, &'s [Stage<'s>])> {
    let matched = |stages: &'s [Stage<'s>]| match stages {
        [("$match", filter), rest @ ..] => Some((filter.as_doc()?, rest)),
        _ => Some((RawDoc::empty(), stages)),
    };
    let (filter, rest) = matched(stages)?;
    let (unwind, rest) = match rest {
        [("$unwind", value), rest @ ..] => {
            let path = unwound_path(value.get())?;
            let (filter, rest) = matched(rest)?;
            (Some(UnwindQuery { path, filter }), rest)
        }
        _ => (None, rest),
    };
    match rest {
        [("$group", group), rest @ ..] => {
            Some((GroupQuery { filter, unwind, group: group.as_doc()? }, rest))
        }
        _ => None,
    }
}

/// The path of a plain `$unwind`: one that returns nothing of documents without elements.
fn unwound_path(value: Val<'_>) -> Option<&str> {
    let path = match value {
        Val::Document(doc) => {
            let plain = |(name, value): (&str, RawVal<'_>)| match name {
                "path" => true,
                "preserveNullAndEmptyArrays" => value.get() == Val::Bool(false),
                _ => false,
            };
            doc.get("path").filter(|_| doc.iter().all(plain))?.as_str()?
        }
        other => other.as_str()?,
    };
    path.strip_prefix('$')
}

impl AnswerSnapshot for Rewrites<'_> {
    fn state(&self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>> {
        let key = state_key(pattern, key);
        let found = self.scope.snapshot.get(Space::Documents, &key).map_err(store_failed)?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }

    fn has_states(&self, pattern: u32, prefix: &[u8]) -> Result<bool> {
        let from = state_key(pattern, prefix);
        let snapshot = &self.scope.snapshot;
        let found = snapshot
            .range(Space::Documents, Bound::Included(&from), Bound::Unbounded, Direction::Forward)
            .and_then(|mut range| range.next_entry());
        Ok(found.map_err(store_failed)?.is_some_and(|(key, _)| key.starts_with(&from)))
    }

    fn get(&self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>> {
        let Some(collection) = self.scope.catalog.get(self.db, collection) else {
            return Ok(None);
        };
        let key = write::document_key(collection, &write::record_of_id(collection, id));
        let found = layout::get(collection, &self.scope.snapshot, &key)?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }

    fn records(&self, collection: &str, pattern: u32) -> Option<Arc<dyn Records>> {
        let layouts = self.scope.catalog.get(self.db, collection)?.layouts.as_ref()?;
        layout::records(layouts, &self.scope.snapshot, pattern)
    }

    fn has_collection(&self, collection: &str) -> bool {
        self.scope.catalog.get(self.db, collection).is_some()
    }

    fn has_index(&self, collection: &str, first: &str) -> bool {
        let Some(collection) = self.scope.catalog.get(self.db, collection) else { return false };
        collection.indexes.iter().any(|index| {
            let plain = index.partial.is_none() && index.collation.is_none() && !index.hidden;
            let field = index.fields.first().map(|field| field.path.text());
            plain && index.state == IndexState::Ready && field == Some(first)
        })
    }
}
