//! Known violations. The lists can only shrink: the test fails when an entry is no longer needed.

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
/// Top modules that use each other in a cycle, by crate, with spaces between their names.
pub const CYCLES: &[(&str, &str)] = &[
    // A pattern has a kind, and the methods of the trait take the pattern.
    ("patterns", "answers declaration delta fold kind kinds labels layout pattern queue types"),
    // A snapshot is one of disk, memory and overlay, and each of them creates snapshots.
    ("store", "disk memory overlay snapshot"),
    // `patterns` includes the workloads of `beside`, which use its queries.
    ("bench", "beside patterns"),
];
