//! The kinds of patterns: one folder each.

pub mod computed;
pub mod extended_reference;
pub mod subset;
pub mod tree;
