//! The only interface through which patterns access documents. All access is inside one
//! transaction that sees the newest state and its own writes. Collections are those of one
//! database.

use crate::edit::{self, Edited, Image};
use value::path::Path;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// A search for documents that hold a value at a path.
#[derive(Clone, Copy)]
pub struct Find<'f> {
    /// The collection.
    pub collection: &'f str,
    /// The path of the value; it may lead through arrays.
    pub path: &'f Path,
    /// The value; null finds documents without a value.
    pub value: Val<'f>,
    /// Returns only documents whose encoded `_id` is above this, in that order. Empty for all.
    pub after: &'f [u8],
}

/// An `_id`.
#[derive(Clone, Copy)]
pub struct Key<'k> {
    /// The value.
    pub value: Val<'k>,
    /// The encoded value, without a collation.
    pub encoded: &'k [u8],
}

/// What a document that was read in part lacks of an array: its first elements.
#[derive(Clone, Debug)]
pub struct Hidden {
    /// The path of the array.
    pub path: String,
    /// The number of elements.
    pub count: usize,
    /// By how many bytes the whole array is larger.
    pub bytes: usize,
}

impl Hidden {
    /// By how many bytes the names of added elements are longer in the whole document: those are the
    /// positions in the array.
    #[must_use]
    pub fn longer_names(&self, old: RawDoc<'_>, new: RawDoc<'_>) -> usize {
        let path = Path::new(&self.path);
        let count = |doc| path.find(doc).and_then(RawVal::as_array).map_or(0, RawDoc::count);
        let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize;
        let longer = |at: usize| digits(at.saturating_add(self.count)) - digits(at);
        (count(old)..count(new)).map(longer).sum()
    }
}

/// Documents, as one transaction sees and changes them.
pub trait Documents {
    /// The document with this `_id`.
    ///
    /// # Errors
    /// When the store fails.
    fn get(&mut self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>>;

    /// What the images of the document that is being written lack of the array at a path.
    fn hidden(&self, _path: &str) -> Option<&Hidden> {
        None
    }

    /// Visits the documents found, each once, until `visit` returns false.
    ///
    /// # Errors
    /// Errors of the visitor, or when the store fails.
    fn find(
        &mut self,
        find: &Find<'_>,
        visit: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>,
    ) -> Result<()>;

    /// Inserts a document of a pattern.
    ///
    /// # Errors
    /// If the collection refuses the write.
    fn insert(&mut self, pattern: u32, collection: &str, doc: &DocBuf) -> Result<()>;

    /// Replaces a document by a pattern's image of it.
    ///
    /// # Errors
    /// If the collection refuses the write.
    fn replace(
        &mut self,
        pattern: u32,
        collection: &str,
        before: RawDoc<'_>,
        after: &DocBuf,
    ) -> Result<()>;

    /// Replaces the document with this `_id` by the image that `edit` returns. Returns false if
    /// there is no such document.
    ///
    /// # Errors
    /// Errors of `edit`, or if the collection refuses the write.
    fn edit(
        &mut self,
        pattern: u32,
        collection: &str,
        id: Key<'_>,
        edit: &mut dyn FnMut(RawDoc<'_>) -> Result<Option<Edited>>,
    ) -> Result<bool> {
        let Some(doc) = self.get(collection, id.value)? else { return Ok(false) };
        if let Some(edited) = edit(doc.as_doc())? {
            self.replace(pattern, collection, doc.as_doc(), &edited.image)?;
        }
        Ok(true)
    }

    /// Like `replace`, for a change of client data: the parent of a node, a removed element.
    /// Concurrent writes of the document conflict, as with a client's write.
    ///
    /// # Errors
    /// If the collection refuses the write.
    fn alter(
        &mut self,
        pattern: u32,
        collection: &str,
        before: RawDoc<'_>,
        after: &DocBuf,
    ) -> Result<()> {
        self.replace(pattern, collection, before, after)
    }

    /// The number of documents found, up to `most`, if it can be counted without reading them.
    ///
    /// # Errors
    /// When the store fails.
    fn count_unread(&mut self, _find: &Find<'_>, _most: usize) -> Result<Option<usize>> {
        Ok(None)
    }

    /// The number of documents found, up to `most`.
    ///
    /// # Errors
    /// When the store fails.
    fn count(&mut self, find: &Find<'_>, most: usize) -> Result<usize> {
        if let Some(count) = self.count_unread(find, most)? {
            return Ok(count);
        }
        let mut count = 0;
        self.find(find, &mut |_| {
            count += 1;
            Ok(count < most)
        })?;
        Ok(count)
    }

    /// Deletes a document for a pattern.
    ///
    /// # Errors
    /// If the collection refuses the write.
    fn delete(&mut self, pattern: u32, collection: &str, before: RawDoc<'_>) -> Result<()>;

    /// Returns the pattern's record under a key.
    ///
    /// # Errors
    /// When the store fails.
    fn state(&mut self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>>;

    /// Stores a record of a pattern; `None` removes it.
    ///
    /// # Errors
    /// When the store fails.
    fn set_state(&mut self, pattern: u32, key: &[u8], state: Option<DocBuf>) -> Result<()>;

    /// Calls `change` with the pattern's record under a key, and stores what it returns, if
    /// anything.
    ///
    /// # Errors
    /// When the store fails.
    fn change_state(
        &mut self,
        pattern: u32,
        key: &[u8],
        change: &mut dyn FnMut(Option<RawDoc<'_>>) -> Option<Image>,
    ) -> Result<()> {
        let known = self.state(pattern, key)?;
        match change(known.as_ref().map(DocBuf::as_doc)) {
            Some(state) => {
                self.set_state(pattern, key, Some(DocBuf::from_bytes(edit::vector(state))))
            }
            None => Ok(()),
        }
    }

    /// The current time, in milliseconds since 1970.
    fn now(&self) -> i64 {
        0
    }

    /// Visits a pattern's records whose keys begin with `prefix` and are above `after`, in order,
    /// until `visit` returns false.
    ///
    /// # Errors
    /// Errors of the visitor, or when the store fails.
    fn states(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        after: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()>;

    /// Visits a pattern's records whose keys begin with `prefix` and are below `before`, in
    /// reverse order, until `visit` returns false.
    ///
    /// # Errors
    /// Errors of the visitor, or when the store fails.
    fn states_before(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        before: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()>;
}

/// Returns the documents found, at most one more than `most`.
///
/// # Errors
/// When the store fails.
pub(crate) fn read(
    documents: &mut dyn Documents,
    find: &Find<'_>,
    most: usize,
) -> Result<Vec<DocBuf>> {
    let mut found = Vec::new();
    documents.find(find, &mut |doc| {
        found.push(DocBuf::from(doc));
        Ok(found.len() <= most)
    })?;
    Ok(found)
}
