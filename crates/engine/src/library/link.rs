//! The connection between the library and the engine: sends a command document and returns a reply
//! or an error.
//!
//! The checks that the server applies to received bytes (size, structure, depth) are applied here,
//! because a caller's types can serialise to anything.

use super::turn::Turn;
use crate::client::Client;
use crate::engine::{Engine, Inner, Options};
use crate::reply::error_of;
use crate::request::{Peer, Request, Sequence};
use arc_swap::ArcSwapOption;
use bson::Document;
use std::sync::Arc;
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Error, Result, limits, validate};

/// One engine and the name of one database in it. Clones share the engine.
#[derive(Clone)]
pub(super) struct Link {
    shared: Arc<Shared>,
    db: Arc<str>,
    /// The session that commands run in.
    session: Option<Arc<Turn>>,
    /// Whether the session is of another folder.
    foreign: bool,
}

/// The engine, until it is closed. Dropping the last handle closes it too.
struct Shared {
    engine: ArcSwapOption<Inner>,
}

/// How long closing waits for commands of other threads to stop.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

impl Link {
    pub(super) fn open(options: Options, db: &str) -> Result<Link> {
        crate::namespace::check_database(db)?;
        let Engine(inner) = Engine::open(options)?;
        let shared = Shared { engine: ArcSwapOption::new(Some(inner)) };
        Ok(Link { shared: Arc::new(shared), db: db.into(), session: None, foreign: false })
    }

    pub(super) fn db(&self) -> &str {
        &self.db
    }

    pub(super) fn with_db(&self, db: &str) -> Link {
        Link { db: db.into(), ..self.clone() }
    }

    /// The same link with a new session.
    pub(super) fn with_session(&self) -> Link {
        Link { session: Some(Arc::new(Turn::new())), foreign: false, ..self.clone() }
    }

    /// The same link inside the session of another one.
    pub(super) fn inside(self, session: &Link) -> Link {
        let foreign = !Arc::ptr_eq(&self.shared, &session.shared);
        Link { session: session.session.clone(), foreign, ..self }
    }

    /// The session.
    pub(super) fn session(&self) -> Option<&Turn> {
        self.session.as_deref()
    }

    /// Runs a command on the database; returns its error if it fails.
    pub(super) fn run(&self, command: Document) -> Result<DocBuf> {
        self.run_with(command, &[])
    }

    /// As `run`, with validated documents as a sequence.
    pub(super) fn run_with(
        &self,
        mut command: Document,
        sequences: &[Sequence<'_>],
    ) -> Result<DocBuf> {
        command.insert("$db", &*self.db);
        if self.foreign {
            return Err(Error::bad_value("the session belongs to another folder"));
        }
        if let Some(session) = &self.session {
            session.enter(&mut command);
        }
        let bytes = command.to_vec().map_err(super::convert::unwritable)?;
        if bytes.len() > limits::MESSAGE_BYTES_MAX {
            return Err(Error::new(
                Code::BSON_OBJECT_TOO_LARGE,
                format!(
                    "the command has {} bytes, more than the {} that one may have",
                    bytes.len(),
                    limits::MESSAGE_BYTES_MAX
                ),
            ));
        }
        let body = validate::validate(&bytes, limits::DEPTH_MAX_WIRE)?;
        let mut client = self.shared.connect()?;
        if let Some(session) = &self.session {
            session.sent(&command);
        }
        let mut reply = Vec::new();
        client.run(&Request { sequences, ..Request::new(body) }, &mut reply);
        let reply = DocBuf::from_bytes(reply);
        match error_of(reply.as_doc()) {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }

    pub(super) fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

impl Shared {
    fn connect(&self) -> Result<Client> {
        match self.engine.load_full() {
            Some(inner) => Ok(Engine(inner).connect(Peer::default())),
            None => Err(Error::new(Code::SHUTDOWN_IN_PROGRESS, "the database is closed")),
        }
    }

    fn close(&self) -> Result<()> {
        let Some(inner) = self.engine.swap(None) else { return Ok(()) };
        let engine = Engine(inner);
        let closed = engine.close();
        // The folder is released when the last running command and the engine's own thread drop the
        // engine. The caller may want to open it again immediately.
        let until = Instant::now() + CLOSE_PATIENCE;
        while !engine.0.is_released() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        closed
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }
}
