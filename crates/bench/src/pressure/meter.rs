//! Measures a server during one phase: writes in each second, latency of single writes, memory, disk
//! space, and bytes read and written.

use super::super::drive::latency_histogram;
use super::super::machine::Others;
use super::super::process::Server;
use super::Pressure;
use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counters that the threads of a phase share.
pub(super) struct Meter {
    done: AtomicU64,
    latency: Mutex<Histogram<u64>>,
    ended: AtomicBool,
}

impl Meter {
    /// Records one write and how many documents it wrote.
    pub(super) fn record(&self, begun: Instant, count: u64) {
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
        self.done.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether the phase is over.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Samples of the server, one in each second.
#[derive(Default)]
struct Samples {
    by_second: Vec<u64>,
    memory: Vec<u64>,
    space_peak: u64,
}

/// Runs `work` beside `writers` threads that call `write` until `work` returns. `work` returns the
/// number of documents that it has processed.
pub(super) fn watch(
    server: &Server,
    name: (&'static str, &'static str, String),
    writers: usize,
    write: impl Fn(usize, &Meter) -> Result<()> + Sync,
    work: impl FnOnce(&Meter) -> Result<Option<u64>>,
) -> Result<Pressure> {
    let process = server.process();
    let (read_before, written_before) = process.io().unwrap_or_default();
    let meter = Meter {
        done: AtomicU64::new(0),
        latency: Mutex::new(latency_histogram()?),
        ended: AtomicBool::new(false),
    };
    let mut others = Others::default();
    others.begin(process);
    let begun = Instant::now();
    let (samples, worked, elapsed) = std::thread::scope(|scope| -> Result<_> {
        let sampler = scope.spawn(|| sample(server, &meter));
        let threads: Vec<_> = (0..writers)
            .map(|number| {
                let (meter, write) = (&meter, &write);
                scope.spawn(move || write(number, meter))
            })
            .collect();
        let worked = work(&meter);
        let elapsed = begun.elapsed();
        meter.ended.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap_or_else(|_| bail!("a thread panicked"))?;
        }
        let Ok(samples) = sampler.join() else { bail!("a thread panicked") };
        Ok((samples, worked?, elapsed))
    })?;
    let (read, written) = process.io().unwrap_or_default();
    others.end(process);
    let (server_name, phase, size) = name;
    let done = worked.unwrap_or(meter.done.into_inner());
    let space_end = server.space();
    Ok(Pressure {
        server: server_name,
        phase,
        size,
        rate: done as f64 / elapsed.as_secs_f64().max(1e-9),
        by_second: samples.by_second,
        latency: meter.latency.into_inner().unwrap_or_else(PoisonError::into_inner),
        memory: samples.memory,
        read: read.saturating_sub(read_before),
        written: written.saturating_sub(written_before),
        space_peak: samples.space_peak.max(space_end),
        space_end,
        others: others.percent(),
    })
}

fn sample(server: &Server, meter: &Meter) -> Samples {
    let (mut samples, mut before) = (Samples::default(), 0);
    let mut next = Instant::now() + Duration::from_secs(1);
    loop {
        while Instant::now() < next && !meter.has_ended() {
            std::thread::sleep(Duration::from_millis(20));
        }
        samples.memory.push(server.process().memory().unwrap_or(0));
        samples.space_peak = samples.space_peak.max(server.space());
        // An incomplete second at the end would look like a stall.
        if meter.has_ended() {
            return samples;
        }
        let now = meter.done.load(Ordering::Relaxed);
        samples.by_second.push(now - std::mem::replace(&mut before, now));
        next += Duration::from_secs(1);
    }
}
