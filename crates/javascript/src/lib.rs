//! Functions that clients write in JavaScript, in a sandbox.
//!
//! A `Program` is one or more functions with their initial global variables. It runs them in contexts
//! of its own (`machine`), which are not shared and are dropped with it. Arguments and results are BSON
//! (`enter`, `leave`); `prelude.js` has the types and helpers that MongoDB's server offers to functions.
//!
//! The sandbox limits memory (`MEMORY_BYTES_MAX`), the stack, the number of contexts (`CONTEXTS_MAX`),
//! the size of results, and time: the engine checks periodically whether to stop. It has no files,
//! sockets, modules, timers or threads.

mod enter;
mod failure;
mod hex;
mod leave;
mod machine;
mod natives;
mod program;

pub use enter::This;
pub use machine::{CONTEXTS_MAX, MEMORY_BYTES_MAX};
pub use program::Program;
