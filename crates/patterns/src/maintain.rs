//! A write with patterns: `fill` gives the document its own maintained fields, `note` collects the deltas
//! for other documents, and `settle` applies them, pattern after pattern in the order of the graph. What
//! is settled is a write again, noted for the patterns that come later.

use crate::clearing;
use crate::delta::{Delta, Deltas};
use crate::documents::Documents;
use crate::paths::meet;
use crate::pattern::{Pattern, Phase};
use crate::stats::Stats;
use smallvec::SmallVec;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result};

/// Who writes.
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
    /// Those that maintain its documents.
    pub targets: Vec<Arc<Pattern>>,
    /// Those that read its documents for others.
    pub sources: Vec<Arc<Pattern>>,
    /// The numbers of the targets whose writes concern none of the others.
    independent: Vec<u32>,
}

/// What one write means for the targets of patterns.
#[derive(Debug, Default)]
pub struct Notes(SmallVec<[(Arc<Pattern>, Delta); 1]>);

/// Deltas that are not settled yet, in the order of the patterns' ranks. They are few.
#[derive(Debug, Default)]
pub struct Pending(SmallVec<[(Arc<Pattern>, Deltas); 1]>);

impl Notes {
    /// Whether the write concerns no target.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl CollectionPatterns {
    /// The patterns that maintain the documents of a collection, and those that read them for others.
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

    /// Whether what a pattern writes concerns none of the others: nobody has to look at it.
    #[must_use]
    pub fn is_independent(&self, pattern: u32) -> bool {
        self.independent.contains(&pattern)
    }

    /// Whether there is nothing to maintain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.sources.is_empty()
    }

    /// Whether what is maintained in its documents is not derived everywhere yet, or what was is
    /// still there.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.targets.iter().any(|pattern| pattern.phase.is_passing())
    }

    /// The image that is stored in place of what was written.
    ///
    /// # Errors
    /// What a pattern refuses.
    pub fn fill(
        &self,
        documents: &mut dyn Documents,
        before: Option<RawDoc<'_>>,
        after: RawDoc<'_>,
        origin: Origin,
    ) -> Result<DocBuf> {
        let mut image: Option<DocBuf> = None;
        // What a pattern writes may have been derived from what a dropped one left: the walk takes
        // that away, and all follow.
        for pattern in self.cleared().filter(|_| origin == Origin::Client) {
            let doc = image.as_ref().map_or(after, DocBuf::as_doc);
            image = Some(clearing::stripped(pattern, self, documents, before, doc)?);
        }
        for pattern in &self.targets {
            if pattern.phase == Phase::Suspended && pattern.is_pointer() {
                // Readers see it on, so that it may be in what they write.
                let doc = image.as_ref().map_or(after, DocBuf::as_doc);
                image = Some(pattern.kind.stripped(doc)?);
            }
            if origin == Origin::Pattern(pattern.id) || !pattern.phase.is_maintained() {
                continue;
            }
            if before.is_none() && pattern.owns_documents() {
                return Err(foreign_document(pattern));
            }
            let doc = image.as_ref().map_or(after, DocBuf::as_doc);
            let filled = pattern.kind.fill(pattern, documents, before, doc)?;
            image = filled.or(image);
            let shown = image.as_ref().map_or(after, DocBuf::as_doc);
            if origin == Origin::Client && is_ignored(pattern, before, after, shown) {
                Stats::add(&pattern.stats.ignored, 1);
            }
        }
        Ok(image.unwrap_or_else(|| after.into()))
    }

    /// Called before somebody writes a document without telling its patterns.
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

    /// Notes that a document was written, once nothing can refuse it any more.
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

    /// The deltas of a change of a document. Refuses what patterns do not allow.
    ///
    /// # Errors
    /// What a pattern refuses.
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
                pattern.kind.before_delete(pattern, documents, gone)?;
            }
        }
        let mut notes = SmallVec::new();
        // Of a new version only records are filled, beside those of the old one.
        let is_noted = |pattern: &&Arc<Pattern>| {
            let prepares = pattern.traits.records_of_sources;
            pattern.phase.is_maintained() && (prepares || pattern.phase != Phase::Preparing)
        };
        for pattern in self.sources.iter().filter(is_noted) {
            if let Some(delta) = pattern.kind.note(pattern, documents, before, after)? {
                notes.push((pattern.clone(), delta));
            }
        }
        Ok(Notes(notes))
    }
}

/// Whether a client sent another value than the maintained one.
fn is_ignored(
    pattern: &Pattern,
    before: Option<RawDoc<'_>>,
    sent: RawDoc<'_>,
    image: RawDoc<'_>,
) -> bool {
    // What is resolved for readers is in what they write back.
    if pattern.is_pointer() || (before.is_some() && sent.bytes() == image.bytes()) {
        return false;
    }
    let kept = |path: &Path| {
        path.find(sent).is_some_and(|value| path.find(image).map(RawVal::get) != Some(value.get()))
    };
    pattern.kept.iter().any(kept)
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
    /// Takes in what a write left.
    pub fn add(&mut self, notes: Notes) {
        for (pattern, delta) in notes.0 {
            self.add_delta(&pattern, delta);
        }
    }

    /// Takes in one change for a pattern.
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

    /// Where the deltas of a pattern are, or belong.
    fn position(&self, pattern: &Pattern) -> Result<usize, usize> {
        self.0.binary_search_by_key(&pattern.rank, |(known, _)| known.rank)
    }

    /// Takes in deltas that came later.
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

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The work of the pattern whose turn it is.
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

    /// How many changes of sources these are.
    #[must_use]
    pub fn deltas(&self) -> u64 {
        self.deltas.count() as u64
    }

    /// Applies all deltas, in a fixed order.
    ///
    /// # Errors
    /// What the pattern or a target refuses.
    pub fn settle(&self, documents: &mut dyn Documents) -> Result<()> {
        self.pattern.kind.settle(&self.pattern, documents, &self.deltas)
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
        // One that writes around another's field, or inside of it, is seen by it.
        let around = fold(3, "t");
        assert_eq!(independent(&[&other, &around], &[]), [0; 0]);
        // A field of the same document may follow from any other.
        let same = pattern(4, "p", "{name: 'd', kind: 'computed', fields: {d: {$add: ['$s', 1]}}}");
        assert_eq!(independent(&[&sum, &same], &[]), [0; 0]);
        // Those who read the parents for others: what they read decides.
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
