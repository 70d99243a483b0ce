//! `update_one`, `update_many` and `replace_one`.

use super::convert::{count_of, to_bson, to_document};
use super::failure;
use super::find::Hint;
use super::link::Link;
use super::session::ClientSession;
use bson::{Bson, Document, doc};
use serde::Serialize;
use value::{Error, RawDoc, Result, Val};

/// How to change a document: operators (`{"$set": ..}`) or a pipeline.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum UpdateModifications {
    /// Update operators.
    Document(Document),
    /// Stages that compute the new document from the old one.
    Pipeline(Vec<Document>),
}

impl From<Document> for UpdateModifications {
    fn from(operators: Document) -> UpdateModifications {
        UpdateModifications::Document(operators)
    }
}

impl From<Vec<Document>> for UpdateModifications {
    fn from(pipeline: Vec<Document>) -> UpdateModifications {
        UpdateModifications::Pipeline(pipeline)
    }
}

impl UpdateModifications {
    /// Checks operators here, because the command cannot distinguish a forgotten `$set` from a
    /// replacement.
    pub(super) fn into_bson(self) -> Result<Bson> {
        match self {
            UpdateModifications::Pipeline(stages) => Ok(stages.into()),
            UpdateModifications::Document(doc) if has_operators(&doc) => Ok(doc.into()),
            UpdateModifications::Document(_) => Err(Error::bad_value(
                "an update consists of operators such as $set; to replace whole documents use \
                 replace_one or find_one_and_replace",
            )),
        }
    }
}

/// A whole document that replaces another.
pub(super) fn replacement<T: Serialize>(value: &T) -> Result<Bson> {
    let doc = to_document(value)?;
    if has_operators(&doc) {
        return Err(Error::bad_value(
            "a replacement begins with a field, not with an operator; to change parts of a \
             document use update_one or find_one_and_update",
        ));
    }
    Ok(doc.into())
}

fn has_operators(doc: &Document) -> bool {
    doc.keys().next().is_some_and(|name| name.starts_with('$'))
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpdateResult {
    /// Documents that matched the filter.
    pub matched_count: u64,
    /// Documents that were changed.
    pub modified_count: u64,
    /// The `_id` of the document that an upsert inserted.
    pub upserted_id: Option<Bson>,
}

/// A change of documents; made by [`Collection::update_one`](crate::Collection::update_one),
/// [`update_many`](crate::Collection::update_many) and
/// [`replace_one`](crate::Collection::replace_one).
#[must_use = "nothing happens until `run` is called"]
pub struct Update {
    link: Link,
    command: Document,
    statement: Document,
    change: Result<Bson>,
}

impl Update {
    pub(super) fn new(
        link: Link,
        command: Document,
        filter: Document,
        change: Result<Bson>,
        many: bool,
    ) -> Update {
        Update { link, command, statement: doc! {"q": filter, "multi": many}, change }
    }

    /// Sets whether to insert a document when none matches.
    pub fn upsert(self, upsert: bool) -> Update {
        self.with("upsert", upsert)
    }

    /// Sets the elements that `$[name]` refers to, one filter per name.
    pub fn array_filters(self, filters: impl IntoIterator<Item = Document>) -> Update {
        self.with("arrayFilters", filters.into_iter().collect::<Vec<Document>>())
    }

    /// Sets the order that decides which matching document is changed; not for `update_many`.
    pub fn sort(self, sort: Document) -> Update {
        self.with("sort", sort)
    }

    /// Sets the index to use.
    pub fn hint(self, hint: impl Into<Hint>) -> Update {
        self.with("hint", hint.into())
    }

    /// Sets variables that expressions can use as `$$name`.
    pub fn let_vars(mut self, variables: Document) -> Update {
        self.command.insert("let", variables);
        self
    }

    /// Sets whether the new document may violate the collection's validator.
    pub fn bypass_document_validation(mut self, bypass: bool) -> Update {
        self.command.insert("bypassDocumentValidation", bypass);
        self
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> Update {
        self.link = session.join(self.link);
        self
    }

    fn with(mut self, name: &str, value: impl Into<Bson>) -> Update {
        self.statement.insert(name, value);
        self
    }

    /// Changes the documents.
    ///
    /// # Errors
    /// When the filter or the change is invalid, cannot be applied, or causes a duplicate key
    /// (11000). [`WriteFailure::of`](crate::WriteFailure::of) returns details.
    pub fn run(self) -> Result<UpdateResult> {
        let (mut command, mut statement) = (self.command, self.statement);
        statement.insert("u", self.change?);
        command.insert("updates", vec![statement]);
        let reply = self.link.run(command)?;
        let reply = reply.as_doc();
        let touched = failure::check(reply)?;
        let upserted = reply.get("upserted").and_then(Val::as_array).and_then(RawDoc::first);
        let upserted = upserted.and_then(|(_, entry)| entry.as_doc()?.find("_id"));
        Ok(UpdateResult {
            matched_count: touched - u64::from(upserted.is_some()).min(touched),
            modified_count: count_of(reply, "nModified"),
            upserted_id: upserted.map(to_bson).transpose()?,
        })
    }
}
