//! The one door through which patterns reach documents: everything inside one transaction that
//! sees the newest state and its own writes. Collections are those of one database.

use crate::edit::{self, Edited, Image};
use value::path::Path;
use value::{DocBuf, RawDoc, Result, Val};

/// What to look for: documents that hold a value at a path.
#[derive(Clone, Copy)]
pub struct Find<'f> {
    /// The collection.
    pub collection: &'f str,
    /// Where the value must stand, through arrays too.
    pub path: &'f Path,
    /// The value; null for those that hold none.
    pub value: Val<'f>,
    /// Only documents whose encoded `_id` is above; they come in that order. Empty for all.
    pub after: &'f [u8],
}

/// An `_id`.
#[derive(Clone, Copy)]
pub struct Key<'k> {
    /// The value.
    pub value: Val<'k>,
    /// The same encoded, without a collation.
    pub encoded: &'k [u8],
}

/// Documents, as one transaction sees and changes them.
pub trait Documents {
    /// The document with this `_id`.
    ///
    /// # Errors
    /// When the store fails.
    fn get(&mut self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>>;

    /// Visits the documents that are looked for, each once, until `visit` says false.
    ///
    /// # Errors
    /// What the visitor gives, or when the store fails.
    fn find(
        &mut self,
        find: &Find<'_>,
        visit: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>,
    ) -> Result<()>;

    /// Adds a document that a pattern makes.
    ///
    /// # Errors
    /// What the collection refuses.
    fn insert(&mut self, pattern: u32, collection: &str, doc: &DocBuf) -> Result<()>;

    /// Replaces a document by the image that a pattern makes of it.
    ///
    /// # Errors
    /// What the collection refuses.
    fn replace(
        &mut self,
        pattern: u32,
        collection: &str,
        before: RawDoc<'_>,
        after: &DocBuf,
    ) -> Result<()>;

    /// Lets `edit` make another image of the document with this `_id`, which then replaces it. False
    /// when there is no such document.
    ///
    /// # Errors
    /// What `edit` gives, or what the collection refuses.
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

    /// The same where what changes is the client's: the parent of a node, an element that goes. Others
    /// who write the document meanwhile are in conflict, as they are with a client.
    ///
    /// # Errors
    /// What the collection refuses.
    fn alter(
        &mut self,
        pattern: u32,
        collection: &str,
        before: RawDoc<'_>,
        after: &DocBuf,
    ) -> Result<()> {
        self.replace(pattern, collection, before, after)
    }

    /// How many documents would be found, counted up to `most`, where that can be told without reading
    /// them.
    ///
    /// # Errors
    /// When the store fails.
    fn count_unread(&mut self, _find: &Find<'_>, _most: usize) -> Result<Option<usize>> {
        Ok(None)
    }

    /// How many documents would be found, counted up to `most`.
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
    /// What the collection refuses.
    fn delete(&mut self, pattern: u32, collection: &str, before: RawDoc<'_>) -> Result<()>;

    /// What a pattern keeps for itself under a key.
    ///
    /// # Errors
    /// When the store fails.
    fn state(&mut self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>>;

    /// Keeps something for a pattern; `None` forgets it.
    ///
    /// # Errors
    /// When the store fails.
    fn set_state(&mut self, pattern: u32, key: &[u8], state: Option<DocBuf>) -> Result<()>;

    /// Lets `change` look at what a pattern keeps under a key, and keeps what it gives in its place, if
    /// it gives something.
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

    /// The time, in milliseconds since 1970.
    fn now(&self) -> i64 {
        0
    }

    /// Visits what a pattern keeps under keys that begin with `prefix` and are above `after`, in
    /// their order, until `visit` says false.
    ///
    /// # Errors
    /// What the visitor gives, or when the store fails.
    fn states(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        after: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()>;

    /// Visits what a pattern keeps under keys that begin with `prefix` and are below `before`, from the
    /// last one back, until `visit` says false.
    ///
    /// # Errors
    /// What the visitor gives, or when the store fails.
    fn states_before(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        before: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()>;
}

/// The documents that are found, one more than `most` at the most.
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
