//! Following the log by a cursor: change streams, and tailing the oplog.
//!
//! A feed makes events of changes; the stages of the client's pipeline follow it. Both end where
//! the log ends now and go on when they are asked again. The place up to which a client has seen
//! everything is the token of each batch.

use super::event::StreamOptions;
use super::follow::Follower;
use super::split::split;
use super::token::Token;
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::txn::Data;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;
use value::{Code, Error, RawDoc, Result, Val, Writer, limits};

/// Bytes that a document of a reply may have beyond what a stored one may.
const REPLY_EXTRA: usize = 16 * 1024;

/// Where a stream begins.
pub(crate) enum Start {
    /// With what happens from now on.
    Now,
    /// With the first change at or after a time.
    At(u64),
    /// Behind the place of a token.
    After(ResumePoint),
}

/// The place of a token that a client gave back.
pub(crate) struct ResumePoint(Token);

impl ResumePoint {
    /// Reads a token.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn parse(token: RawDoc<'_>) -> Result<ResumePoint> {
        Token::parse(token).map(ResumePoint)
    }

    /// Whether it is the end of a stream.
    pub(crate) fn is_end(&self) -> bool {
        self.0.invalidate
    }
}

/// What the feed and the cursor share.
struct StreamPosition {
    /// The place of the event that was fed last.
    token: Token,
    /// Parts of that event that the client has already.
    parts_seen: u32,
    /// All changes up to this time were looked at.
    seen: u64,
    /// Whether nothing can follow.
    ended: bool,
}

/// Makes events of changes.
pub(crate) struct Feed {
    data: Weak<Data>,
    follower: Follower,
    wanted: StreamOptions,
    /// Events up to here are not fed.
    after: Token,
    /// Whether the event of that place was not met yet, which must be one of this stream.
    unmet: bool,
    /// The event that ends the stream, when it is due.
    ending: Option<(Vec<u8>, Token)>,
    state: Arc<Mutex<StreamPosition>>,
}

impl Feed {
    /// Begins to follow the log.
    ///
    /// # Errors
    /// ChangeStreamHistoryLost, or when the store fails.
    pub(crate) fn open(
        data: &Data,
        shared: Weak<Data>,
        wanted: StreamOptions,
        start: &Start,
    ) -> Result<Feed> {
        let after = match start {
            Start::Now => Token::before(data.changes.newest_durable(&*data.store)? + 1),
            Start::At(time) => Token::before(*time),
            Start::After(place) => place.0,
        };
        // A client that knows of a time has seen it here, or on a server before a crash.
        data.clock.advance_to(after.time);
        let follower = Follower::starting_at(data, after.time)?;
        let state =
            StreamPosition { token: after, parts_seen: 0, seen: follower.seen, ended: false };
        let state = Arc::new(Mutex::new(state));
        let unmet = matches!(start, Start::After(_)) && after.event && !after.invalidate;
        Ok(Feed { data: shared, follower, wanted, after, unmet, ending: None, state })
    }

    fn feed(&mut self, token: Token, bytes: Vec<u8>, parts_seen: u32) -> Doc {
        let mut state = self.state.lock();
        state.token = token;
        state.parts_seen = parts_seen;
        state.ended |= token.invalidate;
        Doc::Made(bytes)
    }
}

impl Stream for Feed {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if let Some((bytes, token)) = self.ending.take() {
            return Ok(Some(self.feed(token, bytes, 0)));
        }
        let Some(data) = self.data.upgrade() else { return Ok(None) };
        if self.state.lock().ended {
            return Ok(None);
        }
        while let Some(step) = self.follower.next(&data)? {
            op.check()?;
            let Some(change) = self.follower.change(&step) else { continue };
            let token = Token::of(change.time, change.place);
            // Of an event that was split the client may have the first parts only.
            let split = self.after.part > 0 && token == Token { part: 0, ..self.after };
            if token < self.after && !split && token.time < self.after.time {
                continue;
            }
            let Some(event) = self.wanted.event(&data, op, &change, &token.text())? else {
                continue;
            };
            self.unmet &= token != Token { part: 0, ..self.after };
            if self.unmet && token > self.after {
                return Err(not_found(&self.after));
            }
            let end = Token { invalidate: true, ..token };
            if event.ends && end > self.after {
                self.ending = Some((self.wanted.invalidate(&change, &end), end));
            }
            if token > self.after || split {
                let parts = if split { self.after.part } else { 0 };
                return Ok(Some(self.feed(token, event.bytes, parts)));
            }
            if let Some((bytes, token)) = self.ending.take() {
                return Ok(Some(self.feed(token, bytes, 0)));
            }
        }
        self.state.lock().seen = self.follower.seen;
        Ok(None)
    }
}

/// The error for a token that is not of this stream, but of another one.
fn not_found(token: &Token) -> Error {
    Error::new(
        Code::CHANGE_STREAM_FATAL_ERROR,
        format!(
            "cannot resume stream; the resume token was not found. {{_data: \"{}\"}}",
            token.text()
        ),
    )
    .with_label("NonResumableChangeStreamError")
}

/// A cursor's view of the log.
pub struct Changes {
    stream: Box<dyn Stream>,
    /// Of a change stream; without, it is the oplog that is tailed.
    events: Option<Events>,
    await_data: bool,
}

struct Events {
    state: Arc<Mutex<StreamPosition>>,
    /// Whether events that are too large come in parts.
    split: bool,
    parts: VecDeque<(Token, Vec<u8>)>,
    /// The places of the event that was returned last, and of the one before it.
    last: Token,
    previous: Token,
    /// Whether the stream has ended where the log ends.
    caught_up: bool,
}

impl Changes {
    /// A change stream: a feed, and the stages that `follow` puts behind it.
    pub(crate) fn of_events(
        feed: Feed,
        split: bool,
        follow: impl FnOnce(Box<dyn Stream>) -> Box<dyn Stream>,
    ) -> Changes {
        let (state, start) = (feed.state.clone(), feed.after);
        let events = Events {
            state,
            split,
            parts: VecDeque::new(),
            last: start,
            previous: start,
            caught_up: false,
        };
        Changes { stream: follow(Box::new(feed)), events: Some(events), await_data: true }
    }

    /// A cursor that tails the oplog.
    pub(crate) fn of_oplog(stream: Box<dyn Stream>, await_data: bool) -> Changes {
        Changes { stream, events: None, await_data }
    }

    /// Whether `getMore` waits when there is nothing.
    pub(crate) fn waits(&self) -> bool {
        self.await_data
    }

    /// Whether nothing can follow: the last event was returned, or the pipeline kept it back.
    pub(crate) fn has_ended(&self) -> bool {
        self.events.as_ref().is_some_and(|events| {
            let ended = events.state.lock().ended && events.parts.is_empty();
            ended && (events.last.invalidate || events.caught_up)
        })
    }

    /// The next event.
    ///
    /// # Errors
    /// What the pipeline gives, and what cannot be told to the client.
    pub(crate) fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let Some(events) = &mut self.events else { return self.stream.next(op) };
        if let Some((token, part)) = events.parts.pop_front() {
            events.pass(token);
            return Ok(Some(Doc::Made(part)));
        }
        events.caught_up = false;
        let Some(doc) = self.stream.next(op)? else {
            events.caught_up = true;
            return Ok(None);
        };
        let (token, parts_seen) = {
            let state = events.state.lock();
            (state.token, state.parts_seen)
        };
        check_token(doc.raw(), &token)?;
        let too_large = doc.len() > limits::DOCUMENT_BYTES_MAX + REPLY_EXTRA;
        if events.split && (too_large || parts_seen > 0) {
            let parts = split(doc.raw(), &token)?;
            events.parts = parts.into_iter().skip(parts_seen as usize).collect();
            let Some((token, part)) = events.parts.pop_front() else { return self.next(op) };
            events.pass(token);
            return Ok(Some(Doc::Made(part)));
        }
        if too_large {
            return Err(super::split::too_large(doc.len()));
        }
        events.pass(token);
        Ok(Some(doc))
    }

    /// Writes the token of a batch: everything before it was seen, and the client can go on there.
    /// `pending` says that the last document did not fit into the batch.
    pub(crate) fn write_token(&self, out: &mut Writer<'_>, pending: bool) {
        let Some(events) = &self.events else { return };
        let token = if pending {
            events.previous
        } else if events.caught_up && events.parts.is_empty() {
            let state = events.state.lock();
            let seen = Token::before(state.seen.saturating_add(1));
            events.last.max(if state.ended { state.token } else { seen })
        } else {
            events.last
        };
        out.doc("postBatchResumeToken", |out| {
            out.str("_data", &token.text());
        });
        if self.has_ended() && !pending {
            out.bool("invalidated", true);
        }
    }

    /// What was looked at.
    pub(crate) fn examined(&self, total: &mut Examined) {
        self.stream.examined(total);
    }
}

impl Events {
    fn pass(&mut self, token: Token) {
        self.previous = std::mem::replace(&mut self.last, token);
    }
}

/// Refuses an event whose token the pipeline changed: nobody could go on behind it.
fn check_token(event: RawDoc<'_>, token: &Token) -> Result<()> {
    let found = event.get("_id").and_then(Val::as_doc).and_then(|id| id.get("_data"));
    let expected = token.text();
    if found == Some(Val::String(&expected)) {
        return Ok(());
    }
    Err(Error::new(
        Code::CHANGE_STREAM_FATAL_ERROR,
        format!(
            "Encountered an event whose _id field, which contains the resume token, was modified by \
             the pipeline. Modifying the _id field of an event makes it impossible to resume the \
             stream from that point. Only transformations that retain the unmodified _id field are \
             allowed. Expected: {{ _id: {{ _data: \"{expected}\" }} }}"
        ),
    )
    .with_label("NonResumableChangeStreamError"))
}

/// Waits until the log has grown since a look at it, until the time is over or the operation is
/// stopped. False when the time is over.
///
/// # Errors
/// That the operation was stopped.
pub(crate) fn wait_for_more(
    data: &Data,
    op: &Operation,
    seen: u64,
    until: Instant,
) -> Result<bool> {
    loop {
        let now = Instant::now();
        if data.changes.wait(seen, until.min(now + crate::changes::log::WAIT_STEP)) {
            return Ok(true);
        }
        op.check_now()?;
        data.check_open()?;
        if Instant::now() >= until {
            return Ok(false);
        }
    }
}
