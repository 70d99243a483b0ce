//! Who a client is and what it may do.
//!
//! `login` is the state of one conversation, `directory` finds users and roles among the documents of
//! `admin`, `required` compares them with what a command needs. The rules themselves, and the proof of a
//! password, are in the crate `access`.
//!
//! Layer: service.

pub(crate) mod directory;
pub(crate) mod login;
mod required;

pub(crate) use directory::{Directory, RoleName, User};
pub(crate) use login::Login;
pub(crate) use required::{Authorization, Required, Requirement, check};

use ::access::scram::{self, Mechanism};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The database of users whose proof is not a password kept here.
pub(crate) const EXTERNAL: &str = "$external";

/// The mechanism of certificates.
pub(crate) const X509: &str = "MONGODB-X509";

/// What is counted of logins by one mechanism.
#[derive(Default)]
pub(crate) struct Attempts {
    /// Begun and completed, all of them.
    pub(crate) all: [AtomicU64; 2],
    /// Begun and completed of those that came with a `hello`.
    pub(crate) speculative: [AtomicU64; 2],
}

/// The mechanisms, in the order in which they are listed.
pub(crate) const MECHANISMS: [&str; 3] = [X509, "SCRAM-SHA-1", "SCRAM-SHA-256"];

/// What all conversations share.
pub(crate) struct Access {
    /// Logins by each of `MECHANISMS`.
    pub(crate) attempts: [Attempts; 3],
    /// How often clients asked by which mechanisms a user can log in.
    pub(crate) mechanisms_asked: AtomicU64,
    /// Makes salts for users that do not exist.
    pub(crate) secret: Vec<u8>,
    /// How often new passwords are hashed, for the old mechanism.
    pub(crate) sha1_iterations: AtomicU32,
    /// How often new passwords are hashed.
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

    /// How often new passwords are hashed.
    pub(crate) fn iterations(&self, mechanism: Mechanism) -> u32 {
        let iterations = match mechanism {
            Mechanism::Sha1 => &self.sha1_iterations,
            Mechanism::Sha256 => &self.sha256_iterations,
        };
        iterations.load(Ordering::Relaxed)
    }
}
