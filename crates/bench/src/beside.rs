//! The cost of patterns for collections that have none. Three servers have the same data; on one of
//! them, patterns are declared on other collections. All run the same operations in turns, many
//! times; the cheapest quarter of the turns counts, since other processes only add to the cost. The
//! placement of its memory makes a process some percent faster or slower as long as it runs, so all
//! servers are restarted several times, and the two without patterns show how much equal servers differ.

use super::Notes;
use super::bar::Bar;
use super::patterns::{Line, by_id, insert, order, run, text, update};
use super::process::{Program, Server};
use super::workload::DATABASE;
use anyhow::{Context, Result};
use client::Client;
use std::path::Path;
use std::time::Duration;
use value::DocBuf;

/// How often all servers are started.
const STARTS: u64 = 6;
/// Turns of each server with each case.
const TURNS: u64 = 12;
/// Operations in a turn.
const OPERATIONS: u64 = 4_000;
/// Documents at the beginning.
const DOCUMENTS: u64 = 20_000;
/// The largest accepted additional cost of an operation, as a share.
const MORE_MAX: f64 = 0.02;
/// The names of the servers that have no patterns.
const PLAIN: &str = "plain";
const PLAIN_TOO: &str = "plain too";
/// The collection without patterns.
const UNRELATED: &str = "unrelated";

/// An operation; its function makes the request from the number of the operation.
struct Case {
    name: &'static str,
    about: &'static str,
    command: fn(u64) -> DocBuf,
}

static CASES: &[Case] = &[
    Case {
        name: "unrelated insert",
        about: "insert into a collection without patterns",
        command: |number| {
            insert(UNRELATED, |docs| docs.push_doc(|out| order(out, DOCUMENTS + number, 1)))
        },
    },
    Case {
        name: "unrelated update",
        about: "update in a collection without patterns, by _id",
        command: |number| {
            update(UNRELATED, &by_id(some(number)), &text("{$inc: {quantity: 1}}"), false)
        },
    },
    Case {
        name: "unrelated read",
        about: "read from a collection without patterns, by _id",
        command: |number| {
            text(&format!("{{find: '{UNRELATED}', filter: {{_id: {}}}, limit: 1}}", some(number)))
        },
    },
];

/// The `_id` of one of the documents.
fn some(number: u64) -> u64 {
    number.wrapping_mul(7919) % DOCUMENTS
}

/// The declarations of patterns on other collections.
static DECLARATIONS: &[&str] = &[
    "{createPatterns: 'products', patterns: [{name: 'sales', kind: 'computed', from: 'orders', on: {foreign: \
     'product_id'}, fields: {revenue: {$sum: '$price'}, orders: {$count: {}}}}]}",
    "{createPatterns: 'pages', patterns: [{name: 'customer', kind: 'extendedReference', ref: 'customer._id', from: \
     'customers', fields: ['name', 'email'], into: 'customer'}]}",
    "{createPatterns: 'places', patterns: [{name: 'tree', kind: 'tree', parent: 'parent', maintain: {ancestors: 'ancestors'}}]}",
];

/// Measures all cases.
pub(crate) fn measure(folder: Option<&Path>, note: &Notes) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    for start in 0..STARTS {
        for line in measure_once(folder, note, start)? {
            let same = |known: &&mut Line| known.case == line.case && known.server == line.server;
            match lines.iter_mut().find(same) {
                Some(known) => known.cpu_us += line.cpu_us,
                None => lines.push(line),
            }
        }
    }
    lines.iter_mut().for_each(|line| line.cpu_us /= STARTS as f64);
    Ok(lines)
}

/// Starts all servers and measures each case on them.
fn measure_once(folder: Option<&Path>, note: &Notes, start: u64) -> Result<Vec<Line>> {
    let mut servers = Vec::new();
    for name in [PLAIN, PLAIN_TOO, Program::Motif.name()] {
        let server = Server::start(&Program::Motif, folder)?;
        let mut client = Client::connect(&server.uri())?;
        for from in (0..DOCUMENTS).step_by(1000) {
            let command = insert(UNRELATED, |docs| {
                (from..from + 1000).for_each(|id| docs.push_doc(|out| order(out, id, 1)));
            });
            run(&mut client, DATABASE, &command)?;
        }
        let declared = DECLARATIONS.iter().filter(|_| name == Program::Motif.name());
        for declaration in declared {
            run(&mut client, DATABASE, &text(declaration))?;
        }
        server.process().settle(Duration::from_secs(5))?;
        servers.push((name, server, client, vec![Vec::new(); CASES.len()]));
    }
    for turn in 0..TURNS {
        let (now, all) = (start * TURNS + turn + 1, STARTS * TURNS);
        note.say(format!("turn {now}/{all}: beside patterns and without any"));
        for (at, case) in CASES.iter().enumerate() {
            // The first server in a turn finds other cache contents than the rest.
            servers.rotate_left(1);
            for (_, server, client, costs) in &mut servers {
                let before = server.process().threads()?;
                for number in 0..OPERATIONS {
                    run(client, DATABASE, &(case.command)(turn * OPERATIONS + number))?;
                }
                let spent = server.process().threads()?.since(&before);
                let costs = costs.get_mut(at).context("every case has its costs")?;
                costs.push(spent.as_secs_f64() * 1e6 / OPERATIONS as f64);
            }
        }
    }
    let mut lines = Vec::new();
    for (name, _, _, costs) in servers {
        for (case, costs) in CASES.iter().zip(costs) {
            lines.push(Line { case: case.name, server: name, cpu_us: cheapest(costs) });
        }
    }
    Ok(lines)
}

/// The mean of the cheapest quarter.
fn cheapest(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs.truncate((costs.len() / 4).max(1));
    costs.iter().sum::<f64>() / costs.len().max(1) as f64
}

/// The description of a case.
pub(crate) fn about(case: &str) -> Option<&'static str> {
    CASES.iter().find(|known| known.name == case).map(|known| known.about)
}

/// Compares the lines with their targets.
pub(crate) fn bars(lines: &[Line]) -> Vec<Bar> {
    let cost = |case: &Case, server: &str| {
        lines.iter().find(|line| line.case == case.name && line.server == server)
    };
    let bar = |case: &Case| {
        let (plain, beside) = (cost(case, PLAIN)?, cost(case, Program::Motif.name())?);
        let more = |line: &Line, than: f64| line.cpu_us / than.max(0.1) - 1.0;
        let too = cost(case, PLAIN_TOO).unwrap_or(plain);
        // Both servers without patterns are equally valid references.
        let (mean, among) = (f64::midpoint(plain.cpu_us, too.cpu_us), more(too, plain.cpu_us));
        let more = more(beside, mean);
        let text = format!(
            "{} costs {:+.1} % beside patterns on other collections (bar 2; two servers without patterns differ by {:.1} %)",
            case.name,
            more * 100.0,
            among.abs() * 100.0
        );
        Some(Bar { text, reached: more <= MORE_MAX })
    };
    CASES.iter().filter_map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_quarter_counts_and_two_percent_are_allowed() {
        assert!((cheapest(vec![9.0, 1.0, 5.0, 2.0, 7.0, 8.0, 6.0, 3.0]) - 1.5).abs() < 1e-9);
        let line = |case, server, cpu_us| Line { case, server, cpu_us };
        let lines = [
            line("unrelated insert", PLAIN, 10.0),
            line("unrelated insert", "motif", 10.1),
            line("unrelated read", PLAIN, 10.0),
            line("unrelated read", "motif", 10.3),
        ];
        let reached: Vec<bool> = bars(&lines).iter().map(|bar| bar.reached).collect();
        assert_eq!(reached, [true, false]);
        for case in CASES {
            assert!(!(case.command)(1).as_doc().is_empty(), "{}", case.name);
        }
    }
}
