//! Indexes: maintenance of entries on writes (`maintain`), building an index while writes continue
//! (`build`, `fill`, `runs`, `resume`), and checking specifications (`spec`, `options`, `existing`,
//! `clustered`). The definition of an index and its keys for a document are in `index_keys`.
//!
//! Layer: transactions.

pub mod build;
mod clustered;
mod existing;
mod fill;
pub mod maintain;
pub mod options;
mod partial;
mod resume;
mod runs;
pub mod spec;

pub use resume::{fill_renewed, resume};
