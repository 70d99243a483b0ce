//! Catalog changes that several commands share: creating, altering and removing collections.
//!
//! All of them run inside `change_catalog`: they edit a copy of the catalog and add records to the
//! batch that makes the change durable.

use super::{Catalog, Collection, Counters, Ids, Index, IndexState, Kind, TimeSeries, persist};
use crate::trash::Trash;
use patterns::Pattern;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Batch, Space};
use value::{Code, Collation, DocBuf, Error, RawDoc, Result, Val};

/// Creates a collection with its `_id` index and adds it to the catalog.
///
/// # Errors
/// When a database exists whose name differs only in case.
pub fn create(
    ids: &Ids,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    name: &str,
    options: DocBuf,
) -> Result<Arc<Collection>> {
    check_database_case(catalog, db)?;
    let id = ids.fresh(batch);
    let kind = persist::kind_from_options(options.as_doc());
    let collation = persist::collation_of(options.as_doc())?;
    let plain = matches!(kind, Kind::Plain) && collation.is_none();
    if !plain && catalog.patterns(db).iter().any(|p| p.target == name || p.source() == Some(name)) {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            format!("'{db}.{name}' takes part in patterns: it can be a plain collection only"),
        ));
    }
    let id_index = match &kind {
        Kind::View(_) => None,
        // Documents are stored in `_id` order, so the collection is its own index.
        Kind::Plain => Some(0),
        Kind::Capped(_) => Some(ids.fresh(batch)),
    };
    let indexes = match id_index {
        None => None,
        Some(id) => {
            let clustered = options.as_doc().get("clusteredIndex").and_then(Val::as_doc);
            let spec = id_index_spec(clustered, collation.as_deref());
            Some(Arc::new(persist::index_from_spec(id, spec.as_doc(), IndexState::Ready, 0)?))
        }
    };
    let collection = Arc::new(Collection {
        id,
        uuid: value::random::uuid(),
        db: db.into(),
        name: name.into(),
        validator: crate::validation::Validator::of(options.as_doc()),
        time_series: TimeSeries::of(options.as_doc()),
        collation,
        options,
        kind,
        indexes: indexes.into_iter().collect(),
        counters: Arc::new(Counters::default()),
        version: crate::catalog::next_version(),
        dropped: Arc::new(AtomicBool::new(false)),
        patterns: None,
        pointers: None,
        layouts: None,
        shapes: None,
        form: None,
        written_through: None,
    });
    put(catalog, batch, collection.clone());
    Ok(collection)
}

/// Returns the specification of the `_id` index. `clustered` is the `clusteredIndex` option of the
/// collection, which may name the index.
#[must_use]
pub fn id_index_spec(clustered: Option<RawDoc<'_>>, collation: Option<&Collation>) -> DocBuf {
    DocBuf::build(|out| {
        out.i32("v", 2).doc("key", |key| {
            key.i32("_id", 1);
        });
        let name = clustered.and_then(|spec| spec.get("name")).and_then(Val::as_str);
        out.str("name", name.unwrap_or("_id_"));
        if clustered.is_some() {
            out.bool("unique", true).bool("clustered", true);
        }
        if let Some(collation) = collation {
            out.append("collation", Val::Document(collation.document()));
        }
    })
}

/// Returns a collection with some changes and a new version.
#[must_use]
pub fn altered(collection: &Collection, change: impl FnOnce(&mut Collection)) -> Arc<Collection> {
    let mut altered = collection.clone();
    change(&mut altered);
    altered.version = crate::catalog::next_version();
    Arc::new(altered)
}

/// Returns the same index in another state. Its statistics are kept.
#[must_use]
pub fn with_state(index: &Index, state: IndexState) -> Arc<Index> {
    Arc::new(Index { state, ..index.clone() })
}

/// Adds a collection to the catalog and its record to the batch.
pub fn put(catalog: &mut Catalog, batch: &mut Batch, collection: Arc<Collection>) {
    let record = persist::encode(&collection);
    batch.put(Space::Catalog, &persist::collection_key(collection.id), record.bytes());
    catalog.set(collection);
}

/// Removes a collection from the catalog, with all its records. `discard` frees its space after the
/// commit.
pub fn remove(catalog: &mut Catalog, batch: &mut Batch, collection: &Collection) {
    batch.delete(Space::Catalog, &persist::collection_key(collection.id));
    batch.delete(Space::Catalog, &persist::counters_key(collection.id));
    for index in &collection.indexes {
        forget_index(batch, index);
    }
    catalog.remove(&collection.db, &collection.name);
}

/// Removes the records of an index that are separate from the collection's.
pub fn forget_index(batch: &mut Batch, index: &Index) {
    if !index.is_clustered() {
        batch.delete(Space::Catalog, &persist::multikey_key(index.id));
        batch.delete(Space::Catalog, &persist::build_key(index.id));
    }
}

/// Closes the cursors of a removed collection and frees its space.
pub fn discard(trash: &Trash, collection: &Collection) {
    collection.dropped.store(true, Ordering::Relaxed);
    if collection.view().is_some() {
        return;
    }
    trash.discard(Space::Documents, collection.id);
    discard_indexes(trash, collection.indexes.iter());
}

/// Frees the space of removed indexes.
pub fn discard_indexes<'i>(trash: &Trash, indexes: impl Iterator<Item = &'i Arc<Index>>) {
    for index in indexes.filter(|index| !index.is_clustered()) {
        trash.discard(Space::Indexes, index.id);
    }
}

/// Adds a pattern to a database, or replaces the one with its number, and updates its collections.
///
/// # Errors
/// When patterns depend on each other in a cycle or maintain the same field.
pub fn add_pattern(catalog: &mut Catalog, db: &str, pattern: Pattern) -> Result<()> {
    let mut all: Vec<Arc<Pattern>> = catalog.patterns(db).to_vec();
    all.retain(|known| known.id != pattern.id);
    all.push(Arc::new(pattern));
    set_patterns(catalog, db, all)
}

/// Sets the patterns of a database. Collections that they involve, now or before, get a new
/// version, so that running statements are retried.
///
/// # Errors
/// When patterns depend on each other in a cycle or maintain the same field.
pub fn set_patterns(catalog: &mut Catalog, db: &str, all: Vec<Arc<Pattern>>) -> Result<()> {
    let Some(database) = catalog.databases.get_mut(db) else { return Ok(()) };
    // Patterns being cleared have no dependents, and others may maintain their fields. Patterns in
    // preparation write no targets yet.
    let (going, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|p| !p.phase.is_current());
    let borrowed: Vec<&Pattern> = all.iter().map(|pattern| &**pattern).collect();
    let order = patterns::graph::order(&borrowed)?;
    let mut ordered = Vec::new();
    let placed = order.into_iter().filter_map(|at| all.get(at)).chain(&going);
    for (rank, pattern) in placed.enumerate() {
        ordered.push(if pattern.rank == rank {
            pattern.clone()
        } else {
            Arc::new(pattern.ranked(rank)?)
        });
    }
    let database = Arc::make_mut(database);
    let before = std::mem::replace(&mut database.patterns, ordered);
    let concerned: Vec<Arc<Collection>> = database
        .collections
        .values()
        .filter(|collection| {
            let name = &*collection.name;
            before
                .iter()
                .chain(&database.patterns)
                .any(|p| p.target == name || p.source() == Some(name))
        })
        .cloned()
        .collect();
    for collection in concerned {
        catalog.set(altered(&collection, |_| {}));
    }
    Ok(())
}

/// Refuses a database whose name differs from an existing one only in case, as MongoDB does.
///
/// # Errors
/// DatabaseDifferCase.
pub fn check_database_case(catalog: &Catalog, db: &str) -> Result<()> {
    if catalog.databases.contains_key(db) {
        return Ok(());
    }
    match catalog.databases.keys().find(|known| known.eq_ignore_ascii_case(db)) {
        None => Ok(()),
        Some(known) => Err(Error::new(
            Code::DATABASE_DIFFER_CASE,
            format!(
                "db already exists with different case already have: [{known}] trying to create \
                 [{db}]"
            ),
        )),
    }
}
