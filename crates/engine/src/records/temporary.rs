//! Temporary collections: filled beside a collection, then renamed to its name in one step. They have
//! the option `temp`, as in MongoDB; those that a crash leaves are removed at the next start.

use crate::catalog::{Catalog, Collection, IndexState, change, persist};
use crate::txn::Data;
use std::sync::Arc;
use store::Batch;
use value::{Code, DocBuf, Error, Result};

/// The start of the names of earlier versions, which had no option `temp`, and of `$out`.
pub(crate) const OUT: &str = "tmp.agg_out.";

/// Creates an empty temporary collection with these options and the ready indexes of another one.
///
/// # Errors
/// When a database exists whose name differs only in case, and errors of the store.
pub(crate) fn create(
    data: &Data,
    db: &str,
    name: &str,
    options: &DocBuf,
    like: Option<&Collection>,
) -> Result<Arc<Collection>> {
    let options = DocBuf::build(|out| {
        // In the order in which MongoDB logs options.
        let (sizes, others): (Vec<_>, Vec<_>) = (options.as_doc().iter())
            .partition(|(name, _)| matches!(*name, "capped" | "size" | "max"));
        for (name, value) in sizes {
            out.raw(name, value);
        }
        out.bool("temp", true);
        for (name, value) in others {
            out.raw(name, value);
        }
    });
    data.change_catalog(|catalog, batch| {
        let made = change::create(&data.ids, catalog, batch, db, name, options)?;
        let mut indexes = Vec::new();
        let ready = like.map_or(&[][..], |like| &like.indexes).iter();
        for index in ready.filter(|index| !index.is_id() && index.state == IndexState::Ready) {
            let id = data.ids.fresh(batch);
            let spec = index.spec.as_doc();
            indexes.push(Arc::new(persist::index_from_spec(id, spec, IndexState::Ready, 0)?));
        }
        let made = change::altered(&made, |made| made.indexes.extend(indexes));
        change::put(catalog, batch, made.clone());
        Ok(made)
    })
}

/// Renames a temporary collection, which is permanent from then on. The name must be free in the
/// same database. Runs inside `change_catalog`.
///
/// # Errors
/// OperationFailed when the temporary collection was dropped.
pub(crate) fn put_in_place(
    catalog: &mut Catalog,
    batch: &mut Batch,
    temporary: &Collection,
    name: &str,
) -> Result<()> {
    let made = catalog.get(&temporary.db, &temporary.name).cloned();
    let made = made.ok_or_else(|| {
        let message = "the temporary collection was dropped before its end";
        Error::new(Code::COMMAND_FAILED, message)
    })?;
    catalog.remove(&temporary.db, &temporary.name);
    let placed = change::altered(&made, |made| {
        made.name = name.into();
        made.options = DocBuf::build(|out| {
            for (option, value) in made.options.as_doc() {
                if option != "temp" {
                    out.raw(option, value);
                }
            }
        });
    });
    change::put(catalog, batch, placed);
    Ok(())
}

/// Removes a temporary collection after a failure, also if the operation was stopped.
pub(crate) fn clean_up(data: &Data, collection: &Arc<Collection>) {
    let collection = collection.clone();
    data.clean_up("a temporary collection", move |data| remove(data, &collection));
}

/// Removes a temporary collection, if it is still there.
///
/// # Errors
/// When the store fails.
pub(crate) fn remove(data: &Data, collection: &Collection) -> Result<()> {
    let removed = data.change_catalog(|catalog, batch| {
        let found = catalog.get(&collection.db, &collection.name).cloned();
        // Another one may have its name by now.
        let found = found.filter(|found| found.id == collection.id);
        if let Some(found) = &found {
            change::remove(catalog, batch, found);
        }
        Ok(found)
    })?;
    if let Some(removed) = removed {
        change::discard(&data.trash, &removed);
    }
    Ok(())
}

/// Removes temporary collections that a crash left.
///
/// # Errors
/// When the store fails.
pub(crate) fn remove_leftovers(data: &Data) -> Result<()> {
    let catalog = data.catalog.load_full();
    let is_temporary = |collection: &&Arc<Collection>| {
        collection.name.starts_with(OUT) || collection.options.as_doc().find("temp").is_some()
    };
    for collection in catalog.collections().filter(is_temporary) {
        remove(data, collection)?;
    }
    Ok(())
}
