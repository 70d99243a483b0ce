//! `dbStats` and `dataSize`: sizes of a database, and of the documents of one collection.

use super::row::Required;
use super::{Command, Context};
use crate::access::Authorization;
use crate::engine::Storage;
use crate::namespace::Namespace;
use crate::stages::sizes;
use ::access::Action;
use std::time::Instant;
use value::{Code, Error, Result, Writer};

pub(super) static DB_STATS: Command = Command {
    name: "dbStats",
    aliases: &["dbstats"],
    help: "Tells sizes of a database.",
    fields: Some(&["dbStats", "dbstats", "scale", "freeStorage"]),
    privilege: Required::Database(&[Action::DbStats]),
    run: db_stats,
    ..Command::BASE
};

pub(super) static DATA_SIZE: Command = Command {
    name: "dataSize",
    aliases: &["datasize"],
    help: "Tells the size of a collection's documents.",
    fields: Some(&["dataSize", "datasize", "keyPattern", "min", "max", "estimate"]),
    privilege: Required::Custom(may_read_size),
    run: data_size,
    ..Command::BASE
};

fn db_stats(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let scale = sizes::scale(&context.args)? as f64;
    let catalog = context.engine.data.catalog.load_full();
    let database = catalog.databases.get(context.db);
    let all = || database.into_iter().flat_map(|database| database.collections.values());
    let views = all().filter(|collection| collection.view().is_some()).count();
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
    out.count("indexes", indexes);
    out.f64("indexSize", entries as f64 / scale);
    out.f64("totalSize", (stored + entries) as f64 / scale);
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

fn data_size(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let started = Instant::now();
    let args = &context.args;
    let text = args.doc.first().and_then(|(_, name)| name.get().as_str());
    let text = text.ok_or_else(|| args.missing("dataSize"))?;
    let name = Namespace::parse(text).map_err(|_| {
        Error::new(Code::INVALID_NAMESPACE, format!("Invalid namespace specified '{text}'"))
    })?;
    for name in ["keyPattern", "min", "max"] {
        if args.get(name).is_some() {
            return Err(Error::new(
                Code::NOT_IMPLEMENTED,
                format!("dataSize of a range ('{name}') is not available in this version"),
            ));
        }
    }
    let collection = context.engine.data.collection(&name.db, &name.collection);
    if let Some(collection) = &collection {
        // Counted with every write, so it is exact.
        out.bool("estimate", false);
        out.count("size", collection.counters.bytes());
        out.count("numObjects", collection.counters.documents());
    } else {
        out.i32("size", 0).i32("numObjects", 0);
    }
    out.count("millis", started.elapsed().as_millis() as u64);
    Ok(())
}

fn may_read_size(auth: &Authorization<'_>) -> bool {
    auth.on_namespace(auth.collection(), &[Action::Find])
}
