//! The oracle of patterns: random declarations and random writes, and at every moment what is
//! maintained equals what plain code makes of the documents.
//!
//! `declarations` chooses patterns, `operations` writes, `model` recomputes and compares, `session`
//! is a connection. One test goes step by step and looks after every commit; the other has clients
//! that write at the same time while patterns are built, dropped and suspended, looks at random
//! snapshots, and kills the server with SIGKILL.
//!
//! `PATTERNS_SECONDS=3600` runs longer, `PATTERNS_SEED=7` repeats the choices of a run.

mod declarations;
mod model;
mod operations;
#[path = "../crash/process.rs"]
mod process;
#[path = "../crash/random.rs"]
mod random;
mod session;

use declarations::Declared;
use operations::Writer;
use process::{Server, binary};
use random::Random;
use session::Session;
use spec::door::House;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seconds(default: u64) -> Duration {
    Duration::from_secs(number("PATTERNS_SECONDS").map_or(default, |all| all / 2))
}

#[test]
fn after_every_commit_what_is_maintained_is_right() {
    let seed = number("PATTERNS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let begin = Instant::now();
    let (mut runs, mut steps) = (0, 0);
    while begin.elapsed() < seconds(40) {
        steps += step_by_step(seed + runs);
        runs += 1;
    }
    eprintln!("PATTERNS_SEED={seed}: {runs} runs, {steps} statements and transactions");
    assert!(steps > 500, "only {steps} steps");
}

/// One run; returns how many steps it took.
fn step_by_step(seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let house = House::memory().expect("memory opens");
    let mut session = Session::new(house.door().expect("a connection"), 1);
    let mut writer = Writer::new(random.next());
    let mut declared: Vec<Declared> = Vec::new();
    // Some documents are there before the patterns.
    for _ in 0..random.below(60) {
        writer.step(&mut session);
    }
    let steps = 60 + random.below(120);
    for step in 0..steps {
        if declared.is_empty() || random.below(25) == 0 {
            declarations::change(&mut random, &mut session, &mut declared);
        }
        let what = writer.step(&mut session);
        let problems = model::check(&mut session, &declared, true);
        assert!(
            problems.is_empty(),
            "PATTERNS_SEED={seed}, step {step} ({what}):\n{}\n{declared:#?}",
            problems.join("\n")
        );
    }
    steps
}

#[test]
fn beside_other_clients_and_kills_what_is_maintained_is_right() {
    let seed = number("PATTERNS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("PATTERNS_SEED={seed}");
    let mut random = Random::new(seed ^ 0xABCD);
    let folder = tempfile::Builder::new().prefix("motif-patterns").tempdir().expect("a folder");
    let folder = folder.keep();
    eprintln!("data and logs: {}", folder.display());
    let binary = binary();
    let begin = Instant::now();
    let declared = Arc::new(RwLock::new(Vec::<Declared>::new()));
    let (steps, looks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut kills = 0;
    let mut server = Server::start(&binary, &folder);
    while begin.elapsed() < seconds(40) {
        let stop = Arc::new(AtomicBool::new(false));
        let failures = Arc::new(Mutex::new(Vec::<String>::new()));
        let mut threads = Vec::new();
        for client in 0..4 {
            let (uri, stop, steps) = (server.uri(), stop.clone(), steps.clone());
            let mut writer = Writer::new(random.next());
            threads.push(std::thread::spawn(move || {
                let Ok(client_door) = client::Client::connect(&uri) else { return };
                let mut session = Session::new(Box::new(client_door), 10 + client);
                while !stop.load(Ordering::Relaxed) && !session.broken {
                    writer.step(&mut session);
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        {
            let (uri, stop, declared) = (server.uri(), stop.clone(), declared.clone());
            let (looks, failures) = (looks.clone(), failures.clone());
            threads.push(std::thread::spawn(move || {
                let Ok(door) = client::Client::connect(&uri) else { return };
                let mut session = Session::new(Box::new(door), 2);
                while !stop.load(Ordering::Relaxed) && !session.broken {
                    let declared = declared.read().expect("nobody panicked");
                    let problems = model::check(&mut session, &declared, false);
                    if !problems.is_empty() && !session.broken {
                        let text = format!("{}\n{declared:#?}", problems.join("\n"));
                        failures.lock().expect("nobody panicked").push(text);
                        return;
                    }
                    looks.fetch_add(1, Ordering::Relaxed);
                    drop(declared);
                    std::thread::sleep(Duration::from_millis(20));
                }
            }));
        }
        let mut session = Session::new(Box::new(server.connect()), 3);
        let round = Instant::now();
        let length = Duration::from_millis(500 + random.below(2500));
        while round.elapsed() < length && failures.lock().expect("nobody panicked").is_empty() {
            let mut declared = declared.write().expect("nobody panicked");
            declarations::change(&mut random, &mut session, &mut declared);
            drop(declared);
            std::thread::sleep(Duration::from_millis(100 + random.below(300)));
        }
        let kill = random.below(4) != 0;
        if kill {
            server.kill();
            server = Server::start(&binary, &folder);
            kills += 1;
        }
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a client met an answer that it did not expect");
        }
        let failures = failures.lock().expect("nobody panicked");
        assert!(failures.is_empty(), "PATTERNS_SEED={seed}:\n{}", failures.join("\n"));
        let mut session = Session::new(Box::new(server.connect()), 4);
        let mut declared = declared.write().expect("nobody panicked");
        declarations::wait(&mut session, &mut declared);
        let problems = model::check(&mut session, &declared, true);
        assert!(
            problems.is_empty(),
            "PATTERNS_SEED={seed}, at rest:\n{}\n{declared:#?}",
            problems.join("\n")
        );
    }
    server.stop();
    process::check_folder(&binary, &folder);
    let (steps, looks) = (steps.load(Ordering::Relaxed), looks.load(Ordering::Relaxed));
    eprintln!("{steps} statements and transactions, {looks} looks, {kills} kills");
    assert!(steps > 200 && looks > 10, "only {steps} steps and {looks} looks");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
