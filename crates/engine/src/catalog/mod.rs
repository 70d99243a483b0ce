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

use std::collections::BTreeMap;
use std::sync::Arc;

/// One database: its collections by name.
#[derive(Clone, Default)]
pub struct Database {
    /// Collections and views by name.
    pub collections: BTreeMap<Box<str>, Arc<Collection>>,
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

    /// Adds or replaces a collection.
    pub fn set(&mut self, collection: Arc<Collection>) {
        let db = self.databases.entry(collection.db.clone()).or_default();
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

    /// Every collection of every database.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.databases.values().flat_map(|db| db.collections.values())
    }
}
