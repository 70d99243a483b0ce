//! A pattern that was declared: where it reads, what it maintains, and how.

use crate::declaration::{Common, Mode};
use crate::documents::Documents;
use crate::kind::{Kind, Traits};
use crate::stats::Stats;
use std::sync::Arc;
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val};

/// How far a pattern is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It is a new version whose records are filled beside the old one, which goes on until then.
    Preparing,
    /// What was there before the declaration is still being derived.
    Building,
    /// Every maintained value is right.
    Ready,
    /// It is maintained, but something went past it: values may be wrong until it is built anew.
    Degraded,
    /// Nothing is maintained until it is resumed, which builds it again.
    Suspended,
    /// It could not be built; nothing is maintained.
    Failed,
    /// It was dropped: the values that it left are being removed.
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

    /// Whether writes have to keep the pattern right.
    #[must_use]
    pub fn is_maintained(self) -> bool {
        matches!(self, Phase::Preparing | Phase::Building | Phase::Ready | Phase::Degraded)
    }

    /// Whether it is the pattern that its name means: not one that goes, nor one that comes.
    #[must_use]
    pub fn is_current(self) -> bool {
        !matches!(self, Phase::Preparing | Phase::Clearing)
    }

    /// Whether all that was there before the declaration has been derived.
    #[must_use]
    pub fn is_built(self) -> bool {
        matches!(self, Phase::Ready | Phase::Degraded)
    }

    /// Whether work in the background leads to another phase.
    #[must_use]
    pub fn is_passing(self) -> bool {
        matches!(self, Phase::Preparing | Phase::Building | Phase::Clearing)
    }
}

/// A declared pattern.
#[derive(Debug)]
pub struct Pattern {
    /// Its number; also where it keeps its state.
    pub id: u32,
    /// Its place in the order in which patterns are settled.
    pub rank: usize,
    /// Its name, unique in the collection that it was declared on.
    pub name: String,
    /// The collection that it was declared on.
    pub collection: String,
    /// The collection whose documents it maintains.
    pub target: String,
    /// How far it is.
    pub phase: Phase,
    /// The options that all kinds have.
    pub common: Common,
    /// What it does.
    pub kind: Box<dyn Kind>,
    /// What is known of `kind` without a call.
    pub traits: Traits,
    /// The declaration, with all defaults.
    pub declaration: DocBuf,
    /// Why it could not be built; empty unless it failed.
    pub failure: String,
    /// What it did since the process started.
    pub stats: Arc<Stats>,
    /// The paths that it maintains, compiled.
    pub kept: Vec<Path>,
}

impl Pattern {
    /// The same pattern with changes: its declaration is compiled again.
    ///
    /// # Errors
    /// Never, for a declaration that was accepted before.
    pub fn altered(&self, change: impl FnOnce(&mut Pattern)) -> Result<Pattern> {
        self.redeclared(&self.collection, self.declaration.as_doc(), change)
    }

    /// The same pattern with another declaration.
    ///
    /// # Errors
    /// What is wrong with the declaration.
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
        Ok(pattern)
    }

    /// The same pattern at another place of the order.
    ///
    /// # Errors
    /// As `altered`.
    pub fn ranked(&self, rank: usize) -> Result<Pattern> {
        self.altered(|pattern| pattern.rank = rank)
    }

    /// The collection that it reads beside the target's documents themselves.
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

    /// Whether a build goes over the documents before it writes any.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.traits.first_walk
    }

    /// Whether nothing of what it maintains is stored: it is resolved when documents are read.
    #[must_use]
    pub fn is_pointer(&self) -> bool {
        self.traits.resolved_on_read
    }

    /// Whether readers may have to resolve what it maintains, always or at times: what is stored
    /// cannot be relied on then.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.is_pointer() || self.common.resolve_over_limit
    }

    /// Whether queries may be answered from what it maintains: that is stored, and of the same moment
    /// as the documents.
    #[must_use]
    pub fn may_answer(&self) -> bool {
        let sync = self.common.mode == Mode::Sync;
        // What is resolved when it is read saves no reading.
        self.phase == Phase::Ready && self.common.rewrite && sync && !self.is_pointer()
    }

    /// Whether targets follow later than in the commit of their source.
    #[must_use]
    pub fn is_deferred(&self) -> bool {
        self.phase.is_built() && self.common.mode != Mode::Sync
    }

    /// Whether targets may wait in a queue, be it from a time when it had another mode.
    #[must_use]
    pub fn may_queue(&self) -> bool {
        self.traits.queues
    }

    /// Whether targets may be behind their sources, as it is declared.
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        let fans_out = self.traits.fans_out && !self.is_pointer();
        self.common.mode != Mode::Sync || fans_out
    }

    /// The same pattern after a collection got another name; `None` if it does not name it.
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

    /// Whether the documents of the target belong to the pattern as a whole.
    #[must_use]
    pub fn owns_documents(&self) -> bool {
        self.traits.owns_documents
    }
}

/// How far the build of a pattern came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Whether the sources are through and the targets are being written.
    pub targets: bool,
    /// Documents up to this `_id` key are done.
    pub at: Vec<u8>,
    /// Documents above this `_id` key came after the walk began, and are kept right by their own writes.
    /// Empty when nobody knows.
    pub until: Vec<u8>,
    /// How many documents were looked at.
    pub done: i64,
}

impl Progress {
    /// The start of a walk.
    #[must_use]
    pub fn start(targets: bool) -> Progress {
        Progress { targets, at: Vec::new(), until: Vec::new(), done: 0 }
    }

    /// Above every key of an `_id`.
    pub const END: &[u8] = &[0xFF; 8];

    /// Whether the walk has come to every target.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.targets && self.at == Progress::END
    }

    /// Whether the walk need not come to a document any more: it has, or the document is younger.
    #[must_use]
    pub fn has_reached(&self, key: &[u8]) -> bool {
        key <= self.at.as_slice() || (!self.until.is_empty() && key > self.until.as_slice())
    }
}

/// The key under which the progress of a build is kept.
pub const PROGRESS: &[u8] = b"\0";

impl Pattern {
    /// How far the build came; `None` before it began and when nothing is being built.
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

    /// Notes how far the build came.
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
