//! Which databases, collections and indexes exist.
//!
//! The catalog is an immutable picture behind one pointer: readers load it without a lock, a
//! change makes a new picture and publishes it inside the commit section (`txn`). Every change of
//! a collection gives it a new `version`; a statement that commits against an old version runs
//! again. `persist` is the form on disk.
//!
//! Layer: catalog.

pub mod change;
mod collection;
mod layouts;
pub mod persist;
mod pointers;

pub use crate::index_keys::{Index, IndexField, IndexKind, IndexState};
pub use collection::{Capped, Collection, Counters, Kind, ROLES, USERS, View};

pub use layouts::Layouts;
pub use pointers::{Pointers, unindexable};

use patterns::{CollectionPatterns, Pattern, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use store::{Batch, Space};
use value::{Code, Error, Result};

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
    fn bound(&self, name: &str) -> Option<Arc<CollectionPatterns>> {
        let is_target = |p: &&Arc<Pattern>| p.target == name && p.phase != Phase::Preparing;
        let targets: Vec<_> = self.patterns.iter().filter(is_target).cloned().collect();
        let is_source = |p: &&Arc<Pattern>| p.source() == Some(name);
        let sources: Vec<_> = self.patterns.iter().filter(is_source).cloned().collect();
        let is_bound = !targets.is_empty() || !sources.is_empty();
        is_bound.then(|| Arc::new(CollectionPatterns::new(name, targets, sources)))
    }

    /// Puts a collection in its place, with the patterns that concern it.
    fn bind(&mut self, collection: Arc<Collection>) {
        let patterns = self.bound(&collection.name);
        let pointers = patterns.as_deref().and_then(|b| Pointers::of(self, &collection, b));
        let layouts = patterns.as_deref().and_then(|b| Layouts::of(&collection, b));
        let bound = Collection { patterns, pointers, layouts, ..Collection::clone(&collection) };
        self.collections.insert(bound.name.clone(), Arc::new(bound));
    }
}

/// A picture of everything that exists.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Databases by name; one without collections does not exist.
    pub databases: BTreeMap<Box<str>, Arc<Database>>,
    /// In a picture of the past: what cannot be read there.
    pub absent: Option<Arc<Absent>>,
    /// The concerns of commands that name none, where they were set.
    pub concerns: Option<Arc<value::DocBuf>>,
}

/// Collections that were made, dropped or renamed after a moment, so that those of their names
/// cannot be read there.
pub struct Absent {
    /// The moment's cluster time.
    pub at: u64,
    /// Their names, with the time of the last such change.
    pub names: BTreeMap<(Box<str>, Box<str>), u64>,
    /// The numbers of patterns that were there then and are no more: what they kept for themselves
    /// may be gone.
    pub patterns: BTreeSet<u32>,
}

impl Absent {
    fn check(&self, db: &str, name: &str) -> Result<()> {
        match self.names.get(&(db.into(), name.into())) {
            None => Ok(()),
            Some(changed) => Err(self.unavailable(*changed)),
        }
    }

    /// Refuses a collection whose readers need what a pattern kept for itself that is no more.
    fn check_patterns(&self, bound: &CollectionPatterns) -> Result<()> {
        let needs = |pattern: &&Arc<Pattern>| match pattern.phase {
            _ if pattern.layout().is_some() => true,
            Phase::Building => pattern.has_records(),
            _ => {
                pattern.is_resolved()
                    && (pattern.traits.counts_for_readers || !pattern.is_pointer())
            }
        };
        let mut needed = bound.targets.iter().filter(needs);
        match needed.any(|pattern| self.patterns.contains(&pattern.id)) {
            false => Ok(()),
            true => Err(self.unavailable(self.at)),
        }
    }

    fn unavailable(&self, changed: u64) -> Error {
        let show = |time: u64| format!("Timestamp({}, {})", time >> 32, time & 0xFFFF_FFFF);
        Error::new(
            Code::SNAPSHOT_UNAVAILABLE,
            format!(
                "Unable to read from a snapshot due to pending collection catalog changes; please \
                 retry the operation. Snapshot timestamp is {}. Collection minimum is {}",
                show(self.at),
                show(changed)
            ),
        )
    }
}

/// A new collection version, unique in the process.
pub(crate) fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Gives out the identifiers of collections, indexes and patterns. None is used twice.
pub struct Ids(AtomicU32);

impl Ids {
    /// Identifiers from `next` on.
    #[must_use]
    pub fn from(next: u32) -> Ids {
        Ids(AtomicU32::new(next))
    }

    /// A fresh identifier. The batch persists the one that comes next.
    pub fn fresh(&self, batch: &mut Batch) -> u32 {
        let id = self.0.fetch_add(1, Ordering::Relaxed);
        batch.put(Space::Catalog, &persist::next_id_key(), &(id + 1).to_be_bytes());
        id
    }

    /// Persists the identifier that comes next: one that a transaction wrote may be older.
    pub fn persist(&self, batch: &mut Batch) {
        let next = self.0.load(Ordering::Relaxed).to_be_bytes();
        batch.put(Space::Catalog, &persist::next_id_key(), &next);
    }
}

impl Catalog {
    /// Whether reads that name no read concern show only what is on disk.
    #[must_use]
    pub fn reads_durably(&self) -> bool {
        let read = self.concerns.as_ref().and_then(|concerns| {
            concerns.as_doc().get("defaultReadConcern").and_then(value::Val::as_doc)
        });
        read.and_then(|read| read.get("level")) == Some(value::Val::String("majority"))
    }

    /// The collection or view of this name.
    #[must_use]
    pub fn get(&self, db: &str, name: &str) -> Option<&Arc<Collection>> {
        self.databases.get(db)?.collections.get(name)
    }

    /// Adds or replaces a collection. It knows the patterns that concern it from then on.
    pub fn set(&mut self, collection: Arc<Collection>) {
        let db = self.databases.entry(collection.db.clone()).or_default();
        if db.patterns.is_empty() && collection.patterns.is_none() {
            Arc::make_mut(db).collections.insert(collection.name.clone(), collection);
            return;
        }
        let name = collection.name.clone();
        let db = Arc::make_mut(db);
        db.bind(collection);
        db.pointing_to(&name).into_iter().for_each(|other| db.bind(other));
    }

    /// Puts a collection back as it was at another moment, with what concerned it then.
    pub fn set_as_it_was(&mut self, collection: Arc<Collection>) {
        let db = self.databases.entry(collection.db.clone()).or_default();
        Arc::make_mut(db).collections.insert(collection.name.clone(), collection);
    }

    /// Gives a database the patterns that it had at another moment.
    pub fn set_patterns_as_they_were(&mut self, db: &str, patterns: Vec<Arc<Pattern>>) {
        if let Some(db) = self.databases.get_mut(db) {
            Arc::make_mut(db).patterns = patterns;
        }
    }

    /// Removes a collection, and its database with the last one.
    pub fn remove(&mut self, db: &str, name: &str) {
        let Some(entry) = self.databases.get_mut(db) else { return };
        let made = Arc::make_mut(entry);
        made.collections.remove(name);
        made.pointing_to(name).into_iter().for_each(|other| made.bind(other));
        if entry.collections.is_empty() {
            self.databases.remove(db);
        }
    }

    /// The patterns of a database, in the order in which they are settled.
    #[must_use]
    pub fn patterns(&self, db: &str) -> &[Arc<Pattern>] {
        self.databases.get(db).map_or(&[], |db| &db.patterns)
    }

    /// Whether a database has the same patterns as in another picture.
    #[must_use]
    pub fn has_patterns_of(&self, other: &Catalog, db: &str) -> bool {
        let (mine, others) = (self.patterns(db), other.patterns(db));
        mine.len() == others.len()
            && mine.iter().zip(others).all(|(mine, other)| Arc::ptr_eq(mine, other))
    }

    /// The collections that are not the same in another picture.
    pub fn differing<'c>(
        &'c self,
        other: &'c Catalog,
    ) -> impl Iterator<Item = &'c Arc<Collection>> {
        let changed = self.databases.iter().filter_map(|(db, database)| {
            let there = other.databases.get(db);
            let same = there.is_some_and(|there| Arc::ptr_eq(there, database));
            (!same).then_some((database, there))
        });
        changed.flat_map(|(database, there)| {
            database.collections.values().filter(move |collection| {
                let same = there.and_then(|there| there.collections.get(&collection.name));
                !same.is_some_and(|same| Arc::ptr_eq(same, collection))
            })
        })
    }

    /// Refuses a collection that is not what it was at the moment of this picture.
    ///
    /// # Errors
    /// SnapshotUnavailable.
    pub fn check(&self, db: &str, name: &str) -> Result<()> {
        let Some(absent) = &self.absent else { return Ok(()) };
        let pointers = self.get(db, name).and_then(|collection| collection.pointers.as_deref());
        let mut sources = pointers.into_iter().flat_map(Pointers::sources);
        sources.try_for_each(|source| absent.check(db, source))?;
        if let Some(bound) =
            self.get(db, name).and_then(|collection| collection.patterns.as_deref())
        {
            absent.check_patterns(bound)?;
        }
        absent.check(db, name)
    }

    /// Every collection of every database.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.databases.values().flat_map(|db| db.collections.values())
    }
}
