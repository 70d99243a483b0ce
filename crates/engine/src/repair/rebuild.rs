//! Builds the indexes and patterns of the new folder.

use super::Progress;
use super::catalog::Source;
use crate::catalog::{Catalog, IndexState};
use crate::options::{Options, Storage};
use crate::store_failed;
use crate::txn::Data;
use crate::upkeep::{Maintenance, backfill};
use patterns::Phase;
use std::path::Path;
use std::sync::Arc;
use store::DiskStore;
use value::Result;

/// Builds everything that the catalog of a folder has as unfinished. Returns what failed.
pub(super) fn run(folder: &Path, source: &Source, progress: Progress<'_>) -> Result<Vec<String>> {
    let options = Options { storage: Storage::Disk(folder.to_path_buf()), ..Options::default() };
    let store = DiskStore::open(folder, store::Options::default()).map_err(store_failed)?;
    let (data, unfinished) = Data::open(options, Box::new(store))?;
    let data = Arc::new(data);
    let total = unfinished.len() as u64;
    for (done, collection) in unfinished.iter().enumerate() {
        progress(&format!("building indexes of {}", collection.namespace()), done as u64, total);
        crate::index::resume(&data, collection)?;
        join(&data);
    }
    let upkeep = Arc::new(Maintenance::new(data.clone()));
    let passing = |catalog: &Catalog| {
        let all = catalog.databases.values().flat_map(|database| database.patterns.iter());
        all.filter(|pattern| pattern.phase.is_passing()).count()
    };
    let total = passing(&data.catalog.load()) as u64;
    // A pattern that fails is no longer passing, so this ends.
    loop {
        let left = passing(&data.catalog.load()) as u64;
        progress("building patterns", total.saturating_sub(left), total);
        if left == 0 {
            break;
        }
        backfill::start(&upkeep);
        join(&data);
        if passing(&data.catalog.load()) as u64 == left {
            break;
        }
    }
    let failed = failures(&data.catalog.load(), source);
    data.sweep_trash()?;
    drop(upkeep);
    data.store.close().map_err(store_failed)?;
    Ok(failed)
}

/// Waits for the threads that build.
fn join(data: &Data) {
    loop {
        let Some(builder) = data.builders.lock().pop() else { return };
        // A builder that panicked has ended as well; its index stays unfinished.
        let _ = builder.join();
    }
}

/// What was in the old catalog and could not be built.
fn failures(catalog: &Catalog, source: &Source) -> Vec<String> {
    let mut failed = Vec::new();
    for old in source.collections.values() {
        let new = catalog.get(&old.db, &old.name);
        for index in &old.indexes {
            let built = new.and_then(|new| new.indexes.iter().find(|new| new.name == index.name));
            let why = match built {
                Some(built) if built.state == IndexState::Ready => continue,
                Some(_) => "is not finished; the next start of the server continues",
                None => "could not be built and is left out (are its values still unique?)",
            };
            failed.push(format!("{}: index '{}' {why}", old.namespace(), index.name));
        }
    }
    for (db, old) in &source.patterns {
        let new = catalog.patterns(db).iter().find(|new| new.id == old.id);
        let why = match new {
            Some(new) if new.phase == Phase::Failed && old.phase != Phase::Failed => {
                format!("could not be built: {}", new.failure)
            }
            Some(new) if new.phase.is_passing() => "is not finished".to_owned(),
            _ => continue,
        };
        failed.push(format!("{db}.{}: pattern '{}' {why}", old.collection, old.name));
    }
    failed
}
