//! Patterns: values that the database keeps right by itself, because somebody declared what they
//! are made of.
//!
//! - `kind` is the contract of a kind of pattern, `kinds` holds the kinds, one folder each.
//! - `declaration` reads and checks what a client declared, `pattern` is what became of it, `graph` orders
//!   patterns that feed each other.
//! - `maintain`: when a document changes, it gets its own maintained fields, its changes are noted as
//!   deltas (`delta`) for other documents, and these are settled before the commit. `queue` keeps what is
//!   updated later.
//! - `fold`: accumulating documents by a key, which several kinds are made of.
//! - `clearing` removes what a dropped pattern left, `resolve` gives readers what is not stored.
//! - `answers`, `descent`: queries that are answered from maintained values; `scratch`: records that a
//!   check recomputes.
//! - `layout` maps documents to what is stored of them, `shape` to what a reader sees of them.
//! - `ownership`: who may write what; `labels`: where values come from; `stats` counts.
//!
//! Everything reaches documents through `documents::Documents` alone, so that the same patterns can run
//! on another database.

pub mod answers;
pub mod clearing;
pub mod declaration;
pub mod delta;
pub mod descent;
pub mod documents;
pub mod edit;
pub mod fold;
pub mod graph;
pub mod kind;
pub mod kinds;
pub mod labels;
pub mod layout;
pub mod maintain;
pub mod ownership;
pub mod paths;
pub mod pattern;
pub mod queue;
pub mod resolve;
pub mod scratch;
pub mod shape;
pub mod stats;

pub use delta::Delta;
pub use documents::{Documents, Find, Key};
pub use kind::{Kind, Traits};
pub use maintain::{CollectionPatterns, Origin, Pending};
pub use pattern::{Pattern, Phase};
