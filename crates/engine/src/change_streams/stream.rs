//! Cursors on the log: change streams and tailing of the oplog.
//!
//! A feed makes events of changes, and the stages of the client's pipeline process them. Both stop
//! at the current end of the log and continue with the next `getMore`. The token of each batch is
//! the position up to which the client has seen everything.

use super::event::StreamOptions;
use super::log_reader::LogReader;
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

/// Bytes by which a document in a reply may exceed the limit for stored documents.
const REPLY_EXTRA: usize = 16 * 1024;

/// The starting point of a stream.
pub(crate) enum Start {
    /// At the first change from now on.
    Now,
    /// At the first change at or after a time.
    At(u64),
    /// After the position of a token.
    After(ResumePoint),
}

/// The position of a resume token.
pub(crate) struct ResumePoint(Token);

impl ResumePoint {
    /// Parses a token.
    ///
    /// # Errors
    /// When it is invalid.
    pub(crate) fn parse(token: RawDoc<'_>) -> Result<ResumePoint> {
        Token::parse(token).map(ResumePoint)
    }

    /// Whether it is the token of an invalidate event.
    pub(crate) fn is_end(&self) -> bool {
        self.0.invalidate
    }
}

/// The state that the feed and the cursor share.
struct StreamPosition {
    /// The position of the last event.
    token: Token,
    /// Parts of that event that the client already has.
    parts_seen: u32,
    /// All changes up to this time have been read.
    seen: u64,
    /// Whether the stream has ended.
    ended: bool,
}

/// Makes events of changes.
pub(crate) struct Feed {
    data: Weak<Data>,
    reader: LogReader,
    wanted: StreamOptions,
    /// Events up to this position are skipped.
    after: Token,
    /// Whether the event at that position is still to be found; it must belong to this stream.
    unmet: bool,
    /// The event that ends the stream, if it is next.
    ending: Option<(Vec<u8>, Token)>,
    state: Arc<Mutex<StreamPosition>>,
}

impl Feed {
    /// Starts to read the log.
    ///
    /// # Errors
    /// ChangeStreamHistoryLost; errors of the store.
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
        // A client that has a time got it from here, or from the server before a crash.
        data.clock.advance_to(after.time);
        let reader = LogReader::starting_at(data, after.time)?;
        let state = StreamPosition { token: after, parts_seen: 0, seen: reader.seen, ended: false };
        let state = Arc::new(Mutex::new(state));
        let unmet = matches!(start, Start::After(_)) && after.event && !after.invalidate;
        Ok(Feed { data: shared, reader, wanted, after, unmet, ending: None, state })
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
        while let Some(step) = self.reader.next(&data)? {
            op.check()?;
            let Some(change) = self.reader.change(&step) else { continue };
            let token = Token::of(change.time, change.place);
            // The client may have received only the first parts of a split event.
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
        self.state.lock().seen = self.reader.seen;
        Ok(None)
    }
}

/// The error for a token that belongs to another stream.
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

/// A cursor on the log.
pub struct Changes {
    stream: Box<dyn Stream>,
    /// The events of a change stream; `None` when tailing the oplog.
    events: Option<Events>,
    await_data: bool,
}

struct Events {
    state: Arc<Mutex<StreamPosition>>,
    /// Whether large events are split.
    split: bool,
    parts: VecDeque<(Token, Vec<u8>)>,
    /// The positions of the event returned last, and of the one before it.
    last: Token,
    previous: Token,
    /// Whether the stream has reached the end of the log.
    caught_up: bool,
}

impl Changes {
    /// A change stream: a feed, and the stages that `follow` appends to it.
    pub(crate) fn of_events(
        feed: Feed,
        split: bool,
        open: impl FnOnce(Box<dyn Stream>) -> Box<dyn Stream>,
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
        Changes { stream: open(Box::new(feed)), events: Some(events), await_data: true }
    }

    /// A cursor that tails the oplog.
    pub(crate) fn of_oplog(stream: Box<dyn Stream>, await_data: bool) -> Changes {
        Changes { stream, events: None, await_data }
    }

    /// Whether `getMore` waits when there are no documents.
    pub(crate) fn waits(&self) -> bool {
        self.await_data
    }

    /// Whether the stream has ended: the last event was returned, or the pipeline filtered it out.
    pub(crate) fn has_ended(&self) -> bool {
        self.events.as_ref().is_some_and(|events| {
            let ended = events.state.lock().ended && events.parts.is_empty();
            ended && (events.last.invalidate || events.caught_up)
        })
    }

    /// The next event.
    ///
    /// # Errors
    /// Errors of the pipeline, and events that cannot be sent to the client.
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

    /// Writes the token of a batch: the client has seen everything before it and can resume there.
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

    /// Adds the numbers of entries and documents examined.
    pub(crate) fn examined(&self, total: &mut Examined) {
        self.stream.examined(total);
    }
}

impl Events {
    fn pass(&mut self, token: Token) {
        self.previous = std::mem::replace(&mut self.last, token);
    }
}

/// Refuses an event whose token the pipeline changed, because a client could not resume after it.
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

/// Waits until the log has grown since it was last read, the time is over or the operation is
/// stopped. Returns false when the time is over.
///
/// When the operation is stopped.
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
