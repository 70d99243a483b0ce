//! The content of the log: commands with secrets run on a server that logs everything, and the secrets
//! must not be in anything that it writes.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

use client::Client;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use value::{DocBuf, RawDoc, Val, ejson};

/// In every secret; base64 in places where a secret travels so.
const MARKER: &str = "xyzzyplugh";

/// A line that an attacker tries to forge in the log.
const FORGED: &str = "2026-01-01T00:00:00.000000Z  INFO motifdb: authenticated user=mallory";

struct Server {
    child: Child,
    uri: String,
}

impl Server {
    fn start(folder: &Path, format: &str) -> Server {
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "trace", "--auth"]);
        command.args(["--log-format", format, "--data"]).arg(folder.join("data"));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
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

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).unwrap()
}

/// Commands with secrets, in the order in which they are sent; those that fail do so on purpose.
fn commands() -> Vec<(&'static str, String)> {
    let m = MARKER;
    vec![
        ("admin", format!("{{createUser: 'bob', pwd: '{m}', roles: []}}")),
        ("admin", format!("{{updateUser: 'bob', pwd: '{m}2'}}")),
        ("admin", format!("{{createUser: 'bob', pwd: '{m}3', roles: []}}")),
        ("admin", format!("{{createUser: '', pwd: '{m}', roles: []}}")),
        ("admin", format!("{{updateUser: 'nobody', pwd: '{m}', wrong: 1}}")),
        ("test", "{profile: 2, slowms: -1}".to_owned()),
        ("test", format!("{{insert: 'c', documents: [{{_id: '{m}', u: '{m}', n: 1}}]}}")),
        (
            "test",
            "{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u', unique: true}]}".to_owned(),
        ),
        ("test", format!("{{insert: 'c', documents: [{{_id: '{m}'}}, {{_id: 2, u: '{m}'}}]}}")),
        ("test", format!("{{update: 'c', updates: [{{q: {{u: '{m}'}}, u: {{$inc: {{u: 1}}}}}}]}}")),
        ("test", format!("{{find: 'c', filter: {{u: {{$regex: '{m}'}}, $where: '{m}'}}}}")),
        ("test", format!("{{find: 'c', filter: {{u: {{$regex: '{m}'}}}}, sort: {{n: 1}}}}")),
        (
            "test",
            format!(
                "{{aggregate: 'c', pipeline: [{{$project: {{v: {{$toInt: '$u'}}, w: '{m}'}}}}], cursor: {{}}}}"
            ),
        ),
        (
            "test",
            format!(
                "{{aggregate: 'c', pipeline: [{{$project: {{v: {{$dateFromString: {{dateString: '{m}'}}}}}}}}], cursor: {{}}}}"
            ),
        ),
        (
            "test",
            format!(
                "{{delete: 'c', deletes: [{{q: {{u: {{$gt: '{m}', $unknown: '{m}'}}}}, limit: 0}}]}}"
            ),
        ),
        (
            "test",
            format!(
                "{{findAndModify: 'c', query: {{u: '{m}'}}, update: {{$set: {{'u.x': '{m}'}}}}}}"
            ),
        ),
        (
            "test",
            "{create: 'v', validator: {n: {$type: 'int'}}, validationAction: 'warn'}".to_owned(),
        ),
        ("test", format!("{{insert: 'v', documents: [{{_id: '{m}', n: '{m}'}}]}}")),
        ("test", "{create: 'w', validator: {n: {$type: 'int'}}}".to_owned()),
        ("test", format!("{{insert: 'w', documents: [{{_id: '{m}', n: '{m}'}}]}}")),
        (
            "test",
            format!(
                "{{createPatterns: 'w', patterns: [{{name: 'p', kind: 'computed', fields: {{t: {{$toInt: '{m}'}}}}}}]}}"
            ),
        ),
        ("test", format!("{{{m}: 1}}")),
        ("test", format!("{{distinct: 'c', key: 'u', query: {{u: '{m}'}}, {m}: 1}}")),
        ("admin", format!("{{setParameter: 1, logLevel: '{m}'}}")),
        (
            "admin",
            format!(
                "{{saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: BinData(0, '{}')}}",
                ejson::encode_base64(m.as_bytes())
            ),
        ),
        (
            "admin",
            format!(
                "{{saslContinue: 1, conversationId: 1, payload: BinData(0, '{}')}}",
                ejson::encode_base64(m.as_bytes())
            ),
        ),
        // Names that would begin a line of their own.
        ("admin", format!("{{createUser: 'eve\\n{FORGED}', pwd: 'x', roles: []}}")),
        ("admin", format!("{{dropUser: 'eve\\n{FORGED}'}}")),
        ("test", format!("{{insert: 'a\\n{FORGED}', documents: [{{_id: 1}}]}}")),
        ("test", format!("{{drop: 'a\\n{FORGED}', comment: '\\n{FORGED}'}}")),
        ("test", format!("{{'\\n{FORGED}': 1}}")),
        ("a\n20", "{find: 'c'}".to_owned()),
        (
            "admin",
            format!(
                "{{saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: BinData(0, '{}')}}",
                ejson::encode_base64(format!("n,,n=eve\n{FORGED},r=abc").as_bytes())
            ),
        ),
        (
            "admin",
            format!(
                "{{saslContinue: 1, conversationId: 1, payload: BinData(0, '{}')}}",
                ejson::encode_base64(b"c=biws,r=abc,p=AAAA")
            ),
        ),
        ("admin", format!("{{saslStart: 1, mechanism: '\\n{FORGED}', payload: ''}}")),
        ("test", "{profile: 0, slowms: 100}".to_owned()),
    ]
}

fn documents(reply: RawDoc<'_>) -> Vec<String> {
    let cursor = reply.get("cursor").and_then(Val::as_doc).unwrap();
    let batch = cursor.get("firstBatch").and_then(Val::as_array).unwrap();
    batch.iter().map(|(_, value)| ejson::print_value(value.get(), ejson::Format::Relaxed)).collect()
}

/// Runs the commands; gives what the server wrote, and what its profile holds.
fn run(format: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), format);
    let first = "{createUser: 'ada', pwd: 'countess', roles: ['root']}";
    Client::connect(&server.uri).unwrap().run("admin", &doc(first)).unwrap();
    let uri = server.uri.replace("mongodb://", "mongodb://ada:countess@");
    let mut client = Client::connect(&uri).unwrap();
    for (db, text) in commands() {
        // Whether it works does not matter, only what is written about it.
        let _ = client.run(db, &doc(&text));
    }
    let wrong = server.uri.replace("mongodb://", &format!("mongodb://ada:{MARKER}@"));
    assert!(Client::connect(&wrong).is_err());
    let mut stranger = Client::connect(&server.uri).unwrap();
    let find = doc(&format!("{{find: 'c', filter: {{u: '{MARKER}'}}}}"));
    assert!(stranger.run("test", &find).is_err());

    let profile = "{find: 'system.profile', batchSize: 1000}";
    let profile = documents(client.run("test", &doc(profile)).unwrap().as_doc());
    let remembered = client.run("admin", &doc("{getLog: 'global'}")).unwrap();
    let remembered = ejson::print(remembered.as_doc(), ejson::Format::Relaxed);
    drop(server);
    let mut log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.len() > 2000, "there is a log");
    log.push_str(&remembered);
    (log, profile)
}

#[test]
fn no_secret_and_no_content_comes_into_the_log() {
    let encoded = ejson::encode_base64(MARKER.as_bytes());
    let encoded = encoded.trim_end_matches('=');
    for format in ["json", "text"] {
        let (log, profile) = run(format);
        let tells = |line: &&str| line.contains(MARKER) || line.contains(encoded);
        assert_eq!(log.lines().find(tells), None, "the log has it");
        // The profile shows commands, as in MongoDB; but none with a password, and no document that
        // was inserted.
        for line in &profile {
            let about_users = ["createUser", "updateUser", "saslStart", "saslContinue", "pwd"];
            assert!(!about_users.iter().any(|word| line.contains(word)), "the profile has: {line}");
            let inserted =
                line.contains("\"op\":\"insert\"") || line.contains("\"op\": \"insert\"");
            assert!(!inserted || !line.contains("documents"), "the profile has: {line}");
        }
        assert!(profile.len() > 5, "there is a profile");
    }
}

#[test]
fn nobody_writes_lines_of_their_own_into_the_log() {
    for format in ["json", "text"] {
        let (log, _) = run(format);
        let forged = log.lines().find(|line| line.starts_with(FORGED));
        assert_eq!(forged, None);
        assert!(log.contains(FORGED), "it was tried");
    }
}

#[test]
fn the_log_tells_who_did_what_for_how_long() {
    let (log, _) = run("json");
    let line = |words: &[&str]| {
        let found = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
        found.unwrap_or_else(|| panic!("no line with {words:?}")).to_owned()
    };
    let who = [
        "\"user\":\"ada@admin\"",
        "\"client\":\"127.0.0.1:",
        "\"duration_ms\":",
        "\"connection\":",
    ];
    let insert = line(&["\"command\":\"insert\"", "\"namespace\":\"test.c\"", "\"code\":0"]);
    let failed =
        line(&["\"command\":\"findAndModify\"", "\"namespace\":\"test.c\"", "\"level\":\"DEBUG\""]);
    let slow = line(&["slow operation", "\"command\":\"find\"", "\"namespace\":\"test.c\""]);
    let user = line(&[
        "\"command\":\"createUser\"",
        "\"namespace\":\"admin.$cmd\"",
        "\"code\":51003",
        "INFO",
    ]);
    for line in [insert, failed, slow, user] {
        for word in who {
            assert!(line.contains(word), "{word} is missing in {line}");
        }
        assert!(line.contains("\"timestamp\":\"20"), "{line}");
    }
    line(&["\"message\":\"authenticated\"", "\"user\":\"ada\"", "127.0.0.1"]);
    line(&["\"message\":\"authentication failed\"", "\"user\":\"ada\"", "WARN", "127.0.0.1"]);
    line(&["\"message\":\"refused\"", "\"command\":\"find\"", "\"code\":13", "WARN", "127.0.0.1"]);
}
