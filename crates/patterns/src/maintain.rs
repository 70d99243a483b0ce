//! A write with patterns: `fill` adds the document's maintained fields, `note` collects the deltas
//! for other documents, and `settle` applies them, pattern after pattern in the order of the
//! graph. Settling writes documents, whose changes are in turn noted for later patterns.

use crate::clearing;
use crate::delta::{Delta, Deltas};
use crate::documents::Documents;
use crate::error_context;
use crate::paths::meet;
use crate::pattern::{Pattern, Phase};
use crate::stats::Stats;
use smallvec::SmallVec;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result};

/// The origin of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A client.
    Client,
    /// The pattern of this number.
    Pattern(u32),
}

/// The patterns of one collection, in the order in which they are settled.
#[derive(Clone, Debug, Default)]
pub struct CollectionPatterns {
    /// Patterns that maintain its documents.
    pub targets: Vec<Arc<Pattern>>,
    /// Patterns that read its documents in order to maintain others.
    pub sources: Vec<Arc<Pattern>>,
    /// The numbers of the target patterns whose writes affect none of the others.
    independent: Vec<u32>,
}

/// The deltas of one write.
#[derive(Debug, Default)]
pub struct Notes(SmallVec<[(Arc<Pattern>, Delta); 1]>);

/// Deltas that are not settled yet, ordered by rank. They are few.
#[derive(Debug, Default)]
pub struct Pending(SmallVec<[(Arc<Pattern>, Deltas); 1]>);

impl Notes {
    /// Whether the write affects no target.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl CollectionPatterns {
    /// Returns the patterns that maintain the documents of a collection, and those that read them
    /// in order to maintain others.
    #[must_use]
    pub fn new(
        collection: &str,
        targets: Vec<Arc<Pattern>>,
        sources: Vec<Arc<Pattern>>,
    ) -> CollectionPatterns {
        let is_independent = |pattern: &Arc<Pattern>| {
            let written = pattern.maintains();
            let is_other = |path: &str| !written.iter().any(|own| meet(own, path));
            let is_unread = |other: &Pattern| {
                let mut reads = other.reads().into_iter();
                other.traits.exact_reads
                    && reads.all(|(of, path)| of != collection || is_other(&path))
            };
            let stays = |other: &&Arc<Pattern>| other.maintains().iter().all(|path| is_other(path));
            let mut others = targets.iter().filter(|other| other.id != pattern.id);
            pattern.traits.exact_reads
                && others.all(|other| is_unread(other) && stays(&other))
                && sources.iter().all(|other| is_unread(other))
        };
        let independent =
            targets.iter().filter(|p| is_independent(p)).map(|pattern| pattern.id).collect();
        CollectionPatterns { targets, sources, independent }
    }

    /// Whether the writes of a pattern affect none of the others, so that none has to be called.
    #[must_use]
    pub fn is_independent(&self, pattern: u32) -> bool {
        self.independent.contains(&pattern)
    }

    /// Whether there is nothing to maintain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.sources.is_empty()
    }

    /// Whether maintained values are not derived in all documents yet, or values of a dropped
    /// pattern still exist.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.targets.iter().any(|pattern| pattern.phase.is_passing())
    }

    /// Returns the image that is stored for a written document.
    ///
    /// # Errors
    /// If a pattern refuses the write.
    pub fn fill(
        &self,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
        origin: Origin,
    ) -> Result<DocBuf> {
        let mut image: Option<DocBuf> = None;
        // A pattern may have derived its values from those of a dropped pattern. The cleanup scan
        // removes these, and the pattern is updated then.
        for pattern in self.cleared().filter(|_| origin == Origin::Client) {
            let doc = image.as_ref().map_or(after, DocBuf::as_doc);
            image = Some(clearing::stripped(pattern, &self.targets, documents, before, doc)?);
        }
        for pattern in &self.targets {
            if pattern.phase == Phase::Suspended && pattern.is_pointer() {
                // Readers still see the value, so it may be in what they write.
                let doc = image.as_ref().map_or(after, DocBuf::as_doc);
                image = Some(pattern.kind.stripped(doc)?);
            }
            if origin == Origin::Pattern(pattern.id) || !pattern.is_maintained() {
                continue;
            }
            if before.is_none() && pattern.owns_documents() {
                return Err(foreign_document(pattern));
            }
            let doc = image.as_ref().map_or(after, DocBuf::as_doc);
            let filled = pattern.kind.fill(pattern, documents, before, doc);
            let filled = filled.map_err(|error| on_pattern(pattern, Some(after), error))?;
            image = filled.or(image);
            let stored = image.as_ref().map_or(after, DocBuf::as_doc);
            if origin == Origin::Client && is_ignored(pattern, before, after, stored) {
                Stats::add(&pattern.stats.ignored, 1);
            }
        }
        Ok(image.unwrap_or_else(|| after.into()))
    }

    /// Called before a document is written without running its patterns.
    ///
    /// # Errors
    /// When the store fails.
    pub fn before_bypass(&self, documents: &mut dyn Documents, target: RawDoc<'_>) -> Result<()> {
        let mut targets = self.targets.iter();
        targets.try_for_each(|pattern| pattern.kind.before_bypass(pattern, documents, target))
    }

    /// The patterns whose values are being removed.
    fn cleared(&self) -> impl Iterator<Item = &Arc<Pattern>> {
        self.targets.iter().filter(|pattern| pattern.phase == Phase::Clearing)
    }

    /// Records that a document was written, once nothing can refuse it any more.
    ///
    /// # Errors
    /// When the store fails.
    pub fn note_written(
        &self,
        documents: &mut dyn Documents,
        image: RawDoc<'_>,
        origin: Origin,
    ) -> Result<()> {
        let mut cleared = self.cleared().filter(|_| origin == Origin::Client);
        cleared.try_for_each(|pattern| clearing::note_written(pattern, documents, image))
    }

    /// Returns the deltas of a document's change. Refuses changes that patterns do not allow.
    ///
    /// # Errors
    /// If a pattern refuses the write.
    pub fn note(
        &self,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
        origin: Origin,
    ) -> Result<Notes> {
        if let (Some(gone), None) = (before, after) {
            for pattern in self.targets.iter().filter(|p| p.phase.is_maintained()) {
                if origin != Origin::Pattern(pattern.id) && pattern.owns_documents() {
                    return Err(foreign_document(pattern));
                }
                let allowed = pattern.kind.before_delete(pattern, documents, gone);
                allowed.map_err(|error| on_pattern(pattern, Some(gone), error))?;
            }
        }
        let mut notes = SmallVec::new();
        // For a new version only records are filled, besides those of the old one.
        let is_noted = |pattern: &&Arc<Pattern>| {
            let prepares = pattern.traits.records_of_sources;
            pattern.phase.is_maintained() && (prepares || pattern.phase != Phase::Preparing)
        };
        for pattern in self.sources.iter().filter(is_noted) {
            let delta = pattern.kind.note(pattern, documents, before, after);
            let delta = delta.map_err(|error| on_pattern(pattern, after.or(before), error))?;
            if let Some(delta) = delta {
                notes.push((pattern.clone(), delta));
            }
        }
        Ok(Notes(notes))
    }
}

/// Whether a client sent a value that differs from the maintained one.
fn is_ignored(
    pattern: &Pattern,
    before: Option<RawDoc<'_>>,
    sent: RawDoc<'_>,
    image: RawDoc<'_>,
) -> bool {
    // Values that are resolved for readers are in the documents that they write back.
    if pattern.is_pointer() || (before.is_some() && sent.bytes() == image.bytes()) {
        return false;
    }
    let kept = |path: &Path| {
        path.find(sent).is_some_and(|value| path.find(image).map(RawVal::get) != Some(value.get()))
    };
    pattern.kept.iter().any(kept)
}

/// Adds the pattern and the document to an error that the pattern caused.
fn on_pattern(pattern: &Pattern, doc: Option<RawDoc<'_>>, error: Error) -> Error {
    error_context::on_pattern((&pattern.name, &pattern.collection), doc, error)
}

fn foreign_document(pattern: &Pattern) -> Error {
    Error::new(
        Code::PATTERN_VIOLATION,
        format!(
            "the documents of '{}' belong to the pattern '{}' of '{}': they can be neither \
             inserted nor deleted",
            pattern.target, pattern.name, pattern.collection
        ),
    )
}

impl Pending {
    /// Adds the deltas of a write.
    pub fn add(&mut self, notes: Notes) {
        for (pattern, delta) in notes.0 {
            self.add_delta(&pattern, delta);
        }
    }

    /// Adds one change for a pattern.
    pub fn add_delta(&mut self, pattern: &Arc<Pattern>, delta: Delta) {
        match self.position(pattern) {
            Ok(at) => {
                if let Some((_, deltas)) = self.0.get_mut(at) {
                    deltas.add(delta);
                }
            }
            Err(at) => self.0.insert(at, (pattern.clone(), Deltas::of(delta))),
        }
    }

    /// Returns the index of a pattern's deltas, or where to insert them.
    fn position(&self, pattern: &Pattern) -> Result<usize, usize> {
        self.0.binary_search_by_key(&pattern.rank, |(known, _)| known.rank)
    }

    /// Adds later deltas.
    pub fn merge(&mut self, later: Pending) {
        for (pattern, more) in later.0 {
            match self.position(&pattern) {
                Ok(at) => {
                    if let Some((_, deltas)) = self.0.get_mut(at) {
                        deltas.merge(more);
                    }
                }
                Err(at) => self.0.insert(at, (pattern, more)),
            }
        }
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the deltas of the next pattern.
    pub fn pop(&mut self) -> Option<Settlement> {
        let has_more = !self.0.is_empty();
        has_more.then(|| self.0.remove(0)).map(|(pattern, deltas)| Settlement { pattern, deltas })
    }
}

/// The deltas of one pattern.
#[derive(Debug)]
pub struct Settlement {
    pattern: Arc<Pattern>,
    deltas: Deltas,
}

impl Settlement {
    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &Arc<Pattern> {
        &self.pattern
    }

    /// The number of source changes.
    #[must_use]
    pub fn deltas(&self) -> u64 {
        self.deltas.count() as u64
    }

    /// Applies all deltas, in a fixed order.
    ///
    /// # Errors
    /// If the pattern or a target refuses the write.
    pub fn settle(&self, documents: &mut dyn Documents) -> Result<()> {
        let settled = self.pattern.kind.settle(&self.pattern, documents, &self.deltas);
        settled.map_err(|error| match self.pattern.phase.is_built() {
            true => on_pattern(&self.pattern, None, error),
            // The build names it.
            false => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn pattern(id: u32, collection: &str, text: &str) -> Arc<Pattern> {
        let doc = ejson::parse_doc(text).expect("test text");
        let mut pattern = crate::declaration::parse(collection, doc.as_doc()).expect("a pattern");
        pattern.id = id;
        Arc::new(pattern)
    }

    /// A fold over the children of parents into a field of theirs.
    fn fold(id: u32, field: &str) -> Arc<Pattern> {
        let text = format!(
            "{{name: '{field}', kind: 'computed', from: 'c', on: {{foreign: 'p'}}, fields: {{'{field}': {{$sum: '$x'}}}}}}"
        );
        pattern(id, "p", &text)
    }

    fn independent(targets: &[&Arc<Pattern>], sources: &[&Arc<Pattern>]) -> Vec<u32> {
        let all = |list: &[&Arc<Pattern>]| list.iter().map(|pattern| (*pattern).clone()).collect();
        let bound = CollectionPatterns::new("p", all(targets), all(sources));
        (0..10).filter(|id| bound.is_independent(*id)).collect()
    }

    #[test]
    fn a_fold_is_alone_where_nobody_reads_or_keeps_what_it_writes() {
        let (sum, other) = (fold(1, "s"), fold(2, "t.n"));
        assert_eq!(independent(&[&sum], &[]), [1]);
        assert_eq!(independent(&[&sum, &other], &[]), [1, 2], "folds of different fields");
        // A pattern that writes a field around or inside another's field affects it.
        let around = fold(3, "t");
        assert_eq!(independent(&[&other, &around], &[]), [0; 0]);
        // A field of the same document may depend on any other.
        let same = pattern(4, "p", "{name: 'd', kind: 'computed', fields: {d: {$add: ['$s', 1]}}}");
        assert_eq!(independent(&[&sum, &same], &[]), [0; 0]);
        // Patterns that read the parents for others: the paths that they read decide.
        let reads = |id: u32, path: &str| {
            let text = format!(
                "{{name: 'g', kind: 'computed', from: 'p', on: {{foreign: 'r'}}, fields: {{'{path}': {{$sum: '${path}'}}}}}}"
            );
            pattern(id, "r", &text)
        };
        assert_eq!(independent(&[&sum, &other], &[&reads(5, "s")]), [2]);
        assert_eq!(independent(&[&sum, &other], &[&reads(6, "y")]), [1, 2]);
        assert_eq!(independent(&[&sum, &other], &[&reads(7, "t")]), [1], "a part of what is read");
        // Copies may hold all of a document.
        let copies = pattern(
            8,
            "o",
            "{name: 'o', kind: 'extendedReference', ref: 'p', from: 'p', into: 'parent', fields: ['name']}",
        );
        assert_eq!(independent(&[&sum], &[&copies]), [0; 0]);
        assert!(!CollectionPatterns::default().is_independent(1));
    }
}
