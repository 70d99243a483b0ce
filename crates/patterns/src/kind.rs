//! The contract of a kind of pattern: everything that the database asks a kind, in one trait.
//!
//! A kind is a folder in `kinds` and a row of `kinds::KINDS`. Whoever maintains documents (`maintain`,
//! `queue`, `clearing`, `resolve`, and the engine) calls this trait and never names a kind.
//!
//! Most methods have a default that fits a kind which does nothing of the sort. A kind that only computes
//! fields of the document that is written implements `maintains`, `reads`, `fill` and `derive`. A kind
//! that decides how documents are stored, or how a reader sees them, gives a `layout` or a `shape`.

use crate::answers::{GroupAnswer, Question, StageAnswer};
use crate::delta::{Delta, Deltas};
use crate::descent::Descent;
use crate::documents::Documents;
use crate::edit::{self, Assignment};
use crate::labels::Label;
use crate::layout::Layout;
use crate::pattern::Pattern;
use crate::queue::{self, Entry};
use crate::scratch::Scratch;
use crate::shape::Shape;
use query::filter::Node;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use value::path::Path;
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Result};

/// What callers have to know of a pattern before they call its kind. It follows from the declaration
/// and never changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits {
    /// The documents of the target are made and deleted by the pattern; clients may do neither.
    pub owns_documents: bool,
    /// Nothing of what is maintained is stored: readers resolve it (`strategy: "pointer"`).
    pub resolved_on_read: bool,
    /// Readers who resolve it need records that the pattern keeps, not only documents.
    pub counts_for_readers: bool,
    /// One change of a source may concern any number of targets.
    pub fans_out: bool,
    /// Targets that wait in the queue can be resolved for readers meanwhile.
    pub can_resolve: bool,
    /// Targets may wait in a queue.
    pub queues: bool,
    /// Sources count for some time only.
    pub expires: bool,
    /// A target may wait for a source that is not there yet.
    pub awaits: bool,
    /// No target can be derived without all others.
    pub derives_together: bool,
    /// A build reads documents before it writes any: for its records, or to check them all.
    pub first_walk: bool,
    /// Its records follow from the sources alone: they can be filled beside those of an old version,
    /// and a check recomputes them.
    pub records_of_sources: bool,
    /// It depends on the paths that `reads` lists and on nothing else of a document.
    pub exact_reads: bool,
    /// The database chooses its strategy.
    pub chooses_strategy: bool,
    /// Why targets must be updated in the commit of their source, if they must.
    pub sync_only: Option<&'static str>,
}

/// The paths that a pattern reads. The empty path is the whole document.
#[derive(Debug, Default)]
pub struct Reads {
    /// Of its source, or of the target where it has none.
    pub source: Vec<String>,
    /// Of its target.
    pub target: Vec<String>,
}

/// A field that must have a unique index, because it names single documents.
pub struct UniqueField<'k> {
    /// The option that names the field.
    pub option: &'static str,
    /// The field.
    pub path: &'k str,
    /// The collection.
    pub collection: &'k str,
}

/// What a kind remembers between documents of one state of the store. It must not outlive that state.
pub type StateCache = Box<dyn Any + Send + Sync>;

/// Which part of a pattern a check covers.
pub struct CheckedPart<'c> {
    /// Whether that is all of it.
    pub is_whole: bool,
    /// Whether a key, as `check_key` gives it, belongs to it.
    pub has: &'c dyn Fn(&[u8]) -> bool,
    /// Wrong values that were found in targets.
    pub drift: u64,
}

/// Documents of a target that are missing.
#[derive(Default)]
pub struct MissingDocuments {
    /// Their `_id`s.
    pub ids: Vec<OwnedVal>,
    /// How many more are not missing but wait in the queue.
    pub stale: u64,
}

/// A kind of pattern, as one declaration made it.
pub trait Kind: Debug + Send + Sync {
    // What it is.

    /// What callers have to know before they call.
    fn traits(&self) -> Traits;

    /// The collection that it reads beside the target's documents themselves.
    fn source(&self) -> Option<&str> {
        None
    }

    /// The paths that it reads.
    fn reads(&self) -> Reads;

    /// The paths of the target's documents that it maintains.
    fn maintains(&self) -> Vec<String>;

    /// Which source fields each maintained field is made of.
    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        crate::labels::of_all_reads(pattern)
    }

    /// The indexes that it needs: collection and key pattern.
    fn indexes(&self, _target: &str) -> Vec<(String, DocBuf)> {
        Vec::new()
    }

    /// The field that must name single documents, if there is one.
    fn unique_field<'k>(&'k self, _target: &'k str) -> Option<UniqueField<'k>> {
        None
    }

    /// The options whose values are names of collections.
    fn collection_options(&self) -> &'static [&'static str] {
        &["from"]
    }

    /// The options of the kind that change nothing of what is stored, so that `modifyPattern` need not
    /// build the pattern again.
    fn light_options(&self) -> &'static [&'static str] {
        &[]
    }

    /// The strategy that the pattern has now, in a kind whose strategy the database may choose.
    fn current_strategy(&self) -> Option<&'static str> {
        None
    }

    /// How documents are stored, if that is what the kind decides.
    fn layout(&self) -> Option<&dyn Layout> {
        None
    }

    /// How a reader sees documents, if that is what the kind decides.
    fn shape(&self) -> Option<&dyn Shape> {
        None
    }

    // Writes.

    /// The image of a target that somebody writes, with its maintained fields; `None` if `after` has
    /// them already.
    ///
    /// # Errors
    /// PatternViolation for what the pattern does not allow; when the store fails.
    fn fill(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>>;

    /// The document without anything that the pattern maintains. Called where nothing is stored.
    ///
    /// # Errors
    /// PatternViolation when something stands in a path's way.
    fn stripped(&self, doc: RawDoc<'_>) -> Result<DocBuf> {
        Ok(doc.into())
    }

    /// Called before a target is deleted.
    ///
    /// # Errors
    /// PatternViolation when it must stay.
    fn before_delete(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _target: RawDoc<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Called before somebody writes a target without telling the pattern: records that the target
    /// stood for have to be stored.
    ///
    /// # Errors
    /// When the store fails.
    fn before_bypass(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _target: RawDoc<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// What a change of a source means for targets. The source is not written yet.
    ///
    /// # Errors
    /// PatternViolation for what the pattern does not allow; what an expression gives.
    fn note(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _before: Option<RawDoc<'_>>,
        _after: Option<RawDoc<'_>>,
    ) -> Result<Option<Delta>> {
        Ok(None)
    }

    /// Applies the deltas of a statement to targets and records, before the statement commits.
    ///
    /// # Errors
    /// What the pattern or a target refuses.
    fn settle(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _deltas: &Deltas,
    ) -> Result<()> {
        Ok(())
    }

    /// The order in which many documents are written at once, where some need others to be there: each
    /// place in `documents` once. `None` for any order.
    fn write_order(&self, _documents: &[RawDoc<'_>]) -> Option<Vec<usize>> {
        None
    }

    // Targets that are updated later.

    /// Brings targets of a queue's entry up to date, about `batch` of them. Returns how many were looked
    /// at, and the `_id` key behind which others are left.
    ///
    /// # Errors
    /// When the store fails or a target cannot be written.
    fn catch_up(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _entry: &Entry,
        _batch: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        Ok((0, None))
    }

    /// How often the queue has to be worked off until all shows that is queued now: entries may leave
    /// others behind.
    fn catch_up_rounds(&self) -> usize {
        1
    }

    /// How many targets wait for an entry.
    ///
    /// # Errors
    /// When the store fails.
    fn waiting_targets(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _entry: &Entry,
    ) -> Result<u64> {
        Ok(1)
    }

    /// The encoded keys whose entries concern a target.
    fn queue_keys(&self, _target: RawDoc<'_>) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Since when a target waits for an entry, in milliseconds since 1970; `None` if it does not wait.
    ///
    /// # Errors
    /// When the store fails.
    fn waits_since(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<Option<i64>> {
        queue::first_entry(pattern, documents, target, &self.queue_keys(target))
    }

    /// Whether sources have become too old to count.
    ///
    /// # Errors
    /// When the store fails.
    fn has_expired(&self, _pattern: &Pattern, _documents: &mut dyn Documents) -> Result<bool> {
        Ok(false)
    }

    /// What the sources that have become too old mean for targets, at most `batch` of them. They are no
    /// longer counted.
    ///
    /// # Errors
    /// When the store fails.
    fn expire(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _batch: usize,
    ) -> Result<Vec<Delta>> {
        Ok(Vec::new())
    }

    /// The time for which targets are right, where time alone makes them wrong.
    ///
    /// # Errors
    /// When the store fails.
    fn as_of(&self, _pattern: &Pattern, _documents: &mut dyn Documents) -> Result<Option<i64>> {
        Ok(None)
    }

    // Builds. A build walks over the sources (`first_walk`), then over the targets.

    /// Called in the first commit of a build.
    ///
    /// # Errors
    /// When the store fails.
    fn begin_build(&self, _pattern: &Pattern, _documents: &mut dyn Documents) -> Result<()> {
        Ok(())
    }

    /// What a document means that the first walk of a build came to.
    ///
    /// # Errors
    /// PatternViolation for what cannot be; what an expression gives.
    fn visit(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _doc: RawDoc<'_>,
    ) -> Result<Option<Delta>> {
        Ok(None)
    }

    /// A target with what the pattern maintains, derived from the sources alone.
    ///
    /// # Errors
    /// What the pattern refuses.
    fn derive(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf>;

    /// Writes documents that the pattern owns, those behind the key `after`, at most `batch`. Returns the
    /// last key and how many; `None` when there are no more.
    ///
    /// # Errors
    /// When the store fails.
    fn write_documents(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _after: &[u8],
        _batch: usize,
    ) -> Result<Option<(Vec<u8>, usize)>> {
        Ok(None)
    }

    /// Whether a document that the pattern owns has to be there.
    ///
    /// # Errors
    /// When the store fails.
    fn has_document(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _target: RawDoc<'_>,
    ) -> Result<bool> {
        Ok(true)
    }

    /// Called when a build has come to every target.
    ///
    /// # Errors
    /// When the store fails or a target cannot be written.
    fn finish_build(&self, _pattern: &Pattern, _documents: &mut dyn Documents) -> Result<()> {
        Ok(())
    }

    // Reads.

    /// An empty cache for `resolve` and `is_awaiting`.
    fn reader_cache(&self) -> StateCache {
        Box::new(())
    }

    /// A document as if everything that is maintained were stored.
    ///
    /// # Errors
    /// When the store fails.
    fn resolve(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        doc: RawDoc<'_>,
        _cache: &mut StateCache,
    ) -> Result<DocBuf> {
        Ok(doc.into())
    }

    /// Whether a target waits for a source that is not there yet.
    ///
    /// # Errors
    /// When the store fails.
    fn is_awaiting(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _target: RawDoc<'_>,
        _cache: &mut StateCache,
    ) -> Result<bool> {
        Ok(false)
    }

    // Checks. `fresh` is the pattern as if it were being built: it trusts nothing but sources.

    /// The key by which a check chooses a target: that of its record, or of what the pattern keeps of it.
    fn check_key(&self, record: &[u8], _target: RawDoc<'_>) -> Vec<u8> {
        record.to_vec()
    }

    /// What a source adds to recomputed records, for the keys that `has` accepts.
    ///
    /// # Errors
    /// What an expression gives.
    fn recount(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _source: RawDoc<'_>,
        _has: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Delta>> {
        Ok(None)
    }

    /// What a check has to know of all targets before it looks at single ones.
    ///
    /// # Errors
    /// When the store fails.
    fn begin_check(&self, _fresh: &Pattern, _documents: &mut dyn Documents) -> Result<StateCache> {
        Ok(Box::new(()))
    }

    /// What a check expects in place of a target.
    ///
    /// # Errors
    /// PatternViolation for what the pattern would not have allowed.
    fn expected(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        _records: &mut Scratch,
        target: RawDoc<'_>,
        _known: &StateCache,
    ) -> Result<DocBuf> {
        self.derive(fresh, documents, target)
    }

    /// What readers must be shown of a target of which nothing is stored, where they are shown something
    /// that the pattern keeps in records.
    ///
    /// # Errors
    /// As `expected`.
    fn expected_by_readers(
        &self,
        _fresh: &Pattern,
        _documents: &mut dyn Documents,
        _stored: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    /// Whether the records of the pattern are wrong, so that it has to be built anew.
    ///
    /// # Errors
    /// When the store fails.
    fn has_wrong_records(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _records: &Scratch,
        _part: &CheckedPart<'_>,
    ) -> Result<bool> {
        Ok(false)
    }

    /// The documents that the pattern owns and that are not among `there`.
    ///
    /// # Errors
    /// When the store fails.
    fn missing_documents(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _records: &mut Scratch,
        _there: &BTreeSet<Vec<u8>>,
    ) -> Result<MissingDocuments> {
        Ok(MissingDocuments::default())
    }

    // What a dropped pattern left.

    /// A document without what is maintained at these of the paths.
    ///
    /// # Errors
    /// PatternViolation when something stands in a path's way.
    fn cleared(&self, doc: RawDoc<'_>, paths: &[Path]) -> Result<DocBuf> {
        let gone: Vec<Assignment> = paths.iter().map(|path| (path.clone(), None)).collect();
        edit::assign(doc, &gone)
    }

    /// The document `after` without what is maintained at these of the paths, where the write from
    /// `before` to `after` left it as it was.
    ///
    /// # Errors
    /// As `cleared`.
    fn cleared_if_same(
        &self,
        before: RawDoc<'_>,
        after: RawDoc<'_>,
        paths: &[Path],
    ) -> Result<DocBuf> {
        let stayed = |path: &&Path| {
            let value = |doc| path.find(doc).map(RawVal::get);
            value(before).is_some() && value(before) == value(after)
        };
        let gone: Vec<Assignment> =
            paths.iter().filter(stayed).map(|path| (path.clone(), None)).collect();
        edit::assign(after, &gone)
    }

    // Queries that it answers. Only patterns are asked that are ready and up to date
    // (`Pattern::may_answer`).

    /// What a `$group` over the source gives, with the filter in front of it.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_group(
        &self,
        _question: &Question<'_>,
        _filter: RawDoc<'_>,
        _group: RawDoc<'_>,
    ) -> Result<Option<GroupAnswer>> {
        Ok(None)
    }

    /// How many documents match.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_count(&self, _question: &Question<'_>, _filter: RawDoc<'_>) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The filter for the first documents of a sorted query, at most `limit` of them.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_first(
        &self,
        _question: &Question<'_>,
        _filter: RawDoc<'_>,
        _sort: RawDoc<'_>,
        _limit: u64,
    ) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    /// A filter that matches the same documents and is cheaper.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_filter(
        &self,
        _question: &Question<'_>,
        _filter: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        Ok(None)
    }

    /// A stage that does the same as stage `at` of a pipeline over the target, and is cheaper.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_stage(
        &self,
        _question: &Question<'_>,
        _stages: &[(&str, RawVal<'_>)],
        _at: usize,
    ) -> Result<Option<StageAnswer>> {
        Ok(None)
    }

    /// Where a search for targets can begin that follows links between documents, instead of reading
    /// all of them. Called where the searched fields are not stored.
    fn descend(&self, _pattern: &Pattern, _filter: &Node) -> Option<Descent> {
        None
    }
}
