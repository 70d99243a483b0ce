//! `delete_one` and `delete_many`.

use super::failure;
use super::find::Hint;
use super::link::Link;
use super::session::ClientSession;
use bson::{Document, doc};
use value::Result;

/// The result of a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteResult {
    /// The number of deleted documents.
    pub deleted_count: u64,
}

/// A removal of documents; made by [`Collection::delete_one`](crate::Collection::delete_one) and
/// [`delete_many`](crate::Collection::delete_many).
#[must_use = "nothing happens until `run` is called"]
pub struct Delete {
    link: Link,
    command: Document,
    statement: Document,
}

impl Delete {
    pub(super) fn new(link: Link, command: Document, filter: Document, many: bool) -> Delete {
        let limit = if many { 0 } else { 1 };
        Delete { link, command, statement: doc! {"q": filter, "limit": limit} }
    }

    /// Sets the index to use.
    pub fn hint(mut self, hint: impl Into<Hint>) -> Delete {
        self.statement.insert("hint", hint.into());
        self
    }

    /// Sets variables that `$expr` in the filter can use as `$$name`.
    pub fn let_vars(mut self, variables: Document) -> Delete {
        self.command.insert("let", variables);
        self
    }

    /// Runs it in a session, and in the session's transaction while one is open.
    pub fn session(mut self, session: &mut ClientSession) -> Delete {
        self.link = session.join(self.link);
        self
    }

    /// Removes the documents.
    ///
    /// # Errors
    /// When the filter or an option is invalid.
    pub fn run(self) -> Result<DeleteResult> {
        let mut command = self.command;
        command.insert("deletes", vec![self.statement]);
        let reply = self.link.run(command)?;
        Ok(DeleteResult { deleted_count: failure::check(reply.as_doc())? })
    }
}
