//! The query language: pure functions on documents, without files, catalogs or sockets.
//!
//! `filter` decides whether a document matches (`geo` for locations, `text` for text search),
//! `mismatch` says why it does not,
//! `expr` computes values, `accumulate` aggregates them, `project` shapes results, `sort` computes
//! sort keys, `update` computes the next version of a document. Each is compiled once from the
//! client's document and then runs on raw bytes. `context` is the context of compiling, with
//! variables that are set later (`deferred`); `regex` is shared by all. `field_path`, `path_values`, `sums` and
//! `show` are helpers. Loops call `interrupt` to stop with their operation.

pub mod accumulate;
pub mod context;
mod deferred;
pub mod expr;
mod field_path;
pub mod filter;
pub mod geo;
pub mod interrupt;
pub mod key_table;
pub mod mismatch;
mod path_values;
pub mod project;
pub mod regex;
mod script;
mod show;
pub mod slots;
pub mod sort;
mod sums;
pub mod text;
pub mod update;

pub use context::{Javascript, ParseContext};
pub use deferred::DeferredVariable;
pub use field_path::check as check_field_path;
