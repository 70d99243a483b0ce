//! Shapes: views of a document that depend on the reader.
//!
//! A collection has one canonical form of its documents, which indexes, validators, other patterns
//! and the change log use. A reader may use another form, such as an older version of the schema.
//! Then filters, sorts, projections, update operators and change events of that reader refer to its
//! own form. Declarations, indexes and validators always name canonical fields.
//!
//! The engine asks once per operation and collection ([`Shape::view`]). If there is a view:
//! - the plan's leaf shows every document through it ([`ShapeView::show`]) before a filter sees it,
//!   in commands, in stages that read other collections, and in change streams;
//! - the planner leaves out indexes and answers of patterns over paths that differ
//!   ([`ShapeView::differs_at`]);
//! - the write path converts the reader's image back ([`ShapeView::accept`]) before validators,
//!   indexes and patterns see it.
//!
//! Several shapes may share a collection, such as one for each step between versions. They are
//! stacked by [`Shape::level`]: the highest one shows canonical documents, each other one what the
//! next higher one shows. A view shows every document, keeps its `_id`, and depends on nothing but
//! the document. How a canonical document is stored is decided by a [`crate::layout::Layout`], not
//! by a shape.

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
    /// The faces that the statement names.
    pub named: Named,
}

/// The faces ([`Shape::face`]) that a statement names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Named {
    /// All of them.
    faces: Vec<String>,
    /// Those that only filters and sorts name: they find documents and are not shown.
    only_to_find: Vec<String>,
}

impl Named {
    /// Adds a face; `shown` says whether it is named elsewhere than in a filter or sort.
    pub fn add(&mut self, face: &str, shown: bool) {
        if !self.has(face) {
            self.faces.push(face.to_owned());
        }
        if !shown {
            self.only_to_find.push(face.to_owned());
        }
    }

    /// Whether the statement names a face.
    #[must_use]
    pub fn has(&self, face: &str) -> bool {
        self.faces.iter().any(|known| known == face)
    }

    /// The faces that are not in the result of the statement.
    #[must_use]
    pub fn only_to_find(&self) -> &[String] {
        &self.only_to_find
    }
}

/// A form of documents that a command asks for by name: its field `$schemaVersion`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pin {
    /// The version with this number.
    Version(i64),
    /// Every document in the form in which it is stored.
    AsStored,
}

impl std::fmt::Display for Pin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pin::Version(version) => write!(out, "{version}"),
            Pin::AsStored => write!(out, "asStored"),
        }
    }
}

/// Documents whose form depends on the reader.
pub trait Shape: std::fmt::Debug + Send + Sync {
    /// The place among the shapes of a collection, such as a version. The highest one shows
    /// canonical documents.
    fn level(&self) -> i64;

    /// Whether the shape has this form. A form that no shape of a collection has is refused.
    fn has_form(&self, pin: Pin) -> bool;

    /// A field that documents have only for statements that name it ([`Reader::named`]).
    fn face(&self) -> Option<&str> {
        None
    }

    /// Whether a statement that neither names a face nor pins a form may see another form than
    /// others. Then a change in the log has the documents before and after it.
    fn depends_on_reader(&self) -> bool {
        self.face().is_none()
    }

    /// If the face is an array of pairs `{k, v}`: the path of the canonical document whose value,
    /// or the elements of whose array, are exactly the values `v` that it shows with this key.
    fn path_of_pair(&self, _key: &str) -> Option<String> {
        None
    }

    /// The names of the applications that see documents in another form than the canonical one.
    fn older_clients(&self) -> Vec<&str> {
        Vec::new()
    }

    /// How a reader sees documents; `None` if it sees them as the shape gets them. A pinned form
    /// may be that of another shape of the collection.
    ///
    /// # Errors
    /// When documents cannot be shown in the reader's form any more.
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
    /// form does not show are taken from it. An image that is what `show` makes of `before` gives
    /// `before`.
    ///
    /// # Errors
    /// When the image has no canonical form.
    fn accept(&self, before: Option<RawDoc<'_>>, image: RawDoc<'_>) -> Result<DocBuf>;

    /// Whether `show` gets documents in the form in which the layout of the same pattern stores
    /// them. Then the reader cannot write: `accept` is not called.
    fn reads_stored(&self) -> bool {
        false
    }

    /// The paths whose values may differ from the canonical document, in either form; never `_id`.
    /// For this reader no index, covered read or answer from maintained values over such a path is
    /// used.
    fn differs_at(&self) -> &[String];
}
