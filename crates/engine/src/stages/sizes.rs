//! The sizes of collections and indexes, for commands and stages that show them. Stored sizes are
//! estimates of the store; data in memory counts as if it were written.

use crate::catalog::time_series::BUCKETS;
use crate::catalog::{Collection, Index, IndexState};
use crate::trash::range_of;
use crate::txn::Data;
use std::sync::Arc;
use store::Space;
use value::{Code, Error, Result, Val, Writer};

/// Sizes of a collection.
pub(crate) struct Sizes {
    /// Documents.
    pub(crate) documents: u64,
    /// Bytes of the logical documents.
    pub(crate) bytes: u64,
    /// Bytes of the stored records.
    pub(crate) documents_stored: u64,
    /// The indexes and the bytes of their entries. The clustered index is the documents themselves
    /// and takes no extra space.
    pub(crate) indexes: Vec<(Arc<Index>, u64)>,
}

impl Sizes {
    /// Bytes of all indexes.
    pub(crate) fn indexes_stored(&self) -> u64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Returns the sizes of a collection; a view has none.
pub(crate) fn of(data: &Data, collection: &Collection) -> Sizes {
    let stored = |space, id| {
        let (from, to) = range_of(id);
        data.store.approximate_range_bytes(space, &from, &to)
    };
    let documents = collection.counters.documents();
    // Layouts store their own records, under the ids of their patterns.
    let layouts = collection.layouts.as_deref().map_or(&[][..], |layouts| layouts.patterns());
    let prefixes = layouts.iter().map(|pattern| pattern.id).chain([collection.id]);
    let documents_stored = || prefixes.map(|id| stored(Space::Documents, id)).sum();
    Sizes {
        documents,
        bytes: collection.counters.bytes(),
        documents_stored: if documents == 0 { 0 } else { documents_stored() },
        indexes: collection
            .indexes
            .iter()
            .map(|index| {
                let bytes = if index.is_clustered() { 0 } else { stored(Space::Indexes, index.id) };
                (index.clone(), bytes)
            })
            .collect(),
    }
}

/// Reads the scale by which sizes are divided.
///
/// # Errors
/// 51024 when it is below one.
pub(crate) fn scale(args: &crate::args::Args<'_>) -> Result<u64> {
    match args.optional_i64("scale")? {
        None => Ok(1),
        Some(n) => u64::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| {
            Error::new(
                Code(51024),
                format!("BSON field 'scale' value must be >= 1, actual value '{n}'"),
            )
        }),
    }
}

/// Writes the sizes of a collection, divided by `scale`; zeros when it does not exist.
pub(crate) fn write_sizes(
    data: &Data,
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
    let sizes = of(data, collection);
    let scale = scale.max(1);
    out.count("size", sizes.bytes / scale);
    out.count("count", sizes.documents);
    if let Some(average) = sizes.bytes.checked_div(sizes.documents) {
        out.count("avgObjSize", average);
    }
    if collection.time_series.is_some() {
        out.doc("timeseries", |out| {
            out.str("bucketsNs", &format!("{}.{BUCKETS}{}", collection.db, collection.name));
        });
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

/// Writes the sizes of the oplog, as `collStats` does; the number of entries is an estimate.
pub(crate) fn write_oplog_sizes(data: &Data, scale: u64, out: &mut Writer<'_>) {
    let scale = scale.max(1);
    let (bytes, entries) = data.changes.sizes();
    out.count("size", bytes / scale).count("count", entries);
    if let Some(average) = bytes.checked_div(entries) {
        out.count("avgObjSize", average);
    }
    out.i32("numOrphanDocs", 0).count("storageSize", bytes / scale);
    out.bool("capped", true).i32("max", -1);
    out.count("maxSize", data.changes.bytes_max() / scale);
    out.i32("nindexes", 0).doc("indexDetails", |_| {}).array("indexBuilds", |_| {});
    out.i32("totalIndexSize", 0).count("totalSize", bytes / scale).doc("indexSizes", |_| {});
    out.count("scaleFactor", scale);
}
