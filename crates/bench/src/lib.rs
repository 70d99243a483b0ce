//! `motif bench`: loads a MongoDB-compatible server and reports the cost of its operations.
//!
//! - `data` makes documents and random choices, `workload` the requests; `drive` runs one workload.
//! - `process` starts servers and reads their CPU time and memory, `machine` the load by other
//!   processes.
//! - `resources` measures start-up, memory, and point reads in collections of two sizes.
//! - `aggregate`, `changes`, `transactions` and `patterns` measure what they are named after, `beside`
//!   the cost of patterns for collections without any, `pressure` the latency of single writes under
//!   heavy writing, `security` encryption, privileges and logins, `soak` an hour of mixed load.
//! - `report` prints results and compares them with their targets.
//!
//! With `--compare` the servers take turns, workload by workload, in every round, so that other load
//! disturbs all of them equally; the best round of each counts. Workloads that write also run on a
//! mongod that is a replica set of one, because it has an oplog, as MotifDB always has; a standalone
//! mongod has none.

mod aggregate;
mod bar;
mod before;
mod beside;
mod changes;
mod comments;
mod data;
mod drive;
mod machine;
mod patterns;
mod pressure;
mod process;
mod products;
mod readings;
mod report;
mod requests;
mod resources;
mod security;
mod soak;
mod transactions;
mod workload;

use anyhow::{Context, Result, bail};
use bar::Bar;
use clap::{Args, Subcommand};
use drive::{Drive, Outcome, Target};
use indicatif::ProgressBar;
use process::{Process, Program, Server};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use workload::Workload;

/// The default duration of each phase of updates of `pressure`.
const PRESSURE_SECONDS: f64 = 30.0;

const EXAMPLES: &str = "\
Examples:
  motif bench                                      measure this MotifDB on a temporary folder
  motif bench --compare /path/to/mongod            take turns with a real mongod, print ratios
  motif bench --uri mongodb://db.example.com       load a server that runs already
  motif bench --only point,update --connections 8  two workloads, eight connections
  motif bench --before OTHER_MOTIF                 take turns with an earlier build
  motif bench --only changes --compare MONGOD      what change events cost, on both
  motif bench --only transactions --compare MONGOD what transactions of ten writes cost, on both
  motif bench --only patterns --compare MONGOD     what patterns cost and save
  motif bench --only patterns.readings --compare MONGOD   a day of readings, in buckets and not
  motif bench --only tls,access                    what encryption, privileges and logins cost
  motif bench --only pressure --compare MONGOD     single writes, memory and space at 1, 4 and 16 times the cache
  motif bench --only pressure --pressure-cache 64 --pressure-times 1,4 --seconds 10   the same in minutes
  motif bench soak                                 an hour of everything at once, with kills
  motif bench --only flat                          point reads at 10 thousand and 2 million documents
  motif bench --only aggregate --compare mongod    pipelines over a million documents

The server is loaded from the same machine, so wall throughput includes the cost of the load
program; server CPU per operation does not, and is the figure to compare.";

/// Measure a server: throughput, latency, CPU per operation, memory
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Drive the server at this address instead of starting one; its database `motif_bench` is
    /// overwritten.
    #[arg(long, value_name = "URI", conflicts_with = "compare")]
    uri: Option<String>,
    /// Process whose CPU time and memory to read, with `--uri` on the same machine.
    #[arg(long, requires = "uri")]
    pid: Option<u32>,
    /// Start this `mongod` as well and compare.
    #[arg(long, value_name = "MONGOD")]
    compare: Option<PathBuf>,
    /// Start this other `motif` as well, usually an earlier build, and compare CPU time per
    /// operation; of `patterns` only what is not a layout.
    #[arg(long, value_name = "MOTIF", conflicts_with = "uri")]
    before: Option<PathBuf>,
    /// How often to repeat; the best round counts. [default: 3 with --compare, else 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Documents in the collection. [default: 1000000 for `aggregate`, else 200000]
    #[arg(long, alias = "documents", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    docs: Option<u64>,
    /// Numbers of connections, a thread each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64], value_name = "N,N,..")]
    connections: Vec<usize>,
    /// Run only these: bulk, point, secondary, range, insert, update, mixed50, mixed95, scan,
    /// updatemany, index, resources (start-up and memory). The following run only when they are
    /// listed: flat, pressure, changes, transactions, patterns, patterns.readings and
    /// patterns.products (of these what buckets, attributes and cold fields cost), tls, access,
    /// aggregate (all pipelines), aggregate.NAME (one pipeline).
    #[arg(long, value_delimiter = ',', value_name = "NAME,NAME,..")]
    only: Vec<String>,
    /// Seconds for each workload and number of connections. [default: 2 with --compare, else 3; 30
    /// for `pressure`]
    #[arg(long)]
    seconds: Option<f64>,
    /// Where temporary data folders are created; choose a folder on the disk to measure.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the requests; equal seeds make equal requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sizes of the documents of `pressure`, as multiples of the cache.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16], value_name = "N,N,..")]
    pressure_times: Vec<u64>,
    /// The cache of the servers of `pressure`, in MiB; mongod needs at least 256.
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    pressure_cache: u64,
    /// Documents of the large collection of `flat`.
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(10_000..=100_000_000))]
    flat_docs: u64,
    /// Compare `aggregate` with PostgreSQL too; the folder of its programs.
    #[arg(long, value_name = "BIN_DIR")]
    postgres: Option<PathBuf>,
    /// End with exit code 1 when a target is missed; with `pressure` this is always so.
    #[arg(long)]
    strict: bool,
}

/// Subcommands of `motif bench`.
#[derive(Subcommand, Debug)]
enum Other {
    Soak(soak::SoakArgs),
}

/// All rounds of one workload with one number of connections on one server.
pub(crate) struct Measurement {
    pub(crate) workload: &'static Workload,
    pub(crate) connections: usize,
    pub(crate) server: String,
    pub(crate) rounds: Vec<Outcome>,
}

impl Measurement {
    /// The highest throughput of all rounds, in operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rounds.iter().map(Outcome::rate).fold(0.0, f64::max)
    }

    /// The least CPU per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        self.rounds.iter().filter_map(Outcome::cpu_us).reduce(f64::min)
    }

    /// The round with the highest throughput, whose latencies are reported.
    pub(crate) fn best(&self) -> Option<&Outcome> {
        self.rounds.iter().max_by(|a, b| a.rate().total_cmp(&b.rate()))
    }
}

/// All results of a run.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) resources: Vec<resources::Resources>,
    pub(crate) flat: Option<resources::Flat>,
    pub(crate) pressure: Vec<pressure::Pressure>,
    /// The limit of the server's memory in `pressure`, in bytes.
    pub(crate) pressure_memory: u64,
    pub(crate) aggregate: Vec<aggregate::Line>,
    pub(crate) changes: Vec<changes::Changes>,
    pub(crate) transactions: Vec<transactions::Transactions>,
    pub(crate) patterns: Vec<patterns::Line>,
    pub(crate) encryption: Vec<security::Encryption>,
    pub(crate) access: Option<security::Access>,
}

impl Results {
    /// Pairs of a measurement of MotifDB and one of another server, for the same workload.
    fn pairs(&self) -> impl Iterator<Item = (&Measurement, &Measurement)> {
        let all = &self.measurements;
        all.iter().filter(|m| m.server == "motif").flat_map(move |motif| {
            let others = all.iter().filter(|other| {
                other.server != motif.server
                    && other.workload.name == motif.workload.name
                    && other.connections == motif.connections
            });
            others.map(move |other| (motif, other))
        })
    }
}

/// The parts that `--only` lists.
struct Selection {
    workloads: Vec<&'static Workload>,
    resources: bool,
    flat: bool,
    pressure: bool,
    /// Names of pipelines: empty for all, `None` for none.
    aggregate: Option<Vec<String>>,
    changes: bool,
    transactions: bool,
    patterns: bool,
    /// What `patterns` measures of buckets.
    readings: bool,
    /// What `patterns` measures of attributes and cold fields.
    products: bool,
    tls: bool,
    access: bool,
}

impl Selection {
    fn parse(only: &[String]) -> Result<Selection> {
        if only.is_empty() {
            return Ok(Selection {
                workloads: workload::ALL.iter().collect(),
                resources: true,
                flat: false,
                pressure: false,
                aggregate: None,
                changes: false,
                transactions: false,
                patterns: false,
                readings: false,
                products: false,
                tls: false,
                access: false,
            });
        }
        let mut selection = Selection {
            workloads: Vec::new(),
            resources: false,
            flat: false,
            pressure: false,
            aggregate: None,
            changes: false,
            transactions: false,
            patterns: false,
            readings: false,
            products: false,
            tls: false,
            access: false,
        };
        for name in only {
            let pipeline = name.strip_prefix("aggregate.");
            match name.as_str() {
                "resources" => selection.resources = true,
                "flat" => selection.flat = true,
                "aggregate" => selection.aggregate = Some(Vec::new()),
                _ if pipeline.is_some_and(aggregate::is_name) => {
                    let names = selection.aggregate.get_or_insert_default();
                    names.extend(pipeline.map(str::to_owned));
                }
                "pressure" => selection.pressure = true,
                "changes" => selection.changes = true,
                "transactions" => selection.transactions = true,
                "patterns" => {
                    selection.patterns = true;
                    selection.readings = true;
                    selection.products = true;
                }
                "patterns.readings" => selection.readings = true,
                "patterns.products" => selection.products = true,
                "tls" => selection.tls = true,
                "access" => selection.access = true,
                name => match workload::by_name(name) {
                    Some(found) => selection.workloads.push(found),
                    None => bail!("there is no workload `{name}`; see `motif bench --help`"),
                },
            }
        }
        Ok(selection)
    }
}

/// Runs `motif bench` with these arguments. The caller has raised the limit of open files: each
/// connection takes one. Returns `FAILURE` if a target was missed, with `--strict`, `pressure` or
/// `soak`.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if let Some(Other::Soak(args)) = &args.other {
        return soak::run(args);
    }
    let selection = Selection::parse(&args.only)?;
    if args.connections.iter().any(|&count| count == 0 || count > 10_000) {
        bail!("--connections takes numbers from 1 to 10000");
    }
    let comparing = args.compare.is_some() || args.before.is_some();
    let seconds = args.seconds.unwrap_or(if comparing { 2.0 } else { 3.0 });
    if !(0.05..=3600.0).contains(&seconds) {
        bail!("--seconds takes 0.05 to 3600");
    }
    let rounds = args.rounds.unwrap_or(if comparing { 3 } else { 1 });

    let mut programs = vec![Program::Motif];
    programs.extend(args.compare.clone().map(Program::Mongod));
    programs.extend(args.before.clone().map(Program::Before));
    let mut results = Results::default();
    let note = Notes::new();

    if selection.resources && args.uri.is_none() {
        for program in &programs {
            note.say(format!("{}: start-up and memory", program.name()));
            results.resources.push(resources::measure(program, args.folder.as_deref())?);
        }
    }
    if !selection.workloads.is_empty() || selection.aggregate.is_some() {
        let mut servers = Vec::new();
        let mut targets = Vec::new();
        if let Some(uri) = &args.uri {
            let process = args.pid.map(Process);
            targets.push(Target { name: "server".to_owned(), uri: uri.clone(), process });
        } else {
            for program in &programs {
                let server = Server::start(program, args.folder.as_deref())?;
                targets.push(Target {
                    name: program.name().to_owned(),
                    uri: server.uri(),
                    process: Some(server.process()),
                });
                servers.push(server);
            }
        }
        // Pipelines only read, so they need no replica set.
        let readers = targets.len();
        if let (Some(mongod), true) =
            (&args.compare, selection.workloads.iter().any(|workload| workload.writes()))
        {
            let program = Program::Mongod(mongod.clone());
            let server = Server::start_in_set(&program, args.folder.as_deref())?;
            targets.push(Target {
                name: process::MONGOD_SET.to_owned(),
                uri: server.uri(),
                process: Some(server.process()),
            });
            servers.push(server);
        }
        let plan = Plan {
            targets: &targets,
            workloads: &selection.workloads,
            connections: &args.connections,
            rounds,
            docs: args.docs.unwrap_or(200_000),
            duration: Duration::from_secs_f64(seconds),
            seed: args.seed,
        };
        results.measurements = plan.run(&note)?;
        if let Some(names) = &selection.aggregate {
            let plan = aggregate::Plan {
                targets: targets.get(..readers).unwrap_or(&targets),
                postgres: args.postgres.as_deref(),
                folder: args.folder.as_deref(),
                documents: args.docs.unwrap_or(1_000_000),
                rounds,
                names,
            };
            results.aggregate = aggregate::run(&plan, &note)?;
        }
    }
    if selection.flat {
        if args.uri.is_some() {
            bail!("`flat` starts its own server: leave out --uri");
        }
        let duration = Duration::from_secs_f64(seconds);
        let folder = args.folder.as_deref();
        results.flat = Some(resources::flat(args.flat_docs, duration, folder, &note)?);
    }
    if selection.pressure {
        if args.uri.is_some() {
            bail!("`pressure` starts its own servers: leave out --uri");
        }
        let plan = pressure::Plan {
            folder: args.folder.as_deref(),
            cache_mib: args.pressure_cache,
            times: &args.pressure_times,
            duration: Duration::from_secs_f64(args.seconds.unwrap_or(PRESSURE_SECONDS)),
        };
        results.pressure = plan.measure(&programs, &note)?;
        results.pressure_memory = plan.memory_max();
    }
    if selection.changes {
        if args.uri.is_some() {
            bail!("`changes` starts its own servers: leave out --uri");
        }
        for program in &programs {
            results.changes.push(changes::measure(program, args.folder.as_deref(), &note)?);
        }
    }
    if selection.transactions {
        if args.uri.is_some() {
            bail!("`transactions` starts its own servers: leave out --uri");
        }
        for program in &programs {
            let found = transactions::measure(program, args.folder.as_deref(), &note)?;
            results.transactions.push(found);
        }
    }
    let of_patterns = selection.patterns || selection.readings || selection.products;
    if of_patterns && args.uri.is_some() {
        bail!("`patterns` starts its own servers: leave out --uri");
    }
    let series: Vec<Program> =
        programs.iter().filter(|p| !matches!(p, Program::Before(_))).cloned().collect();
    if selection.readings {
        results.patterns = readings::measure(&series, args.folder.as_deref(), &note)?;
    }
    if selection.products {
        results.patterns.extend(products::measure(&series, args.folder.as_deref(), &note)?);
    }
    if selection.patterns {
        results.patterns.extend(patterns::measure(&programs, args.folder.as_deref(), &note)?);
    }
    if (selection.tls || selection.access) && args.uri.is_some() {
        bail!("`tls` and `access` start their own servers: leave out --uri");
    }
    if selection.tls {
        let duration = Duration::from_secs_f64(seconds);
        let folder = args.folder.as_deref();
        results.encryption = security::encryption(&args.connections, duration, folder, &note)?;
    }
    if selection.access {
        results.access = Some(security::access(args.folder.as_deref(), &note)?);
    }
    note.clear();

    let bars = report::bars(&results);
    report::print(&results, &bars)?;
    if let Some(path) = &args.json {
        let text = report::json(&results, &bars);
        std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let missed = bars.iter().any(|bar: &Bar| !bar.reached);
    Ok(if missed && (args.strict || selection.pressure) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The workloads of a run and how they are interleaved.
struct Plan<'a> {
    targets: &'a [Target],
    workloads: &'a [&'static Workload],
    connections: &'a [usize],
    rounds: u32,
    docs: u64,
    duration: Duration,
    seed: u64,
}

impl Plan<'_> {
    fn run(&self, note: &Notes) -> Result<Vec<Measurement>> {
        let mut measurements = Vec::new();
        for &workload in self.workloads {
            for &connections in self.connections {
                if connections <= workload.connections_max {
                    for target in self.targets.iter().filter(|target| takes(target, workload)) {
                        let server = target.name.clone();
                        let rounds = Vec::new();
                        measurements.push(Measurement { workload, connections, server, rounds });
                    }
                }
            }
        }
        for target in self.targets {
            let mut taken = self.workloads.iter().filter(|workload| takes(target, workload));
            if taken.any(|workload| workload.needs_orders()) {
                note.say(format!("{}: loading {} documents", target.name, self.docs));
                workload::load_orders(&target.uri, self.docs, &|_| ())?;
                settle(target, Duration::from_secs(10))?;
            }
        }
        for round in 0..self.rounds {
            // Measurements are ordered by number of connections, then by server, so the servers take
            // turns.
            for measurement in &mut measurements {
                let target = self.targets.iter().find(|t| t.name == measurement.server);
                let target = target.context("a measurement has no server")?;
                note.say(format!(
                    "round {}/{}: {} with {} connections on {}",
                    round + 1,
                    self.rounds,
                    measurement.workload.name,
                    measurement.connections,
                    target.name
                ));
                let mut client = client::Client::connect(&target.uri)?;
                measurement.workload.prepare(&mut client)?;
                settle(target, Duration::from_secs(3))?;
                let drive = Drive {
                    connections: measurement.connections,
                    docs: self.docs,
                    duration: self.duration,
                    seed: self.seed.wrapping_add(u64::from(round)),
                };
                measurement.rounds.push(drive::run(target, measurement.workload, drive)?);
            }
        }
        Ok(measurements)
    }
}

/// Whether a server runs a workload. The mongod with an oplog runs only those that write.
fn takes(target: &Target, workload: &Workload) -> bool {
    target.name != process::MONGOD_SET || workload.writes()
}

/// Waits until the background work of the last workload has ended, at most `limit`.
fn settle(target: &Target, limit: Duration) -> Result<()> {
    match target.process {
        Some(process) => process.settle(limit),
        None => Ok(()),
    }
}

/// Progress messages: one line that changes on a terminal, otherwise a line each.
pub(crate) struct Notes(Option<ProgressBar>);

impl Notes {
    fn new() -> Notes {
        use std::io::IsTerminal;
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Notes(bar)
    }

    pub(crate) fn say(&self, text: String) {
        match &self.0 {
            Some(bar) => bar.set_message(text),
            None => eprintln!("{text}"),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_workloads_and_refuses_others() {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let all = Selection::parse(&[]).unwrap();
        assert_eq!(all.workloads.len(), workload::ALL.len());
        assert!(all.resources && !all.flat);
        let some = Selection::parse(&names(&["point", "flat"])).unwrap();
        assert_eq!(some.workloads.len(), 1);
        assert!(!some.resources && some.flat);
        assert!(Selection::parse(&names(&["pont"])).is_err());
        let pipelines = Selection::parse(&names(&["aggregate.tags"])).unwrap();
        assert_eq!(pipelines.aggregate, Some(names(&["tags"])));
        assert!(Selection::parse(&names(&["aggregate.tag"])).is_err());
    }
}
