//! The implementation of the trait `Kind` for `extendedReference`.

use super::{Reference, ResolvedCopies};
use crate::answers::{Question, StageAnswer};
use crate::delta::{Delta, Deltas};
use crate::documents::Documents;
use crate::kind::{Kind, Reads, StateCache, Traits, UniqueField};
use crate::labels::Label;
use crate::paths;
use crate::pattern::Pattern;
use crate::queue::Entry;
use crate::scratch::Scratch;
use value::path::Path;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

impl Kind for Reference {
    fn traits(&self) -> Traits {
        Traits {
            resolved_on_read: self.pointer,
            fans_out: true,
            can_resolve: self.live,
            queues: true,
            chooses_strategy: self.automatic,
            ..Traits::default()
        }
    }

    fn source(&self) -> Option<&str> {
        Some(&self.source)
    }

    fn reads(&self) -> Reads {
        Reads { source: self.reads.clone(), target: self.target_reads() }
    }

    fn maintains(&self) -> Vec<String> {
        self.maintained_paths()
    }

    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        let declared = pattern.declaration.as_doc();
        let into = declared.get("into").and_then(Val::as_str).unwrap_or("");
        let fields = declared.get("fields").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let copies = fields.iter().map(|(_, field)| copied(field.get()));
        let label = |(path, sources)| Label::new(pattern, format!("{into}.{path}"), sources);
        copies.map(label).collect()
    }

    fn joins(&self) -> Reads {
        Reads { source: vec![self.matched.text().to_owned()], target: self.target_reads() }
    }

    fn indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        self.needed_indexes(target)
    }

    fn unique_field<'k>(&'k self, _target: &'k str) -> Option<UniqueField<'k>> {
        let path = self.matched.text();
        Some(UniqueField { option: "match", path, within: None, collection: &self.source })
    }

    fn options_without_rebuild(&self) -> &'static [&'static str] {
        &["onMissing", "onSourceDelete"]
    }

    fn current_strategy(&self) -> Option<&'static str> {
        Some(if self.pointer { "pointer" } else { "copy" })
    }

    fn fill(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.with_copies(pattern, documents, before, after).map(Some)
    }

    fn stripped(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        if self.pointer { self.without_any(doc) } else { Ok(doc.into()) }
    }

    fn note(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Option<Delta>> {
        let keys = self.changed_keys(pattern, documents, before, after)?;
        Ok((!keys.is_empty()).then_some(Delta::Keys(keys)))
    }

    fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        deltas: &Deltas,
    ) -> Result<()> {
        let Deltas::Keys(all) = deltas else { return Ok(()) };
        all.iter()
            .try_for_each(|(key, value)| self.settle_key(pattern, documents, key, value.get()))
    }

    fn catch_up(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        entry: &Entry,
        batch: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        self.update_some(pattern, documents, entry.key.get(), &entry.at, batch)
    }

    fn waiting_targets(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        entry: &Entry,
    ) -> Result<u64> {
        self.count_followers(pattern, documents, entry.key.get(), &entry.at)
    }

    fn queue_keys(&self, target: RawDoc<'_>) -> Vec<Vec<u8>> {
        self.references(target)
    }

    fn derive(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf> {
        self.derived(pattern, documents, target)
    }

    fn reader_cache(&self) -> StateCache {
        Box::new(ResolvedCopies::default())
    }

    fn resolve(
        &self,
        _pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
        cache: &mut StateCache,
    ) -> Result<DocBuf> {
        match cache.downcast_mut() {
            Some(known) => self.resolved(documents, doc, known),
            None => self.resolved(documents, doc, &mut ResolvedCopies::default()),
        }
    }

    fn expected(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        _records: &mut Scratch,
        target: RawDoc<'_>,
        _known: &StateCache,
    ) -> Result<DocBuf> {
        self.expected_copies(fresh, documents, target)
    }

    fn built(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        _records: &mut Scratch,
        target: RawDoc<'_>,
        _known: &StateCache,
    ) -> Result<DocBuf> {
        self.derived(fresh, documents, target)
    }

    fn cleared(&self, doc: RawDoc<'_>, paths: &[Path]) -> Result<DocBuf> {
        self.without_copies_at(doc, paths)
    }

    fn cleared_if_same(
        &self,
        before: RawDoc<'_>,
        after: RawDoc<'_>,
        paths: &[Path],
    ) -> Result<DocBuf> {
        self.without_old_copies(before, after, paths)
    }

    fn answer_stage(
        &self,
        question: &Question<'_>,
        stages: &[(&str, RawVal<'_>)],
        at: usize,
    ) -> Result<Option<StageAnswer>> {
        self.answer_lookup(question, stages, at)
    }
}

/// The name of a copy and the fields that it depends on.
fn copied(field: Val<'_>) -> (String, Vec<String>) {
    let mut sources = Vec::new();
    let path = match field {
        Val::String(path) => {
            sources.push(path.to_owned());
            path
        }
        other => {
            let doc = other.as_doc().unwrap_or(RawDoc::empty());
            paths::of_expression(doc.get("expr").unwrap_or(Val::Null), &mut sources);
            doc.get("as").and_then(Val::as_str).unwrap_or("")
        }
    };
    (path.to_owned(), sources)
}
