//! One client: reads its messages, runs them, writes the replies.
//!
//! `serve` runs on a thread of `pool` until the client is idle; then the connection is parked
//! (`parking`) without a thread and buffers. The `Lane` depends on whether the client has logged in
//! and on the size of its message; in the background a thread never waits for a client. Framing is
//! in `wire`, commands are in the engine.

use crate::Core;
use crate::allowance::Allowance;
use crate::backend::Route;
use crate::buffer::{BUFFER_KEEP_BYTES, Front, ReadBuffer};
use crate::channel::Channel;
use crate::conversation::{Conversation, Incoming, Wait};
use crate::ending::Ending;
use crate::lane::Lane;
use crate::link::{Link, is_passing};
use crate::secure::{Broken, ReadOutcome};
use crate::tls::TlsMode;
use crate::wire::header::{HEADER_BYTES, Header, OP_COMPRESSED};
use crate::wire::op_compressed::{Compressor, claimed_bytes, unpack};
use crate::wire::{Content, ProtocolError};
use mio::Token;
use motifdb::{Client, Share};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a thread waits for the next message before the connection is parked.
const SHORT_LINGER: Duration = Duration::from_millis(10);
/// How soon a connection that waits for memory checks again.
const MEMORY_PAUSE: Duration = Duration::from_millis(50);
/// A message of this size is large: reading, decompressing and validating it takes long.
const LARGE_BYTES: usize = 1024 * 1024;

/// A client's connection.
pub(crate) struct Connection {
    core: Arc<Core>,
    link: Arc<Link>,
    conversation: Conversation,
    input: ReadBuffer,
    /// The last compressed message, decompressed.
    unpacked: Vec<u8>,
    /// Since when the message at the front of `input` is incomplete.
    started: Option<Instant>,
    /// When it was accepted.
    accepted: Instant,
    /// When it became idle last; `None` for a new connection.
    parked: Option<Instant>,
    /// The current read timeout of the socket; zero before the first read.
    linger: Duration,
    /// The memory of its buffers, from the budget of all operations.
    share: Share,
    /// Since when it waits for memory.
    waiting: Option<Instant>,
    /// The rate limit before it has logged in.
    allowance: Allowance,
    /// Whether it has not sent a whole message yet.
    new: bool,
    /// The lane that currently serves it.
    served_in: Lane,
    /// The result of preparing the large message at the front.
    prepared: Option<Prepared>,
}

/// A message that can be run: the one at the front of the input or, if that is compressed, the
/// content of `unpacked`.
#[derive(Clone, Copy)]
struct Prepared {
    header: Header,
    compressor: Option<Compressor>,
    content: Content,
}

/// What happens to a connection after its thread has served it.
enum AfterServing {
    /// Wait for bytes without a thread.
    Park,
    /// Wait for a thread: there are messages left, but others are waiting.
    Queue,
    /// Wait for this time, even if bytes arrive.
    Later(Duration),
}

const LATE: Ending = Ending::Late("the rest of a message did not come");
const LATE_OPENING: Ending = Ending::Late("the TLS handshake did not come to its end");

impl Connection {
    pub(crate) fn new(
        core: Arc<Core>,
        link: Arc<Link>,
        client: Client,
        route: Option<Box<dyn Route>>,
    ) -> Connection {
        let share = core.engine.memory().share();
        let channel = Channel::new(Arc::clone(&link));
        let conversation = Conversation::new(Arc::clone(&core), channel, client, route);
        Connection {
            core,
            link,
            conversation,
            input: ReadBuffer::default(),
            unpacked: Vec::new(),
            started: None,
            accepted: Instant::now(),
            parked: None,
            linger: Duration::ZERO,
            share,
            waiting: None,
            allowance: Allowance::new(),
            new: true,
            served_in: Lane::Front,
            prepared: None,
        }
    }

    /// The lane that must serve it.
    pub(crate) fn lane(&self) -> Lane {
        let opening = self.core.options.tls.is_some() && self.conversation.channel.is_opening();
        if opening || self.conversation.must_log_in() {
            Lane::Background
        } else if self.is_large() {
            Lane::Large
        } else {
            Lane::Front
        }
    }

    /// Whether the message at the front is large.
    fn is_large(&self) -> bool {
        self.prepared.is_none() && self.front_bytes() >= LARGE_BYTES
    }

    /// The decompressed size of the message at the front, as far as known.
    fn front_bytes(&self) -> usize {
        match self.input.front() {
            Ok(Front::Part(size)) => size,
            Ok(Front::Message(header, message)) if header.opcode == OP_COMPRESSED => {
                claimed_bytes(message).max(header.length)
            }
            Ok(Front::Message(header, _)) => header.length,
            Err(_) => 0,
        }
    }

    /// Serves the client until it is idle, then parks or closes the connection.
    pub(crate) fn serve(mut self: Box<Connection>, lane: Lane) {
        self.served_in = lane;
        self.conversation.in_background = lane == Lane::Background;
        let core = Arc::clone(&self.core);
        match self.handle_messages() {
            Ok(AfterServing::Park) => {
                self.parked = Some(Instant::now());
                core.parked.park(self);
            }
            // A new thread inherits the priority of its creator, so it is not created here.
            Ok(AfterServing::Queue) if lane != Lane::Front && self.lane() == Lane::Front => {
                core.parked.park_for(self, Duration::ZERO);
            }
            Ok(AfterServing::Queue) => core.submit(self),
            Ok(AfterServing::Later(pause)) => core.parked.park_for(self, pause),
            Err(ending) => self.close(&ending),
        }
    }

    /// Closes a parked connection whose message was not complete in time.
    pub(crate) fn expire(self: Box<Connection>) {
        let ending = self.late();
        self.close(&ending);
    }

    fn late(&self) -> Ending {
        if self.conversation.channel.is_opening() { LATE_OPENING } else { LATE }
    }

    /// When a request is to be answered that waits.
    pub(crate) fn reply_due(&self) -> Option<Instant> {
        self.conversation.reply_due()
    }

    /// Closes a connection that has sent nothing, to make room for another one.
    pub(crate) fn evict(self: Box<Connection>) {
        self.close(&Ending::Late("it said nothing, and there are too many connections"));
    }

    /// Whether it has not sent a whole message yet.
    pub(crate) fn is_new(&self) -> bool {
        self.new
    }

    fn close(self: Box<Connection>, ending: &Ending) {
        let (id, client) = (self.link.id(), self.link.remote());
        match ending {
            Ending::Ordinary => tracing::debug!(connection = id, %client, "connection closed"),
            Ending::Protocol(reason) => {
                tracing::warn!(connection = id, %client, %reason, "connection closed: invalid message");
            }
            Ending::Secure(reason) => {
                tracing::warn!(connection = id, %client, reason, "connection closed: TLS failed");
            }
            Ending::Late(reason) => {
                tracing::info!(connection = id, %client, reason, "connection closed: timeout");
            }
            Ending::Failed(error) => {
                tracing::debug!(connection = id, %client, %error, "connection lost");
            }
        }
    }

    /// The name under which the poll reports this connection.
    pub(crate) fn token(&self) -> Token {
        self.link.token()
    }

    /// The socket, to be polled.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.link.stream().as_raw_fd()
    }

    /// Frees the buffers that only an active connection needs.
    pub(crate) fn release_memory(&mut self) {
        self.input.release();
        if self.prepared.is_none() {
            self.unpacked = Vec::new();
        }
        self.conversation.release_memory();
        self.share.shrink(self.input.capacity().saturating_add(self.unpacked.capacity()));
    }

    /// The deadline of an incomplete message.
    pub(crate) fn message_deadline(&self) -> Option<Instant> {
        if let Some(tls) = &self.core.options.tls
            && self.conversation.channel.is_opening()
        {
            // If TLS is required, an idle new connection is an incomplete handshake.
            let required = tls.mode() == TlsMode::Require;
            let since = if required { Some(self.accepted) } else { self.started };
            if let Some(since) = since {
                return since.checked_add(self.core.options.handshake_timeout);
            }
        }
        let Some(started) = self.started else {
            // A connection that never sends a message is closed after some time.
            let first = self.new.then_some(self.accepted);
            return first?.checked_add(self.core.options.message_timeout);
        };
        let size = match self.input.front() {
            Ok(Front::Part(size)) => size,
            _ => HEADER_BYTES,
        };
        started.checked_add(self.core.options.message_time_limit(size))
    }

    /// Handles messages until there is a reason to stop.
    fn handle_messages(&mut self) -> Result<AfterServing, Ending> {
        if self.reply_due().is_some() {
            if self.core.is_stopping() {
                return Err(Ending::Ordinary);
            }
            match self.conversation.answer_pending()? {
                None => {}
                Some(Wait::Reply) => return Ok(AfterServing::Park),
                Some(Wait::Pause(time)) => return Ok(AfterServing::Later(time)),
            }
        }
        self.set_linger()?;
        let mut handled = 0u32;
        // A connection that was woken by received bytes reads them before it yields to others.
        let mut has_read = false;
        loop {
            if self.core.is_stopping() {
                return Err(Ending::Ordinary);
            }
            if self.conversation.channel.is_undecided() && !self.input.is_empty() {
                let tls = self.core.options.tls.as_deref();
                let decided = self.conversation.channel.decide(tls, &mut self.input);
                decided.map_err(Ending::Secure)?;
            }
            let wanted = match self.input.front() {
                Ok(Front::Message(..)) => {
                    self.started = None;
                    if let Some(next) = self.delay_before()? {
                        return Ok(next);
                    }
                    if self.is_large()
                        && (self.served_in == Lane::Front
                            || self.served_in == Lane::Large && self.prepare()?)
                    {
                        return Ok(AfterServing::Queue);
                    }
                    self.new = false;
                    self.handle()?;
                    if self.reply_due().is_some() {
                        return Ok(AfterServing::Park);
                    }
                    if self.must_not_linger() {
                        let more = matches!(self.input.front(), Ok(Front::Message(..)))
                            || self.conversation.channel.has_pending();
                        return Ok(if more { AfterServing::Queue } else { AfterServing::Park });
                    }
                    handled = handled.saturating_add(1);
                    if handled == 2 {
                        self.linger_for(self.core.options.linger)?;
                    }
                    continue;
                }
                Ok(Front::Part(wanted)) => wanted,
                Err(error) => return Err(self.not_our_protocol(error)),
            };
            let mut slow = false;
            if self.is_midway() {
                slow = self.is_slow()?;
            } else {
                self.started = None;
            }
            if has_read
                && (self.served_in == Lane::Background || slow && self.is_crowded())
                && !self.conversation.channel.has_pending()
            {
                return Ok(AfterServing::Park);
            }
            if wanted > self.core.options.stranger_bytes_max && self.conversation.must_log_in() {
                return Err(ProtocolError::new("a large message before a login").into());
            }
            if self.served_in == Lane::Front && wanted >= LARGE_BYTES {
                return Ok(AfterServing::Queue);
            }
            if let Some(next) = self.hold_memory(self.input.planned(wanted))? {
                return Ok(next);
            }
            has_read = true;
            match self.conversation.channel.receive(&mut self.input, wanted) {
                Ok(ReadOutcome::Bytes(count)) => {
                    self.core.engine.network().bytes_in.fetch_add(count as u64, Ordering::Relaxed);
                }
                // Empty records must not occupy a thread that others wait for.
                Ok(ReadOutcome::Nothing)
                    if (self.served_in == Lane::Background || self.is_crowded())
                        && !self.conversation.channel.has_pending() =>
                {
                    return Ok(AfterServing::Park);
                }
                Ok(ReadOutcome::Nothing) => {}
                Ok(ReadOutcome::Opened) => self.conversation.opened(),
                Ok(ReadOutcome::End) => return Err(self.at_end()),
                // A signal ends the wait like a timeout, because retrying would restart the
                // timeout.
                Err(Broken::Socket(error)) if is_passing(&error) => {
                    self.check_deadline()?;
                    return Ok(AfterServing::Park);
                }
                Err(broken) => return Err(broken.into()),
            }
        }
    }

    /// Whether its thread may not wait for the next message.
    #[inline]
    fn must_not_linger(&self) -> bool {
        self.served_in != Lane::Front || self.core.front.is_crowded()
    }

    /// Whether others wait for its thread.
    fn is_crowded(&self) -> bool {
        self.core.pool(self.served_in).is_crowded()
    }

    /// Whether a message has begun to arrive and is incomplete.
    #[inline]
    fn is_midway(&self) -> bool {
        !self.input.is_empty() || self.conversation.channel.is_midway()
    }

    /// Whether the message at the front must wait: for the rate limit of clients that have not
    /// logged in, or for the memory of its decompressed content.
    fn delay_before(&mut self) -> Result<Option<AfterServing>, Ending> {
        let Ok(Front::Message(header, message)) = self.input.front() else { return Ok(None) };
        let mut inside = 0;
        if header.opcode == OP_COMPRESSED {
            inside = claimed_bytes(message);
        }
        if self.conversation.must_log_in() {
            let options = &self.core.options;
            if inside > options.stranger_bytes_max {
                return Err(ProtocolError::new("a large message before a login").into());
            }
            let pace = options.stranger_messages_per_second;
            if let Err(pause) = self.allowance.take(pace, Instant::now()) {
                return Ok(Some(AfterServing::Later(pause)));
            }
        }
        self.hold_memory(self.input.capacity().saturating_add(inside))
    }

    /// Reserves memory for the buffers; if there is none, the client waits up to a limit.
    fn hold_memory(&mut self, bytes: usize) -> Result<Option<AfterServing>, Ending> {
        if self.share.covers(bytes) {
            self.waiting = None;
            return Ok(None);
        }
        let since = *self.waiting.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.core.options.memory_timeout {
            return Err(Ending::Late("there was no memory for a large message"));
        }
        Ok(Some(AfterServing::Later(MEMORY_PAUSE)))
    }

    /// Whether the message at the front was already incomplete; otherwise starts its timeout.
    fn is_slow(&mut self) -> Result<bool, Ending> {
        if self.started.is_some() {
            self.check_deadline()?;
            return Ok(true);
        }
        self.started = Some(Instant::now());
        self.linger_for(self.core.options.linger)?;
        Ok(false)
    }

    fn check_deadline(&self) -> Result<(), Ending> {
        match self.message_deadline() {
            Some(deadline) if deadline <= Instant::now() => Err(self.late()),
            _ => Ok(()),
        }
    }

    /// Threads wait long only for clients that were active recently. Otherwise a thousand
    /// monitoring connections that send `hello` now and then would occupy hundreds of threads.
    fn set_linger(&mut self) -> io::Result<()> {
        let usual = self.core.options.linger;
        let busy = self.parked.is_some_and(|parked| parked.elapsed() < usual);
        self.linger_for(if busy { usual } else { usual.min(SHORT_LINGER) })
    }

    fn linger_for(&mut self, time: Duration) -> io::Result<()> {
        if self.linger != time {
            self.link.stream().set_read_timeout(Some(time))?;
            self.linger = time;
        }
        Ok(())
    }

    fn at_end(&self) -> Ending {
        if !self.is_midway() {
            Ending::Ordinary
        } else if self.conversation.channel.is_opening() {
            Ending::Secure("the client closed in the middle of the handshake".to_owned())
        } else {
            ProtocolError::new("the client closed in the middle of a message").into()
        }
    }

    /// An HTTP client gets an explanation before the connection is closed.
    fn not_our_protocol(&mut self, error: ProtocolError) -> Ending {
        let unread = self.input.unread();
        if [&b"GET "[..], b"POST", b"HEAD"].iter().any(|method| unread.starts_with(method)) {
            let text = "This is MotifDB. It speaks MongoDB's wire protocol here, not HTTP.\r\n";
            let length = text.len();
            let answer = format!(
                "HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\
                 Content-Length: {length}\r\n\r\n{text}"
            );
            let sent = self.conversation.channel.send(answer.as_bytes(), &self.core.options);
            if let Err(error) = sent {
                tracing::debug!(%error, "cannot answer an HTTP client");
            }
            return ProtocolError::new("the client speaks HTTP").into();
        }
        error.into()
    }

    /// Decompresses and validates the message at the front, so that a thread of normal priority can
    /// run it. A thread of low priority must not, because commands hold locks. Returns false if
    /// there is no command to run; then the reply may be sent here.
    fn prepare(&mut self) -> Result<bool, Ending> {
        let mut prepared = self.unpack_front()?;
        if let Ok(Front::Message(_, message)) = self.input.front()
            && prepared.incoming(message, &self.unpacked).is_valid()
        {
            prepared.content = Content::Validated;
        }
        self.prepared = Some(prepared);
        Ok(prepared.content == Content::Validated)
    }

    /// Decompresses the message at the front if it is compressed.
    fn unpack_front(&mut self) -> Result<Prepared, ProtocolError> {
        let Front::Message(header, message) = self.input.front()? else {
            return Err(ProtocolError::new("a message that is not whole"));
        };
        if header.opcode == OP_COMPRESSED {
            let (header, compressor) = unpack(header, message, &mut self.unpacked)?;
            let compressor = Some(compressor);
            return Ok(Prepared { header, compressor, content: Content::Unknown });
        }
        Ok(Prepared { header, compressor: None, content: Content::Unknown })
    }

    /// Runs the message at the front of the buffer and sends the reply.
    fn handle(&mut self) -> Result<(), Ending> {
        let prepared = match self.prepared.take() {
            Some(prepared) => prepared,
            None => self.unpack_front()?,
        };
        let Ok(Front::Message(header, message)) = self.input.front() else { return Ok(()) };
        let result = self.conversation.answer(&prepared.incoming(message, &self.unpacked));
        self.input.consume(header.length);
        if self.unpacked.capacity() > BUFFER_KEEP_BYTES {
            self.unpacked = Vec::new();
        }
        self.share.shrink(self.input.capacity());
        result
    }
}

impl Prepared {
    /// The message to run: the received one, or its decompressed content.
    fn incoming<'a>(self, message: &'a [u8], unpacked: &'a [u8]) -> Incoming<'a> {
        let Prepared { header, compressor, content } = self;
        let message = if compressor.is_some() { unpacked } else { message };
        Incoming { header, message, compressor, content }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.core.links.remove(&self.link, self.core.engine.network());
    }
}
