//! Declarations of patterns between writes: whatever is declared and ready, a recomputation gives
//! what is maintained.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use motif_fuzz::bed::Bed;
use motif_fuzz::{laws, text};
use std::collections::BTreeSet;
use value::{DocBuf, RawDoc, Val};

/// What an input may do.
static COMMANDS: &[&str] = &[
    "createPatterns",
    "dropPatterns",
    "modifyPattern",
    "suspendPatterns",
    "resumePatterns",
    "listPatterns",
    "insert",
    "update",
    "delete",
    "findAndModify",
    "createIndexes",
    "drop",
    "renameCollection",
    "create",
    "find",
    "aggregate",
    "count",
];

fuzz_target!(|input: &[u8]| {
    let Some(commands) = text::documents(input) else { return };
    let declares = |command: &DocBuf| command.as_doc().find("createPatterns").is_some();
    if !commands.iter().any(declares) {
        return;
    }
    let mut bed = Bed::empty();
    let mut collections = BTreeSet::new();
    for command in &commands {
        let Some((name, value)) = command.as_doc().first() else { continue };
        if !COMMANDS.contains(&name) || command.as_doc().find("$db").is_some() {
            continue;
        }
        bed.run(command.as_doc());
        if let Val::String(collection) = value.get() {
            collections.insert(collection.to_owned());
        }
    }
    for collection in &collections {
        check(&mut bed, collection);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    text::mutate(data, size, max_size, seed)
});

fn check(bed: &mut Bed, collection: &str) {
    let command = DocBuf::build(|out| {
        out.str("validatePatterns", collection);
    });
    let reply = bed.run(command.as_doc());
    let Some(Val::Array(patterns)) = reply.as_doc().get("patterns") else { return };
    for pattern in patterns.iter().filter_map(|(_, value)| value.as_doc()) {
        let drift = pattern.get("drift").and_then(|value| value.as_i64_exact());
        assert!(
            drift.is_none_or(|drift| drift == 0) || is_paused(pattern),
            "{}",
            laws::show(pattern)
        );
    }
}

/// Patterns that are suspended, or not built yet, may be behind.
fn is_paused(pattern: RawDoc<'_>) -> bool {
    pattern.get("state").and_then(|state| state.as_str()).is_some_and(|state| state != "ready")
}
