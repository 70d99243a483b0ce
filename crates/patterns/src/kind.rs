//! The trait of a kind of pattern: everything that the database needs of a kind.
//!
//! A kind is a folder in `kinds` and a row of `kinds::KINDS`. The code that maintains documents
//! (`maintain`, `queue`, `clearing`, `resolve`, and the engine) calls this trait and never names a
//! kind.
//!
//! Most methods have a default that does nothing. A kind that only computes fields of the written
//! document implements `maintains`, `reads`, `fill` and `derive`. A kind that decides how
//! documents are stored, or how a reader sees them, returns a `layout` or a `shape`.

use crate::answers::{GroupAnswer, GroupQuery, QueryKind, Question, StageAnswer};
pub use crate::checking::{CheckedPart, MissingDocuments};
use crate::delta::{Delta, Deltas};
use crate::descent::Descent;
use crate::documents::Documents;
use crate::edit::{self, Assignment};
use crate::inspection::Inspection;
use crate::labels::Label;
use crate::layout::{Layout, Records};
use crate::pattern::{Pattern, Phase};
use crate::queue::{self, Entry};
use crate::scratch::Scratch;
use crate::shape::Shape;
pub use crate::traits::Traits;
use crate::views::Views;
use query::filter::Node;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use value::path::Path;
use value::{DocBuf, RawDoc, RawVal, Result, Writer};

/// The paths that a pattern reads. The empty path is the whole document.
#[derive(Debug, Default)]
pub struct Reads {
    /// Paths of its source, or of the target if it has no source.
    pub source: Vec<String>,
    /// Paths of its target.
    pub target: Vec<String>,
}

/// A field that must have a unique index, because it identifies single documents.
pub struct UniqueField<'k> {
    /// The option that names the field.
    pub option: &'static str,
    /// The field.
    pub path: &'k str,
    /// A field such that it is enough if both together identify a document.
    pub within: Option<&'k str>,
    /// The collection.
    pub collection: &'k str,
}

/// Data that a kind caches between documents of one snapshot. It must not outlive that snapshot.
pub type StateCache = Box<dyn Any + Send + Sync>;

/// A kind of pattern, configured by one declaration.
pub trait Kind: Debug + Send + Sync {
    // Properties.

    /// The properties that callers need before they call.
    fn traits(&self) -> Traits;

    /// The collection that it reads besides the target.
    fn source(&self) -> Option<&str> {
        None
    }

    /// The paths that it reads.
    fn reads(&self) -> Reads;

    /// The paths of the target's documents that it maintains.
    fn maintains(&self) -> Vec<String>;

    /// The source fields that each maintained field depends on.
    fn labels(&self, pattern: &Pattern) -> Vec<Label> {
        crate::labels::of_all_reads(pattern)
    }

    /// The paths by which sources and targets find each other, as declared; `_id` need not be
    /// among them.
    fn joins(&self) -> Reads {
        Reads::default()
    }

    /// The indexes that it needs: collection and key pattern.
    fn indexes(&self, _target: &str) -> Vec<(String, DocBuf)> {
        Vec::new()
    }

    /// The specifications of the indexes that the pattern of this name keeps for itself, each with
    /// `name` and `key`. They exist as long as the pattern.
    fn own_indexes(&self, _pattern: &str) -> Vec<DocBuf> {
        Vec::new()
    }

    /// The views of the target that the pattern keeps, if it keeps some.
    fn views(&self) -> Option<&dyn Views> {
        None
    }

    /// The paths of the target's documents whose form the pattern decides, for readers or in the
    /// store. Two such patterns cannot share a path.
    fn arranges(&self) -> Vec<String> {
        self.layout().map(Layout::paths).unwrap_or_default()
    }

    /// The field that must identify single documents, if there is one.
    fn unique_field<'k>(&'k self, _target: &'k str) -> Option<UniqueField<'k>> {
        None
    }

    /// The options whose values are names of collections.
    fn collection_options(&self) -> &'static [&'static str] {
        &["from"]
    }

    /// The options of the kind that do not affect stored values, so that `modifyPattern` need not
    /// build the pattern again.
    fn options_without_rebuild(&self) -> &'static [&'static str] {
        &[]
    }

    /// A look at the documents of the target that decides whether the declaration is accepted.
    fn inspection(&self) -> Option<Box<dyn Inspection>> {
        None
    }

    /// Writes what `listPatterns` shows of this kind alone.
    ///
    /// # Errors
    /// When the store fails.
    fn describe(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _out: &mut Writer<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// The options of a kind with a layout that name values beside it. Without them the values are
    /// left to the clients when the pattern is dropped.
    fn value_options(&self) -> &'static [&'static str] {
        &[]
    }

    /// The current strategy, for a kind whose strategy the database may choose.
    fn current_strategy(&self) -> Option<&'static str> {
        None
    }

    /// How documents are stored, if the kind decides that.
    fn layout(&self) -> Option<&dyn Layout> {
        None
    }

    /// How a reader sees documents, if the kind decides that.
    fn shape(&self) -> Option<&dyn Shape> {
        None
    }

    /// The top-level fields of existing documents that readers see with other values as soon as the
    /// pattern is declared or dropped; the empty path stands for all. Indexes over them are built
    /// again.
    fn reforms(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called when the pattern is in a phase, before anything else is asked of the kind.
    fn entered(&mut self, _phase: Phase) {}

    /// Whether a build converts stored documents, for kinds with a layout.
    fn converts_stored(&self) -> bool {
        true
    }

    /// Refuses to remove the pattern, for kinds that reform documents. `keep` says whether readers
    /// see the same documents afterwards.
    ///
    /// # Errors
    /// BadValue or PatternViolation when that is not possible.
    fn check_removal(&self, _keep: bool) -> Result<()> {
        Ok(())
    }

    /// Writes what `listPatterns` says of this kind alone. `records` are those of its layout;
    /// `documents` is the number of documents of the target. Called for kinds with a layout.
    ///
    /// # Errors
    /// When the store fails.
    fn describe_stored(
        &self,
        _pattern: &Pattern,
        _records: &dyn Records,
        _documents: u64,
        _out: &mut Writer<'_>,
    ) -> Result<()> {
        Ok(())
    }

    // Writes.

    /// Returns the image of a written target with its maintained fields; `None` if `after` has
    /// them already.
    ///
    /// # Errors
    /// PatternViolation if the pattern does not allow the write; when the store fails.
    fn fill(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
    ) -> Result<Option<DocBuf>>;

    /// Returns the document without the fields that the pattern maintains. Called if they are not
    /// stored.
    ///
    /// # Errors
    /// PatternViolation if a value is in the way of a path.
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

    /// Called before a target is written without running the pattern: records that only the target
    /// holds must be stored.
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

    /// Computes the effect of a source's change on targets. The source is not written yet.
    ///
    /// # Errors
    /// PatternViolation if the pattern does not allow the write; errors of expressions.
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
    /// If the pattern or a target refuses the write.
    fn settle(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _deltas: &Deltas,
    ) -> Result<()> {
        Ok(())
    }

    /// The order in which a batch of documents is written, if some need others to exist: each
    /// index of `documents` once. `None` for any order.
    fn write_order(&self, _documents: &[RawDoc<'_>]) -> Option<Vec<usize>> {
        None
    }

    // Targets that are updated asynchronously.

    /// Updates about `batch` targets of a queue's entry. Returns how many were read, and the `_id`
    /// key after which others remain.
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

    /// How often the queue must be processed until everything queued now is done: processing an
    /// entry may add others.
    fn catch_up_rounds(&self) -> usize {
        1
    }

    /// The number of targets that wait for an entry.
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

    /// The encoded keys of the entries that affect a target.
    fn queue_keys(&self, _target: RawDoc<'_>) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Since when a target waits for an entry, in milliseconds since 1970; `None` if it does not
    /// wait.
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

    /// Computes the effect on targets of at most `batch` sources that have become too old. These
    /// are no longer counted.
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

    /// The time at which the targets are correct, for patterns that depend on the current time.
    ///
    /// # Errors
    /// When the store fails.
    fn as_of(&self, _pattern: &Pattern, _documents: &mut dyn Documents) -> Result<Option<i64>> {
        Ok(None)
    }

    // Builds. A build scans the sources (`first_walk`), then the targets.

    /// Called in the first commit of a build.
    ///
    /// # Errors
    /// When the store fails.
    fn begin_build(&self, _pattern: &Pattern, _documents: &mut dyn Documents) -> Result<()> {
        Ok(())
    }

    /// Computes the effect of a document that the first scan of a build reads.
    ///
    /// # Errors
    /// PatternViolation for an invalid document; errors of expressions.
    fn visit(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _doc: RawDoc<'_>,
    ) -> Result<Option<Delta>> {
        Ok(None)
    }

    /// Returns a target with its maintained fields, derived from the sources alone.
    ///
    /// # Errors
    /// If the pattern refuses the document.
    fn derive(
        &self,
        pattern: &Pattern,
        documents: &mut dyn Documents,
        target: RawDoc<'_>,
    ) -> Result<DocBuf>;

    /// Writes at most `batch` documents that the pattern owns, those after the key `after`.
    /// Returns the last key and the number; `None` when there are no more.
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

    /// Whether a document that the pattern owns must exist.
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

    /// Called when a build has processed every target.
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

    /// Returns a document as if all maintained values were stored.
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

    /// Whether a target waits for a source that does not exist yet.
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

    // Checks. `fresh` is the pattern as if it were being built: it uses only the sources.

    /// The key by which a check selects a target: that of its document or of the pattern's record
    /// for it.
    fn check_key(&self, record: &[u8], _target: RawDoc<'_>) -> Vec<u8> {
        record.to_vec()
    }

    /// Adds a source to the recomputed records, for the keys that `has` accepts.
    ///
    /// # Errors
    /// Errors of expressions.
    fn recount(
        &self,
        _pattern: &Pattern,
        _documents: &mut dyn Documents,
        _source: RawDoc<'_>,
        _has: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Delta>> {
        Ok(None)
    }

    /// Returns data of all targets that a check needs before it reads single ones.
    ///
    /// # Errors
    /// When the store fails.
    fn begin_check(&self, _fresh: &Pattern, _documents: &mut dyn Documents) -> Result<StateCache> {
        Ok(Box::new(()))
    }

    /// Returns the target that a check expects.
    ///
    /// # Errors
    /// PatternViolation if the pattern would not have allowed the document.
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

    /// Returns the target as a build writes it, with the same arguments as `expected`. Called to try
    /// a declaration.
    ///
    /// # Errors
    /// What the build fails with.
    fn built(
        &self,
        fresh: &Pattern,
        documents: &mut dyn Documents,
        records: &mut Scratch,
        target: RawDoc<'_>,
        known: &StateCache,
    ) -> Result<DocBuf> {
        self.expected(fresh, documents, records, target, known)
    }

    /// Returns the target as readers must see it, if its values are not stored and come from the
    /// pattern's records.
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

    /// Whether the records of the pattern are wrong, so that it must be rebuilt.
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

    /// Returns the documents that the pattern owns and that are not among `there`.
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

    // Cleanup after a pattern was dropped.

    /// Returns a document without the maintained values at these paths.
    ///
    /// # Errors
    /// PatternViolation if a value is in the way of a path.
    fn cleared(&self, doc: RawDoc<'_>, paths: &[Path]) -> Result<DocBuf> {
        let gone: Vec<Assignment> = paths.iter().map(|path| (path.clone(), None)).collect();
        edit::assign(doc, &gone)
    }

    /// Returns the document `after` without the maintained values at these paths, as far as the
    /// write from `before` to `after` did not change them.
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

    // Queries that the pattern answers. Called only for patterns that are ready and up to date
    // (`Pattern::may_answer`).

    /// The result of a `$group` over the source, with the stages before it.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_group(
        &self,
        _question: &Question<'_>,
        _query: &GroupQuery<'_>,
    ) -> Result<Option<GroupAnswer>> {
        Ok(None)
    }

    /// Why the pattern does not answer a query that it nearly answers; `None` if it has nothing to
    /// do with it. Called for explain, if there was no answer.
    ///
    /// # Errors
    /// When the store fails.
    fn why_not(&self, _question: &Question<'_>, _query: &QueryKind<'_>) -> Result<Option<String>> {
        Ok(None)
    }

    /// The number of matching documents.
    ///
    /// # Errors
    /// When the store fails.
    fn answer_count(&self, _question: &Question<'_>, _filter: RawDoc<'_>) -> Result<Option<u64>> {
        Ok(None)
    }

    /// A filter for the first documents of a sorted query, at most `limit` of them.
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

    /// A cheaper filter that matches the same documents.
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

    /// A cheaper stage that is equivalent to stage `at` of a pipeline over the target.
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

    /// Where a search for targets can start that follows links between documents, instead of
    /// reading all of them. Called if the searched fields are not stored.
    fn descend(&self, _pattern: &Pattern, _filter: &Node) -> Option<Descent> {
        None
    }
}
