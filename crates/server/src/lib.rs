//! The server: MongoDB's wire protocol on TCP sockets and a Unix socket (`unix`), in front of an engine.
//!
//! `acceptor` accepts a connection, `parking` holds it while it is idle, `listener` polls idle
//! connections, `pool` has the threads that serve active ones, by `lane`. `connection` reads messages
//! (`buffer`) until its `ending`, `conversation` runs them and replies, `wire` has the formats of
//! messages. `channel` is the plain or encrypted (`secure`) stream to a client; `tls` and `key` read
//! certificates and keys from files. Commands are in the engine, or in a `backend` in its place.

mod acceptor;
mod allowance;
mod backend;
mod buffer;
mod channel;
mod connection;
mod conversation;
mod ending;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod key;
mod lane;
mod link;
mod listener;
mod parking;
mod pool;
mod secure;
mod tls;
mod unix;
mod wire;

pub use backend::{Backend, Call, Interrupter, LOGIN_FIELDS, Route};
pub use key::Password;
pub use tls::{Tls, TlsError, TlsMode, TlsOptions};
pub use unix::UnixSocketError;

use acceptor::Acceptor;
use connection::Connection;
use lane::Lane;
use link::Links;
use listener::Listener;
use mio::Waker;
use motifdb::{Engine, ServerCertificate};
use parking::ParkedConnections;
use pool::Pool;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The unit of message size for which `message_timeout` is granted.
const TIMEOUT_UNIT_BYTES: usize = 1024 * 1024;

/// How a server listens and what it allows. `..ServerOptions::default()` fills the rest.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Addresses to listen on; port 0 selects a free port.
    pub listen: Vec<SocketAddr>,
    /// A Unix socket to listen on, too.
    pub unix_socket: Option<PathBuf>,
    /// The most open connections. Beyond that, one that has sent nothing is closed for a new one;
    /// if there is none, the new one is closed.
    pub connections_max: usize,
    /// The most threads that serve connections. High, because a waiting command occupies its
    /// thread.
    pub threads_max: usize,
    /// How long an active connection keeps its thread and buffers when it becomes idle.
    pub linger: Duration,
    /// The time limit for receiving a message or sending a reply, for each started MiB, and for the
    /// first message of a connection.
    pub message_timeout: Duration,
    /// How long a large message waits for memory that others hold.
    pub memory_timeout: Duration,
    /// The most bytes of a message of a client that must log in and has not.
    pub stranger_bytes_max: usize,
    /// The most messages per second of a client that must log in and has not.
    pub stranger_messages_per_second: u32,
    /// How long a stop waits for running commands.
    pub stop_grace: Duration,
    /// Whether clients must log in and need privileges.
    pub authenticate: bool,
    /// Certificates and keys for encrypted connections; `None` if all are plain.
    pub tls: Option<Arc<Tls>>,
    /// The time limit of a TLS handshake.
    pub handshake_timeout: Duration,
    /// What runs the commands of clients; the engine if `None`.
    pub backend: Option<Arc<dyn Backend>>,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 27017))],
            unix_socket: None,
            connections_max: 20_000,
            threads_max: 4096,
            linger: Duration::from_secs(1),
            message_timeout: Duration::from_secs(60),
            memory_timeout: Duration::from_secs(10),
            stranger_bytes_max: 64 * 1024,
            stranger_messages_per_second: 50,
            stop_grace: Duration::from_secs(5),
            authenticate: false,
            tls: None,
            handshake_timeout: Duration::from_secs(10),
            backend: None,
        }
    }
}

impl ServerOptions {
    /// The time limit for a message of this size.
    fn message_time_limit(&self, size_bytes: usize) -> Duration {
        let units = u32::try_from(size_bytes / TIMEOUT_UNIT_BYTES + 1).unwrap_or(u32::MAX);
        self.message_timeout.saturating_mul(units)
    }
}

/// The state that all threads of a server share.
struct Core {
    engine: Engine,
    options: ServerOptions,
    parked: ParkedConnections,
    /// The pools for small messages, for large ones, and for clients that have not logged in.
    front: Arc<Pool>,
    large: Arc<Pool>,
    background: Arc<Pool>,
    links: Links,
    waker: Arc<Waker>,
    acceptor_waker: Waker,
    stopping: AtomicBool,
}

impl Core {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Queues a connection; it is served as soon as a thread is free.
    fn submit(&self, connection: Box<Connection>) {
        self.pool(connection.lane()).submit(connection);
    }

    fn pool(&self, lane: Lane) -> &Arc<Pool> {
        match lane {
            Lane::Front => &self.front,
            Lane::Large => &self.large,
            Lane::Background => &self.background,
        }
    }

    fn pools(&self) -> [&Arc<Pool>; 3] {
        [&self.front, &self.large, &self.background]
    }

    /// Informs the engine of the server's certificate.
    fn publish_certificate(&self) {
        let Some(tls) = &self.options.tls else { return };
        let identity = tls.identity();
        let subject = identity.subject.to_string();
        let expires_ms = identity.not_after.saturating_mul(1000);
        let asks_clients = identity.asks_clients;
        *self.engine.network().certificate.lock() =
            Some(ServerCertificate { subject, asks_clients, expires_ms });
    }

    fn reload_certificates(&self) -> Result<(), TlsError> {
        if let Some(tls) = &self.options.tls {
            tls.reload()?;
            self.publish_certificate();
        }
        Ok(())
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for waker in [&*self.waker, &self.acceptor_waker] {
            if let Err(error) = waker.wake() {
                tracing::error!(%error, "cannot wake the server to stop it");
            }
        }
    }
}

/// A server that is bound to its addresses and not running yet.
pub struct Server {
    core: Arc<Core>,
    listener: Listener,
    acceptor: Acceptor,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Binds the addresses; clients can connect from now on and are served once `run` is called.
    ///
    /// # Errors
    /// When an address is taken or not ours, a Unix socket cannot be made (`UnixSocketError`), or the
    /// system has no descriptors left.
    pub fn bind(engine: Engine, options: ServerOptions) -> io::Result<Server> {
        let listener = Listener::new()?;
        let acceptor = Acceptor::bind(&options)?;
        let addresses = acceptor.addresses()?;
        let limit = u64::try_from(options.connections_max).unwrap_or(u64::MAX);
        engine.network().connections_max.store(limit, Ordering::Relaxed);
        let waker = Arc::new(Waker::new(listener.registry(), listener::WAKE)?);
        let acceptor_waker = Waker::new(acceptor.registry(), acceptor::WAKE)?;
        let core = Core {
            engine,
            parked: ParkedConnections::new(listener.registry().try_clone()?, Arc::clone(&waker)),
            front: Arc::new(Pool::new(Lane::Front, options.threads_max)),
            large: Arc::new(Pool::new(Lane::Large, options.threads_max)),
            background: Arc::new(Pool::new(Lane::Background, options.threads_max)),
            links: Links::new(options.connections_max),
            waker,
            acceptor_waker,
            stopping: AtomicBool::new(false),
            options,
        };
        core.publish_certificate();
        Ok(Server { core: Arc::new(core), listener, acceptor, addresses })
    }

    /// The first address, with the port that was taken.
    ///
    /// # Errors
    /// When the server was given no address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.addresses.first().copied().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// All addresses, with the ports that were taken.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A handle to stop the server from another thread.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { core: Arc::clone(&self.core) }
    }

    /// Serves clients until `Handle::stop` or a client's `shutdown` command.
    ///
    /// Stopping closes silent connections at once and lets running commands finish for
    /// `stop_grace`. The engine stays open; its owner closes it.
    ///
    /// # Errors
    /// When the system's poll fails; the connections are closed then too.
    pub fn run(self) -> io::Result<()> {
        let core = Arc::downgrade(&self.core);
        self.core.engine.on_shutdown(Box::new(move || {
            if let Some(core) = core.upgrade() {
                core.stop();
            }
        }));
        if self.core.options.tls.is_some() {
            let handle = Arc::downgrade(&self.core);
            self.core.engine.on_rotate_certificates(Box::new(move || match handle.upgrade() {
                Some(core) => core.reload_certificates().map_err(|error| error.to_string()),
                None => Err("the server is closing".to_owned()),
            }));
        }
        self.listener.run(self.acceptor, &self.core)
    }
}

/// A handle that stops a server.
#[derive(Clone)]
pub struct Handle {
    core: Arc<Core>,
}

impl Handle {
    /// Makes `Server::run` stop and return. Returns immediately and may be called again.
    pub fn stop(&self) {
        self.core.stop();
    }

    /// Reads certificates and keys again, for connections that come from now on. `false` when there
    /// are none, as all connections are plain.
    ///
    /// # Errors
    /// When the files are wrong; those that were read before stay in use.
    pub fn reload_certificates(&self) -> Result<bool, TlsError> {
        if self.core.options.tls.is_none() {
            return Ok(false);
        }
        self.core.reload_certificates()?;
        Ok(true)
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.core.links.len()
    }
}
