//! A day of readings of fifty sensors, every thirty seconds: as one document a reading, in buckets,
//! and in mongod's time series collections. What it costs to write and to read them, and their size.

use super::Notes;
use super::bar::Bar;
use super::data::Dice;
use super::patterns::{Line, insert, run, text};
use super::process::{Program, Server};
use super::workload::DATABASE;
use anyhow::{Context, Result};
use client::Client;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use value::Val;

/// Sensors.
const SENSORS: u64 = 50;
/// Readings of each sensor.
const TICKS: u64 = 2880;
/// Milliseconds between two readings of a sensor.
const STEP_MS: i64 = 30_000;
/// The start of the day.
const START_MS: i64 = 1_767_225_600_000;
/// Documents of one insert.
const BATCH: u64 = 1000;
/// Rounds of reads; the cheapest counts.
const ROUNDS: usize = 5;

const PLAIN: &str = "readings_plain";
const BUCKETS: &str = "readings";

/// What is measured of each collection, with what it is about.
static CASES: &[(&str, &str)] = &[
    ("reading", "insert a reading, in batches of a thousand, one document each"),
    ("reading bucket", "insert a reading, in batches of a thousand, in buckets"),
    ("hours", "hourly averages of all sensors, one document a reading"),
    ("hours bucket", "hourly averages of all sensors, in buckets"),
    ("sensor", "one sensor's day, by an index"),
    ("sensor bucket", "one sensor's day, in buckets"),
    ("size", "bytes of a reading with indexes, one document each"),
    ("size bucket", "bytes of a reading with indexes, in buckets"),
    ("records", "stored records, one document a reading"),
    ("records bucket", "stored records, in buckets"),
];

/// Prints the lines as a table.
pub(super) fn table(out: &mut String, lines: &[Line]) -> Result<()> {
    for line in lines {
        let case = CASES.iter().find(|(name, _)| *name == line.case);
        let Some((name, about)) = case else { continue };
        let unit = match *name {
            "size" | "size bucket" => "bytes",
            "records" | "records bucket" => "count",
            _ => "us CPU",
        };
        writeln!(out, "{:8} {:>12.2} {unit}  {about}", line.server, line.cpu_us)?;
    }
    Ok(())
}

/// Measures all servers.
pub(super) fn measure(
    programs: &[Program],
    folder: Option<&Path>,
    note: &Notes,
) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for program in programs {
        let server = Server::start(program, folder)?;
        let mut client = Client::connect(&server.uri())?;
        let name = program.name();
        let is_motif = matches!(program, Program::Motif);
        let made = match is_motif {
            true => text(&format!(
                "{{create: '{BUCKETS}', patterns: [{{name: 'hourly', kind: 'bucket', key: ['sensor_id'], time: 'ts', span: '1h', rollup: {{fields: {{temp: ['min', 'max', 'sum', 'count']}}, levels: ['1h', '1d']}}}}]}}"
            )),
            false => text(&format!(
                "{{create: '{BUCKETS}', timeseries: {{timeField: 'ts', metaField: 'sensor_id', granularity: 'seconds'}}}}"
            )),
        };
        run(&mut client, DATABASE, &made)?;
        run(
            &mut client,
            DATABASE,
            &text(&format!(
                "{{createIndexes: '{PLAIN}', indexes: [{{key: {{sensor_id: 1, ts: 1}}, name: 'sensor'}}]}}"
            )),
        )?;
        for (collection, suffix) in [(PLAIN, ""), (BUCKETS, " bucket")] {
            note.say(format!("{name}: a day of readings into {collection}"));
            server.process().settle(Duration::from_secs(10))?;
            let mut add = |case: &str, cpu_us: f64| {
                let case = CASES.iter().find(|(name, _)| *name == case).map_or("", |case| case.0);
                lines.push(Line { case, server: name, cpu_us });
            };
            let spent = cpu(&server, || write(&mut client, collection))?;
            add(&format!("reading{suffix}"), spent / (SENSORS * TICKS) as f64);
            let hours = text(&format!(
                "{{aggregate: '{collection}', pipeline: [{{$group: {{_id: {{s: '$sensor_id', h: {{$dateTrunc: {{date: '$ts', unit: 'hour'}}}}}}, t: {{$avg: '$temp'}}}}}}, {{$count: 'n'}}], cursor: {{}}}}"
            ));
            let day = text(&format!(
                "{{find: '{collection}', filter: {{sensor_id: 7, ts: {{$gte: {{$date: {{$numberLong: '{START_MS}'}}}}, $lt: {{$date: {{$numberLong: '{}'}}}}}}}}, batchSize: 10000}}",
                START_MS + 86_400_000
            ));
            for (case, command, times) in [("hours", &hours, 5), ("sensor", &day, 20)] {
                let mut best = f64::MAX;
                for _ in 0..ROUNDS {
                    server.process().settle(Duration::from_secs(5))?;
                    let spent = cpu(&server, || {
                        (0..times).try_for_each(|_| run(&mut client, DATABASE, command))
                    })?;
                    best = best.min(spent / f64::from(times));
                }
                add(&format!("{case}{suffix}"), best);
            }
            let stats = text(&format!("{{collStats: '{collection}'}}"));
            let reply = client.run(DATABASE, &stats).context("collStats")?;
            let total = reply.as_doc().get("totalSize").and_then(Val::as_f64).unwrap_or(0.0);
            add(&format!("size{suffix}"), total / (SENSORS * TICKS) as f64);
            let count = text(&match (collection, is_motif) {
                (PLAIN, _) => format!("{{count: '{PLAIN}'}}"),
                (_, true) => format!(
                    "{{aggregate: '{BUCKETS}', rawBuckets: true, pipeline: [{{$count: 'n'}}], cursor: {{}}}}"
                ),
                (_, false) => format!("{{count: 'system.buckets.{BUCKETS}'}}"),
            });
            let reply = client.run(DATABASE, &count).context("records")?;
            let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc);
            let batch = cursor.and_then(|cursor| cursor.get("firstBatch")).and_then(Val::as_array);
            let first = batch.and_then(|batch| batch.first()?.1.as_doc());
            let records = first.unwrap_or(reply.as_doc()).get("n").and_then(Val::as_f64);
            add(&format!("records{suffix}"), records.unwrap_or(0.0));
        }
    }
    Ok(lines)
}

/// The microseconds of CPU that a server spends.
fn cpu(server: &Server, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = server.process().threads()?;
    work()?;
    Ok(server.process().threads()?.since(&before).as_secs_f64() * 1e6)
}

/// Inserts a day of readings, in the order of time.
fn write(client: &mut Client, collection: &str) -> Result<()> {
    let mut dice = Dice::new(1);
    let mut temps = vec![220_i64; SENSORS as usize];
    for from in (0..SENSORS * TICKS).step_by(BATCH as usize) {
        let command = insert(collection, |docs| {
            for number in from..from + BATCH {
                let (sensor, tick) = (number % SENSORS, number / SENSORS);
                let mut shown = 0.0;
                if let Some(temp) = temps.get_mut(sensor as usize) {
                    *temp += dice.below(5) as i64 - 2;
                    shown = *temp as f64 / 10.0;
                }
                docs.push_doc(|out| {
                    out.i32("sensor_id", sensor as i32);
                    out.append("ts", Val::DateTime(START_MS + tick as i64 * STEP_MS));
                    out.f64("temp", shown);
                });
            }
        });
        run(client, DATABASE, &command)?;
    }
    Ok(())
}

/// The bars of what was measured.
pub(super) fn bars(lines: &[Line]) -> Vec<Bar> {
    let of = |case: &str, server: &str| {
        lines.iter().find(|line| line.case == case && line.server == server).map(|l| l.cpu_us)
    };
    let mut bars = Vec::new();
    let mut hold = |text: String, reached: bool| bars.push(Bar { text, reached });
    if let Some(us) = of("reading bucket", "motif") {
        hold(format!("a reading costs {us:.2} us of CPU in buckets (bar 1.5)"), us <= 1.5);
    }
    for (case, least) in [("hours", 60.0), ("sensor", 5.0), ("size", 20.0)] {
        let cases = (of(case, "motif"), of(&format!("{case} bucket"), "motif"));
        if let (Some(plain), Some(bucket)) = cases {
            let ratio = plain / bucket.max(0.01);
            hold(format!("{case}: 1/{ratio:.1} of plain documents (bar {least})"), ratio >= least);
        }
    }
    for (case, least) in [("hours bucket", 20.0), ("size bucket", 1.0)] {
        if let (Some(theirs), Some(ours)) = (of(case, "mongod"), of(case, "motif")) {
            let ratio = theirs / ours.max(0.01);
            hold(
                format!("{case}: 1/{ratio:.1} of mongod's time series (bar {least})"),
                ratio >= least,
            );
        }
    }
    bars
}
