//! The implementation of the trait `Kind` for `tree`.

use super::nodes::Nodes;
use super::numbers::Numbers;
use super::pointer::Chains;
use super::{LEVELS_MAX, Tree};
use crate::answers::{Question, StageAnswer};
use crate::delta::{Delta, Deltas};
use crate::descent::Descent;
use crate::documents::Documents;
use crate::kind::{CheckedPart, Kind, Reads, StateCache, Traits, UniqueField};
use crate::pattern::Pattern;
use crate::queue::Entry;
use crate::scratch::Scratch;
use query::filter::Node;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Result, keys};

impl Kind for Tree {
    fn traits(&self) -> Traits {
        Traits {
            resolved_on_read: self.pointer,
            counts_for_readers: self.counts(),
            queues: !self.pointer,
            awaits: self.defer,
            derives_together: self.dense,
            first_walk: self.counts() || self.pointer,
            sync_only: self.dense.then_some(
                "'mode' must be 'sync' with 'maintain.nestedSet.dense': numbers of which some follow \
                 later would be there twice",
            ),
            ..Traits::default()
        }
    }

    fn source(&self) -> Option<&str> {
        Some(&self.collection)
    }

    fn reads(&self) -> Reads {
        Reads { source: self.reads.clone(), target: Vec::new() }
    }

    fn maintains(&self) -> Vec<String> {
        self.maintained_paths()
    }

    fn joins(&self) -> Reads {
        self.reads()
    }

    fn indexes(&self, target: &str) -> Vec<(String, DocBuf)> {
        self.needed_indexes(target)
    }

    fn unique_field<'k>(&'k self, target: &'k str) -> Option<UniqueField<'k>> {
        let within = self.scope.as_ref().map(Path::text);
        Some(UniqueField { option: "id", path: self.id.text(), within, collection: target })
    }

    fn options_without_rebuild(&self) -> &'static [&'static str] {
        &["onDelete", "onMissingParent"]
    }

    fn fill(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.stored(pattern, documents, before, after).map(Some)
    }

    fn stripped(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        if self.pointer { self.without_fields(doc) } else { Ok(doc.into()) }
    }

    fn note(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) -> Result<Option<Delta>> {
        Ok(Nodes::of(self.changed_nodes(before, after)?).map(|nodes| Delta::Own(nodes)))
    }

    fn settle(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        deltas: &Deltas,
    ) -> Result<()> {
        let Deltas::Own(own) = deltas else { return Ok(()) };
        let own: &dyn Any = &**own;
        match own.downcast_ref::<Nodes>() {
            Some(nodes) => self.settle_nodes(pattern, documents, &nodes.0),
            None => Ok(()),
        }
    }

    /// Parents before their children. The nodes of a cycle come last; they are refused.
    fn write_order(&self, documents: &[RawDoc<'_>]) -> Option<Vec<usize>> {
        let name = |key: OwnedVal| keys::key(key.get());
        let names: BTreeSet<Vec<u8>> =
            documents.iter().map(|doc| name(self.key_of(*doc))).collect();
        let mut children: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        let mut order = Vec::with_capacity(documents.len());
        for (at, doc) in documents.iter().enumerate() {
            let parent = name(self.parent_key_of(*doc));
            match names.contains(&parent) {
                true => children.entry(parent).or_default().push(at),
                false => order.push(at),
            }
        }
        let mut next = 0;
        while let Some(doc) = order.get(next).and_then(|at| documents.get(*at)) {
            next += 1;
            order.extend(children.remove(&name(self.key_of(*doc))).unwrap_or_default());
        }
        order.extend(children.into_values().flatten());
        Some(order)
    }

    fn catch_up(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        entry: &Entry,
        batch: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        self.update_some(pattern, documents, entry, batch)
    }

    /// Processing a node queues its children.
    fn catch_up_rounds(&self) -> usize {
        LEVELS_MAX
    }

    fn waits_since(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<Option<i64>> {
        self.node_waits_since(pattern, documents, target)
    }

    fn visit(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
    ) -> Result<Option<Delta>> {
        if self.pointer {
            self.stored(pattern, documents, None, doc)?;
        }
        Ok(Nodes::of(vec![self.new_node(doc)]).map(|nodes| Delta::Own(nodes)))
    }

    fn derive(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf> {
        self.stored(pattern, documents, None, target)
    }

    fn finish_build(&self, pattern: &Pattern, documents: &mut dyn Documents) -> Result<()> {
        self.number_all(pattern, documents)
    }

    fn reader_cache(&self) -> StateCache {
        Box::new(Chains::default())
    }

    fn resolve(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        doc: RawDoc<'_>,
        cache: &mut StateCache,
    ) -> Result<DocBuf> {
        match cache.downcast_mut() {
            Some(known) => self.resolved(pattern, documents, doc, known),
            None => self.resolved(pattern, documents, doc, &mut Chains::default()),
        }
    }

    fn is_awaiting(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
        cache: &mut StateCache,
    ) -> Result<bool> {
        match cache.downcast_mut() {
            Some(known) => self.lacks_ancestor(pattern, documents, target, known),
            None => self.lacks_ancestor(pattern, documents, target, &mut Chains::default()),
        }
    }

    fn begin_check(&self, fresh: &Pattern, documents: &mut dyn Documents) -> Result<StateCache> {
        Ok(Box::new(self.all_numbers(fresh, documents)?))
    }

    fn expected(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        _records: &mut Scratch,
        target: RawDoc<'_>,
        known: &StateCache,
    ) -> Result<DocBuf> {
        let image = self.recomputed(fresh, documents, target);
        let image = self.tolerated(fresh, target, image)?;
        match known.downcast_ref::<Option<Numbers>>() {
            Some(Some(numbers)) => self.with_numbers(numbers, &image),
            _ => Ok(image),
        }
    }

    fn expected_by_readers(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        stored: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        self.recomputed(fresh, documents, stored).map(Some)
    }

    /// Counts are taken from the records, and numbers depend on those of other nodes.
    fn has_wrong_records(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _records: &Scratch,
        part: &CheckedPart<'_>,
    ) -> Result<bool> {
        Ok((self.counts() || self.dense) && part.drift > 0)
    }

    fn answer_filter(&self, question: &Question<'_>, filter: RawDoc<'_>) -> Result<Option<DocBuf>> {
        self.answer_search(question, filter)
    }

    fn answer_stage(
        &self,
        question: &Question<'_>,
        stages: &[(&str, RawVal<'_>)],
        at: usize,
    ) -> Result<Option<StageAnswer>> {
        match stages.get(at) {
            Some(stage) => self.answer_walk(question, *stage),
            None => Ok(None),
        }
    }

    fn descend(&self, pattern: &Pattern, filter: &Node) -> Option<Descent> {
        let starts = super::search::starts(pattern, self, filter)?;
        Some(Descent { id: self.id.clone(), link: self.parent.clone(), starts })
    }
}
