//! Files of the server are readable by their owner only.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

mod server;

use server::{Server, doc, motif};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Everything in a folder, and itself.
fn everything(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            everything(&entry.unwrap().path(), found);
        }
    }
}

/// Files and folders that others than the owner can use.
fn open_ones(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    everything(folder, &mut found);
    assert!(found.len() > 5, "there are files: {found:?}");
    let modes = found.into_iter().map(|path| (path.clone(), mode(&path)));
    modes.filter(|(path, mode)| *mode != if path.is_dir() { 0o700 } else { 0o600 }).collect()
}

#[test]
fn files_belong_to_their_owner_alone_whatever_the_mask() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let program = motif();
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(program.get_program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let server = Server::spawn(command);
    let mut client = server.client();
    client.run("shop", &doc("{insert: 'orders', documents: [{_id: 1}, {_id: 2}]}")).unwrap();
    client.run("admin", &doc("{fsync: 1}")).unwrap();
    assert_eq!(open_ones(&data), []);
    server.stop();
    // The tables are written at the end.
    assert_eq!(open_ones(&data), []);
}

#[test]
fn a_folder_that_others_can_read_is_closed_with_a_log_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let log = Server::start(&data, &[]).stop();
    assert!(!log.contains("other users could read"), "{log}");
    let mut found = Vec::new();
    everything(&data, &mut found);
    for path in found {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    let server = Server::start(&data, &[]);
    assert_eq!(open_ones(&data), []);
    let log = server.stop();
    assert!(log.contains("other users could read the data folder"), "{log}");
}

#[test]
fn a_folder_with_other_things_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "x").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let mut command = motif();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("not a data folder") && error.contains("thesis.txt"), "{error}");
    assert_eq!(mode(folder.path()), 0o755);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written");
}

#[test]
fn exported_users_belong_to_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    let mut client = server.client();
    client.run("admin", &doc("{createUser: 'ada', pwd: 'secret', roles: []}")).unwrap();
    client.run("shop", &doc("{insert: 'orders', documents: [{_id: 1}]}")).unwrap();
    let export = |db: &str, collection: &str| {
        let file = folder.path().join(format!("{collection}.bson"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let mut command = motif();
        command.args(["export", "--uri", &server.uri, "-d", db, "-c", collection, "--file"]);
        assert!(command.arg(&file).output().unwrap().status.success());
        assert!(file.metadata().unwrap().len() > 0);
        mode(&file)
    };
    assert_eq!(export("admin", "system.users"), 0o600);
    assert_eq!(export("shop", "orders"), 0o644);
}
