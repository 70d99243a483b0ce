//! `collStats`: sizes of a collection and its indexes. The `$collStats` stage tells the same.

use super::row::Required;
use super::{Command, Context, oplog, query, sizes};
use crate::catalog::{Collection, IndexState};
use crate::engine::Inner;
use crate::namespace::is_oplog;
use ::access::Action;
use value::{Result, Val, Writer};

pub(super) static COMMAND: Command = Command {
    name: "collStats",
    aliases: &["collstats"],
    help: "Tells sizes of a collection and its indexes.",
    fields: None,
    privilege: Required::Collection(&[Action::CollStats]),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let name = context.collection_name()?;
    let scale = sizes::scale(&context.args)?;
    let collection = query::writable(&context.engine.data.catalog.load(), context.db, name)?;
    out.str("ns", &format!("{}.{name}", context.db));
    if is_oplog(context.db, name) {
        oplog::write_stats(context.engine, scale, out);
        return Ok(());
    }
    write_sizes(context.engine, collection.as_deref(), scale, out);
    Ok(())
}

/// Writes the sizes of a collection, divided by `scale`; zeros when it does not exist.
pub(crate) fn write_sizes(
    engine: &Inner,
    collection: Option<&Collection>,
    scale: u64,
    out: &mut Writer<'_>,
) {
    let Some(collection) = collection else {
        out.i32("size", 0).i32("count", 0).i32("numOrphanDocs", 0).i32("storageSize", 0);
        out.i32("totalSize", 0).i32("nindexes", 0).i32("totalIndexSize", 0);
        out.doc("indexDetails", |_| {}).doc("indexSizes", |_| {});
        out.count("scaleFactor", scale);
        return;
    };
    let sizes = sizes::of(engine, collection);
    let scale = scale.max(1);
    out.count("size", sizes.bytes / scale);
    out.count("count", sizes.documents);
    if let Some(average) = sizes.bytes.checked_div(sizes.documents) {
        out.count("avgObjSize", average);
    }
    out.i32("numOrphanDocs", 0);
    out.count("storageSize", sizes.documents_stored / scale);
    out.bool("capped", collection.capped().is_some());
    if let Some(capped) = collection.capped() {
        if let Some(max) = capped.documents_max {
            out.count("max", max as u64);
        }
        out.count("maxSize", u64::try_from(capped.bytes_max).unwrap_or(0) / scale);
    }
    out.count("nindexes", collection.indexes.len() as u64);
    out.doc("indexDetails", |_| {});
    out.array("indexBuilds", |names| {
        for index in collection.indexes.iter().filter(|i| i.state == IndexState::Building) {
            names.push(Val::String(&index.name));
        }
    });
    let indexes = sizes.indexes_stored();
    out.count("totalIndexSize", indexes / scale);
    out.count("totalSize", (sizes.documents_stored + indexes) / scale);
    out.doc("indexSizes", |out| {
        for (index, bytes) in &sizes.indexes {
            out.count(&index.name, bytes / scale);
        }
    });
    out.count("scaleFactor", scale);
}
