//! What the fuzz targets share.
//!
//! `text` reads an input as documents in the shell's notation, `tree` changes such documents (so
//! that mutants still mean something), `bed` is an engine in memory that inputs are run on, `laws`
//! is what must hold for every document that comes out.

pub mod bed;
pub mod laws;
pub mod text;
pub mod tree;
