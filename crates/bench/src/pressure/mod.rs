//! The latency of single writes under load, with data of several times the cache. The phases: a
//! load, updates, updates beside an open cursor, updates while merging is slow, and single updates
//! beside a scan, a group, a sort and an index build. `meter` measures the server, `outcome` prints
//! and compares with the targets.

mod meter;
mod outcome;

use super::Notes;
use super::data::{self, Dice};
use super::process::{Program, Server};
use super::soak::load::{create_index, whole_query};
use super::workload::{DATABASE, ORDERS, insert_batch};
use anyhow::{Context, Result, bail};
use client::Client;
use hdrhistogram::Histogram;
use meter::{Meter, watch};
pub(crate) use outcome::{bars, json, print};
use std::path::Path;
use std::time::{Duration, Instant};
use value::{Code, DocBuf, Val};

/// The smallest cache that mongod accepts, in mebibytes.
const MONGOD_CACHE_MIN: u64 = 256;
/// The approximate size of a document with its index entries.
const DOCUMENT_BYTES: u64 = 512;
/// Memory for running operations of our server, in mebibytes.
const OPERATION_MIB: u64 = 256;
/// Documents of one insert of the load.
const BATCH: u64 = 1000;
/// Connections in the phases of updates. The other phases have one.
const WRITERS: usize = 4;
/// The rate of a merge while merging is slow, in entries per second: about 10 MB.
const SLOW_MERGE_ENTRIES: i32 = 50_000;

/// The name of the reference phase: updates of data that fit into the cache.
const UNSTRESSED: &str = "unstressed";
/// The name of the phase in which memory must stay flat.
const OPEN_CURSOR: &str = "update, open cursor";

/// The result of one phase on one server.
pub(crate) struct Pressure {
    pub(crate) server: &'static str,
    pub(crate) phase: &'static str,
    /// The size of the data, as printed.
    pub(crate) size: String,
    /// Documents per second: of the writes, or of the operation that they run beside.
    pub(crate) rate: f64,
    /// Written documents in each second.
    pub(crate) by_second: Vec<u64>,
    /// Latency of single writes in nanoseconds; of batches while loading.
    pub(crate) latency: Histogram<u64>,
    /// Resident memory in each second, in bytes.
    pub(crate) memory: Vec<u64>,
    /// Bytes that the process read from disks and wrote to files.
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// The largest size of the data folder in bytes, and the size at the end.
    pub(crate) space_peak: u64,
    pub(crate) space_end: u64,
    /// The share of the machine that other processes used, in percent.
    pub(crate) others: f64,
}

/// The parameters of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) folder: Option<&'a Path>,
    /// The cache of every server.
    pub(crate) cache_mib: u64,
    /// The sizes of the documents as multiples of the cache, a run each.
    pub(crate) times: &'a [u64],
    /// How long the phases of updates last.
    pub(crate) duration: Duration,
}

impl Plan<'_> {
    /// The limit of our server's memory, in bytes.
    pub(crate) fn memory_max(&self) -> u64 {
        ((self.cache_mib + OPERATION_MIB) << 20) + 150_000_000
    }

    /// Measures all sizes, one server after another.
    pub(crate) fn measure(&self, programs: &[Program], note: &Notes) -> Result<Vec<Pressure>> {
        if programs.len() > 1 && self.cache_mib < MONGOD_CACHE_MIN {
            bail!("mongod's cache has at least {MONGOD_CACHE_MIN} MiB: set --pressure-cache");
        }
        if self.times.contains(&0) {
            bail!("--pressure-times takes numbers from 1");
        }
        let mut found = Vec::new();
        for program in programs {
            let quarter = (self.cache_mib << 20) / DOCUMENT_BYTES / 4;
            self.start(program, quarter, "x0.25".to_owned())?.unstressed(note, &mut found)?;
        }
        for times in self.times {
            let docs = times * (self.cache_mib << 20) / DOCUMENT_BYTES;
            for program in programs {
                self.start(program, docs, format!("x{times}"))?.stressed(note, &mut found)?;
            }
        }
        Ok(found)
    }

    fn start(&self, program: &Program, docs: u64, size: String) -> Result<Run> {
        let operation = format!("{OPERATION_MIB}MiB");
        let flags = ["--operation-memory", operation.as_str(), "--test-commands"];
        let flags = if matches!(program, Program::Motif) { &flags[..] } else { &[] };
        let server = Server::start_with_cache(program, self.folder, flags, self.cache_mib)?;
        let is_ours = matches!(program, Program::Motif);
        Ok(Run { server, name: program.name(), is_ours, docs, size, duration: self.duration })
    }
}

/// One server with data of one size.
struct Run {
    server: Server,
    name: &'static str,
    is_ours: bool,
    docs: u64,
    size: String,
    duration: Duration,
}

impl Run {
    fn unstressed(&self, note: &Notes, found: &mut Vec<Pressure>) -> Result<()> {
        note.say(format!("pressure: {} unstressed", self.name));
        self.load()?;
        self.server.process().settle(Duration::from_secs(30))?;
        found.push(self.updates(UNSTRESSED)?);
        Ok(())
    }

    fn stressed(&self, note: &Notes, found: &mut Vec<Pressure>) -> Result<()> {
        let say = |phase: &str| note.say(format!("pressure: {} {} {phase}", self.name, self.size));
        say("load");
        found.push(self.load()?);
        say("update");
        found.push(self.updates("update")?);
        say(OPEN_CURSOR);
        let mut reader = Client::connect(&self.server.uri())?;
        let cursor = open_cursor(&mut reader)?;
        found.push(self.updates(OPEN_CURSOR)?);
        close_cursor(&mut reader, cursor)?;
        if self.is_ours {
            say("update, slow merges");
            slow_merges(&mut reader, SLOW_MERGE_ENTRIES)?;
            found.push(self.updates("update, slow merges")?);
            slow_merges(&mut reader, 0)?;
        }
        for (turn, phase) in ["scan", "group", "sort"].into_iter().enumerate() {
            say(phase);
            let command = whole_query(turn as u64, self.docs);
            found.push(self.beside(phase, |client| {
                client.run(DATABASE, &command).with_context(|| format!("{command:?}"))?;
                Ok(())
            })?);
        }
        say("index build");
        found.push(self.beside("index build", |client| create_index(client, ORDERS, "total"))?);
        Ok(())
    }

    fn watch(
        &self,
        phase: &'static str,
        writers: usize,
        work: impl FnOnce(&Meter) -> Result<Option<u64>>,
    ) -> Result<Pressure> {
        let write = |number: usize, meter: &Meter| {
            let mut client = Client::connect(&self.server.uri())?;
            let mut dice = Dice::new(number as u64 + 7);
            while !meter.has_ended() {
                let begun = Instant::now();
                update(&mut client, dice.below(self.docs), dice.below(data::customers(self.docs)))?;
                meter.record(begun, 1);
            }
            Ok(())
        };
        let found =
            watch(&self.server, (self.name, phase, self.size.clone()), writers, write, work);
        found.with_context(|| format!("{phase} on {}:\n{}", self.name, self.server.log_end()))
    }

    fn load(&self) -> Result<Pressure> {
        let mut client = Client::connect(&self.server.uri())?;
        for field in ["customer", "created"] {
            create_index(&mut client, ORDERS, field)?;
        }
        let mut batch = Vec::new();
        self.watch("load", 0, |meter| {
            for from in (0..self.docs).step_by(BATCH as usize) {
                let (ids, begun) = (from..self.docs.min(from + BATCH), Instant::now());
                let count = ids.end - ids.start;
                insert_batch(&mut client, ORDERS, ids, self.docs, &mut batch)?;
                meter.record(begun, count);
            }
            Ok(None)
        })
    }

    fn updates(&self, phase: &'static str) -> Result<Pressure> {
        self.watch(phase, WRITERS, |_| {
            std::thread::sleep(self.duration);
            Ok(None)
        })
    }

    /// Runs an operation over all documents beside one writer.
    fn beside(
        &self,
        phase: &'static str,
        run: impl FnOnce(&mut Client) -> Result<()>,
    ) -> Result<Pressure> {
        self.watch(phase, 1, |_| {
            run(&mut Client::connect(&self.server.uri())?)?;
            Ok(Some(self.docs))
        })
    }
}

fn open_cursor(client: &mut Client) -> Result<i64> {
    let find = DocBuf::build(|out| {
        out.str("find", ORDERS).i32("batchSize", 10);
    });
    let reply = client.run(DATABASE, &find).context("cannot open a cursor")?;
    let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc);
    cursor.and_then(|cursor| cursor.get("id")?.as_i64_exact()).context("there is no cursor")
}

/// Reads from a cursor once more, which proves that it was open all the time, and closes it.
fn close_cursor(client: &mut Client, cursor: i64) -> Result<()> {
    let more = DocBuf::build(|out| {
        out.i64("getMore", cursor).str("collection", ORDERS).i32("batchSize", 10);
    });
    match client.run(DATABASE, &more) {
        Err(error) if error.code() != Code::SNAPSHOT_TOO_OLD => {
            return Err(error).context("the open cursor");
        }
        _ => {}
    }
    let kill = DocBuf::build(|out| {
        out.str("killCursors", ORDERS).array("cursors", |ids| {
            ids.push(Val::Int64(cursor));
        });
    });
    client.run(DATABASE, &kill)?;
    Ok(())
}

/// Limits each merge to this many entries per second; 0 removes the limit.
fn slow_merges(client: &mut Client, entries_per_second: i32) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("configureFailPoint", "slowMerges");
        out.str("mode", if entries_per_second > 0 { "alwaysOn" } else { "off" });
        out.doc("data", |data| {
            data.i32("entriesPerSecond", entries_per_second);
        });
    });
    client.run("admin", &command).context("cannot slow merges down")?;
    Ok(())
}

fn update(client: &mut Client, id: u64, customer: u64) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("update", ORDERS).array("updates", |updates| {
            updates.push_doc(|out| {
                out.doc("q", |query| {
                    query.i64("_id", id.cast_signed());
                });
                out.doc("u", |update| {
                    update.doc("$inc", |fields| {
                        fields.i32("version", 1);
                    });
                    update.doc("$set", |fields| {
                        fields.i64("customer", customer.cast_signed());
                    });
                });
            });
        });
        out.doc("writeConcern", |concern| {
            concern.i32("w", 1).bool("j", true);
        });
    });
    let reply = client.run(DATABASE, &command).context("cannot update")?;
    if reply.as_doc().get("n").and_then(Val::as_i64_exact) != Some(1) {
        bail!("an update was answered with {reply:?}");
    }
    Ok(())
}
