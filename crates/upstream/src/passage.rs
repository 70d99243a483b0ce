//! Runs the commands of one client on the members of the cluster.
//!
//! A client that has not logged in shares the connections of its members with others: each command
//! takes one and gives it back with the reply. A client that logs in has a connection of its own to
//! the primary from then on, with its own rights.

use crate::calls::{self, Handling};
use crate::cluster::Cluster;
use crate::failure;
use crate::frame::{
    CHECKSUM_PRESENT, MORE_TO_COME, body_of, cursor_of, flags_of, with_cursor, without_checksum,
};
use crate::member::{Connection, Member};
use crate::selection::Selection;
use motifdb::Flow;
use parking_lot::Mutex;
use server::{Call, Interrupter, LOGIN_FIELDS, Route};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result, Val};

/// The route of one client.
pub(crate) struct Passage {
    cluster: Arc<Cluster>,
    /// What the client says of itself.
    metadata: Option<DocBuf>,
    /// The client's own connection, once it has begun to log in.
    login: Option<Leased>,
    /// The connection of a write without a reply: what follows must not overtake it.
    held: Option<Leased>,
    /// The connection that sends several replies to one request.
    streaming: Option<Leased>,
    /// The socket that is waited for.
    waiting: Arc<Mutex<Option<Arc<TcpStream>>>>,
}

/// A connection that serves this client.
struct Leased {
    member: Arc<Member>,
    connection: Connection,
}

/// The cursors of a `killCursors` that are on one member.
struct Part {
    member: Arc<Member>,
    /// Their ids there, and those that the client has.
    ids: Vec<(i64, i64)>,
}

impl Passage {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Passage {
        Passage {
            cluster,
            metadata: None,
            login: None,
            held: None,
            streaming: None,
            waiting: Arc::default(),
        }
    }

    /// Runs a command and appends its reply.
    fn pass(&mut self, call: &Call<'_>, reply: &mut Vec<u8>) -> Result<Flow> {
        let body = call.request.body;
        let handling = calls::handling(body);
        if let Handling::Refused(reason) = handling {
            return Err(calls::refusal(reason));
        }
        if handling == Handling::Login && self.login.is_none() {
            self.login = Some(self.lease_for_login(&[])?.0);
        }
        if self.login.is_some() {
            return self.pass_logged_in(call, handling, reply);
        }
        let framed;
        let mut message = call.message.unwrap_or_default();
        if call.message.is_none() {
            framed = client::frame(1, 0, body);
            message = &framed;
        }
        match handling {
            Handling::GetMore => {
                let shown = body.first().and_then(|(_, id)| id.get().as_i64_exact());
                let found =
                    shown.and_then(|shown| Some((shown, self.cluster.cursors.find(shown)?)));
                let Some((shown, (member, id))) = found else {
                    return self.pass_selected(&Self::primary(body), call, message, reply);
                };
                if id == shown {
                    return self.pass_to(&member, call, message, reply);
                }
                let renamed = with_cursor(body, id);
                self.pass_to(&member, call, &client::frame(1, 0, renamed.as_doc()), reply)
            }
            Handling::KillCursors => self.kill_cursors(body, call, message, reply),
            Handling::Read => self.pass_selected(&Selection::of(body), call, message, reply),
            _ => self.pass_selected(&Self::primary(body), call, message, reply),
        }
    }

    /// Selects the primary, or the router to which the command's transaction is pinned.
    fn primary(body: RawDoc<'_>) -> Selection {
        let selection = Selection::primary();
        match body.find("lsid").filter(|_| calls::is_in_transaction(body)) {
            None => selection,
            Some(session) => {
                let mut hasher = DefaultHasher::new();
                session.bytes.hash(&mut hasher);
                selection.pinned_to(hasher.finish())
            }
        }
    }

    /// A connection to a member that fits. Members that cannot be reached are left out.
    fn lease_selected(&mut self, selection: &Selection, body: RawDoc<'_>) -> Result<Leased> {
        let limit = body.get("maxTimeMS").and_then(Val::as_i64_exact);
        let limit = limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
        let deadline = self.cluster.deadline(limit.map(Duration::from_millis));
        loop {
            let member = self.cluster.select(selection, deadline)?.member;
            match self.lease(&member) {
                Ok(leased) => return Ok(leased),
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(error) => self.cluster.report_trouble(&member, error.message().to_owned()),
            }
        }
    }

    /// A connection to a member: the one that is held, else a shared one.
    fn lease(&mut self, member: &Arc<Member>) -> Result<Leased> {
        match self.held.take() {
            Some(held) if Arc::ptr_eq(&held.member, member) => return Ok(held),
            Some(held) => held.member.give_back(held.connection),
            None => {}
        }
        Ok(Leased { member: Arc::clone(member), connection: member.connection()? })
    }

    /// Runs a command on a member that fits.
    fn pass_selected(
        &mut self,
        selection: &Selection,
        call: &Call<'_>,
        message: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Flow> {
        let leased = self.lease_selected(selection, call.request.body)?;
        self.pass_over(leased, call, message, reply)
    }

    /// Runs a command on this member.
    fn pass_to(
        &mut self,
        member: &Arc<Member>,
        call: &Call<'_>,
        message: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Flow> {
        let leased = self.lease(member)?;
        self.pass_over(leased, call, message, reply)
    }

    /// Runs a command over a shared connection.
    fn pass_over(
        &mut self,
        mut leased: Leased,
        call: &Call<'_>,
        message: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Flow> {
        let more = match self.exchange(&mut leased, call.is_silent, message, reply) {
            Ok(more) => more,
            Err(error) => {
                // What is known of the member must be true when the client tries again.
                self.cluster.check(&leased.member);
                return Err(error);
            }
        };
        if call.is_silent {
            self.held = Some(leased);
            return Ok(Flow::Done);
        }
        if more {
            self.streaming = Some(leased);
            return Ok(Flow::Exhaust);
        }
        leased.member.give_back(leased.connection);
        Ok(Flow::Done)
    }

    /// Runs a command on the client's own connection.
    fn pass_logged_in(
        &mut self,
        call: &Call<'_>,
        handling: Handling,
        reply: &mut Vec<u8>,
    ) -> Result<Flow> {
        let body = call.request.body;
        if handling == Handling::Read && Selection::of(body).excludes_primary() {
            return Err(Error::new(
                Code::FAILED_TO_SATISFY_READ_PREFERENCE,
                "a connection that has logged in reads from the primary only; \
                 use the read preference secondaryPreferred or primary",
            ));
        }
        let framed;
        let mut message = call.message.unwrap_or_default();
        if call.message.is_none() {
            framed = client::frame(1, 0, body);
            message = &framed;
        }
        let Some(mut login) = self.login.take() else { return Ok(Flow::Abort) };
        match self.exchange(&mut login, call.is_silent, message, reply) {
            Ok(more) => {
                self.login = Some(login);
                Ok(if more { Flow::Exhaust } else { Flow::Done })
            }
            Err(error) => {
                self.cluster.check(&login.member);
                // The login is lost with the connection: the client must log in again.
                failure::write(body, &error, reply);
                Ok(Flow::Close)
            }
        }
    }

    /// Sends a message and appends the body of its reply. Returns whether more replies follow.
    fn exchange(
        &self,
        leased: &mut Leased,
        is_silent: bool,
        message: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<bool> {
        let Leased { member, connection } = leased;
        let lost = |error: Error| failure::lost(member.address(), &error);
        let without;
        let mut message = message;
        if flags_of(message) & CHECKSUM_PRESENT != 0 {
            without = without_checksum(message);
            message = &without;
        }
        connection.client.send(message).map_err(lost)?;
        if is_silent {
            return Ok(false);
        }
        self.receive(leased, reply)
    }

    /// Appends the body of the next reply. Returns whether more follow.
    fn receive(&self, leased: &mut Leased, reply: &mut Vec<u8>) -> Result<bool> {
        let Leased { member, connection } = leased;
        *self.waiting.lock() = Some(Arc::clone(&connection.socket));
        let received = connection.client.receive_in_place();
        *self.waiting.lock() = None;
        let received = received.map_err(|error| failure::lost(member.address(), &error))?;
        let start = reply.len();
        let flags = flags_of(received);
        reply.extend_from_slice(body_of(received).ok_or_else(|| {
            let text = format!("{} sent what is not a reply", member.address());
            Error::new(Code::PROTOCOL_ERROR, text)
        })?);
        self.note_cursor(member, reply, start);
        Ok(flags & MORE_TO_COME != 0)
    }

    /// Takes note of the cursor of a reply, and gives it another id if its own one is taken.
    fn note_cursor(&self, member: &Arc<Member>, reply: &mut [u8], start: usize) {
        let Some(bytes) = reply.get_mut(start..) else { return };
        let Some((id, at)) = cursor_of(bytes) else { return };
        if id == 0 {
            return;
        }
        let shown = self.cluster.cursors.add(member, id);
        if shown != id
            && let Some(slot) = bytes.get_mut(at..at + 8)
        {
            slot.copy_from_slice(&shown.to_le_bytes());
        }
    }

    /// Closes cursors, which may be on several members.
    fn kill_cursors(
        &mut self,
        body: RawDoc<'_>,
        call: &Call<'_>,
        message: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Flow> {
        let primary = self.lease_selected(&Self::primary(body), body)?;
        let Leased { member: primary, connection } = primary;
        primary.give_back(connection);
        let ids = body.get("cursors").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        let ids = ids.iter().filter_map(|(_, id)| id.get().as_i64_exact());
        let mut parts: Vec<Part> = Vec::new();
        for shown in ids {
            let found = self.cluster.cursors.find(shown);
            let (member, id) = found.unwrap_or_else(|| (Arc::clone(&primary), shown));
            self.cluster.cursors.remove(shown);
            match parts.iter_mut().find(|part| Arc::ptr_eq(&part.member, &member)) {
                Some(part) => part.ids.push((id, shown)),
                None => parts.push(Part { member, ids: vec![(id, shown)] }),
            }
        }
        let is_plain = parts.iter().flat_map(|part| &part.ids).all(|(id, shown)| id == shown);
        match parts.pop() {
            None => self.pass_to(&primary, call, message, reply),
            Some(part) if parts.is_empty() && is_plain => {
                self.pass_to(&part.member, call, message, reply)
            }
            Some(last) => {
                parts.push(last);
                self.kill_parts(body, call, &parts, reply)
            }
        }
    }

    /// Runs a `killCursors` for each member and appends one reply.
    fn kill_parts(
        &mut self,
        body: RawDoc<'_>,
        call: &Call<'_>,
        parts: &[Part],
        reply: &mut Vec<u8>,
    ) -> Result<Flow> {
        const LISTS: [&str; 4] =
            ["cursorsKilled", "cursorsNotFound", "cursorsAlive", "cursorsUnknown"];
        let mut lists: [Vec<i64>; 4] = Default::default();
        for Part { member, ids } in parts {
            let command = DocBuf::build(|out| {
                for (name, value) in body {
                    if name == "cursors" {
                        out.array(name, |list| {
                            ids.iter().for_each(|(id, _)| list.push(Val::Int64(*id)));
                        });
                    } else {
                        out.raw(name, value);
                    }
                }
            });
            let mut part = Vec::new();
            let message = client::frame(1, 0, command.as_doc());
            self.pass_to(member, call, &message, &mut part)?;
            if call.is_silent {
                continue;
            }
            let answer = RawDoc::new(&part);
            if !answer.get("ok").is_some_and(Val::truthy) {
                reply.extend_from_slice(&part);
                return Ok(Flow::Done);
            }
            for (name, list) in LISTS.iter().zip(&mut lists) {
                let found = answer.get(name).and_then(Val::as_array).unwrap_or(RawDoc::empty());
                for (_, id) in found {
                    let id = id.get().as_i64_exact();
                    let shown = ids.iter().find(|(inner, _)| Some(*inner) == id);
                    list.extend(shown.map(|(_, shown)| *shown).or(id));
                }
            }
        }
        value::writer::write_doc(reply, |out| {
            for (name, list) in LISTS.iter().zip(&lists) {
                out.array(name, |out| list.iter().for_each(|id| out.push(Val::Int64(*id))));
            }
            out.f64("ok", 1.0);
        });
        Ok(Flow::Done)
    }

    /// A connection to the primary for a login of this client; its `hello` has the given fields.
    fn lease_for_login(&self, fields: &[(&str, RawVal<'_>)]) -> Result<(Leased, DocBuf)> {
        let deadline = self.cluster.deadline(None);
        let member = self.cluster.select(&Selection::primary(), deadline)?.member;
        let metadata = self.metadata.as_ref().map(DocBuf::as_doc);
        let (connection, hello) = member.connect_with(metadata, fields)?;
        Ok((Leased { member, connection }, hello))
    }
}

impl Route for Passage {
    fn run(&mut self, call: &Call<'_>, reply: &mut Vec<u8>) -> Flow {
        let start = reply.len();
        match self.pass(call, reply) {
            Ok(flow) => flow,
            Err(error) => {
                reply.truncate(start);
                failure::write(call.request.body, &error, reply);
                Flow::Done
            }
        }
    }

    fn greet(&mut self, hello: RawDoc<'_>, reply: &mut Vec<u8>, start: usize) {
        if let Some(metadata) = hello.get("client").and_then(Val::as_doc) {
            self.metadata = Some(DocBuf::from(metadata));
        }
        let fields: Vec<_> =
            LOGIN_FIELDS.iter().filter_map(|name| Some((*name, hello.find(name)?))).collect();
        let mut answer = DocBuf::new();
        if !fields.is_empty() {
            match self.lease_for_login(&fields) {
                Ok((leased, hello)) => {
                    self.login = Some(leased);
                    answer = hello;
                }
                // The client logs in without what the answer would have said.
                Err(error) => tracing::debug!(error = error.message(), "no answer about a login"),
            }
        }
        let version = self.cluster.wire_version();
        let known = DocBuf::from(RawDoc::new(reply.get(start..).unwrap_or(&[])));
        reply.truncate(start);
        value::writer::write_doc(reply, |out| {
            for (name, value) in known.as_doc() {
                match (name, version) {
                    // Those of the engine are not those of the cluster.
                    ("$clusterTime" | "operationTime", _) => {}
                    ("maxWireVersion", Some(version)) => {
                        out.i32(name, version);
                    }
                    _ => {
                        out.raw(name, value);
                    }
                }
            }
            for name in LOGIN_FIELDS {
                if let Some(value) = answer.as_doc().find(name) {
                    out.raw(name, value);
                }
            }
            // Drivers hand it to the members, which check its signature.
            if let Some(time) = &self.cluster.view().cluster_time {
                out.doc("$clusterTime", |out| {
                    out.extend(time.as_doc());
                });
            }
        });
    }

    fn run_more(&mut self, reply: &mut Vec<u8>) -> Flow {
        let (mut leased, is_login) = match (self.streaming.take(), self.login.take()) {
            (Some(leased), login) => {
                self.login = login;
                (leased, false)
            }
            (None, Some(login)) => (login, true),
            (None, None) => return Flow::Abort,
        };
        match self.receive(&mut leased, reply) {
            Err(error) => {
                failure::write(RawDoc::empty(), &error, reply);
                Flow::Close
            }
            Ok(more) => {
                if is_login {
                    self.login = Some(leased);
                } else if more {
                    self.streaming = Some(leased);
                } else {
                    leased.member.give_back(leased.connection);
                }
                if more { Flow::Exhaust } else { Flow::Done }
            }
        }
    }

    fn interrupter(&self) -> Interrupter {
        let waiting = Arc::clone(&self.waiting);
        Arc::new(move || {
            if let Some(socket) = waiting.lock().as_deref() {
                // The member notices, and ends the operation.
                if let Err(error) = socket.shutdown(Shutdown::Both) {
                    tracing::debug!(%error, "the connection to a member was already closed");
                }
            }
        })
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.member.give_back(held.connection);
        }
    }
}
