//! Stored documents as clients see them.
//!
//! - Fields that are not stored are resolved: fields of trees and references with the strategy
//!   `pointer`, and copies whose update is queued.
//! - A reader with a form of its own (`Collection::form`) is shown documents in that form.
//!
//! `Scan` does this before documents are filtered, sorted or projected, so filters see the same
//! documents as clients. Code that reads a document by its key calls `resolve_document`. Collections
//! without such patterns have no `pointers` and no `form`, and skip all of this.

use super::pattern_reads::{state_key, visit_matching, visit_states, visit_states_before};
use crate::catalog::{Collection, Pointers, ReaderForm};
use crate::layout;
use crate::store_failed;
use ::patterns::{Documents, Find, resolve};
use std::sync::Arc;
use store::{Bytes, Snapshot, Space};
use value::{DocBuf, Error, RawDoc, Result, Val, keys};

/// Makes the stored documents of one collection at one snapshot what clients see.
pub struct Resolver {
    pointers: Option<(Arc<Pointers>, resolve::Resolver)>,
    form: Option<Arc<ReaderForm>>,
}

impl Resolver {
    /// Creates a resolver for a collection; `None` if its documents are stored as clients see them.
    ///
    /// # Errors
    /// When the store fails.
    #[inline]
    pub fn of(collection: &Collection, snapshot: &Snapshot) -> Result<Option<Box<Resolver>>> {
        match is_needed(collection) {
            false => Ok(None),
            true => Resolver::open(collection, snapshot),
        }
    }

    fn open(collection: &Collection, snapshot: &Snapshot) -> Result<Option<Box<Resolver>>> {
        let mut pointers = None;
        if let Some(known) = &collection.pointers {
            let mut seen = SnapshotDocuments { snapshot, pointers: known };
            let inner = resolve::Resolver::new(&known.patterns, &mut seen)?;
            pointers = inner.map(|inner| (known.clone(), inner));
        }
        let form = collection.form.clone();
        let needed = pointers.is_some() || form.is_some();
        Ok(needed.then(|| Box::new(Resolver { pointers, form })))
    }

    /// Returns the document as clients see it; `None` if it is stored like this. All calls must use
    /// the same snapshot.
    ///
    /// # Errors
    /// When the store fails, or when the document cannot be shown in the reader's form.
    pub fn show(&mut self, snapshot: &Snapshot, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let resolved = self.resolve(snapshot, doc)?;
        let Some(form) = &self.form else { return Ok(resolved) };
        let shown = form.show(resolved.as_ref().map_or(doc, DocBuf::as_doc))?;
        Ok(shown.or(resolved))
    }

    /// Returns the document with its resolved fields, in its canonical form; `None` if it is stored
    /// like this.
    ///
    /// # Errors
    /// When the store fails.
    pub fn resolve(&mut self, snapshot: &Snapshot, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
        let Some((pointers, inner)) = &mut self.pointers else { return Ok(None) };
        inner.resolve(&mut SnapshotDocuments { snapshot, pointers }, doc).map(Some)
    }
}

/// Whether clients may see documents of a collection otherwise than they are stored.
#[inline]
#[must_use]
pub fn is_needed(collection: &Collection) -> bool {
    collection.pointers.is_some() || collection.form.is_some()
}

/// Returns a stored document as clients see it.
///
/// # Errors
/// When the store fails, or when the document cannot be shown in the reader's form.
#[inline]
pub fn resolve_document(collection: &Collection, snapshot: &Snapshot, doc: Bytes) -> Result<Bytes> {
    let Some(mut resolver) = Resolver::of(collection, snapshot)? else { return Ok(doc) };
    let shown = resolver.show(snapshot, RawDoc::new(&doc))?;
    Ok(shown.map_or(doc, |shown| shown.into_bytes().into()))
}

/// Returns a stored document with its resolved fields, in its canonical form.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn canonical_document(
    collection: &Collection,
    snapshot: &Snapshot,
    doc: Bytes,
) -> Result<Bytes> {
    let Some(mut resolver) = Resolver::of(collection, snapshot)? else { return Ok(doc) };
    let resolved = resolver.resolve(snapshot, RawDoc::new(&doc))?;
    Ok(resolved.map_or(doc, |resolved| resolved.into_bytes().into()))
}

/// Read-only access to the collections that patterns need, at one snapshot.
pub(crate) struct SnapshotDocuments<'s> {
    /// The snapshot that is read.
    pub(crate) snapshot: &'s Snapshot,
    /// The collections that can be read.
    pub(crate) pointers: &'s Pointers,
}

fn read_only() -> Error {
    Error::internal("a reader writes no documents")
}

impl Documents for SnapshotDocuments<'_> {
    fn get(&mut self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>> {
        let Some(source) = self.pointers.collection(collection) else { return Ok(None) };
        let mut key = source.id.to_be_bytes().to_vec();
        keys::encode(&mut key, id, false);
        let found = layout::get_to_write_in(source.layouts.as_ref(), self.snapshot, &key)?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }

    fn find(
        &mut self,
        find: &Find<'_>,
        visit: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        let Some(source) = self.pointers.collection(find.collection) else { return Ok(()) };
        let documents = (source.id, source.layouts.as_ref());
        visit_matching(self.snapshot, documents, &source.indexes, find, visit)
    }

    fn insert(&mut self, _: u32, _: &str, _: &DocBuf) -> Result<()> {
        Err(read_only())
    }

    fn replace(&mut self, _: u32, _: &str, _: RawDoc<'_>, _: &DocBuf) -> Result<()> {
        Err(read_only())
    }

    fn delete(&mut self, _: u32, _: &str, _: RawDoc<'_>) -> Result<()> {
        Err(read_only())
    }

    fn state(&mut self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>> {
        let key = state_key(pattern, key);
        let found = self.snapshot.get(Space::Documents, &key).map_err(store_failed)?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }

    fn set_state(&mut self, _: u32, _: &[u8], _: Option<DocBuf>) -> Result<()> {
        Err(read_only())
    }

    fn states(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        after: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        visit_states(self.snapshot, pattern, prefix, after, visit)
    }

    fn states_before(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        before: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        visit_states_before(self.snapshot, pattern, prefix, before, visit)
    }
}
