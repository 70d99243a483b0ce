//! The graph of a crate's top modules, read from the paths in its sources.

use crate::source::{Source, without_comments, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Uses of one module by another: the files that use it, with the paths.
pub type Uses = BTreeMap<(String, String), BTreeSet<String>>;

/// The module at the top of the crate that a file belongs to; `None` for the root itself.
#[must_use]
pub fn module_of(path: &str) -> Option<&str> {
    let first = path.split('/').next().unwrap_or(path);
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (name != "lib" && name != "main").then_some(name)
}

/// The uses between the top modules of a crate. Tests are ignored.
#[must_use]
pub fn uses(files: &[Source]) -> Uses {
    let modules: BTreeSet<&str> = files.iter().filter_map(|file| module_of(&file.path)).collect();
    let root = files.iter().find(|file| module_of(&file.path).is_none());
    let exported = root.map(|root| re_exports(&root.text)).unwrap_or_default();
    let mut uses = Uses::new();
    for file in files.iter().filter(|file| !file.path.ends_with("tests.rs")) {
        let Some(module) = module_of(&file.path) else { continue };
        let text = without_comments(&without_tests(&file.text));
        for path in paths(&text, depth(&file.path)) {
            let first = path.split("::").next().unwrap_or("");
            let used = exported.get(first).map_or(first, String::as_str);
            if used != module && modules.contains(used) {
                let by = uses.entry((module.to_owned(), used.to_owned())).or_default();
                by.insert(format!("{} uses {path}", file.path));
            }
        }
    }
    uses
}

/// How many `super::` lead from a file's module to the root of the crate.
fn depth(path: &str) -> usize {
    let path = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(path);
    path.split('/').count()
}

/// All paths below the root of the crate, groups spread out.
fn paths(text: &str, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    for prefix in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in text.match_indices(&prefix) {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                continue;
            }
            expand("", text.get(at + prefix.len()..).unwrap_or(""), &mut found);
        }
    }
    found
}

/// Reads one path, or a group of them in braces; returns the rest of the text.
fn expand<'t>(prefix: &str, text: &'t str, found: &mut Vec<String>) -> &'t str {
    let text = text.trim_start();
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !part(c)).unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    let path = format!("{prefix}{path}");
    let Some(mut rest) = rest.strip_prefix('{') else {
        found.push(path.trim_end_matches(':').to_owned());
        return rest;
    };
    loop {
        rest = expand(&path, rest, found);
        // Up to the next member, over `as name`.
        let Some(at) = rest.find([',', '}']) else { return "" };
        let (separator, behind) = rest.split_at(at);
        debug_assert!(!separator.contains('{'), "a path group in {path}");
        rest = behind.get(1..).unwrap_or("");
        if behind.starts_with('}') {
            return rest;
        }
        if let Some(closed) = rest.trim_start().strip_prefix('}') {
            return closed;
        }
    }
}

/// Names that the root of the crate takes from its modules, with those modules.
fn re_exports(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let text = without_comments(root);
    for (at, keyword) in text.match_indices("use ") {
        let mut found = Vec::new();
        expand("", text.get(at + keyword.len()..).unwrap_or(""), &mut found);
        for path in found {
            if let (Some((module, _)), Some((_, name))) =
                (path.split_once("::"), path.rsplit_once("::"))
            {
                names.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    names
}

/// The groups of modules that use each other in a cycle, directly or through others; each module is
/// in at most one.
#[must_use]
pub fn cycles(uses: &Uses) -> BTreeSet<BTreeSet<String>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (user, used) in uses.keys() {
        reached.entry(user).or_default().insert(used);
    }
    loop {
        let before: usize = reached.values().map(BTreeSet::len).sum();
        let known = reached.clone();
        for seen in reached.values_mut() {
            let further: Vec<&str> =
                seen.iter().filter_map(|next| known.get(next)).flatten().copied().collect();
            seen.extend(further);
        }
        if reached.values().map(BTreeSet::len).sum::<usize>() == before {
            break;
        }
    }
    let reaches = |a: &str, b: &str| reached.get(a).is_some_and(|seen| seen.contains(b));
    let group = |module: &&str| -> BTreeSet<String> {
        let same = reached.keys().filter(|other| reaches(module, other) && reaches(other, module));
        same.map(|other| (*other).to_owned()).collect()
    };
    reached.keys().map(group).filter(|group| !group.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn paths_are_found_in_groups_by_super_and_by_re_export() {
        let files = [
            file("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::{Shown, Other as Name};\n"),
            file("a.rs", "use crate::{b::{X, y::Z}, Shown};\n"),
            file(
                "b/mod.rs",
                "use super::a::Q; // crate::c\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n",
            ),
            file("c/deep.rs", "fn f() { super::super::b::g() }\nfn h() { super::other() }\n"),
        ];
        let uses = uses(&files);
        let edges: Vec<(&str, &str)> =
            uses.keys().map(|(user, used)| (user.as_str(), used.as_str())).collect();
        assert_eq!(edges, [("a", "b"), ("a", "c"), ("b", "a"), ("c", "b")]);
        let groups: Vec<usize> = cycles(&uses).iter().map(BTreeSet::len).collect();
        assert_eq!(groups, [3]);
    }

    #[test]
    fn modules_in_order_form_no_cycle() {
        let files =
            [file("a.rs", ""), file("b.rs", "use crate::a;"), file("c.rs", "use crate::{a, b};")];
        assert!(cycles(&uses(&files)).is_empty());
    }
}
