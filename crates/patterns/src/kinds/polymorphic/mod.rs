//! `polymorphic`: documents of several types in one collection, each with its own schema.
//!
//! `declaration` reads the options; `crate::types` does the rest.

pub(crate) mod declaration;
