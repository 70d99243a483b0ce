//! How clients reach the server: the topology that it presents, the Unix socket, and what it reports
//! about them.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

mod server;

use client::Client;
use server::{Server, at, doc, motif};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use value::Val;

fn hello(client: &mut Client) -> value::DocBuf {
    client.run("admin", &doc("{hello: 1}")).unwrap()
}

#[test]
fn an_advertised_address_and_a_name_are_told_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--advertise", "db.example.com:7000", "--repl-set-name", "shop"];
    let server = Server::start(&folder.path().join("data"), &more);
    assert!(server.banner.contains("mongodb://db.example.com:7000"), "{}", server.banner);
    // The address of the test is not the advertised one: it is found in the log.
    let port = listening_port(&server);
    let mut client = Client::connect(&format!("mongodb://127.0.0.1:{port}")).unwrap();
    let reply = hello(&mut client);
    for path in ["me", "primary", "hosts.0"] {
        assert_eq!(at(&reply, path), Some(Val::String("db.example.com:7000")), "{path}");
    }
    assert_eq!(at(&reply, "setName"), Some(Val::String("shop")));
    let config = client.run("admin", &doc("{replSetGetConfig: 1}")).unwrap();
    assert_eq!(at(&config, "config._id"), Some(Val::String("shop")));
    let host = Some(Val::String("db.example.com:7000"));
    assert_eq!(at(&config, "config.members.0.host"), host);
    let stored = client.run("local", &doc("{find: 'system.replset'}")).unwrap();
    assert_eq!(at(&stored, "cursor.firstBatch.0"), at(&config, "config"));
    let status = client.run("admin", &doc("{replSetGetStatus: 1}")).unwrap();
    assert_eq!(at(&status, "set"), Some(Val::String("shop")));
    let mut code = |text: &str| client.run("admin", &doc(text)).unwrap_err().code().0;
    assert_eq!(code("{replSetInitiate: {}}"), 23);
    assert_eq!(code("{replSetInitiate: {_id: 'shop', members: [{_id: 0, host: 'a:1'}]}}"), 23);
    assert_eq!(code("{replSetInitiate: {_id: 'rs0'}}"), 93);
}

/// The port that a server listens on.
fn listening_port(server: &Server) -> u16 {
    let id = server.id();
    // Sockets of the process, as links `socket:[inode]`; their ports are in a table.
    let inodes: Vec<String> = std::fs::read_dir(format!("/proc/{id}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap();
    table
        .lines()
        .find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let listens = fields.get(3) == Some(&"0A");
            let own = fields.get(9).is_some_and(|inode| inodes.iter().any(|own| own == inode));
            let port = fields.get(1)?.rsplit_once(':')?.1;
            (listens && own).then(|| u16::from_str_radix(port, 16).ok())?
        })
        .expect("the server listens")
}

#[test]
fn a_router_keeps_no_replica_set() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["--topology", "router"]);
    let mut client = server.client();
    let reply = hello(&mut client);
    assert_eq!(at(&reply, "msg"), Some(Val::String("isdbgrid")));
    assert_eq!(at(&reply, "isWritablePrimary"), Some(Val::Bool(true)));
    assert_eq!(at(&reply, "logicalSessionTimeoutMinutes"), Some(Val::Int32(30)));
    for field in ["setName", "hosts", "me", "secondary"] {
        assert_eq!(at(&reply, field), None, "{field}");
    }
    assert!(client.run("admin", &doc("{isdbgrid: 1}")).is_ok());
    assert_eq!(client.run("admin", &doc("{replSetGetStatus: 1}")).unwrap_err().code().0, 76);
    let stored = client.run("local", &doc("{find: 'system.replset'}")).unwrap();
    assert_eq!(at(&stored, "cursor.firstBatch.0"), None);
    let status = client.run("admin", &doc("{serverStatus: 1}")).unwrap();
    assert_eq!(at(&status, "repl"), None);
    assert!(at(&status, "wiredTiger.cache.maximum bytes configured").is_some());
}

#[test]
fn a_unix_socket_serves_its_owner_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("motif.sock");
    let more = ["--unix-socket", path.to_str().unwrap()];
    let server = Server::start(&folder.path().join("data"), &more);
    assert!(server.banner.contains(path.to_str().unwrap()), "{}", server.banner);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let uri = format!("mongodb://{}", path.to_str().unwrap().replace('/', "%2F"));
    let mut client = Client::connect(&uri).unwrap();
    client.run("shop", &doc("{insert: 'orders', documents: [{_id: 1}]}")).unwrap();
    let big = "x".repeat(2 << 20);
    client
        .run("shop", &doc(&format!("{{insert: 'orders', documents: [{{b: '{big}'}}]}}")))
        .unwrap();
    let found = client.run("shop", &doc("{find: 'orders'}")).unwrap();
    assert_eq!(at(&found, "cursor.firstBatch.0._id"), Some(Val::Int32(1)));
    // Drivers are told to come back the same way, if they can be.
    let reply = hello(&mut client);
    let expected = Val::String(path.to_str().unwrap());
    let plain = !path.to_str().unwrap().contains(char::is_uppercase);
    assert_eq!(at(&reply, "me") == Some(expected), plain);
    let whoami = client.run("admin", &doc("{whatsmyuri: 1}")).unwrap();
    assert_eq!(at(&whoami, "you"), Some(Val::String("anonymous unix socket")));
    // Our own tools use it, too.
    let mut list = motif();
    assert!(list.args(["user", "list", "--uri", &uri]).output().unwrap().status.success());
    // A second server does not take it away.
    let mut second = motif();
    second.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("other"));
    let output = second.args(more).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("in use"), "{error}");
    assert!(path.exists());
    server.stop();
    assert!(!path.exists());
}

#[test]
fn the_banner_shows_an_address_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = motif();
    command
        .args(["serve", "--listen", "0.0.0.0:0", "--auth", "--data"])
        .arg(folder.path().join("d"));
    let server = Server::spawn(command);
    assert!(server.uri.starts_with("mongodb://127.0.0.1:"), "{}", server.banner);
    let reply = hello(&mut server.client());
    let address = server.uri.strip_prefix("mongodb://").unwrap();
    assert_eq!(at(&reply, "me"), Some(Val::String(address)));
}

#[test]
fn what_was_recovered_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.client().run("shop", &doc("{insert: 'orders', documents: [{_id: 1}]}")).unwrap();
    let log = server.kill();
    assert!(!log.contains("recovered"), "{log}");
    let log = Server::start(folder.path(), &[]).stop();
    assert!(log.contains("recovered: replayed the write-ahead log"), "{log}");
    assert!(log.contains("records=") && log.contains("duration_ms="), "{log}");
    // After a clean end there is nothing to recover.
    let log = Server::start(folder.path(), &[]).stop();
    assert!(!log.contains("recovered"), "{log}");
}

#[test]
fn users_are_created_with_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let password = folder.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let user = |words: &[&str]| {
        let mut command: Command = motif();
        command.arg("user").args(words).arg("--data").arg(&data);
        if words.first() != Some(&"remove") {
            command.arg("--password-file").arg(&password);
        }
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(user(&["add", "ada", "--role", "root"]), "created user ada@admin\n");
    assert_eq!(user(&["password", "ada"]), "changed the password of user ada@admin\n");
    assert_eq!(user(&["remove", "ada"]), "removed user ada@admin\n");
}

#[test]
fn the_shell_helpers_are_printed() {
    let output = motif().arg("shell-helpers").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("createPattern"), "{text}");
}
