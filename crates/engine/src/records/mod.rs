//! Records: documents as they are stored, with their index entries and counters.
//!
//! `write` stores and removes them inside a transaction; `resolve` adds the fields that are not stored
//! but found in other documents; `pattern_reads` is what patterns read; `create_collection` makes a
//! collection for a write to one that does not exist. What patterns derive is above, in `upkeep`.
//!
//! Layer: transactions.

pub mod create_collection;
pub mod pattern_reads;
pub mod resolve;
pub mod write;
