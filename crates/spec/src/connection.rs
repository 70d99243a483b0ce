//! Connections to what is tested: the engine in this process, our server over a socket, another
//! server.

use client::Client;
use motifdb::{Engine, Options, Peer, Request, Storage};
use std::path::PathBuf;
use value::validate::validate;
use value::{DocBuf, RawDoc, Result};

/// One connection to something that runs commands.
pub trait Connection {
    /// Runs a command that names its `$db` and gives the reply, also when it says `ok: 0`.
    ///
    /// # Errors
    /// A broken connection; never what the command itself answers.
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
        // What the server does for the wire: bytes are checked once, at the connection.
        if let Err(error) = validate(command.bytes(), value::limits::DEPTH_MAX_WIRE) {
            return Ok(refusal(&error));
        }
        let mut reply = Vec::new();
        self.0.run(&Request::new(command), &mut reply);
        Ok(DocBuf::from_bytes(reply))
    }
}

/// The reply to a command that does not pass the connection.
fn refusal(error: &value::Error) -> DocBuf {
    DocBuf::build(|out| {
        out.f64("ok", 0.0).str("errmsg", error.message());
        out.i32("code", error.code().0).str("codeName", &error.code().name());
    })
}

/// What tests run against.
pub enum Deployment {
    /// The engine in this process.
    InProcess(Engine),
    /// A server, ours or another's, by its connection string.
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
    /// When the port cannot be had.
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
    /// When nobody answers.
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
