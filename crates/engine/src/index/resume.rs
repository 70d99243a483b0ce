//! Builds that an earlier process began and did not end begin again, in a thread of their own, behind a
//! new prefix: what is behind the old one may lack what writers did last.

use super::build;
use crate::catalog::{Collection, IndexState, change, persist};
use crate::txn::Data;
use std::sync::{Arc, Weak};
use value::{Code, Error, Result};

/// Starts the thread that builds the unfinished indexes of a collection. What is left of the earlier
/// builds belongs to nobody then.
///
/// # Errors
/// When no thread can be started, or the store fails.
pub fn resume(data: &Arc<Data>, collection: &Arc<Collection>) -> Result<()> {
    let (collection, ids) = renew(data, collection)?;
    let weak = Arc::downgrade(data);
    let thread = std::thread::Builder::new()
        .name("index build".to_owned())
        .spawn(move || run(&weak, &collection, &ids))
        .map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
    data.builders.lock().push(thread);
    Ok(())
}

/// Gives unfinished indexes new prefixes.
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
        Ok((renewed, ids))
    })
}

fn run(data: &Weak<Data>, collection: &Arc<Collection>, ids: &[u32]) {
    let namespace = collection.namespace();
    tracing::info!(namespace = &*namespace, "rebuilding an index");
    let Some(data) = data.upgrade() else { return };
    let gone = || Error::new(Code::SHUTDOWN_IN_PROGRESS, "the engine was closed");
    // Nobody else uses the engine any more: the next process begins again.
    let check = || if Arc::strong_count(&data) == 1 { Err(gone()) } else { Ok(()) };
    let Err(error) = build::run(&data, collection, ids, &check) else { return };
    // A process that ends leaves the build to the next one.
    if error.code() == Code::SHUTDOWN_IN_PROGRESS {
        return;
    }
    tracing::warn!(code = error.code().0, namespace = &*namespace, "rebuilding an index failed");
    if let Err(error) = build::take_away(&data, collection, ids) {
        tracing::error!(%error, "cannot remove an unfinished index");
    }
}
