//! The cost of an idle server (start-up time, memory, idle connections), and the cost of a point
//! read in a large collection compared with a small one.

use super::Notes;
use super::drive::{self, Drive, Outcome, Target};
use super::process::{Program, Server};
use super::workload;
use anyhow::{Context, Result};
use client::Client;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Idle connections.
pub(crate) const IDLE_CONNECTIONS: usize = 1000;
/// Documents of the small collection of `flat`.
const FLAT_SMALL: u64 = 10_000;
/// Connections that read in `flat`.
const FLAT_CONNECTIONS: usize = 8;
/// Rounds of `flat`; the cheapest counts.
const FLAT_ROUNDS: u64 = 3;

/// The duration of the unmeasured reads before a round, as a multiple of the round.
const FLAT_WARM_UP: u32 = 8;

/// The cost of an idle server.
pub(crate) struct Resources {
    pub(crate) server: &'static str,
    /// From starting the process on an empty folder to its first answer; best of three.
    pub(crate) startup: Duration,
    /// Resident bytes a second after the start.
    pub(crate) idle_bytes: u64,
    /// Resident bytes with `IDLE_CONNECTIONS` connections that were used once.
    pub(crate) connections_bytes: u64,
}

/// Starts a server three times and measures it.
pub(crate) fn measure(program: &Program, folder: Option<&Path>) -> Result<Resources> {
    let mut startup = Duration::MAX;
    for _ in 0..2 {
        startup = startup.min(Server::start(program, folder)?.startup);
    }
    let server = Server::start(program, folder)?;
    startup = startup.min(server.startup);
    sleep(Duration::from_secs(1));
    let idle_bytes = server.process().memory()?;
    let ping = value::DocBuf::build(|out| {
        out.i32("ping", 1);
    });
    let mut connections = Vec::with_capacity(IDLE_CONNECTIONS);
    for number in 0..IDLE_CONNECTIONS {
        let opened = Client::connect(&server.uri()).and_then(|mut client| {
            client.run("admin", &ping)?;
            Ok(client)
        });
        connections.push(opened.with_context(|| format!("idle connection {}", number + 1))?);
    }
    // A server may release the memory of an idle connection only after some time.
    sleep(Duration::from_secs(5));
    let connections_bytes = server.process().memory()?;
    Ok(Resources { server: program.name(), startup, idle_bytes, connections_bytes })
}

/// The cost of a point read in a small and in a large collection.
pub(crate) struct Flat {
    pub(crate) small_docs: u64,
    pub(crate) small_cpu_us: f64,
    pub(crate) large_docs: u64,
    pub(crate) large_cpu_us: f64,
}

impl Flat {
    /// The cost in the large collection divided by that in the small one.
    pub(crate) fn ratio(&self) -> f64 {
        self.large_cpu_us / self.small_cpu_us.max(1e-9)
    }
}

/// Measures point reads on MotifDB in collections of two sizes.
pub(crate) fn flat(
    large_docs: u64,
    duration: Duration,
    folder: Option<&Path>,
    note: &Notes,
) -> Result<Flat> {
    let server = Server::start(&Program::Motif, folder)?;
    let process = Some(server.process());
    let target = Target { name: "motif".to_owned(), uri: server.uri(), process };
    let point = workload::by_name("point").context("there is no workload `point`")?;
    let cost = |docs: u64| -> Result<f64> {
        note.say(format!("flat: loading {docs} documents"));
        workload::load_orders(&target.uri, docs, &|done| {
            if done.is_multiple_of(200_000) && done > 0 {
                note.say(format!("flat: {done} of {docs} documents"));
            }
        })?;
        server.process().settle(Duration::from_secs(60))?;
        note.say(format!("flat: point reads in {docs} documents"));
        // Both collections fit into the cache. This measures how the work of a read grows with the
        // collection, not the first read of each block.
        let warm = Drive {
            connections: FLAT_CONNECTIONS,
            docs,
            duration: duration * FLAT_WARM_UP,
            seed: FLAT_ROUNDS,
        };
        drive::run(&target, point, warm)?;
        let mut best = f64::INFINITY;
        for seed in 0..FLAT_ROUNDS {
            let drive = Drive { connections: FLAT_CONNECTIONS, docs, duration, seed };
            let outcome: Outcome = drive::run(&target, point, drive)?;
            best = best.min(outcome.cpu_us().context("the server's CPU time is unknown")?);
        }
        Ok(best)
    };
    Ok(Flat {
        small_docs: FLAT_SMALL,
        small_cpu_us: cost(FLAT_SMALL)?,
        large_docs,
        large_cpu_us: cost(large_docs)?,
    })
}
