//! Records: documents as they are stored, with their index entries and counters.
//!
//! `write` stores and removes them inside a transaction; `resolve` adds fields that are resolved
//! from other documents; `pattern_reads` serves the reads of patterns; `create_collection` creates
//! a collection that a write names and that does not exist. Pattern updates are one layer above, in
//! `upkeep`.
//!
//! Layer: transactions.

pub mod create_collection;
pub mod pattern_reads;
pub mod resolve;
pub(crate) mod temporary;
pub mod write;
