//! The workloads: a row for each, and the requests that it sends.
//!
//! Writes are durable on all servers (`{w: 1, j: true}`), because that is MotifDB's default, and
//! writes that a server may lose are not comparable.

use super::data::{self, Dice, Zipf};
use anyhow::{Context, Result, bail};
use client::Client;
use std::sync::atomic::{AtomicU64, Ordering};
use value::writer::write_doc;
use value::{DocBuf, RawDoc, Val, Writer};

/// The database that the benchmark fills.
pub(crate) const DATABASE: &str = "motif_bench";
/// The collection that reads and updates use.
pub(crate) const ORDERS: &str = "orders";
/// The collection that the insert workload fills.
const INSERTS: &str = "inserts";
/// The collection that the bulk workload fills.
const BULK: &str = "bulk";
/// Documents that one statement of the `updatemany` workload changes.
const MANY: u64 = 100_000;
/// Documents in one batch of a bulk load.
const BATCH: u64 = 1000;

/// A workload.
pub(crate) struct Workload {
    /// Its name for `--only` and in tables.
    pub(crate) name: &'static str,
    /// A description for the report.
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
    /// The maximum of connections: a full scan with 64 would only measure the queue.
    pub(crate) connections_max: usize,
    /// The target for mongod's CPU per operation divided by MotifDB's.
    pub(crate) cpu_bar: Option<f64>,
}

/// What one operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bulk,
    PointRead,
    Secondary,
    Range,
    Insert,
    Update,
    /// A share of reads in percent, the rest updates, both zipfian.
    Mixed(u64),
    Scan,
    UpdateMany,
    IndexBuild,
}

/// All workloads, in the order in which they run.
pub(crate) static ALL: &[Workload] = &[
    Workload {
        name: "bulk",
        about: "load all documents in batches of 1000, two secondary indexes",
        kind: Kind::Bulk,
        connections_max: usize::MAX,
        cpu_bar: Some(1.2),
    },
    Workload {
        name: "point",
        about: "find one document by _id",
        kind: Kind::PointRead,
        connections_max: usize::MAX,
        cpu_bar: Some(3.0),
    },
    Workload {
        name: "secondary",
        about: "find about 10 documents by an indexed field",
        kind: Kind::Secondary,
        connections_max: usize::MAX,
        cpu_bar: Some(2.0),
    },
    Workload {
        name: "range",
        about: "range on an indexed field, sorted, limit 20",
        kind: Kind::Range,
        connections_max: usize::MAX,
        cpu_bar: Some(2.0),
    },
    Workload {
        name: "insert",
        about: "durable insert of one document, two secondary indexes",
        kind: Kind::Insert,
        connections_max: usize::MAX,
        cpu_bar: Some(2.0),
    },
    Workload {
        name: "update",
        about: "durable update of one document by _id",
        kind: Kind::Update,
        connections_max: usize::MAX,
        cpu_bar: Some(2.0),
    },
    Workload {
        name: "mixed50",
        about: "50 % point reads, 50 % durable updates, zipfian",
        kind: Kind::Mixed(50),
        connections_max: usize::MAX,
        cpu_bar: None,
    },
    Workload {
        name: "mixed95",
        about: "95 % point reads, 5 % durable updates, zipfian",
        kind: Kind::Mixed(95),
        connections_max: usize::MAX,
        cpu_bar: None,
    },
    Workload {
        name: "scan",
        about: "count by a filter on unindexed fields: reads every document",
        kind: Kind::Scan,
        connections_max: 8,
        cpu_bar: Some(2.0),
    },
    Workload {
        name: "updatemany",
        about: "one statement that changes 100,000 documents, per document",
        kind: Kind::UpdateMany,
        connections_max: 1,
        cpu_bar: Some(2.0),
    },
    Workload {
        name: "index",
        about: "build an index on all documents, per document",
        kind: Kind::IndexBuild,
        connections_max: 1,
        cpu_bar: None,
    },
];

/// The workload of this name.
pub(crate) fn by_name(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

impl Workload {
    /// Whether wall throughput must not be below mongod's.
    pub(crate) fn has_wall_bar(&self) -> bool {
        self.cpu_bar.is_some()
    }

    /// The target for throughput as a multiple of mongod's, with any number of connections.
    pub(crate) fn wall_bar(&self) -> Option<f64> {
        (self.kind == Kind::IndexBuild).then_some(1.5)
    }

    /// Whether it reads the collection that `load_orders` fills.
    pub(crate) fn needs_orders(&self) -> bool {
        !matches!(self.kind, Kind::Bulk | Kind::Insert)
    }

    /// Whether it changes documents.
    pub(crate) fn writes(&self) -> bool {
        match self.kind {
            Kind::Bulk | Kind::Insert | Kind::Update | Kind::Mixed(_) | Kind::UpdateMany => true,
            Kind::PointRead | Kind::Secondary | Kind::Range | Kind::Scan | Kind::IndexBuild => {
                false
            }
        }
    }

    /// Whether it ends when its documents are loaded, rather than when its time is over.
    pub(crate) fn is_load(&self) -> bool {
        self.kind == Kind::Bulk
    }

    /// Puts the server into the state in which the workload starts.
    pub(crate) fn prepare(&self, client: &mut Client) -> Result<()> {
        match self.kind {
            Kind::Bulk => recreate(client, BULK),
            Kind::Insert => {
                // The documents of a bulk load would take cache memory from later workloads.
                drop_collection(client, BULK)?;
                recreate(client, INSERTS)
            }
            _ => drop_collection(client, BULK),
        }
    }
}

fn drop_collection(client: &mut Client, collection: &str) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("drop", collection);
    });
    match client.run(DATABASE, &command) {
        Ok(_) => Ok(()),
        Err(error) if error.code() == value::Code::NAMESPACE_NOT_FOUND => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot drop `{collection}`")),
    }
}

/// Makes an empty collection with the two secondary indexes.
fn recreate(client: &mut Client, collection: &str) -> Result<()> {
    drop_collection(client, collection)?;
    create_indexes(client, collection, &["customer", "created"])
}

/// Makes an index on each of these fields.
fn create_indexes(client: &mut Client, collection: &str, fields: &[&str]) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.str("createIndexes", collection);
        out.array("indexes", |indexes| {
            for field in fields {
                indexes.push_doc(|index| {
                    index.doc("key", |key| {
                        key.i32(field, 1);
                    });
                    index.str("name", &format!("{field}_1"));
                });
            }
        });
    });
    client.run(DATABASE, &command).context("cannot create indexes")?;
    Ok(())
}

/// Fills `orders` with `docs` documents unless it has exactly these already.
pub(crate) fn load_orders(uri: &str, docs: u64, progress: &(dyn Fn(u64) + Sync)) -> Result<()> {
    let mut client = Client::connect(uri)?;
    let count = DocBuf::build(|out| {
        out.str("count", ORDERS);
    });
    let found = client.run(DATABASE, &count).context("cannot count the documents")?;
    if found.as_doc().get("n").and_then(Val::as_i64_exact) == i64::try_from(docs).ok() {
        return Ok(());
    }
    recreate(&mut client, ORDERS)?;
    let next = AtomicU64::new(0);
    // With two loaders, one keeps the server busy while the other makes its next batch.
    std::thread::scope(|scope| -> Result<()> {
        let loaders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut client = Client::connect(uri)?;
                    let mut batch = Vec::new();
                    loop {
                        let from = next.fetch_add(BATCH, Ordering::Relaxed);
                        if from >= docs {
                            return Ok(());
                        }
                        insert_batch(
                            &mut client,
                            ORDERS,
                            from..(from + BATCH).min(docs),
                            docs,
                            &mut batch,
                        )?;
                        progress(from.min(docs));
                    }
                })
            })
            .collect();
        for loader in loaders {
            loader.join().unwrap_or_else(|_| bail!("a loader panicked"))?;
        }
        Ok(())
    })
}

/// Inserts documents with consecutive `_id`s in one command.
pub(crate) fn insert_batch(
    client: &mut Client,
    collection: &str,
    ids: std::ops::Range<u64>,
    docs: u64,
    batch: &mut Vec<u8>,
) -> Result<()> {
    batch.clear();
    let count = ids.end - ids.start;
    for id in ids {
        data::write_order(batch, id, docs);
    }
    let body = DocBuf::build(|out| {
        out.str("insert", collection).bool("ordered", true);
        durable(out);
        out.str("$db", DATABASE);
    });
    let reply = client.exchange(DATABASE, body.as_doc(), "documents", batch)?;
    expect_count(RawDoc::new(reply), count)
}

fn durable(out: &mut Writer<'_>) {
    out.doc("writeConcern", |concern| {
        concern.i32("w", 1).bool("j", true);
    });
}

/// What the connections of one run share.
pub(crate) struct Shared {
    pub(crate) docs: u64,
    pub(crate) zipf: Option<Zipf>,
    /// The next document of a load or of the insert workload.
    next: AtomicU64,
}

impl Shared {
    /// Prepares a run of a workload over `docs` documents.
    pub(crate) fn new(workload: &Workload, docs: u64) -> Shared {
        let zipf = matches!(workload.kind, Kind::Mixed(_)).then(|| Zipf::new(docs));
        Shared { docs, zipf, next: AtomicU64::new(0) }
    }
}

/// A connection with the state of its workload.
pub(crate) struct Worker<'s> {
    client: Client,
    kind: Kind,
    shared: &'s Shared,
    dice: Dice,
    body: Vec<u8>,
    batch: Vec<u8>,
}

impl<'s> Worker<'s> {
    /// Connects. `seed` determines the requests of this worker.
    pub(crate) fn connect(
        uri: &str,
        workload: &Workload,
        shared: &'s Shared,
        seed: u64,
    ) -> Result<Worker<'s>> {
        let client = Client::connect(uri)?;
        let kind = workload.kind;
        let dice = Dice::new(seed);
        Ok(Worker { client, kind, shared, dice, body: Vec::new(), batch: Vec::new() })
    }

    /// Runs one operation. Returns how many operations it counts as, 0 when none is left.
    pub(crate) fn step(&mut self) -> Result<u64> {
        let docs = self.shared.docs;
        match self.kind {
            Kind::Bulk => {
                let from = self.shared.next.fetch_add(BATCH, Ordering::Relaxed);
                if from >= docs {
                    return Ok(0);
                }
                let ids = from..(from + BATCH).min(docs);
                let count = ids.end - ids.start;
                insert_batch(&mut self.client, BULK, ids, docs, &mut self.batch)?;
                return Ok(count);
            }
            Kind::PointRead => {
                let id = self.dice.below(docs);
                self.point_read(id)?;
            }
            Kind::Secondary => {
                let customer = self.dice.below(data::customers(docs));
                self.find(|out| {
                    out.doc("filter", |filter| {
                        filter.i32("customer", customer as i32);
                    });
                })?;
            }
            Kind::Range => {
                let from = data::created_ms(self.dice.below(docs.saturating_sub(20).max(1)));
                let found = self.find(|out| {
                    out.doc("filter", |filter| {
                        filter.doc("created", |range| {
                            range.append("$gte", Val::DateTime(from));
                        });
                    });
                    out.doc("sort", |sort| {
                        sort.i32("created", 1);
                    });
                    out.i32("limit", 20);
                })?;
                if found != docs.min(20) {
                    bail!("a range read found {found} documents instead of 20");
                }
            }
            Kind::Insert => {
                let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
                self.batch.clear();
                data::write_order(&mut self.batch, id, docs);
                self.command(|out| {
                    out.str("insert", INSERTS);
                    durable(out);
                });
                let reply = self.client.exchange(
                    DATABASE,
                    RawDoc::new(&self.body),
                    "documents",
                    &self.batch,
                )?;
                expect_count(RawDoc::new(reply), 1)?;
            }
            Kind::Update => {
                let id = self.dice.below(docs);
                self.update(id)?;
            }
            Kind::Mixed(reads) => {
                let id = match &self.shared.zipf {
                    Some(zipf) => zipf.draw(&mut self.dice),
                    None => self.dice.below(docs),
                };
                if self.dice.below(100) < reads {
                    self.point_read(id)?;
                } else {
                    self.update(id)?;
                }
            }
            Kind::Scan => {
                let least = self.dice.below(15) as i32;
                self.command(|out| {
                    out.str("count", ORDERS);
                    out.doc("query", |query| {
                        query.str("region", "coast");
                        query.doc("quantity", |range| {
                            range.i32("$gte", least);
                        });
                    });
                });
                let reply = self.exchange()?;
                if reply.get("n").and_then(Val::as_i64_exact).unwrap_or(0) == 0 && docs > 1000 {
                    bail!("a scan found nothing");
                }
            }
            Kind::UpdateMany => {
                let count = docs.min(MANY);
                self.command(|out| {
                    out.str("update", ORDERS);
                    out.array("updates", |updates| {
                        updates.push_doc(|update| {
                            update.doc("q", |query| {
                                query.doc("_id", |range| {
                                    range.i64("$lt", count as i64);
                                });
                            });
                            update.doc("u", |change| {
                                change.doc("$inc", |inc| {
                                    inc.i32("version", 1);
                                });
                            });
                            update.bool("multi", true);
                        });
                    });
                    durable(out);
                });
                let reply = self.exchange()?;
                expect_count(reply, count)?;
                return Ok(count);
            }
            Kind::IndexBuild => {
                let drop = DocBuf::build(|out| {
                    out.str("dropIndexes", ORDERS).str("index", "total_1");
                });
                match self.client.run(DATABASE, &drop) {
                    Ok(_) => {}
                    Err(error) if error.code() == value::Code::INDEX_NOT_FOUND => {}
                    Err(error) => return Err(error).context("cannot drop the index"),
                }
                create_indexes(&mut self.client, ORDERS, &["total"])?;
                return Ok(docs);
            }
        }
        Ok(1)
    }

    fn command(&mut self, fill: impl FnOnce(&mut Writer<'_>)) {
        self.body.clear();
        write_doc(&mut self.body, |out| {
            fill(out);
            out.str("$db", DATABASE);
        });
    }

    fn exchange(&mut self) -> Result<RawDoc<'_>> {
        let reply = self.client.exchange(DATABASE, RawDoc::new(&self.body), "", &[])?;
        Ok(client::check(RawDoc::new(reply))?)
    }

    /// Runs a find and counts what its first batch holds.
    fn find(&mut self, fill: impl FnOnce(&mut Writer<'_>)) -> Result<u64> {
        self.command(|out| {
            out.str("find", ORDERS);
            fill(out);
        });
        let reply = self.exchange()?;
        let batch = reply.get("cursor").and_then(Val::as_doc).and_then(|c| c.get("firstBatch"));
        let batch = batch.and_then(Val::as_array).context("the reply to a find has no batch")?;
        Ok(batch.count() as u64)
    }

    fn point_read(&mut self, id: u64) -> Result<()> {
        let found = self.find(|out| {
            out.doc("filter", |filter| {
                filter.i64("_id", id as i64);
            });
            out.i32("limit", 1).bool("singleBatch", true);
        })?;
        if found != 1 {
            bail!("a point read of _id {id} found {found} documents");
        }
        Ok(())
    }

    fn update(&mut self, id: u64) -> Result<()> {
        let total = self.dice.below(100_000) as f64 / 100.0;
        self.command(|out| {
            out.str("update", ORDERS);
            out.array("updates", |updates| {
                updates.push_doc(|update| {
                    update.doc("q", |query| {
                        query.i64("_id", id as i64);
                    });
                    update.doc("u", |change| {
                        change.doc("$inc", |inc| {
                            inc.i32("version", 1);
                        });
                        change.doc("$set", |set| {
                            set.f64("total", total);
                        });
                    });
                });
            });
            durable(out);
        });
        let reply = self.exchange()?;
        expect_count(reply, 1)
    }
}

/// Checks that a write had its effect: failing requests must not be measured.
fn expect_count(reply: RawDoc<'_>, count: u64) -> Result<()> {
    client::check(reply)?;
    let n = reply.get("n").and_then(Val::as_i64_exact);
    if n != i64::try_from(count).ok() || reply.find("writeErrors").is_some() {
        bail!("a write of {count} documents was answered with {reply:?}");
    }
    Ok(())
}
