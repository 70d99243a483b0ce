//! Which databases, collections and indexes exist.
//!
//! The catalog is an immutable picture behind one pointer: readers load it without a lock, a
//! change makes a new picture and publishes it inside the commit section (`txn`). Every change of
//! a collection gives it a new `version`; a statement that commits against an old version runs
//! again. `persist` is the form on disk.

pub mod change;
mod collection;
pub mod persist;

pub use collection::{
    Capped, Collection, Counters, Index, IndexField, IndexKind, IndexState, Kind, View,
};

use patterns::{Bound, Pattern};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One database: its collections by name.
#[derive(Clone, Default)]
pub struct Database {
    /// Collections and views by name.
    pub collections: BTreeMap<Box<str>, Arc<Collection>>,
    /// Patterns in the order in which they are settled.
    pub patterns: Vec<Arc<Pattern>>,
}

impl Database {
    /// The patterns that concern a collection, if there are any.
    fn bound(&self, name: &str) -> Option<Arc<Bound>> {
        let mut bound = Bound::default();
        for pattern in &self.patterns {
            if pattern.target == name {
                bound.targets.push(pattern.clone());
            }
            if pattern.source() == Some(name) {
                bound.sources.push(pattern.clone());
            }
        }
        (!bound.is_empty()).then(|| Arc::new(bound))
    }
}

/// A picture of everything that exists.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Databases by name; one without collections does not exist.
    pub databases: BTreeMap<Box<str>, Arc<Database>>,
}

impl Catalog {
    /// The collection or view of this name.
    #[must_use]
    pub fn get(&self, db: &str, name: &str) -> Option<&Arc<Collection>> {
        self.databases.get(db)?.collections.get(name)
    }

    /// Adds or replaces a collection. It knows the patterns that concern it from then on.
    pub fn set(&mut self, collection: Arc<Collection>) {
        let db = self.databases.entry(collection.db.clone()).or_default();
        let collection = if db.patterns.is_empty() && collection.patterns.is_none() {
            collection
        } else {
            let patterns = db.bound(&collection.name);
            Arc::new(Collection { patterns, ..Collection::clone(&collection) })
        };
        Arc::make_mut(db).collections.insert(collection.name.clone(), collection);
    }

    /// Removes a collection, and its database with the last one.
    pub fn remove(&mut self, db: &str, name: &str) {
        let Some(entry) = self.databases.get_mut(db) else { return };
        Arc::make_mut(entry).collections.remove(name);
        if entry.collections.is_empty() {
            self.databases.remove(db);
        }
    }

    /// The patterns of a database, in the order in which they are settled.
    #[must_use]
    pub fn patterns(&self, db: &str) -> &[Arc<Pattern>] {
        self.databases.get(db).map_or(&[], |db| &db.patterns)
    }

    /// Every collection of every database.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.databases.values().flat_map(|db| db.collections.values())
    }
}
