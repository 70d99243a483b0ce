//! Connections to the tested system: the engine in this process, our server over a socket, or another
//! server.

use client::Client;
use motifdb::{Engine, Options, Peer, Request, Storage};
use std::path::PathBuf;
use value::validate::validate;
use value::{DocBuf, RawDoc, Result};

/// A connection that runs commands.
pub trait Connection {
    /// Runs a command, which has the field `$db`, and returns the reply, also with `ok: 0`.
    ///
    /// # Errors
    /// If the connection breaks; never for an error reply.
    fn run(&mut self, command: RawDoc<'_>) -> Result<DocBuf>;
}

impl Connection for Client {
    fn run(&mut self, command: RawDoc<'_>) -> Result<DocBuf> {
        let reply = self.exchange("test", command, "", &[])?;
        Ok(DocBuf::from_bytes(reply.to_vec()))
    }
}

/// A connection inside the process.
struct InProcess(motifdb::Client);

impl Connection for InProcess {
    fn run(&mut self, command: RawDoc<'_>) -> Result<DocBuf> {
        // As in the server: a document is validated once, at the connection.
        if let Err(error) = validate(command.bytes(), value::limits::DEPTH_MAX_WIRE) {
            return Ok(refusal(&error));
        }
        let mut reply = Vec::new();
        self.0.run(&Request::new(command), &mut reply);
        Ok(DocBuf::from_bytes(reply))
    }
}

/// The reply to an invalid document.
fn refusal(error: &value::Error) -> DocBuf {
    DocBuf::build(|out| {
        out.f64("ok", 0.0).str("errmsg", error.message());
        out.i32("code", error.code().0).str("codeName", &error.code().name());
    })
}

/// The tested system.
pub enum Deployment {
    /// The engine in this process.
    InProcess(Engine),
    /// A server, MotifDB or another, by its connection string.
    Remote(String),
}

impl Deployment {
    /// The engine in memory.
    ///
    /// # Errors
    /// When it does not open.
    pub fn memory() -> Result<Deployment> {
        Ok(Deployment::InProcess(Engine::open(options(Storage::Memory))?))
    }

    /// The engine on a folder of the disk.
    ///
    /// # Errors
    /// When it does not open.
    pub fn disk(folder: PathBuf) -> Result<Deployment> {
        Ok(Deployment::InProcess(Engine::open(options(Storage::Disk(folder)))?))
    }

    /// Our server on a free port, with an engine in memory. It runs until the process ends.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn wire() -> Result<Deployment> {
        let engine = Engine::open(options(Storage::Memory))?;
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let options = server::ServerOptions { listen: vec![address], ..Default::default() };
        let failed = |error| value::Error::internal(format!("cannot listen: {error}"));
        let server = server::Server::bind(engine, options).map_err(failed)?;
        let uri = format!("mongodb://{}", server.local_addr().map_err(failed)?);
        std::thread::spawn(move || server.run());
        Ok(Deployment::Remote(uri))
    }

    /// A new connection.
    ///
    /// # Errors
    /// When there is no server.
    pub fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(match self {
            Deployment::InProcess(engine) => Box::new(InProcess(engine.connect(Peer::default()))),
            Deployment::Remote(uri) => Box::new(Client::connect(uri)?),
        })
    }
}

fn options(storage: Storage) -> Options {
    Options { storage, test_commands: true, javascript: true, ..Options::default() }
}
