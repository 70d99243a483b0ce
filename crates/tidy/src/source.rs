//! Source files of the workspace, and what of them counts.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A source file.
pub struct Source {
    /// Its path from the folder that was listed, with `/` between its parts.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// All Rust files below a folder, in the order of their paths.
///
/// # Panics
/// When a file cannot be read.
#[must_use]
pub fn files(folder: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder of the workspace can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file can be read");
                let path = path.strip_prefix(folder).expect("is below the folder").to_owned();
                let parts = path.iter().map(|part| part.to_string_lossy());
                found.push(Source { path: parts.collect::<Vec<_>>().join("/"), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The lines of a file without those that only tests build.
#[must_use]
pub fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let mut item = lines.by_ref().skip_while(|line| line.trim_start().starts_with("#["));
        // The item ends on its first line, or at the bracket below its beginning.
        if item.next().is_some_and(|first| !first.trim_end().ends_with([';', '}', ','])) {
            item.find(|line| *line == end);
        }
    }
    kept
}

/// The same text without comments. (A `//` inside of a string ends the line too: nothing that is
/// looked for stands behind one.)
#[must_use]
pub fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect()
}

/// The lines of items and fields that are `pub` without a doc comment, by their number.
#[must_use]
pub fn undocumented(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(item) = line.trim_start().strip_prefix("pub ") else { continue };
        if item.starts_with("use ") || (item.starts_with("mod ") && item.ends_with(';')) {
            continue;
        }
        let mut above = lines.get(..at).unwrap_or(&[]).iter().rev().map(|line| line.trim());
        let documented = loop {
            match above.next() {
                Some(line) if line.starts_with("///") || line.starts_with("#[doc") => break true,
                Some(line) if line.starts_with("#[") => {}
                // The end of an attribute of several lines.
                Some(line) if line.ends_with(")]") => {
                    above.by_ref().find(|line| line.starts_with("#["));
                }
                _ => break false,
            }
        };
        if !documented {
            found.push((at + 1, line.trim().to_owned()));
        }
    }
    found
}
