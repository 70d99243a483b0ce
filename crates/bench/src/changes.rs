//! The cost of change events: server CPU for each event that a stream returns, and the time from the
//! acknowledgement of a write to the arrival of its event. Both servers run as replica sets of one.

use super::Notes;
use super::drive::latency_histogram;
use super::process::{Program, Server};
use super::workload::{DATABASE, insert_batch};
use anyhow::{Context, Result, bail};
use client::Client;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use value::{DocBuf, RawDoc, Val};

/// The watched collection.
const WATCHED: &str = "watched";
/// Events for the measurement of CPU.
const EVENTS: u64 = 50_000;
/// Writes for the measurement of latency, one after the other.
const WAITED: u64 = 500;
/// Rounds; the cheapest counts.
const ROUNDS: usize = 3;

/// The cost of the events of one server.
pub(crate) struct Changes {
    pub(crate) server: &'static str,
    /// Server CPU for each event.
    pub(crate) cpu_us: f64,
    /// From acknowledgement to arrival.
    pub(crate) p50_us: f64,
    pub(crate) p95_us: f64,
}

/// Measures one server.
pub(crate) fn measure(program: &Program, folder: Option<&Path>, note: &Notes) -> Result<Changes> {
    let server = Server::start_in_set(program, folder)?;
    let mut client = Client::connect(&server.uri())?;
    let start = operation_time(&mut client)?;
    note.say(format!("{}: writing {EVENTS} documents to watch", program.name()));
    let mut batch = Vec::new();
    for from in (0..EVENTS).step_by(1000) {
        insert_batch(&mut client, WATCHED, from..from + 1000, EVENTS, &mut batch)?;
    }
    let mut cpu_us = f64::INFINITY;
    for _ in 0..ROUNDS {
        server.process().settle(Duration::from_secs(10))?;
        note.say(format!("{}: reading {EVENTS} events", program.name()));
        let before = server.process().cpu()?;
        read_all(&mut client, start)?;
        let spent = server.process().cpu()?.saturating_sub(before);
        cpu_us = cpu_us.min(spent.as_secs_f64() * 1e6 / EVENTS as f64);
    }
    note.say(format!("{}: waiting for {WAITED} events", program.name()));
    let (p50_us, p95_us) = latencies(&server, &mut client)?;
    Ok(Changes { server: program.name(), cpu_us, p50_us, p95_us })
}

fn operation_time(client: &mut Client) -> Result<u64> {
    let ping = DocBuf::build(|out| {
        out.i32("ping", 1);
    });
    match client.run("admin", &ping)?.as_doc().get("operationTime") {
        Some(Val::Timestamp(time)) => Ok(time),
        _ => bail!("the server is no replica set: its replies have no operationTime"),
    }
}

/// Opens a stream on the watched collection; returns its cursor and the events of its first batch.
fn open(client: &mut Client, start: Option<u64>) -> Result<(i64, u64)> {
    let command = DocBuf::build(|out| {
        out.str("aggregate", WATCHED).array("pipeline", |stages| {
            stages.push_doc(|stage| {
                stage.doc("$changeStream", |out| {
                    if let Some(start) = start {
                        out.append("startAtOperationTime", Val::Timestamp(start));
                    }
                });
            });
        });
        out.doc("cursor", |_| {});
    });
    let reply = client.run(DATABASE, &command).context("cannot watch the collection")?;
    batch_of(reply.as_doc(), "firstBatch")
}

fn more(client: &mut Client, id: i64) -> Result<u64> {
    let command = DocBuf::build(|out| {
        out.i64("getMore", id).str("collection", WATCHED).i32("maxTimeMS", 1000);
    });
    let reply = client.run(DATABASE, &command).context("cannot read the stream")?;
    Ok(batch_of(reply.as_doc(), "nextBatch")?.1)
}

fn batch_of(reply: RawDoc<'_>, name: &str) -> Result<(i64, u64)> {
    let cursor = reply.get("cursor").and_then(Val::as_doc).context("a reply without a cursor")?;
    let batch = cursor.get(name).and_then(Val::as_array).context("a reply without a batch")?;
    let id = cursor.get("id").and_then(Val::as_i64_exact).unwrap_or(0);
    Ok((id, batch.count() as u64))
}

fn read_all(client: &mut Client, start: u64) -> Result<()> {
    let (id, mut seen) = open(client, Some(start))?;
    while seen < EVENTS {
        let found = more(client, id)?;
        if found == 0 {
            bail!("the stream ends after {seen} of {EVENTS} events");
        }
        seen += found;
    }
    let kill = DocBuf::build(|out| {
        out.str("killCursors", WATCHED).array("cursors", |ids| ids.push(Val::Int64(id)));
    });
    client.run(DATABASE, &kill)?;
    Ok(())
}

/// Percentiles of the time until an event arrives, with one writer and one waiting reader.
fn latencies(server: &Server, writer: &mut Client) -> Result<(f64, f64)> {
    let mut reader = Client::connect(&server.uri())?;
    let (id, _) = open(&mut reader, None)?;
    let (send, arrivals) = mpsc::channel();
    let reading = std::thread::spawn(move || -> Result<()> {
        let mut seen = 0;
        while seen < WAITED {
            let found = more(&mut reader, id)?;
            let now = Instant::now();
            seen += found;
            for _ in 0..found {
                send.send(now)?;
            }
        }
        Ok(())
    });
    let mut latency = latency_histogram()?;
    let mut batch = Vec::new();
    for n in 0..WAITED {
        // Gives the reader time to wait before the write.
        std::thread::sleep(Duration::from_millis(2));
        let id = EVENTS + n;
        insert_batch(writer, WATCHED, id..id + 1, EVENTS, &mut batch)?;
        let written = Instant::now();
        let arrival = arrivals.recv_timeout(Duration::from_secs(10)).context("no event came")?;
        latency.saturating_record(arrival.saturating_duration_since(written).as_nanos() as u64);
    }
    reading.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    let at = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    Ok((at(0.5), at(0.95)))
}
