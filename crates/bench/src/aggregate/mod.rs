//! `motif bench --only aggregate`: the cost of pipelines over a large collection.
//!
//! `queries` lists the pipelines, each with its SQL, `data` makes the documents, `postgres` drives
//! a PostgreSQL. All servers have the same documents and take turns; the least CPU time of all
//! rounds counts, and MotifDB and mongod must return the same documents.

mod data;
mod postgres;
mod queries;

use super::bar::Bar;
use super::drive::Target;
use super::{Notes, settle};
use anyhow::{Context, Result, bail};
use client::Client;
use postgres::Postgres;
use queries::Query;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use value::{DocBuf, Val, ejson};

/// The database that is filled.
const DATABASE: &str = "motif_bench_aggregate";
/// Documents in one batch of the load.
const BATCH: u64 = 1000;
/// How long a query is repeated in one round: much longer than a tick of the CPU clock.
const LEAST: Duration = Duration::from_millis(700);

/// The parameters of a run.
pub(crate) struct Plan<'a> {
    pub(crate) targets: &'a [Target],
    /// The folder of PostgreSQL's programs, if it is measured too.
    pub(crate) postgres: Option<&'a Path>,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) documents: u64,
    pub(crate) rounds: u32,
    /// Names of the queries to run; empty for all.
    pub(crate) names: &'a [String],
}

/// The cost of one query on one server.
pub(crate) struct Line {
    pub(crate) query: &'static str,
    pub(crate) about: &'static str,
    pub(crate) server: String,
    /// The least CPU time and wall time of one run, in milliseconds.
    pub(crate) cpu_ms: f64,
    pub(crate) wall_ms: f64,
    /// The number of returned documents.
    pub(crate) results: usize,
}

/// Whether there is a query of this name, for `--only aggregate.NAME`.
pub(crate) fn is_name(name: &str) -> bool {
    queries::ALL.iter().any(|query| query.name == name)
}

/// Loads all servers and runs the queries in turns.
pub(crate) fn run(plan: &Plan<'_>, note: &Notes) -> Result<Vec<Line>> {
    let wanted: Vec<&'static Query> = queries::ALL
        .iter()
        .filter(|query| plan.names.is_empty() || plan.names.iter().any(|name| name == query.name))
        .collect();
    let tables: Vec<&'static data::Table> = data::TABLES
        .iter()
        .filter(|table| wanted.iter().any(|query| query.tables.contains(&table.name)))
        .collect();
    for target in plan.targets {
        for table in &tables {
            note.say(format!("{}: loading {}", target.name, table.name));
            load(target, table, plan.documents)?;
        }
        settle(target, Duration::from_secs(30))?;
    }
    let postgres = match plan.postgres {
        None => None,
        Some(programs) => {
            let server = Postgres::start(programs, plan.folder)?;
            for table in &tables {
                note.say(format!("postgres: loading {}", table.name));
                server.load(table, plan.documents)?;
            }
            Some(server)
        }
    };
    let mut lines: Vec<Line> = Vec::new();
    for round in 0..plan.rounds {
        for query in &wanted {
            let mut answers: Vec<(String, Vec<String>)> = Vec::new();
            for target in plan.targets {
                note.say(format!(
                    "round {}/{}: {} on {}",
                    round + 1,
                    plan.rounds,
                    query.name,
                    target.name
                ));
                let (cpu_ms, wall_ms, answer) = measure(target, query)?;
                keep(&mut lines, query, &target.name, cpu_ms, wall_ms, answer.len());
                answers.push((target.name.clone(), answer));
            }
            if let [(first, one), (second, other)] = answers.as_slice()
                && one != other
            {
                let place = one.iter().zip(other).position(|(a, b)| a != b).unwrap_or(0);
                bail!(
                    "{}: {first} and {second} disagree ({} and {} documents): {:?} and {:?}",
                    query.name,
                    one.len(),
                    other.len(),
                    one.get(place),
                    other.get(place)
                );
            }
            if let Some(server) = &postgres {
                note.say(format!(
                    "round {}/{}: {} on postgres",
                    round + 1,
                    plan.rounds,
                    query.name
                ));
                let (cpu_ms, wall_ms) = server.measure(query.sql)?;
                keep(&mut lines, query, "postgres", cpu_ms, wall_ms, 0);
            }
        }
    }
    Ok(lines)
}

fn keep(lines: &mut Vec<Line>, query: &Query, server: &str, cpu: f64, wall: f64, results: usize) {
    match lines.iter_mut().find(|line| line.query == query.name && line.server == server) {
        Some(line) => {
            line.cpu_ms = line.cpu_ms.min(cpu);
            line.wall_ms = line.wall_ms.min(wall);
        }
        None => lines.push(Line {
            query: query.name,
            about: query.about,
            server: server.to_owned(),
            cpu_ms: cpu,
            wall_ms: wall,
            results,
        }),
    }
}

/// Fills a collection unless it has the documents already.
fn load(target: &Target, table: &data::Table, documents: u64) -> Result<()> {
    let count = (table.count)(documents);
    let mut client = Client::connect(&target.uri)?;
    let counting = DocBuf::build(|out| {
        out.str("count", table.name);
    });
    let found = client.run(DATABASE, &counting).context("cannot count the documents")?;
    if found.as_doc().get("n").and_then(Val::as_i64_exact) == i64::try_from(count).ok() {
        return Ok(());
    }
    let mut batch = Vec::new();
    let mut from = 0;
    while from < count {
        let to = (from + BATCH).min(count);
        batch.clear();
        (from..to).for_each(|id| (table.write)(&mut batch, id, documents));
        let body = DocBuf::build(|out| {
            out.str("insert", table.name).bool("ordered", true);
        });
        let reply = client.run_with_sequence(DATABASE, &body, "documents", &batch)?;
        if reply.as_doc().get("n").and_then(Val::as_i64_exact) != i64::try_from(to - from).ok() {
            bail!("a batch was not inserted: {:?}", reply.as_doc());
        }
        from = to;
    }
    if let Some(keys) = table.index {
        let command = DocBuf::build(|out| {
            out.str("createIndexes", table.name);
            out.array("indexes", |indexes| {
                indexes.push_doc(|index| {
                    index.doc("key", |key| {
                        keys.iter().for_each(|name| {
                            key.i32(name, 1);
                        });
                    });
                    index.str("name", "bench");
                });
            });
        });
        client.run(DATABASE, &command).context("cannot create the index")?;
    }
    Ok(())
}

/// Repeats a query for `LEAST`. Returns CPU and wall time of one run in milliseconds, and the
/// result, sorted.
fn measure(target: &Target, query: &Query) -> Result<(f64, f64, Vec<String>)> {
    let mut client = Client::connect(&target.uri)?;
    let pipeline = ejson::parse_value(query.pipeline).context(query.name)?;
    let command = DocBuf::build(|out| {
        out.str("aggregate", query.tables.first().copied().unwrap_or(""));
        out.append("pipeline", pipeline.get());
        out.doc("cursor", |cursor| {
            cursor.i32("batchSize", 1_000_000);
        });
    });
    let run = |client: &mut Client| -> Result<Vec<DocBuf>> {
        let cursor = client.cursor(DATABASE, &command)?;
        cursor.collect().with_context(|| format!("{} on {}", query.name, target.name))
    };
    let docs = run(&mut client)?;
    let print = |doc: &DocBuf| ejson::print(doc.as_doc(), ejson::Format::Canonical);
    let mut answer: Vec<String> = docs.iter().map(print).collect();
    answer.sort_unstable();
    let Some(process) = target.process else { bail!("`aggregate` needs --pid with --uri") };
    let before = process.cpu()?;
    let begin = Instant::now();
    let mut runs = 0_u32;
    while runs == 0 || begin.elapsed() < LEAST {
        run(&mut client)?;
        runs += 1;
    }
    let wall = begin.elapsed().as_secs_f64() * 1e3 / f64::from(runs);
    let cpu = process.cpu()?.saturating_sub(before).as_secs_f64() * 1e3 / f64::from(runs);
    Ok((cpu, wall, answer))
}

/// Appends the table of a run.
pub(crate) fn table(out: &mut String, lines: &[Line]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{:10} {:>8} {:>12} {:>12} {:>14} {:>8} {:>10}  what",
        "pipeline",
        "results",
        "motif CPU ms",
        "mongod CPU",
        "postgres CPU",
        "x mongod",
        "x postgres"
    )?;
    for line in lines.iter().filter(|line| line.server == "motif" || line.server == "server") {
        let other = |name: &str| {
            lines.iter().find(|other| other.query == line.query && other.server == name)
        };
        let cpu =
            |name: &str| other(name).map_or("-".to_owned(), |other| format!("{:.1}", other.cpu_ms));
        let ratio = |name: &str| {
            other(name).map_or("-".to_owned(), |other| {
                format!("x{:.2}", other.cpu_ms / line.cpu_ms.max(1e-3))
            })
        };
        writeln!(
            out,
            "{:10} {:>8} {:>12.1} {:>12} {:>14} {:>8} {:>10}  {}",
            line.query,
            line.results,
            line.cpu_ms,
            cpu("mongod"),
            cpu("postgres"),
            ratio("mongod"),
            ratio("postgres"),
            line.about
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// The least ratio of mongod's CPU time to MotifDB's that every query must reach.
const MONGOD_BAR: f64 = 3.0;

/// Compares the lines with their targets.
pub(crate) fn bars(lines: &[Line]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for line in lines.iter().filter(|line| line.server == "motif") {
        for (name, bar) in [("mongod", MONGOD_BAR), ("postgres", 1.0)] {
            let other = lines.iter().find(|l| l.query == line.query && l.server == name);
            let Some(other) = other else { continue };
            let ratio = other.cpu_ms / line.cpu_ms.max(1e-3);
            let text =
                format!("{}: {ratio:.2} times as cheap as {name} (bar {bar:.1})", line.query);
            bars.push(Bar { text, reached: ratio >= bar });
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pipeline_can_be_parsed_and_names_a_collection_that_is_loaded() {
        for query in queries::ALL {
            let pipeline = ejson::parse_value(query.pipeline).expect(query.name);
            assert!(matches!(pipeline.get(), Val::Array(_)), "{}", query.name);
            for name in query.tables {
                assert!(data::TABLES.iter().any(|table| table.name == *name), "{name}");
            }
        }
    }

    #[test]
    fn bars_compare_with_every_other_server() {
        let line = |server: &str, cpu_ms| Line {
            query: "group50",
            about: "",
            server: server.to_owned(),
            cpu_ms,
            wall_ms: 1.0,
            results: 1,
        };
        let lines = [line("motif", 10.0), line("mongod", 20.0), line("postgres", 20.0)];
        let reached: Vec<bool> = bars(&lines).iter().map(|bar| bar.reached).collect();
        assert_eq!(reached, [false, true]);
    }
}
