//! Reads the workspace's sources for the tidy test: which modules use which, what is documented.
//!
//! `layers` is the table of what may use what, `allowed` lists the offences that are known; that
//! list may only shrink. Nothing here parses Rust: sources are formatted by `rustfmt`, so lines and
//! brackets are enough.

pub mod allowed;
pub mod graph;
pub mod layers;
pub mod source;
