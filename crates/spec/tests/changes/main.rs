//! Follows a change stream while clients write, its reader is cut off again and again, and the server
//! is killed and restarted: every committed change comes exactly once, in commit order. `writer` is
//! one client, `reader` the follower and what it makes of the events.
//!
//! `CRASH_KILLS=50` kills more often, `CRASH_SEED=7` repeats the choices of a run.

#[path = "../crash/process.rs"]
mod process;
#[path = "../crash/random.rs"]
mod random;
mod reader;
mod writer;

use process::{Server, binary};
use random::Random;
use reader::Reader;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use value::ejson;

/// Clients that write at the same time.
const WRITERS: u64 = 8;
/// Kills in one run unless `CRASH_KILLS` says otherwise.
const KILLS: u64 = 8;

#[test]
fn every_committed_change_comes_once_and_in_order() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let kills: u64 = number("CRASH_KILLS").unwrap_or(KILLS);
    let seed = number("CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CRASH_SEED={seed} CRASH_KILLS={kills}");
    let mut random = Random::new(seed);
    let folder = tempfile::Builder::new().prefix("motif-changes").tempdir().expect("a folder");
    let folder = folder.keep();
    eprintln!("data and logs: {}", folder.display());
    let binary = binary();

    let mut server = Server::start(&binary, &folder);
    // Where the server is now; empty while it is down.
    let uri = Arc::new(Mutex::new(server.uri()));
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let start = {
        let hello = ejson::parse_doc("{hello: 1}").expect("test text");
        let reply = server.connect().run("admin", &hello).expect("answers");
        match reply.as_doc().get("operationTime") {
            Some(value::Val::Timestamp(time)) => time,
            other => panic!("no operationTime: {other:?}"),
        }
    };
    let follower = {
        let uri = Arc::clone(&uri);
        let seed = random.next();
        std::thread::spawn(move || {
            let mut reader = Reader::new(start, seed);
            reader.follow(&uri);
            reader
        })
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (uri, stop, acknowledged) = (uri.clone(), stop.clone(), acknowledged.clone());
            let seed = random.next();
            std::thread::spawn(move || writer::work(number, seed, &uri, &stop, &acknowledged))
        })
        .collect();
    for kill in 1..=kills {
        std::thread::sleep(Duration::from_millis(300 + random.below(700)));
        // A slow machine takes longer to come to something.
        let begin = Instant::now();
        while acknowledged.load(Ordering::Relaxed) <= 20 * kill
            && begin.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        uri.lock().expect("not poisoned").clear();
        server.kill();
        server = Server::start(&binary, &folder);
        *uri.lock().expect("not poisoned") = server.uri();
    }
    std::thread::sleep(Duration::from_millis(500));
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.join().expect("a writer met an answer that it did not expect");
    }
    let last = ejson::parse_doc("{insert: 'c', documents: [{_id: 'the end', n: 0}]}");
    server.connect().run("t", &last.expect("test text")).expect("the last write");
    let begin = Instant::now();
    while !follower.is_finished() {
        assert!(begin.elapsed() < Duration::from_secs(120), "the reader does not reach the end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let reader = follower.join().expect("the events make sense");
    reader.compare(&mut server.connect());
    let start_time = server.start_time.as_millis();
    server.stop();
    process::check_folder(&binary, &folder);
    let acknowledged = acknowledged.load(Ordering::Relaxed);
    eprintln!(
        "{kills} kills, {} cuts: {} events for {acknowledged} acknowledged writes; last start in \
         {start_time} ms",
        reader.cuts, reader.events
    );
    assert!(reader.events > acknowledged, "acknowledged writes are missing");
    assert!(acknowledged > 20 * kills, "only {acknowledged} writes were acknowledged");
    assert!(reader.cuts > kills, "the reader was not cut off");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
