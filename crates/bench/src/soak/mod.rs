//! `motif bench soak`: a mixed load on data of several times the cache, for an hour. The server is
//! killed and restarted several times; all acknowledged writes must be there. Prints throughput,
//! latency, memory and disk space by minute and whether they are flat.
//!
//! `load` and `shop` have the requests, `ledger` the acknowledged writes, `gate` stops all threads
//! while the server is down, `table` prints and judges the rows.

mod gate;
mod ledger;
pub(crate) mod load;
mod shop;
mod table;

use super::Notes;
use super::machine::Others;
use super::process::{Program, Server};
use super::workload::{self, DATABASE};
use anyhow::{Context, Result, bail};
use clap::Args;
use client::Client;
use gate::Gate;
use ledger::Ledgers;
use load::{Latency, Load, OTHERS, Tally};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use table::{Millis, Row, mib};
use value::{DocBuf, Val};

/// The approximate size of a document with its index entries.
const DOCUMENT_BYTES: u64 = 512;
/// Memory for running operations.
const OPERATION_MIB: u64 = 256;
/// Memory that the server may use beyond its cache and its operations.
const OTHER_MEMORY: u64 = 150_000_000;
/// The least number of rows; in a shorter run each covers less than a minute.
const ROWS_MIN: f64 = 15.0;

const EXAMPLES: &str = "\
Examples:
  motif bench soak                              an hour on four times 128 MiB
  motif bench soak --minutes 5 --cache 64       a quick look
  motif bench soak --kills 0 --minutes 600      a night without kills: does memory grow?
  motif bench soak --folder /mnt/disk           on the disk that you want to measure

Exit code 0: all acknowledged writes were there after each kill, and memory, disk and latency are
flat. 1: they are not, or something failed.";

/// Load a server with all kinds of operations for an hour, kill it several times, and check that
/// no acknowledged write is lost and that memory, disk space and latency stay flat
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SoakArgs {
    /// Duration of the load, after the documents were inserted.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// The server's cache in MiB.
    #[arg(long, default_value_t = 128, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    cache: u64,
    /// Size of the documents, as a multiple of the cache.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    times: u64,
    /// Connections that read and write single documents.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    writers: u64,
    /// How often the server is killed (SIGKILL) and restarted, spread over the first two thirds. It is
    /// not killed in the last third, so that leaks become visible.
    #[arg(long, default_value_t = 6)]
    kills: u32,
    /// Where the temporary data folder is created.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Seed of the requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the soak. Returns `FAILURE` if a measure was not flat.
pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode> {
    if !(0.1..=100_000.0).contains(&args.minutes) {
        bail!("--minutes takes 0.1 to 100000");
    }
    let operation = format!("{OPERATION_MIB}MiB");
    let flags = ["--operation-memory", &operation];
    let folder = args.folder.as_deref();
    let mut server = Server::start_with_cache(&Program::Motif, folder, &flags, args.cache)?;
    let result = soak(args, &mut server);
    if let Err(error) = result {
        let kept = server.keep_folder();
        let log = server.log_end();
        return Err(error.context(format!("the data folder is kept: {}\n{log}", kept.display())));
    }
    result
}

fn soak(args: &SoakArgs, server: &mut Server) -> Result<ExitCode> {
    let docs = args.times * (args.cache << 20) / DOCUMENT_BYTES;
    let note = Notes::new();
    note.say(format!(
        "soak: loading {docs} documents, {} times the cache of {} MiB",
        args.times, args.cache
    ));
    workload::load_orders(&server.uri(), docs, &|_| ())?;
    let mut client = Client::connect(&server.uri())?;
    load::create_index(&mut client, load::EVENTS, "customer")?;
    shop::fill(&mut client)?;
    note.say("soak: waiting until background work is done".to_owned());
    server.process().settle(Duration::from_secs(60))?;
    note.clear();

    let (gate, ledgers) = (Gate::new(), Ledgers::new(args.writers as usize, docs));
    let whole = Duration::from_secs_f64(args.minutes * 60.0);
    let uri = server.uri();
    let load = Load {
        gate: &gate,
        uri: &uri,
        ledgers: &ledgers,
        seed: args.seed,
        cursor_life: (whole / 10).clamp(Duration::from_secs(10), Duration::from_secs(180)),
        latency: Mutex::new(Latency::new()?),
        tally: Tally::default(),
    };
    say(&format!(
        "{docs} documents of about {DOCUMENT_BYTES} bytes with their index entries; cache {} MiB; {} writers; \
         memory, disk, pinned, snapshots and young tables are the most seen in the row; others is what the rest of the \
         machine does, which latencies suffer from\n{}",
        args.cache,
        args.writers,
        table::header()
    ))?;
    let rows = std::thread::scope(|scope| {
        load.spawn(scope);
        let watched =
            Watch { args, whole, load: &load, server: &mut *server, rows: Vec::new() }.run();
        gate.end();
        watched
    });
    // The failure of a thread is the cause of the others, so it is reported.
    if let Some(failure) = gate.take_failure() {
        return Err(failure);
    }
    let rows = rows?;
    final_check(server, &ledgers)?;
    let tally = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    say(&format!(
        "beside them: {} cursors that stayed open ({} ended as too old), {} collections filled and dropped, {} index \
         builds, {} queries over everything, {} renames of copied documents\n",
        tally(&load.tally.cursors),
        tally(&load.tally.expired),
        tally(&load.tally.drops),
        tally(&load.tally.builds),
        tally(&load.tally.queries),
        tally(&load.tally.renames),
    ))?;
    let worst = rows.iter().map(|row| row.writes.max).fold(0.0, f64::max);
    say(&format!("the longest single write took {worst:.0} ms\n"))?;
    let bars = table::bars(&rows, ((args.cache + OPERATION_MIB) << 20) + OTHER_MEMORY);
    for bar in &bars {
        say(&format!("{} {}\n", if bar.reached { "PASS " } else { "SHORT" }, bar.text))?;
    }
    if rows.len() < 3 {
        bail!("too short to say whether anything is flat");
    }
    let flat = bars.iter().all(|bar| bar.reached);
    say(if flat { "flat\n" } else { "NOT flat\n" })?;
    Ok(if flat { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads everything once more, and runs `validate`.
fn final_check(server: &Server, ledgers: &Ledgers) -> Result<()> {
    let mut client = Client::connect(&server.uri())?;
    let checked = ledgers.check(&mut client)?;
    shop::check(&mut client)?;
    for collection in [workload::ORDERS, load::EVENTS, "sales", "pages"] {
        let validate = DocBuf::build(|out| {
            out.str("validate", collection);
        });
        let reply = client.run(DATABASE, &validate)?;
        if !reply.as_doc().get("valid").is_some_and(Val::truthy) {
            bail!("`{collection}` is not valid: {reply:?}");
        }
    }
    say(&format!(
        "at the end: {} documents and {} events are as acknowledged, sums and copies as their sources, indexes valid\n",
        checked.documents, checked.events
    ))
}

/// The thread that takes samples, prints rows and kills the server.
struct Watch<'a, 'l> {
    args: &'a SoakArgs,
    whole: Duration,
    load: &'a Load<'l>,
    server: &'a mut Server,
    rows: Vec<Row>,
}

impl Watch<'_, '_> {
    fn run(mut self) -> Result<Vec<Row>> {
        let step = (self.whole.div_f64(ROWS_MIN)).min(Duration::from_secs(60));
        let (kills, whole) = (self.args.kills, self.whole);
        let kill_at = |kill: u32| whole.mul_f64(2.0 / 3.0) * (kill + 1) / (kills + 1);
        let begun = Instant::now();
        let mut killed = 0;
        self.load.gate.open();
        while begun.elapsed() < self.whole {
            let mut row = Row::default();
            let mut io = self.server.process().io().unwrap_or_default();
            let mut status = Client::connect(&self.server.uri())?;
            let end = (begun.elapsed() + step).min(self.whole);
            let (mut up, mut others) = (Instant::now(), Others::default());
            others.begin(self.server.process());
            while begun.elapsed() < end {
                std::thread::sleep(Duration::from_millis(500).min(end - begun.elapsed().min(end)));
                if self.load.gate.has_ended() {
                    // A thread has failed; its reason is kept.
                    return Ok(self.rows);
                }
                self.server.check_alive()?;
                self.sample(&mut row, &mut status)?;
                if killed < kills && begun.elapsed() >= kill_at(killed) {
                    killed += 1;
                    row.up += up.elapsed();
                    add_io(&mut row, io, self.server.process().io());
                    others.end(self.server.process());
                    self.kill(begun.elapsed(), killed)?;
                    io = self.server.process().io().unwrap_or_default();
                    status = Client::connect(&self.server.uri())?;
                    up = Instant::now();
                    others.begin(self.server.process());
                }
            }
            row.up += up.elapsed();
            add_io(&mut row, io, self.server.process().io());
            others.end(self.server.process());
            row.others = others.percent();
            row.at = begun.elapsed();
            let mut latency = self.load.latency.lock().unwrap_or_else(PoisonError::into_inner);
            (row.writes, row.reads) = (Millis::of(&latency.writes), Millis::of(&latency.reads));
            latency.writes.reset();
            latency.reads.reset();
            let slow = std::mem::take(&mut latency.slow);
            drop(latency);
            say(&row.line())?;
            for (what, ended, took) in slow {
                let at = ended.saturating_duration_since(begun + took);
                say(&format!("{} slow: {what} took {:.2} s\n", clock(at), took.as_secs_f64()))?;
            }
            self.rows.push(row);
        }
        Ok(self.rows)
    }

    fn sample(&self, row: &mut Row, status: &mut Client) -> Result<()> {
        row.memory = row.memory.max(self.server.process().memory()?);
        let disk = self.server.space();
        row.disk = row.disk.max(disk);
        let command = DocBuf::build(|out| {
            out.i32("serverStatus", 1);
        });
        let reply = status.run("admin", &command).context("serverStatus")?;
        let store = reply.as_doc().get("store").and_then(Val::as_doc);
        let number = |doc: Option<value::RawDoc<'_>>, name: &str| {
            let number = doc.and_then(|doc| doc.get(name)).and_then(Val::as_i64_exact);
            number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
        };
        let log = store.and_then(|store| store.get("log")).and_then(Val::as_doc);
        let change_log = number(log, "diskBytes");
        row.change_log = row.change_log.max(change_log);
        row.data = row.data.max(disk.saturating_sub(change_log));
        row.pinned = row.pinned.max(number(store, "pinnedBytes"));
        row.snapshots = row.snapshots.max(number(store, "openSnapshots"));
        for (_, tree) in store.into_iter().flat_map(|store| store.iter()) {
            row.young = row.young.max(number(tree.as_doc(), "youngTables"));
        }
        Ok(())
    }

    /// Kills and restarts the server and checks the acknowledged writes.
    fn kill(&mut self, at: Duration, number: u32) -> Result<()> {
        self.server.kill()?;
        self.load.gate.close(self.load.ledgers.writers() + OTHERS);
        if self.load.gate.has_ended() {
            return Ok(());
        }
        self.server.restart()?;
        let begun = Instant::now();
        let mut client = Client::connect(&self.server.uri())?;
        let checked = self.load.ledgers.check(&mut client).context("after a kill")?;
        shop::check(&mut client).context("after a kill")?;
        say(&format!(
            "{} kill {number}: answers after {:.2} s, {:.0} MiB on disk; {} documents and {} events are as \
             acknowledged, sums and copies as their sources (checked in {:.1} s)\n",
            clock(at),
            self.server.startup.as_secs_f64(),
            mib(self.server.space()),
            checked.documents,
            checked.events,
            begun.elapsed().as_secs_f64()
        ))?;
        self.load.gate.open();
        Ok(())
    }
}

fn add_io(row: &mut Row, before: (u64, u64), now: Option<(u64, u64)>) {
    let (read, written) = now.unwrap_or(before);
    row.read_bytes += read.saturating_sub(before.0);
    row.written_bytes += written.saturating_sub(before.1);
}

/// Minutes and seconds since the load began.
fn clock(at: Duration) -> String {
    format!("{:>3}:{:02}", at.as_secs() / 60, at.as_secs() % 60)
}

/// Prints a line and flushes it, because the output is read during the run.
fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
