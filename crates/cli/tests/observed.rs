//! What a running server reports about itself: the list of its starts, and the log with a verbosity per
//! component.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

use client::Client;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use value::{DocBuf, RawDoc, Val, ejson};

struct Server {
    child: Child,
    uri: String,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "info", "--data"]);
        command.arg(folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let uri = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("Connect with: mongosh \"")?;
            Some(rest.trim_end_matches('"').to_owned())
        });
        Server { child, uri: uri.unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(client: &mut Client, db: &str, text: &str) -> DocBuf {
    client.run(db, &ejson::parse_doc(text).unwrap()).unwrap()
}

fn batch(reply: RawDoc<'_>) -> RawDoc<'_> {
    let cursor = reply.get("cursor").and_then(Val::as_doc).unwrap();
    cursor.get("firstBatch").and_then(Val::as_array).unwrap()
}

#[test]
fn each_start_is_an_entry_of_the_startup_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Vec::new();
    for starts in 1..=2 {
        let server = Server::start(folder.path());
        let mut client = Client::connect(&server.uri).unwrap();
        processes.push(i64::from(server.child.id()));
        let found = run(&mut client, "local", "{find: 'startup_log', sort: {$natural: 1}}");
        let found: Vec<RawDoc<'_>> =
            batch(found.as_doc()).iter().map(|(_, start)| start.as_doc().unwrap()).collect();
        assert_eq!(found.len(), starts);
        let noted: Vec<i64> =
            found.iter().map(|start| start.get("pid").unwrap().as_i64_exact().unwrap()).collect();
        assert_eq!(noted, processes);
        let options = found.last().unwrap().get("cmdLine").and_then(Val::as_doc).unwrap();
        assert!(options.find("storage").is_some());
        let listed = "{listCollections: 1, filter: {name: 'startup_log'}}";
        let listed = run(&mut client, "local", listed);
        let listed = batch(listed.as_doc()).first().unwrap().1.as_doc().unwrap();
        let options = listed.get("options").and_then(Val::as_doc).unwrap();
        assert_eq!(options.get("capped"), Some(Val::Bool(true)));
        // It belongs to this server: no event tells about it.
        let events = "{find: 'oplog.rs', filter: {ns: 'local.startup_log'}}";
        assert!(batch(run(&mut client, "local", events).as_doc()).is_empty());
    }
}

#[test]
fn the_verbosity_of_a_component_decides_what_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mut client = Client::connect(&server.uri).unwrap();
    let pings = |client: &mut Client| {
        run(client, "test", "{ping: 1}");
        let log = run(client, "admin", "{getLog: 'global'}");
        let log = log.as_doc().get("log").and_then(Val::as_array).unwrap();
        let lines: Vec<String> =
            log.iter().map(|(_, line)| line.get().as_str().unwrap().to_owned()).collect();
        let count = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        (count("ping"), count("connection accepted"))
    };
    let set = |client: &mut Client, text: &str| {
        run(client, "admin", &format!("{{setParameter: 1, logComponentVerbosity: {text}}}"));
    };
    // A connection is logged before its first command is answered.
    let connect = || run(&mut Client::connect(&server.uri).unwrap(), "admin", "{hello: 1}");
    assert_eq!(pings(&mut client), (0, 0));
    set(&mut client, "{command: {verbosity: 1}}");
    connect();
    assert_eq!(pings(&mut client), (1, 0), "commands are logged, connections are not");
    set(&mut client, "{command: {verbosity: -1}, network: {verbosity: 1}}");
    connect();
    assert_eq!(pings(&mut client), (1, 1), "connections are logged, commands are not");
    set(&mut client, "{verbosity: 1, command: {verbosity: 0}, network: {verbosity: 0}}");
    connect();
    assert_eq!(pings(&mut client), (1, 1), "components say less than the default");
    let shown =
        run(&mut client, "admin", "{getParameter: 1, logComponentVerbosity: 1, logLevel: 1}");
    let shown = shown.as_doc();
    assert_eq!(shown.get("logLevel"), Some(Val::Int32(1)));
    let components = shown.get("logComponentVerbosity").and_then(Val::as_doc).unwrap();
    let network = components.get("network").and_then(Val::as_doc).unwrap();
    assert_eq!(network.get("verbosity"), Some(Val::Int32(0)));
    let inner = network.get("asio").and_then(Val::as_doc).unwrap();
    assert_eq!(inner.get("verbosity"), Some(Val::Int32(-1)));
}
