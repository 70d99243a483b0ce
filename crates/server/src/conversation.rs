//! Turns a message into a command, and its result into a reply.
//!
//! `connection` finds the messages and has the time limits; the engine runs the commands. This file
//! decides which errors are answered, which replies are compressed or omitted, and sends streams of
//! replies to one request.

use crate::Core;
use crate::backend::{Call, LOGIN_FIELDS, Route};
use crate::buffer::BUFFER_KEEP_BYTES;
use crate::channel::Channel;
use crate::ending::Ending;
use crate::link::Activity;
use crate::wire::header::{Header, OP_MSG, OP_QUERY};
use crate::wire::op_compressed::{Compressor, Packer};
use crate::wire::op_msg::{CHECKSUM_PRESENT, EXHAUST_ALLOWED, Frame, MORE_TO_COME};
use crate::wire::op_query::Refused;
use crate::wire::{Content, ProtocolError, Rejected, error_body, op_msg, op_query};
use access::x509::Certificate;
use motifdb::{Client, ClientCertificate, Flow, Handling, Request, Share, Waiting};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use value::{DocBuf, Error, RawDoc};

/// The part of a connection that runs commands and writes replies.
pub(crate) struct Conversation {
    core: Arc<Core>,
    /// The channel to the client; `connection` reads from it.
    pub(crate) channel: Channel,
    client: Client,
    /// What runs the commands in place of the engine.
    route: Option<Box<dyn Route>>,
    /// Whether the last command was a `hello`, which the engine answers.
    greets: bool,
    reply: Vec<u8>,
    packer: Option<Box<Packer>>,
    last_reply_id: i32,
    /// Memory reserved for a large reply, from the budget of all operations.
    share: Share,
    /// The request that is answered later.
    pending: Option<Pending>,
    /// Whether the connection is served in the background, where a waiting thread gives up its slot.
    pub(crate) in_background: bool,
}

/// A whole message, unpacked.
pub(crate) struct Incoming<'a> {
    pub(crate) header: Header,
    /// All its bytes, header included.
    pub(crate) message: &'a [u8],
    /// The compressor that the client used.
    pub(crate) compressor: Option<Compressor>,
    pub(crate) content: Content,
}

impl Incoming<'_> {
    /// Whether it is a valid command that was fully validated.
    pub(crate) fn is_valid(&self) -> bool {
        self.header.opcode == OP_MSG
            && Frame::parse(self.message).is_ok_and(|frame| frame.sections(self.content).is_ok())
    }
}

/// A request that is answered later.
#[derive(Clone, Copy)]
struct Pending {
    /// The header that the reply refers to.
    answered: Header,
    flags: u32,
    compressor: Option<Compressor>,
    due: Instant,
}

/// What a connection with a request that is answered later waits for.
pub(crate) enum Wait {
    /// For the time of the reply, or the end of the connection.
    Reply,
    /// For this time, whatever the client sends.
    Pause(Duration),
}

/// What follows a reply.
type Answered = Result<(), Ending>;

impl Conversation {
    pub(crate) fn new(
        core: Arc<Core>,
        channel: Channel,
        client: Client,
        route: Option<Box<dyn Route>>,
    ) -> Conversation {
        let share = core.engine.memory().share();
        Conversation {
            core,
            channel,
            client,
            route,
            greets: false,
            reply: Vec::new(),
            packer: None,
            last_reply_id: 0,
            share,
            pending: None,
            in_background: false,
        }
    }

    /// Informs the engine of the encryption and the client's certificate.
    pub(crate) fn opened(&mut self) {
        let (Some(secure), Some(tls)) = (self.channel.secure(), &self.core.options.tls) else {
            return;
        };
        let (version, cipher) = (secure.version(), secure.cipher());
        let certificate = secure.client_certificate().and_then(Certificate::parse);
        let link = self.channel.link();
        let (id, client) = (link.id(), link.remote());
        let subject = certificate.as_ref().map(|certificate| certificate.subject.to_string());
        tracing::debug!(connection = id, %client, version, cipher, subject, "connection encrypted");
        let network = self.core.engine.network();
        let counter = if version == "1.3" { &network.tls_1_3 } else { &network.tls_1_2 };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(name) = secure.called() {
            self.client.called(name);
        }
        let Some(certificate) = certificate.filter(|found| !found.subject.is_empty()) else {
            return;
        };
        let is_member = certificate.subject.is_member_with(&tls.identity().subject);
        let subject = certificate.subject.to_string();
        self.client.certified(ClientCertificate { subject, is_member });
    }

    /// Whether the client must log in and has not.
    pub(crate) fn must_log_in(&self) -> bool {
        self.core.options.authenticate && self.client.slot().user.lock().is_none()
    }

    /// Frees the buffers that only an active connection needs.
    pub(crate) fn release_memory(&mut self) {
        self.reply = Vec::new();
        self.packer = None;
        self.channel.release_memory();
        self.share.shrink(0);
    }

    /// Runs a whole message and sends the reply, compressed like the request.
    pub(crate) fn answer(&mut self, incoming: &Incoming<'_>) -> Answered {
        self.core.engine.network().requests.fetch_add(1, Ordering::Relaxed);
        let result = match incoming.header.opcode {
            OP_MSG => self.answer_message(incoming),
            OP_QUERY => self.answer_query(incoming),
            opcode => Err(ProtocolError::new(format!("unsupported opcode {opcode}")).into()),
        };
        self.channel.link().set_activity(Activity::Waiting);
        if self.reply.capacity() > BUFFER_KEEP_BYTES {
            self.reply = Vec::new();
        }
        if let Some(packer) = &mut self.packer {
            packer.shrink(BUFFER_KEEP_BYTES);
        }
        self.share.shrink(self.reply.capacity());
        result
    }

    fn answer_message(&mut self, incoming: &Incoming<'_>) -> Answered {
        let &Incoming { header, message, compressor, content } = incoming;
        let frame = Frame::parse(message)?;
        let silent = frame.flags & MORE_TO_COME != 0;
        let flags = frame.flags & CHECKSUM_PRESENT;
        op_msg::begin_reply(&mut self.reply);
        let sections = match frame.sections(content) {
            Ok(sections) => sections,
            Err(Rejected::Protocol(error)) => return Err(error.into()),
            Err(Rejected::Command(error)) => {
                self.refuse(&error);
                return self.send_message(header, flags, compressor, silent);
            }
        };
        let compressor = compressor.filter(|_| handling(sections.body).compressible);
        let request = Request {
            body: sections.body,
            sequences: &sections.sequences,
            exhaust_allowed: frame.flags & EXHAUST_ALLOWED != 0 && !silent,
            waiting: if silent { Waiting::Impossible } else { Waiting::Possible },
        };
        let mut flow =
            self.run(&Call { request: &request, message: Some(message), is_silent: silent });
        if flow == Flow::Abort {
            return Err(Ending::Ordinary);
        }
        if let Flow::Later(time) = flow {
            let due = Instant::now() + time;
            self.pending = Some(Pending { answered: header, flags, compressor, due });
            return Ok(());
        }
        if flow != Flow::Exhaust || silent {
            self.send_message(header, flags, compressor, silent)?;
        } else {
            // Each reply refers to the previous one, the first to the request.
            let mut previous = header;
            while flow == Flow::Exhaust {
                self.send_message(previous, flags | MORE_TO_COME, compressor, false)?;
                previous.request_id = self.last_reply_id;
                if self.channel.link().is_closed_by_client() || self.core.is_stopping() {
                    return Err(Ending::Ordinary);
                }
                op_msg::begin_reply(&mut self.reply);
                flow = self.run_more();
                if flow == Flow::Abort {
                    return Err(Ending::Ordinary);
                }
            }
            self.send_message(previous, flags, compressor, false)?;
        }
        end_of(flow)
    }

    /// When a request is to be answered that waits.
    pub(crate) fn reply_due(&self) -> Option<Instant> {
        self.pending.map(|pending| pending.due)
    }

    /// Answers the request that waits, if there is one and its time has come. Returns what to wait
    /// for next, if there is such a request afterwards.
    pub(crate) fn answer_pending(&mut self) -> Result<Option<Wait>, Ending> {
        let Some(pending) = self.pending else { return Ok(None) };
        if self.channel.link().is_closed_by_client() {
            return Err(Ending::Ordinary);
        }
        let now = Instant::now();
        if now < pending.due {
            // The client sent something. It is read after the reply, as all that it sends.
            return Ok(Some(Wait::Pause(pending.due.saturating_duration_since(now))));
        }
        self.pending = None;
        op_msg::begin_reply(&mut self.reply);
        self.channel.link().set_activity(Activity::Watching);
        let flow = self.run_more();
        self.channel.link().set_activity(Activity::Waiting);
        let Pending { answered, flags, compressor, .. } = pending;
        match flow {
            Flow::Abort => Err(Ending::Ordinary),
            // Each reply of a stream refers to the previous one.
            Flow::Later(time) => {
                self.send_message(answered, flags | MORE_TO_COME, compressor, false)?;
                let answered = Header { request_id: self.last_reply_id, ..answered };
                self.pending = Some(Pending { answered, due: now + time, ..pending });
                Ok(Some(Wait::Reply))
            }
            flow => {
                self.send_message(answered, flags, compressor, false)?;
                end_of(flow).map(|()| None)
            }
        }
    }

    fn answer_query(&mut self, incoming: &Incoming<'_>) -> Answered {
        let &Incoming { header, message, mut compressor, .. } = incoming;
        let mut flow = Flow::Done;
        match op_query::parse(message) {
            Ok(query) => {
                op_query::begin_reply(&mut self.reply);
                let body = query.body.as_doc();
                compressor = compressor.filter(|_| handling(body).compressible);
                let request = Request::new(body);
                flow = self.run(&Call { request: &request, message: None, is_silent: false });
                if flow == Flow::Abort {
                    return Err(Ending::Ordinary);
                }
            }
            Err(Refused::Rejected(Rejected::Protocol(error))) => return Err(error.into()),
            Err(Refused::Rejected(Rejected::Command(error))) => {
                op_query::begin_reply(&mut self.reply);
                self.refuse(&error);
            }
            Err(Refused::Collection) => {
                let id = self.next_reply_id();
                op_query::refuse_collection(&mut self.reply, id, header.request_id);
                return self.send(compressor);
            }
        }
        let id = self.next_reply_id();
        op_query::finish_reply(&mut self.reply, id, header.request_id);
        self.send(compressor)?;
        end_of(flow)
    }

    /// Runs a command and appends its reply behind the prefix in the buffer.
    fn run(&mut self, call: &Call<'_>) -> Flow {
        self.channel.link().set_activity(activity_of(call.request.body));
        let Conversation { client, route, reply, greets, .. } = self;
        // Only `hello` may wait for a change.
        *greets = handling(call.request.body).waits;
        guarded(reply, |reply| match route {
            None => client.run(call.request, reply),
            Some(route) if *greets => greet(client, &mut **route, call.request, reply),
            Some(route) => route.run(call, reply),
        })
    }

    /// Appends the next reply to the last command.
    fn run_more(&mut self) -> Flow {
        let Conversation { client, route, reply, greets, .. } = self;
        guarded(reply, |reply| match route {
            Some(route) if !*greets => route.run_more(reply),
            Some(route) => {
                let start = reply.len();
                let flow = client.run_more(reply);
                if reply.len() > start {
                    route.greet(RawDoc::empty(), reply, start);
                }
                flow
            }
            None => client.run_more(reply),
        })
    }

    fn refuse(&mut self, error: &Error) {
        tracing::debug!(
            connection = self.channel.link().id(),
            code = error.code().0,
            "message refused"
        );
        self.reply.extend_from_slice(error_body(error).bytes());
    }

    fn send_message(
        &mut self,
        answered: Header,
        flags: u32,
        compressor: Option<Compressor>,
        silent: bool,
    ) -> Answered {
        if silent {
            return Ok(());
        }
        let id = self.next_reply_id();
        op_msg::finish_reply(&mut self.reply, id, answered.request_id, flags);
        self.send(compressor)
    }

    fn send(&mut self, compressor: Option<Compressor>) -> Answered {
        let mut bytes = &self.reply[..];
        if let Some(compressor) = compressor {
            let packer = self.packer.get_or_insert_default();
            bytes = packer.pack(&self.reply, compressor).unwrap_or(&self.reply);
        }
        self.share.take(self.reply.capacity());
        let waits = self.in_background && !self.channel.link().has_room_for(bytes.len());
        let _aside = waits.then(|| self.core.background.begin_wait());
        self.channel.send(bytes, &self.core.options)?;
        self.core.engine.network().bytes_out.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn next_reply_id(&mut self) -> i32 {
        self.last_reply_id = self.last_reply_id.wrapping_add(1);
        self.last_reply_id
    }
}

/// Runs a command. A panic becomes an error reply and does not end the connection.
fn guarded(reply: &mut Vec<u8>, command: impl FnOnce(&mut Vec<u8>) -> Flow) -> Flow {
    let prefix = reply.len();
    let outcome = catch_unwind(AssertUnwindSafe(|| command(reply)));
    outcome.unwrap_or_else(|_| {
        tracing::error!("a command panicked");
        reply.truncate(prefix);
        let error = Error::internal("the command failed because of a bug in the server");
        reply.extend_from_slice(error_body(&error).bytes());
        Flow::Done
    })
}

/// Answers a `hello` of a client whose commands take a route: the engine knows the connection, the
/// route what it leads to.
fn greet(
    client: &mut Client,
    route: &mut dyn Route,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) -> Flow {
    let body = DocBuf::build(|out| {
        for (name, value) in request.body {
            if !LOGIN_FIELDS.contains(&name) {
                out.raw(name, value);
            }
        }
    });
    let start = reply.len();
    let flow = client.run(&Request { body: body.as_doc(), ..*request }, reply);
    if reply.len() > start {
        route.greet(request.body, reply, start);
    }
    flow
}

fn end_of(flow: Flow) -> Answered {
    if flow == Flow::Close { Err(Ending::Ordinary) } else { Ok(()) }
}

/// How the command of a request is executed.
fn handling(body: RawDoc<'_>) -> Handling {
    motifdb::handling(body.first().map_or("", |(name, _)| name))
}

fn activity_of(body: RawDoc<'_>) -> Activity {
    match handling(body) {
        Handling { waits: true, .. } => Activity::Watching,
        Handling { reads: true, .. } => Activity::Reading,
        _ => Activity::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_command_is_answered_with_an_internal_error() {
        let mut reply = vec![1, 2, 3];
        let flow = guarded(&mut reply, |reply| {
            reply.extend_from_slice(&[9; 100]);
            panic!("on purpose");
        });
        assert_eq!(flow, Flow::Done);
        let doc = value::validate::validate(&reply[3..], 10).expect("a document");
        assert_eq!(doc.get("code").and_then(|v| v.as_i64_exact()), Some(1));
        assert_eq!(doc.get("ok").and_then(|v| v.as_f64()), Some(0.0));
    }
}
