//! The oracle of patterns: random declarations and random writes. At every moment, maintained values
//! must equal a recomputation from the documents by simple code.
//!
//! `schema` chooses the paths of fields, `declarations` the patterns; `operations` writes, `model`
//! recomputes and compares (`accumulators` for folds, `nodes` for trees, `frozen` for copies that do not
//! change with their source), `session` is a connection. One test compares after every step, and now
//! and then at a past time. The other has concurrent clients while patterns are built, dropped and
//! suspended, compares random snapshots, and kills the server with SIGKILL. `hot` and `queue` kill it
//! during special loads.
//!
//! `PATTERNS_SECONDS=3600` runs longer, `PATTERNS_SEED=7` repeats the choices of a run.

mod accumulators;
mod declarations;
mod frozen;
mod hot;
mod model;
mod nodes;
mod operations;
#[path = "../crash/process.rs"]
mod process;
mod queue;
#[path = "../crash/random.rs"]
mod random;
mod schema;
mod session;
mod typed;

use declarations::{Declared, Kind};
use model::Moment;
use operations::Writer;
use process::{Server, binary};
use random::Random;
use schema::Schema;
use session::Session;
use spec::connection::Deployment;
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
    // Without PATTERNS_SECONDS the number of steps does not depend on the speed of the machine.
    let most = number("PATTERNS_SECONDS").map_or(1_200, |_| u64::MAX);
    let (mut runs, mut steps) = (0, 0);
    while (begin.elapsed() < seconds(40) && runs < most) || steps <= 100 {
        steps += step_by_step(seed + runs);
        runs += 1;
    }
    eprintln!("PATTERNS_SEED={seed}: {runs} runs, {steps} statements and transactions");
    assert!(steps > 100, "only {steps} steps");
}

/// Prints how to repeat a run that panics, and its last steps.
struct FailureReport {
    seed: u64,
    last: Vec<String>,
    declared: String,
}

impl Drop for FailureReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = self.last.split_off(self.last.len().saturating_sub(5));
            eprintln!("PATTERNS_SEED={}:\n{}\n{}", self.seed, last.join("\n"), self.declared);
        }
    }
}

/// One run; returns how many steps it took.
fn step_by_step(seed: u64) -> u64 {
    let mut report = FailureReport { seed, last: Vec::new(), declared: String::new() };
    let mut random = Random::new(seed);
    let schema = Schema::new(&mut random);
    let deployment = Deployment::memory().expect("memory opens");
    let mut session = Session::new(deployment.connect().expect("a connection"), 1);
    session.must("{setParameter: 1, ttlMonitorSleepSecs: 1}");
    declarations::prepare(&mut session);
    let mut writer = Writer::new(random.next(), &schema);
    let mut declared: Vec<Declared> = Vec::new();
    // Some documents exist before the patterns.
    for _ in 0..random.below(60) {
        writer.step(&mut session);
    }
    let steps = 60 + random.below(120);
    let mut moments: Vec<(Moment, Vec<Declared>)> = Vec::new();
    for step in 0..steps {
        let changed = declared.is_empty() || random.below(25) == 0;
        if changed {
            declarations::change(&mut random, &schema, &mut session, &mut declared);
        }
        let done = writer.step(&mut session);
        report.last.push(done.text.clone());
        report.declared = format!("{declared:#?}");
        let (mut problems, moment) = model::check(&mut session, &schema, &declared, true);
        if let (Some((before, _)), Some(now)) = (moments.last(), &moment) {
            let frozen = declared.iter().find(|declared| declared.kind == Kind::Frozen);
            let was_ready = |moment: &Moment| moment.ready.contains(&"frozen");
            if let Some(frozen) = frozen.filter(|_| was_ready(before) && was_ready(now) && !changed)
            {
                problems.extend(frozen::check(&schema, frozen, (before, now), done.simple));
            }
        }
        if let Some(moment) = moment {
            moments.push((moment, declared.clone()));
        }
        if random.below(5) == 0 {
            problems.extend(look_back(&mut random, &schema, &mut session, &moments));
        }
        assert!(problems.is_empty(), "step {step}:\n{}", problems.join("\n"));
    }
    steps
}

/// The problems at a past time: reads must return the same as then, and it must still be correct.
fn look_back(
    random: &mut Random,
    schema: &Schema,
    session: &mut Session,
    moments: &[(Moment, Vec<Declared>)],
) -> Vec<String> {
    // While a pattern is being built, its missing values are derived for each reader; a pattern that
    // depends on it does not see these values.
    let states = declarations::states(session).unwrap_or_default();
    if moments.is_empty() || states.iter().any(|(_, state)| state == "building") {
        return Vec::new();
    }
    let (then, declared) = &moments[random.below(moments.len() as u64) as usize];
    let Some(found) = model::look(session, schema, Some(then.time)) else { return Vec::new() };
    let ready = |declared: &&Declared| !declared.late && then.ready.contains(&declared.name);
    let declared: Vec<&Declared> = declared.iter().filter(ready).collect();
    let mut problems = model::problems(&found, schema, &declared);
    problems.iter_mut().for_each(|problem| problem.insert_str(0, "in the past: "));
    problems
}

#[test]
fn beside_other_clients_and_kills_what_is_maintained_is_right() {
    let seed = number("PATTERNS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("PATTERNS_SEED={seed}");
    let mut random = Random::new(seed ^ 0xABCD);
    let schema = Schema::new(&mut random);
    let folder = tempfile::Builder::new().prefix("motif-patterns").tempdir().expect("a folder");
    let folder = folder.keep();
    eprintln!("data and logs: {}", folder.display());
    let binary = binary();
    let begin = Instant::now();
    let declared = Arc::new(RwLock::new(Vec::<Declared>::new()));
    let (steps, looks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut kills = 0;
    let mut server = Server::start(&binary, &folder);
    let enough = || steps.load(Ordering::Relaxed) > 200 && looks.load(Ordering::Relaxed) > 10;
    while begin.elapsed() < seconds(40) || (!enough() && begin.elapsed() < seconds(200)) {
        {
            let mut session = Session::new(Box::new(server.connect()), 5);
            session.must("{setParameter: 1, ttlMonitorSleepSecs: 1}");
            declarations::prepare(&mut session);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let failures = Arc::new(Mutex::new(Vec::<String>::new()));
        let mut threads = Vec::new();
        for client in 0..4 {
            let (uri, stop, steps) = (server.uri(), stop.clone(), steps.clone());
            let mut writer = Writer::new(random.next(), &schema);
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
            let (looks, failures, schema) = (looks.clone(), failures.clone(), schema.clone());
            let mut random = Random::new(random.next());
            threads.push(std::thread::spawn(move || {
                let Ok(connection) = client::Client::connect(&uri) else { return };
                let mut session = Session::new(Box::new(connection), 2);
                let mut moments = Vec::new();
                while !stop.load(Ordering::Relaxed) && !session.broken {
                    let declared = declared.read().expect("nobody panicked");
                    let (mut problems, moment) =
                        model::check(&mut session, &schema, &declared, false);
                    moments.extend(moment.map(|moment| (moment, declared.clone())));
                    if random.below(3) == 0 {
                        problems.extend(look_back(&mut random, &schema, &mut session, &moments));
                    }
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
            declarations::change(&mut random, &schema, &mut session, &mut declared);
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
        let (mut problems, _) = model::check(&mut session, &schema, &declared, true);
        problems.extend(declarations::validate(&mut session, &declared));
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
