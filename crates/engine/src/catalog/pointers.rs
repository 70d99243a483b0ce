//! The documents and indexes that readers of a collection need to resolve values that its patterns
//! do not store (`records/resolve`). They are part of the collection, so that a collection without
//! such values costs one check.

use super::{Collection, Database, Index, IndexState, Layouts};
use patterns::paths::meet;
use patterns::{CollectionPatterns, Pattern, Phase, resolve};
use std::sync::Arc;
use value::RawDoc;

/// The patterns that readers of a collection resolve, and the collections that this needs.
pub struct Pointers {
    /// The patterns, in the order in which they are settled.
    pub patterns: Vec<Arc<Pattern>>,
    /// The collections that they read, by name.
    places: Vec<SourceCollection>,
}

/// A collection that patterns read.
pub struct SourceCollection {
    /// Its name.
    pub name: Box<str>,
    /// The prefix of its documents.
    pub id: u32,
    /// How its documents are stored, if not each as one record.
    pub layouts: Option<Arc<Layouts>>,
    /// Its indexes that are ready.
    pub indexes: Vec<Arc<Index>>,
}

impl SourceCollection {
    fn of(collection: &Collection, layouts: Option<Arc<Layouts>>) -> SourceCollection {
        let ready = |index: &&Arc<Index>| index.state == IndexState::Ready && !index.is_clustered();
        SourceCollection {
            name: collection.name.clone(),
            id: collection.id,
            layouts,
            indexes: collection.indexes.iter().filter(ready).cloned().collect(),
        }
    }
}

impl Pointers {
    /// Returns what readers of a collection resolve, or `None`.
    pub(super) fn of(
        database: &Database,
        collection: &Collection,
        bound: &CollectionPatterns,
    ) -> Option<Arc<Pointers>> {
        let patterns = resolve::concerned(&bound.targets);
        if patterns.is_empty() {
            return None;
        }
        let place = |collection: &Collection| {
            let bound = database.bound(&collection.name);
            SourceCollection::of(
                collection,
                bound.and_then(|bound| Layouts::of(collection, &bound)),
            )
        };
        let mut places = vec![place(collection)];
        for name in patterns.iter().filter_map(|pattern| pattern.source()) {
            let known = places.iter().any(|place| *place.name == *name);
            if let Some(source) = database.collections.get(name).filter(|_| !known) {
                places.push(place(source));
            }
        }
        Some(Arc::new(Pointers { patterns, places }))
    }

    /// Creates pointers that read one collection and resolve nothing.
    pub fn to(collection: &Collection) -> Pointers {
        Pointers {
            patterns: Vec::new(),
            places: vec![SourceCollection::of(collection, collection.layouts.clone())],
        }
    }

    /// Returns a collection by name; `None` if it does not exist.
    #[must_use]
    pub fn collection(&self, name: &str) -> Option<&SourceCollection> {
        self.places.iter().find(|place| *place.name == *name)
    }

    /// Returns the names of the other collections that are read.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().filter_map(|pattern| pattern.source())
    }
}

impl Database {
    /// Returns the other collections whose values are resolved from the collection of this name.
    pub(super) fn pointing_to(&self, name: &str) -> Vec<Arc<Collection>> {
        let points = |pattern: &&Arc<Pattern>| {
            pattern.is_resolved() && pattern.source() == Some(name) && pattern.target != name
        };
        let targets = self.patterns.iter().filter(points);
        targets.filter_map(|pattern| self.collections.get(&*pattern.target)).cloned().collect()
    }
}

/// Returns an error message if an index has a field that a pattern resolves instead of storing it.
/// Entries of such a field could not be maintained, because its changes write no document.
#[must_use]
pub fn unindexable(patterns: &[Arc<Pattern>], name: &str, spec: RawDoc<'_>) -> Option<String> {
    let paths = super::shapes::paths_of_index(spec);
    let resolved = patterns.iter().filter(|pattern| {
        pattern.is_resolved() && pattern.target == name && pattern.phase != Phase::Clearing
    });
    resolved.into_iter().find_map(|pattern| {
        let maintained = pattern.maintains();
        let met = maintained.iter().find(|path| paths.iter().any(|p| meet(p, path)))?;
        Some(format!(
            "'{met}' cannot be indexed: the pattern '{}' resolves it when documents are read \
             (strategy or overLimit 'pointer'), so there is no write that could keep an index",
            pattern.name
        ))
    })
}
