//! Results as an iterator that fetches batch by batch.

use super::convert::{from_bytes, time_limit};
use super::link::Link;
use bson::{Bson, Document, doc};
use serde::de::DeserializeOwned;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;
use value::{Error, RawDoc, Result, Val};

/// The documents of a result, one after another: an iterator of `Result<T>`.
///
/// It reads the data as of when it was opened. Documents are fetched in batches; dropping the
/// cursor closes it. After an error there are no more documents, except if the error says that a
/// single document could not be converted to `T`.
///
/// ```
/// # use motifdb::{Database, Result, bson::{Document, doc}};
/// # let db = Database::in_memory()?;
/// # let numbers = db.collection::<Document>("numbers");
/// let all: Vec<Document> = numbers.find(doc! {}).run()?.collect::<Result<_>>()?;
/// # assert!(all.is_empty());
/// # Ok::<(), motifdb::Error>(())
/// ```
#[must_use = "a cursor does nothing until it is iterated"]
pub struct Cursor<T> {
    link: Link,
    /// Zero when there are no more batches.
    id: i64,
    /// The name of the collection for `getMore`.
    collection: String,
    batch_size: Option<u32>,
    /// The array of the batch, and the positions of its documents.
    batch: Vec<u8>,
    places: std::vec::IntoIter<Range<usize>>,
    /// The place of a change stream after the batch.
    token: Option<Vec<u8>>,
    yields: PhantomData<fn() -> T>,
}

impl<T> Cursor<T> {
    /// Runs a command that answers with a cursor.
    pub(super) fn open(
        link: Link,
        command: Document,
        batch_size: Option<u32>,
    ) -> Result<Cursor<T>> {
        let reply = link.run(command)?;
        let mut cursor = Cursor {
            link,
            id: 0,
            collection: String::new(),
            batch_size,
            batch: Vec::new(),
            places: Vec::new().into_iter(),
            token: None,
            yields: PhantomData,
        };
        cursor.accept(reply.as_doc(), "firstBatch")?;
        Ok(cursor)
    }

    /// Takes the batch from a reply.
    fn accept(&mut self, reply: RawDoc<'_>, field: &str) -> Result<()> {
        let cursor = reply.get("cursor").and_then(Val::as_doc);
        let cursor = cursor.ok_or_else(|| Error::internal("the reply has no cursor"))?;
        self.id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
        if let Some((_, name)) =
            cursor.get("ns").and_then(Val::as_str).and_then(|namespace| namespace.split_once('.'))
            && name != self.collection
        {
            name.clone_into(&mut self.collection);
        }
        let batch = cursor.get(field).and_then(Val::as_array).unwrap_or(RawDoc::empty());
        self.batch.clear();
        self.batch.extend_from_slice(batch.elements_bytes());
        let mut places = Vec::new();
        let mut elements = batch.iter();
        while let Some((_, value)) = elements.next() {
            let end = self.batch.len().saturating_sub(elements.rest().len());
            places.push(end.saturating_sub(value.bytes.len())..end);
        }
        self.places = places.into_iter();
        let token = cursor.get("postBatchResumeToken").and_then(Val::as_doc);
        self.token = token.map(|token| token.bytes().to_owned());
        Ok(())
    }

    /// Fetches the next batch. The cursor of a change stream waits for events for some time.
    pub(super) fn fetch(&mut self, wait: Option<Duration>) -> Result<()> {
        let mut command = doc! {"getMore": self.id, "collection": &self.collection};
        if let Some(wait) = wait {
            command.insert("maxTimeMS", time_limit(wait));
        }
        if let Some(size) = self.batch_size.filter(|size| *size > 0) {
            command.insert("batchSize", Bson::Int64(i64::from(size)));
        }
        let reply = self.link.run(command)?;
        self.accept(reply.as_doc(), "nextBatch")
    }

    /// The next document of the batch.
    pub(super) fn next_bytes(&mut self) -> Option<&[u8]> {
        let place = self.places.next()?;
        Some(self.batch.get(place).unwrap_or(&[]))
    }

    /// Whether the batch has more documents.
    pub(super) fn has_buffered(&self) -> bool {
        !self.places.as_slice().is_empty()
    }

    /// Whether there can be more batches.
    pub(super) fn is_open(&self) -> bool {
        self.id != 0
    }

    /// The place of a change stream after the batch.
    pub(super) fn token(&self) -> Option<&[u8]> {
        self.token.as_deref()
    }

    /// Closes the cursor; the rest of the batch stays.
    pub(super) fn close(&mut self) {
        if self.id != 0 {
            // If this fails, the cursor or the database has already been closed.
            let _ = self.link.run(doc! {"killCursors": &self.collection, "cursors": [self.id]});
            self.id = 0;
        }
    }
}

impl<T: DeserializeOwned> Iterator for Cursor<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(document) = self.next_bytes() {
                return Some(from_bytes(document));
            }
            if self.id == 0 {
                return None;
            }
            if let Err(error) = self.fetch(None) {
                self.id = 0;
                return Some(Err(error));
            }
        }
    }
}

impl<T: DeserializeOwned> FusedIterator for Cursor<T> {}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("database", &self.link.db())
            .field("collection", &self.collection)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
