//! Resolving fields that are not stored when documents are read: fields of trees and references
//! with the strategy `pointer`, and copies whose update is queued.
//!
//! `Scan` resolves documents before they are filtered, sorted or projected, so filters see the same
//! documents as clients. Code that reads a document by its key calls `resolve_document`. Collections
//! without such patterns have no `pointers`, and skip all of this.

use super::pattern_reads::{state_key, visit_matching, visit_states, visit_states_before};
use crate::catalog::{Collection, Pointers};
use crate::layout;
use crate::store_failed;
use ::patterns::{Documents, Find, resolve};
use std::sync::Arc;
use store::{Bytes, Snapshot, Space};
use value::{DocBuf, Error, RawDoc, Result, Val, keys};

/// Resolves the documents of one collection at one snapshot.
pub struct Resolver {
    pointers: Arc<Pointers>,
    inner: resolve::Resolver,
}

impl Resolver {
    /// Creates a resolver for a collection; `None` if its documents are stored as clients see them.
    ///
    /// # Errors
    /// When the store fails.
    #[inline]
    pub fn of(collection: &Collection, snapshot: &Snapshot) -> Result<Option<Box<Resolver>>> {
        match &collection.pointers {
            None => Ok(None),
            Some(pointers) => Resolver::open(pointers, snapshot),
        }
    }

    fn open(pointers: &Arc<Pointers>, snapshot: &Snapshot) -> Result<Option<Box<Resolver>>> {
        let mut seen = SnapshotDocuments { snapshot, pointers };
        let inner = resolve::Resolver::new(&pointers.patterns, &mut seen)?;
        Ok(inner.map(|inner| Box::new(Resolver { pointers: pointers.clone(), inner })))
    }

    /// Returns the document as clients see it. All calls must use the same snapshot.
    ///
    /// # Errors
    /// When the store fails.
    pub fn resolve(&mut self, snapshot: &Snapshot, doc: RawDoc<'_>) -> Result<DocBuf> {
        self.inner.resolve(&mut SnapshotDocuments { snapshot, pointers: &self.pointers }, doc)
    }
}

/// Returns a stored document as clients see it.
///
/// # Errors
/// When the store fails.
#[inline]
pub fn resolve_document(collection: &Collection, snapshot: &Snapshot, doc: Bytes) -> Result<Bytes> {
    match Resolver::of(collection, snapshot)? {
        None => Ok(doc),
        Some(mut resolver) => {
            Ok(resolver.resolve(snapshot, RawDoc::new(&doc))?.into_bytes().into())
        }
    }
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
