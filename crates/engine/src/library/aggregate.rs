//! `aggregate`, and the verbs that compute over many documents: `count_documents`, `distinct`.

use super::convert::{count_of, time_limit, to_bson, whole};
use super::cursor::Cursor;
use super::find::Hint;
use super::link::Link;
use super::session::ClientSession;
use bson::{Bson, Document, doc};
use std::marker::PhantomData;
use std::time::Duration;
use value::{RawDoc, Result, Val};

/// A pipeline; made by [`Collection::aggregate`](crate::Collection::aggregate) and
/// [`Database::aggregate`](crate::Database::aggregate).
#[must_use = "nothing happens until `run` is called"]
pub struct Aggregate<T = Document> {
    link: Link,
    command: Document,
    batch_size: Option<u32>,
    yields: PhantomData<fn() -> T>,
}

impl<T> Aggregate<T> {
    pub(super) fn new(
        link: Link,
        mut command: Document,
        pipeline: impl IntoIterator<Item = Document>,
    ) -> Aggregate<T> {
        command.insert("pipeline", pipeline.into_iter().collect::<Vec<Document>>());
        command.insert("cursor", doc! {});
        Aggregate { link, command, batch_size: None, yields: PhantomData }
    }

    /// Sets the type of the resulting documents, instead of `Document`.
    pub fn with_type<U>(self) -> Aggregate<U> {
        let Aggregate { link, command, batch_size, yields: _ } = self;
        Aggregate { link, command, batch_size, yields: PhantomData }
    }

    /// Sets the number of documents per batch.
    pub fn batch_size(mut self, batch_size: u32) -> Aggregate<T> {
        self.batch_size = Some(batch_size);
        self.with("cursor", doc! {"batchSize": i64::from(batch_size)})
    }

    /// Sets the index for the beginning of the pipeline.
    pub fn hint(self, hint: impl Into<Hint>) -> Aggregate<T> {
        self.with("hint", hint.into())
    }

    /// Sets variables that expressions can use as `$$name`.
    pub fn let_vars(self, variables: Document) -> Aggregate<T> {
        self.with("let", variables)
    }

    /// Sets whether stages may spill to disk.
    pub fn allow_disk_use(self, allow: bool) -> Aggregate<T> {
        self.with("allowDiskUse", allow)
    }

    /// Sets a time limit; a longer run fails with error 50.
    pub fn max_time(self, limit: Duration) -> Aggregate<T> {
        self.with("maxTimeMS", time_limit(limit))
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> Aggregate<T> {
        self.link = session.join(self.link);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> Aggregate<T> {
        self.command.insert(name, value);
        self
    }

    /// Runs the pipeline.
    ///
    /// # Errors
    /// When a stage is invalid or fails.
    pub fn run(self) -> Result<Cursor<T>> {
        Cursor::open(self.link, self.command, self.batch_size)
    }
}

/// A count; made by [`Collection::count_documents`](crate::Collection::count_documents).
#[must_use = "nothing happens until `run` is called"]
pub struct CountDocuments {
    link: Link,
    command: Document,
    filter: Document,
    skip: Option<u64>,
    limit: Option<u64>,
}

impl CountDocuments {
    pub(super) fn new(link: Link, command: Document, filter: Document) -> CountDocuments {
        CountDocuments { link, command, filter, skip: None, limit: None }
    }

    /// Sets the number of documents to skip.
    pub fn skip(mut self, skip: u64) -> CountDocuments {
        self.skip = Some(skip);
        self
    }

    /// Sets the count at which to stop; at least 1.
    pub fn limit(mut self, limit: u64) -> CountDocuments {
        self.limit = Some(limit);
        self
    }

    /// Sets the index to use.
    pub fn hint(mut self, hint: impl Into<Hint>) -> CountDocuments {
        self.command.insert("hint", hint.into());
        self
    }

    /// Sets a time limit; a longer run fails with error 50.
    pub fn max_time(mut self, limit: Duration) -> CountDocuments {
        self.command.insert("maxTimeMS", time_limit(limit));
        self
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> CountDocuments {
        self.link = session.join(self.link);
        self
    }

    /// Runs the count.
    ///
    /// # Errors
    /// When the filter or an option is invalid.
    pub fn run(self) -> Result<u64> {
        let mut pipeline = vec![doc! {"$match": self.filter}];
        pipeline.extend(self.skip.map(|skip| doc! {"$skip": whole(skip)}));
        pipeline.extend(self.limit.map(|limit| doc! {"$limit": whole(limit)}));
        pipeline.push(doc! {"$group": {"_id": 1, "n": {"$sum": 1}}});
        let mut command = self.command;
        command.insert("pipeline", pipeline);
        command.insert("cursor", doc! {});
        let reply = self.link.run(command)?;
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc);
        let batch = cursor.and_then(|cursor| cursor.get("firstBatch")).and_then(Val::as_array);
        // Without a group, nothing matches.
        let group = batch.and_then(RawDoc::first).and_then(|(_, group)| group.as_doc());
        Ok(group.map_or(0, |group| count_of(group, "n")))
    }
}

/// The distinct values of a field; made by [`Collection::distinct`](crate::Collection::distinct).
#[must_use = "nothing happens until `run` is called"]
pub struct Distinct {
    link: Link,
    command: Document,
}

impl Distinct {
    pub(super) fn new(link: Link, mut command: Document, key: &str, filter: Document) -> Distinct {
        command.insert("key", key);
        command.insert("query", filter);
        Distinct { link, command }
    }

    /// Sets the index to use.
    pub fn hint(mut self, hint: impl Into<Hint>) -> Distinct {
        self.command.insert("hint", hint.into());
        self
    }

    /// Sets a time limit; a longer run fails with error 50.
    pub fn max_time(mut self, limit: Duration) -> Distinct {
        self.command.insert("maxTimeMS", time_limit(limit));
        self
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> Distinct {
        self.link = session.join(self.link);
        self
    }

    /// Returns the values. Each element of an array counts as a value.
    ///
    /// # Errors
    /// When the filter or an option is invalid, or the values exceed 16 MB.
    pub fn run(self) -> Result<Vec<Bson>> {
        let reply = self.link.run(self.command)?;
        let values = reply.as_doc().get("values").and_then(Val::as_array);
        values.unwrap_or(RawDoc::empty()).iter().map(|(_, value)| to_bson(value)).collect()
    }
}
