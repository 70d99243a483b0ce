//! `find` and `find_one`: documents that match a filter.

use super::convert::{time_limit, whole};
use super::cursor::Cursor;
use super::link::Link;
use super::session::ClientSession;
use bson::{Bson, Document};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::time::Duration;
use value::Result;

/// The index to use: by its keys or its name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Hint {
    /// The index with these keys.
    Keys(Document),
    /// The index with this name.
    Name(String),
}

impl From<Document> for Hint {
    fn from(keys: Document) -> Hint {
        Hint::Keys(keys)
    }
}

impl From<&str> for Hint {
    fn from(name: &str) -> Hint {
        Hint::Name(name.to_owned())
    }
}

impl From<String> for Hint {
    fn from(name: String) -> Hint {
        Hint::Name(name)
    }
}

impl From<Hint> for Bson {
    fn from(hint: Hint) -> Bson {
        match hint {
            Hint::Keys(keys) => Bson::Document(keys),
            Hint::Name(name) => Bson::String(name),
        }
    }
}

/// A search that returns a cursor; made by [`Collection::find`](crate::Collection::find).
#[must_use = "nothing happens until `run` is called"]
pub struct Find<T> {
    link: Link,
    command: Document,
    batch_size: Option<u32>,
    yields: PhantomData<fn() -> T>,
}

impl<T> Find<T> {
    pub(super) fn new(link: Link, mut command: Document, filter: Document) -> Find<T> {
        command.insert("filter", filter);
        Find { link, command, batch_size: None, yields: PhantomData }
    }

    /// Sets the order of the documents: `doc! {"age": -1, "_id": 1}`.
    pub fn sort(self, sort: Document) -> Find<T> {
        self.with("sort", sort)
    }

    /// Sets the fields to return. They must still form a `T`; for a smaller type see
    /// [`Collection::clone_with_type`](crate::Collection::clone_with_type).
    pub fn projection(self, projection: Document) -> Find<T> {
        self.with("projection", projection)
    }

    /// Sets the number of documents to skip.
    pub fn skip(self, skip: u64) -> Find<T> {
        self.with("skip", whole(skip))
    }

    /// Sets the most documents to return; 0 means all.
    pub fn limit(self, limit: u64) -> Find<T> {
        self.with("limit", whole(limit))
    }

    /// Sets the number of documents per batch. The default is 101 for the first batch, then 16 MB.
    pub fn batch_size(mut self, batch_size: u32) -> Find<T> {
        self.batch_size = Some(batch_size);
        self.with("batchSize", Bson::Int64(i64::from(batch_size)))
    }

    /// Sets the index to use.
    pub fn hint(self, hint: impl Into<Hint>) -> Find<T> {
        self.with("hint", hint.into())
    }

    /// Sets variables that `$expr` in the filter can use as `$$name`.
    pub fn let_vars(self, variables: Document) -> Find<T> {
        self.with("let", variables)
    }

    /// Exempts the cursor from the idle timeout of ten minutes.
    pub fn no_cursor_timeout(self, keep: bool) -> Find<T> {
        self.with("noCursorTimeout", keep)
    }

    /// Sets a time limit; a longer run fails with error 50.
    pub fn max_time(self, limit: Duration) -> Find<T> {
        self.with("maxTimeMS", time_limit(limit))
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> Find<T> {
        self.link = session.join(self.link);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> Find<T> {
        self.command.insert(name, value);
        self
    }

    /// Runs the search.
    ///
    /// # Errors
    /// When the filter or an option is invalid.
    pub fn run(self) -> Result<Cursor<T>> {
        Cursor::open(self.link, self.command, self.batch_size)
    }
}

/// A search for one document; made by [`Collection::find_one`](crate::Collection::find_one).
#[must_use = "nothing happens until `run` is called"]
pub struct FindOne<T>(Find<T>);

impl<T> FindOne<T> {
    pub(super) fn new(link: Link, command: Document, filter: Document) -> FindOne<T> {
        FindOne(Find::new(link, command, filter).limit(1).with("singleBatch", true))
    }

    /// Sets the order that decides which document is the first.
    pub fn sort(self, sort: Document) -> FindOne<T> {
        FindOne(self.0.sort(sort))
    }

    /// Sets the fields to return.
    pub fn projection(self, projection: Document) -> FindOne<T> {
        FindOne(self.0.projection(projection))
    }

    /// Sets the number of documents to skip.
    pub fn skip(self, skip: u64) -> FindOne<T> {
        FindOne(self.0.skip(skip))
    }

    /// Sets the index to use.
    pub fn hint(self, hint: impl Into<Hint>) -> FindOne<T> {
        FindOne(self.0.hint(hint))
    }

    /// Sets variables that `$expr` in the filter can use as `$$name`.
    pub fn let_vars(self, variables: Document) -> FindOne<T> {
        FindOne(self.0.let_vars(variables))
    }

    /// Sets a time limit; a longer run fails with error 50.
    pub fn max_time(self, limit: Duration) -> FindOne<T> {
        FindOne(self.0.max_time(limit))
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(self, session: &mut ClientSession) -> FindOne<T> {
        FindOne(self.0.session(session))
    }

    /// Runs the search. `None` when nothing matches.
    ///
    /// # Errors
    /// When the filter or an option is invalid, or the document cannot be converted to `T`.
    pub fn run(self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        self.0.run()?.next().transpose()
    }
}
