//! `insert_one` and `insert_many`.

use super::convert::{to_bytes, with_id};
use super::failure::{self, Tally};
use super::link::Link;
use super::session::ClientSession;
use crate::request::Sequence;
use bson::{Bson, Document};
use serde::Serialize;
use value::{Error, Result, limits};

/// The result of inserting one document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The `_id`: the document's own, or a generated one.
    pub inserted_id: Bson,
}

/// The result of inserting several documents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The `_id`s in the order of the documents.
    pub inserted_ids: Vec<Bson>,
}

/// One document to insert; made by [`Collection::insert_one`](crate::Collection::insert_one).
#[must_use = "nothing happens until `run` is called"]
pub struct InsertOne {
    link: Link,
    command: Document,
    document: Result<(Vec<u8>, Bson)>,
}

impl InsertOne {
    pub(super) fn new<T: Serialize>(link: Link, command: Document, document: &T) -> InsertOne {
        InsertOne { link, command, document: to_bytes(document).and_then(with_id) }
    }

    /// Sets whether the document may violate the collection's validator.
    pub fn bypass_document_validation(mut self, bypass: bool) -> InsertOne {
        self.command.insert("bypassDocumentValidation", bypass);
        self
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> InsertOne {
        self.link = session.join(self.link);
        self
    }

    /// Inserts the document. It is durable when this returns, unless a write concern says
    /// otherwise.
    ///
    /// # Errors
    /// 11000 when a unique index already has the key; when the value is not a document.
    pub fn run(self) -> Result<InsertOneResult> {
        let (document, inserted_id) = self.document?;
        let sequence = Sequence { name: "documents", documents: &document };
        let reply = self.link.run_with(self.command, &[sequence])?;
        failure::check(reply.as_doc())?;
        Ok(InsertOneResult { inserted_id })
    }
}

/// Documents to insert; made by [`Collection::insert_many`](crate::Collection::insert_many).
#[must_use = "nothing happens until `run` is called"]
pub struct InsertMany {
    link: Link,
    command: Document,
    ordered: bool,
    documents: Result<Documents>,
}

/// Documents one after another, the end of each, and their `_id`s.
#[derive(Default)]
struct Documents {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    ids: Vec<Bson>,
}

impl Documents {
    fn push<T: Serialize>(&mut self, document: &T) -> Result<()> {
        let (bytes, id) = to_bytes(document).and_then(with_id).map_err(|error: Error| {
            error.context(format!("document {} of insert_many: ", self.ids.len()))
        })?;
        self.bytes.extend_from_slice(&bytes);
        self.ends.push(self.bytes.len());
        self.ids.push(id);
        Ok(())
    }

    fn end_of(&self, count: usize) -> usize {
        count.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0)
    }

    /// The end of the batch that begins with document `first`: as many documents as a driver could
    /// send in one message.
    fn batch_end(&self, first: usize) -> usize {
        let start = self.end_of(first);
        let fits = |end: &&usize| **end - start <= limits::MESSAGE_BYTES_MAX;
        let following = self.ends.get(first..).unwrap_or(&[]);
        let count = following.iter().take(limits::WRITE_BATCH_MAX).take_while(fits).count();
        // A single document that is too large is refused by the engine.
        (first + count.max(1)).min(self.ends.len())
    }
}

impl InsertMany {
    pub(super) fn new<T: Serialize>(
        link: Link,
        command: Document,
        documents: impl IntoIterator<Item = impl std::borrow::Borrow<T>>,
    ) -> InsertMany {
        let mut all = Documents::default();
        let outcome = documents.into_iter().try_for_each(|document| all.push(document.borrow()));
        InsertMany { link, command, ordered: true, documents: outcome.map(|()| all) }
    }

    /// Sets whether to stop at the first document that fails. The default is true.
    pub fn ordered(mut self, ordered: bool) -> InsertMany {
        self.ordered = ordered;
        self
    }

    /// Sets whether the documents may violate the collection's validator.
    pub fn bypass_document_validation(mut self, bypass: bool) -> InsertMany {
        self.command.insert("bypassDocumentValidation", bypass);
        self
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> InsertMany {
        self.link = session.join(self.link);
        self
    }

    /// Inserts the documents. They are durable when this returns, unless a write concern says
    /// otherwise.
    ///
    /// # Errors
    /// The error of the first document that failed, such as 11000 for a duplicate key.
    /// [`WriteFailure::of`](crate::WriteFailure::of) returns how many were inserted nevertheless
    /// and which failed.
    pub fn run(mut self) -> Result<InsertManyResult> {
        let documents = self.documents?;
        self.command.insert("ordered", self.ordered);
        let mut tally = Tally::default();
        let mut first = 0;
        loop {
            let end = documents.batch_end(first);
            let range = documents.end_of(first)..documents.end_of(end);
            let bytes = documents.bytes.get(range).unwrap_or(&[]);
            let sequence = Sequence { name: "documents", documents: bytes };
            let reply = match self.link.run_with(self.command.clone(), &[sequence]) {
                Ok(reply) => reply,
                Err(error) => return Err(tally.explain(error)),
            };
            let all_well = tally.add(reply.as_doc(), first);
            first = end;
            if first >= documents.ends.len() || (self.ordered && !all_well) {
                break;
            }
        }
        tally.finish()?;
        Ok(InsertManyResult { inserted_ids: documents.ids })
    }
}
