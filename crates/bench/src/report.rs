//! Results as tables and as JSON, and their comparison with the targets.

use super::bar::Bar;
use super::pressure;
use super::process::BEFORE;
use super::resources::IDLE_CONNECTIONS;
use super::{Measurement, Results};
use anyhow::Result;
use std::fmt::Write as _;
use std::io::Write as _;
use value::{DocBuf, Writer, ejson};

/// Throughput is compared with at least this many connections.
const WALL_CONNECTIONS_MIN: usize = 8;

/// Compares the results with their targets.
pub(crate) fn bars(results: &Results) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (motif, mongod) in results.pairs().filter(|(_, other)| other.server != BEFORE) {
        let name = format!("{}, {} connections", motif.workload.name, motif.connections);
        if let (Some(bar), Some(ratio)) = (motif.workload.cpu_bar, cpu_ratio(motif, mongod)) {
            let text =
                format!("{name}: {ratio:.2} times as cheap as {} (bar {bar:.1})", mongod.server);
            bars.push(Bar { text, reached: ratio >= bar });
        }
        if let Some(bar) = motif.workload.wall_bar() {
            let ratio = motif.rate() / mongod.rate().max(1e-9);
            let text = format!("{name}: {ratio:.2} times as fast as mongod (bar {bar:.1})");
            bars.push(Bar { text, reached: ratio >= bar });
        }
        if motif.workload.has_wall_bar() && motif.connections >= WALL_CONNECTIONS_MIN {
            let ratio = motif.rate() / mongod.rate().max(1e-9);
            let text =
                format!("{name}: {ratio:.2} times the throughput of {} (bar 1.0)", mongod.server);
            bars.push(Bar { text, reached: ratio >= 1.0 });
        }
    }
    for found in results.resources.iter().filter(|found| found.server == "motif") {
        let startup_ms = found.startup.as_secs_f64() * 1e3;
        bars.push(Bar {
            text: format!("start-up on an empty folder: {startup_ms:.0} ms (bar 100)"),
            reached: startup_ms < 100.0,
        });
        bars.push(Bar {
            text: format!("idle memory: {:.1} MB (bar 60)", megabytes(found.idle_bytes)),
            reached: megabytes(found.idle_bytes) < 60.0,
        });
        bars.push(Bar {
            text: format!(
                "{IDLE_CONNECTIONS} idle connections: {:.1} MB (bar 100)",
                megabytes(found.connections_bytes)
            ),
            reached: megabytes(found.connections_bytes) < 100.0,
        });
    }
    super::security::bars(results, &mut bars);
    bars.extend(pressure::bars(&results.pressure, results.pressure_memory));
    if let Some(flat) = &results.flat {
        let ratio = flat.ratio();
        bars.push(Bar {
            text: format!(
                "point read in {} documents: {ratio:.2} times the cost in {} (bar 1.5)",
                flat.large_docs, flat.small_docs
            ),
            reached: ratio <= 1.5,
        });
    }
    bars.extend(super::aggregate::bars(&results.aggregate));
    for found in results.changes.iter().filter(|found| found.server == "motif") {
        bars.push(Bar {
            text: format!("change event: {:.2} us of server CPU (bar 2)", found.cpu_us),
            reached: found.cpu_us <= 2.0,
        });
        bars.push(Bar {
            text: format!("write to change event, p50: {:.0} us (bar 1000)", found.p50_us),
            reached: found.p50_us < 1000.0,
        });
    }
    let spent = |server| results.transactions.iter().find(|found| found.server == server);
    if let (Some(motif), Some(mongod)) = (spent("motif"), spent("mongod")) {
        let ratio = mongod.cpu_us / motif.cpu_us.max(0.1);
        bars.push(Bar {
            text: format!("transaction of ten writes: {ratio:.1} times as cheap (bar 2)"),
            reached: ratio >= 2.0,
        });
    }
    bars.extend(super::patterns::bars(&results.patterns));
    bars.extend(super::readings::bars(&results.patterns));
    bars.extend(super::products::bars(&results.patterns));
    bars.extend(super::before::bars(results));
    bars
}

fn cpu_ratio(motif: &Measurement, mongod: &Measurement) -> Option<f64> {
    Some(mongod.cpu_us()? / motif.cpu_us()?.max(1e-9))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Prints everything to standard output.
pub(crate) fn print(results: &Results, bars: &[Bar]) -> Result<()> {
    let mut text = String::new();
    tables(&mut text, results, bars)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn tables(out: &mut String, results: &Results, bars: &[Bar]) -> Result<()> {
    if !results.resources.is_empty() {
        writeln!(
            out,
            "{:8} {:>12} {:>12} {:>18}",
            "server", "start-up ms", "idle MB", "1000 connections MB"
        )?;
        for found in &results.resources {
            writeln!(
                out,
                "{:8} {:>12.0} {:>12.1} {:>18.1}",
                found.server,
                found.startup.as_secs_f64() * 1e3,
                megabytes(found.idle_bytes),
                megabytes(found.connections_bytes)
            )?;
        }
        writeln!(out)?;
    }
    if !results.measurements.is_empty() {
        writeln!(
            out,
            "{:10} {:>5} {:9} {:>11} {:>9} {:>9} {:>9} {:>9} {:>11} {:>8}",
            "workload",
            "conn",
            "server",
            "ops/s",
            "p50 us",
            "p95 us",
            "p99 us",
            "p99.9 us",
            "CPU us/op",
            "RSS MB"
        )?;
        for measurement in &results.measurements {
            line(out, measurement)?;
        }
        writeln!(out)?;
    }
    let mut first = true;
    for (motif, mongod) in results.pairs().filter(|(_, other)| other.server != BEFORE) {
        if std::mem::take(&mut first) {
            writeln!(
                out,
                "{:10} {:>5} {:10} {:>14} {:>14}",
                "ratio", "conn", "to", "throughput", "CPU per op"
            )?;
        }
        let wall = motif.rate() / mongod.rate().max(1e-9);
        let cpu = cpu_ratio(motif, mongod).map_or("-".to_owned(), |ratio| format!("x{ratio:.2}"));
        writeln!(
            out,
            "{:10} {:>5} {:10} {:>14} {:>14}",
            motif.workload.name,
            motif.connections,
            mongod.server,
            format!("x{wall:.2}"),
            cpu
        )?;
    }
    if !first {
        writeln!(
            out,
            "(throughput: MotifDB over mongod; CPU: mongod over MotifDB; above 1 is better; \
             mongod-rs is a replica set of one, with an oplog)\n"
        )?;
    }
    pressure::print(out, &results.pressure)?;
    if let Some(flat) = &results.flat {
        writeln!(
            out,
            "point read: {:.1} us CPU in {} documents, {:.1} us in {}\n",
            flat.small_cpu_us, flat.small_docs, flat.large_cpu_us, flat.large_docs
        )?;
    }
    super::aggregate::table(out, &results.aggregate)?;
    for found in &results.changes {
        writeln!(
            out,
            "{:8} change events: {:.2} us CPU each; from write to event p50 {:.0} us, p95 {:.0} us",
            found.server, found.cpu_us, found.p50_us, found.p95_us
        )?;
    }
    for found in &results.transactions {
        writeln!(
            out,
            "{:8} transactions of ten writes: {:.0} us CPU each",
            found.server, found.cpu_us
        )?;
    }
    super::patterns::table(out, &results.patterns)?;
    super::readings::table(out, &results.patterns)?;
    super::products::table(out, &results.patterns)?;
    super::security::table(out, results)?;
    super::before::table(out, results)?;
    for bar in bars {
        writeln!(out, "{} {}", if bar.reached { "PASS " } else { "SHORT" }, bar.text)?;
    }
    Ok(())
}

fn line(out: &mut String, measurement: &Measurement) -> Result<()> {
    let Some(best) = measurement.best() else { return Ok(()) };
    let at = |quantile: f64| best.latency.value_at_quantile(quantile) as f64 / 1e3;
    let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    writeln!(
        out,
        "{:10} {:>5} {:9} {:>11.0} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>11} {:>8}",
        measurement.workload.name,
        measurement.connections,
        measurement.server,
        measurement.rate(),
        at(0.5),
        at(0.95),
        at(0.99),
        at(0.999),
        or_dash(measurement.cpu_us()),
        or_dash(best.memory.map(megabytes)),
    )?;
    Ok(())
}

/// Everything as one JSON document.
pub(crate) fn json(results: &Results, bars: &[Bar]) -> String {
    let doc = DocBuf::build(|out| {
        out.str("version", env!("CARGO_PKG_VERSION"));
        out.array("measurements", |list| {
            for measurement in &results.measurements {
                list.push_doc(|out| measurement_json(out, measurement));
            }
        });
        out.array("resources", |list| {
            for found in &results.resources {
                list.push_doc(|out| {
                    out.str("server", found.server);
                    out.f64("startupMs", found.startup.as_secs_f64() * 1e3);
                    out.count("idleBytes", found.idle_bytes);
                    out.count("idleConnectionsBytes", found.connections_bytes);
                });
            }
        });
        super::security::json(out, results);
        if let Some(flat) = &results.flat {
            out.doc("flat", |out| {
                out.count("smallDocs", flat.small_docs).f64("smallCpuUs", flat.small_cpu_us);
                out.count("largeDocs", flat.large_docs).f64("largeCpuUs", flat.large_cpu_us);
            });
        }
        out.array("pressure", |list| pressure::json(list, &results.pressure));
        out.array("aggregate", |list| {
            for line in &results.aggregate {
                list.push_doc(|out| {
                    out.str("pipeline", line.query).str("server", &line.server);
                    out.f64("cpuMs", line.cpu_ms).f64("wallMs", line.wall_ms);
                });
            }
        });
        out.array("changes", |list| {
            for found in &results.changes {
                list.push_doc(|out| {
                    out.str("server", found.server).f64("cpuUsPerEvent", found.cpu_us);
                    out.f64("p50Us", found.p50_us).f64("p95Us", found.p95_us);
                });
            }
        });
        out.array("transactions", |list| {
            for found in &results.transactions {
                list.push_doc(|out| {
                    out.str("server", found.server).f64("cpuUs", found.cpu_us);
                });
            }
        });
        out.array("patterns", |list| {
            for line in &results.patterns {
                list.push_doc(|out| {
                    out.str("case", line.case).str("server", line.server);
                    out.f64("cpuUs", line.cpu_us);
                });
            }
        });
        out.array("bars", |list| {
            for bar in bars {
                list.push_doc(|out| {
                    out.str("text", &bar.text).bool("reached", bar.reached);
                });
            }
        });
    });
    let mut text = ejson::print(doc.as_doc(), ejson::Format::Relaxed);
    text.push('\n');
    text
}

fn measurement_json(out: &mut Writer<'_>, measurement: &Measurement) {
    out.str("workload", measurement.workload.name);
    out.str("about", measurement.workload.about);
    out.count("connections", measurement.connections as u64);
    out.str("server", &measurement.server);
    out.f64("operationsPerSecond", measurement.rate());
    if let Some(cpu) = measurement.cpu_us() {
        out.f64("cpuUsPerOperation", cpu);
    }
    out.array("rounds", |list| {
        for round in &measurement.rounds {
            list.push_doc(|out| {
                out.count("operations", round.operations);
                out.f64("seconds", round.elapsed.as_secs_f64());
                if let Some(cpu) = round.cpu {
                    out.f64("cpuSeconds", cpu.as_secs_f64());
                }
                if let Some(memory) = round.memory {
                    out.count("residentBytes", memory);
                }
                for (name, quantile) in
                    [("p50Us", 0.5), ("p95Us", 0.95), ("p99Us", 0.99), ("p999Us", 0.999)]
                {
                    out.f64(name, round.latency.value_at_quantile(quantile) as f64 / 1e3);
                }
            });
        }
    });
}
