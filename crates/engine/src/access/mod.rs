//! Who a client is and what it may do.
//!
//! `login` is the state of one conversation, `directory` finds users and roles among the documents of
//! `admin`, `required` says what each command needs. The rules themselves, and the proof of a
//! password, are in the crate `access`.

pub(crate) mod directory;
pub(crate) mod login;
mod pipeline;
mod required;

pub(crate) use directory::{Directory, RoleName, User};
pub(crate) use login::Login;
pub(crate) use required::check;

use ::access::scram::{self, Mechanism};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The database of users whose proof is not a password kept here.
pub(crate) const EXTERNAL: &str = "$external";

/// What all conversations share.
pub(crate) struct Access {
    /// Counts changes of users and roles: what was resolved before is looked up again.
    generation: AtomicU64,
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
            generation: AtomicU64::new(1),
            secret: scram::random(32),
            sha1_iterations: AtomicU32::new(Mechanism::Sha1.usual_iterations()),
            sha256_iterations: AtomicU32::new(Mechanism::Sha256.usual_iterations()),
        }
    }

    /// Notes that users or roles changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}
