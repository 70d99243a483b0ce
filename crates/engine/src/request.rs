//! Requests of clients and what happens to their connection: the interface through which the
//! server, the command line and the library use the engine.
//!
//! Layer: base.

use crate::args::Args;
use std::time::Duration;
use value::{DocBuf, RawDoc, Result};

/// One command as received: the body and its document sequences.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The command document, validated, with `$db`.
    pub body: RawDoc<'a>,
    /// Arguments sent as sequences of documents instead of arrays in the body.
    pub sequences: &'a [Sequence<'a>],
    /// Whether the client accepts several replies to this request.
    pub exhaust_allowed: bool,
    /// Whether the reply may come later.
    pub waiting: Waiting,
}

impl<'a> Request<'a> {
    /// A request without document sequences.
    #[must_use]
    pub fn new(body: RawDoc<'a>) -> Request<'a> {
        Request { body, sequences: &[], exhaust_allowed: false, waiting: Waiting::Impossible }
    }
}

/// Whether the reply to a request may come later ([`Flow::Later`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// No: a request that wants to wait for a change is answered at once.
    Impossible,
    /// Yes.
    Possible,
    /// The time has passed: this is the reply.
    Over,
}

/// Documents that belong to one argument (`documents`, `updates`, `deletes`).
#[derive(Clone, Copy)]
pub struct Sequence<'a> {
    /// The argument's name.
    pub name: &'a str,
    /// Validated documents, one after another.
    pub documents: &'a [u8],
}

impl<'a> Sequence<'a> {
    /// The documents.
    pub fn iter(&self) -> impl Iterator<Item = RawDoc<'a>> + use<'a> {
        let mut rest = self.documents;
        std::iter::from_fn(move || {
            let length = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
            let (doc, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(RawDoc::new(doc))
        })
    }
}

/// What the server does with a connection after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// The reply is complete.
    Done,
    /// More replies follow without a request: send this one with `moreToCome`, call `run_more`.
    Exhaust,
    /// Call `run_more` after this time. A reply to a request whose time has passed is sent before,
    /// with `moreToCome`; one to a new request is dropped.
    Later(Duration),
    /// Send the reply, then close the connection.
    Close,
    /// Close the connection without a reply; requested by a fail point.
    Abort,
}

/// The client end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The client's address.
    pub remote: String,
    /// The server address that the client connected to, which `hello` returns.
    pub local: Option<String>,
    /// Number of the connection.
    pub connection_id: i64,
    /// Whether the client must log in and needs privileges.
    pub authenticate: bool,
    /// Whether the client is on this machine.
    pub is_local: bool,
}

/// The certificate that a client presented in the TLS handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificate {
    /// Its subject: a distinguished name in the form of RFC 2253.
    pub subject: String,
    /// Whether it belongs to a server of the same cluster and not to a user.
    pub is_member: bool,
}

/// Runs commands in the process, for modules below `commands`.
pub trait RunCommand: Send + Sync {
    /// Runs one command; adds `$db`.
    ///
    /// # Errors
    /// The error that a client would get; ShutdownInProgress when the engine has closed.
    fn run_command(&self, db: &str, command: RawDoc<'_>) -> Result<DocBuf>;
}

/// The fields of a request that choose a version of the API. All commands of a cursor or a
/// transaction have the same ones.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ApiParameters {
    /// Whether there is an `apiVersion`; the only one is `"1"`.
    pub version: bool,
    /// `apiStrict`.
    pub strict: Option<bool>,
    /// `apiDeprecationErrors`.
    pub deprecation_errors: Option<bool>,
}

impl ApiParameters {
    /// The parameters of a command.
    #[must_use]
    pub fn of(fields: &Args<'_>) -> ApiParameters {
        let flag = |name| fields.find(name).map(|value| value.get().truthy());
        ApiParameters {
            version: fields.has("apiVersion"),
            strict: flag("apiStrict"),
            deprecation_errors: flag("apiDeprecationErrors"),
        }
    }
}
