//! The binary as people use it: serve, check, import, export, as processes on a temporary folder.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]

use client::{Client, frame};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use value::{DocBuf, Val, ejson};

fn motif() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MOTIF_") {
            command.env_remove(name);
        }
    }
    command
}

/// A `motif serve` process; killed when a test ends early.
struct Server {
    child: Child,
    uri: String,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let mut command = motif();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder);
        Server::spawn(command)
    }

    fn spawn(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let uri = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("Connect with: mongosh \"")?;
            Some(rest.trim_end_matches('"').to_owned())
        });
        Server { child, uri: uri.expect("the server says how to connect") }
    }

    fn client(&self) -> Client {
        Client::connect(&self.uri).unwrap()
    }

    /// Sends SIGTERM and waits: the exit code and how long it took.
    fn terminate(mut self) -> (Option<i32>, Duration) {
        let begin = Instant::now();
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        (status.code(), begin.elapsed())
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn run_ok(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn run_failing(command: &mut Command) -> String {
    let output = run(command);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {}", text(&output.stdout));
    text(&output.stderr) + &text(&output.stdout)
}

#[test]
fn a_terminated_server_ends_cleanly_and_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mut client = server.client();
    client.run("shop", &doc("{insert: 'orders', documents: [{_id: 1}, {_id: 2}]}")).unwrap();
    // The client stays connected: an idle connection must not hold the server up.
    let (code, took) = server.terminate();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(30), "ending took {took:?}");

    let server = Server::start(folder.path());
    let reply = server.client().run("shop", &doc("{count: 'orders'}")).unwrap();
    assert_eq!(reply.as_doc().get("n").and_then(|n| n.as_i64_exact()), Some(2));
}

#[test]
fn the_shutdown_command_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    // The reply may be lost with the connection.
    let _ = server.client().run("admin", &doc("{shutdown: 1, force: true}"));
    let begin = Instant::now();
    loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the server is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Signals that come again and again, as from a debugger or a shell, end every wait of the server
/// early; its clocks go on.
#[test]
fn a_lost_client_is_noticed_by_a_server_that_is_stopped_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mut client = server.client();
    let watch = doc("{aggregate: 'c', pipeline: [{$changeStream: {}}], cursor: {}}");
    let opened = client.run("shop", &watch).unwrap();
    let cursor = opened.as_doc().get("cursor").and_then(|cursor| cursor.as_doc()).unwrap();
    let id = cursor.get("id").and_then(|id| id.as_i64_exact()).unwrap();
    let mut waits = |signals: &[&str]| {
        for signal in signals {
            let id = server.child.id().to_string();
            assert!(Command::new("kill").args([*signal, id.as_str()]).status().unwrap().success());
        }
        let running = client.run("admin", &doc("{currentOp: 1}")).unwrap();
        running.bytes().windows(7).any(|bytes| bytes == b"getMore")
    };
    let address = server.uri.strip_prefix("mongodb://").unwrap();
    let mut lost = std::net::TcpStream::connect(address).unwrap();
    let more = "{getMore: NumberLong(ID), collection: 'c', maxTimeMS: 60000, $db: 'shop'}";
    lost.write_all(&frame(1, 0, doc(&more.replace("ID", &id.to_string())).as_doc())).unwrap();
    let begin = Instant::now();
    while !waits(&[]) {
        assert!(begin.elapsed() < Duration::from_secs(30), "the command does not begin");
    }
    drop(lost);
    let begin = Instant::now();
    // The server is asked more often than it would park a silent client, which would wake it.
    while waits(&["-STOP", "-CONT"]) {
        assert!(begin.elapsed() < Duration::from_secs(30), "the command goes on for nobody");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_taken_port_and_a_taken_folder_are_named() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(first.path());
    let address = server.uri.strip_prefix("mongodb://").unwrap();
    let mut same_port = motif();
    same_port.args(["serve", "--listen", address, "--data"]).arg(second.path());
    let error = run_failing(&mut same_port);
    assert!(error.contains(address) && error.contains("in use"), "{error}");

    let mut same_folder = motif();
    same_folder.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(first.path());
    let error = run_failing(&mut same_folder);
    assert!(error.contains("in use by another process"), "{error}");
}

#[test]
fn a_data_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error =
        run_failing(motif().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&file));
    assert!(error.contains(&*file.to_string_lossy()), "{error}");
}

#[test]
fn settings_come_from_flag_then_environment_then_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("motif.toml");
    let data = folder.path().join("from-file");
    let mut file = std::fs::File::create(&config).unwrap();
    writeln!(file, "listen = '127.0.0.1:1'\ndata = '{}'\nlog-level = 'warn'", data.display())
        .unwrap();
    let mut command = motif();
    command.env("MOTIF_CONFIG", &config).env("MOTIF_LISTEN", "127.0.0.1:0");
    command.args(["--cache", "64MB"]);
    let server = Server::spawn(command);
    let options = server.client().run("admin", &doc("{getCmdLineOpts: 1}")).unwrap();
    let printed = ejson::print(options.as_doc(), ejson::Format::Relaxed);
    assert!(printed.contains("from-file"), "{printed}");
    assert!(printed.contains("64000000"), "{printed}");
    assert!(data.is_dir());

    std::fs::write(&config, "lisen = '127.0.0.1:1'").unwrap();
    let error = run_failing(motif().arg("serve").arg("--config").arg(&config));
    assert!(error.contains("lisen"), "{error}");
}

const ORDERS: &str = r#"[
  {"_id": 1, "name": "a, \"b\"", "n": {"$numberLong": "5"}, "in": {"x": 1.5}, "l": [1, null]},
  {"_id": {"$oid": "0123456789abcdef01234567"}, "d": {"$date": "2024-02-29T12:00:00Z"}}
]"#;

#[test]
fn documents_survive_every_format_between_folder_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("orders.json"), ORDERS).unwrap();
    let data = path("data");
    let here = |command: &mut Command, collection: &str| {
        command.arg("--data").arg(&data).args(["-d", "shop", "-c", collection]);
    };
    // Into a folder, and through each format into another collection of it.
    let mut import = motif();
    here(import.arg("import").arg("--file").arg(path("orders.json")), "orders");
    run_ok(&mut import);
    let dump = |collection: &str| {
        let mut export = motif();
        here(export.args(["export", "--format", "ndjson", "--canonical"]), collection);
        run_ok(&mut export)
    };
    let expected = dump("orders");
    assert_eq!(expected.lines().count(), 2);
    for format in ["json", "ndjson", "bson"] {
        let file = path(&format!("copy.{format}"));
        let mut export = motif();
        here(export.args(["export", "--canonical", "--file"]).arg(&file), "orders");
        run_ok(&mut export);
        let mut import = motif();
        here(import.args(["import", "--drop", "--batch", "1", "--file"]).arg(&file), format);
        run_ok(&mut import);
        assert_eq!(dump(format), expected, "{format}");
    }
    // The same folder behind a server.
    let server = Server::start(&data);
    let mut export = motif();
    export.args(["export", "--uri", &server.uri, "-d", "shop", "-c", "bson", "--format", "ndjson"]);
    assert_eq!(run_ok(export.arg("--canonical")), expected);
    // A folder that a server uses is not opened beside it.
    let mut export = motif();
    here(export.args(["export", "--format", "json"]), "orders");
    assert!(run_failing(&mut export).contains("in use"));
}

#[test]
fn an_import_tells_what_it_could_not_insert() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let import = |input: &str, format: &str, more: &[&str]| {
        let mut command = motif();
        command.args(["import", "--uri", &server.uri, "-d", "shop", "-c", "c", "--format", format]);
        let mut child =
            command.args(more).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (child.wait().unwrap().code(), error)
    };
    let (code, said) = import("_id,v\n1,x\n2,2.5\n1,y\n3,true\n", "csv", &[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("document 3: E11000"), "{said}");
    assert!(said.contains("imported 3 documents into shop.c"), "{said}");
    let (code, said) =
        import("{\"_id\": 9}\n{\"_id\": 9}\n{\"_id\": 10}\n", "ndjson", &["--stop-on-error"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("imported 1 document into"), "{said}");
    let (code, said) = import("{\"_id\": 20}\n{\"_id\"", "ndjson", &[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("line 2") && said.contains("imported 1 document into"), "{said}");

    let mut export = motif();
    export.args(["export", "--uri", &server.uri, "-d", "shop", "-c", "c", "--format", "csv"]);
    export.args(["--fields", "_id,v", "--sort", "{_id: -1}", "--filter", "{_id: {$lt: 10}}"]);
    assert_eq!(run_ok(&mut export), "_id,v\n9,\n3,true\n2,2.5\n1,x\n");
}

#[test]
fn check_finds_nothing_in_a_good_folder_and_damage_in_a_bad_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let mut client = server.client();
    client
        .run("shop", &doc("{createIndexes: 'o', indexes: [{key: {a: 1}, name: 'a_1'}]}"))
        .unwrap();
    let filler = "x".repeat(1000);
    for batch in 0..20 {
        let documents = DocBuf::build(|out| {
            out.str("insert", "o");
            out.array("documents", |list| {
                for number in 0..100 {
                    list.push_doc(|out| {
                        out.i32("_id", batch * 100 + number).i32("a", number).str("s", &filler);
                    });
                }
            });
        });
        client.run("shop", &documents).unwrap();
    }
    let error = run_failing(motif().arg("check").arg(&data));
    assert!(error.contains("in use"), "{error}");
    drop(client);
    assert_eq!(server.terminate().0, Some(0));
    let said = run_ok(motif().arg("check").arg(&data));
    assert!(said.contains("nothing is wrong"), "{said}");

    // The documents' table; the log is empty after a clean end.
    let largest = largest_file(&data.join("documents/tables"));
    let mut bytes = std::fs::read(&largest).unwrap();
    let filler_at = bytes.windows(64).position(|window| window == [b'x'; 64]);
    // Compressed blocks hold no filler; the middle of the file is then as good a place.
    let at = filler_at.unwrap_or(bytes.len() / 3);
    for byte in bytes.iter_mut().skip(at).take(16) {
        *byte ^= 0x5A;
    }
    std::fs::write(&largest, bytes).unwrap();
    let said = run_failing(motif().arg("check").arg(&data));
    let name = largest.strip_prefix(&data).unwrap().to_string_lossy().into_owned();
    assert!(said.contains(&name), "the damaged file {name} is not named in: {said}");

    let error = run_failing(motif().args(["check", "/nonexistent/folder"]));
    assert!(error.contains("no data folder"), "{error}");
}

fn largest_file(folder: &Path) -> std::path::PathBuf {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let data = entry.metadata().unwrap();
            if data.is_dir() {
                folders.push(entry.path());
            } else {
                files.push((data.len(), entry.path()));
            }
        }
    }
    files.into_iter().max().unwrap().1
}

#[test]
fn the_load_program_measures_a_server_and_writes_json() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let mut bench = motif();
    bench.args(["bench", "--docs", "1000", "--seconds", "0.1", "--connections", "1,2"]);
    bench.arg("--folder").arg(folder.path()).arg("--json").arg(&json);
    bench.args(["--only", "bulk,point,secondary,range,insert,update,mixed50,mixed95,scan"]);
    let table = run_ok(&mut bench);
    for name in ["bulk", "point", "mixed95", "scan"] {
        assert!(table.contains(name), "{table}");
    }
    let result = doc(&std::fs::read_to_string(&json).unwrap());
    let count = result.as_doc().find("measurements").and_then(|list| list.as_array());
    assert_eq!(count.map(|list| list.count()), Some(18));
}

#[test]
fn a_thousand_dropped_collections_do_not_delay_sigterm_and_are_reclaimed_after_it() {
    const COLLECTIONS: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let dropped = |client: &mut Client| {
        let status = client.run("admin", &doc("{serverStatus: 1}")).unwrap();
        let store = status.as_doc().get("store").and_then(Val::as_doc).unwrap();
        store.get("droppedRanges").and_then(Val::as_i64_exact).unwrap()
    };
    let server = Server::start(&data);
    let mut client = server.client();
    let pad = "x".repeat(500);
    for number in 0..COLLECTIONS {
        let insert = format!(
            "{{insert: 'c{number}', documents: [{{_id: 1, pad: '{pad}'}}], writeConcern: {{w: 1, j: false}}}}"
        );
        client.run("many", &doc(&insert)).unwrap();
    }
    client.run("many", &doc("{insert: 'stays', documents: [{_id: 1}]}")).unwrap();
    for number in 0..COLLECTIONS {
        client.run("many", &doc(&format!("{{drop: 'c{number}'}}"))).unwrap();
    }
    assert!(dropped(&mut client) > 0, "nothing is left to be reclaimed");
    drop(client);
    let (code, time) = server.terminate();
    assert_eq!(code, Some(0));
    // Seconds on an idle machine; this bound is for a busy one.
    assert!(time < Duration::from_secs(60), "{time:?}");
    let server = Server::start(&data);
    let mut client = server.client();
    let deadline = Instant::now() + Duration::from_secs(300);
    while dropped(&mut client) > 0 {
        assert!(Instant::now() < deadline, "{} ranges are left", dropped(&mut client));
        std::thread::sleep(Duration::from_millis(100));
    }
    let names = client.run("many", &doc("{listCollections: 1, nameOnly: true}")).unwrap();
    let names = names.as_doc().get("cursor").and_then(Val::as_doc).unwrap();
    assert_eq!(names.get("firstBatch").and_then(Val::as_array).unwrap().iter().count(), 1);
    drop(client);
    assert_eq!(server.terminate().0, Some(0));
    run_ok(motif().arg("check").arg(&data));
}

#[test]
fn parameters_can_be_set_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("motif.toml");
    std::fs::write(&config, "[set-parameter]\nmaxOpenCursors = 7\nallowDiskUseByDefault = false\n")
        .unwrap();
    let start = |parameter: &str| {
        let mut command = motif();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"));
        command.arg("--config").arg(&config).args(["--set-parameter", parameter]);
        command
    };
    let server = Server::spawn(start("maxSnapshotRetentionMegabytes=100"));
    let names = "maxSnapshotRetentionMegabytes: 1, snapshotLifetimeLimitSeconds: 1, maxOpenCursors: 1, allowDiskUseByDefault: 1";
    let get = doc(&format!("{{getParameter: 1, {names}}}"));
    let reply = server.client().run("admin", &get).unwrap();
    let whole = |name: &str| reply.as_doc().get(name).and_then(Val::as_i64_exact);
    assert_eq!(whole("maxSnapshotRetentionMegabytes"), Some(100));
    assert_eq!(whole("snapshotLifetimeLimitSeconds"), Some(24 * 3600));
    assert_eq!(whole("maxOpenCursors"), Some(7));
    assert_eq!(reply.as_doc().get("allowDiskUseByDefault"), Some(Val::Bool(false)));
    let options = server.client().run("admin", &doc("{getCmdLineOpts: 1}")).unwrap();
    assert!(format!("{options:?}").contains("maxSnapshotRetentionMegabytes"), "{options:?}");
    assert_eq!(server.terminate().0, Some(0));
    for wrong in ["noSuchParameter=1", "snapshotLifetimeLimitSeconds=0"] {
        let output = run(&mut start(wrong));
        assert!(!output.status.success(), "{wrong}");
        let name = wrong.split_once('=').unwrap().0;
        assert!(text(&output.stderr).contains(name), "{}", text(&output.stderr));
    }
}
