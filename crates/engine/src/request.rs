//! What a client asks and how its connection goes on: the door through which the server, the
//! command line and the library enter the engine.
//!
//! Layer: base.

use value::{DocBuf, RawDoc, Result};

/// One command as it came: the body and the document sequences beside it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The command document, validated, with `$db`.
    pub body: RawDoc<'a>,
    /// Arguments that came as sequences of documents instead of arrays in the body.
    pub sequences: &'a [Sequence<'a>],
    /// Whether the client takes several replies to this one request.
    pub exhaust_allowed: bool,
}

impl<'a> Request<'a> {
    /// A request that is its body alone.
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

/// How a connection goes on after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// The reply is complete.
    Done,
    /// More replies follow without a request: send this one with `moreToCome`, call `run_more`.
    Exhaust,
    /// Send the reply, then close the connection.
    Close,
    /// Close the connection without a reply: a test asked for it.
    Abort,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The client's address.
    pub remote: String,
    /// The address that the client dialled: what `hello` tells it to come back to.
    pub local: Option<String>,
    /// Number of the connection.
    pub connection_id: i64,
    /// Whether the client must log in, and needs privileges for what it does.
    pub authenticate: bool,
    /// Whether the client is on this machine.
    pub is_local: bool,
}

/// A certificate by which a client proved itself when its connection was encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificate {
    /// Whose it is: a distinguished name in the form of RFC 2253.
    pub subject: String,
    /// Whether it names a server of the same cluster, which is no user.
    pub is_member: bool,
}

/// Runs commands in the process, for modules below those that answer commands.
pub trait RunCommand: Send + Sync {
    /// Runs one command; `$db` is added.
    ///
    /// # Errors
    /// The error that a client would get; ShutdownInProgress when the engine is gone.
    fn run_command(&self, db: &str, command: RawDoc<'_>) -> Result<DocBuf>;
}
