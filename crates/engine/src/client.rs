//! One conversation: a connection, or a caller inside the process.
//!
//! Layer: service.

use crate::access::Login;
use crate::commands;
use crate::engine::Inner;
use crate::operation::{Operation, Slot};
use crate::request::{ClientCertificate, Flow, Peer, Request};
use ::access::restriction::ConnectionAddresses;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use value::{DocBuf, Error, Result, writer};

/// One conversation. Dropping it ends it.
pub struct Client {
    engine: Arc<Inner>,
    slot: Arc<Slot>,
    /// The address that the client dialled.
    pub(crate) local: Option<String>,
    /// The `getMore` that an exhaust stream repeats.
    pub(crate) exhaust: Option<DocBuf>,
    /// As whom it goes on.
    pub(crate) login: Login,
    /// The session that was used last, and when and as whom the registry of sessions was told.
    touched: Option<([u8; 16], Instant, u64)>,
}

/// How often the registry hears of a session that one connection keeps using.
const TOUCH_INTERVAL: Duration = Duration::from_secs(1);

impl Client {
    pub(crate) fn new(engine: Arc<Inner>, peer: Peer) -> Client {
        let slot = Arc::new(Slot {
            connection_id: peer.connection_id,
            remote: peer.remote,
            current: Mutex::default(),
            operation_id: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            application: Mutex::new(String::new()),
            user: Mutex::new(None),
            metadata: Mutex::new(None),
            last_active_ms: AtomicI64::new(0),
        });
        engine.service.slots.lock().insert(peer.connection_id, slot.clone());
        let ip = |text: &str| text.parse::<SocketAddr>().ok().map(|address| address.ip());
        let ends = ConnectionAddresses {
            client: ip(&slot.remote),
            server: peer.local.as_deref().and_then(ip),
        };
        let login = Login::new(slot.clone(), peer.authenticate, peer.is_local, ends);
        Client { engine, slot, local: peer.local, exhaust: None, login, touched: None }
    }

    /// Notes by which certificate the client proved itself when the connection was encrypted.
    pub fn certified(&mut self, certificate: ClientCertificate) {
        self.login.certified(certificate);
    }

    /// Notes the host name by which the client called this server. `hello` tells it to come back to
    /// that name: certificates are made for names, and a driver compares them.
    pub fn called(&mut self, name: &str) {
        let local = self.local.as_deref().and_then(|local| local.parse::<SocketAddr>().ok());
        if let Some(local) = local {
            self.local = Some(format!("{name}:{}", local.port()));
        }
    }

    /// The engine behind.
    #[must_use]
    pub fn engine(&self) -> &Inner {
        &self.engine
    }

    /// The login, and the engine that it asks.
    pub(crate) fn login(&mut self) -> (&mut Login, &Arc<Inner>) {
        (&mut self.login, &self.engine)
    }

    /// The engine, to look users up.
    pub(crate) fn directory(&self) -> crate::access::Directory {
        crate::access::Directory::open(Arc::clone(&self.engine))
    }

    /// The engine, for what outlives the request.
    pub(crate) fn shared(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.engine)
    }

    /// Notes that a session is in use; the shared registry is told only now and then.
    ///
    /// # Errors
    /// Unauthorized when it is that of another user, TooManyLogicalSessions.
    pub(crate) fn touch_session(&mut self, session: [u8; 16]) -> Result<()> {
        let (now, turn) = (Instant::now(), self.login.turn());
        let known = self.touched.is_some_and(|(id, told, by)| {
            id == session && by == turn && now.duration_since(told) < TOUCH_INTERVAL
        });
        if !known {
            self.engine.service.sessions.touch(session, self.login.owner().as_deref())?;
            self.touched = Some((session, now, turn));
        }
        Ok(())
    }

    /// What others may see of this conversation.
    #[must_use]
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Runs a command and appends the reply, one document. A failure is a reply too.
    pub fn run(&mut self, request: &Request<'_>, reply: &mut Vec<u8>) -> Flow {
        let start = reply.len();
        let engine = self.engine.clone();
        let op = Operation::new(self.slot.clone(), engine.data.resources.clone());
        let _watching = op.watch();
        let result = catch_unwind(AssertUnwindSafe(|| {
            commands::dispatch(&engine, self, &op, request, reply)
        }));
        self.slot.operation_id.store(0, Ordering::Relaxed);
        self.slot.killed.store(false, Ordering::Relaxed);
        match result {
            Ok(flow) => flow,
            Err(_) => {
                // The panic hook has logged where; the client learns that it was our fault.
                reply.truncate(start);
                // What it did in a transaction must not stay half done, nor keep others waiting.
                let _ = engine.service.sessions.transactions.leave(&engine, &op, true);
                let error = Error::internal("the command failed by a bug; see the server's log");
                writer::write_doc(reply, |out| {
                    crate::reply::write_error(out, &error);
                });
                Flow::Done
            }
        }
    }

    /// The next reply of an exhaust stream.
    pub fn run_more(&mut self, reply: &mut Vec<u8>) -> Flow {
        match self.exhaust.take() {
            None => Flow::Done,
            Some(body) => {
                let request =
                    Request { body: body.as_doc(), sequences: &[], exhaust_allowed: true };
                self.run(&request, reply)
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.engine.service.slots.lock().remove(&self.slot.connection_id);
    }
}
