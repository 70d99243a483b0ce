//! Patterns as types: a builder for each kind, and the commands about patterns.

mod commands;
mod computed;
mod extended_reference;
mod options;
mod subset;
mod tree;

pub use commands::{
    CreatePatterns, DropPatterns, ModifyPattern, PatternCheck, PatternInfo, PatternState,
    ResumePatterns, SuspendPatterns, ValidatePatterns,
};
pub use computed::Computed;
pub use extended_reference::{ExtendedReference, Freshness, OnMissing, OnSourceDelete, OverLimit};
pub use options::{
    BackfillRate, ChangeEvents, ClientWrites, DuringBuild, Every, Mode, OnDrift, OnError,
    OnMissingParent, Pattern, Strategy,
};
pub use subset::Subset;
pub use tree::{OnDelete, OnMissingNode, Tree};
