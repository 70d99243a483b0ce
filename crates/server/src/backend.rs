//! What runs the commands of clients in place of the engine: a server in front of a cluster
//! (`motif serve --upstream`) passes them on.
//!
//! `conversation` reads messages and sends replies, compressed and encrypted as the client has it; a
//! backend sees plain messages only.

use motifdb::{Flow, Request};
use std::fmt;
use std::sync::Arc;
use value::RawDoc;

/// The fields of a `hello` that concern a login.
pub const LOGIN_FIELDS: [&str; 2] = ["saslSupportedMechs", "speculativeAuthenticate"];

/// A command of a client.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The command.
    pub request: &'a Request<'a>,
    /// Its `OP_MSG`, header included; `None` if it came in another form.
    pub message: Option<&'a [u8]>,
    /// Whether the client takes no reply.
    pub is_silent: bool,
}

/// Interrupts what a route runs, from another thread.
pub type Interrupter = Arc<dyn Fn() + Send + Sync>;

/// Runs the commands of all clients.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Opens the route of a client that has connected.
    fn open(&self, connection_id: i64) -> Box<dyn Route>;
}

/// Runs the commands of one client, one after another.
pub trait Route: Send {
    /// Runs a command and appends the body of its reply.
    fn run(&mut self, call: &Call<'_>, reply: &mut Vec<u8>) -> Flow;

    /// Completes the reply to a `hello` (`reply` from `start` on), which the engine has answered
    /// as a router without the fields of `LOGIN_FIELDS`.
    fn greet(&mut self, hello: RawDoc<'_>, reply: &mut Vec<u8>, start: usize);

    /// Appends the next reply to the last command, which returned `Flow::Exhaust`.
    fn run_more(&mut self, reply: &mut Vec<u8>) -> Flow;

    /// Interrupts the running command. Called if the client disconnects while it reads.
    fn interrupter(&self) -> Interrupter;
}
