//! What changed against another build of MotifDB (`--before`): CPU time per operation of both, which took
//! turns in one run.

use super::Results;
use super::bar::Bar;
use super::process::BEFORE;
use anyhow::Result;
use std::fmt::Write as _;

/// How much dearer than before an operation may be.
const DEARER_MAX: f64 = 1.03;

/// An operation on both builds.
struct Change {
    name: String,
    before_us: f64,
    now_us: f64,
}

impl Change {
    fn ratio(&self) -> f64 {
        self.now_us / self.before_us.max(1e-9)
    }
}

fn changes(results: &Results) -> Vec<Change> {
    let mut changes = Vec::new();
    for (now, before) in results.pairs().filter(|(_, other)| other.server == BEFORE) {
        if let (Some(now_us), Some(before_us)) = (now.cpu_us(), before.cpu_us()) {
            let name = format!("{}, {} connections", now.workload.name, now.connections);
            changes.push(Change { name, before_us, now_us });
        }
    }
    for now in results.aggregate.iter().filter(|line| line.server == "motif") {
        let found = results.aggregate.iter().find(|o| o.server == BEFORE && o.query == now.query);
        if let Some(before) = found {
            let name = format!("aggregate.{}", now.query);
            let (before_us, now_us) = (before.cpu_ms * 1e3, now.cpu_ms * 1e3);
            changes.push(Change { name, before_us, now_us });
        }
    }
    for now in results.patterns.iter().filter(|line| line.server == "motif") {
        let found = results.patterns.iter().find(|o| o.server == BEFORE && o.case == now.case);
        if let Some(before) = found {
            let name = format!("patterns: {}", now.case);
            changes.push(Change { name, before_us: before.cpu_us, now_us: now.cpu_us });
        }
    }
    changes
}

/// Prints all operations that both builds ran.
pub(super) fn table(out: &mut String, results: &Results) -> Result<()> {
    let changes = changes(results);
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(out, "{:32} {:>14} {:>14} {:>8}", "CPU us/op", "before", "now", "ratio")?;
    for change in &changes {
        writeln!(
            out,
            "{:32} {:>14.2} {:>14.2} {:>8.3}",
            change.name,
            change.before_us,
            change.now_us,
            change.ratio()
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// No operation may be dearer than before.
pub(super) fn bars(results: &Results) -> Vec<Bar> {
    let bar = |change: &Change| Bar {
        text: format!(
            "{}: {:.3} times the CPU of before (bar {DEARER_MAX})",
            change.name,
            change.ratio()
        ),
        reached: change.ratio() <= DEARER_MAX,
    };
    changes(results).iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::Line;

    #[test]
    fn an_operation_that_is_dearer_misses_its_bar() {
        let line = |case, server, cpu_us| Line { case, server, cpu_us };
        let patterns = vec![
            line("insert", "motif", 10.2),
            line("insert", BEFORE, 10.0),
            line("page", "motif", 10.4),
            line("page", BEFORE, 10.0),
            line("hours", "motif", 1.0),
        ];
        let results = Results { patterns, ..Results::default() };
        let reached: Vec<bool> = bars(&results).iter().map(|bar| bar.reached).collect();
        assert_eq!(reached, [true, false]);
        let mut text = String::new();
        table(&mut text, &results).unwrap();
        assert!(text.contains("patterns: page") && text.contains("1.040"), "{text}");
    }
}
