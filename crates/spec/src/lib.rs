//! The data-driven tests of `tests/spec`: files say what to run and what must come out.
//!
//! `differential` compares with another server at random. `file` reads the format, `connection` connects to a server (in-process, wire, another server),
//! `run` carries a test out, `judge` compares results with expectations, `bless` rewrites
//! expectations, `same` asks queries again in other ways, `shape` draws plans, `text` reads and prints values. The runner itself is
//! `tests/spec.rs`; the format is described in `tests/spec/README.md`.

pub mod bless;
pub mod connection;
pub mod differential;
pub mod file;
pub mod judge;
pub mod outcome;
pub mod run;
pub mod same;
pub mod shape;
pub mod text;
