//! The context of a command: the engine, the client, the request and its database.

use super::write_concern::WriteConcern;
use crate::args::Args;
use crate::catalog::Catalog;
use crate::client::Client;
use crate::operation::Operation;
use crate::request::{Flow, Request};
use crate::shared::Inner;
use query::Javascript;
use std::sync::Arc;
use value::{Code, Error, Result, Val};

/// The context in which a command runs.
pub struct Context<'a> {
    /// The engine.
    pub engine: &'a Inner,
    /// The client's connection state.
    pub client: &'a mut Client,
    /// The running operation: its time limit and interruption.
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
    /// The number of the transaction that the command belongs to, or ends.
    pub transaction: Option<i64>,
    /// What the connection does after the reply.
    pub flow: Flow,
}

impl<'a> Context<'a> {
    /// The name of the collection in the command's first field.
    ///
    /// # Errors
    /// InvalidNamespace when it is not a string or not a valid name.
    pub fn collection_name(&self) -> Result<&'a str> {
        let (field, value) =
            self.args.doc.first().unwrap_or(("", value::RawVal { kind: 0x0A, bytes: &[] }));
        let Val::String(name) = value.get() else {
            let code = super::find(self.name).map_or(Code::BAD_VALUE, |row| row.mistyped_name);
            return Err(Error::new(
                code,
                format!("collection name has invalid type {}", value.kind().name()),
            )
            .context(if field.is_empty() { "empty command: " } else { "" }));
        };
        crate::namespace::check_collection(self.db, name)?;
        Ok(name)
    }

    /// Where clients may use JavaScript.
    #[must_use]
    pub fn javascript(&self) -> Javascript {
        if self.engine.data.options.javascript { Javascript::Everywhere } else { Javascript::Off }
    }

    /// The catalog that the command reads: its transaction's, or the newest.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        match self.op.view() {
            Some(view) => view.catalog,
            None => self.engine.data.catalog.load_full(),
        }
    }

    /// The write concern of this command.
    ///
    /// # Errors
    /// When `writeConcern` is malformed.
    pub fn write_concern(&self) -> Result<WriteConcern> {
        let catalog = self.engine.data.catalog.load();
        match (&catalog.concerns, self.args.find("writeConcern")) {
            (Some(concerns), None) => WriteConcern::parse_default(concerns.as_doc()),
            _ => WriteConcern::parse(self.args.doc),
        }
    }
}
