//! The load: writers that read, update, insert and delete, and a thread each for long-lived
//! cursors, short-lived collections, index builds, queries over all documents, and collections with
//! patterns.

use super::super::data::{self, Dice};
use super::super::drive::latency_histogram;
use super::super::workload::{DATABASE, ORDERS, insert_batch};
use super::gate::Gate;
use super::ledger::{Ledgers, Pending, event_id};
use super::shop;
use anyhow::{Context, Result, bail};
use client::Client;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use value::{Code, DocBuf, RawDoc, Val};

/// The collection with events, which writers insert and delete.
pub(super) const EVENTS: &str = "events";
/// Events that a writer keeps; it deletes the oldest ones.
const EVENTS_KEPT: u64 = 10_000;
/// Cursors that are open at a time.
const CURSORS: usize = 4;
/// Documents that a cursor returns at a time.
const CURSOR_BATCH: i32 = 100;
/// Short-lived collections at a time, and documents in each.
const PASSING: u64 = 4;
const PASSING_DOCS: u64 = 5_000;

/// The names of the requests that only read.
const READ: &str = "read by _id";
const LOOKUP: &str = "read by an index";
/// Requests that take longer than this are printed.
const SLOW: Duration = Duration::from_secs(1);

/// State shared by the threads.
pub(super) struct Load<'a> {
    pub(super) gate: &'a Gate,
    pub(super) uri: &'a str,
    pub(super) ledgers: &'a Ledgers,
    pub(super) seed: u64,
    /// How long cursors stay open at most; the other threads pause for a share of that.
    pub(super) cursor_life: Duration,
    pub(super) latency: Mutex<Latency>,
    pub(super) tally: Tally,
}

/// Latencies since the last row, in nanoseconds.
pub(super) struct Latency {
    /// Of single durable writes.
    pub(super) writes: Histogram<u64>,
    /// Of reads of one or a few documents.
    pub(super) reads: Histogram<u64>,
    /// Requests that took longer than `SLOW`: name, end and duration.
    pub(super) slow: Vec<(&'static str, Instant, Duration)>,
}

impl Latency {
    /// Creates empty histograms.
    pub(super) fn new() -> Result<Latency> {
        Ok(Latency { writes: latency_histogram()?, reads: latency_histogram()?, slow: Vec::new() })
    }
}

/// Counters of the threads other than the writers.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) cursors: AtomicU64,
    /// Cursors that the server has ended because their snapshot was too old.
    pub(super) expired: AtomicU64,
    pub(super) drops: AtomicU64,
    pub(super) builds: AtomicU64,
    pub(super) queries: AtomicU64,
    pub(super) renames: AtomicU64,
}

/// The number of threads other than the writers.
pub(super) const OTHERS: usize = 5;

/// The work of one connection, until the server is killed.
type Session<L> = fn(&L, &mut Client, u64) -> Result<()>;

impl Load<'_> {
    /// Starts all threads; they return when the gate ends the run.
    pub(super) fn spawn<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>) {
        for writer in 0..self.ledgers.writers() {
            let mut dice = Dice::new(self.seed.wrapping_add(writer as u64));
            scope.spawn(move || {
                let mut batch = Vec::new();
                self.run(|client, life| {
                    while self.gate.is_up(life) {
                        self.write_or_read(client, writer, &mut dice, &mut batch)?;
                    }
                    Ok(())
                });
            });
        }
        let others: [Session<Self>; OTHERS] = [
            Self::hold_cursors,
            Self::come_and_go,
            Self::build_indexes,
            Self::query_all,
            Self::keep_shop,
        ];
        for other in others {
            scope.spawn(move || self.run(|client, life| other(self, client, life)));
        }
    }

    fn run(&self, session: impl FnMut(&mut Client, u64) -> Result<()>) {
        self.gate.work(self.uri, session);
    }

    /// Records how long a request took.
    pub(super) fn record(&self, what: &'static str, begun: Instant) {
        let took = begun.elapsed();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let Latency { writes, reads, slow } = &mut *latency;
        if matches!(what, READ | LOOKUP) { reads } else { writes }.saturating_record(nanos);
        if took > SLOW {
            slow.push((what, Instant::now(), took));
        }
    }

    /// One request of a writer: 40 % updates, 20 % inserts and deletes, 40 % reads.
    fn write_or_read(
        &self,
        client: &mut Client,
        writer: usize,
        dice: &mut Dice,
        batch: &mut Vec<u8>,
    ) -> Result<()> {
        let (count, events) = {
            let ledger = self.ledgers.of(writer)?;
            (ledger.count(), ledger.tail..ledger.head)
        };
        let number = dice.below(count.max(1));
        let id = number * self.ledgers.writers() as u64 + writer as u64;
        let begun = Instant::now();
        match dice.below(10) {
            0..4 => {
                let version = self.ledgers.of(writer)?.version(number) + 1;
                self.ledgers.of(writer)?.begin(Pending::Update(number, version));
                let command = update(id, version, dice.below(data::customers(self.ledgers.docs())));
                expect_one(client.run(DATABASE, &command)?.as_doc())
                    .with_context(|| format!("update of document {id}"))?;
                self.ledgers.of(writer)?.acknowledge();
                self.record("update", begun);
            }
            4..6 => {
                let delete = events.end - events.start >= EVENTS_KEPT;
                let pending = if delete { Pending::Delete } else { Pending::Insert };
                self.ledgers.of(writer)?.begin(pending);
                if delete {
                    let command = delete_one(event_id(writer, events.start));
                    expect_one(client.run(DATABASE, &command)?.as_doc())
                        .with_context(|| format!("delete of event {}", events.start))?;
                } else {
                    let event = event_id(writer, events.end);
                    insert_batch(client, EVENTS, event..event + 1, self.ledgers.docs(), batch)?;
                }
                self.ledgers.of(writer)?.acknowledge();
                self.record(if delete { "delete" } else { "insert" }, begun);
            }
            6..9 => {
                let wanted = self.ledgers.of(writer)?.version(number);
                let reply = client.run(DATABASE, &find_by_id(id))?;
                self.record(READ, begun);
                let version = first(reply.as_doc())
                    .and_then(|doc| doc.get("version"))
                    .and_then(Val::as_i64_exact);
                if version != Some(i64::from(wanted)) {
                    bail!("document {id} has version {version:?}, but {wanted} was acknowledged");
                }
            }
            _ => {
                let customer = dice.below(data::customers(self.ledgers.docs()));
                client.run(DATABASE, &find_by_customer(customer))?;
                self.record(LOOKUP, begun);
            }
        }
        Ok(())
    }

    /// Keeps cursors open and reads a batch from each of them from time to time.
    fn hold_cursors(&self, client: &mut Client, life: u64) -> Result<()> {
        let mut dice = Dice::new(self.seed ^ life);
        let mut open: Vec<(i64, Instant)> = Vec::new();
        let life_ms = u64::try_from(self.cursor_life.as_millis()).unwrap_or(u64::MAX).max(2);
        while self.gate.rest(life, self.cursor_life / 50) {
            while open.len() < CURSORS {
                let find = DocBuf::build(|out| {
                    out.str("find", ORDERS).i32("batchSize", CURSOR_BATCH);
                });
                let id = cursor_id(client.run(DATABASE, &find)?.as_doc())?;
                let lives = Duration::from_millis(life_ms / 2 + dice.below(life_ms / 2));
                open.push((id, Instant::now() + lives));
                self.tally.cursors.fetch_add(1, Ordering::Relaxed);
            }
            let mut kept = Vec::new();
            for (id, until) in open.drain(..) {
                if Instant::now() >= until {
                    let kill = DocBuf::build(|out| {
                        out.str("killCursors", ORDERS).array("cursors", |ids| {
                            ids.push(Val::Int64(id));
                        });
                    });
                    client.run(DATABASE, &kill)?;
                    continue;
                }
                let more = DocBuf::build(|out| {
                    out.i64("getMore", id).str("collection", ORDERS).i32("batchSize", CURSOR_BATCH);
                });
                match client.run(DATABASE, &more) {
                    Ok(reply) if cursor_id(reply.as_doc())? != 0 => kept.push((id, until)),
                    Ok(_) => {}
                    Err(error) if error.code() == Code::SNAPSHOT_TOO_OLD => {
                        self.tally.expired.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => return Err(error).context("getMore of an open cursor"),
                }
            }
            open = kept;
        }
        Ok(())
    }

    /// Fills new collections with an index and drops the oldest.
    fn come_and_go(&self, client: &mut Client, life: u64) -> Result<()> {
        let mut batch = Vec::new();
        while self.gate.rest(life, self.cursor_life / 50) {
            let number = self.tally.drops.load(Ordering::Relaxed);
            drop_collection(client, &passing(number % PASSING))?;
            let name = passing(number % PASSING);
            create_index(client, &name, "customer")?;
            for from in (0..PASSING_DOCS).step_by(1000) {
                insert_batch(client, &name, from..from + 1000, PASSING_DOCS, &mut batch)?;
            }
            self.tally.drops.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Builds an index over all documents and drops it again.
    fn build_indexes(&self, client: &mut Client, life: u64) -> Result<()> {
        while self.gate.rest(life, self.cursor_life / 8) {
            create_index(client, ORDERS, "total")?;
            let drop = DocBuf::build(|out| {
                out.str("dropIndexes", ORDERS).str("index", "total_1");
            });
            client.run(DATABASE, &drop).context("cannot drop the index")?;
            self.tally.builds.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn keep_shop(&self, client: &mut Client, life: u64) -> Result<()> {
        shop::keep(self, client, life)
    }

    /// Filters, groups and sorts all documents, in turns.
    fn query_all(&self, client: &mut Client, life: u64) -> Result<()> {
        let mut turn = 0;
        while self.gate.rest(life, self.cursor_life / 20) {
            let command = whole_query(turn, self.ledgers.docs());
            client.run(DATABASE, &command).with_context(|| format!("{command:?}"))?;
            self.tally.queries.fetch_add(1, Ordering::Relaxed);
            turn += 1;
        }
        Ok(())
    }
}

fn passing(number: u64) -> String {
    format!("passing_{number}")
}

/// A query that reads every document: a filter, a group by many keys, a sort that spills.
pub(crate) fn whole_query(turn: u64, docs: u64) -> DocBuf {
    let pipeline = match turn % 3 {
        0 => "[{$match: {region: 'coast', quantity: {$gte: 3}}}, {$count: 'n'}]".to_owned(),
        1 => "[{$group: {_id: '$customer', total: {$sum: '$total'}, orders: {$sum: 1}}}, \
              {$group: {_id: null, most: {$max: '$total'}}}]"
            .to_owned(),
        _ => format!("[{{$sort: {{note: 1, _id: 1}}}}, {{$skip: {}}}]", docs.saturating_sub(1)),
    };
    let text = format!(
        "{{aggregate: '{ORDERS}', pipeline: {pipeline}, cursor: {{}}, allowDiskUse: true}}"
    );
    value::ejson::parse_doc(&text).unwrap_or_default()
}

pub(crate) fn create_index(client: &mut Client, collection: &str, field: &str) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("createIndexes", collection).array("indexes", |indexes| {
            indexes.push_doc(|index| {
                index.doc("key", |key| {
                    key.i32(field, 1);
                });
                index.str("name", &format!("{field}_1"));
            });
        });
    });
    client.run(DATABASE, &command).with_context(|| format!("index on `{collection}`.`{field}`"))?;
    Ok(())
}

fn drop_collection(client: &mut Client, collection: &str) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("drop", collection);
    });
    match client.run(DATABASE, &command) {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Code::NAMESPACE_NOT_FOUND => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot drop `{collection}`")),
    }
}

fn update(id: u64, version: u32, customer: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.str("update", ORDERS).array("updates", |updates| {
            updates.push_doc(|out| {
                out.doc("q", |query| {
                    query.i64("_id", id.cast_signed());
                });
                out.doc("u", |change| {
                    change.doc("$set", |set| {
                        set.i64("version", i64::from(version))
                            .i64("customer", customer.cast_signed());
                    });
                });
            });
        });
        durable(out);
    })
}

fn delete_one(id: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.str("delete", EVENTS).array("deletes", |deletes| {
            deletes.push_doc(|out| {
                out.doc("q", |query| {
                    query.i64("_id", id.cast_signed());
                });
                out.i32("limit", 1);
            });
        });
        durable(out);
    })
}

/// Writes the write concern under which an acknowledged write must survive a kill.
pub(super) fn durable(out: &mut value::Writer<'_>) {
    out.doc("writeConcern", |concern| {
        concern.i32("w", 1).bool("j", true);
    });
}

fn find_by_id(id: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.str("find", ORDERS).doc("filter", |filter| {
            filter.i64("_id", id.cast_signed());
        });
        out.i32("limit", 1).bool("singleBatch", true);
    })
}

fn find_by_customer(customer: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.str("find", ORDERS).doc("filter", |filter| {
            filter.i64("customer", customer.cast_signed());
        });
        out.i32("limit", 20).bool("singleBatch", true);
    })
}

/// The first document of a reply with a cursor.
pub(super) fn first(reply: RawDoc<'_>) -> Option<RawDoc<'_>> {
    let batch = reply.get("cursor").and_then(Val::as_doc)?.get("firstBatch")?.as_array()?;
    batch.first()?.1.as_doc()
}

fn cursor_id(reply: RawDoc<'_>) -> Result<i64> {
    let id = reply.get("cursor").and_then(Val::as_doc).and_then(|cursor| cursor.get("id"));
    id.and_then(Val::as_i64_exact).context("the reply has no cursor")
}

/// Checks that a write found its document.
pub(super) fn expect_one(reply: RawDoc<'_>) -> Result<()> {
    if reply.get("n").and_then(Val::as_i64_exact) != Some(1) || reply.find("writeErrors").is_some()
    {
        bail!("a write of one document was answered with {reply:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_well_formed() {
        for turn in 0..3 {
            assert!(whole_query(turn, 1000).as_doc().find("pipeline").is_some(), "{turn}");
        }
    }
}
