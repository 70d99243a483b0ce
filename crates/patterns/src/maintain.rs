//! The life of a write with patterns: `shape` gives the document its own maintained fields, `note`
//! finds out what others must follow, and `settle` lets them, pattern after pattern in the order of
//! the graph. What is settled is a write again, noted for the patterns behind.

use crate::clearing;
use crate::documents::Documents;
use crate::fold::{Child, Groups};
use crate::kinds::tree::Node;
use crate::paths::meet;
use crate::pattern::{Behaviour, Pattern, Phase};
use crate::stats::Stats;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::sync::Arc;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, keys};

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
pub struct Bound {
    /// Those that maintain its documents.
    pub targets: Vec<Arc<Pattern>>,
    /// Those that read its documents for others.
    pub sources: Vec<Arc<Pattern>>,
    /// The numbers of the targets whose writes concern none of the others.
    alone: Vec<u32>,
}

/// Something that must be followed, of one pattern.
#[derive(Debug)]
enum Note {
    Child(Option<Child>, Option<Child>),
    Keys(Vec<(Vec<u8>, OwnedVal)>),
    Nodes(Vec<(Vec<u8>, Node)>),
}

/// What one write leaves to be followed.
#[derive(Debug, Default)]
pub struct Notes(SmallVec<[(Arc<Pattern>, Note); 1]>);

/// What waits to be settled, in the order of the patterns' ranks. They are few.
#[derive(Debug, Default)]
pub struct Pending(SmallVec<[(Arc<Pattern>, Work); 1]>);

#[derive(Debug)]
enum Work {
    Groups(Groups),
    Keys(BTreeMap<Vec<u8>, OwnedVal>),
    Nodes(BTreeMap<Vec<u8>, Node>),
}

impl Notes {
    /// Whether nobody has to follow.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Bound {
    /// The patterns that maintain the documents of a collection, and those that read them for others.
    #[must_use]
    pub fn new(collection: &str, targets: Vec<Arc<Pattern>>, sources: Vec<Arc<Pattern>>) -> Bound {
        let folds = |pattern: &Pattern| matches!(pattern.behaviour, Behaviour::Grouped(_));
        // Folds follow what they read and keep what they maintain, and nothing else.
        let is_alone = |pattern: &Arc<Pattern>| {
            let written = pattern.maintains();
            let is_other = |path: &str| !written.iter().any(|own| meet(own, path));
            let is_unread = |other: &Pattern| {
                let mut reads = other.reads().into_iter();
                folds(other) && reads.all(|(of, path)| of != collection || is_other(&path))
            };
            let stays = |other: &&Arc<Pattern>| other.maintains().iter().all(|path| is_other(path));
            let mut others = targets.iter().filter(|other| other.id != pattern.id);
            folds(pattern)
                && others.all(|other| is_unread(other) && stays(&other))
                && sources.iter().all(|other| is_unread(other))
        };
        let alone = targets.iter().filter(|p| is_alone(p)).map(|pattern| pattern.id).collect();
        Bound { targets, sources, alone }
    }

    /// Whether what a pattern writes concerns none of the others: nobody has to look at it.
    #[must_use]
    pub fn is_alone(&self, pattern: u32) -> bool {
        self.alone.contains(&pattern)
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
    pub fn shape(
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
                image = Some(pattern.bare(doc)?);
            }
            if origin == Origin::Pattern(pattern.id) || !pattern.phase.is_maintained() {
                continue;
            }
            if before.is_none() && pattern.owns_documents() {
                return Err(foreign_document(pattern));
            }
            let doc = image.as_ref().map_or(after, DocBuf::as_doc);
            let shaped = match &pattern.behaviour {
                Behaviour::Same(same) => Some(same.shape(doc)?),
                Behaviour::Grouped(grouped) => grouped.shape(pattern, documents, before, doc)?,
                Behaviour::Reference(reference) => {
                    Some(reference.shape(pattern, documents, before, doc)?)
                }
                Behaviour::Tree(tree) => Some(tree.write(pattern, documents, before, doc)?),
            };
            image = shaped.or(image);
            let shown = image.as_ref().map_or(after, DocBuf::as_doc);
            if origin == Origin::Client && is_ignored(pattern, before, after, shown) {
                Stats::add(&pattern.stats.ignored, 1);
            }
        }
        Ok(image.unwrap_or_else(|| after.into()))
    }

    /// Lets patterns keep what they left to a document that somebody is about to write past them.
    ///
    /// # Errors
    /// When the store fails.
    pub fn keep_records(&self, documents: &mut dyn Documents, target: RawDoc<'_>) -> Result<()> {
        self.targets.iter().try_for_each(|pattern| match &pattern.behaviour {
            Behaviour::Grouped(grouped) => grouped.keep_record(pattern, documents, target),
            _ => Ok(()),
        })
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

    /// What others must follow when a document changes. Refuses what patterns do not allow.
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
                if let Behaviour::Grouped(grouped) = &pattern.behaviour {
                    grouped.check_removal(pattern, documents, gone)?;
                    grouped.keep_record(pattern, documents, gone)?;
                }
            }
        }
        let mut notes = SmallVec::new();
        // Only records are filled beside an old version, and only folds have some that need that.
        let follows = |pattern: &&Arc<Pattern>| {
            let folds = matches!(pattern.behaviour, Behaviour::Grouped(_));
            pattern.phase.is_maintained() && (folds || pattern.phase != Phase::Preparing)
        };
        for pattern in self.sources.iter().filter(follows) {
            let note = match &pattern.behaviour {
                Behaviour::Same(_) => None,
                Behaviour::Grouped(grouped) => {
                    if !is_counted(pattern, documents, after.or(before))? {
                        continue;
                    }
                    let from = grouped.horizon(pattern, documents)?;
                    let old = before.map(|doc| grouped.child(doc, &from)).transpose()?.flatten();
                    let new = after.map(|doc| grouped.child(doc, &from)).transpose()?.flatten();
                    if new.is_none() && after.is_some_and(|doc| grouped.is_skipped(doc)) {
                        Stats::add(&pattern.stats.errors, 1);
                    }
                    if let Some(child) = new.as_ref().filter(|_| pattern.phase != Phase::Preparing)
                    {
                        grouped.check_parents(pattern, documents, old.as_ref(), child)?;
                    }
                    (old != new).then_some(Note::Child(old, new))
                }
                Behaviour::Reference(reference) => {
                    let keys = reference.note(pattern, documents, before, after)?;
                    (!keys.is_empty()).then_some(Note::Keys(keys))
                }
                Behaviour::Tree(tree) => {
                    let nodes = tree.note(before, after)?;
                    (!nodes.is_empty()).then_some(Note::Nodes(nodes))
                }
            };
            if let Some(note) = note {
                notes.push((pattern.clone(), note));
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

/// Whether the build of a pattern has come to this child: others are counted when it does.
fn is_counted(
    pattern: &Pattern,
    documents: &mut dyn Documents,
    child: Option<RawDoc<'_>>,
) -> Result<bool> {
    if pattern.phase.is_built() {
        return Ok(true);
    }
    let Some(progress) = pattern.progress(documents)? else { return Ok(false) };
    let id = child.and_then(|doc| doc.get("_id")).unwrap_or(Val::Null);
    Ok(progress.targets || progress.has_reached(&keys::key(id)))
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
        for (pattern, note) in notes.0 {
            let at = match self.place_of(&pattern) {
                Ok(at) => at,
                Err(at) => {
                    let work = match &note {
                        Note::Child(..) => Work::Groups(Groups::default()),
                        Note::Keys(_) => Work::Keys(BTreeMap::new()),
                        Note::Nodes(_) => Work::Nodes(BTreeMap::new()),
                    };
                    self.0.insert(at, (pattern, work));
                    at
                }
            };
            let Some((pattern, work)) = self.0.get_mut(at) else { continue };
            match (work, note, &pattern.behaviour) {
                (Work::Groups(groups), Note::Child(old, new), Behaviour::Grouped(grouped)) => {
                    grouped.note(groups, old, new);
                }
                (Work::Keys(all), Note::Keys(keys), _) => all.extend(keys),
                (Work::Nodes(all), Note::Nodes(nodes), _) => add_nodes(all, nodes),
                _ => {}
            }
        }
    }

    /// Where the work of a pattern stands, or belongs.
    fn place_of(&self, pattern: &Pattern) -> Result<usize, usize> {
        self.0.binary_search_by_key(&pattern.rank, |(known, _)| known.rank)
    }

    /// Counts a child that the build of a pattern came to.
    pub fn add_child(&mut self, pattern: &Arc<Pattern>, child: Child) {
        self.add(Notes(smallvec![(pattern.clone(), Note::Child(None, Some(child)))]));
    }

    /// Takes out a child that has become too old for a pattern's window.
    pub fn remove_child(&mut self, pattern: &Arc<Pattern>, child: Child) {
        self.add(Notes(smallvec![(pattern.clone(), Note::Child(Some(child), None))]));
    }

    /// Counts a node that the build of a tree came to.
    pub fn add_node(&mut self, pattern: &Arc<Pattern>, node: (Vec<u8>, Node)) {
        self.add(Notes(smallvec![(pattern.clone(), Note::Nodes(vec![node]))]));
    }

    /// Takes in all that waits elsewhere.
    pub fn merge(&mut self, other: Pending) {
        for (pattern, work) in other.0 {
            let at = match self.place_of(&pattern) {
                Ok(at) => at,
                Err(at) => {
                    self.0.insert(at, (pattern, work));
                    continue;
                }
            };
            match (self.0.get_mut(at).map(|(_, work)| work), work) {
                (Some(Work::Groups(all)), Work::Groups(more)) => all.merge(more),
                (Some(Work::Keys(all)), Work::Keys(more)) => all.extend(more),
                (Some(Work::Nodes(all)), Work::Nodes(more)) => add_nodes(all, more),
                _ => {}
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
        has_more.then(|| self.0.remove(0)).map(|(pattern, work)| Settlement { pattern, work })
    }
}

/// Adds nodes to those that are known, which changed before.
fn add_nodes(all: &mut BTreeMap<Vec<u8>, Node>, more: impl IntoIterator<Item = (Vec<u8>, Node)>) {
    for (encoded, mut node) in more {
        if let Some(known) = all.remove(&encoded) {
            node.follow(known);
        }
        all.insert(encoded, node);
    }
}

/// The work of one pattern.
#[derive(Debug)]
pub struct Settlement {
    pattern: Arc<Pattern>,
    work: Work,
}

impl Settlement {
    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &Arc<Pattern> {
        &self.pattern
    }

    /// How many changes of sources have to be followed.
    #[must_use]
    pub fn deltas(&self) -> u64 {
        let count = match &self.work {
            Work::Groups(groups) => groups.iter().map(|(_, group)| group.changes()).sum(),
            Work::Keys(keys) => keys.len(),
            Work::Nodes(nodes) => nodes.len(),
        };
        count as u64
    }

    /// Brings all that follow up to date, in a fixed order.
    ///
    /// # Errors
    /// What the pattern or a target refuses.
    pub fn settle(&self, documents: &mut dyn Documents) -> Result<()> {
        let pattern = &self.pattern;
        match (&self.work, &pattern.behaviour) {
            (Work::Groups(groups), Behaviour::Grouped(grouped)) => groups
                .iter()
                .try_for_each(|(key, group)| grouped.settle(pattern, documents, key, group)),
            (Work::Keys(all), Behaviour::Reference(reference)) => {
                all.iter().try_for_each(|(key, value)| {
                    reference.settle(pattern, documents, key, value.get())
                })
            }
            (Work::Nodes(all), Behaviour::Tree(tree)) => tree.settle(pattern, documents, all),
            _ => Ok(()),
        }
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

    fn alone(targets: &[&Arc<Pattern>], sources: &[&Arc<Pattern>]) -> Vec<u32> {
        let all = |list: &[&Arc<Pattern>]| list.iter().map(|pattern| (*pattern).clone()).collect();
        let bound = Bound::new("p", all(targets), all(sources));
        (0..10).filter(|id| bound.is_alone(*id)).collect()
    }

    #[test]
    fn a_fold_is_alone_where_nobody_reads_or_keeps_what_it_writes() {
        let (sum, other) = (fold(1, "s"), fold(2, "t.n"));
        assert_eq!(alone(&[&sum], &[]), [1]);
        assert_eq!(alone(&[&sum, &other], &[]), [1, 2], "folds of different fields");
        // One that writes around another's field, or inside of it, is seen by it.
        let around = fold(3, "t");
        assert_eq!(alone(&[&other, &around], &[]), [0; 0]);
        // A field of the same document may follow from any other.
        let same = pattern(4, "p", "{name: 'd', kind: 'computed', fields: {d: {$add: ['$s', 1]}}}");
        assert_eq!(alone(&[&sum, &same], &[]), [0; 0]);
        // Those who read the parents for others: what they read decides.
        let reads = |id: u32, path: &str| {
            let text = format!(
                "{{name: 'g', kind: 'computed', from: 'p', on: {{foreign: 'r'}}, fields: {{'{path}': {{$sum: '${path}'}}}}}}"
            );
            pattern(id, "r", &text)
        };
        assert_eq!(alone(&[&sum, &other], &[&reads(5, "s")]), [2]);
        assert_eq!(alone(&[&sum, &other], &[&reads(6, "y")]), [1, 2]);
        assert_eq!(alone(&[&sum, &other], &[&reads(7, "t")]), [1], "a part of what is read");
        // Copies may hold all of a document.
        let copies = pattern(
            8,
            "o",
            "{name: 'o', kind: 'extendedReference', ref: 'p', from: 'p', into: 'parent', fields: ['name']}",
        );
        assert_eq!(alone(&[&sum], &[&copies]), [0; 0]);
        assert!(!Bound::default().is_alone(1));
    }
}
