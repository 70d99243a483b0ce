//! Indexes: keeping entries right on writes (`maintain`), building an index beside running writes
//! (`build`, `fill`, `runs`, `resume`), and checking specifications (`spec`, `options`). What an index is
//! and which keys it has for a document is in `index_keys`.
//!
//! Layer: transactions.

pub mod build;
mod fill;
pub mod maintain;
pub mod options;
mod resume;
mod runs;
pub mod spec;

pub use resume::resume;
