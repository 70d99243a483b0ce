//! Where silent connections wait: without a thread and without buffers.
//!
//! One thread (`listener`) polls all parked sockets; when bytes arrive on one, its connection
//! goes to `pool`. A connection may be parked in the middle of a message; then it has a deadline.

use crate::connection::Connection;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token, Waker};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// The parked connections.
pub(crate) struct Lot {
    registry: Registry,
    waker: Arc<Waker>,
    parked: Mutex<Parked>,
}

#[derive(Default)]
struct Parked {
    connections: HashMap<Token, Box<Connection>>,
    /// Those that owe the rest of a message, and until when.
    deadlines: HashMap<Token, Instant>,
    closed: bool,
}

impl Lot {
    pub(crate) fn new(registry: Registry, waker: Arc<Waker>) -> Lot {
        Lot { registry, waker, parked: Mutex::default() }
    }

    /// Parks a connection until bytes arrive; those that are there already count.
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
        // In place before it is polled: the event may come at once. The poll is edge-triggered,
        // but registering reports what is readable already.
        parked.connections.insert(token, connection);
        if let Some(deadline) = deadline {
            // The poll may be waiting without a limit, as long as there was no deadline.
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
            tracing::warn!(%error, "a silent connection cannot be watched and is closed");
            drop(lost);
        }
    }

    /// Takes the connection out on which something happened.
    pub(crate) fn wake(&self, token: Token) -> Option<Box<Connection>> {
        let connection = self.parked.lock().remove(token)?;
        self.forget(&connection);
        Some(connection)
    }

    /// Takes out those whose messages should have been complete by now.
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

    /// Whether a parked connection owes the rest of a message.
    pub(crate) fn has_deadlines(&self) -> bool {
        !self.parked.lock().deadlines.is_empty()
    }

    /// Closes all parked connections, and those that come later.
    pub(crate) fn close(&self) {
        let mut parked = self.parked.lock();
        parked.closed = true;
        parked.deadlines.clear();
        let connections = std::mem::take(&mut parked.connections);
        drop(parked);
        drop(connections);
    }

    fn wake_poll(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the poll of silent connections cannot be woken");
        }
    }

    fn forget(&self, connection: &Connection) {
        let result: io::Result<()> =
            self.registry.deregister(&mut SourceFd(&connection.descriptor()));
        if let Err(error) = result {
            tracing::debug!(%error, "a connection was not watched");
        }
    }
}

impl Parked {
    fn remove(&mut self, token: Token) -> Option<Box<Connection>> {
        self.deadlines.remove(&token);
        self.connections.remove(&token)
    }
}
