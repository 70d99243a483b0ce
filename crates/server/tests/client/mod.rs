//! What the socket tests share: a server in this process and a client that sends raw bytes.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test ends where an expectation does")]

use motifdb::{Engine, Options};
use server::{Handle, Server, ServerOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use value::{DocBuf, RawDoc};

/// What does not wait for anything ends within this on any machine, however busy; what waits for a
/// silent client or for news would take a minute.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const OP_REPLY: i32 = 1;
pub(crate) const OP_QUERY: i32 = 2004;
pub(crate) const OP_COMPRESSED: i32 = 2012;
pub(crate) const OP_MSG: i32 = 2013;

/// A server with an engine in memory, stopped when dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::with(ServerOptions::default())
    }

    pub(crate) fn with(options: ServerOptions) -> TestServer {
        TestServer::over(Engine::open(Options::default()).expect("an engine in memory"), options)
    }

    pub(crate) fn over(engine: Engine, options: ServerOptions) -> TestServer {
        let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        let server =
            Server::bind(engine, ServerOptions { listen, ..options }).expect("a free port");
        let address = server.local_addr().expect("an address");
        let handle = server.handle();
        let thread = Some(std::thread::spawn(move || server.run()));
        TestServer { address, handle, thread }
    }

    pub(crate) fn connect(&self) -> RawClient {
        RawClient::connect(self.address)
    }

    /// Stops and waits for the end of `run`.
    pub(crate) fn stop(&mut self) {
        self.handle.stop();
        self.wait();
    }

    pub(crate) fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server does not panic").expect("the server ends well");
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.connect().ping().is_ok()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A message as it came: header fields and everything behind them.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) request_id: i32,
    pub(crate) response_to: i32,
    pub(crate) opcode: i32,
    pub(crate) content: Vec<u8>,
}

impl Message {
    /// The flags of an `OP_MSG`.
    pub(crate) fn flags(&self) -> u32 {
        u32::from_le_bytes(self.content[..4].try_into().unwrap())
    }

    /// The body of an `OP_MSG` or the document of an `OP_REPLY`.
    pub(crate) fn body(&self) -> RawDoc<'_> {
        let at = if self.opcode == OP_MSG { 5 } else { 20 };
        value::validate::validate_prefix(&self.content[at..], 100).expect("a valid reply").0
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.body().get(name).and_then(|value| value.as_f64()).unwrap_or(f64::NAN)
    }

    pub(crate) fn cursor_id(&self) -> i64 {
        let cursor = self.body().get("cursor").and_then(|value| value.as_doc()).expect("a cursor");
        cursor.get("id").and_then(|value| value.as_i64_exact()).expect("an id")
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.number("ok") == 1.0
    }
}

pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
}

impl RawClient {
    pub(crate) fn connect(address: SocketAddr) -> RawClient {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        RawClient { stream }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    pub(crate) fn receive(&mut self) -> io::Result<Message> {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header)?;
        let number = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let mut content = vec![0; number(0) as usize - 16];
        self.stream.read_exact(&mut content)?;
        Ok(Message { request_id: number(4), response_to: number(8), opcode: number(12), content })
    }

    /// Whether the server closed; anything else that arrives fails the test.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0; 1];
        loop {
            match self.stream.read(&mut byte) {
                Ok(count) => return count == 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    pub(crate) fn call(&mut self, bytes: &[u8]) -> Message {
        self.send(bytes);
        self.receive().expect("a reply")
    }

    /// Sends a command that waits for a minute, for documents that never come, and returns when the
    /// server has begun it.
    pub(crate) fn wait_for_news(&mut self) {
        let create = DocBuf::build(|doc| {
            doc.str("create", "news").bool("capped", true).i32("size", 4096).str("$db", "test");
        });
        assert!(self.call(&message(1, 0, &create)).is_ok());
        let insert = DocBuf::build(|doc| {
            doc.str("insert", "news").str("$db", "test");
        });
        let all = [body_section(&insert), sequence_section("documents", &[ping()])].concat();
        assert!(self.call(&sections(2, 0, &all)).is_ok());
        let find = DocBuf::build(|doc| {
            doc.str("find", "news").bool("tailable", true).bool("awaitData", true);
            doc.str("$db", "test");
        });
        let found = self.call(&message(3, 0, &find));
        let get_more = DocBuf::build(|doc| {
            doc.i64("getMore", found.cursor_id()).str("collection", "news");
            doc.i32("maxTimeMS", 60_000).str("$db", "test");
        });
        self.send(&message(4, 0, &get_more));
        let mut other = RawClient::connect(self.stream.peer_addr().unwrap());
        let waits = || {
            let running = other.call(&message(1, 0, &command("currentOp")));
            running.content.windows(7).any(|bytes| bytes == b"getMore")
        };
        eventually("the server has begun to wait", waits);
    }

    pub(crate) fn ping(&mut self) -> io::Result<()> {
        self.stream.write_all(&message(9, 0, &ping()))?;
        let reply = self.receive()?;
        assert!(reply.is_ok() && reply.response_to == 9 && reply.opcode == OP_MSG);
        Ok(())
    }
}

pub(crate) fn ping() -> DocBuf {
    command("ping")
}

pub(crate) fn command(name: &str) -> DocBuf {
    DocBuf::build(|doc| {
        doc.i32(name, 1).str("$db", "admin");
    })
}

pub(crate) fn framed(request_id: i32, opcode: i32, content: &[u8]) -> Vec<u8> {
    let length = 16 + content.len() as i32;
    let mut bytes = Vec::new();
    for number in [length, request_id, 0, opcode] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(content);
    bytes
}

/// An `OP_MSG` with a body.
pub(crate) fn message(request_id: i32, flags: u32, body: &DocBuf) -> Vec<u8> {
    sections(request_id, flags, &[0u8].iter().chain(body.bytes()).copied().collect::<Vec<_>>())
}

/// An `OP_MSG` with any sections.
pub(crate) fn sections(request_id: i32, flags: u32, sections: &[u8]) -> Vec<u8> {
    framed(request_id, OP_MSG, &[&flags.to_le_bytes(), sections].concat())
}

pub(crate) fn body_section(body: &DocBuf) -> Vec<u8> {
    [&[0], body.bytes()].concat()
}

pub(crate) fn sequence_section(name: &str, documents: &[DocBuf]) -> Vec<u8> {
    let documents: Vec<u8> = documents.iter().flat_map(|doc| doc.bytes().to_vec()).collect();
    let size = (4 + name.len() + 1 + documents.len()) as i32;
    [&[1], &size.to_le_bytes()[..], name.as_bytes(), &[0], &documents].concat()
}

/// An `OP_MSG` with a right checksum.
pub(crate) fn with_checksum(request_id: i32, flags: u32, body: &DocBuf) -> Vec<u8> {
    let mut bytes = message(request_id, flags | 1, body);
    let length = bytes.len() as i32 + 4;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

pub(crate) fn query(request_id: i32, namespace: &str, count: i32, body: &DocBuf) -> Vec<u8> {
    let content =
        [&[0; 4], namespace.as_bytes(), &[0; 5], &count.to_le_bytes(), body.bytes()].concat();
    framed(request_id, OP_QUERY, &content)
}

/// Packs a message as a client would.
pub(crate) fn compressed(message: &[u8], compressor: u8) -> Vec<u8> {
    let number = |at: usize| i32::from_le_bytes(message[at..at + 4].try_into().unwrap());
    let inside = &message[16..];
    let packed = match compressor {
        1 => snap::raw::Encoder::new().compress_vec(inside).unwrap(),
        2 => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
            encoder.write_all(inside).unwrap();
            encoder.finish().unwrap()
        }
        3 => zstd::bulk::compress(inside, 1).unwrap(),
        _ => inside.to_vec(),
    };
    let size = inside.len() as i32;
    let content =
        [&number(12).to_le_bytes()[..], &size.to_le_bytes(), &[compressor], &packed].concat();
    framed(number(4), OP_COMPRESSED, &content)
}

/// Unpacks a reply as a client would.
pub(crate) fn unpacked(message: &Message) -> (u8, Message) {
    assert_eq!(message.opcode, OP_COMPRESSED);
    let number = |at: usize| i32::from_le_bytes(message.content[at..at + 4].try_into().unwrap());
    let (compressor, packed) = (message.content[8], &message.content[9..]);
    let content = match compressor {
        1 => snap::raw::Decoder::new().decompress_vec(packed).unwrap(),
        2 => {
            let mut content = Vec::new();
            flate2::read::ZlibDecoder::new(packed).read_to_end(&mut content).unwrap();
            content
        }
        3 => zstd::bulk::decompress(packed, number(4) as usize).unwrap(),
        _ => packed.to_vec(),
    };
    assert_eq!(content.len(), number(4) as usize);
    let (request_id, response_to) = (message.request_id, message.response_to);
    (compressor, Message { request_id, response_to, opcode: number(0), content })
}

/// Waits for something that takes a moment.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
