//! The tables of COMPAT.md are generated from the registries of the engine and from the spec files, so
//! that they are always true. `BLESS=1` rewrites them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const BEGIN: &str =
    "<!-- generated from the registries: BLESS=1 cargo test -p motif-spec --test compat -->\n";
const END: &str = "<!-- end of the generated part -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn compat_tells_what_the_registries_hold() {
    let path = root().join("COMPAT.md");
    let text = std::fs::read_to_string(&path).expect("COMPAT.md is there");
    let (head, rest) = text.split_once(BEGIN).expect("COMPAT.md has a generated part");
    let (_, tail) = rest.split_once(END).expect("the generated part ends");
    let fresh = format!("{head}{BEGIN}{}{END}{tail}", generated());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, fresh).expect("COMPAT.md can be written");
    } else {
        assert!(
            fresh == text,
            "COMPAT.md is out of date; run BLESS=1 cargo test -p motif-spec --test compat"
        );
    }
}

fn generated() -> String {
    let mut out = String::new();
    let registry = motifdb::registry();
    let surface = include_str!("../data/surface.txt");
    let surface: Vec<(&str, &str)> = surface
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut parts = line.split('\t');
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    for (kind, title) in [
        ("command", "Commands"),
        ("filter operator", "Filter operators"),
        ("update operator", "Update operators and modifiers"),
        ("stage", "Aggregation stages"),
        ("accumulator", "Accumulators"),
        ("expression", "Aggregation expressions"),
    ] {
        let have: BTreeSet<&str> =
            registry.iter().filter(|entry| entry.kind == kind).map(|entry| entry.name).collect();
        let known: BTreeSet<&str> =
            surface.iter().filter(|(of, _)| *of == kind).map(|(_, name)| *name).collect();
        let there: Vec<&str> = known.intersection(&have).copied().collect();
        let missing: Vec<&str> = known.difference(&have).copied().collect();
        let more: Vec<&str> = have.difference(&known).copied().collect();
        let _ = writeln!(out, "\n### {title}: {} of {}\n", there.len(), known.len());
        let _ = writeln!(out, "Supported: {}.\n", list(&there));
        if !missing.is_empty() {
            let _ = writeln!(out, "Missing: {}.\n", list(&missing));
        }
        if !more.is_empty() {
            let _ = writeln!(out, "In addition: {}.", list(&more));
        }
    }
    let _ = writeln!(out, "\n### Known differences, from the spec files\n");
    let _ = writeln!(out, "| what | where |\n|---|---|");
    for (reason, file) in differences() {
        let _ = writeln!(out, "| {reason} | `{file}` |");
    }
    out.push('\n');
    out
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// The reasons of all `differs` and `only motif` directives, with the first file that has each.
fn differences() -> Vec<(String, String)> {
    let folder = root().join("tests/spec");
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let name = file.strip_prefix(&folder).unwrap_or(&file).display().to_string();
        for line in text.lines() {
            let reason = line.strip_prefix("differs ").or(line.strip_prefix("only motif "));
            if let Some(reason) = reason
                && seen.insert(reason.to_owned())
            {
                found.push((reason.to_owned(), name.clone()));
            }
        }
    }
    found
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "test") {
            files.push(path);
        }
    }
}
