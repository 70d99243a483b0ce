//! Searches that follow links between documents of one collection, by an index on the linking field.

use value::OwnedVal;
use value::path::Path;

/// A search that begins at some documents and goes on with those that name them. It finds all documents
/// that can match, and perhaps more.
#[derive(Clone, Debug)]
pub struct Descent {
    /// The field by which documents are named.
    pub id: Path,
    /// The field in which a document names another one.
    pub link: Path,
    /// Where the search begins.
    pub starts: Vec<Start>,
}

/// A document at which a search begins.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its name; null stands above all documents that name none.
    pub name: OwnedVal,
    /// Whether the document itself is wanted.
    pub itself: bool,
    /// How many levels below it are wanted; `None` for all.
    pub levels: Option<u32>,
}
