//! Checks the order of the workspace (`tidy::layers`). A violation fails, and so does an entry of
//! `tidy::allowed` that is no longer needed.

use std::collections::BTreeSet;
use std::fs;
use tidy::source::{Source, files, root, undocumented, without_comments, without_tests};
use tidy::{allowed, graph, layers};

fn engine() -> Vec<Source> {
    files(&root().join("crates/engine/src"))
}

/// Compares what was found with what is allowed: neither may be without the other.
fn compare(what: &str, found: &[(String, String)], allowed: &[&str]) {
    let known: BTreeSet<&str> = allowed.iter().copied().collect();
    let offences: Vec<String> = found
        .iter()
        .filter(|(key, _)| !known.contains(key.as_str()))
        .map(|(key, detail)| format!("{key}\n    {detail}"))
        .collect();
    assert!(offences.is_empty(), "{what}:\n{}", offences.join("\n"));
    let there: BTreeSet<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    let needless: Vec<&&str> = known.iter().filter(|key| !there.contains(**key)).collect();
    assert!(needless.is_empty(), "remove these from tidy::allowed ({what}): {needless:?}");
}

#[test]
fn modules_of_the_engine_use_only_those_below() {
    let uses = graph::uses(&engine());
    let mut upwards = Vec::new();
    for ((user, used), by) in &uses {
        let (Some((_, above)), Some((_, below))) = (layers::position(user), layers::position(used))
        else {
            continue;
        };
        if below >= above {
            let by: Vec<&str> = by.iter().map(String::as_str).collect();
            upwards.push((format!("{user} -> {used}"), by.join("\n    ")));
        }
    }
    compare("a module uses one above it", &upwards, allowed::UPWARD_USES);
}

#[test]
fn every_module_of_the_engine_is_in_the_table_and_names_its_layer() {
    let files = engine();
    let modules: BTreeSet<&str> =
        files.iter().filter_map(|file| graph::module_of(&file.path)).collect();
    let listed: BTreeSet<&str> =
        layers::ENGINE.iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
    let mut missing: Vec<(String, String)> = Vec::new();
    for module in modules.symmetric_difference(&listed) {
        missing.push(((*module).to_owned(), "not both a module and in tidy::layers".to_owned()));
    }
    compare("the table of layers and the modules differ", &missing, allowed::NOT_IN_TABLE);
    let mut wrong = Vec::new();
    for module in modules.intersection(&listed) {
        let (Some((layer, _)), Some(file)) = (
            layers::position(module),
            files
                .iter()
                .find(|f| f.path == format!("{module}.rs") || f.path == format!("{module}/mod.rs")),
        ) else {
            continue;
        };
        let header = file.text.lines().take_while(|line| line.starts_with("//!"));
        let said: Vec<&str> = header.filter_map(|line| line.strip_prefix("//! Layer: ")).collect();
        if said != [format!("{layer}.")] {
            wrong.push((
                (*module).to_owned(),
                format!("says {said:?}, needs `//! Layer: {layer}.`"),
            ));
        }
    }
    compare("a module's header names another layer", &wrong, allowed::LAYER_NOT_NAMED);
}

#[test]
fn crates_use_only_those_below() {
    let folder = root().join("crates");
    let mut found: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("crates can be listed") {
        found.insert(entry.expect("an entry").file_name().to_string_lossy().into_owned());
    }
    let listed: BTreeSet<String> = layers::CRATES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed, "tidy::layers::CRATES lists every crate");
    for (at, name) in layers::CRATES.iter().enumerate() {
        let manifest =
            fs::read_to_string(folder.join(name).join("Cargo.toml")).expect("a manifest");
        let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        for line in lines.take_while(|line| !line.starts_with('[')) {
            let used = line.split(['.', ' ', '=']).next().unwrap_or("");
            let used = if used == "motifdb" { "engine" } else { used };
            if let Some(below) = layers::CRATES.iter().position(|other| *other == used) {
                assert!(below < at, "crates/{name} depends on crates/{used}, which is above it");
            }
        }
    }
}

#[test]
fn no_file_is_longer_than_seven_hundred_lines() {
    let mut long = Vec::new();
    for file in files(&root().join("crates")) {
        let lines = file.text.lines().count();
        if lines > 700 {
            long.push((file.path, format!("{lines} lines")));
        }
    }
    compare("a file has more than 700 lines", &long, allowed::LONG_FILES);
}

#[test]
fn every_file_begins_with_what_lives_in_it() {
    for file in files(&root().join("crates")) {
        assert!(file.text.starts_with("//!"), "crates/{} begins without `//!`", file.path);
    }
}

#[test]
fn every_public_item_has_a_doc_comment() {
    let mut bare = Vec::new();
    for file in files(&root().join("crates")) {
        if !file.path.contains("/src/") {
            continue;
        }
        for (line, item) in undocumented(&without_tests(&file.text)) {
            bare.push(format!("crates/{}:{line}: {item}", file.path));
        }
    }
    assert!(bare.is_empty(), "public without a doc comment:\n{}", bare.join("\n"));
}

/// The engine calls the trait of kinds of patterns and names none of them. The library has a builder
/// for each kind, in a file with the kind's name, which may name this kind.
#[test]
fn the_engine_names_no_kind_of_pattern() {
    let folder = root().join("crates/patterns/src/kinds");
    let mut signs = vec![("Behaviour::".to_owned(), None)];
    for entry in fs::read_dir(folder).expect("kinds can be listed") {
        let entry = entry.expect("an entry");
        if !entry.path().is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let builder = format!("library/patterns/{name}.rs");
        signs.push((format!("kinds::{name}"), None));
        signs.push((format!("\"{}\"", camel_case(&name)), Some(builder)));
    }
    assert!(signs.len() > 2, "there are kinds");
    let mut named = Vec::new();
    for file in engine().iter().filter(|file| !file.path.ends_with("tests.rs")) {
        let text = without_comments(&without_tests(&file.text));
        let is_none = |sign: &str| allowed::NOT_A_KIND.contains(&(file.path.as_str(), sign));
        let found: Vec<&str> = signs
            .iter()
            .filter(|(_, builder)| builder.as_ref() != Some(&file.path))
            .map(|(sign, _)| sign.as_str())
            .filter(|sign| text.contains(sign) && !is_none(sign))
            .collect();
        if !found.is_empty() {
            named.push((file.path.clone(), found.join(", ")));
        }
    }
    compare("a file of the engine names a kind of pattern", &named, allowed::NAMES_A_KIND);
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |mut made, part| {
        let (head, tail) = part.split_at(1);
        made.push_str(&head.to_uppercase());
        made.push_str(tail);
        made
    })
}

/// Modules of a crate that use each other in a cycle must be listed, and a list that is longer than
/// the cycle fails too: the table can only shrink.
#[test]
fn modules_use_each_other_in_no_cycle() {
    for name in layers::CRATES {
        let uses = graph::uses(&files(&root().join("crates").join(name).join("src")));
        let found: Vec<(String, String)> = graph::cycles(&uses)
            .iter()
            .map(|group| {
                let names: Vec<&str> = group.iter().map(String::as_str).collect();
                let inside = uses
                    .iter()
                    .filter(|((user, used), _)| group.contains(user) && group.contains(used));
                let by: Vec<&str> = inside.flat_map(|(_, by)| by).map(String::as_str).collect();
                (names.join(" "), by.join("\n    "))
            })
            .collect();
        let allowed: Vec<&str> = allowed::CYCLES
            .iter()
            .filter(|(owner, _)| owner == name)
            .map(|(_, modules)| *modules)
            .collect();
        compare(&format!("modules of crates/{name} use each other in a cycle"), &found, &allowed);
    }
}
