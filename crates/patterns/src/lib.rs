//! Patterns: values that the database keeps right by itself, because somebody declared what they
//! are made of.
//!
//! `declaration` reads and checks what a client declared, `pattern` is what became of it, `graph`
//! orders patterns that feed each other. When a document changes, `maintain` asks each pattern of
//! its collection for the document's own maintained fields (`shape`), notes what other documents
//! must follow (`note`) and brings them up to date before the commit (`settle`). `clearing` takes
//! away what a pattern that was dropped has left, `queue` keeps what follows later, `resolve` gives
//! readers what is not stored at all, `stats` counts, `labels` tell where
//! values come from. `layout` maps documents to what is stored of them, `shape` to what a reader
//! sees of them. `computed`,
//! `reference`, `subset` and `tree` are the kinds. Everything reaches documents through
//! `documents::Documents` alone, so that the same patterns can run on another database.

pub mod clearing;
pub mod declaration;
pub mod documents;
pub mod edit;
pub mod fold;
pub mod graph;
pub mod kinds;
pub mod labels;
pub mod layout;
pub mod maintain;
pub mod memory;
pub mod ownership;
pub mod paths;
pub mod pattern;
pub mod queue;
pub mod resolve;
pub mod shape;
pub mod stats;

pub use documents::{Documents, Find, Key};
pub use maintain::{Bound, Origin, Pending};
pub use pattern::{Pattern, Phase};
