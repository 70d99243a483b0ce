//! `dbStats`: sizes of a database.

use super::row::Required;
use super::{Command, Context};
use crate::options::Storage;
use crate::stages::sizes;
use ::access::Action;
use value::{Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "dbStats",
    aliases: &["dbstats"],
    help: "Returns the sizes of a database.",
    fields: Some(&["dbStats", "dbstats", "scale", "freeStorage"]),
    privilege: Required::Database(&[Action::DbStats]),
    run: db_stats,
    ..Command::BASE
};

fn db_stats(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let scale = sizes::scale(&context.args)? as f64;
    let catalog = context.engine.data.catalog.load_full();
    let database = catalog.databases.get(context.db);
    let all = || database.into_iter().flat_map(|database| database.collections.values());
    let views = all().filter(|collection| collection.view().is_some()).count();
    let shows_free = context.args.optional_i64("freeStorage")?.is_some_and(|n| n != 0);
    let (mut documents, mut bytes, mut stored, mut indexes, mut entries) = (0, 0, 0, 0, 0);
    for collection in all() {
        let sizes = sizes::of(&context.engine.data, collection);
        documents += sizes.documents;
        bytes += sizes.bytes;
        stored += sizes.documents_stored;
        indexes += sizes.indexes.len() as u64;
        entries += sizes.indexes_stored();
    }
    out.str("db", context.db);
    out.count("collections", (all().count() - views) as u64);
    out.count("views", views as u64);
    out.count("objects", documents);
    out.f64("avgObjSize", if documents == 0 { 0.0 } else { bytes as f64 / documents as f64 });
    out.f64("dataSize", bytes as f64 / scale);
    out.f64("storageSize", stored as f64 / scale);
    // Tables are written whole: they have no unused parts.
    if shows_free {
        out.f64("freeStorageSize", 0.0);
    }
    out.count("indexes", indexes);
    out.f64("indexSize", entries as f64 / scale);
    if shows_free {
        out.f64("indexFreeStorageSize", 0.0);
    }
    out.f64("totalSize", (stored + entries) as f64 / scale);
    if shows_free {
        out.f64("totalFreeStorageSize", 0.0);
    }
    out.f64("scaleFactor", scale);
    if let Storage::Disk(path) = &context.engine.data.options.storage
        && let Ok(space) = rustix::fs::statvfs(path)
    {
        let total = space.f_blocks as f64 * space.f_frsize as f64;
        let free = space.f_bfree as f64 * space.f_frsize as f64;
        out.f64("fsUsedSize", (total - free) / scale);
        out.f64("fsTotalSize", total / scale);
    }
    Ok(())
}
