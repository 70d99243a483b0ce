//! What patterns cost in server CPU, and what they save, compared with doing the same in the
//! application, on the same server and on mongod. All cases take turns in every round; the cheapest
//! round counts. Writes do not wait for the disk: that cost is the same with and without patterns,
//! and would hide the difference.

use super::Notes;
use super::bar::Bar;
use super::beside;
use super::comments;
use super::data::Dice;
use super::process::{Program, Server};
pub(super) use super::requests::{by_id, insert, run, text, update};
use super::workload::DATABASE;
use anyhow::{Context, Result};
use client::Client;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use value::{DocBuf, Val, Writer};

/// Rounds; the cheapest counts.
const ROUNDS: u64 = 5;
/// Single writes of a case in a round; a quarter of that without patterns.
const WRITES: u64 = 40_000;
/// Single reads of a case in a round.
const READS: u64 = 10_000;
/// Orders whose revenue is summed by month.
const ORDERS: u64 = 200_000;
/// Parents of the inserted documents.
const PRODUCTS: u64 = 1_000;
/// Copies of one renamed source.
const COPIES: u64 = 1_000;
/// Nodes of a tree that is moved as a whole: 10 below each, in addition to 2 roots.
const NODES: u64 = 50_000;
/// Milliseconds of the years that orders are spread over.
const TWO_YEARS_MS: u64 = 2 * 365 * 86_400_000;

/// The cost of one case on one server.
pub(crate) struct Line {
    pub(crate) case: &'static str,
    pub(crate) server: &'static str,
    /// Server CPU for each operation.
    pub(crate) cpu_us: f64,
}

/// One measured operation.
struct Case {
    name: &'static str,
    about: &'static str,
    /// Whether it works on a server without patterns.
    plain: bool,
    /// Runs a round and returns its number of operations.
    run: fn(&mut Client, u64) -> Result<u64>,
}

static CASES: &[Case] = &[
    Case {
        name: "insert",
        about: "insert, in a database without patterns",
        plain: true,
        run: |client, round| inserts(client, "motif_bench_plain", "orders", round, false),
    },
    Case {
        name: "insert folded",
        about: "insert, sum and count maintained in its parent",
        plain: false,
        run: |client, round| inserts(client, DATABASE, "orders", round, false),
    },
    Case {
        name: "insert by hand",
        about: "insert, then $inc of the parent's sum and count",
        plain: true,
        run: |client, round| inserts(client, DATABASE, "orders_hand", round, true),
    },
    Case {
        name: "top",
        about: "insert, first five maintained in its parent",
        plain: false,
        run: |client, round| reviews(client, "reviews", round, false),
    },
    Case {
        name: "top by hand",
        about: "insert, then $push with $sort and $slice",
        plain: true,
        run: |client, round| reviews(client, "reviews_hand", round, true),
    },
    Case {
        name: "months",
        about: "read revenue by month",
        plain: false,
        run: |client, _| repeat(client, READS, |_| text("{find: 'sales_by_month', filter: {}}")),
    },
    Case {
        name: "months by hand",
        about: "sum revenue by month over 200 thousand orders",
        plain: true,
        run: |client, _| repeat(client, 5, |_| month_pipeline()),
    },
    Case {
        name: "page",
        about: "twenty orders with copies of their customers",
        plain: false,
        run: |client, _| repeat(client, READS, |dice| page("pages", dice)),
    },
    Case {
        name: "page resolved",
        about: "twenty orders with fields of their customers resolved",
        plain: false,
        run: |client, _| repeat(client, READS, |dice| page("pages_pointer", dice)),
    },
    Case {
        name: "page by hand",
        about: "twenty orders with $lookup of their customers",
        plain: true,
        run: |client, _| repeat(client, READS, page_pipeline),
    },
    Case {
        name: "rename",
        about: "rename a customer with 1,000 copies",
        plain: false,
        run: |client, round| renames(client, "famous", "famous_orders", round, false),
    },
    Case {
        name: "rename resolved",
        about: "rename a customer that 1,000 orders resolve",
        plain: false,
        run: |client, round| renames(client, "famous_pointer", "", round, false),
    },
    Case {
        name: "rename by hand",
        about: "rename, then update 1,000 copies",
        plain: true,
        run: |client, round| renames(client, "famous_hand", "famous_orders_hand", round, true),
    },
    Case {
        name: "move",
        about: "move a subtree of 50 thousand nodes",
        plain: false,
        run: |client, round| moves(client, "nodes", 1, round, NODES),
    },
    Case {
        name: "move resolved",
        about: "move a subtree of 50 thousand nodes that are resolved",
        plain: false,
        run: |client, round| moves(client, "nodes_pointer", 20, round, 10),
    },
    Case {
        name: "subtree",
        about: "find 110 nodes below one by an index on their ancestors",
        plain: false,
        run: |client, _| repeat(client, READS / 10, |dice| below("nodes", dice)),
    },
    Case {
        name: "subtree resolved",
        about: "find 110 nodes below one by walking down, ancestors resolved",
        plain: false,
        run: |client, _| repeat(client, READS / 10, |dice| below("nodes_pointer", dice)),
    },
    Case {
        name: "subtree by hand",
        about: "find 110 nodes below one by $graphLookup",
        plain: true,
        run: |client, _| repeat(client, READS / 10, below_by_hand),
    },
    Case {
        name: "push",
        about: "$push to a post with 50,000 comments, in chunks",
        plain: false,
        run: |client, _| comments::push(client, comments::CHUNKS, 2_000),
    },
    Case {
        name: "push by hand",
        about: "$push to a post with 50,000 comments, one document",
        plain: true,
        run: |client, _| comments::push(client, comments::ONE, 20),
    },
    Case {
        name: "latest",
        about: "the last 20 of 50,000 comments, in chunks",
        plain: false,
        run: |client, _| comments::latest(client, comments::CHUNKS, READS),
    },
    Case {
        name: "latest by hand",
        about: "the last 20 of 50,000 comments by $slice, one document",
        plain: true,
        run: |client, _| comments::latest(client, comments::ONE, 50),
    },
];

/// Measures all servers, taking turns.
pub(crate) fn measure(
    programs: &[Program],
    folder: Option<&Path>,
    note: &Notes,
) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = beside::measure(folder, note)?;
    let mut servers = Vec::new();
    for program in programs {
        let server = Server::start(program, folder)?;
        note.say(format!("{}: loading what patterns are measured on", program.name()));
        let mut client = Client::connect(&server.uri())?;
        load(&mut client, program.has_patterns())?;
        server.process().settle(Duration::from_secs(20))?;
        servers.push((program, server, client));
    }
    for round in 0..ROUNDS {
        for case in CASES {
            for (program, server, client) in &mut servers {
                if !case.plain && !program.has_patterns() {
                    continue;
                }
                let name = program.name();
                note.say(format!("round {}/{ROUNDS}: {} on {name}", round + 1, case.name));
                server.process().settle(Duration::from_secs(5))?;
                let before = server.process().threads()?;
                let operations = (case.run)(client, round).with_context(|| case.about)?;
                let spent = server.process().threads()?.since(&before);
                let cpu_us = spent.as_secs_f64() * 1e6 / operations.max(1) as f64;
                let known = lines.iter_mut().find(|l| l.case == case.name && l.server == name);
                match known {
                    Some(line) => line.cpu_us = line.cpu_us.min(cpu_us),
                    None => lines.push(Line { case: case.name, server: name, cpu_us }),
                }
            }
        }
    }
    Ok(lines)
}

/// Compares the lines with their targets.
pub(crate) fn bars(lines: &[Line]) -> Vec<Bar> {
    let cost = |case: &str| {
        lines.iter().find(|line| line.case == case && line.server == "motif").map(|l| l.cpu_us)
    };
    let mut bars = Vec::new();
    let mut hold = |text: String, reached: bool| bars.push(Bar { text, reached });
    if let (Some(plain), Some(folded), Some(top)) =
        (cost("insert"), cost("insert folded"), cost("top"))
    {
        let adds = folded - plain;
        hold(format!("sum and count add {adds:.1} us to an insert (bar 5)"), adds <= 5.0);
        let adds = top - plain;
        hold(format!("the first five add {adds:.1} us to an insert (bar 10)"), adds <= 10.0);
    }
    let cheaper = |case, hand| Some(cost(hand)? / cost(case)?.max(0.1));
    if let Some(ratio) = cheaper("months", "months by hand") {
        hold(format!("revenue by month: {ratio:.0} times as cheap (bar 1000)"), ratio >= 1000.0);
    }
    if let Some(ratio) = cheaper("page", "page by hand") {
        hold(format!("page with copies: {ratio:.1} times as cheap (bar 2)"), ratio >= 2.0);
    }
    if let Some(ratio) = cheaper("page resolved", "page by hand") {
        hold(format!("page resolved: {ratio:.1} times as cheap as $lookup (bar 1)"), ratio >= 1.0);
    }
    if let Some(us) = cost("move resolved") {
        let ms = us / 1e3;
        hold(format!("move of {NODES} nodes: at most 10 documents written, {ms:.2} ms"), true);
    }
    if let Some(us) = cost("rename") {
        let ms = us / 1e3;
        hold(format!("rename with {COPIES} copies: {ms:.1} ms (bar 20)"), ms < 20.0);
    }
    let on_mongod = |case: &str| {
        let line = lines.iter().find(|line| line.case == case && line.server == "mongod")?;
        Some(line.cpu_us)
    };
    for (case, hand, bar) in [("push", "push by hand", 100.0), ("latest", "latest by hand", 50.0)] {
        if let (Some(own), Some(hand)) = (cost(case), on_mongod(hand)) {
            let ratio = hand / own.max(0.1);
            let text =
                format!("50,000 comments, {case}: {ratio:.0} times as cheap as mongod (bar {bar})");
            hold(text, ratio >= bar);
        }
    }
    bars.extend(beside::bars(lines));
    bars
}

/// Prints the lines as a table.
pub(crate) fn table(out: &mut String, lines: &[Line]) -> Result<()> {
    for line in lines {
        let own = CASES.iter().find(|case| case.name == line.case).map(|case| case.about);
        let Some(about) = own.or_else(|| beside::about(line.case)) else { continue };
        writeln!(out, "{:8} {:>12.1} us CPU  {about}", line.server, line.cpu_us)?;
    }
    Ok(())
}

fn repeat(
    client: &mut Client,
    times: u64,
    mut command: impl FnMut(&mut Dice) -> DocBuf,
) -> Result<u64> {
    let mut dice = Dice::new(times);
    for _ in 0..times {
        run(client, DATABASE, &command(&mut dice))?;
    }
    Ok(times)
}

/// An order of about 200 bytes.
pub(super) fn order(out: &mut Writer<'_>, id: u64, product: u64) {
    out.i64("_id", id.cast_signed()).i64("product_id", product.cast_signed());
    out.i32("price", (id % 90) as i32 + 10).i32("quantity", (id % 3) as i32 + 1);
    out.append(
        "created_at",
        Val::DateTime((id.wrapping_mul(7_919_777) % TWO_YEARS_MS).cast_signed()),
    );
    out.str("status", "paid").str("address", "12 Some Street, 4567 Some Town, Some Country");
    out.str("note", "leave it with the neighbours if nobody is at home");
}

fn inserts(
    client: &mut Client,
    database: &str,
    collection: &str,
    round: u64,
    by_hand: bool,
) -> Result<u64> {
    let mut dice = Dice::new(round);
    let writes = if by_hand { WRITES / 4 } else { WRITES };
    for number in 0..writes {
        let id = 1_000_000 + round * WRITES + number;
        let product = dice.below(PRODUCTS);
        let command = insert(collection, |docs| docs.push_doc(|out| order(out, id, product)));
        run(client, database, &command)?;
        if by_hand {
            let change = text(&format!("{{$inc: {{revenue: {}, orders: 1}}}}", id % 90 + 10));
            run(client, database, &update("products_hand", &by_id(product), &change, false))?;
        }
    }
    Ok(writes)
}

fn reviews(client: &mut Client, collection: &str, round: u64, by_hand: bool) -> Result<u64> {
    let mut dice = Dice::new(round);
    let writes = if by_hand { WRITES / 4 } else { WRITES };
    for number in 0..writes {
        let id = round * WRITES + number;
        let (product, rating) = (dice.below(PRODUCTS), dice.below(1000));
        let command = insert(collection, |docs| {
            docs.push_doc(|out| {
                out.i64("_id", id.cast_signed()).i64("product_id", product.cast_signed());
                out.i32("rating", rating as i32).str("headline", "a thing that does what it says");
                out.str("author", "somebody").str(
                    "text",
                    "It came in time, it works, and the colour is the one that was shown.",
                );
            });
        });
        run(client, DATABASE, &command)?;
        if by_hand {
            let change = text(&format!(
                "{{$push: {{top: {{$each: [{{review_id: {id}, rating: {rating}, headline: 'a thing that does what \
                 it says', author: 'somebody'}}], $sort: {{rating: -1}}, $slice: 5}}}}}}"
            ));
            run(client, DATABASE, &update("rated_hand", &by_id(product), &change, false))?;
        }
    }
    Ok(writes)
}

/// The pipeline that the maintained months replace. It reads a copy of the orders without patterns;
/// otherwise it would be answered from the maintained months.
fn month_pipeline() -> DocBuf {
    text(
        "{aggregate: 'sold_hand', pipeline: [{$group: {_id: {$dateTrunc: {date: '$created_at', unit: 'month'}}, revenue: \
         {$sum: '$price'}, orders: {$sum: 1}}}], cursor: {}}",
    )
}

fn page(collection: &str, dice: &mut Dice) -> DocBuf {
    text(&format!(
        "{{find: '{collection}', filter: {{_id: {{$gte: {}}}}}, limit: 20}}",
        dice.below(10_000)
    ))
}

/// A node of the tree that is moved: node 0 is its top, nodes -1 and -2 are the roots.
fn node(out: &mut Writer<'_>, id: u64) {
    out.i64("_id", id.cast_signed() - 2).str("name", "some node of some tree");
    match id {
        0 | 1 => {}
        2 => drop(out.i64("parent", -1)),
        _ => drop(out.i64("parent", (id.cast_signed() - 3) / 10)),
    }
}

/// A random node that has 10 children and 100 grandchildren.
fn top_of_110(dice: &mut Dice) -> u64 {
    111 + dice.below(300)
}

fn below(collection: &str, dice: &mut Dice) -> DocBuf {
    let top = top_of_110(dice);
    text(&format!(
        "{{find: '{collection}', filter: {{ancestors: NumberLong({top})}}, batchSize: 200}}"
    ))
}

fn below_by_hand(dice: &mut Dice) -> DocBuf {
    let top = top_of_110(dice);
    text(&format!(
        "{{aggregate: 'nodes_hand', pipeline: [{{$match: {{_id: NumberLong({top})}}}}, {{$graphLookup: {{from: \
         'nodes_hand', startWith: '$_id', connectFromField: '_id', connectToField: 'parent', as: 'below'}}}}, \
         {{$unwind: '$below'}}, {{$replaceRoot: {{newRoot: '$below'}}}}], cursor: {{batchSize: 200}}}}"
    ))
}

/// Moves the tree from one root to the other. Fails if that writes more documents than it may.
fn moves(client: &mut Client, collection: &str, times: u64, round: u64, most: u64) -> Result<u64> {
    let written = |client: &mut Client| -> Result<u64> {
        let status = client.run(DATABASE, &text("{serverStatus: 1}"))?;
        let patterns = status.as_doc().get("patterns").and_then(Val::as_doc);
        let writes = patterns.and_then(|p| p.get("writes")).and_then(Val::as_i64_exact);
        Ok(writes.context("no section of patterns in serverStatus")?.cast_unsigned())
    };
    let before = written(client)?;
    for number in 0..times {
        let root = if (round * times + number).is_multiple_of(2) { -2 } else { -1 };
        let change = text(&format!("{{$set: {{parent: NumberLong({root})}}}}"));
        let top = text("{_id: NumberLong(0)}");
        run(client, DATABASE, &update(collection, &top, &change, false))?;
    }
    // One document is written by the statement itself.
    let each = (written(client)? - before) / times + 1;
    anyhow::ensure!(each <= most, "a move wrote {each} documents");
    Ok(times)
}

fn page_pipeline(dice: &mut Dice) -> DocBuf {
    text(&format!(
        "{{aggregate: 'pages_hand', pipeline: [{{$match: {{_id: {{$gte: {}}}}}}}, {{$limit: 20}}, {{$lookup: {{from: \
         'customers', localField: 'customer._id', foreignField: '_id', as: 'customer'}}}}], cursor: {{}}}}",
        dice.below(10_000)
    ))
}

fn renames(
    client: &mut Client,
    sources: &str,
    orders: &str,
    round: u64,
    by_hand: bool,
) -> Result<u64> {
    const RENAMES: u64 = 20;
    for number in 0..RENAMES {
        let name = format!("name {round} {number}");
        let change = DocBuf::build(|out| {
            out.doc("$set", |out| {
                out.str("name", &name);
            });
        });
        run(client, DATABASE, &update(sources, &by_id(1), &change, false))?;
        if by_hand {
            let change = DocBuf::build(|out| {
                out.doc("$set", |out| {
                    out.str("customer.name", &name);
                });
            });
            let copies = text("{'customer._id': 1}");
            run(client, DATABASE, &update(orders, &copies, &change, true))?;
        }
    }
    Ok(RENAMES)
}

/// Fills the collections and declares the patterns.
fn load(client: &mut Client, with_patterns: bool) -> Result<()> {
    comments::load(client, with_patterns)?;
    let many = |client: &mut Client, name: &str, count: u64, write: fn(&mut Writer<'_>, u64)| {
        for from in (0..count).step_by(1000) {
            let command = insert(name, |docs| {
                for id in from..(from + 1000).min(count) {
                    docs.push_doc(|out| write(out, id));
                }
            });
            run(client, DATABASE, &command)?;
        }
        anyhow::Ok(())
    };
    let named = |out: &mut Writer<'_>, id: u64| {
        out.i64("_id", id.cast_signed()).str("name", "somebody or something");
        out.str("email", "somebody@example.com").str("street", "12 Some Street, 4567 Some Town");
    };
    let refers = |out: &mut Writer<'_>, id: u64| {
        order(out, id, id % PRODUCTS);
        out.doc("customer", |out| {
            out.i64("_id", (id % PRODUCTS).cast_signed());
        });
    };
    let to_one = |out: &mut Writer<'_>, id: u64| {
        order(out, id, id % PRODUCTS);
        out.doc("customer", |out| {
            out.i64("_id", 1).str("name", "first");
        });
    };
    // Lists make all other writes to their document more expensive, so sums and lists have different parents.
    for name in ["products", "products_hand", "rated", "rated_hand", "customers"] {
        many(client, name, PRODUCTS, named)?;
    }
    for name in ["sold", "sold_hand"] {
        many(client, name, ORDERS, |out, id| order(out, id, id % PRODUCTS))?;
    }
    for name in ["pages", "pages_hand", "pages_pointer"] {
        many(client, name, 11_000, refers)?;
    }
    many(client, "nodes_hand", NODES + 2, node)?;
    run(
        client,
        DATABASE,
        &text("{createIndexes: 'nodes_hand', indexes: [{key: {parent: 1}, name: 'p'}]}"),
    )?;
    if with_patterns {
        many(client, "nodes", NODES + 2, node)?;
        many(client, "nodes_pointer", NODES + 2, node)?;
        let index = "{createIndexes: 'nodes', indexes: [{key: {ancestors: 1}, name: 'a'}]}";
        run(client, DATABASE, &text(index))?;
    }
    let famous = [
        ("famous", "famous_orders"),
        ("famous_hand", "famous_orders_hand"),
        ("famous_pointer", "famous_orders_pointer"),
    ];
    for (sources, orders) in famous {
        many(client, sources, 10, named)?;
        many(client, orders, COPIES, to_one)?;
    }
    let index =
        "{createIndexes: 'famous_orders_hand', indexes: [{key: {'customer._id': 1}, name: 'c'}]}";
    run(client, DATABASE, &text(index))?;
    if !with_patterns {
        return Ok(());
    }
    let declarations = [
        "{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders', on: {foreign: \
         'product_id'}, fields: {revenue: {$sum: '$price'}, orders: {$count: {}}}}]}",
        "{createPatterns: 'rated', patterns: [{name: 'top', kind: 'subset', from: 'reviews', into: 'top', on: {foreign: \
         'product_id'}, sort: {rating: -1}, limit: 5, fields: ['rating', 'headline', 'author'], idAs: 'review_id'}]}",
        "{createPatterns: 'sold', patterns: [{name: 'months', kind: 'computed', into: 'sales_by_month', groupBy: \
         {$dateTrunc: {date: '$created_at', unit: 'month'}}, fields: {revenue: {$sum: '$price'}, orders: {$count: {}}}}]}",
        "{createPatterns: 'pages', patterns: [{name: 'customer', kind: 'extendedReference', ref: 'customer._id', from: \
         'customers', fields: ['name', 'email'], into: 'customer'}]}",
        "{createPatterns: 'pages_pointer', patterns: [{name: 'customer', kind: 'extendedReference', strategy: 'pointer', \
         ref: 'customer._id', from: 'customers', fields: ['name', 'email'], into: 'customer'}]}",
        "{createPatterns: 'famous_orders_pointer', patterns: [{name: 'customer', kind: 'extendedReference', strategy: \
         'pointer', ref: 'customer._id', from: 'famous_pointer', fields: ['name'], into: 'customer'}]}",
        "{createPatterns: 'nodes', patterns: [{name: 'tree', kind: 'tree', maintain: {ancestors: 'ancestors', path: {into: \
         'path'}, depth: 'depth'}}]}",
        "{createPatterns: 'nodes_pointer', patterns: [{name: 'tree', kind: 'tree', strategy: 'pointer', maintain: \
         {ancestors: 'ancestors', path: {into: 'path'}, depth: 'depth'}}]}",
        "{createPatterns: 'famous_orders', patterns: [{name: 'customer', kind: 'extendedReference', ref: \
         'customer._id', from: 'famous', fields: ['name'], into: 'customer'}]}",
    ];
    for declaration in declarations {
        run(client, DATABASE, &text(declaration))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_well_formed_and_bars_compare_what_was_measured() {
        assert!(month_pipeline().as_doc().find("pipeline").is_some());
        assert!(page_pipeline(&mut Dice::new(1)).as_doc().find("pipeline").is_some());
        let line = |case, cpu_us| Line { case, server: "motif", cpu_us };
        let lines = [
            line("insert", 50.0),
            line("insert folded", 56.0),
            line("top", 58.0),
            line("months", 10.0),
            line("months by hand", 50_000.0),
        ];
        let reached: Vec<bool> = bars(&lines).iter().map(|bar| bar.reached).collect();
        assert_eq!(reached, [false, true, true]);
    }
}
