//! The isolation of transactions: clients run them concurrently over a few keys on a real server
//! process, which is killed with SIGKILL in between, and record what they read. `worker` is one client,
//! `history` the records and the search for anomalies.
//!
//! Snapshot isolation allows write skew and no other anomaly: no lost updates, no dirty, fractured or
//! non-repeatable reads, no phantoms. Committed writes stay; others are never visible.
//!
//! `ISOLATION_ROUNDS=20` runs longer, `ISOLATION_SEED=7` repeats the choices of a run.

mod history;
#[path = "../crash/process.rs"]
#[expect(dead_code, reason = "the crash tests use more of it")]
mod process;
#[path = "../crash/random.rs"]
mod random;
mod worker;

use history::{History, Outcome};
use process::{Server, binary};
use random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use value::{DocBuf, ejson};
use worker::Worker;

/// Clients that run transactions at the same time.
const WORKERS: u64 = 6;
/// Rounds unless `ISOLATION_ROUNDS` says otherwise; all but the first end with a kill.
const ROUNDS: u64 = 4;

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn concurrent_transactions_show_no_anomaly_but_write_skew() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds = number("ISOLATION_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("ISOLATION_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("ISOLATION_SEED={seed} ISOLATION_ROUNDS={rounds}");
    let mut random = Random::new(seed);
    let folder = tempfile::Builder::new().prefix("motif-isolation").tempdir().expect("a folder");
    let binary = binary();
    let next = Arc::new(AtomicU64::new(1));
    let mut server = Server::start(&binary, folder.path());
    worker::set_up(&mut server.connect());
    let mut history = History::default();
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..WORKERS)
            .map(|_| {
                let mut worker = Worker::new(random.next(), round, next.clone());
                let (uri, stop) = (server.uri(), stop.clone());
                std::thread::spawn(move || {
                    worker.work(&uri, &stop);
                    worker
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(600 + random.below(400)));
        // A slow machine takes longer to make progress.
        let begin = Instant::now();
        while next.load(Ordering::Relaxed) < 100 * (round + 1)
            && begin.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        if round > 0 {
            server.kill();
            stop.store(true, Ordering::Relaxed);
            let workers: Vec<Worker> =
                threads.into_iter().map(|thread| thread.join().expect("a worker ends")).collect();
            server = Server::start(&binary, folder.path());
            let mut client = server.connect();
            for mut worker in workers {
                worker.ask_again(&mut client);
                history.transactions.append(&mut worker.transactions);
            }
        } else {
            stop.store(true, Ordering::Relaxed);
            for thread in threads {
                let mut worker = thread.join().expect("a worker ends");
                history.transactions.append(&mut worker.transactions);
            }
        }
        history.read_final(&mut server.connect());
        let problems = history.problems();
        assert!(problems.is_empty(), "round {round}:\n{}", problems.join("\n"));
    }
    server.stop();
    let count = |outcome: Outcome| {
        history.transactions.iter().filter(|transaction| transaction.outcome == outcome).count()
    };
    let (committed, aborted) = (count(Outcome::Committed), count(Outcome::Aborted));
    eprintln!("{committed} committed, {aborted} aborted");
    assert!(committed > 100 && aborted > 10, "the clients were not in each other's way");
}

#[test]
fn write_skew_is_possible() {
    let folder = tempfile::Builder::new().prefix("motif-skew").tempdir().expect("a folder");
    let server = Server::start(&binary(), folder.path());
    let mut client = server.connect();
    let mut run = |text: &str| client.run("t", &doc(text));
    run("{insert: 'c', documents: [{_id: 'x', on: true}, {_id: 'y', on: true}]}").expect("works");
    let session = |digit: &str| {
        format!(
            "lsid: {{id: UUID(\"{}\")}}, txnNumber: NumberLong(1), autocommit: false",
            digit.repeat(32)
        )
    };
    let (a, b) = (session("a"), session("b"));
    for session in [&a, &b] {
        run(&format!("{{find: 'c', {session}, startTransaction: true}}")).expect("works");
    }
    let off = |id: &str, session: &str| {
        format!(
            "{{update: 'c', updates: [{{q: {{_id: '{id}'}}, u: {{$set: {{on: false}}}}}}], {session}}}"
        )
    };
    run(&off("x", &a)).expect("works");
    run(&off("y", &b)).expect("works");
    for session in [&a, &b] {
        let commit = doc(&format!("{{commitTransaction: 1, {session}}}"));
        client.run("admin", &commit).expect("each alone saw the other's document as it was");
    }
    server.stop();
}
