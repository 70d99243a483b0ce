//! Patterns: values that the database maintains, as declared by a client.
//!
//! - `kind`: the trait of a kind of pattern, with its `traits`; `kinds`: the kinds, one folder each.
//! - `declaration` reads and checks a declaration and compiles it into a `pattern`; `graph` orders
//!   patterns that depend on each other; `inspection` looks at existing documents before.
//! - `maintain`: the write path. A written document gets its maintained fields, its changes are
//!   recorded as deltas (`delta`) for other documents, and these are settled before the commit.
//!   `queue` holds updates that run after the commit.
//! - `fold`: accumulates documents by a key; several kinds consist of it.
//! - `types`: documents of several types, each with its own schema; several kinds consist of it.
//! - `clearing` removes the values of a dropped pattern; `resolve` derives values that are not
//!   stored, for readers.
//! - `answers`, `descent`: queries that are answered from maintained values; `scratch`: records
//!   that a check recomputes.
//! - `layout` maps documents to stored records, `shape` to the form that a reader sees; `views` shows
//!   some of the documents under a name of their own.
//! - `error_context`: errors that a pattern causes name it; `checking`: what a check covers and finds.
//! - `ownership`: write permission for maintained fields; `labels`: provenance of values; `stats`:
//!   counters.
//!
//! Patterns access documents only through `documents::Documents`, so that they can run on another
//! database.

pub mod answers;
pub mod checking;
pub mod clearing;
pub mod declaration;
pub mod delta;
pub mod descent;
pub mod documents;
pub mod edit;
pub mod error_context;
pub mod fold;
pub mod graph;
pub mod inspection;
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
pub mod traits;
pub mod types;
pub mod views;

pub use delta::Delta;
pub use documents::{Documents, Find, Key};
pub use kind::{Kind, Traits};
pub use maintain::{CollectionPatterns, Origin, Pending};
pub use pattern::{Pattern, Phase};
