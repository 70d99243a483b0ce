//! What single writes wait for while much is written: documents of several times the cache are loaded
//! and then changed at random, with and without a cursor that stays open. Prints what was done second
//! by second, the latency of single updates, memory, bytes read and written, and space.

use super::Notes;
use super::data::Dice;
use super::drive::latency_histogram;
use super::process::{Program, Server};
use super::report::Bar;
use super::workload::{DATABASE, insert_batch};
use anyhow::{Context, Result};
use client::Client;
use hdrhistogram::Histogram;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use value::{DocBuf, Val};

/// The cache of both servers, in mebibytes.
const CACHE_MIB: u64 = 256;
/// A document and its index entries take about so many bytes.
const DOCUMENT_BYTES: u64 = 512;
const COLLECTION: &str = "pressure";
/// Documents of one insert.
const BATCH: u64 = 1000;

/// What one phase has shown on one server.
pub(crate) struct Pressure {
    pub(crate) server: &'static str,
    pub(crate) phase: String,
    /// Operations in each second.
    pub(crate) by_second: Vec<u64>,
    pub(crate) latency: Histogram<u64>,
    /// The most resident memory, in bytes.
    pub(crate) memory: u64,
    /// Bytes that the process read from and wrote to disks.
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// Bytes of the data folder at the end.
    pub(crate) space: u64,
}

/// Measures one server; `times` says how many times the cache the documents take.
pub(crate) fn measure(
    program: &Program,
    folder: Option<&Path>,
    times: &[u64],
    duration: Duration,
    note: &Notes,
) -> Result<Vec<Pressure>> {
    let mut found = Vec::new();
    for times in times {
        let server = Server::start_with_cache(program, folder, &[], CACHE_MIB)?;
        let docs = times * (CACHE_MIB << 20) / DOCUMENT_BYTES;
        note.say(format!("{}: loading {docs} documents", program.name()));
        let mut client = Client::connect(&server.uri())?;
        make_index(&mut client)?;
        let mut batch = Vec::new();
        let mut next = 0;
        found.push(watch(&server, program, format!("load {times}x"), |latency| {
            if next >= docs {
                return Ok(0);
            }
            let begun = Instant::now();
            insert_batch(&mut client, COLLECTION, next..next + BATCH, docs, &mut batch)?;
            latency.record(nanos(begun))?;
            next += BATCH;
            Ok(BATCH)
        })?);
        for with_cursor in [false, true] {
            let phase = if with_cursor { "update, open cursor" } else { "update" };
            note.say(format!("{}: {phase}", program.name()));
            let mut reader = Client::connect(&server.uri())?;
            if with_cursor {
                open_cursor(&mut reader)?;
            }
            let mut dice = Dice::new(7);
            let end = Instant::now() + duration;
            found.push(watch(&server, program, format!("{phase} {times}x"), |latency| {
                if Instant::now() >= end {
                    return Ok(0);
                }
                let begun = Instant::now();
                update(&mut client, dice.below(docs))?;
                latency.record(nanos(begun))?;
                Ok(1)
            })?);
        }
    }
    Ok(found)
}

/// Runs `step` until it has done nothing, and watches the server meanwhile.
fn watch(
    server: &Server,
    program: &Program,
    phase: String,
    mut step: impl FnMut(&mut Histogram<u64>) -> Result<u64>,
) -> Result<Pressure> {
    let process = server.process();
    let (read_before, written_before) = process.io().unwrap_or_default();
    let (done, ended, memory) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let mut latency = latency_histogram()?;
    let (result, by_second) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut by_second, mut before) = (Vec::new(), 0);
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                let now = done.load(Ordering::Relaxed);
                by_second.push(now - std::mem::replace(&mut before, now));
                memory.fetch_max(process.memory().unwrap_or(0), Ordering::Relaxed);
            }
            by_second
        });
        let result = loop {
            match step(&mut latency) {
                Ok(0) => break Ok(()),
                Ok(count) => drop(done.fetch_add(count, Ordering::Relaxed)),
                Err(error) => break Err(error),
            }
        };
        ended.store(true, Ordering::Relaxed);
        (result, watcher.join().unwrap_or_default())
    });
    result?;
    let (read, written) = process.io().unwrap_or_default();
    Ok(Pressure {
        server: program.name(),
        phase,
        by_second,
        latency,
        memory: memory.into_inner(),
        read: read - read_before,
        written: written - written_before,
        space: server.space(),
    })
}

/// The bars: no single update above a second, memory within the cache and 150 MiB.
pub(crate) fn bars(found: &[Pressure]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for phase in found.iter().filter(|phase| phase.server == Program::Motif.name()) {
        let (name, max) = (&phase.phase, phase.latency.max() as f64 / 1e9);
        let text = format!("{name}: the longest write took {max:.2} s (bar 1.0)");
        bars.push(Bar { text, reached: max <= 1.0 });
        let (memory, most) = (phase.memory >> 20, CACHE_MIB + 150);
        let text = format!("{name}: {memory} MiB of memory (bar {most})");
        bars.push(Bar { text, reached: memory <= most });
    }
    bars
}

/// Writes a line for each phase, and what each second did.
pub(crate) fn print(out: &mut String, found: &[Pressure]) -> std::fmt::Result {
    for phase in found {
        let ms = |quantile| phase.latency.value_at_quantile(quantile) as f64 / 1e6;
        let mib = |bytes: u64| bytes >> 20;
        writeln!(
            out,
            "{:<7} {:<24} p50 {:>8.2} ms  p99 {:>8.2}  p99.9 {:>8.2}  max {:>8.2}  memory {:>5} MiB  \
             read {:>6} MiB  written {:>6} MiB  space {:>6} MiB",
            phase.server,
            phase.phase,
            ms(0.5),
            ms(0.99),
            ms(0.999),
            phase.latency.max() as f64 / 1e6,
            mib(phase.memory),
            mib(phase.read),
            mib(phase.written),
            mib(phase.space),
        )?;
        writeln!(out, "        by second: {:?}", phase.by_second)?;
    }
    Ok(())
}

fn nanos(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1000)
}

fn make_index(client: &mut Client) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("createIndexes", COLLECTION).array("indexes", |indexes| {
            for field in ["customer", "created"] {
                indexes.push_doc(|out| {
                    out.doc("key", |key| {
                        key.i32(field, 1);
                    });
                    out.str("name", field);
                });
            }
        });
    });
    client.run(DATABASE, &command).context("cannot create indexes")?;
    Ok(())
}

fn open_cursor(client: &mut Client) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("find", COLLECTION).i32("batchSize", 10);
    });
    client.run(DATABASE, &command).context("cannot open a cursor")?;
    Ok(())
}

fn update(client: &mut Client, id: u64) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("update", COLLECTION).array("updates", |updates| {
            updates.push_doc(|out| {
                out.doc("q", |query| {
                    query.append("_id", Val::Int64(id as i64));
                });
                out.doc("u", |update| {
                    update.doc("$inc", |fields| {
                        fields.i32("version", 1).i32("customer", 1);
                    });
                });
            });
        });
    });
    client.run(DATABASE, &command).context("cannot update")?;
    Ok(())
}
