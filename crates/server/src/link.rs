//! The socket of a connection, shared between the thread that serves it and the stop of the
//! server; and the list of all of them.

use crate::ServerOptions;
use mio::Token;
use motifdb::{Memory, Network};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After this time without a byte the system probes the connection (TCP keepalive).
const KEEPALIVE: Duration = Duration::from_secs(300);

/// How long a write waits before it is checked whether the client is too slow.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// The time limit of a reply while memory is short.
const TIGHT_PATIENCE: Duration = Duration::from_secs(2);

/// A reply of at most this size fits into the socket's buffer if that is not full.
const ROOM_BYTES: usize = 4096;

/// The activity of a connection, for stopping the server and for clients that disconnect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Activity {
    /// It waits for its client.
    Waiting,
    /// It runs a command that may write, which finishes even if the client has disconnected.
    Running,
    /// It runs a command that only reads, which is interrupted if the client disconnects.
    Reading,
    /// It waits for a change on behalf of its client (a monitor's `hello`).
    Watching,
}

/// Interrupts the command of a connection.
pub(crate) type Interrupt = Box<dyn Fn() + Send + Sync>;

/// Where a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remote {
    /// At this address.
    Tcp(SocketAddr),
    /// On this machine, at the other end of a Unix socket.
    Unix,
}

impl Remote {
    /// Whether it is on this machine.
    pub(crate) fn is_local(self) -> bool {
        match self {
            Remote::Tcp(address) => address.ip().is_loopback(),
            Remote::Unix => true,
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Tcp(address) => address.fmt(f),
            Remote::Unix => f.write_str("anonymous unix socket"),
        }
    }
}

/// A client's socket.
pub(crate) struct Link {
    /// A stream socket of either family: reading, writing, time limits and closing are the same for
    /// both.
    stream: TcpStream,
    id: i64,
    remote: Remote,
    activity: AtomicU8,
    /// Whether the connection is encrypted.
    secure: AtomicBool,
    interrupt: Interrupt,
    /// The memory that operations share, replies too.
    memory: Arc<Memory>,
}

impl Link {
    /// Takes an accepted socket and gives it the time limits of `options`.
    pub(crate) fn new(
        stream: TcpStream,
        remote: Remote,
        id: i64,
        options: &ServerOptions,
        interrupt: Interrupt,
        memory: Arc<Memory>,
    ) -> io::Result<Link> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(options.message_timeout.min(WRITE_PAUSE)))?;
        if let Remote::Tcp(_) = remote {
            stream.set_nodelay(true)?;
            rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
            rustix::net::sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
        }
        let activity = AtomicU8::new(Activity::Waiting as u8);
        let secure = AtomicBool::new(false);
        Ok(Link { stream, id, remote, activity, secure, interrupt, memory })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    pub(crate) fn remote(&self) -> Remote {
        self.remote
    }

    /// The name under which the poll reports this socket.
    pub(crate) fn token(&self) -> Token {
        // Ids are small positive numbers.
        Token(usize::try_from(self.id).unwrap_or(usize::MAX))
    }

    pub(crate) fn set_activity(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Release);
    }

    fn is(&self, activities: &[Activity]) -> bool {
        let now = self.activity.load(Ordering::Acquire);
        activities.iter().any(|activity| *activity as u8 == now)
    }

    /// Records that the connection is encrypted.
    pub(crate) fn set_secure(&self) {
        self.secure.store(true, Ordering::Relaxed);
    }

    /// Whether the client closed its side and nothing more will come.
    pub(crate) fn is_closed_by_client(&self) -> bool {
        if self.secure.load(Ordering::Relaxed) {
            // An encrypted connection sends a closing alert, so there are bytes to read at its end.
            let mut polled = [PollFd::new(&self.stream, PollFlags::RDHUP)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let ready = rustix::event::poll(&mut polled, Some(&now));
            return ready.is_ok_and(|count| count > 0);
        }
        let mut byte = [0u8; 1];
        match rustix::net::recv(&self.stream, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)
        {
            Ok((_, count)) => count == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }

    /// Whether this number of bytes can probably be sent without waiting for the client.
    pub(crate) fn has_room_for(&self, size_bytes: usize) -> bool {
        if size_bytes > ROOM_BYTES {
            return false;
        }
        let mut polled = [PollFd::new(&self.stream, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Sends `bytes` if they fit into the system's buffer; otherwise they are dropped.
    pub(crate) fn send_if_possible(&self, bytes: &[u8]) {
        let _ = rustix::net::send(&self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Sends all of `bytes`; fails if the client reads too slowly.
    pub(crate) fn send(&self, bytes: &[u8], options: &ServerOptions) -> io::Result<()> {
        let mut rest = bytes;
        let mut pace = self.pace(bytes.len(), options);
        loop {
            match (&self.stream).write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = rest.get(count..).unwrap_or(&[]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if rest.is_empty() {
                return Ok(());
            }
            pace.check()?;
        }
    }

    /// The minimum rate at which a client must read a reply of this size.
    pub(crate) fn pace(&self, size_bytes: usize, options: &ServerOptions) -> Pace<'_> {
        Pace { memory: &self.memory, patience: options.message_time_limit(size_bytes), since: None }
    }
}

/// Checks whether a client reads a reply too slowly.
pub(crate) struct Pace<'l> {
    memory: &'l Memory,
    patience: Duration,
    since: Option<Instant>,
}

impl Pace<'_> {
    /// Checks the time; called only if the bytes did not fit into the system's buffer at once.
    /// While memory is short the limit is lower.
    ///
    /// # Errors
    /// `TimedOut` when it is too slow.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let tight = self.memory.is_tight();
        let patience = if tight { self.patience.min(TIGHT_PATIENCE) } else { self.patience };
        if now.saturating_duration_since(since) >= patience {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

/// Whether a read or write can be retried: after a signal or a timeout.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted || is_timeout(error)
}

/// Whether an error is a timeout of `SO_RCVTIMEO` or `SO_SNDTIMEO`.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// All open connections.
pub(crate) struct Links {
    open: Mutex<HashMap<i64, Arc<Link>>>,
    last_id: AtomicU64,
    limit: usize,
}

impl Links {
    pub(crate) fn new(limit: usize) -> Links {
        Links { open: Mutex::default(), last_id: AtomicU64::new(0), limit }
    }

    /// A number for a new connection, never used before.
    pub(crate) fn next_id(&self) -> i64 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        i64::try_from(id).unwrap_or(i64::MAX)
    }

    /// Whether no further connection may be opened.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Adds a connection, until `remove`.
    pub(crate) fn add(&self, link: &Arc<Link>, network: &Network) {
        self.open.lock().insert(link.id, Arc::clone(link));
        network.connections_current.fetch_add(1, Ordering::Relaxed);
        network.connections_total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, link: &Link, network: &Network) {
        if self.open.lock().remove(&link.id).is_some() {
            network.connections_current.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Whether any connection is doing one of these.
    pub(crate) fn any(&self, activities: &[Activity]) -> bool {
        self.open.lock().values().any(|link| link.is(activities))
    }

    /// Interrupts every connection that is doing one of these.
    pub(crate) fn interrupt(&self, activities: &[Activity]) {
        self.open.lock().values().filter(|link| link.is(activities)).for_each(|link| {
            (link.interrupt)();
        });
    }

    /// Interrupts commands whose client disconnected.
    pub(crate) fn interrupt_abandoned(&self) {
        for link in self.open.lock().values() {
            if link.is(&[Activity::Reading, Activity::Watching]) && link.is_closed_by_client() {
                tracing::debug!(connection = link.id, "command interrupted: client disconnected");
                (link.interrupt)();
            }
        }
    }

    /// Shuts down all sockets in one direction or both; errors of closed sockets are ignored.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        for link in self.open.lock().values() {
            if let Err(error) = link.stream.shutdown(how) {
                tracing::debug!(connection = link.id, %error, "socket was already closed");
            }
        }
    }
}
