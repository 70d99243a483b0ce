//! Text search: words of many languages, the scores that documents have for them, and `$text`.
//!
//! `language` knows stop words and stems, `token` cuts text into words, `spec` is what a text
//! index says about documents, `query` is what a client searches for.

pub mod language;
pub mod query;
pub mod spec;
mod token;

pub use language::Language;
pub use query::{Search, TextQuery};
pub use spec::TextSpec;
