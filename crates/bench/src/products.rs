//! Products with many attributes, and products with a large description: what it costs to find the
//! first by one of their attributes, and to list the second without their descriptions.

use super::Notes;
use super::bar::Bar;
use super::data::Dice;
use super::patterns::{Line, insert, run, text};
use super::process::{Program, Server};
use super::workload::DATABASE;
use anyhow::{Context, Result};
use client::Client;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use value::path::Path as FieldPath;
use value::{DocBuf, Writer};

/// Products with attributes.
const PRODUCTS: u64 = 100_000;
/// Names of attributes; a product has ten of them, and a code that ten products share.
const NAMES: u64 = 300;
/// Products with a description.
const DESCRIBED: u64 = 200;
/// Bytes of a description.
const DESCRIPTION: usize = 200_000;
/// Rounds; the cheapest counts.
const ROUNDS: usize = 5;

/// A measured query.
struct Case {
    name: &'static str,
    about: &'static str,
    /// Whether it works on a server without patterns.
    plain: bool,
    /// Queries in a round.
    times: u64,
    command: fn(&mut Dice) -> DocBuf,
}

static CASES: &[Case] = &[
    Case {
        name: "attribute",
        about: "ten of 100 thousand products by an attribute, index of the pattern",
        plain: false,
        times: 5_000,
        command: |dice| by_code("attributes", dice),
    },
    Case {
        name: "attribute pairs",
        about: "the same by a filter on pairs",
        plain: false,
        times: 5_000,
        command: |dice| {
            text(&format!(
                "{{find: 'attributes', filter: {{pairs: {{$elemMatch: {{k: 'code', v: {}}}}}}}}}",
                code(dice)
            ))
        },
    },
    Case {
        name: "attribute stored as pairs",
        about: "the same, stored with layout: \"array\"",
        plain: false,
        times: 5_000,
        command: |dice| by_code("stored_pairs", dice),
    },
    Case {
        name: "attribute index",
        about: "the same by a dedicated index",
        plain: true,
        times: 5_000,
        command: |dice| by_code("dedicated", dice),
    },
    Case {
        name: "attribute scan",
        about: "the same without an index",
        plain: true,
        times: 3,
        command: |dice| by_code("unindexed", dice),
    },
    Case {
        name: "listing",
        about: "list 200 products whose descriptions of 200 KB are cold",
        plain: false,
        times: 200,
        command: |_| listing("cold"),
    },
    Case {
        name: "listing plain",
        about: "list 200 products with descriptions of 200 KB",
        plain: true,
        times: 10,
        command: |_| listing("warm"),
    },
];

fn code(dice: &mut Dice) -> u64 {
    dice.below(PRODUCTS / 10)
}

fn by_code(collection: &str, dice: &mut Dice) -> DocBuf {
    text(&format!("{{find: '{collection}', filter: {{'specs.code': {}}}}}", code(dice)))
}

fn listing(collection: &str) -> DocBuf {
    text(&format!(
        "{{find: '{collection}', filter: {{}}, projection: {{name: 1, price: 1}}, batchSize: {DESCRIBED}}}"
    ))
}

/// Prints the lines as a table.
pub(super) fn table(out: &mut String, lines: &[Line]) -> Result<()> {
    for line in lines {
        if line.case == SHARE {
            let about = "of the bytes of all documents are read by that listing";
            writeln!(out, "{:8} {:>12.4} %       {about}", line.server, line.cpu_us * 100.0)?;
        } else if let Some(case) = CASES.iter().find(|case| case.name == line.case) {
            writeln!(out, "{:8} {:>12.1} us CPU  {}", line.server, line.cpu_us, case.about)?;
        }
    }
    Ok(())
}

/// The line with the bytes that a listing reads, as a share of all.
const SHARE: &str = "listing bytes";

fn product(out: &mut Writer<'_>, id: u64) {
    out.i64("_id", id.cast_signed()).str("name", "some product with a name");
    out.i32("price", (id % 900) as i32).doc("specs", |out| {
        out.i64("code", (id.wrapping_mul(7919) % (PRODUCTS / 10)).cast_signed());
        for place in 0..10 {
            let name = format!("attribute {}", (id * 37 + place * 29) % NAMES);
            out.i32(&name, (id % 50) as i32);
        }
    });
}

fn described(out: &mut Writer<'_>, id: u64) {
    out.i64("_id", id.cast_signed()).str("name", "some product with a name");
    out.i32("price", (id % 900) as i32);
    out.str("description", &"a word and ".repeat(DESCRIPTION / 11)).str("brand", "some brand");
}

fn load(client: &mut Client, with_patterns: bool) -> Result<()> {
    if with_patterns {
        for declaration in [
            "{createPatterns: 'attributes', patterns: [{name: 'specs', kind: 'attribute', from: 'specs', as: 'pairs'}]}",
            "{createPatterns: 'stored_pairs', patterns: [{name: 'specs', kind: 'attribute', from: 'specs', layout: 'array'}]}",
            "{createPatterns: 'cold', patterns: [{name: 'cold', kind: 'subset', cold: ['description']}]}",
        ] {
            run(client, DATABASE, &text(declaration))?;
        }
    }
    let index = "{createIndexes: 'dedicated', indexes: [{key: {'specs.code': 1}, name: 'code'}]}";
    run(client, DATABASE, &text(index))?;
    let mut fill = |name: &str, count: u64, batch: u64, write: fn(&mut Writer<'_>, u64)| {
        for from in (0..count).step_by(batch as usize) {
            let command = insert(name, |docs| {
                (from..from + batch).for_each(|id| docs.push_doc(|out| write(out, id)));
            });
            run(client, DATABASE, &command)?;
        }
        anyhow::Ok(())
    };
    let patterned = ["attributes", "stored_pairs"].into_iter().filter(|_| with_patterns);
    for name in patterned.chain(["dedicated", "unindexed"]) {
        fill(name, PRODUCTS, 1000, product)?;
    }
    for name in ["cold"].into_iter().filter(|_| with_patterns).chain(["warm"]) {
        fill(name, DESCRIBED, 20, described)?;
    }
    Ok(())
}

/// Measures all servers, taking turns.
pub(super) fn measure(
    programs: &[Program],
    folder: Option<&Path>,
    note: &Notes,
) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut servers = Vec::new();
    for program in programs {
        let server = Server::start(program, folder)?;
        note.say(format!("{}: loading products", program.name()));
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
                let mut dice = Dice::new(round as u64);
                let before = server.process().threads()?;
                for _ in 0..case.times {
                    run(client, DATABASE, &(case.command)(&mut dice))?;
                }
                let spent = server.process().threads()?.since(&before);
                let cpu_us = spent.as_secs_f64() * 1e6 / case.times as f64;
                let known = lines.iter_mut().find(|l| l.case == case.name && l.server == name);
                match known {
                    Some(line) => line.cpu_us = line.cpu_us.min(cpu_us),
                    None => lines.push(Line { case: case.name, server: name, cpu_us }),
                }
            }
        }
    }
    for (program, _, client) in &mut servers {
        if program.has_patterns() {
            let share = share_read(client)?;
            lines.push(Line { case: SHARE, server: program.name(), cpu_us: share });
        }
    }
    Ok(lines)
}

/// The bytes that the listing reads, as a share of those of all documents.
fn share_read(client: &mut Client) -> Result<f64> {
    let explain = DocBuf::build(|out| {
        let find = listing("cold");
        out.doc("explain", |out| {
            out.extend(find.as_doc());
        });
        out.str("verbosity", "executionStats");
    });
    let read = client.run(DATABASE, &explain)?;
    let read = FieldPath::new("executionStats.bytesRead").get(read.as_doc()).as_f64();
    let all = client.run(DATABASE, &text("{collStats: 'cold'}"))?;
    let all = all.as_doc().get("size").and_then(value::Val::as_f64).filter(|bytes| *bytes > 0.0);
    Ok(read.context("no bytesRead in explain")? / all.context("no size in collStats")?)
}

/// The bars of what was measured.
pub(super) fn bars(lines: &[Line]) -> Vec<Bar> {
    let of = |case: &str| {
        lines.iter().find(|line| line.case == case && line.server == "motif").map(|l| l.cpu_us)
    };
    let mut bars = Vec::new();
    let mut hold = |text: String, reached: bool| bars.push(Bar { text, reached });
    if let (Some(scan), Some(index)) = (of("attribute scan"), of("attribute index")) {
        for case in ["attribute", "attribute pairs", "attribute stored as pairs"] {
            let Some(cost) = of(case) else { continue };
            let (times, ratio) = (scan / cost.max(0.1), cost / index.max(0.1));
            hold(format!("{case}: {times:.0} times as cheap as a scan (bar 50)"), times >= 50.0);
            hold(format!("{case}: {ratio:.2} times a dedicated index (bar 1.3)"), ratio <= 1.3);
        }
    }
    if let Some(share) = of(SHARE) {
        let percent = share * 100.0;
        hold(format!("the listing reads {percent:.3} % of the bytes (bar 1 %)"), share < 0.01);
    }
    bars
}
