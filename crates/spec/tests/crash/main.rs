//! Kills a real server process with SIGKILL while clients write, restarts it, and compares what is
//! there with what was acknowledged. `process` starts and kills, `writer` is one client and what
//! it knows, `audit` reads everything back.
//!
//! `CRASH_KILLS=200` kills more often, `CRASH_SEED=7` repeats the choices of a run.

mod arrays;
mod audit;
mod builds;
mod out;
mod process;
mod random;
mod writer;

use process::{Server, binary};
use random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use writer::Writer;

/// Clients that write at the same time.
const WRITERS: usize = 6;
/// Kills in one run unless `CRASH_KILLS` says otherwise.
const KILLS: u64 = 50;

/// A number that the environment gives.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn acknowledged_writes_survive_kill_nine() {
    let kills: u64 = number("CRASH_KILLS").unwrap_or(KILLS);
    let seed = number("CRASH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CRASH_SEED={seed} CRASH_KILLS={kills}");
    let mut random = Random::new(seed);
    let folder = tempfile::Builder::new().prefix("motif-crash").tempdir().expect("a folder");
    // Kept when a check panics, so that the evidence stays; removed at the end.
    let folder = folder.keep();
    eprintln!("data and logs: {}", folder.display());
    let binary = binary();

    let claims = Arc::new(AtomicI64::new(0));
    let replies = Arc::new(AtomicU64::new(0));
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer::new(number, random.next(), Arc::clone(&claims), Arc::clone(&replies)))
        .collect();
    let mut slowest_start = Duration::ZERO;
    let mut killed = 0;
    let begin = Instant::now();

    let mut server = Server::start(&binary, &folder);
    audit::create_collections(&mut server.connect());
    while killed < kills {
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                let (uri, stop) = (server.uri(), Arc::clone(&stop));
                std::thread::spawn(move || {
                    writer.work(&uri, &stop);
                    writer
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100 + random.below(700)));
        // A slow machine takes longer to come to something.
        let round = Instant::now();
        while replies.load(Ordering::Relaxed) <= 25 * (killed + 1)
            && round.elapsed() < Duration::from_secs(20)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        server.kill();
        killed += 1;
        stop.store(true, Ordering::Relaxed);
        writers = threads
            .into_iter()
            .map(|thread| thread.join().expect("a writer met an answer that it did not expect"))
            .collect();

        // Recovery must survive being killed, too.
        while killed < kills && random.below(6) == 0 {
            let starting = Server::spawn(&binary, &folder);
            std::thread::sleep(Duration::from_millis(random.below(60)));
            starting.kill();
            killed += 1;
        }
        if random.below(10) == 0 {
            process::check_folder(&binary, &folder);
        }
        server = Server::start(&binary, &folder);
        slowest_start = slowest_start.max(server.start_time);
        audit::audit(&mut server.connect(), &mut writers);
    }

    server.stop();
    process::check_folder(&binary, &folder);
    let acknowledged: u64 = writers.iter().map(|writer| writer.acknowledged).sum();
    let applied: u64 = writers.iter().map(|writer| writer.applied_unacknowledged).sum();
    let lost: u64 = writers.iter().map(|writer| writer.lost_unacknowledged).sum();
    let retried: u64 = writers.iter().map(|writer| writer.retried).sum();
    eprintln!(
        "{killed} kills in {:.0} s: {acknowledged} acknowledged writes all there; of those in \
         flight {applied} were applied and {lost} not, each whole; {retried} retried writes \
         executed once; slowest start {} ms",
        begin.elapsed().as_secs_f64(),
        slowest_start.as_millis(),
    );
    // A run that wrote next to nothing would prove nothing.
    assert!(acknowledged > 20 * kills, "only {acknowledged} writes were acknowledged");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
