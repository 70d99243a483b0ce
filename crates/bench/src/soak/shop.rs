//! The collections with patterns: products with sums over their sales, and pages with copies of
//! their customers. While there are no writes, sums and copies must equal their sources.

use super::super::data::Dice;
use super::super::patterns::{insert, order, run, text};
use super::super::workload::DATABASE;
use super::load::{Load, durable, expect_one, first};
use anyhow::{Result, bail};
use client::Client;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use value::{DocBuf, Val};

/// Numbers of products, of customers, and of pages with copies of customers.
const PRODUCTS: u64 = 1_000;
const CUSTOMERS: u64 = 200;
const PAGES: u64 = 20_000;
/// Sales at a time.
const SALES: u64 = 50_000;
/// Sales between two renamings of a customer.
const SALES_PER_RENAME: u64 = 100;
/// The longest accepted delay of copies.
const COPIES_TIMEOUT: Duration = Duration::from_secs(60);

static DECLARATIONS: &[&str] = &[
    "{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'sales', on: {foreign: \
     'product_id'}, fields: {revenue: {$sum: '$price'}, orders: {$count: {}}}}]}",
    "{createPatterns: 'pages', patterns: [{name: 'customer', kind: 'extendedReference', ref: 'customer._id', \
     from: 'customers', fields: ['name'], into: 'customer'}]}",
];

/// Declares the patterns and fills their collections.
pub(super) fn fill(client: &mut Client) -> Result<()> {
    for declaration in DECLARATIONS {
        run(client, DATABASE, &text(declaration))?;
    }
    let mut fill = |collection: &str, count: u64, write: fn(&mut value::Writer<'_>, u64)| {
        for from in (0..count).step_by(1000) {
            let command = insert(collection, |docs| {
                (from..count.min(from + 1000)).for_each(|id| docs.push_doc(|out| write(out, id)));
            });
            run(client, DATABASE, &command)?;
        }
        anyhow::Ok(())
    };
    fill("products", PRODUCTS, |out, id| {
        out.i64("_id", id.cast_signed());
    })?;
    fill("customers", CUSTOMERS, |out, id| {
        out.i64("_id", id.cast_signed()).str("name", "first");
    })?;
    fill("pages", PAGES, |out, id| {
        out.i64("_id", id.cast_signed()).doc("customer", |customer| {
            customer.i64("_id", (id % CUSTOMERS).cast_signed());
        });
    })?;
    fill("sales", SALES, |out, id| order(out, id, id % PRODUCTS))
}

/// Inserts a sale, deletes the oldest, and renames a customer from time to time.
pub(super) fn keep(load: &Load<'_>, client: &mut Client, life: u64) -> Result<()> {
    let mut dice = Dice::new(load.seed ^ life);
    // After a kill, each end of the range may differ by one from the last acknowledged one.
    let (mut tail, mut head) = (edge(client, 1)?, edge(client, -1)? + 1);
    let mut sales = 0;
    while load.gate.rest(life, Duration::from_millis(1)) {
        let begun = Instant::now();
        let command = DocBuf::build(|out| {
            out.str("insert", "sales").array("documents", |docs| {
                docs.push_doc(|out| order(out, head, dice.below(PRODUCTS)));
            });
            durable(out);
        });
        expect_one(client.run(DATABASE, &command)?.as_doc())?;
        load.record("insert of a sale", begun);
        head += 1;
        while head - tail > SALES {
            let begun = Instant::now();
            let command = text(&format!(
                "{{delete: 'sales', deletes: [{{q: {{_id: {tail}}}, limit: 1}}], writeConcern: {{w: 1, j: true}}}}"
            ));
            expect_one(client.run(DATABASE, &command)?.as_doc())?;
            load.record("delete of a sale", begun);
            tail += 1;
        }
        sales += 1;
        if sales % SALES_PER_RENAME == 0 {
            let (customer, name) = (dice.below(CUSTOMERS), dice.below(1 << 30));
            let command = text(&format!(
                "{{update: 'customers', updates: [{{q: {{_id: {customer}}}, u: {{$set: {{name: 'n{name}'}}}}}}], \
                 writeConcern: {{w: 1, j: true}}}}"
            ));
            expect_one(client.run(DATABASE, &command)?.as_doc())?;
            load.tally.renames.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The first (1) or last (-1) `_id` of the sales.
fn edge(client: &mut Client, order: i32) -> Result<u64> {
    let find =
        text(&format!("{{find: 'sales', sort: {{_id: {order}}}, limit: 1, singleBatch: true}}"));
    let reply = client.run(DATABASE, &find)?;
    let id = first(reply.as_doc()).and_then(|doc| doc.get("_id")).and_then(Val::as_i64_exact);
    match id.and_then(|id| u64::try_from(id).ok()) {
        Some(id) => Ok(id),
        None => bail!("there are no sales"),
    }
}

/// Compares sums and copies with their sources. There must be no other writes.
///
/// # Errors
/// If they differ.
pub(super) fn check(client: &mut Client) -> Result<()> {
    let totals = |client: &mut Client, collection: &str, revenue: &str, orders: &str| {
        // The `$match` prevents an answer from patterns: the documents themselves must be read.
        let command = text(&format!(
            "{{aggregate: '{collection}', cursor: {{}}, pipeline: [{{$match: {{_id: {{$gte: 0}}}}}}, {{$group: \
             {{_id: null, revenue: {{$sum: {revenue}}}, orders: {{$sum: {orders}}}}}}}]}}"
        ));
        let reply = client.run(DATABASE, &command)?;
        let field =
            |name: &str| first(reply.as_doc()).and_then(|doc| doc.get(name)).and_then(Val::as_f64);
        anyhow::Ok((field("revenue"), field("orders")))
    };
    let shown = totals(client, "products", "'$revenue'", "'$orders'")?;
    let wanted = totals(client, "sales", "'$price'", "1")?;
    if shown != wanted {
        bail!("products show the sums {shown:?}, but the sales have {wanted:?}");
    }
    let begun = Instant::now();
    let stale = text(
        "{aggregate: 'pages', cursor: {}, pipeline: [{$lookup: {from: 'customers', localField: 'customer._id', \
         foreignField: '_id', as: 'source'}}, {$match: {$expr: {$ne: ['$customer.name', {$first: '$source.name'}]}}}, \
         {$count: 'n'}]}",
    );
    loop {
        let reply = client.run(DATABASE, &stale)?;
        let Some(found) = first(reply.as_doc()) else { return Ok(()) };
        if begun.elapsed() > COPIES_TIMEOUT {
            bail!("pages hold copies that are not those of their customers: {found:?}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
