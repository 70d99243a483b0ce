//! The query language: pure functions on documents, nothing of files, catalogs or sockets.
//!
//! `filter` decides whether a document matches (`geo` where it is about places), `expr` computes values, `accumulate` folds them,
//! `project` shapes results, `sort` gives order keys, `update` makes the next version of a
//! document. Each is compiled once from what the client wrote and then run on raw bytes.
//! `context` is what compiling may know about the request (`deferred` what it will know only when it
//! runs); `regex` is shared by all. Loops look by `interrupt` whether their operation shall end.

pub mod accumulate;
pub mod context;
mod deferred;
pub mod expr;
pub mod filter;
pub mod geo;
pub mod interrupt;
pub mod key_table;
mod path_values;
pub mod project;
pub mod regex;
mod show;
pub mod slots;
pub mod sort;
mod sums;
pub mod text;
pub mod update;

pub use context::ParseContext;
pub use deferred::DeferredVariable;
