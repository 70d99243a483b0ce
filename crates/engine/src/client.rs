//! The state of one client: a connection, or a caller inside the process.
//!
//! Layer: service.

use crate::access::Login;
use crate::request::{ClientCertificate, Peer};
use crate::shared::Inner;
use crate::slot::Slot;
use crate::txn::Data;
use ::access::restriction::ConnectionAddresses;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::{Duration, Instant};
use value::{DocBuf, Result};

/// The state of one client. Dropping it closes its conversation with the engine.
pub struct Client {
    pub(crate) engine: Arc<Inner>,
    pub(crate) slot: Arc<Slot>,
    /// The server address that the client connected to.
    pub(crate) local: Option<String>,
    /// The `getMore` that an exhaust stream repeats.
    pub(crate) exhaust: Option<DocBuf>,
    /// The request that is answered later.
    pub(crate) awaited: Option<Awaited>,
    /// The users that have logged in.
    pub(crate) login: Login,
    /// The session used last, when the registry of sessions was last updated with it, and for which
    /// login.
    touched: Option<([u8; 16], Instant, u64)>,
}

/// A request that waits for a change.
pub(crate) struct Awaited {
    /// The command.
    pub(crate) body: DocBuf,
    /// Whether the client accepts several replies.
    pub(crate) streams: bool,
}

/// The interval at which the registry is updated for a session that one connection keeps using.
const TOUCH_INTERVAL: Duration = Duration::from_secs(1);

impl Client {
    pub(crate) fn new(engine: Arc<Inner>, peer: Peer) -> Client {
        let slot = Arc::new(Slot {
            connection_id: peer.connection_id,
            remote: peer.remote,
            current: Mutex::default(),
            operation_id: AtomicU64::new(0),
            reads_at: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            conflicts: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            outer: query::interrupt::current(),
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
        let login = Login::new(
            slot.clone(),
            engine.service.access.clone(),
            peer.authenticate,
            peer.is_local,
            ends,
        );
        Client {
            engine,
            slot,
            local: peer.local,
            exhaust: None,
            awaited: None,
            login,
            touched: None,
        }
    }

    /// Records the certificate that the client presented in the TLS handshake.
    pub fn certified(&mut self, certificate: ClientCertificate) {
        self.login.certified(certificate);
    }

    /// Records the host name that the client used for this server (SNI). `hello` returns this name,
    /// because drivers compare it with the name in the certificate.
    pub fn called(&mut self, name: &str) {
        let local = self.local.as_deref().and_then(|local| local.parse::<SocketAddr>().ok());
        if let Some(local) = local {
            self.local = Some(format!("{name}:{}", local.port()));
        }
    }

    /// The engine that the client uses.
    #[must_use]
    pub fn engine(&self) -> &Inner {
        &self.engine
    }

    /// The login, and the data in which it looks up users.
    pub(crate) fn login(&mut self) -> (&mut Login, &Arc<Data>) {
        (&mut self.login, &self.engine.data)
    }

    /// Access to the documents of users and roles.
    pub(crate) fn directory(&self) -> crate::access::Directory {
        crate::access::Directory::open(Arc::clone(&self.engine.data))
    }

    /// Records that a session is in use. The shared registry is updated at most once per
    /// `TOUCH_INTERVAL`.
    ///
    /// # Errors
    /// Unauthorized when the session belongs to another user; TooManyLogicalSessions.
    pub(crate) fn touch_session(&mut self, session: [u8; 16]) -> Result<()> {
        let (now, turn) = (Instant::now(), self.login.revision());
        let known = self.touched.is_some_and(|(id, noted_at, by)| {
            id == session && by == turn && now.duration_since(noted_at) < TOUCH_INTERVAL
        });
        if !known {
            // Without access control all sessions have one owner, whoever logs in.
            let owner = if self.login.required { self.login.owner() } else { None };
            self.engine.service.sessions.touch(session, owner.as_deref())?;
            self.touched = Some((session, now, turn));
        }
        Ok(())
    }

    /// The state of this client that others can read.
    #[must_use]
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.engine.service.slots.lock().remove(&self.slot.connection_id);
    }
}
