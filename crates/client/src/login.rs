//! Logging in by a password.

use crate::Client;
use access::scram::{Mechanism, Proof};
use value::{Code, DocBuf, Error, Result, Val};

/// Who logs in.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the user.
    pub user: String,
    /// The password.
    pub password: String,
    /// The database that the user belongs to.
    pub source: String,
}

impl std::fmt::Debug for Credentials {
    /// The password stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.user, self.source)
    }
}

impl Client {
    /// Logs in.
    ///
    /// # Errors
    /// AuthenticationFailed, or what keeps the server from answering.
    pub fn log_in(&mut self, credentials: &Credentials) -> Result<()> {
        let Credentials { user, password, source } = credentials;
        let (mut proof, first) = Proof::start(Mechanism::Sha256, user, password)?;
        let start = DocBuf::build(|out| {
            out.i32("saslStart", 1).str("mechanism", Mechanism::Sha256.name());
            out.append("payload", Val::Binary(0, first.as_bytes()));
            out.doc("options", |out| {
                out.bool("skipEmptyExchange", true);
            });
        });
        let reply = self.run(source, &start)?;
        let last = proof.answer(payload(&reply)?)?;
        let id = reply.as_doc().get("conversationId").unwrap_or(Val::Int32(1));
        let go_on = DocBuf::build(|out| {
            out.i32("saslContinue", 1).append("conversationId", id);
            out.append("payload", Val::Binary(0, last.as_bytes()));
        });
        let reply = self.run(source, &go_on)?;
        proof.verify(payload(&reply)?)?;
        match reply.as_doc().get("done") {
            Some(Val::Bool(true)) => Ok(()),
            _ => Err(Error::new(Code::PROTOCOL_ERROR, "the server did not end the login")),
        }
    }
}

fn payload(reply: &DocBuf) -> Result<&[u8]> {
    match reply.as_doc().get("payload") {
        Some(Val::Binary(_, bytes)) => Ok(bytes),
        _ => Err(Error::new(Code::PROTOCOL_ERROR, "the server's answer has no payload")),
    }
}
