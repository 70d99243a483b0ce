//! Accepts connections on a separate thread with low priority, so that a flood of new connections
//! does not delay open ones.
//!
//! New connections are parked like idle ones: a client that connects and sends nothing uses no
//! thread.

use crate::connection::Connection;
use crate::link::{Interrupt, Link, Remote};
use crate::unix::UnixSocket;
use crate::{Core, ServerOptions};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use motifdb::Peer;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Wakes the poll for a stop. Sockets count up from zero.
pub(crate) const WAKE: Token = Token(usize::MAX);
/// Connections accepted from one socket before the next socket is checked.
const ACCEPTED_AT_ONCE: usize = 256;
/// The pause after accepting failed, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The sockets that listen.
pub(crate) struct Acceptor {
    poll: Poll,
    sockets: Vec<TcpListener>,
    unix: Option<UnixSocket>,
}

/// The result of accepting from one socket.
enum Accepted {
    /// No client is waiting.
    All,
    /// There may be more, at once or after a pause.
    Some(Duration),
}

impl Acceptor {
    /// Binds all addresses.
    pub(crate) fn bind(options: &ServerOptions) -> io::Result<Acceptor> {
        let poll = Poll::new()?;
        let mut sockets = Vec::new();
        for address in &options.listen {
            let mut socket = TcpListener::bind(*address)
                .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
            poll.registry().register(&mut socket, Token(sockets.len()), Interest::READABLE)?;
            sockets.push(socket);
        }
        let mut unix = options.unix_socket.as_deref().map(UnixSocket::bind).transpose()?;
        if let Some(socket) = &mut unix {
            let token = Token(sockets.len());
            poll.registry().register(&mut socket.listener, token, Interest::READABLE)?;
        }
        Ok(Acceptor { poll, sockets, unix })
    }

    pub(crate) fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(TcpListener::local_addr).collect()
    }

    /// Accepts until the server stops; the sockets are closed then. If polling fails, the server
    /// stops.
    pub(crate) fn start(mut self, core: &Arc<Core>) -> io::Result<JoinHandle<io::Result<()>>> {
        let core = Arc::clone(core);
        std::thread::Builder::new().name("accept".into()).spawn(move || {
            core.background.set_priority();
            let result = self.serve(&core);
            if result.is_err() {
                core.stop();
            }
            result
        })
    }

    fn serve(&mut self, core: &Arc<Core>) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        // Sockets with clients that may still wait: the poll reports each new client only once.
        let mut ready = vec![true; self.sockets.len() + usize::from(self.unix.is_some())];
        let mut pause = Some(Duration::ZERO);
        while !core.is_stopping() {
            match self.poll.poll(&mut events, pause) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            for event in &events {
                if let Some(flag) = ready.get_mut(event.token().0) {
                    *flag = true;
                }
            }
            pause = None;
            let sockets = self.sockets.iter().map(Socket::Tcp);
            let sockets = sockets.chain(self.unix.as_ref().map(Socket::Unix));
            for (socket, ready) in sockets.zip(&mut ready) {
                if *ready {
                    match accept(&socket, core) {
                        Accepted::All => *ready = false,
                        Accepted::Some(after) => pause = Some(after),
                    }
                }
            }
        }
        Ok(())
    }
}

/// A socket that listens.
enum Socket<'a> {
    Tcp(&'a TcpListener),
    Unix(&'a UnixSocket),
}

/// An accepted socket.
struct Incoming {
    stream: TcpStream,
    remote: Remote,
    /// The address that it connected to, if clients can use it.
    local: Option<String>,
}

impl Socket<'_> {
    fn accept(&self) -> io::Result<Incoming> {
        match self {
            Socket::Tcp(socket) => {
                let (stream, remote) = socket.accept()?;
                let stream = TcpStream::from(stream);
                let local = stream.local_addr().ok().map(|address| address.to_string());
                Ok(Incoming { stream, remote: Remote::Tcp(remote), local })
            }
            Socket::Unix(socket) => {
                let (stream, _) = socket.listener.accept()?;
                let stream = TcpStream::from(OwnedFd::from(UnixStream::from(stream)));
                Ok(Incoming { stream, remote: Remote::Unix, local: socket.address() })
            }
        }
    }
}

fn accept(socket: &Socket<'_>, core: &Arc<Core>) -> Accepted {
    for _ in 0..ACCEPTED_AT_ONCE {
        match socket.accept() {
            Ok(incoming) => open_connection(core, incoming),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Accepted::All,
            Err(error) if is_about_one_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                return Accepted::Some(ACCEPT_PAUSE);
            }
        }
    }
    Accepted::Some(Duration::ZERO)
}

fn is_about_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Creates the connection of an accepted socket, unless there are too many.
fn open_connection(core: &Arc<Core>, incoming: Incoming) {
    let Incoming { stream, remote, local } = incoming;
    if core.links.is_full()
        && let Some(silent) = core.parked.take_silent()
    {
        silent.evict();
    }
    if core.links.is_full() {
        tracing::warn!(client = %remote, limit = core.options.connections_max, "connection refused: too many connections");
        return;
    }
    let id = core.links.next_id();
    let peer = Peer {
        remote: remote.to_string(),
        local,
        connection_id: id,
        authenticate: core.options.authenticate,
        is_local: remote.is_local(),
    };
    let client = core.engine.connect(peer);
    let slot = Arc::clone(client.slot());
    let route = core.options.backend.as_ref().map(|backend| backend.open(id));
    let interrupt: Interrupt = match route.as_ref().map(|route| route.interrupter()) {
        Some(interrupter) => Box::new(move || interrupter()),
        None => Box::new(move || slot.killed.store(true, Ordering::Relaxed)),
    };
    let memory = Arc::clone(core.engine.memory());
    let link = match Link::new(stream, remote, id, &core.options, interrupt, memory) {
        Ok(link) => Arc::new(link),
        Err(error) => {
            tracing::debug!(client = %remote, %error, "client disconnected before it was accepted");
            return;
        }
    };
    tracing::debug!(connection = id, client = %remote, "connection accepted");
    core.links.add(&link, core.engine.network());
    core.parked.park_new(Box::new(Connection::new(Arc::clone(core), link, client, route)));
}
