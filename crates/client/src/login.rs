//! Logging in, by a password or by the certificate that the connection was encrypted with.

use crate::Client;
use access::scram::{Mechanism, Proof};
use value::{Code, DocBuf, Error, Result, Val};

/// Who logs in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// By a password.
    Password {
        /// The name of the user.
        user: String,
        /// The password.
        password: String,
        /// The database that the user belongs to.
        source: String,
    },
    /// By the certificate that the server was shown.
    Certificate {
        /// The subject of the certificate, if the server should compare it.
        user: Option<String>,
    },
}

/// The authentication mechanisms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    Password,
    Certificate,
}

impl Login {
    /// The mechanism of this name in a URI.
    pub(crate) fn named(name: &str) -> Result<Login> {
        match name {
            "SCRAM-SHA-256" => Ok(Login::Password),
            "MONGODB-X509" => Ok(Login::Certificate),
            _ => Err(Error::failed_to_parse(
                "connection string: the mechanisms here are SCRAM-SHA-256 and MONGODB-X509",
            )),
        }
    }
}

impl std::fmt::Debug for Credentials {
    /// The password stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::Password { user, source, .. } => write!(f, "{user}@{source}"),
            Credentials::Certificate { user } => {
                write!(f, "{}@$external", user.as_deref().unwrap_or("certificate"))
            }
        }
    }
}

impl Client {
    /// Logs in.
    ///
    /// # Errors
    /// AuthenticationFailed, or what keeps the server from answering.
    pub fn log_in(&mut self, credentials: &Credentials) -> Result<()> {
        match credentials {
            Credentials::Password { user, password, source } => {
                self.by_password(user, password, source)
            }
            Credentials::Certificate { user } => {
                let command = DocBuf::build(|out| {
                    out.i32("authenticate", 1).str("mechanism", "MONGODB-X509");
                    if let Some(user) = user {
                        out.str("user", user);
                    }
                });
                self.run("$external", &command).map(|_| ())
            }
        }
    }

    fn by_password(&mut self, user: &str, password: &str, source: &str) -> Result<()> {
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
