//! Every operator, stage, accumulator and command of the registries, every index option and every form
//! of projection must be in some spec file.

use std::path::{Path, PathBuf};

/// Options of `createIndexes`, the kinds of indexes, and what a projection may say; there is no
/// registry of these.
const OTHERS: &[&str] = &[
    "unique",
    "sparse",
    "hidden",
    "partialFilterExpression",
    "expireAfterSeconds",
    "collation",
    "wildcardProjection",
    "weights",
    "default_language",
    "language_override",
    "bits",
    "min",
    "max",
    "finestIndexedLevel",
    "coarsestIndexedLevel",
    "2dsphereIndexVersion",
    "textIndexVersion",
    "prepareUnique",
    "clusteredIndex",
    "\"hashed\"",
    "\"text\"",
    "\"2d\"",
    "\"2dsphere\"",
    "\"$**\"",
    "$slice",
    "$elemMatch",
    "$meta",
    "a.$\"",
    "arrayFilters",
    "$each",
    "$position",
    "$sort",
    "$[]",
    "returnKey",
    "showRecordId",
    "allowDiskUse",
    "maxTimeMS",
    "comment",
    "let",
    "bypassDocumentValidation",
    "upsert",
    "multi",
    "ordered",
    "batchSize",
    "singleBatch",
    "changeStreamPreAndPostImages",
    "validationLevel",
    "validationAction",
];

/// Names that cannot have a case, and why.
const EXCEPTIONS: &[(&str, &str)] = &[("shutdown", "it would end the server of all other cases")];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/spec")
}

fn all_text() -> String {
    let mut text = String::new();
    let mut folders = vec![folder()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "test") {
                text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    text
}

/// Whether a text contains a name as a whole word.
fn has(text: &str, name: &str) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|after| after.chars().next());
        let starts = !name.starts_with(inside) || !before.is_some_and(|c| inside(c) || c == '$');
        let ends = !name.ends_with(inside) || !after.is_some_and(inside);
        starts && ends
    })
}

#[test]
fn every_name_has_a_case() {
    let text = all_text();
    let kinds =
        ["filter operator", "update operator", "stage", "accumulator", "command", "optimiser rule"];
    let registry = motifdb::registry();
    let names = registry.iter().filter(|entry| kinds.contains(&entry.kind));
    let mut missing: Vec<&str> = names.map(|entry| entry.name).collect();
    missing.extend(OTHERS);
    missing.retain(|name| !has(&text, name));
    missing.retain(|name| !EXCEPTIONS.iter().any(|(exception, _)| exception == name));
    assert!(missing.is_empty(), "no spec file has a case with {missing:?}");
}

#[test]
fn words_are_found_whole() {
    assert!(has("{a: {$in: [1]}}", "$in") && !has("{a: {$inc: 1}}", "$in"));
    assert!(has("{find: 1}", "find") && !has("{findAndModify: 1}", "find"));
    assert!(!has("$min", "min") && has("{min: 1}", "min"));
}
