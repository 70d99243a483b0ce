//! Accepts connections, wakes parked ones, and stops: the server's one thread that always runs.
//!
//! New connections are parked like silent ones, so that a client which connects and says nothing
//! costs no thread.

use crate::connection::Connection;
use crate::link::{Activity, Link};
use crate::{Core, ServerOptions};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use motifdb::Peer;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Wakes the poll for a stop. Listeners count down from here, connections up from one.
pub(crate) const WAKE: Token = Token(usize::MAX);
/// Connections accepted before parked ones are looked at again.
const ACCEPTED_AT_ONCE: usize = 256;
/// When accepting fails (no descriptors left), the next try comes after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often messages that do not come to an end, and commands without a client, are looked for.
const CHECK: Duration = Duration::from_secs(1);
/// How long a stop waits for commands that only read before it interrupts them.
const READ_GRACE: Duration = Duration::from_secs(1);
/// How long a stop waits for threads whose sockets were shut down.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// How long connections that do nothing may take to end by themselves.
const GOODBYE_WAIT: Duration = Duration::from_millis(200);

/// The sockets that listen, and the poll of everything.
pub(crate) struct Listener {
    poll: Poll,
    sockets: Vec<TcpListener>,
}

/// What accepting from one socket came to.
enum Accepted {
    /// Nobody is waiting.
    All,
    /// There may be more, at once or after a pause.
    Some(Duration),
}

impl Listener {
    /// Binds all addresses.
    pub(crate) fn bind(options: &ServerOptions) -> io::Result<Listener> {
        let poll = Poll::new()?;
        let mut sockets = Vec::new();
        for address in &options.listen {
            let mut socket = TcpListener::bind(*address)
                .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
            let token = listener_token(sockets.len());
            poll.registry().register(&mut socket, token, Interest::READABLE)?;
            sockets.push(socket);
        }
        Ok(Listener { poll, sockets })
    }

    pub(crate) fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(TcpListener::local_addr).collect()
    }

    /// Accepts and wakes until the server is told to stop, then closes everything.
    pub(crate) fn run(mut self, core: &Arc<Core>) -> io::Result<()> {
        let result = self.serve(core);
        drop(self.sockets);
        stop(core);
        result
    }

    fn serve(&mut self, core: &Arc<Core>) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        // Sockets at which clients may still wait: the poll tells of new ones only once.
        let mut ready = vec![true; self.sockets.len()];
        let mut pause = Some(Duration::ZERO);
        let mut checked = Instant::now();
        while !core.is_stopping() {
            let watch = core.lot.has_deadlines() || core.pool.is_busy();
            let check = watch.then_some(CHECK);
            let (due, later) = core.lot.due(Instant::now());
            due.into_iter().for_each(|connection| core.pool.submit(connection));
            let timeout = [pause, check, later].into_iter().flatten().min();
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            for event in &events {
                let token = event.token();
                if let Some(connection) = core.lot.wake(token) {
                    core.pool.submit(connection);
                } else if let Some(flag) = listener_index(token).and_then(|at| ready.get_mut(at)) {
                    *flag = true;
                }
            }
            pause = None;
            for (socket, ready) in self.sockets.iter().zip(&mut ready) {
                if *ready {
                    match accept(socket, core) {
                        Accepted::All => *ready = false,
                        Accepted::Some(after) => pause = Some(after),
                    }
                }
            }
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                core.links.interrupt_abandoned();
                core.lot.overdue(checked).into_iter().for_each(Connection::expire);
            }
        }
        Ok(())
    }
}

fn listener_token(index: usize) -> Token {
    Token(usize::MAX - 1 - index)
}

fn listener_index(token: Token) -> Option<usize> {
    (usize::MAX - 1).checked_sub(token.0)
}

fn accept(socket: &TcpListener, core: &Arc<Core>) -> Accepted {
    for _ in 0..ACCEPTED_AT_ONCE {
        match socket.accept() {
            Ok((stream, remote)) => welcome(core, stream.into(), remote),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Accepted::All,
            Err(error) if is_about_one_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "connections cannot be accepted at the moment");
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

/// Makes a connection of an accepted socket, if there is room for one more.
fn welcome(core: &Arc<Core>, stream: TcpStream, remote: SocketAddr) {
    if core.links.is_full()
        && let Some(silent) = core.lot.silent()
    {
        silent.evict();
    }
    if core.links.is_full() {
        tracing::warn!(client = %remote, limit = core.options.connections_max, "connection refused: too many");
        return;
    }
    let local = stream.local_addr().ok().map(|address| address.to_string());
    let id = core.links.next_id();
    let peer = Peer {
        remote: remote.to_string(),
        local,
        connection_id: id,
        authenticate: core.options.authenticate,
        is_local: remote.ip().is_loopback(),
    };
    let client = core.engine.connect(peer);
    let slot = Arc::clone(client.slot());
    let interrupt = Box::new(move || slot.killed.store(true, Ordering::Relaxed));
    let memory = Arc::clone(core.engine.memory());
    let link = match Link::new(stream, remote, id, &core.options, interrupt, memory) {
        Ok(link) => Arc::new(link),
        Err(error) => {
            tracing::debug!(client = %remote, %error, "a client was gone before it was accepted");
            return;
        }
    };
    tracing::debug!(connection = id, client = %remote, "connection accepted");
    core.links.add(&link, core.engine.network());
    core.lot.park_new(Box::new(Connection::new(Arc::clone(core), link, client)));
}

/// Closes silent connections at once, busy ones when their command is done or takes too long.
fn stop(core: &Core) {
    core.lot.close();
    core.pool.stop();
    core.links.shut_down(Shutdown::Read);
    let writing = [Activity::Running];
    let answering = [Activity::Running, Activity::Reading];
    let grace = core.options.stop_grace;
    core.links.interrupt(&[Activity::Watching]);
    let reads = READ_GRACE.min(grace);
    if !wait_until(reads, || !core.links.any(&answering)) {
        core.links.interrupt(&[Activity::Reading]);
        if !wait_until(grace.saturating_sub(reads), || !core.links.any(&answering)) {
            core.links.interrupt(&writing);
        }
    }
    // Threads that find their client's side closed say so to it, if it listens.
    wait_until(GOODBYE_WAIT, || core.links.len() == 0);
    core.links.shut_down(Shutdown::Both);
    if !wait_until(LAST_WAIT, || core.links.len() == 0) {
        tracing::info!("stopped with commands still running");
    }
}

fn wait_until(longest: Duration, done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + longest;
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
