//! How much space collections and indexes take, as the statistics commands tell it. Stored bytes
//! are the store's estimates: what is in memory counts as if it were written already.

use crate::catalog::{Collection, Index};
use crate::engine::Inner;
use crate::trash::range_of;
use std::sync::Arc;
use store::Space;
use value::{Code, Error, Result};

/// Sizes of a collection.
pub(super) struct Sizes {
    /// Documents.
    pub(super) documents: u64,
    /// Bytes of the documents as they are.
    pub(super) bytes: u64,
    /// Bytes of the documents as they are stored.
    pub(super) documents_stored: u64,
    /// The indexes and the bytes of their entries. The clustered index is the documents
    /// themselves and takes no space of its own.
    pub(super) indexes: Vec<(Arc<Index>, u64)>,
}

impl Sizes {
    /// Bytes of all indexes.
    pub(super) fn indexes_stored(&self) -> u64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The sizes of a collection; a view has none.
pub(super) fn of(engine: &Inner, collection: &Collection) -> Sizes {
    let stored = |space, id| {
        let (from, to) = range_of(id);
        engine.data.store.approximate_range_bytes(space, &from, &to)
    };
    let documents = collection.counters.documents();
    Sizes {
        documents,
        bytes: collection.counters.bytes(),
        documents_stored: if documents == 0 { 0 } else { stored(Space::Documents, collection.id) },
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

/// The number that sizes are divided by.
///
/// # Errors
/// 51024 when it is below one.
pub(super) fn scale(args: &super::args::Args<'_>) -> Result<u64> {
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
