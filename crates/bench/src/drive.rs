//! Runs one workload with a number of connections: one thread each, started together. Measures the
//! latency of each operation and the server's CPU time.

use super::process::Process;
use super::workload::{Shared, Worker, Workload};
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server to drive.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) uri: String,
    /// The server's process, if it runs on this machine.
    pub(crate) process: Option<Process>,
}

/// The parameters of a run.
#[derive(Clone, Copy)]
pub(crate) struct Drive {
    pub(crate) connections: usize,
    pub(crate) docs: u64,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
}

/// The result of one run.
#[derive(Clone)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// Server CPU time, if the process is known.
    pub(crate) cpu: Option<Duration>,
    /// Resident memory of the server afterwards, in bytes.
    pub(crate) memory: Option<u64>,
    /// Nanoseconds per request (a bulk load's request is a batch).
    pub(crate) latency: Histogram<u64>,
}

impl Outcome {
    /// Operations per second of wall time.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Server CPU time per operation in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.operations.max(1) as f64)
    }
}

/// The longest latency that the histogram distinguishes: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

pub(crate) fn latency_histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1000, LATENCY_NS_MAX, 3).context("cannot make a histogram")
}

/// Unmeasured requests of a connection before a run, which open it and warm caches.
const WARM_UP: u32 = 20;

/// Runs a workload once.
pub(crate) fn run(target: &Target, workload: &Workload, drive: Drive) -> Result<Outcome> {
    let shared = Shared::new(workload, drive.docs);
    let connections = drive.connections;
    let ready = Barrier::new(connections + 1);
    let go = Barrier::new(connections + 1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|number| {
                let seed = drive.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
                let (shared, ready, go, stop) = (&shared, &ready, &go, &stop);
                scope.spawn(move || {
                    let worker = Worker::connect(&target.uri, workload, shared, seed);
                    let worker = worker.and_then(|mut worker| {
                        if !workload.is_load() {
                            let begin = Instant::now();
                            for _ in 0..WARM_UP {
                                worker.step()?;
                                if begin.elapsed() > Duration::from_millis(300) {
                                    break;
                                }
                            }
                        }
                        Ok(worker)
                    });
                    // Every thread must reach both barriers; otherwise the others wait forever.
                    ready.wait();
                    go.wait();
                    worker.and_then(|worker| measure(worker, stop))
                })
            })
            .collect();
        ready.wait();
        let cpu_before = target.process.map(Process::cpu).transpose();
        let begin = Instant::now();
        go.wait();
        if !workload.is_load() {
            std::thread::sleep(drive.duration);
            stop.store(true, Ordering::Relaxed);
        }
        let mut operations = 0;
        let mut latency = latency_histogram()?;
        for worker in workers {
            let Ok(result) = worker.join() else { bail!("a connection's thread panicked") };
            let (count, histogram) =
                result.with_context(|| format!("{} on {}", workload.name, target.name))?;
            operations += count;
            latency.add(histogram).context("cannot add histograms")?;
        }
        let elapsed = begin.elapsed();
        let cpu = match (cpu_before?, target.process) {
            (Some(before), Some(process)) => Some(process.cpu()?.saturating_sub(before)),
            _ => None,
        };
        let memory = target.process.map(Process::memory).transpose()?;
        Ok(Outcome { operations, elapsed, cpu, memory, latency })
    })
}

/// Runs operations until `stop` is set or none is left. Returns their number and their latencies.
fn measure(mut worker: Worker<'_>, stop: &AtomicBool) -> Result<(u64, Histogram<u64>)> {
    let mut latency = latency_histogram()?;
    let mut operations = 0;
    let mut begin = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let count = worker.step()?;
        if count == 0 {
            break;
        }
        let end = Instant::now();
        latency.saturating_record((end - begin).as_nanos() as u64);
        operations += count;
        begin = end;
    }
    Ok((operations, latency))
}
