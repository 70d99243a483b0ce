//! A declared pattern: what it reads, what it maintains, and its state.

use crate::declaration::{Common, Mode};
use crate::documents::Documents;
use crate::kind::{Kind, Traits};
use crate::shape::Shape;
use crate::stats::Stats;
use crate::views::Views;
use std::sync::Arc;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val, keys};

/// The state of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// A new version: its records are filled while the old version remains in use.
    Preparing,
    /// The values of documents that existed before the declaration are being derived.
    Building,
    /// All maintained values are correct.
    Ready,
    /// It is maintained, but documents were written without it: values may be wrong until it is
    /// rebuilt.
    Degraded,
    /// Nothing is maintained until it is resumed, which builds it again.
    Suspended,
    /// The build failed; nothing is maintained.
    Failed,
    /// It was dropped: its values are being removed.
    Clearing,
}

/// All phases.
pub static PHASES: &[Phase] = &[
    Phase::Preparing,
    Phase::Building,
    Phase::Ready,
    Phase::Degraded,
    Phase::Suspended,
    Phase::Failed,
    Phase::Clearing,
];

impl Phase {
    /// The word that `listPatterns` shows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Preparing => "preparing",
            Phase::Building => "building",
            Phase::Ready => "ready",
            Phase::Degraded => "degraded",
            Phase::Suspended => "suspended",
            Phase::Failed => "failed",
            Phase::Clearing => "clearing",
        }
    }

    /// The phase of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Phase> {
        PHASES.iter().copied().find(|phase| phase.name() == name)
    }

    /// Whether writes must maintain the pattern.
    #[must_use]
    pub fn is_maintained(self) -> bool {
        matches!(self, Phase::Preparing | Phase::Building | Phase::Ready | Phase::Degraded)
    }

    /// Whether the pattern's name refers to it: false for one that is being dropped or prepared.
    #[must_use]
    pub fn is_current(self) -> bool {
        !matches!(self, Phase::Preparing | Phase::Clearing)
    }

    /// Whether the values of all documents that existed before the declaration are derived.
    #[must_use]
    pub fn is_built(self) -> bool {
        matches!(self, Phase::Ready | Phase::Degraded)
    }

    /// Whether background work leads to another phase.
    #[must_use]
    pub fn is_passing(self) -> bool {
        matches!(self, Phase::Preparing | Phase::Building | Phase::Clearing)
    }
}

/// A declared pattern.
#[derive(Debug)]
pub struct Pattern {
    /// Its number, under which its records are kept too.
    pub id: u32,
    /// Its place in the order in which patterns are settled.
    pub rank: usize,
    /// Its name, unique in the collection that it was declared on.
    pub name: String,
    /// The collection that it was declared on.
    pub collection: String,
    /// The collection whose documents it maintains.
    pub target: String,
    /// Its state.
    pub phase: Phase,
    /// The options that all kinds have.
    pub common: Common,
    /// Its kind.
    pub kind: Box<dyn Kind>,
    /// The result of `kind.traits()`.
    pub traits: Traits,
    /// The declaration, with all defaults.
    pub declaration: DocBuf,
    /// Why it could not be built; empty unless it failed.
    pub failure: String,
    /// Its counters since the process started.
    pub stats: Arc<Stats>,
    /// The paths that it maintains, compiled.
    pub kept: Vec<Path>,
}

impl Pattern {
    /// How readers see the documents of the target, if the pattern decides that.
    #[must_use]
    pub fn shape(&self) -> Option<&dyn Shape> {
        self.kind.shape()
    }

    /// Returns a changed copy; its declaration is compiled again.
    ///
    /// # Errors
    /// Never, for a declaration that was accepted before.
    pub fn altered(&self, change: impl FnOnce(&mut Pattern)) -> Result<Pattern> {
        self.redeclared(&self.collection, self.declaration.as_doc(), change)
    }

    /// Returns a copy with another declaration.
    ///
    /// # Errors
    /// If the declaration is invalid.
    pub fn redeclared(
        &self,
        collection: &str,
        declaration: RawDoc<'_>,
        change: impl FnOnce(&mut Pattern),
    ) -> Result<Pattern> {
        let mut pattern = crate::declaration::parse(collection, declaration)?;
        pattern.id = self.id;
        pattern.rank = self.rank;
        pattern.phase = self.phase;
        pattern.failure.clone_from(&self.failure);
        pattern.stats = self.stats.clone();
        change(&mut pattern);
        pattern.kind.entered(pattern.phase);
        Ok(pattern)
    }

    /// Whether writes must maintain the pattern.
    #[must_use]
    pub fn is_maintained(&self) -> bool {
        let always = self.traits.always_fills && self.phase != Phase::Clearing;
        self.phase.is_maintained() || always
    }

    /// Returns a copy with another rank.
    ///
    /// # Errors
    /// As `altered`.
    pub fn ranked(&self, rank: usize) -> Result<Pattern> {
        self.altered(|pattern| pattern.rank = rank)
    }

    /// The collection that it reads besides the target.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.kind.source()
    }

    /// Collection and path of everything that it reads. The empty path is the whole document.
    #[must_use]
    pub fn reads(&self) -> Vec<(&str, String)> {
        let (source, target) = (self.source().unwrap_or(&self.target), &*self.target);
        let reads = self.kind.reads();
        let of_source = reads.source.into_iter().map(|path| (source, path));
        of_source.chain(reads.target.into_iter().map(|path| (target, path))).collect()
    }

    /// The paths of the target's documents that it maintains.
    #[must_use]
    pub fn maintains(&self) -> Vec<String> {
        self.kind.maintains()
    }

    /// The indexes that it needs: collection and key pattern.
    #[must_use]
    pub fn indexes(&self) -> Vec<(String, DocBuf)> {
        self.kind.indexes(&self.target)
    }

    /// The specifications of the indexes that it keeps for itself.
    #[must_use]
    pub fn own_indexes(&self) -> Vec<DocBuf> {
        self.kind.own_indexes(&self.name)
    }

    /// The views that it keeps: their names and the filters of the documents that they show.
    #[must_use]
    pub fn views(&self) -> Vec<(String, DocBuf)> {
        let views = self.kind.views().map(Views::all).unwrap_or_default();
        views.into_iter().map(|(name, of)| (format!("{}.{name}", self.target), of)).collect()
    }

    /// Whether a build scans documents before it writes any.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.traits.first_walk
    }

    /// Whether its values are not stored but resolved when documents are read.
    #[must_use]
    pub fn is_pointer(&self) -> bool {
        self.traits.resolved_on_read
    }

    /// Whether readers may have to resolve its values, always or at times. Stored values cannot be
    /// relied on then.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.is_pointer() || self.common.resolve_over_limit
    }

    /// Whether queries may be answered from its values: they are stored and consistent with the
    /// documents.
    #[must_use]
    pub fn may_answer(&self) -> bool {
        let sync = self.common.mode == Mode::Sync;
        // Values that are resolved by readers save no reads.
        self.phase == Phase::Ready && self.common.rewrite && sync && !self.is_pointer()
    }

    /// Why no query may be answered from its values; `None` if that is possible.
    #[must_use]
    pub fn why_silent(&self) -> Option<String> {
        if self.may_answer() {
            return None;
        }
        Some(if self.phase != Phase::Ready {
            format!("its state is '{}'", self.phase.name())
        } else if !self.common.rewrite {
            "it was declared with rewrite: false".to_owned()
        } else if self.is_pointer() {
            "its values are not stored".to_owned()
        } else {
            "its values may be behind: 'mode' is not 'sync'".to_owned()
        })
    }

    /// Whether targets are updated after the commit of their source.
    #[must_use]
    pub fn is_deferred(&self) -> bool {
        self.phase.is_built() && self.common.mode != Mode::Sync
    }

    /// Whether targets may wait in a queue, possibly since an earlier mode.
    #[must_use]
    pub fn may_queue(&self) -> bool {
        self.traits.queues
    }

    /// Whether the declaration allows targets to be behind their sources.
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        let fans_out = self.traits.fans_out && !self.is_pointer();
        self.common.mode != Mode::Sync || fans_out || self.traits.flush_ms.is_some()
    }

    /// Returns a copy after a collection was renamed; `None` if it does not use that collection.
    ///
    /// # Errors
    /// As `altered`.
    pub fn renamed(&self, from: &str, to: &str) -> Result<Option<Pattern>> {
        let options = self.kind.collection_options();
        let names =
            |option: &str, value: Val<'_>| options.contains(&option) && value == Val::String(from);
        let declaration = self.declaration.as_doc();
        let named = declaration.iter().any(|(option, value)| names(option, value.get()));
        if self.collection != from && !named {
            return Ok(None);
        }
        let collection = if self.collection == from { to } else { &self.collection };
        let declaration = DocBuf::build(|out| {
            for (option, value) in declaration {
                match names(option, value.get()) {
                    true => out.str(option, to),
                    false => out.raw(option, value),
                };
            }
        });
        self.redeclared(collection, declaration.as_doc(), |_| {}).map(Some)
    }

    /// Whether the pattern owns the documents of the target.
    #[must_use]
    pub fn owns_documents(&self) -> bool {
        self.traits.owns_documents
    }
}

/// The progress of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Whether the sources are done and the targets are being written.
    pub targets: bool,
    /// Documents up to this `_id` key are done.
    pub at: Vec<u8>,
    /// Documents above this `_id` key were inserted after the scan began and are maintained by
    /// their own writes. Empty if unknown.
    pub until: Vec<u8>,
    /// The number of documents read.
    pub done: i64,
}

impl Progress {
    /// The start of a scan.
    #[must_use]
    pub fn start(targets: bool) -> Progress {
        Progress { targets, at: Vec::new(), until: Vec::new(), done: 0 }
    }

    /// Above every key of an `_id`.
    pub const END: &[u8] = &[0xFF; 8];

    /// Whether the scan has processed every target.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.targets && self.at == Progress::END
    }

    /// Whether a document needs no more processing by the scan: it is done, or was inserted later.
    #[must_use]
    pub fn has_reached(&self, key: &[u8]) -> bool {
        key <= self.at.as_slice() || (!self.until.is_empty() && key > self.until.as_slice())
    }
}

/// The key under which the progress of a build is kept.
pub const PROGRESS: &[u8] = b"\0";

impl Pattern {
    /// Returns the progress of the build; `None` before it begins and when nothing is being built.
    ///
    /// # Errors
    /// When the store fails.
    pub fn progress(&self, documents: &mut dyn Documents) -> Result<Option<Progress>> {
        if !self.phase.is_passing() {
            return Ok(None);
        }
        let Some(doc) = documents.state(self.id, PROGRESS)? else { return Ok(None) };
        let key = |name| match doc.as_doc().get(name) {
            Some(Val::Binary(_, key)) => key.to_vec(),
            _ => Vec::new(),
        };
        let targets = doc.as_doc().get("targets").is_some_and(Val::truthy);
        let done = doc.as_doc().get("done").and_then(Val::as_i64_exact).unwrap_or(0);
        Ok(Some(Progress { targets, at: key("at"), until: key("until"), done }))
    }

    /// Whether the first walk of the build has processed a source; other sources are counted when
    /// it does.
    ///
    /// # Errors
    /// When the store fails.
    pub fn has_walked(
        &self,
        documents: &mut dyn Documents,
        source: Option<RawDoc<'_>>,
    ) -> Result<bool> {
        if self.phase.is_built() {
            return Ok(true);
        }
        let Some(progress) = self.progress(documents)? else { return Ok(false) };
        let id = source.and_then(|doc| doc.get("_id")).unwrap_or(Val::Null);
        Ok(progress.targets || progress.has_reached(&keys::key(id)))
    }

    /// Stores the progress of the build.
    ///
    /// # Errors
    /// When the store fails.
    pub fn set_progress(&self, documents: &mut dyn Documents, progress: &Progress) -> Result<()> {
        let doc = DocBuf::build(|out| {
            out.bool("targets", progress.targets);
            out.append("at", Val::Binary(0, &progress.at));
            out.append("until", Val::Binary(0, &progress.until));
            out.i64("done", progress.done);
        });
        documents.set_state(self.id, PROGRESS, Some(doc))
    }
}
