//! `motif repair` and `motif check` as processes, on folders that are damaged.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use value::{Val, ejson};

const DOCUMENTS: usize = 3000;

fn motif(arguments: &[&str], paths: &[&Path]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MOTIF_") {
            command.env_remove(name);
        }
    }
    // A path takes the place of each `@`.
    let mut paths = paths.iter();
    for argument in arguments {
        match *argument {
            "@" => command.arg(paths.next().unwrap()),
            argument => command.arg(argument),
        };
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// A folder with one collection of many blocks, and its documents as text.
fn filled(folder: &Path) -> (PathBuf, Vec<String>) {
    let (data, file) = (folder.join("data"), folder.join("orders.ndjson"));
    let mut number = 12345_u64;
    let lines: Vec<String> = (0..DOCUMENTS)
        .map(|id| {
            let mut filler = String::new();
            for _ in 0..100 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                filler.push(char::from(b'a' + (number >> 33) as u8 % 26));
            }
            format!("{{\"_id\":{id},\"f\":\"{filler}\"}}")
        })
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let import = ["import", "--data", "@", "--db", "shop", "--collection", "orders", "--file", "@"];
    let (code, said) = motif(&import, &[&data, &file]);
    assert_eq!(code, Some(0), "{said}");
    (data, lines)
}

/// The documents of a folder, as text.
fn exported(data: &Path) -> Vec<String> {
    let file = data.with_extension("ndjson");
    let export = ["export", "--data", "@", "--db", "shop", "--collection", "orders", "--file", "@"];
    let (code, said) = motif(&export, &[data, &file]);
    assert_eq!(code, Some(0), "{said}");
    let text = std::fs::read_to_string(&file).unwrap();
    text.lines().map(|line| line.replace(": ", ":").replace(", ", ",")).collect()
}

fn tables(data: &Path, tree: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join(tree).join("tables")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Flips a byte at a share of the file's length.
fn flip(file: &Path, share: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.len() * share / 100;
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_good_folder_is_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (data, lines) = filled(folder.path());
    let new = folder.path().join("new");
    let (code, said) = motif(&["repair", "@", "--to", "@"], &[&data, &new]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("shop.orders: 3000 documents"), "{said}");
    assert!(said.contains("nothing was damaged"), "{said}");
    assert_eq!(exported(&new), lines);
    let (code, said) = motif(&["repair", "@", "--to", "@"], &[&data, &new]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not empty"), "{said}");
    let (code, said) = motif(&["repair", "@", "--to", "@"], &[&new.join("none"), &new]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no data folder"), "{said}");
}

#[test]
fn damaged_blocks_are_listed_by_collection_and_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (data, lines) = filled(folder.path());
    let new = folder.path().join("new");
    let table = tables(&data, "documents").pop().unwrap();
    flip(&table, 25);
    flip(&table, 60);
    flip(&tables(&data, "catalog").pop().unwrap(), 99);
    let name = format!("documents/tables/{}", table.file_name().unwrap().to_string_lossy());
    let (code, said) = motif(&["check", "@"], &[&data]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said.matches(&*name).count(), 2, "{said}");
    assert_eq!(said.matches("shop.orders: after ").count(), 2, "{said}");
    assert!(said.contains("catalog/tables/"), "{said}");
    assert!(said.contains("motif repair"), "{said}");

    let (code, said) = motif(&["repair", "@", "--to", "@", "--json"], &[&data, &new]);
    assert_eq!(code, Some(3), "{said}");
    let report = ejson::parse_doc(&said).unwrap();
    let report = report.as_doc();
    assert_eq!(report.get("lost"), Some(Val::Bool(true)), "{said}");
    let damage = report.get("damage").and_then(Val::as_array).unwrap();
    let lost: Vec<(i64, i64)> = damage
        .iter()
        .filter_map(|(_, damage)| {
            let affected = damage.as_doc()?.get("affected").and_then(Val::as_array)?;
            let first = affected.first()?.1.as_doc()?;
            let words: Vec<&str> = first.get("range").and_then(Val::as_str)?.split(' ').collect();
            assert_eq!((words[0], words[2], words[3]), ("after", "up", "to"), "{words:?}");
            Some((words[1].parse().unwrap(), words[4].parse().unwrap()))
        })
        .collect();
    assert_eq!(lost.len(), 2, "{said}");
    let found = exported(&new);
    let kept: Vec<&String> = (0_i64..)
        .zip(&lines)
        .filter(|(id, _)| !lost.iter().any(|(after, to)| after < id && id < to))
        .map(|(_, line)| line)
        .collect();
    assert!(found.iter().eq(kept), "exactly the documents in the ranges are missing");
    assert!(found.len() > DOCUMENTS * 9 / 10, "{}", found.len());
    let (code, said) = motif(&["check", "@"], &[&new]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_server_that_refuses_to_start_names_check_and_repair() {
    let folder = tempfile::tempdir().unwrap();
    let (data, lines) = filled(folder.path());
    let new = folder.path().join("new");
    std::fs::remove_file(data.join("documents/current")).unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", "@"];
    let (code, said) = motif(&serve, &[&data]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("motif check") && said.contains("motif repair"), "{said}");
    let (code, said) = motif(&["check", "@"], &[&data]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("documents/current: the file is missing"), "{said}");
    // The list of tables proves that nothing is missing.
    let (code, said) = motif(&["repair", "@", "--to", "@"], &[&data, &new]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing was lost"), "{said}");
    assert_eq!(exported(&new), lines);

    let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&new);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
    let started = said.any(|line| line.unwrap().contains("Connect with"));
    let target = folder.path().join("other");
    let (code, text) = motif(&["repair", "@", "--to", "@"], &[&new, &target]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(started, "the repaired folder can be served");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("in use"), "{text}");
    assert!(!target.exists());
}
