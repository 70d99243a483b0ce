//! A small blocking client that speaks OP_MSG to any MongoDB-compatible server: one socket, no
//! pool, no monitoring, no retries. Tools, tests and the load program share it, because they want
//! to see exactly what goes over the wire and to measure it without a driver in between.
//!
//! `Client` connects and runs commands, `login` proves who it is, `cursor` walks results, `message`
//! frames bytes, `uri` reads `mongodb://host:port`, `tls` encrypts.

mod cursor;
mod login;
mod message;
mod tls;
mod uri;

pub use cursor::Cursor;
pub use login::Credentials;
pub use message::{Message, SectionRef, frame, frame_into};
pub use uri::{Target, TlsTarget};

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tls::TlsStream;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, Writer};

/// Largest message that is read; a little above the protocol's limit, as replies may exceed it.
const MESSAGE_BYTES_MAX: usize = value::limits::MESSAGE_BYTES_MAX + 64 * 1024;

/// Least room that is offered to the socket when reading.
const READ_BYTES: usize = 16 * 1024;

/// The socket, encrypted or not.
enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Secure(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(space),
            Stream::Secure(stream) => stream.read(space),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Secure(stream) => stream.flush(),
        }
    }
}

/// One connection to a server.
pub struct Client {
    stream: Stream,
    next_request_id: i32,
    outgoing: Vec<u8>,
    /// The last message, and what came behind it.
    incoming: Vec<u8>,
    /// Length of the last message inside `incoming`.
    message_length: usize,
    /// How many bytes of `incoming` came from the server.
    filled: usize,
}

impl Client {
    /// Connects to `mongodb://host[:port][/database][?options]`, or to a plain `host:port`. The host may
    /// be the path of a Unix socket (`%2Ftmp%2Fmotif.sock`).
    ///
    /// No handshake is made: servers answer OP_MSG commands without one. With `user:password@` in
    /// front of the host it logs in.
    ///
    /// # Errors
    /// `FailedToParse` for a URI that asks for what this client cannot do (several hosts),
    /// `HostUnreachable` when nobody answers, `SSLHandshakeFailed`, `AuthenticationFailed`.
    pub fn connect(uri: &str) -> Result<Client> {
        Client::connect_to(&Target::parse(uri)?)
    }

    /// As `connect`. Logs in if the target has credentials.
    ///
    /// # Errors
    /// As `connect`.
    pub fn connect_to(target: &Target) -> Result<Client> {
        let address = target.address();
        let unreachable = |cause: &dyn std::fmt::Display| {
            Error::new(Code::HOST_UNREACHABLE, format!("cannot connect to {address}: {cause}"))
        };
        if target.is_unix_socket() {
            let stream = UnixStream::connect(&address).map_err(|error| unreachable(&error))?;
            // Reading, writing and time limits are the same for both families of sockets.
            return Client::logged_in(TcpStream::from(OwnedFd::from(stream)), target);
        }
        let mut last = None;
        for socket in address.to_socket_addrs().map_err(|error| unreachable(&error))? {
            match TcpStream::connect_timeout(&socket, target.connect_timeout) {
                Ok(stream) => return Client::logged_in(stream, target),
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(error) => unreachable(&error),
            None => unreachable(&"the name has no address"),
        })
    }

    /// As `open`; logs in, if the target says so.
    fn logged_in(stream: TcpStream, target: &Target) -> Result<Client> {
        let mut client = Client::open(stream, target)?;
        if let Some(credentials) = &target.credentials {
            client.log_in(credentials)?;
        }
        Ok(client)
    }

    /// Takes a connected socket, encrypts it if the target says so, and sets its time limits.
    fn open(stream: TcpStream, target: &Target) -> Result<Client> {
        limit(&stream, Some(target.connect_timeout))?;
        if !target.is_unix_socket() {
            stream.set_nodelay(true).map_err(|error| socket_error(&error))?;
        }
        let stream = match &target.tls {
            None => Stream::Plain(stream),
            Some(tls) => Stream::Secure(Box::new(tls::encrypt(stream, &target.host, tls)?)),
        };
        limit(stream.socket(), target.socket_timeout)?;
        Ok(Client {
            stream,
            next_request_id: 1,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            message_length: 0,
            filled: 0,
        })
    }

    /// Limits how long `receive` waits for bytes; `None` waits for ever.
    ///
    /// # Errors
    /// `SocketException` when the socket refuses.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.stream.socket().set_read_timeout(timeout).map_err(|error| socket_error(&error))
    }

    /// The socket beneath, to shut it down from another thread or to send what no client would.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// Runs a command on a database and gives its reply.
    ///
    /// `$db` is added unless the command has it.
    ///
    /// # Errors
    /// A reply with `ok: 0` becomes an error with its code; the reply is the error's `info`. A
    /// broken connection is `SocketException`.
    pub fn run(&mut self, database: &str, command: &DocBuf) -> Result<DocBuf> {
        self.run_with_sequence(database, command, "", &[])
    }

    /// As `run`, with documents (one after another, BSON) sent beside the body as the argument
    /// `name`: how drivers send `documents`, `updates` and `deletes`.
    ///
    /// # Errors
    /// As `run`.
    pub fn run_with_sequence(
        &mut self,
        database: &str,
        body: &DocBuf,
        name: &str,
        documents: &[u8],
    ) -> Result<DocBuf> {
        let reply = self.exchange(database, body.as_doc(), name, documents)?;
        check(RawDoc::new(reply)).map(DocBuf::from)
    }

    /// As `run_with_sequence`, but the reply stays in the client's buffer and is not judged: for
    /// load programs. A reply with `ok: 0` is a reply like any other here.
    ///
    /// # Errors
    /// `SocketException` or `ProtocolError` only.
    pub fn exchange(
        &mut self,
        database: &str,
        body: RawDoc<'_>,
        name: &str,
        documents: &[u8],
    ) -> Result<&[u8]> {
        let request_id = self.request_id();
        self.outgoing.clear();
        let with_database;
        let body = if body.find("$db").is_some() {
            body
        } else {
            with_database = DocBuf::build(|out| {
                out.extend(body).str("$db", database);
            });
            with_database.as_doc()
        };
        frame_into(&mut self.outgoing, request_id, 0, body, name, documents);
        let sent = self.stream.write_all(&self.outgoing).and_then(|()| self.stream.flush());
        sent.map_err(|error| socket_error(&error))?;
        let response_to = self.read_message()?;
        if response_to != request_id {
            return Err(protocol_error("the reply answers another request"));
        }
        Ok(Message::parse(self.message())?.body.bytes())
    }

    /// Sends a command whose reply is not wanted (`moreToCome`): how `w: 0` writes travel.
    ///
    /// # Errors
    /// `SocketException` when the connection is broken.
    pub fn send_unacknowledged(&mut self, database: &str, command: &DocBuf) -> Result<()> {
        let request_id = self.request_id();
        let body = with_database(command.as_doc(), database);
        let bytes = frame(request_id, message::MORE_TO_COME, body.as_doc());
        self.send(&bytes)
    }

    /// A cursor over the documents that a command gives; see `Cursor`.
    ///
    /// # Errors
    /// As `run`, and `BadValue` when the reply has no cursor.
    pub fn cursor(&mut self, database: &str, command: &DocBuf) -> Result<Cursor<'_>> {
        Cursor::open(self, database, command)
    }

    /// Writes bytes to the socket as they are.
    ///
    /// # Errors
    /// `SocketException` when the connection is broken.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|error| socket_error(&error))
    }

    /// Reads one whole message, header included.
    ///
    /// # Errors
    /// `SocketException` when the connection ends, `ProtocolError` for an impossible length.
    pub fn receive(&mut self) -> Result<Vec<u8>> {
        self.read_message()?;
        Ok(self.message().to_vec())
    }

    /// Reads one whole message, header included. It stays in the client's buffer.
    ///
    /// # Errors
    /// As `receive`.
    pub fn receive_in_place(&mut self) -> Result<&[u8]> {
        self.read_message()?;
        Ok(self.message())
    }

    /// A fresh request id, for callers that frame messages themselves.
    pub fn request_id(&mut self) -> i32 {
        let id = self.next_request_id;
        self.next_request_id = self.next_request_id.wrapping_add(1);
        id
    }

    /// The bytes of the last message.
    fn message(&self) -> &[u8] {
        self.incoming.get(..self.message_length).unwrap_or(&[])
    }

    /// Reads one message into `incoming` and gives the request that it answers. Takes what the
    /// socket has, so that a small reply costs one system call.
    fn read_message(&mut self) -> Result<i32> {
        self.incoming.copy_within(self.message_length..self.filled, 0);
        self.filled -= self.message_length;
        self.message_length = 0;
        loop {
            let length = match message::i32_at(self.incoming.get(..self.filled).unwrap_or(&[]), 0) {
                Some(length) => usize::try_from(length).unwrap_or(0),
                None => 16,
            };
            if !(16..=MESSAGE_BYTES_MAX).contains(&length) {
                return Err(protocol_error("the reply has an impossible length"));
            }
            if self.filled >= length && self.filled >= 16 {
                self.message_length = length;
                return Ok(message::i32_at(&self.incoming, 8).unwrap_or(0));
            }
            if self.incoming.len() < length.max(READ_BYTES) {
                self.incoming.resize(length.max(READ_BYTES), 0);
            }
            let space = self.incoming.get_mut(self.filled..).unwrap_or(&mut []);
            match self.stream.read(space) {
                Ok(0) => return Err(socket_error(&std::io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(socket_error(&error)),
            }
        }
    }
}

/// Limits how long reads and writes may take.
fn limit(socket: &TcpStream, time: Option<Duration>) -> Result<()> {
    let limited = socket.set_read_timeout(time).and_then(|()| socket.set_write_timeout(time));
    limited.map_err(|error| socket_error(&error))
}

/// The command with `$db`, unless it has one.
fn with_database(command: RawDoc<'_>, database: &str) -> DocBuf {
    DocBuf::build(|out: &mut Writer<'_>| {
        out.extend(command);
        if command.find("$db").is_none() {
            out.str("$db", database);
        }
    })
}

/// Turns a reply with `ok: 0` into an error that keeps the whole reply as `info`.
///
/// # Errors
/// When `ok` is not true; a reply without a code counts as `UnknownError`.
pub fn check(reply: RawDoc<'_>) -> Result<RawDoc<'_>> {
    if reply.get("ok").is_some_and(Val::truthy) {
        return Ok(reply);
    }
    let code = reply.get("code").and_then(Val::as_i64_exact).and_then(|n| i32::try_from(n).ok());
    let message = reply.get("errmsg").or_else(|| reply.get("$err")).and_then(Val::as_str);
    let error = Error::new(Code(code.unwrap_or(8)), message.unwrap_or("the command failed"));
    Err(error.with_info(DocBuf::from(reply)))
}

/// `SocketException` (9001): the connection broke.
fn socket_error(error: &std::io::Error) -> Error {
    Error::new(Code(9001), format!("connection: {error}"))
}

/// `ProtocolError` (17): the server sent what this client cannot understand.
pub(crate) fn protocol_error(message: &str) -> Error {
    Error::new(Code::PROTOCOL_ERROR, message)
}
