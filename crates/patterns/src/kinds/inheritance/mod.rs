//! `inheritance`: documents of a hierarchy of types. A type has the fields, rules and indexes of the
//! types above it; every document stores the path of its type.
//!
//! `declaration` reads the options and orders the types; `crate::types` does the rest.

pub(crate) mod declaration;
