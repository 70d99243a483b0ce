//! Requests of clients and what happens to their connection: the interface through which the
//! server, the command line and the library use the engine.
//!
//! Layer: base.

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
}

impl<'a> Request<'a> {
    /// A request without document sequences.
    #[must_use]
    pub fn new(body: RawDoc<'a>) -> Request<'a> {
        Request { body, sequences: &[], exhaust_allowed: false }
    }
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
