//! The cost of a transaction of ten writes over two collections in server CPU. Both servers run as
//! replica sets of one; a standalone mongod has no transactions.

use super::Notes;
use super::process::{Program, Server};
use super::workload::DATABASE;
use anyhow::{Context, Result};
use client::Client;
use std::path::Path;
use std::time::Duration;
use value::{DocBuf, Val, Writer};

/// The collections of the writes.
const COLLECTIONS: [&str; 2] = ["accounts", "moves"];
/// Writes of a transaction, in both collections together.
const WRITES: usize = 10;
/// Transactions of a round.
const TRANSACTIONS: u64 = 1_000;
/// Rounds; the cheapest counts.
const ROUNDS: u64 = 3;

/// The cost of the transactions of one server.
pub(crate) struct Transactions {
    pub(crate) server: &'static str,
    /// Server CPU for each transaction.
    pub(crate) cpu_us: f64,
}

/// Measures one server.
pub(crate) fn measure(
    program: &Program,
    folder: Option<&Path>,
    note: &Notes,
) -> Result<Transactions> {
    let server = Server::start_in_set(program, folder)?;
    let mut client = Client::connect(&server.uri())?;
    for collection in COLLECTIONS {
        let create = DocBuf::build(|out| {
            out.str("create", collection);
        });
        client.run(DATABASE, &create).context("cannot create a collection")?;
    }
    let mut cpu_us = f64::INFINITY;
    for round in 0..ROUNDS {
        server.process().settle(Duration::from_secs(10))?;
        note.say(format!("{}: {TRANSACTIONS} transactions", program.name()));
        let before = server.process().cpu()?;
        for number in 0..TRANSACTIONS {
            transaction(&mut client, (round * TRANSACTIONS + number).cast_signed())?;
        }
        let spent = server.process().cpu()?.saturating_sub(before);
        cpu_us = cpu_us.min(spent.as_secs_f64() * 1e6 / TRANSACTIONS as f64);
    }
    Ok(Transactions { server: program.name(), cpu_us })
}

/// One transaction: five inserts in each collection, a command each, then the commit.
fn transaction(client: &mut Client, number: i64) -> Result<()> {
    for write in 0..WRITES {
        let collection = COLLECTIONS.get(write % 2).copied().unwrap_or_default();
        let insert = DocBuf::build(|out| {
            out.str("insert", collection).array("documents", |docs| {
                docs.push_doc(|doc| {
                    doc.i64("_id", number * 100 + write as i64);
                    doc.str("what", "a move between two accounts").i32("amount", 7);
                });
            });
            inside(out, number);
            if write == 0 {
                out.bool("startTransaction", true);
            }
        });
        client.run(DATABASE, &insert).context("cannot write in a transaction")?;
    }
    let commit = DocBuf::build(|out| {
        out.i32("commitTransaction", 1);
        inside(out, number);
        out.doc("writeConcern", |concern| {
            concern.i32("w", 1).bool("j", true);
        });
    });
    client.run("admin", &commit).context("cannot commit")?;
    Ok(())
}

/// The fields that put a command into a transaction.
fn inside(out: &mut Writer<'_>, number: i64) {
    out.doc("lsid", |lsid| {
        lsid.append("id", Val::Binary(4, b"motif-benchmark!"));
    });
    out.i64("txnNumber", number).bool("autocommit", false);
}
