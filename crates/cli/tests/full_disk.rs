//! A server on a disk that is really full: it refuses writes with MongoDB's code, starts, reads,
//! drops, deletes and compacts, and space is back within seconds.
//!
//! The test needs a small file system of its own, which `scripts/full-disk` mounts. The cases that
//! need none are in `store/tests/background.rs` and `engine/tests/faults.rs`.

#![allow(clippy::unwrap_used, reason = "in a test a failure is to be seen at once")]
#![allow(clippy::print_stdout, reason = "the steps are read by people")]

use client::Client;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use value::{DocBuf, Val, ejson};

const OUT_OF_DISK_SPACE: i32 = 14031;
/// Space that was freed is back within this time.
const SECONDS: u64 = 20;

/// A `motif serve` process; killed when dropped.
struct Server {
    child: Child,
    client: Client,
}

impl Server {
    /// Starts a server on the folder; its log goes to the end of `log`.
    fn start(folder: &Path, log: &Path) -> Server {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--cache", "256MiB"]);
        command.arg("--data").arg(folder).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let uri = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("Connect with: mongosh \"")?;
            Some(rest.trim_end_matches('"').to_owned())
        });
        let client = Client::connect(&uri.expect("the server starts")).unwrap();
        Server { child, client }
    }

    /// Runs a command; the code of its error or of its first write error.
    fn run(&mut self, command: &str) -> Result<DocBuf, i32> {
        let command = ejson::parse_doc(command).unwrap();
        let reply = self.client.exchange("t", command.as_doc(), "", &[]).unwrap();
        let reply = DocBuf::from(value::RawDoc::new(reply));
        let code = |doc: value::RawDoc<'_>| {
            doc.get("code").and_then(Val::as_i64_exact).map(|code| i32::try_from(code).unwrap())
        };
        let doc = reply.as_doc();
        let errors = doc.get("writeErrors").and_then(Val::as_array);
        let first = errors.and_then(|errors| errors.get("0")).and_then(Val::as_doc);
        match code(doc).or_else(|| first.and_then(code)) {
            Some(code) => Err(code),
            None => Ok(reply),
        }
    }

    /// Inserts documents that compress to half, until the disk is full; how many.
    fn fill(&mut self, collection: &str, noise: &mut Noise) -> usize {
        let mut count = 0;
        let mut refused = 0;
        // Several times in a row: background work gives some space back.
        while refused < 5 {
            let documents: Vec<String> = (0..50)
                .map(|_| {
                    let text: String = (0..125).map(|_| format!("{:016x}", noise.next())).collect();
                    format!("{{k: {}, text: '{text}'}}", noise.next() % 100)
                })
                .collect();
            let insert =
                format!("{{insert: '{collection}', documents: [{}]}}", documents.join(","));
            match self.run(&insert) {
                Ok(_) => (count, refused) = (count + 50, 0),
                Err(code) => {
                    assert_eq!(code, OUT_OF_DISK_SPACE);
                    refused += 1;
                    sleep(Duration::from_millis(300));
                }
            }
        }
        println!("{collection}: {count} documents");
        count
    }

    fn count(&mut self, collection: &str) -> usize {
        let reply = self.run(&format!("{{count: '{collection}'}}")).unwrap();
        reply.as_doc().get("n").and_then(Val::as_i64_exact).map_or(0, |n| n as usize)
    }

    /// Waits until a document can be inserted again.
    fn assert_writes_go_on(&mut self, after: &str) {
        let begun = Instant::now();
        while let Err(code) = self.run("{insert: 'small', documents: [{}]}") {
            assert_eq!(code, OUT_OF_DISK_SPACE);
            assert!(begun.elapsed().as_secs() < SECONDS, "no space after {after}");
            sleep(Duration::from_millis(50));
        }
        println!("after {after}: space is back in {:.1} s", begun.elapsed().as_secs_f64());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers that look random (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
#[ignore = "needs a small file system; see scripts/full-disk"]
fn a_really_full_disk_can_be_left() {
    let disk = PathBuf::from(std::env::var("MOTIF_SMALL_DISK").expect("scripts/full-disk sets it"));
    let logs = tempfile::tempdir().unwrap();
    let (folder, log) = (disk.join("data"), logs.path().join("log"));
    let mut noise = Noise(7);
    let mut server = Server::start(&folder, &log);
    server.run("{createIndexes: 'a', indexes: [{key: {k: 1}, name: 'k'}]}").unwrap();
    server.run("{insert: 'small', documents: [{_id: 1}, {_id: 2}]}").unwrap();

    // Full: what does not free space is refused, reads go on.
    let filled = server.fill("a", &mut noise);
    assert_eq!(server.run("{insert: 'small', documents: [{}]}").unwrap_err(), OUT_OF_DISK_SPACE);
    assert_eq!(server.count("a"), filled);

    // After a crash the same; deletes and `compact` free space.
    server.kill();
    let mut server = Server::start(&folder, &log);
    assert_eq!(server.count("a"), filled);
    server.run("{delete: 'a', deletes: [{q: {k: {$lt: 90}}, limit: 0}]}").unwrap();
    let left = server.count("a");
    assert!(left < filled / 2, "{left} of {filled}");
    server.run("{compact: 'a', force: true}").unwrap();
    server.assert_writes_go_on("compact");

    // Full again, and stopped cleanly; a drop frees space.
    server.fill("b", &mut noise);
    server.kill();
    let mut server = Server::start(&folder, &log);
    server.run("{drop: 'b'}").unwrap();
    server.assert_writes_go_on("a drop");

    // Not even the reserve is left: the server starts, and goes on when others make room.
    server.fill("c", &mut noise);
    server.kill();
    let _ = std::fs::remove_file(folder.join("RESERVE"));
    let mut junk = std::fs::File::create(disk.join("junk")).unwrap();
    while junk.write_all(&[1; 512]).is_ok() {}
    let mut server = Server::start(&folder, &log);
    assert_eq!(server.count("a"), left);
    assert_eq!(server.run("{insert: 'small', documents: [{}]}").unwrap_err(), OUT_OF_DISK_SPACE);
    drop(junk);
    std::fs::remove_file(disk.join("junk")).unwrap();
    server.run("{drop: 'c'}").unwrap();
    server.assert_writes_go_on("others made room");
    assert_eq!(server.count("a"), left);

    // A state that lasts is logged once a minute.
    let mut text = String::new();
    std::fs::File::open(&log).unwrap().read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
    // On a busy machine some statements are slow.
    let lines: Vec<&str> = lines.filter(|line| !line.contains("slow operation")).collect();
    assert!(lines.len() < 40, "{} lines: {}", lines.len(), lines.join("\n"));
    server.kill();
    let checked = Command::new(env!("CARGO_BIN_EXE_motif")).arg("check").arg(&folder).status();
    assert!(checked.unwrap().success());
}
