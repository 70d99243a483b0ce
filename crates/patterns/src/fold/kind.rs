//! Kinds that consist of one fold. `Folded` implements everything about the fold; the kinds differ
//! in their declaration and a `Form`.

use super::groups::Child;
use super::{Fold, Keys};
use crate::answers::{GroupAnswer, GroupQuery, QueryKind, Question};
use crate::delta::{Delta, Deltas};
use crate::documents::Documents;
use crate::edit;
use crate::kind::{CheckedPart, Kind, MissingDocuments, Reads, StateCache, Traits};
use crate::labels::Label;
use crate::pattern::{Pattern, Phase};
use crate::queue::Entry;
use crate::scratch::Scratch;
use crate::stats::Stats;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt::Debug;
use value::{DocBuf, RawDoc, Result};

/// What differs between kinds that consist of a fold.
pub trait Form: Debug + Send + Sync {
    /// The fields of the children that each maintained field depends on.
    fn labels(&self, pattern: &Pattern) -> Vec<Label>;

    /// The filter for the first children of a sorted query, at most `limit` of them.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_first(
        &self,
        _fold: &Fold,
        _question: &Question<'_>,
        _filter: RawDoc<'_>,
        _sort: RawDoc<'_>,
        _limit: u64,
    ) -> Result<Option<DocBuf>> {
        Ok(None)
    }
}

/// A kind that consists of a fold.
#[derive(Debug)]
pub struct Folded<F> {
    /// The fold.
    pub fold: Fold,
    /// The specifics of the kind.
    pub form: F,
}

impl<F: Form> Kind for Folded<F> {
    fn traits(&self) -> Traits {
        Traits {
            owns_documents: self.fold.is_own(),
            queues: true,
            expires: self.fold.window.is_some(),
            first_walk: true,
            records_of_sources: true,
            exact_reads: true,
            flush_ms: self.fold.flush.as_ref().map(|flush| flush.after_ms),
            ..Traits::default()
        }
    }

    fn source(&self) -> Option<&str> {
        Some(&self.fold.source)
    }

    fn reads(&self) -> Reads {
        Reads { source: self.fold.reads.clone(), target: self.fold.target_reads() }
    }

    fn maintains(&self) -> Vec<String> {
        self.fold.maintains()
    }

    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        self.form.labels(pattern)
    }

    fn joins(&self) -> Reads {
        let mut source: Vec<String> = Vec::new();
        source.extend(self.fold.unwind.as_ref().map(|unwind| unwind.path().to_owned()));
        if let Keys::Parents { foreign, .. } = &self.fold.keys {
            source.push(foreign.text().to_owned());
        }
        Reads { source, target: self.fold.target_reads() }
    }

    fn indexes(&self, _target: &str) -> Vec<(String, DocBuf)> {
        self.fold.indexes()
    }

    fn collection_options(&self) -> &'static [&'static str] {
        match self.fold.keys {
            Keys::Groups(_) => &["from", "into"],
            Keys::Parents { .. } => &["from"],
        }
    }

    fn options_without_rebuild(&self) -> &'static [&'static str] {
        &["onMissingParent"]
    }

    fn fill(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.fold.shape(pattern, documents, before, after)
    }

    fn before_delete(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<()> {
        self.fold.check_removal(pattern, documents, target)?;
        self.fold.keep_record(pattern, documents, target)
    }

    fn before_bypass(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<()> {
        self.fold.keep_record(pattern, documents, target)
    }

    fn note(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Option<Delta>> {
        if !pattern.has_walked(documents, after.or(before))? {
            return Ok(None);
        }
        let fold = &self.fold;
        let from = fold.horizon(pattern, documents)?;
        if let Some(unwind) = &fold.unwind {
            let elements = |doc| fold.elements(unwind, doc, &from);
            let old = before.map(elements).transpose()?.unwrap_or_default();
            let new = after.map(elements).transpose()?.unwrap_or_default();
            let skipped = after.filter(|_| fold.skip_errors);
            let skipped = skipped.map_or(0, |doc| fold.skipped_elements(unwind, doc));
            Stats::add(&pattern.stats.errors, skipped);
            if pattern.phase != Phase::Preparing {
                let known: Vec<&Child> = old.iter().map(|(_, child)| child).collect();
                new.iter().try_for_each(|(_, child)| {
                    fold.check_parents(pattern, documents, &known, child)
                })?;
            }
            let (gone, come) = Fold::changed_elements(old, new);
            let changes = !gone.is_empty() || !come.is_empty();
            return Ok(changes.then_some(Delta::Children(gone, come)));
        }
        let old = before.map(|doc| fold.child(doc, &from)).transpose()?.flatten();
        let new = after.map(|doc| fold.child(doc, &from)).transpose()?.flatten();
        if new.is_none() && after.is_some_and(|doc| fold.is_skipped(doc)) {
            Stats::add(&pattern.stats.errors, 1);
        }
        if let Some(child) = new.as_ref().filter(|_| pattern.phase != Phase::Preparing) {
            let known: SmallVec<[&Child; 1]> = old.iter().collect();
            fold.check_parents(pattern, documents, &known, child)?;
        }
        Ok((old != new).then_some(Delta::Child(old, new)))
    }

    fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        deltas: &Deltas,
    ) -> Result<()> {
        let Deltas::Groups(groups) = deltas else { return Ok(()) };
        groups.iter().try_for_each(|(key, group)| self.fold.settle(pattern, documents, key, group))
    }

    fn catch_up(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        entry: &Entry,
        _batch: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        Ok((self.fold.follow_group(pattern, documents, entry.key.get())?, None))
    }

    fn queue_keys(&self, target: RawDoc<'_>) -> Vec<Vec<u8>> {
        self.fold.local_key(target).into_iter().collect()
    }

    fn has_expired(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<bool> {
        self.fold.has_expired(pattern, documents)
    }

    fn expire(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        batch: usize,
    ) -> Result<Vec<Delta>> {
        let gone = self.fold.expired(pattern, documents, batch)?;
        Ok(gone.into_iter().map(|child| Delta::Child(Some(child), None)).collect())
    }

    fn as_of(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<Option<i64>> {
        self.fold.window_as_of(pattern, documents)
    }

    fn begin_build(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<()> {
        self.fold.open_window(pattern, documents)
    }

    fn visit(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
    ) -> Result<Option<Delta>> {
        let from = self.fold.horizon(pattern, documents)?;
        if let Some(unwind) = &self.fold.unwind {
            let elements = self.fold.elements(unwind, doc, &from)?.into_iter();
            return Ok(Some(Delta::Children(
                Vec::new(),
                elements.map(|(_, child)| child).collect(),
            )));
        }
        Ok(self.fold.child(doc, &from)?.map(|child| Delta::Child(None, Some(child))))
    }

    fn derive(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf> {
        edit::assign(target, &self.fold.target_values(pattern, documents, target)?)
    }

    fn write_documents(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        after: &[u8],
        batch: usize,
    ) -> Result<Option<(Vec<u8>, usize)>> {
        self.fold.write_groups(pattern, documents, after, batch)
    }

    fn has_document(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<bool> {
        self.fold.has_group(pattern, documents, target)
    }

    fn check_key(&self, _record: &[u8], target: RawDoc<'_>) -> Vec<u8> {
        self.fold.local_key(target).unwrap_or_default()
    }

    fn recount(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        source: RawDoc<'_>,
        has: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Delta>> {
        let from = self.fold.horizon(pattern, documents)?;
        if let Some(unwind) = &self.fold.unwind {
            let mut children = Vec::new();
            for (_, mut child) in self.fold.elements(unwind, source, &from)? {
                child.keys.retain(|(key, _)| has(key));
                children.push(child);
            }
            return Ok(Some(Delta::Children(Vec::new(), children)));
        }
        let Some(mut child) = self.fold.child(source, &from)? else { return Ok(None) };
        child.keys.retain(|(key, _)| has(key));
        Ok(Some(Delta::Child(None, Some(child))))
    }

    fn expected(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        records: &mut Scratch,
        target: RawDoc<'_>,
        _known: &StateCache,
    ) -> Result<DocBuf> {
        self.fold.align_target(fresh, documents, records, target)?;
        self.derive(fresh, records, target)
    }

    fn has_wrong_records(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &Scratch,
        part: &CheckedPart<'_>,
    ) -> Result<bool> {
        self.fold.has_wrong_records(pattern, documents, records, part)
    }

    fn missing_documents(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        records: &mut Scratch,
        there: &BTreeSet<Vec<u8>>,
    ) -> Result<MissingDocuments> {
        self.fold.missing_documents(pattern, documents, records, there)
    }

    fn answer_group(
        &self,
        question: &Question<'_>,
        query: &GroupQuery<'_>,
    ) -> Result<Option<GroupAnswer>> {
        self.fold.answer_group(question, query)
    }

    fn why_not(&self, question: &Question<'_>, query: &QueryKind<'_>) -> Result<Option<String>> {
        self.fold.why_not(question, query)
    }

    fn answer_count(&self, question: &Question<'_>, filter: RawDoc<'_>) -> Result<Option<u64>> {
        self.fold.answer_count(question, filter)
    }

    fn answer_first(
        &self,
        question: &Question<'_>,
        filter: RawDoc<'_>,
        sort: RawDoc<'_>,
        limit: u64,
    ) -> Result<Option<DocBuf>> {
        self.form.answer_first(&self.fold, question, filter, sort, limit)
    }
}
