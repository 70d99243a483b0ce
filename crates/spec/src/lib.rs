//! The data-driven tests of `tests/spec`: files with commands and their expected results.
//!
//! `file` reads the format, `connection` connects to the tested system, `run` runs a test, `judge`
//! compares results with expectations, `bless` replaces expectations, `same` repeats queries with other
//! plans, `shape` prints plans, `text` reads and prints values. `differential` compares with another
//! server on random commands. The runner is `tests/spec.rs`; the format is described in
//! `tests/spec/README.md`.

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
