//! Authentication and authorisation of clients.
//!
//! `login` is the authentication state of one connection, `directory` reads users and roles from
//! documents of `admin`, `required` checks the privileges that a command needs. The rules
//! themselves and the verification of passwords are in the crate `access`.
//!
//! Layer: service.

pub(crate) mod directory;
pub(crate) mod login;
mod required;

pub(crate) use directory::{Directory, RoleName, User};
pub(crate) use login::Login;
pub(crate) use required::{Authorization, Required, Requirement, check};

use crate::txn::Data;
use ::access::scram::{self, Mechanism};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use value::Result;

/// The database of users that are authenticated externally, by certificates.
pub(crate) const EXTERNAL: &str = "$external";

/// The mechanism for certificates.
pub(crate) const X509: &str = "MONGODB-X509";

/// Completes what an earlier version of the server left out beside users and roles.
///
/// # Errors
/// Errors of the store.
pub(crate) fn complete_directory(data: &Arc<Data>) -> Result<()> {
    let has = |name: &str| data.collection("admin", name).is_some();
    if has(directory::USERS) || has(directory::ROLES) {
        Directory::open(Arc::clone(data)).note_version()?;
    }
    Ok(())
}

/// Counters of logins by one mechanism.
#[derive(Default)]
pub(crate) struct Attempts {
    /// Logins begun and completed.
    pub(crate) all: [AtomicU64; 2],
    /// Speculative logins, sent with a `hello`, begun and completed.
    pub(crate) speculative: [AtomicU64; 2],
}

/// The mechanisms, in the order of listing.
pub(crate) const MECHANISMS: [&str; 3] = [X509, "SCRAM-SHA-1", "SCRAM-SHA-256"];

/// The state that all connections share.
pub(crate) struct Access {
    /// Logins by each of `MECHANISMS`.
    pub(crate) attempts: [Attempts; 3],
    /// The number of requests for the mechanisms of a user.
    pub(crate) mechanisms_asked: AtomicU64,
    /// The secret for making salts of users that do not exist.
    pub(crate) secret: Vec<u8>,
    /// The iteration count of new SCRAM-SHA-1 credentials.
    pub(crate) sha1_iterations: AtomicU32,
    /// The iteration count of new SCRAM-SHA-256 credentials.
    pub(crate) sha256_iterations: AtomicU32,
}

impl Access {
    pub(crate) fn new() -> Access {
        Access {
            attempts: Default::default(),
            mechanisms_asked: AtomicU64::new(0),
            secret: scram::random(32),
            sha1_iterations: AtomicU32::new(Mechanism::Sha1.usual_iterations()),
            sha256_iterations: AtomicU32::new(Mechanism::Sha256.usual_iterations()),
        }
    }

    /// Counts a login that begins.
    pub(crate) fn received(&self, mechanism: &str, speculative: bool) {
        self.count(mechanism, speculative, 0);
    }

    /// Counts a login that is completed.
    pub(crate) fn succeeded(&self, mechanism: &str, speculative: bool) {
        self.count(mechanism, speculative, 1);
    }

    fn count(&self, mechanism: &str, speculative: bool, which: usize) {
        let named = MECHANISMS.iter().zip(&self.attempts).find(|(name, _)| **name == mechanism);
        let Some((_, attempts)) = named else { return };
        let lists = [Some(&attempts.all), speculative.then_some(&attempts.speculative)];
        for counter in lists.into_iter().flatten().filter_map(|list| list.get(which)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The iteration count of new credentials for a mechanism.
    pub(crate) fn iterations(&self, mechanism: Mechanism) -> u32 {
        let iterations = match mechanism {
            Mechanism::Sha1 => &self.sha1_iterations,
            Mechanism::Sha256 => &self.sha256_iterations,
        };
        iterations.load(Ordering::Relaxed)
    }
}
