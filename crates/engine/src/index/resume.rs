//! Restart of index builds that an earlier process did not finish. Each runs in its own thread
//! under a new prefix, because the entries under the old one may lack the last writes.

use super::build;
use crate::catalog::{Collection, IndexState, change, persist};
use crate::txn::Data;
use std::sync::{Arc, Weak};
use value::{Code, Error, Result};

/// Starts the thread that builds the unfinished indexes of a collection. The entries of the earlier
/// builds are no longer referenced then.
///
/// # Errors
/// When the thread cannot be started, or the store fails.
pub fn resume(data: &Arc<Data>, collection: &Arc<Collection>) -> Result<()> {
    let (collection, ids) = renew(data, collection)?;
    fill_renewed(data, collection, ids)
}

/// Starts the thread that fills unfinished indexes of a collection, which are in the catalog under
/// new prefixes.
///
/// # Errors
/// When the thread cannot be started.
pub fn fill_renewed(data: &Arc<Data>, collection: Arc<Collection>, ids: Vec<u32>) -> Result<()> {
    let weak = Arc::downgrade(data);
    let thread = std::thread::Builder::new()
        .name("index build".to_owned())
        .spawn(move || run(&weak, &collection, &ids))
        .map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
    data.builders.lock().push(thread);
    Ok(())
}

/// Assigns new prefixes to unfinished indexes.
fn renew(data: &Data, collection: &Collection) -> Result<(Arc<Collection>, Vec<u32>)> {
    data.change_catalog(|catalog, batch| {
        let mut indexes = collection.indexes.clone();
        let mut ids = Vec::new();
        for index in indexes.iter_mut().filter(|index| index.state == IndexState::Building) {
            change::forget_index(batch, index);
            let id = data.ids.fresh(batch);
            ids.push(id);
            let spec = index.spec.as_doc();
            *index = Arc::new(persist::index_from_spec(id, spec, IndexState::Building, 0)?);
        }
        let renewed = change::altered(collection, |collection| collection.indexes = indexes);
        change::put(catalog, batch, renewed.clone());
        // The one of the catalog knows how its documents are stored.
        Ok((catalog.get(&renewed.db, &renewed.name).cloned().unwrap_or(renewed), ids))
    })
}

fn run(data: &Weak<Data>, collection: &Arc<Collection>, ids: &[u32]) {
    let namespace = collection.namespace();
    tracing::info!(namespace = &*namespace, "rebuilding an index");
    let Some(data) = data.upgrade() else { return };
    let gone = || Error::new(Code::SHUTDOWN_IN_PROGRESS, "the engine was closed");
    // The engine is closed. The next process restarts the build.
    let check = || if Arc::strong_count(&data) == 1 { Err(gone()) } else { Ok(()) };
    let Err(error) = build::run(&data, collection, ids, &check) else { return };
    // If the process ends, the next one restarts the build.
    if error.code() == Code::SHUTDOWN_IN_PROGRESS {
        return;
    }
    tracing::warn!(code = error.code().0, namespace = &*namespace, "rebuilding an index failed");
    let (built, ids) = (collection.clone(), ids.to_vec());
    data.clean_up("an unfinished index", move |data| build::remove_failed(data, &built, &ids));
}
