//! MotifDB's engine, in the process: the same commands that the server answers, without a
//! server.
//!
//! `engine` opens it, `client` is a conversation, `commands` is what can be asked. Below them:
//! `planner` chooses indexes, `exec` runs, `index` keeps entries, `txn` commits, `catalog` knows
//! what exists.

mod catalog;
mod check;
mod client;
mod clock;
mod commands;
mod cursor;
mod engine;
mod exec;
mod index;
mod job;
mod metrics;
mod namespace;
mod operation;
mod parameters;
mod planner;
mod reply;
mod request;
mod session;
mod stages;
mod trash;
mod ttl;
mod txn;
mod validation;

pub use client::Client;
pub use engine::{Engine, Inner, Options, Storage, is_ok};
pub use metrics::{Metrics, Network};
pub use reply::error_of;
pub use request::{Flow, Peer, Request, Sequence};
pub(crate) use txn::store_failed;
pub use value;

/// A number that nobody can guess.
pub(crate) fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
