//! Tests for all rows of commands, and for facts of single rows.

use super::ALL;
use super::patterns::may_declare;
use crate::access::{Authorization, Login};
use crate::request::Request;
use ::access::{Privilege, Privileges};

#[test]
fn the_registry_is_sorted_so_that_binary_search_works() {
    for pair in ALL.windows(2) {
        assert!(pair[0].name < pair[1].name, "{} stands before {}", pair[0].name, pair[1].name);
    }
}

#[test]
fn every_command_has_a_counter() {
    assert!(ALL.len() <= crate::metrics::COMMANDS_MAX);
}

#[test]
fn every_row_says_what_the_command_does_and_who_may_run_it() {
    for row in ALL {
        assert!(row.help.ends_with('.'), "{}: {:?}", row.name, row.help);
        let named = row.fields.is_none_or(|fields| fields.contains(&row.name));
        assert!(named, "{} refuses its own name as a field", row.name);
        let everything = matches!(row.privilege, crate::access::Required::Everything);
        let rightly = ["applyOps"].contains(&row.name);
        assert_eq!(everything, rightly, "{} does not say what it needs", row.name);
    }
}

fn allows(role: &str, text: &str) -> bool {
    let mut privileges = Privileges::default();
    let role = ::access::builtin::find("t", role).expect("a role");
    role.privileges("t").iter().for_each(|privilege| privileges.add(privilege));
    let slot = crate::operation::Operation::for_tests(1).slot().clone();
    let access = std::sync::Arc::new(crate::access::Access::new());
    let ends = ::access::restriction::ConnectionAddresses::default();
    let login = Login::new(slot, access, true, false, ends);
    let body = value::ejson::parse_doc(text).expect("test text");
    let request = Request::new(body.as_doc());
    let (privileges, body) = (&privileges, body.as_doc());
    let auth = Authorization { login: &login, privileges, db: "t", body, request: &request };
    let (name, _) = body.first().expect("a command");
    auth.has(super::find(name).expect("a row").privilege)
}

#[test]
fn a_stage_that_reports_needs_its_privilege_inside_of_others_too() {
    for (role, stage, allowed) in [
        ("read", "$collStats: {count: {}}", true),
        ("read", "$indexStats: {}", false),
        ("read", "$planCacheStats: {}", true),
        ("dbAdmin", "$collStats: {count: {}}", false),
        // Only roles of the whole server have this action, as in MongoDB.
        ("dbOwner", "$indexStats: {}", false),
        ("dbOwner", "$collStats: {count: {}}", true),
        ("dbOwner", "$planCacheStats: {}", true),
    ] {
        let inner = format!("pipeline: [{{{stage}}}]");
        for outer in [
            format!("$lookup: {{from: 'd', as: 'x', {inner}}}"),
            format!("$unionWith: {{coll: 'd', {inner}}}"),
            format!("$facet: {{x: [{{$lookup: {{from: 'd', as: 'x', {inner}}}}}]}}"),
        ] {
            let text = format!("{{aggregate: 'c', pipeline: [{{{outer}}}], cursor: {{}}}}");
            assert_eq!(allows(role, &text), allowed, "{role}: {text}");
        }
    }
}

#[test]
fn bypassing_patterns_needs_the_privilege() {
    for command in [
        "insert: 'c', documents: [{_id: 1}]",
        "update: 'c', updates: [{q: {}, u: {$set: {a: 1}}}]",
        "delete: 'c', deletes: [{q: {}, limit: 0}]",
        "findAndModify: 'c', query: {}, remove: true",
        "aggregate: 'c', pipeline: [{$merge: 'd'}]",
        "bulkWrite: 1, ops: [{delete: 0, filter: {}}], nsInfo: [{ns: 't.c'}]",
    ] {
        let past = format!("{{{command}, bypassPatterns: true}}");
        assert!(allows("readWrite", &format!("{{{command}}}")), "{command}");
        assert!(!allows("readWrite", &past), "{past}");
        assert!(allows("dbOwner", &past), "{past}");
    }
}

#[test]
fn patterns_as_options_of_a_collection_need_what_patterns_need() {
    let plain = "{create: 'c'}";
    let declared = "{create: 'c', patterns: [{kind: 'computed', from: 'd', on: {foreign: 'c'}, fields: {n: {$count: {}}}}]}";
    let declare = "{createPatterns: 'c', patterns: [{kind: 'computed', from: 'd', on: {foreign: 'c'}, fields: {n: {$count: {}}}}]}";
    // The user may create collections and patterns, but not read the collections that these copy.
    assert!(allows("dbAdmin", plain));
    assert!(!allows("dbAdmin", declared) && !allows("dbAdmin", declare));
    assert!(!allows("read", plain) && !allows("read", declare));
    assert!(allows("dbOwner", declared) && allows("dbOwner", declare));
    // A new version must not read collections that its author may not read.
    let parse = |text: &str| {
        let doc = value::ejson::parse_doc(text).expect("test text");
        ::patterns::declaration::parse("c", doc.as_doc()).expect("a pattern")
    };
    let mut privileges = Privileges::default();
    let mut allow = |name: &str, actions: &str| {
        let text = format!("{{resource: {{db: 't', collection: '{name}'}}, actions: {actions}}}");
        let doc = value::ejson::parse_doc(&text).expect("test text");
        privileges.add(&Privilege::parse(doc.as_doc()).expect("a privilege"));
        privileges.clone()
    };
    let copies = parse(
        "{kind: 'extendedReference', ref: 's._id', from: 'secrets', fields: ['x'], into: 's'}",
    );
    let groups = parse("{kind: 'computed', into: 'g', groupBy: '$x', fields: {n: {$count: {}}}}");
    let own = allow("c", "['createPattern', 'find', 'update']");
    assert!(!may_declare(&own, "t", &copies) && !may_declare(&own, "t", &groups));
    assert!(may_declare(&allow("secrets", "['find']"), "t", &copies));
    assert!(may_declare(&allow("g", "['insert', 'update', 'remove']"), "t", &groups));
}

/// Files that compare with words that are also names of commands: the words, and their meaning.
static OTHER_WORDS: &[(&str, &[&str], &str)] = &[
    (
        "engine/src/change_streams/event.rs",
        &[
            "collMod",
            "create",
            "createIndexes",
            "drop",
            "dropDatabase",
            "dropIndexes",
            "renameCollection",
        ],
        "the entries of the log of changes",
    ),
    (
        "engine/src/commands/apply_ops.rs",
        &[
            "applyOps",
            "collMod",
            "create",
            "createIndexes",
            "drop",
            "dropDatabase",
            "dropIndexes",
            "renameCollection",
        ],
        "what an entry of an oplog does",
    ),
    ("engine/src/commands/bulk_write.rs", &["delete", "insert", "update"], "kinds of operations"),
    ("engine/src/commands/find.rs", &["find"], "the command's own field"),
    (
        "engine/src/commands/named_faces.rs",
        &["aggregate", "bulkWrite", "find", "findAndModify", "insert"],
        "where a command names fields of documents",
    ),
    ("engine/src/commands/parameters.rs", &["setParameter"], "the command's own field"),
    ("engine/src/commands/write_concern.rs", &["fsync"], "a field of write concerns"),
    (
        "engine/src/library/change_event.rs",
        &["delete", "drop", "dropDatabase", "insert", "update"],
        "types of change events",
    ),
    ("engine/src/stages/merge.rs", &["insert"], "what $merge does with new documents"),
];

/// The text of a source file without its comments and its tests.
fn code_of(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source file");
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The names of commands that a text compares something with: in the pattern of a `match` or `matches!`,
/// or by `==`.
fn compared_names(code: &str) -> Vec<&'static str> {
    let compares = |row: &&&super::Command| {
        let literal = format!("\"{}\"", row.name);
        code.match_indices(&literal).any(|(at, _)| {
            let before = code.get(..at).unwrap_or("").trim_end();
            let after = code.get(at + literal.len()..).unwrap_or("").trim_start();
            let after_pattern = after.trim_start_matches([')', ',', '_', ' ']).trim_start();
            before.ends_with("==")
                || before.ends_with("!=")
                || before.ends_with('|') && !before.ends_with("||")
                || after.starts_with("==")
                || after_pattern.starts_with("=>")
                || after.starts_with("| \"")
                || after.starts_with("if ")
                || before.ends_with(',')
                    && before.lines().last().unwrap_or("").contains("matches!(")
        })
    };
    super::ALL.iter().filter(compares).map(|row| row.name).collect()
}

#[test]
fn only_rows_tell_commands_apart() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates");
    let mut folders = vec![crates.join("engine/src"), crates.join("server/src")];
    let (mut found, mut files) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(crates).expect("below").to_string_lossy().into_owned();
            if !name.ends_with(".rs") {
                continue;
            }
            files += 1;
            let mut names = compared_names(&code_of(&path));
            let other = OTHER_WORDS.iter().find(|(file, _, _)| *file == name);
            let others = other.map_or(&[][..], |(_, words, _)| words);
            let stale: Vec<_> = others.iter().filter(|word| !names.contains(word)).collect();
            assert!(stale.is_empty(), "{name} does not compare with {stale:?} any more");
            names.retain(|name| !others.contains(name));
            if !names.is_empty() {
                found.push(format!("{name} compares with {names:?}"));
            }
        }
    }
    assert!(files > 200, "{files} files");
    assert!(found.is_empty(), "a fact about a command belongs into its row:\n{}", found.join("\n"));
}

#[test]
fn a_file_has_at_most_one_row() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands");
    let mut rows = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of commands") {
        let path = entry.expect("an entry").path();
        let begins = |line: &&str| {
            line.starts_with("pub(super) static ") && line.ends_with(": Command = Command {")
        };
        let count = code_of(&path).lines().filter(begins).count();
        assert!(count <= 1, "{} has {count} rows", path.display());
        rows += count;
    }
    assert_eq!(rows, ALL.len());
}

#[test]
fn comparisons_with_names_of_commands_are_found() {
    for code in [
        "matches!(name, \"find\" | \"getMore\")",
        "matches!(name, \"find\")",
        "if command == \"find\" {",
        "match name {\n    \"find\" => 1,",
        "match first {\n    Some((\"find\", _)) => 1,",
        "match name {\n    \"find\" if fast => 1,",
    ] {
        assert!(compared_names(code).contains(&"find"), "{code}");
    }
    for code in
        ["out.str(\"find\", name)", "doc.get(\"find\").is_some()", "Kind::Query => \"find\","]
    {
        assert!(compared_names(code).is_empty(), "{code}");
    }
}
