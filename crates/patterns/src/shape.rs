//! Shapes: views of a document that depend on the reader.
//!
//! A collection has one canonical form of its documents, which indexes, validators, other patterns
//! and the change log use. A reader may use another form, such as an older version of the schema.
//! Then filters, sorts, projections and update operators of that reader refer to its own form.
//!
//! No kind has a shape yet, so the engine does not call this today. It is meant to be called once
//! per operation and collection (`Shape::view`), with the reader of the operation. If there is a
//! view, the plan's leaf shows every document through it before a filter sees it, and the write
//! path converts the reader's image back to the canonical form before validators, indexes and
//! patterns see it. How a canonical document is stored is decided by a [`crate::layout::Layout`],
//! not by a shape.

use value::{DocBuf, RawDoc, Result};

/// The reader or writer, as far as shapes can depend on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reader {
    /// The name that the application gave when it connected.
    pub app_name: Option<String>,
    /// The user that is logged in, as `database.name`.
    pub user: Option<String>,
    /// The form that the command itself requests. It takes precedence over the connection.
    pub pinned: Option<Pin>,
}

/// A form of documents that a command asks for by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pin {
    /// The version with this number.
    Version(i64),
    /// Every document in the form in which it is stored.
    AsStored,
}

/// Documents whose form depends on the reader.
pub trait Shape: std::fmt::Debug + Send + Sync {
    /// How a reader sees documents; `None` if it sees them in their canonical form.
    ///
    /// # Errors
    /// A pinned version that does not exist, or that documents cannot be shown in any more.
    fn view(&self, reader: &Reader) -> Result<Option<Box<dyn ShapeView>>>;
}

/// How one reader sees the documents of a collection.
pub trait ShapeView: Send + Sync {
    /// A canonical document as the reader sees it; `None` if that is the same.
    ///
    /// # Errors
    /// When the document cannot be shown in the reader's form.
    fn show(&self, canonical: RawDoc<'_>) -> Result<Option<DocBuf>>;

    /// Converts an image that the reader wrote to the canonical document. `before` is the
    /// canonical document that the reader changed, `None` for an insert: fields that the reader's
    /// form does not show are taken from it.
    ///
    /// # Errors
    /// When the image has no canonical form.
    fn accept(&self, before: Option<RawDoc<'_>>, image: RawDoc<'_>) -> Result<DocBuf>;

    /// The paths whose values may differ from the canonical document, in either form. For this
    /// reader no index, covered read or answer from maintained values over such a path is used.
    fn differs_at(&self) -> &[String];
}
