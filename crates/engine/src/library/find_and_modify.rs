//! `find_one_and_update`, `find_one_and_replace` and `find_one_and_delete`: change one document and
//! return it, atomically.

use super::convert::{from_bytes, time_limit};
use super::failure;
use super::find::Hint;
use super::link::Link;
use super::session::ClientSession;
use bson::{Bson, Document};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::time::Duration;
use value::{DocBuf, Result, Val};

/// A change of one document that returns it; made by
/// [`Collection::find_one_and_update`](crate::Collection::find_one_and_update) and
/// [`find_one_and_replace`](crate::Collection::find_one_and_replace).
#[must_use = "nothing happens until `run` is called"]
pub struct FindOneAndUpdate<T> {
    link: Link,
    command: Document,
    change: Result<Bson>,
    yields: PhantomData<fn() -> T>,
}

impl<T> FindOneAndUpdate<T> {
    pub(super) fn new(
        link: Link,
        mut command: Document,
        filter: Document,
        change: Result<Bson>,
    ) -> FindOneAndUpdate<T> {
        command.insert("query", filter);
        FindOneAndUpdate { link, command, change, yields: PhantomData }
    }

    /// Sets whether to return the document after the change. The default is before it.
    pub fn return_new(self, new: bool) -> FindOneAndUpdate<T> {
        self.with("new", new)
    }

    /// Sets whether to insert a document when none matches.
    pub fn upsert(self, upsert: bool) -> FindOneAndUpdate<T> {
        self.with("upsert", upsert)
    }

    /// Sets the order that decides which matching document is changed.
    pub fn sort(self, sort: Document) -> FindOneAndUpdate<T> {
        self.with("sort", sort)
    }

    /// Sets the fields to return.
    pub fn projection(self, projection: Document) -> FindOneAndUpdate<T> {
        self.with("fields", projection)
    }

    /// Sets the elements that `$[name]` refers to, one filter per name.
    pub fn array_filters(self, filters: impl IntoIterator<Item = Document>) -> FindOneAndUpdate<T> {
        self.with("arrayFilters", filters.into_iter().collect::<Vec<Document>>())
    }

    /// Sets the index to use.
    pub fn hint(self, hint: impl Into<Hint>) -> FindOneAndUpdate<T> {
        self.with("hint", hint.into())
    }

    /// Sets variables that expressions can use as `$$name`.
    pub fn let_vars(self, variables: Document) -> FindOneAndUpdate<T> {
        self.with("let", variables)
    }

    /// Sets whether the new document may violate the collection's validator.
    pub fn bypass_document_validation(self, bypass: bool) -> FindOneAndUpdate<T> {
        self.with("bypassDocumentValidation", bypass)
    }

    /// Sets a time limit; a longer run fails with error 50.
    pub fn max_time(self, limit: Duration) -> FindOneAndUpdate<T> {
        self.with("maxTimeMS", time_limit(limit))
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> FindOneAndUpdate<T> {
        self.link = session.join(self.link);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> FindOneAndUpdate<T> {
        self.command.insert(name, value);
        self
    }

    /// Changes the document. Returns `None` if nothing matches, or if an upsert inserted a document
    /// and the old one was requested.
    ///
    /// # Errors
    /// As for `update_one`; also when the returned document cannot be converted to `T`, although it
    /// was changed.
    pub fn run(self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        let mut command = self.command;
        command.insert("update", self.change?);
        document_in(&self.link.run(command)?)
    }
}

/// A removal of one document that returns it; made by
/// [`Collection::find_one_and_delete`](crate::Collection::find_one_and_delete).
#[must_use = "nothing happens until `run` is called"]
pub struct FindOneAndDelete<T> {
    link: Link,
    command: Document,
    yields: PhantomData<fn() -> T>,
}

impl<T> FindOneAndDelete<T> {
    pub(super) fn new(link: Link, mut command: Document, filter: Document) -> FindOneAndDelete<T> {
        command.insert("query", filter);
        command.insert("remove", true);
        FindOneAndDelete { link, command, yields: PhantomData }
    }

    /// Sets the order that decides which matching document is removed.
    pub fn sort(self, sort: Document) -> FindOneAndDelete<T> {
        self.with("sort", sort)
    }

    /// Sets the fields to return.
    pub fn projection(self, projection: Document) -> FindOneAndDelete<T> {
        self.with("fields", projection)
    }

    /// Sets the index to use.
    pub fn hint(self, hint: impl Into<Hint>) -> FindOneAndDelete<T> {
        self.with("hint", hint.into())
    }

    /// Sets variables that `$expr` in the filter can use as `$$name`.
    pub fn let_vars(self, variables: Document) -> FindOneAndDelete<T> {
        self.with("let", variables)
    }

    /// Sets a time limit; a longer run fails with error 50.
    pub fn max_time(self, limit: Duration) -> FindOneAndDelete<T> {
        self.with("maxTimeMS", time_limit(limit))
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> FindOneAndDelete<T> {
        self.link = session.join(self.link);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> FindOneAndDelete<T> {
        self.command.insert(name, value);
        self
    }

    /// Removes the document. `None` when nothing matches.
    ///
    /// # Errors
    /// When the filter or an option is invalid; also when the document cannot be converted to `T`,
    /// although it was removed.
    pub fn run(self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        document_in(&self.link.run(self.command)?)
    }
}

fn document_in<T: DeserializeOwned>(reply: &DocBuf) -> Result<Option<T>> {
    failure::check(reply.as_doc())?;
    let value = reply.as_doc().get("value").and_then(Val::as_doc);
    value.map(|doc| from_bytes(doc.bytes())).transpose()
}
