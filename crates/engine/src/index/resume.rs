//! Going on with builds that an earlier process began and did not end: in a thread of its own,
//! behind the last batch whose entries were committed.

use super::build::{Listed, finish, new_job, take_away};
use super::fill::{Part, check_all_unique, fill_next};
use crate::catalog::{Collection, IndexState};
use crate::engine::Inner;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use value::{Code, Error, Result};

/// Starts the thread that ends the builds of a collection. `progress` says how far each index
/// came.
///
/// # Errors
/// When no thread can be started.
pub fn resume(
    engine: &Arc<Inner>,
    collection: &Arc<Collection>,
    progress: &HashMap<u32, Vec<u8>>,
) -> Result<()> {
    let unfinished = collection.indexes.iter().filter(|i| i.state == IndexState::Building);
    let ids: Vec<u32> = unfinished.map(|index| index.id).collect();
    // Several builds go on together, where the one stopped that came least far.
    let start = collection.prefix().to_vec();
    let after = ids.iter().map(|id| progress.get(id).unwrap_or(&start)).min().cloned();
    let weak = Arc::downgrade(engine);
    let collection = collection.clone();
    let thread = std::thread::Builder::new()
        .name("index build".to_owned())
        .spawn(move || run(&weak, &collection, &ids, after.unwrap_or(start)))
        .map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
    engine.builders.lock().push(thread);
    Ok(())
}

fn run(engine: &Weak<Inner>, collection: &Arc<Collection>, ids: &[u32], after: Vec<u8>) {
    let namespace = collection.namespace();
    tracing::info!(%namespace, "goes on with an index build");
    let Err(error) = build(engine, collection, ids, after) else { return };
    let Some(engine) = engine.upgrade() else { return };
    // A process that ends leaves the build to the next one.
    if error.code() == Code::SHUTDOWN_IN_PROGRESS {
        return;
    }
    tracing::warn!(%error, %namespace, "an index build that was gone on with failed");
    if let Err(error) = take_away(&engine, collection, ids) {
        tracing::error!(%error, "cannot remove an unfinished index");
    }
}

fn build(
    weak: &Weak<Inner>,
    collection: &Arc<Collection>,
    ids: &[u32],
    after: Vec<u8>,
) -> Result<()> {
    let gone = || Error::new(Code::SHUTDOWN_IN_PROGRESS, "the engine was closed");
    let engine = weak.upgrade().ok_or_else(gone)?;
    let job = new_job(&engine, collection);
    let _listed = Listed::new(&engine, job.clone());
    let mut part = Part::behind(collection, after);
    while let Some(last) = fill_next(&engine, &job, collection, ids, &part, &|| Ok(()))? {
        // Nobody else uses the engine any more: the next process goes on.
        if Arc::strong_count(&engine) == 1 {
            return Err(gone());
        }
        part.advance(last);
    }
    check_all_unique(&engine, collection, ids, &mut || engine.check_open())?;
    finish(&engine, collection, ids)
}
