//! Functions that clients write in JavaScript, in a sandbox.
//!
//! A `Program` is one or more functions with the global variables that they start with. It runs them
//! in contexts of its own (`machine`), which nobody else sees and which end with it. Values come in
//! and go out as BSON (`enter`, `leave`); `prelude.js` has the types and helpers that functions of
//! MongoDB's server find.
//!
//! The bounds of the sandbox: memory (`MEMORY_BYTES_MAX`), stack, the number of contexts (`CONTEXTS_MAX`), the size of results, and the time:
//! the engine asks again and again whether to stop. There are no files, sockets, modules, timers or
//! threads in it.

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
