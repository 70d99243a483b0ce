//! `watch`: change streams on a collection, a database or the whole folder.

use super::change_event::{FullDocumentBeforeChangeType, FullDocumentType, ResumeToken};
use super::convert::from_bytes;
use super::cursor::Cursor;
use super::link::Link;
use bson::{Bson, Document, Timestamp, doc};
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use value::{Code, Error, RawDoc, Result, Val};

/// The label of errors after which a stream is resumed.
const RESUMABLE: &str = "ResumableChangeStreamError";

/// A change stream to open; made by [`Collection::watch`](crate::Collection::watch),
/// [`Database::watch`](crate::Database::watch) and [`Database::watch_all`](crate::Database::watch_all).
#[must_use = "nothing happens until `run` is called"]
pub struct Watch<E> {
    link: Link,
    /// The collection, or 1.
    target: Bson,
    stage: Document,
    pipeline: Vec<Document>,
    batch_size: Option<u32>,
    wait: Option<Duration>,
    yields: PhantomData<fn() -> E>,
}

impl<E> Watch<E> {
    pub(super) fn new(link: Link, target: Bson, stage: Document) -> Watch<E> {
        let (pipeline, yields) = (Vec::new(), PhantomData);
        Watch { link, target, stage, pipeline, batch_size: None, wait: None, yields }
    }

    /// Sets stages that filter or change the events. They must keep the `_id`.
    pub fn pipeline(mut self, pipeline: impl IntoIterator<Item = Document>) -> Watch<E> {
        self.pipeline = pipeline.into_iter().collect();
        self
    }

    /// Sets another type of the events, for example [`Document`], for a pipeline that changes them.
    pub fn with_type<F>(self) -> Watch<F> {
        let Watch { link, target, stage, pipeline, batch_size, wait, yields: _ } = self;
        Watch { link, target, stage, pipeline, batch_size, wait, yields: PhantomData }
    }

    /// Sets which document the events of updates carry. By default they say only what changed.
    pub fn full_document(self, which: FullDocumentType) -> Watch<E> {
        self.with("fullDocument", which.name())
    }

    /// Sets whether events carry the document before the change. The collection must keep images:
    /// [`CreateCollection::change_stream_pre_and_post_images`](crate::CreateCollection::change_stream_pre_and_post_images).
    pub fn full_document_before_change(self, which: FullDocumentBeforeChangeType) -> Watch<E> {
        self.with("fullDocumentBeforeChange", which.name())
    }

    /// Begins after an event, except after [`OperationType::Invalidate`](crate::OperationType).
    pub fn resume_after(self, token: ResumeToken) -> Watch<E> {
        self.with("resumeAfter", token)
    }

    /// Begins after an event, also after [`OperationType::Invalidate`](crate::OperationType).
    pub fn start_after(self, token: ResumeToken) -> Watch<E> {
        self.with("startAfter", token)
    }

    /// Begins with the changes of this time. The default is now.
    pub fn start_at_operation_time(self, time: Timestamp) -> Watch<E> {
        self.with("startAtOperationTime", time)
    }

    /// Sets whether there are also events on new collections, indexes and options.
    pub fn show_expanded_events(self, show: bool) -> Watch<E> {
        self.with("showExpandedEvents", show)
    }

    /// Sets the number of events per batch.
    pub fn batch_size(mut self, batch_size: u32) -> Watch<E> {
        self.batch_size = Some(batch_size);
        self
    }

    /// Sets how long one look for events waits for them; a second unless set. The iterator looks
    /// again and again, [`ChangeStream::next_if_any`] once.
    pub fn max_await_time(mut self, time: Duration) -> Watch<E> {
        self.wait = Some(time);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> Watch<E> {
        self.stage.insert(name, value);
        self
    }

    fn open(&self) -> Result<Cursor<Document>> {
        let mut pipeline = vec![doc! {"$changeStream": self.stage.clone()}];
        pipeline.extend(self.pipeline.iter().cloned());
        let batch = self.batch_size.map(|size| doc! {"batchSize": i64::from(size)});
        let command = doc! {
            "aggregate": self.target.clone(),
            "pipeline": pipeline,
            "cursor": batch.unwrap_or_default(),
        };
        Cursor::open(self.link.clone(), command, self.batch_size)
    }

    /// Opens the stream.
    ///
    /// # Errors
    /// When an option or a stage is invalid, or the log does not reach back to the place from which
    /// the stream is to begin (286, ChangeStreamHistoryLost).
    pub fn run(self) -> Result<ChangeStream<E>> {
        let cursor = self.open()?;
        let mut stream = ChangeStream { watch: self, cursor, token: None };
        stream.note_batch()?;
        Ok(stream)
    }
}

/// The events of a change stream: an iterator of `Result<E>` that waits for the next event.
///
/// It ends when what it watches is dropped. All changes of a transaction follow each other, after
/// its commit. Dropping the stream closes it.
///
/// ```
/// # use motifdb::{Database, OperationType, bson::{Document, doc}};
/// # let db = Database::in_memory()?;
/// let orders = db.collection::<Document>("orders");
/// let mut stream = orders.watch().run()?;
/// orders.insert_one(doc! {"_id": 1}).run()?;
/// orders.delete_one(doc! {"_id": 1}).run()?;
///
/// let first = stream.next().expect("it does not end")?;
/// assert_eq!(first.operation_type, OperationType::Insert);
/// assert_eq!(first.full_document, Some(doc! {"_id": 1}));
///
/// // Another stream goes on where this one stands.
/// let token = stream.resume_token().expect("there was an event");
/// let mut other = orders.watch().resume_after(token).run()?;
/// let second = other.next().expect("it does not end")?;
/// assert_eq!(second.operation_type, OperationType::Delete);
/// # Ok::<(), motifdb::Error>(())
/// ```
#[must_use = "a change stream does nothing until it is iterated"]
pub struct ChangeStream<E> {
    watch: Watch<E>,
    cursor: Cursor<Document>,
    token: Option<ResumeToken>,
}

impl<E> ChangeStream<E> {
    /// The place after the newest event that was returned: for
    /// [`Watch::resume_after`](crate::Watch::resume_after).
    #[must_use]
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.token.clone()
    }

    /// Whether there can be more events.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.cursor.is_open() || self.cursor.has_buffered()
    }

    /// Takes the place of an empty batch, behind which there is nothing yet.
    fn note_batch(&mut self) -> Result<()> {
        if let Some(token) = self.cursor.token().filter(|_| !self.cursor.has_buffered()) {
            self.token = Some(ResumeToken::new(from_bytes(token)?));
        }
        Ok(())
    }

    /// Looks for events once: waits for at most
    /// [`max_await_time`](crate::Watch::max_await_time).
    pub(super) fn fetch(&mut self) -> Result<()> {
        match self.cursor.fetch(self.watch.wait) {
            Ok(()) => {}
            Err(error) if is_resumable(&error) => self.reopen()?,
            Err(error) => {
                self.cursor.close();
                return Err(error);
            }
        }
        self.note_batch()
    }

    /// Opens the stream again, behind what was returned.
    fn reopen(&mut self) -> Result<()> {
        self.cursor.close();
        if let Some(token) = self.token.clone() {
            let stage = &mut self.watch.stage;
            stage.remove("resumeAfter");
            stage.remove("startAtOperationTime");
            // `startAfter` also begins behind the end of a stream.
            let how = if stage.contains_key("startAfter") { "startAfter" } else { "resumeAfter" };
            stage.insert(how, token);
        }
        self.cursor = self.watch.open()?;
        Ok(())
    }
}

/// Whether a stream can go on after an error.
fn is_resumable(error: &Error) -> bool {
    error.code() == Code::CURSOR_NOT_FOUND || error.contains_label(RESUMABLE)
}

impl<E: DeserializeOwned> ChangeStream<E> {
    /// The next event of those that were fetched.
    pub(super) fn buffered(&mut self) -> Result<Option<E>> {
        let Some(bytes) = self.cursor.next_bytes() else { return Ok(None) };
        let token = RawDoc::new(bytes).get("_id").and_then(Val::as_doc);
        let token = token.map(|token| from_bytes(token.bytes())).transpose()?;
        let event = from_bytes(bytes);
        self.token = token.map(ResumeToken::new);
        self.note_batch()?;
        event.map(Some)
    }

    /// The next event, if there is one within
    /// [`max_await_time`](crate::Watch::max_await_time).
    ///
    /// # Errors
    /// When the stream fails, or an event cannot be converted to `E`. In the second case the stream
    /// goes on.
    pub fn next_if_any(&mut self) -> Result<Option<E>> {
        if !self.cursor.has_buffered() && self.cursor.is_open() {
            self.fetch()?;
        }
        self.buffered()
    }
}

impl<E: DeserializeOwned> Iterator for ChangeStream<E> {
    type Item = Result<E>;

    fn next(&mut self) -> Option<Result<E>> {
        loop {
            match self.next_if_any().transpose() {
                Some(event) => return Some(event),
                None if self.is_alive() => {}
                None => return None,
            }
        }
    }
}

impl<E> fmt::Debug for ChangeStream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream")
            .field("cursor", &self.cursor)
            .field("resume_token", &self.token)
            .finish_non_exhaustive()
    }
}
