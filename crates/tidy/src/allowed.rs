//! Offences that are known. These lists may only shrink: the test fails when one is no longer there.

/// Uses of a module by one below it, as `user -> used`.
pub const UPWARD_USES: &[&str] = &[];
/// Modules that are not in the table, or in the table and not there.
pub const NOT_IN_TABLE: &[&str] = &[];
/// Modules whose header does not name their layer.
pub const LAYER_NOT_NAMED: &[&str] = &[];
/// Files with more than 700 lines.
pub const LONG_FILES: &[&str] = &[];
/// Words that look like the name of a kind of pattern and are none, by their file.
pub const NOT_A_KIND: &[(&str, &str)] = &[
    // A tree of the store.
    ("commands/server_status.rs", "\"tree\""),
];
/// Files of the engine that name a kind of pattern.
pub const NAMES_A_KIND: &[&str] = &[];
/// Modules of the engine in the largest group that use each other in a circle.
pub const LARGEST_CYCLE: usize = 0;
