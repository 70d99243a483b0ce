//! The shapes of a collection: the patterns that determine how readers see its documents, and the
//! form in which one reader sees them. They are part of the collection, so that a collection without
//! shapes costs one check.
//!
//! A collection of the catalog is canonical. [`Collection::seen_by`] returns a copy with the form of
//! a reader; plans, scans and statements that get it use that form (`records/resolve` shows
//! documents, `exec/modify` accepts images).

use super::{Collection, Index};
use patterns::paths::meet;
use patterns::shape::{Reader, Shape, ShapeView};
use patterns::{CollectionPatterns, Pattern, Phase};
use std::sync::Arc;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The shapes of one collection, as a stack.
pub struct Shapes {
    /// The patterns; the first shows canonical documents, each other what the one before it shows.
    layers: Vec<Arc<Pattern>>,
}

/// How one reader sees the documents of a collection.
pub struct ReaderForm {
    /// The faces that the statement names only to find documents.
    only_to_find: Vec<String>,
    /// The views, in the order in which a canonical document passes them.
    views: Vec<Box<dyn ShapeView>>,
    /// The patterns whose layouts the reader does not see, because it asks for stored documents.
    unmapped: Vec<u32>,
}

impl Shapes {
    /// Returns the shapes among the patterns of a collection, if there are any.
    pub(super) fn of(bound: &CollectionPatterns) -> Option<Arc<Shapes>> {
        let shows = |pattern: &&Arc<Pattern>| match pattern.phase {
            Phase::Clearing => false,
            Phase::Failed => pattern.shape().is_some() && pattern.traits.always_fills,
            _ => pattern.shape().is_some(),
        };
        let mut layers: Vec<_> = bound.targets.iter().filter(shows).cloned().collect();
        layers.sort_by_key(|pattern| std::cmp::Reverse(pattern.shape().map(Shape::level)));
        (!layers.is_empty()).then(|| Arc::new(Shapes { layers }))
    }

    /// The fields that documents have only for statements that name them.
    pub fn faces(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().filter_map(|pattern| pattern.shape()?.face())
    }

    /// Returns whether a statement that names no face and pins no form may see another form than others.
    #[must_use]
    pub fn depend_on_reader(&self) -> bool {
        self.layers.iter().filter_map(|pattern| pattern.shape()).any(Shape::depends_on_reader)
    }

    /// The path of the values that a face shows in pairs with a key.
    #[must_use]
    pub fn path_of_pair(&self, face: &str, key: &str) -> Option<String> {
        let mut shapes = self.layers.iter().filter_map(|pattern| pattern.shape());
        shapes.find(|shape| shape.face() == Some(face))?.path_of_pair(key)
    }

    /// Returns the form in which a reader sees documents; `None` for the canonical form.
    fn form(&self, collection: &Collection, reader: &Reader) -> Result<Option<ReaderForm>> {
        let shapes = || self.layers.iter().filter_map(|pattern| Some((pattern, pattern.shape()?)));
        if let Some(pin) = reader.pinned
            && shapes().any(|(_, shape)| shape.depends_on_reader())
            && !shapes().any(|(_, shape)| shape.has_form(pin))
        {
            return Err(Error::bad_value(format!(
                "documents of '{}' have no version {pin} ('$schemaVersion')",
                collection.namespace()
            )));
        }
        let mut form =
            ReaderForm { only_to_find: Vec::new(), views: Vec::new(), unmapped: Vec::new() };
        for (pattern, shape) in shapes() {
            let Some(view) = shape.view(reader)? else { continue };
            if view.reads_stored() {
                form.unmapped.push(pattern.id);
            }
            let hidden = |face: &&str| reader.named.only_to_find().iter().any(|f| f == face);
            form.only_to_find.extend(shape.face().filter(hidden).map(str::to_owned));
            form.views.push(view);
        }
        Ok((!form.views.is_empty()).then_some(form))
    }
}

impl ReaderForm {
    /// The faces that the statement names only to find documents: its result is without them.
    #[must_use]
    pub fn only_to_find(&self) -> &[String] {
        &self.only_to_find
    }

    /// Returns a canonical document as the reader sees it; `None` if that is the same.
    ///
    /// # Errors
    /// When the document cannot be shown in the reader's form.
    pub fn show(&self, canonical: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let mut shown: Option<DocBuf> = None;
        for view in &self.views {
            let next = view.show(shown.as_ref().map_or(canonical, DocBuf::as_doc))?;
            shown = next.or(shown);
        }
        Ok(shown)
    }

    /// Converts an image that the reader wrote to the canonical document. `before` is the canonical
    /// document that the reader changed, `None` for an insert.
    ///
    /// # Errors
    /// When the image has no canonical form.
    pub fn accept(&self, before: Option<RawDoc<'_>>, image: RawDoc<'_>) -> Result<DocBuf> {
        // What each view was given, first the canonical document.
        let mut steps: Vec<Option<DocBuf>> = vec![before.map(DocBuf::from)];
        for view in self.views.iter().take(self.views.len().saturating_sub(1)) {
            let given = steps.last().and_then(Option::as_ref);
            let shown = match given {
                Some(given) => Some(view.show(given.as_doc())?.unwrap_or_else(|| given.clone())),
                None => None,
            };
            steps.push(shown);
        }
        let mut image = DocBuf::from(image);
        for (view, before) in self.views.iter().zip(&steps).rev() {
            image = view.accept(before.as_ref().map(DocBuf::as_doc), image.as_doc())?;
        }
        let same_id = |before: RawDoc<'_>| {
            let (old, new) = (before.find("_id"), image.as_doc().find("_id"));
            old.map(|id| (id.kind, id.bytes)) == new.map(|id| (id.kind, id.bytes))
        };
        if before.is_some_and(|before| !same_id(before)) {
            return Err(Error::internal("a view of a document changed its _id"));
        }
        Ok(image)
    }

    /// Returns whether the reader may write.
    ///
    /// # Errors
    /// IllegalOperation for a reader of stored documents.
    pub fn check_writable(&self) -> Result<()> {
        match self.unmapped.is_empty() {
            true => Ok(()),
            false => Err(Error::new(
                Code::ILLEGAL_OPERATION,
                "documents can only be read in the form in which they are stored",
            )),
        }
    }

    /// Returns whether values at a path, below it or above it may differ from those of canonical
    /// documents.
    #[must_use]
    pub fn differs_at(&self, path: &str) -> bool {
        self.views.iter().flat_map(|view| view.differs_at()).any(|differs| meet(differs, path))
    }

    /// Returns whether an index has the same entries for documents in this form.
    fn allows(&self, index: &Index) -> bool {
        !paths_of_index(index.spec.as_doc()).iter().any(|path| self.differs_at(path))
    }
}

impl Collection {
    /// Returns the collection as a reader sees it; `None` if that is the canonical form.
    ///
    /// # Errors
    /// BadValue for a pinned form that the collection does not have, and errors of its shapes.
    pub fn seen_by(&self, reader: &Reader) -> Result<Option<Arc<Collection>>> {
        let Some(shapes) = &self.shapes else { return Ok(None) };
        let Some(form) = shapes.form(self, reader)? else { return Ok(None) };
        let layouts = match &self.layouts {
            Some(layouts) if !form.unmapped.is_empty() => layouts.without(&form.unmapped),
            layouts => layouts.clone(),
        };
        Ok(Some(Arc::new(Collection { layouts, form: Some(Arc::new(form)), ..self.clone() })))
    }

    /// Returns the indexes that queries may use: for a reader with its own form those over paths
    /// that do not differ. Writes maintain all `indexes`.
    pub fn readable_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        let form = self.form.as_deref();
        self.indexes.iter().filter(move |index| match form {
            None => true,
            Some(form) => index.is_clustered() || form.allows(index),
        })
    }
}

/// Returns the paths whose values decide the entries of an index. The empty path is the whole
/// document.
pub(crate) fn paths_of_index(spec: RawDoc<'_>) -> Vec<String> {
    let document = |option: &str| spec.get(option).and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let mut paths: Vec<String> = Vec::new();
    let projection = document("wildcardProjection");
    let included = !projection.is_empty() && projection.iter().all(|(_, flag)| flag.get().truthy());
    for (field, _) in document("key").iter().chain(document("weights").iter()) {
        if field == "$**" && included {
            paths.extend(projection.iter().map(|(path, _)| path.to_owned()));
            continue;
        }
        let root = field.strip_suffix("$**").map(|root| root.trim_end_matches('.'));
        if !field.starts_with("_fts") {
            paths.push(root.unwrap_or(field).to_owned());
        }
    }
    patterns::paths::of_filter(document("partialFilterExpression"), &mut paths);
    paths
}
