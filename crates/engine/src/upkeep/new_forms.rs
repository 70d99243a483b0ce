//! Patterns that change the form of existing documents as soon as they are declared or dropped
//! (`Kind::reforms`): what must not depend on the old form, and the indexes over fields that change,
//! which are built again.
//!
//! The catalog change that declares or drops such a pattern also replaces the indexes, unfinished
//! and under new prefixes, so no reader meets entries of the other form. Threads fill them; a
//! restart begins that again, as for every unfinished index.

use crate::catalog::{Catalog, Collection, Index, IndexState, change, persist};
use crate::index;
use crate::operation::Operation;
use crate::txn::Data;
use ::patterns::Pattern;
use ::patterns::paths::meet;
use std::sync::Arc;
use store::Batch;
use value::{Error, Result};

/// Indexes that were replaced.
pub struct Renewed {
    collection: Arc<Collection>,
    /// The numbers of the new ones, which are to be filled.
    ids: Vec<u32>,
    old: Vec<Arc<Index>>,
}

/// Returns whether an index has other entries in the other form.
fn is_reformed(index: &Index, reforms: &[String]) -> bool {
    let paths = crate::catalog::paths_of_index(index.spec.as_doc());
    !index.is_clustered() && paths.iter().any(|path| reforms.iter().any(|r| meet(r, path)))
}

/// Refuses to change the form of documents on which something depends that cannot follow. Waits for
/// open transactions that write such documents.
///
/// # Errors
/// BadValue that names the index or pattern; that the operation was stopped.
pub fn check(data: &Data, op: &Operation, db: &str, pattern: &Pattern) -> Result<()> {
    let reforms = pattern.kind.reforms();
    let Some(target) = data.collection(db, &pattern.target).filter(|_| !reforms.is_empty()) else {
        return Ok(());
    };
    data.wait_for_writers(&|| op.check_now(), |c| c.id == target.id)?;
    if target.counters.documents() == 0 {
        return Ok(());
    }
    let refused = |what: String, then: &str| {
        Error::bad_value(format!(
            "pattern '{}': {what}, whose values differ between the versions: drop it before, and \
             {then} it again afterwards",
            pattern.name
        ))
    };
    let unique = target.indexes.iter().find(|i| i.unique && is_reformed(i, &reforms));
    if let Some(index) = unique {
        return Err(refused(format!("the unique index '{}' is over fields", index.name), "create"));
    }
    let catalog = data.catalog.load();
    for other in catalog.patterns(db).iter().filter(|other| other.name != pattern.name) {
        let reads = other.reads().into_iter().filter(|(of, _)| *of == pattern.target);
        let mut paths: Vec<String> = reads.map(|(_, path)| path).collect();
        if other.target == pattern.target {
            paths.extend(other.maintains());
        }
        let own = pattern.maintains();
        paths.retain(|path| !own.contains(path));
        if paths.iter().any(|path| reforms.iter().any(|reform| meet(reform, path))) {
            return Err(refused(format!("the pattern '{}' uses fields", other.name), "declare"));
        }
    }
    Ok(())
}

/// Replaces the indexes over fields whose values change with a pattern.
///
/// # Errors
/// Never, for indexes that exist.
pub fn renew(
    data: &Data,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    pattern: &Pattern,
) -> Result<Option<Renewed>> {
    let reforms = pattern.kind.reforms();
    let Some(target) = catalog.get(db, &pattern.target).cloned() else { return Ok(None) };
    let (mut ids, mut old, mut indexes) = (Vec::new(), Vec::new(), target.indexes.clone());
    let empty = target.counters.documents() == 0;
    for index in indexes.iter_mut().filter(|index| is_reformed(index, &reforms) && !empty) {
        change::forget_index(batch, index);
        let id = data.ids.fresh(batch);
        ids.push(id);
        let spec = index.spec.as_doc();
        let new = persist::index_from_spec(id, spec, IndexState::Building, 0)?;
        old.push(std::mem::replace(index, Arc::new(new)));
    }
    // Plans and estimates of the other form are worth nothing.
    *target.counters.sample.lock() = None;
    if ids.is_empty() {
        return Ok(None);
    }
    let collection = change::altered(&target, |target| target.indexes = indexes);
    change::put(catalog, batch, collection.clone());
    let collection = catalog.get(db, &pattern.target).cloned().unwrap_or(collection);
    Ok(Some(Renewed { collection, ids, old }))
}

/// Fills replaced indexes in the background, after the catalog change is committed.
///
/// # Errors
/// When a thread cannot be started.
pub fn fill(data: &Arc<Data>, renewed: Vec<Renewed>) -> Result<()> {
    for Renewed { collection, ids, old } in renewed {
        change::discard_indexes(&data.trash, old.iter());
        index::fill_renewed(data, collection, ids)?;
    }
    Ok(())
}

/// Returns whether indexes over fields whose values changed with a pattern are still being built.
#[must_use]
pub fn is_indexing(data: &Data, db: &str, pattern: &Pattern) -> bool {
    let reforms = pattern.kind.reforms();
    let Some(target) = data.collection(db, &pattern.target) else { return false };
    let mut indexes = target.indexes.iter();
    indexes.any(|index| index.state == IndexState::Building && is_reformed(index, &reforms))
}
