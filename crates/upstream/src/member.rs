//! A member of the cluster: its address and the connections to it that are free.

use client::{Client, Target};
use parking_lot::Mutex;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use value::{DocBuf, RawDoc, RawVal, Result};

/// The most free connections that are kept.
const FREE_MAX: usize = 256;
/// A connection that was free for this long is checked before it is used.
const CHECK_AFTER: Duration = Duration::from_secs(1);

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    target: Target,
    address: String,
    free: Mutex<Vec<Connection>>,
    /// Increased when connections made so far must not be used again.
    generation: AtomicU64,
    /// Whether it has left the cluster.
    removed: AtomicBool,
}

/// A connection to a member.
pub(crate) struct Connection {
    /// Reads and writes.
    pub(crate) client: Client,
    /// The same socket, for interrupting from another thread.
    pub(crate) socket: Arc<TcpStream>,
    generation: u64,
    used: Instant,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Member {
    pub(crate) fn new(target: Target) -> Member {
        Member {
            address: target.address(),
            target,
            free: Mutex::default(),
            generation: AtomicU64::new(0),
            removed: AtomicBool::new(false),
        }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A free connection, or a new one.
    ///
    /// # Errors
    /// When the member cannot be reached.
    pub(crate) fn connection(&self) -> Result<Connection> {
        loop {
            let free = self.free.lock().pop();
            match free {
                Some(connection) if self.is_usable(&connection) => return Ok(connection),
                Some(_) => {}
                None => return self.connect(None),
            }
        }
    }

    /// A new connection. `metadata` is what a client says of itself in its `hello`.
    ///
    /// # Errors
    /// When the member cannot be reached.
    pub(crate) fn connect(&self, metadata: Option<RawDoc<'_>>) -> Result<Connection> {
        let generation = self.generation.load(Ordering::Acquire);
        let mut client = Client::connect_to(&self.target)?;
        client.set_read_timeout(Some(self.target.connect_timeout))?;
        client.run("admin", &hello(metadata, |_| {}))?;
        self.opened(client, generation)
    }

    /// A new connection whose `hello` is extended by fields; its reply comes with it.
    ///
    /// # Errors
    /// When the member cannot be reached or refuses.
    pub(crate) fn connect_with(
        &self,
        metadata: Option<RawDoc<'_>>,
        fields: &[(&str, RawVal<'_>)],
    ) -> Result<(Connection, DocBuf)> {
        let generation = self.generation.load(Ordering::Acquire);
        let mut client = Client::connect_to(&self.target)?;
        client.set_read_timeout(Some(self.target.connect_timeout))?;
        let reply = client.run(
            "admin",
            &hello(metadata, |out| {
                for (name, value) in fields {
                    out.raw(name, *value);
                }
            }),
        )?;
        Ok((self.opened(client, generation)?, reply))
    }

    fn opened(&self, client: Client, generation: u64) -> Result<Connection> {
        // Commands may run for any time; the client that waits decides how long.
        client.set_read_timeout(None)?;
        let socket = client.stream().try_clone().map_err(|error| unreachable(self, &error))?;
        Ok(Connection { client, socket: Arc::new(socket), generation, used: Instant::now() })
    }

    /// Takes a connection back that is idle and has no login.
    pub(crate) fn give_back(&self, mut connection: Connection) {
        connection.used = Instant::now();
        if connection.generation != self.generation.load(Ordering::Acquire) {
            return;
        }
        let mut free = self.free.lock();
        if free.len() < FREE_MAX {
            free.push(connection);
        }
    }

    /// Closes the free connections, and those in use when they are given back.
    pub(crate) fn discard_connections(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let free = std::mem::take(&mut *self.free.lock());
        drop(free);
    }

    /// Marks it as no member any more.
    pub(crate) fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        self.discard_connections();
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    fn is_usable(&self, connection: &Connection) -> bool {
        connection.generation == self.generation.load(Ordering::Acquire)
            && (connection.used.elapsed() < CHECK_AFTER || is_open(&connection.socket))
    }
}

/// Whether the other end has neither closed nor sent something unasked.
fn is_open(socket: &TcpStream) -> bool {
    let mut byte = [0];
    let peeked = rustix::net::recv(
        socket,
        &mut byte[..],
        rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT,
    );
    peeked.is_err_and(|error| error == rustix::io::Errno::AGAIN)
}

/// The first command on a connection.
fn hello(metadata: Option<RawDoc<'_>>, more: impl FnOnce(&mut value::Writer<'_>)) -> DocBuf {
    DocBuf::build(|out| {
        out.i32("hello", 1).bool("helloOk", true);
        out.doc("client", |out| match metadata {
            Some(metadata) => {
                out.extend(metadata);
            }
            None => {
                out.doc("application", |out| {
                    out.str("name", "MotifDB");
                });
                out.doc("driver", |out| {
                    out.str("name", "motif").str("version", env!("CARGO_PKG_VERSION"));
                });
                out.doc("os", |out| {
                    out.str("type", std::env::consts::OS);
                });
            }
        });
        more(out);
    })
}

fn unreachable(member: &Member, error: &io::Error) -> value::Error {
    let text = format!("cannot connect to {}: {error}", member.address());
    value::Error::new(value::Code::HOST_UNREACHABLE, text)
}
