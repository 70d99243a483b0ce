//! Searches that follow links between documents of a collection, by an index on the linking field.

use value::OwnedVal;
use value::path::Path;

/// A search that starts at some documents and continues with those that refer to them. It finds
/// all documents that can match, and possibly more.
#[derive(Clone, Debug)]
pub struct Descent {
    /// The field that identifies documents.
    pub id: Path,
    /// The field in which a document refers to another one.
    pub link: Path,
    /// The documents at which the search starts.
    pub starts: Vec<Start>,
}

/// A document at which a search begins.
#[derive(Clone, Debug)]
pub struct Start {
    /// The value of its `id` field; null means the root of all documents that refer to none.
    pub name: OwnedVal,
    /// Whether the document itself can match.
    pub itself: bool,
    /// How many levels below it can match; `None` for all.
    pub levels: Option<u32>,
}
