//! The order of the kinds: a folder, a row and a page each; nobody else names one; and no file of the
//! engine's upkeep is called like one of this crate.

use patterns::kinds::KINDS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates").to_owned()
}

/// All Rust files below a folder.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// A name such as `extendedReference` with its words parted.
fn parted(name: &str, by: char) -> String {
    name.chars().fold(String::new(), |mut text, char| {
        if char.is_ascii_uppercase() {
            text.push(by);
        }
        text.push(char.to_ascii_lowercase());
        text
    })
}

#[test]
fn every_kind_has_a_folder_a_row_and_a_page() {
    let folder = crates().join("patterns/src/kinds");
    let there: BTreeSet<String> = fs::read_dir(&folder)
        .expect("the kinds")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        // Those that only tests declare have no row and no page.
        .filter(|name| name != "for_tests")
        .collect();
    let named: BTreeSet<String> = KINDS.iter().map(|row| parted(row.name, '_')).collect();
    assert_eq!(there, named);
    for row in KINDS {
        let page = crates().join(format!("../docs/patterns/{}.md", parted(row.name, '-')));
        assert!(page.exists(), "{} is missing", page.display());
    }
}

/// Files that may name a kind: file, word, and how often.
static OTHER_MEANINGS: &[(&str, &str, usize)] = &[
    // The tree of the store in which a write failed.
    ("engine/src/commands/server_status.rs", "\"tree\"", 1),
];

/// Whether a file is the library's builder for the kind of this name.
fn is_builder(place: &str, kind: &str) -> bool {
    place == format!("engine/src/library/patterns/{}.rs", parted(kind, '_'))
}

#[test]
fn nobody_names_a_kind_outside_of_its_folder() {
    let mut files = Vec::new();
    sources(&crates().join("engine/src"), &mut files);
    sources(&crates().join("patterns/src"), &mut files);
    let mut words: Vec<(String, &str)> = vec![("Behaviour".to_owned(), "")];
    for row in KINDS {
        words.push((format!("\"{}\"", row.name), row.name));
        words.push((format!("kinds::{}", parted(row.name, '_')), ""));
        words.push((format!("kinds::{{{}", parted(row.name, '_')), ""));
    }
    let mut found = Vec::new();
    for file in files {
        let place = file.strip_prefix(crates()).expect("below crates").display().to_string();
        if place.starts_with("patterns/src/kinds/") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("source text");
        // Tests come last, and may name what they test.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(&text);
        for (word, kind) in &words {
            if is_builder(&place, kind) {
                continue;
            }
            let count = code.matches(word.as_str()).count();
            let other = OTHER_MEANINGS.iter().find(|(at, what, _)| *at == place && what == word);
            if count > other.map_or(0, |(.., count)| *count) {
                found.push(format!("{place}: {word}"));
            }
        }
    }
    assert!(found.is_empty(), "a kind is named outside of its folder: {found:#?}");
}

#[test]
fn no_file_is_called_the_same_on_both_sides() {
    let names = |folder: &str| -> BTreeSet<String> {
        let mut files = Vec::new();
        sources(&crates().join(folder), &mut files);
        let name =
            |file: &PathBuf| file.file_name().expect("a name").to_string_lossy().into_owned();
        files.iter().map(name).filter(|name| name != "mod.rs").collect()
    };
    let (ours, theirs) = (names("patterns/src"), names("engine/src/upkeep"));
    let both: Vec<&String> = ours.intersection(&theirs).collect();
    assert!(both.is_empty(), "{both:?}");
}
