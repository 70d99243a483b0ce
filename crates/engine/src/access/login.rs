//! The users of a connection, and a login in progress.

use super::{Access, Directory, EXTERNAL, User, X509};
use crate::operation::Slot;
use crate::request::ClientCertificate;
use crate::txn::Data;
use ::access::restriction::ConnectionAddresses;
use ::access::scram::{self, ClientFirst, Credentials, Mechanism, Server};
use ::access::{Action, Actions, Privileges};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value::{Code, Error, Result};

/// The authentication state of a connection.
pub(crate) struct Login {
    /// Receives the user's name, which other clients can see.
    slot: Arc<Slot>,
    /// The state shared by all logins.
    access: Arc<Access>,
    /// Whether commands require privileges.
    pub(crate) required: bool,
    /// Whether the client is on this machine.
    pub(crate) local: bool,
    /// The two addresses of the connection.
    ends: ConnectionAddresses,
    /// The certificate that the client presented.
    certificate: Option<ClientCertificate>,
    users: Vec<Arc<User>>,
    privileges: Arc<Privileges>,
    /// The generation of users and roles that `users` was read from.
    generation: u64,
    /// The number of changes of `users`.
    revision: u64,
    exchange: Option<Exchange>,
}

/// A login between its first and last message.
struct Exchange {
    user: String,
    db: String,
    mechanism: Mechanism,
    step: ExchangeStep,
    /// Whether the client skips the empty exchange at the end.
    short: bool,
    /// Whether it began in a `hello`.
    speculative: bool,
}

enum ExchangeStep {
    /// The server waits for the client's proof.
    Proof(Server),
    /// The proof is valid; the server waits for the client's empty message.
    Empty,
}

/// The reply to a step of a login.
pub(crate) struct Answer {
    pub(crate) payload: String,
    pub(crate) done: bool,
}

impl Login {
    /// A connection without a user.
    pub(crate) fn new(
        slot: Arc<Slot>,
        access: Arc<Access>,
        required: bool,
        local: bool,
        ends: ConnectionAddresses,
    ) -> Login {
        Login {
            slot,
            access,
            required,
            local,
            ends,
            certificate: None,
            users: Vec::new(),
            privileges: Arc::default(),
            generation: 0,
            revision: 0,
            exchange: None,
        }
    }

    /// Records the certificate that the client presented in the TLS handshake.
    pub(crate) fn certified(&mut self, certificate: ClientCertificate) {
        self.certificate = Some(certificate);
    }

    /// The users that have logged in.
    pub(crate) fn users(&self) -> &[Arc<User>] {
        &self.users
    }

    /// The combined privileges of the users.
    pub(crate) fn privileges(&self) -> &Arc<Privileges> {
        &self.privileges
    }

    /// A number that changes whenever the users of the connection change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the client must log in and has not done so.
    pub(crate) fn must_log_in(&self) -> bool {
        self.required && self.users.is_empty()
    }

    /// The owner of cursors and sessions that the client creates.
    pub(crate) fn owner(&self) -> Option<Box<str>> {
        self.slot.user.lock().clone()
    }

    /// Whether the client is this user.
    pub(crate) fn is(&self, user: Option<&str>) -> bool {
        user.is_some() && user == self.slot.user.lock().as_deref()
    }

    /// Whether the client may access something that belongs to a user: it is the client's own, or
    /// the client has this right on objects of other users.
    pub(crate) fn may_touch(&self, owner: Option<&str>, right: Action) -> bool {
        !self.required
            || self.is(owner)
            || self.privileges.on_cluster().contains(Actions::of(&[right]))
    }

    /// Looks up the users again if any user or role has changed.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn refresh(&mut self, data: &Arc<Data>) -> Result<()> {
        let generation = data.directory_generation.load(Ordering::Acquire);
        if self.users.is_empty() || self.generation == generation {
            return Ok(());
        }
        let mut directory = Directory::open(Arc::clone(data));
        let mut users = Vec::new();
        for user in &self.users {
            // A dropped user loses all rights. Another user with the same name is a different user.
            let found = directory.user(&user.db, &user.name)?;
            let same =
                |found: &User| found.doc.as_doc().get("userId") == user.doc.as_doc().get("userId");
            let may = |found: &User| found.may_come_from(self.ends);
            users.extend(found.filter(same).filter(may).map(Arc::new));
        }
        self.generation = generation;
        self.set_users(users);
        Ok(())
    }

    fn set_users(&mut self, users: Vec<Arc<User>>) {
        let mut all = Privileges::default();
        for user in &users {
            user.inherited.privileges.list().iter().for_each(|privilege| all.add(privilege));
        }
        *self.slot.user.lock() =
            users.first().map(|user| format!("{}@{}", user.name, user.db).into_boxed_str());
        self.users = users;
        self.revision += 1;
        self.privileges = Arc::new(all);
    }

    /// Logs out the users of a database.
    pub(crate) fn logout(&mut self, db: &str) {
        let users = self.users.iter().filter(|user| user.db != db).cloned().collect();
        self.set_users(users);
    }

    fn note_failure(&self, user: &str, db: &str, mechanism: &str, reason: &str) {
        let client = self.slot.remote.as_str();
        tracing::warn!(client, user, db, mechanism, reason, "authentication failed");
    }

    fn enter(&mut self, data: &Data, user: User) {
        let mut users = self.users.clone();
        users.retain(|known| known.db != user.db);
        users.push(Arc::new(user));
        self.generation = data.directory_generation.load(Ordering::Acquire);
        self.set_users(users);
    }

    /// Begins a login by password.
    ///
    /// # Errors
    /// AuthenticationFailed, MechanismUnavailable, and errors in the first message.
    pub(crate) fn start(
        &mut self,
        data: &Arc<Data>,
        db: &str,
        mechanism: &str,
        payload: &[u8],
        short: bool,
        speculative: bool,
    ) -> Result<Answer> {
        self.exchange = None;
        self.access.received(mechanism, speculative);
        if mechanism == X509 {
            return Err(Error::new(
                Code::MECHANISM_UNAVAILABLE,
                format!("Unsupported mechanism '{X509}' on authentication database '{db}'"),
            ));
        }
        let Some(mechanism) = Mechanism::named(mechanism).filter(|_| db != EXTERNAL) else {
            return Err(Error::new(
                Code::MECHANISM_UNAVAILABLE,
                format!("Received authentication for mechanism {mechanism} which is not enabled"),
            ));
        };
        let first = ClientFirst::parse(payload).map_err(|_| {
            tracing::info!(
                client = self.slot.remote,
                db,
                "authentication failed: invalid SCRAM message"
            );
            scram::failed()
        })?;
        let known = Directory::open(Arc::clone(data)).user(db, &first.user)?;
        let credentials = known.as_ref().and_then(|user| user.credentials(mechanism));
        if speculative && known.is_some() && credentials.is_none() {
            // The client guessed the mechanism; without a reply it chooses one that the user has.
            return Err(scram::failed());
        }
        let credentials = credentials.unwrap_or_else(|| {
            let iterations = self.access.iterations(mechanism);
            Credentials::of_unknown_user(mechanism, &self.access.secret, &first.user, iterations)
        });
        let (server, payload) = Server::start(mechanism, &first, credentials);
        let (user, db) = (first.user, db.to_owned());
        self.exchange = Some(Exchange {
            user,
            db,
            mechanism,
            step: ExchangeStep::Proof(server),
            short,
            speculative,
        });
        Ok(Answer { payload, done: false })
    }

    /// Processes the next message of a login.
    ///
    /// # Errors
    /// AuthenticationFailed when the proof is wrong; ProtocolError when no login is in progress.
    pub(crate) fn continue_exchange(&mut self, data: &Arc<Data>, payload: &[u8]) -> Result<Answer> {
        let Some(mut exchange) = self.exchange.take() else {
            return Err(Error::new(Code::PROTOCOL_ERROR, "No SASL session state found"));
        };
        match std::mem::replace(&mut exchange.step, ExchangeStep::Empty) {
            ExchangeStep::Empty => {
                if !payload.is_empty() {
                    return Err(scram::failed());
                }
                self.end(data, &exchange)?;
                Ok(Answer { payload: String::new(), done: true })
            }
            ExchangeStep::Proof(server) => {
                let proved = server.finish(payload).map_err(|_| {
                    let (user, db) = (&exchange.user, &exchange.db);
                    tracing::warn!(client = self.slot.remote, user, db, "authentication failed");
                    scram::failed()
                })?;
                if exchange.short {
                    self.end(data, &exchange)?;
                    return Ok(Answer { payload: proved, done: true });
                }
                self.exchange = Some(exchange);
                Ok(Answer { payload: proved, done: false })
            }
        }
    }

    fn end(&mut self, data: &Arc<Data>, exchange: &Exchange) -> Result<()> {
        let Exchange { user, db, mechanism, speculative, .. } = exchange;
        self.complete(data, db, user, mechanism.name(), *speculative)
    }

    /// Logs in by the certificate that the client presented.
    ///
    /// # Errors
    /// AuthenticationFailed.
    pub(crate) fn by_certificate(
        &mut self,
        data: &Arc<Data>,
        named: Option<&str>,
        speculative: bool,
    ) -> Result<String> {
        self.access.received(X509, speculative);
        let failed = |message: &str| Error::new(Code::AUTHENTICATION_FAILED, message);
        let Some(ClientCertificate { subject, is_member }) = self.certificate.clone() else {
            return Err(failed("No verified subject name available from client"));
        };
        if named.is_some_and(|named| named != subject) {
            return Err(failed("There is no x.509 client certificate matching the user."));
        }
        if is_member {
            return Err(failed(
                "The provided certificate can only be used for cluster authentication, not client \
                 authentication. The current configuration does not allow x.509 cluster \
                 authentication, check the --clusterAuthMode flag",
            ));
        }
        self.complete(data, EXTERNAL, &subject, X509, speculative)?;
        Ok(subject)
    }

    fn complete(
        &mut self,
        data: &Arc<Data>,
        db: &str,
        name: &str,
        mechanism: &str,
        speculative: bool,
    ) -> Result<()> {
        let user = Directory::open(Arc::clone(data)).user(db, name)?.ok_or_else(|| {
            self.note_failure(name, db, mechanism, "no such user");
            if db == EXTERNAL {
                // The client has proved its identity, so it may learn that there is no such user.
                let message = format!("Could not find user \"{name}\" for db \"{db}\"");
                return Error::new(Code::USER_NOT_FOUND, message);
            }
            scram::failed()
        })?;
        if !user.may_come_from(self.ends) {
            self.note_failure(name, db, mechanism, "restricted address");
            return Err(scram::failed());
        }
        tracing::info!(client = self.slot.remote, user = name, db, mechanism, "authenticated");
        self.access.succeeded(mechanism, speculative);
        self.enter(data, user);
        Ok(())
    }
}
