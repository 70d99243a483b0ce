//! The databases, collections, indexes and patterns that exist.
//!
//! The catalog is an immutable version behind one pointer: readers load it without a lock, a change
//! creates a new version and publishes it inside the commit section (`txn`). Every change of a
//! collection gives it a new `version`; a statement that commits against an old version is retried.
//! `persist` is the form on disk.
//!
//! Layer: catalog.

pub mod change;
mod collection;
pub mod faces;
mod layouts;
pub mod persist;
mod pointers;
mod shapes;
pub mod time_series;
mod write_view;

pub use crate::index_keys::{Index, IndexField, IndexKind, IndexState};
pub use collection::{Capped, Collection, Counters, Kind, ROLES, USERS, View};

pub use layouts::Layouts;
pub use pointers::{Pointers, unindexable};
pub(crate) use shapes::paths_of_index;
pub use shapes::{ReaderForm, Shapes};
pub use time_series::TimeSeries;
pub use write_view::WriteView;

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
    /// Returns the patterns that involve a collection, if there are any.
    fn bound(&self, name: &str) -> Option<Arc<CollectionPatterns>> {
        let is_target = |p: &&Arc<Pattern>| p.target == name && p.phase != Phase::Preparing;
        let targets: Vec<_> = self.patterns.iter().filter(is_target).cloned().collect();
        let is_source = |p: &&Arc<Pattern>| p.source() == Some(name);
        let sources: Vec<_> = self.patterns.iter().filter(is_source).cloned().collect();
        let is_bound = !targets.is_empty() || !sources.is_empty();
        is_bound.then(|| Arc::new(CollectionPatterns::new(name, targets, sources)))
    }

    /// Adds or replaces a collection, with the patterns that involve it.
    fn bind(&mut self, collection: Arc<Collection>) {
        let patterns = self.bound(&collection.name);
        let pointers = patterns.as_deref().and_then(|b| Pointers::of(self, &collection, b));
        let layouts = patterns.as_deref().and_then(|b| Layouts::of(&collection, b));
        let shapes = patterns.as_deref().and_then(Shapes::of);
        let (form, collection) = (None, Collection::clone(&collection));
        let bound = Collection { patterns, pointers, layouts, shapes, form, ..collection };
        self.collections.insert(bound.name.clone(), Arc::new(bound));
    }
}

/// One immutable version of the catalog.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Databases by name; one without collections does not exist.
    pub databases: BTreeMap<Box<str>, Arc<Database>>,
    /// In a catalog of a past moment: the collections that cannot be read there.
    pub absent: Option<Arc<Absent>>,
    /// The default read and write concerns, if set.
    pub concerns: Option<Arc<value::DocBuf>>,
    /// Whether a collection has a shape, or had one since the process began. Otherwise readers need
    /// not be known.
    pub is_shaped: bool,
}

/// Collections that were created, dropped or renamed after a past moment, so that they cannot be
/// read at that moment.
pub struct Absent {
    /// The cluster time of the moment.
    pub at: u64,
    /// Their names, with the time of the last such change.
    pub names: BTreeMap<(Box<str>, Box<str>), u64>,
    /// The numbers of patterns that existed then and no longer exist. Their state may be freed.
    pub patterns: BTreeSet<u32>,
}

impl Absent {
    fn check(&self, db: &str, name: &str) -> Result<()> {
        match self.names.get(&(db.into(), name.into())) {
            None => Ok(()),
            Some(changed) => Err(self.unavailable(*changed)),
        }
    }

    /// Refuses a collection whose readers need the state of a pattern that no longer exists.
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

/// Returns a new collection version, unique in the process.
pub(crate) fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Allocates the identifiers of collections, indexes and patterns. None is used twice.
pub struct Ids(AtomicU32);

impl Ids {
    /// Creates an allocator that starts at `next`.
    #[must_use]
    pub fn from(next: u32) -> Ids {
        Ids(AtomicU32::new(next))
    }

    /// Returns a new identifier. The batch persists the next one.
    pub fn fresh(&self, batch: &mut Batch) -> u32 {
        let id = self.0.fetch_add(1, Ordering::Relaxed);
        batch.put(Space::Catalog, &persist::next_id_key(), &(id + 1).to_be_bytes());
        id
    }

    /// Persists the next identifier, because one that a transaction wrote may be older.
    pub fn persist(&self, batch: &mut Batch) {
        let next = self.0.load(Ordering::Relaxed).to_be_bytes();
        batch.put(Space::Catalog, &persist::next_id_key(), &next);
    }
}

impl Catalog {
    /// Returns whether reads without a read concern return only durable data.
    #[must_use]
    pub fn reads_durably(&self) -> bool {
        let read = self.concerns.as_ref().and_then(|concerns| {
            concerns.as_doc().get("defaultReadConcern").and_then(value::Val::as_doc)
        });
        read.and_then(|read| read.get("level")) == Some(value::Val::String("majority"))
    }

    /// Returns the collection or view with this name.
    #[must_use]
    pub fn get(&self, db: &str, name: &str) -> Option<&Arc<Collection>> {
        self.databases.get(db)?.collections.get(name)
    }

    /// Adds or replaces a collection, and attaches the patterns that involve it.
    pub fn set(&mut self, collection: Arc<Collection>) {
        let db = self.databases.entry(collection.db.clone()).or_default();
        if db.patterns.is_empty() && collection.patterns.is_none() {
            Arc::make_mut(db).collections.insert(collection.name.clone(), collection);
            return;
        }
        let name = collection.name.clone();
        let db = Arc::make_mut(db);
        db.bind(collection);
        self.is_shaped |= db.collections.get(&name).is_some_and(|bound| bound.shapes.is_some());
        db.pointing_to(&name).into_iter().for_each(|other| db.bind(other));
    }

    /// Restores a collection as it was at another moment, with its patterns at that time.
    pub fn restore(&mut self, collection: Arc<Collection>) {
        let db = self.databases.entry(collection.db.clone()).or_default();
        self.is_shaped |= collection.shapes.is_some();
        Arc::make_mut(db).collections.insert(collection.name.clone(), collection);
    }

    /// Restores the patterns of a database as they were at another moment.
    pub fn restore_patterns(&mut self, db: &str, patterns: Vec<Arc<Pattern>>) {
        if let Some(db) = self.databases.get_mut(db) {
            Arc::make_mut(db).patterns = patterns;
        }
    }

    /// Removes a collection, and its database if it was the last one.
    pub fn remove(&mut self, db: &str, name: &str) {
        let Some(entry) = self.databases.get_mut(db) else { return };
        let made = Arc::make_mut(entry);
        made.collections.remove(name);
        made.pointing_to(name).into_iter().for_each(|other| made.bind(other));
        if entry.collections.is_empty() {
            self.databases.remove(db);
        }
    }

    /// Returns the patterns of a database, in the order in which they are settled.
    #[must_use]
    pub fn patterns(&self, db: &str) -> &[Arc<Pattern>] {
        self.databases.get(db).map_or(&[], |db| &db.patterns)
    }

    /// Returns whether a database has the same patterns as in another catalog.
    #[must_use]
    pub fn has_patterns_of(&self, other: &Catalog, db: &str) -> bool {
        let (mine, others) = (self.patterns(db), other.patterns(db));
        mine.len() == others.len()
            && mine.iter().zip(others).all(|(mine, other)| Arc::ptr_eq(mine, other))
    }

    /// Returns the collections that differ from another catalog.
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

    /// Refuses a collection that cannot be read at the moment of this catalog.
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

    /// Returns every collection of every database.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.databases.values().flat_map(|db| db.collections.values())
    }
}
