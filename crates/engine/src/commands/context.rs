//! What a command works with: the engine, the client, the request and where it runs.

use super::write_concern::WriteConcern;
use crate::args::Args;
use crate::catalog::Catalog;
use crate::client::Client;
use crate::operation::Operation;
use crate::request::{Flow, Request};
use crate::shared::Inner;
use std::sync::Arc;
use value::{Code, Error, Result, Val};

/// What a command works with.
pub struct Context<'a> {
    /// The engine.
    pub engine: &'a Inner,
    /// The conversation.
    pub client: &'a mut Client,
    /// The running operation: time limit and interruption.
    pub op: &'a Operation,
    /// The request.
    pub request: &'a Request<'a>,
    /// The command's name, as in its row.
    pub name: &'static str,
    /// The command's fields.
    pub args: Args<'a>,
    /// The database.
    pub db: &'a str,
    /// The session, if the client named one.
    pub session: Option<[u8; 16]>,
    /// The number of the transaction that the command is part of, or ends.
    pub transaction: Option<i64>,
    /// How the conversation goes on.
    pub flow: Flow,
}

impl<'a> Context<'a> {
    /// The name of the collection in the command's first field.
    ///
    /// # Errors
    /// InvalidNamespace when it is no string or not allowed.
    pub fn collection_name(&self) -> Result<&'a str> {
        let (field, value) =
            self.args.doc.first().unwrap_or(("", value::RawVal { kind: 0x0A, bytes: &[] }));
        let Val::String(name) = value.get() else {
            return Err(Error::new(
                Code::BAD_VALUE,
                format!("collection name has invalid type {}", value.kind().name()),
            )
            .context(if field.is_empty() { "empty command: " } else { "" }));
        };
        crate::namespace::check_collection(self.db, name)?;
        Ok(name)
    }

    /// The catalog that the command works with.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        match self.op.view() {
            Some(view) => view.catalog,
            None => self.engine.data.catalog.load_full(),
        }
    }

    /// How writes of this command are acknowledged.
    ///
    /// # Errors
    /// When `writeConcern` is not understood.
    pub fn write_concern(&self) -> Result<WriteConcern> {
        let catalog = self.engine.data.catalog.load();
        match (&catalog.concerns, self.args.doc.find("writeConcern")) {
            (Some(concerns), None) => WriteConcern::parse_default(concerns.as_doc()),
            _ => WriteConcern::parse(self.args.doc),
        }
    }
}
