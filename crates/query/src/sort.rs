//! Sort specifications, and the order-preserving key that a document gets from one.

use value::path::Path;
use value::{Error, RawDoc, Result};

/// One field of a sort.
#[derive(Clone, Debug)]
pub struct SortField {
    /// Where the value stands.
    pub path: Path,
    /// Largest first.
    pub descending: bool,
}

/// A compiled sort specification.
#[derive(Clone, Debug)]
pub struct SortSpec {
    /// The fields, most significant first.
    pub fields: Vec<SortField>,
}

impl SortSpec {
    /// Compiles `{a: 1, "b.c": -1}`.
    ///
    /// # Errors
    /// `BadValue` and others as MongoDB gives them.
    pub fn parse(doc: RawDoc<'_>) -> Result<SortSpec> {
        let _ = doc;
        Err(Error::internal("sorts are being built"))
    }

    /// Appends bytes whose order is the sort's order of the documents.
    ///
    /// # Errors
    /// `BadValue` for arrays side by side in two fields of the sort.
    pub fn key(&self, doc: RawDoc<'_>, out: &mut Vec<u8>) -> Result<()> {
        let _ = (doc, out);
        Err(Error::internal("sorts are being built"))
    }
}
