//! One conversation: a connection, or a caller inside the process.
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

/// One conversation. Dropping it ends it.
pub struct Client {
    pub(crate) engine: Arc<Inner>,
    pub(crate) slot: Arc<Slot>,
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
        let login = Login::new(
            slot.clone(),
            engine.service.access.clone(),
            peer.authenticate,
            peer.is_local,
            ends,
        );
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

    /// The login, and the data in which it looks users up.
    pub(crate) fn login(&mut self) -> (&mut Login, &Arc<Data>) {
        (&mut self.login, &self.engine.data)
    }

    /// The engine, to look users up.
    pub(crate) fn directory(&self) -> crate::access::Directory {
        crate::access::Directory::open(Arc::clone(&self.engine.data))
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
}

impl Drop for Client {
    fn drop(&mut self) {
        self.engine.service.slots.lock().remove(&self.slot.connection_id);
    }
}
