//! The allowed dependencies of crates and of the modules of `motifdb`. Both tables are ordered from
//! the bottom up: an item may use only items before it.

/// The crates' folders, from the bottom up.
pub const CRATES: &[&str] = &[
    "tidy",
    "value",
    "store",
    "faults",
    "javascript",
    "query",
    "patterns",
    "access",
    "engine",
    "client",
    "server",
    "upstream",
    "bench",
    "spec",
    "cli",
];

/// The layers of `crates/engine/src`, from the bottom up, each with its modules, also from the bottom
/// up. Each module names its layer in its header: `//! Layer: base.`
pub const ENGINE: &[(&str, &[&str])] = &[
    (
        "base",
        &[
            "args",
            "bell",
            "clock",
            "fail_points",
            "host",
            "job",
            "memory",
            "metrics",
            "namespace",
            "options",
            "request",
            "store_errors",
            "usage",
            "resources",
            "report",
            "slot",
        ],
    ),
    ("catalog", &["index_keys", "plan_cache", "validation", "trash", "catalog", "layout"]),
    ("transactions", &["changes", "txn", "operation", "index", "records"]),
    ("patterns", &["upkeep"]),
    ("queries", &["planner", "exec", "change_streams", "query_stats", "stages", "cursor"]),
    (
        "service",
        &[
            "reply",
            "session",
            "command_log",
            "own_log",
            "profiler",
            "access",
            "damage",
            "check",
            "repair",
            "parameters",
            "ttl",
            "shared",
            "client",
        ],
    ),
    ("commands", &["commands"]),
    ("engine", &["engine", "startup_log", "library"]),
];

/// The layer of a module of the engine, and its position among all modules.
#[must_use]
pub fn position(module: &str) -> Option<(&'static str, usize)> {
    let all = ENGINE.iter().flat_map(|(layer, modules)| modules.iter().map(move |m| (*layer, *m)));
    all.enumerate().find(|(_, (_, m))| *m == module).map(|(at, (layer, _))| (layer, at))
}
