//! Idle connections: parked without a thread and without buffers.
//!
//! One thread (`listener`) polls all parked sockets; when bytes arrive on one, its connection
//! goes to `pool`. A connection may be parked in the middle of a message; then it has a deadline.
//! One that is delayed (a rate limit) is not polled until its time comes. One that owes a reply at some
//! time (a monitor's `hello`) is woken at that time.

use crate::connection::Connection;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token, Waker};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection that has sent nothing for this time may be closed to make room.
const SILENCE: Duration = Duration::from_secs(2);

/// The connections that wait without a thread.
pub(crate) struct ParkedConnections {
    registry: Registry,
    waker: Arc<Waker>,
    parked: Mutex<Parked>,
}

#[derive(Default)]
struct Parked {
    connections: HashMap<Token, Box<Connection>>,
    /// Those in the middle of a message, with the deadline for its rest.
    deadlines: HashMap<Token, Instant>,
    /// When those are woken that owe a reply.
    alarms: BTreeSet<(Instant, Token)>,
    /// Those that are delayed, and until when; not among `connections`.
    later: BTreeMap<(Instant, Token), Box<Connection>>,
    /// Connections that have sent nothing, in order of arrival, with the time.
    silent: VecDeque<(Token, Instant)>,
    closed: bool,
}

impl ParkedConnections {
    pub(crate) fn new(registry: Registry, waker: Arc<Waker>) -> ParkedConnections {
        ParkedConnections { registry, waker, parked: Mutex::default() }
    }

    /// Parks a connection until bytes arrive, or wakes it at once if there are any.
    pub(crate) fn park(&self, mut connection: Box<Connection>) {
        connection.release_memory();
        let deadline = connection.message_deadline();
        let token = connection.token();
        let descriptor = connection.descriptor();
        let mut parked = self.parked.lock();
        if parked.closed {
            drop(parked);
            return;
        }
        let alarm = connection.reply_due().map(|due| (due, token));
        if let Some(alarm) = alarm {
            // The poll waits for the first of them.
            if parked.alarms.first().is_none_or(|first| alarm < *first) {
                self.wake_poll();
            }
            parked.alarms.insert(alarm);
        }
        // Inserted before it is polled, because the event may come at once. The poll is
        // edge-triggered, but registering reports bytes that are already readable.
        parked.connections.insert(token, connection);
        if let Some(deadline) = deadline {
            // Without deadlines the poll waits without a limit.
            if parked.deadlines.is_empty() {
                self.wake_poll();
            }
            parked.deadlines.insert(token, deadline);
        }
        if let Err(error) =
            self.registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE)
        {
            let lost = parked.remove(token);
            drop(parked);
            tracing::warn!(%error, "cannot poll an idle connection; closing it");
            drop(lost);
        }
    }

    /// Parks a connection that was just accepted.
    pub(crate) fn park_new(&self, connection: Box<Connection>) {
        let mut parked = self.parked.lock();
        while parked.silent.front().is_some_and(|(token, _)| !parked.is_silent(*token)) {
            parked.silent.pop_front();
        }
        parked.silent.push_back((connection.token(), Instant::now()));
        drop(parked);
        self.park(connection);
    }

    /// Takes out the connection that has sent nothing for the longest time, if that exceeds
    /// `SILENCE`.
    pub(crate) fn take_silent(&self) -> Option<Box<Connection>> {
        let mut parked = self.parked.lock();
        loop {
            let (token, came) = *parked.silent.front()?;
            if parked.is_silent(token) && came.elapsed() < SILENCE {
                return None;
            }
            parked.silent.pop_front();
            if parked.is_silent(token)
                && let Some(connection) = parked.remove(token)
            {
                drop(parked);
                self.forget(&connection);
                return Some(connection);
            }
        }
    }

    /// Parks a connection for this time, even if bytes arrive.
    pub(crate) fn park_for(&self, mut connection: Box<Connection>, pause: Duration) {
        connection.release_memory();
        let mut parked = self.parked.lock();
        if parked.closed {
            drop(parked);
            return;
        }
        let place = (Instant::now() + pause, connection.token());
        parked.later.insert(place, connection);
        // The poll waits for the first of them.
        let is_first = parked.later.first_key_value().is_some_and(|(first, _)| *first == place);
        drop(parked);
        if is_first {
            self.wake_poll();
        }
    }

    /// Takes out the connections whose delay has ended, or that owe a reply now. Also returns when
    /// the next time comes.
    #[expect(clippy::vec_box, reason = "they were boxed already")]
    pub(crate) fn due(&self, now: Instant) -> (Vec<Box<Connection>>, Option<Duration>) {
        let mut parked = self.parked.lock();
        let mut due = Vec::new();
        while let Some((when, token)) = parked.alarms.first().copied()
            && when <= now
        {
            parked.alarms.pop_first();
            due.extend(parked.remove(token));
        }
        due.iter().for_each(|connection| self.forget(connection));
        while let Some(first) = parked.later.first_entry() {
            let (when, _) = *first.key();
            if when > now {
                break;
            }
            due.push(first.remove());
        }
        let alarm = parked.alarms.first().map(|(when, _)| *when);
        let later = parked.later.first_key_value().map(|((when, _), _)| *when);
        let next = [alarm, later].into_iter().flatten().min();
        (due, next.map(|when| when.saturating_duration_since(now)))
    }

    /// Takes out the connection of an event.
    pub(crate) fn wake(&self, token: Token) -> Option<Box<Connection>> {
        let connection = self.parked.lock().remove(token)?;
        self.forget(&connection);
        Some(connection)
    }

    /// Takes out the connections whose message is past its deadline.
    #[expect(clippy::vec_box, reason = "they were boxed already")]
    pub(crate) fn overdue(&self, now: Instant) -> Vec<Box<Connection>> {
        let mut parked = self.parked.lock();
        let late: Vec<Token> = parked
            .deadlines
            .iter()
            .filter(|(_, deadline)| **deadline <= now)
            .map(|(token, _)| *token)
            .collect();
        let late: Vec<_> = late.into_iter().filter_map(|token| parked.remove(token)).collect();
        drop(parked);
        late.iter().for_each(|connection| self.forget(connection));
        late
    }

    /// Whether a parked connection is in the middle of a message.
    pub(crate) fn has_deadlines(&self) -> bool {
        !self.parked.lock().deadlines.is_empty()
    }

    /// Closes all parked connections, and those that come later.
    pub(crate) fn close(&self) {
        let mut parked = self.parked.lock();
        parked.closed = true;
        parked.deadlines.clear();
        let connections = std::mem::take(&mut parked.connections);
        let later = std::mem::take(&mut parked.later);
        drop(parked);
        drop((connections, later));
    }

    fn wake_poll(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the poller of idle connections");
        }
    }

    fn forget(&self, connection: &Connection) {
        let result: io::Result<()> =
            self.registry.deregister(&mut SourceFd(&connection.descriptor()));
        if let Err(error) = result {
            tracing::debug!(%error, "cannot deregister a connection");
        }
    }
}

impl Parked {
    fn is_silent(&self, token: Token) -> bool {
        self.connections.get(&token).is_some_and(|connection| connection.is_new())
    }

    fn remove(&mut self, token: Token) -> Option<Box<Connection>> {
        self.deadlines.remove(&token);
        let connection = self.connections.remove(&token)?;
        if let Some(due) = connection.reply_due() {
            self.alarms.remove(&(due, token));
        }
        Some(connection)
    }
}
