//! Where the documents and indexes are that readers of a collection need, because part of what its
//! patterns maintain is not stored but resolved (`exec/resolve`). A collection knows it, so that those
//! that have nothing to resolve pay one look.

use super::{Collection, Database, Index, IndexState, Layouts};
use patterns::paths::meet;
use patterns::{CollectionPatterns, Pattern, Phase, resolve};
use std::sync::Arc;
use value::{RawDoc, Val};

/// What a collection's readers resolve, and where.
pub struct Pointers {
    /// The patterns, in their order.
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
    /// Its indexes that can be read.
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
    /// What readers of a collection have to resolve, if anything.
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

    /// What reads a collection alone.
    pub fn to(collection: &Collection) -> Pointers {
        Pointers {
            patterns: Vec::new(),
            places: vec![SourceCollection::of(collection, collection.layouts.clone())],
        }
    }

    /// Where a collection is; `None` if it is not there.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<&SourceCollection> {
        self.places.iter().find(|place| *place.name == *name)
    }

    /// The names of the other collections that are read.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().filter_map(|pattern| pattern.source())
    }
}

impl Database {
    /// The collections whose readers have to know where another one is.
    pub(super) fn pointing_to(&self, name: &str) -> Vec<Arc<Collection>> {
        let points = |pattern: &&Arc<Pattern>| {
            pattern.is_resolved() && pattern.source() == Some(name) && pattern.target != name
        };
        let targets = self.patterns.iter().filter(points);
        targets.filter_map(|pattern| self.collections.get(&*pattern.target)).cloned().collect()
    }
}

/// The field of an index that is not stored, and the pattern that resolves it; nobody would notice
/// when such a field changes, so its entries could not be kept.
#[must_use]
pub fn unindexable(patterns: &[Arc<Pattern>], name: &str, spec: RawDoc<'_>) -> Option<String> {
    let document = |option: &str| spec.get(option).and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let mut paths: Vec<String> = Vec::new();
    for (field, _) in document("key").iter().chain(document("weights").iter()) {
        let root = field.strip_suffix("$**").map(|root| root.trim_end_matches('.'));
        if !field.starts_with("_fts") {
            paths.push(root.unwrap_or(field).to_owned());
        }
    }
    patterns::paths::of_filter(document("partialFilterExpression"), &mut paths);
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
