//! Patterns with `strategy: "auto"`: the strategy is revised periodically from the reads and writes
//! of the last period, and changed as `modifyPattern` would.
//!
//! With copies, a change of a source writes each of its targets. With pointers, each read of a
//! target looks up its source. Both numbers are counted anyway.

use super::Maintenance;
use crate::txn::Data;
use ::patterns::stats::Stats;
use ::patterns::{Pattern, Phase};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use value::{DocBuf, Result, Writer};

/// The cost of writing a target, in look-ups of a source.
const WRITE: u64 = 5;
/// The factor by which the other strategy must have been cheaper.
const MARGIN: u64 = 2;
/// Minimum cost in a period, in look-ups, that justifies a change.
const WORK_MIN: u64 = 10_000;
/// Default length of a period.
const PERIOD_SECONDS: i64 = 3600;

/// Measurements of patterns whose strategy is `auto`.
pub struct Strategies {
    seen: Mutex<HashMap<u32, PeriodStart>>,
    period_seconds: AtomicI64,
}

/// The counters at the beginning of a period.
#[derive(Clone, Copy)]
struct PeriodStart {
    at: Instant,
    rates: Rates,
}

/// The measurements that decide.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rates {
    /// Changes of copied fields of sources.
    changes: u64,
    /// Documents of the target that queries read.
    reads: u64,
    /// Average number of targets per source.
    followers: u64,
    /// Documents of the target.
    documents: u64,
}

impl Default for Strategies {
    fn default() -> Strategies {
        Strategies { seen: Mutex::default(), period_seconds: AtomicI64::new(PERIOD_SECONDS) }
    }
}

impl Strategies {
    /// Returns the length of a period in seconds.
    pub(crate) fn period_seconds(&self) -> i64 {
        self.period_seconds.load(Ordering::Relaxed)
    }

    /// Sets the length of a period in seconds.
    pub(crate) fn set_period_seconds(&self, seconds: i64) {
        self.period_seconds.store(seconds, Ordering::Relaxed);
    }
}

impl Rates {
    /// Returns the counters of a pattern; `None` if its strategy is declared.
    pub(crate) fn of(data: &Data, db: &str, pattern: &Pattern) -> Option<Rates> {
        let source = pattern.source().filter(|_| pattern.traits.chooses_strategy)?;
        let target = data.collection(db, &pattern.target)?;
        let sources = data.collection(db, source)?.counters.documents();
        let documents = target.counters.documents();
        Some(Rates {
            changes: Stats::read(&pattern.stats.changes),
            reads: target.counters.usage.documents_read(),
            followers: documents.checked_div(sources).unwrap_or(0),
            documents,
        })
    }

    /// Returns the difference to an earlier measurement.
    fn since(self, before: Rates) -> Rates {
        Rates {
            changes: self.changes.saturating_sub(before.changes),
            reads: self.reads.saturating_sub(before.reads),
            ..self
        }
    }

    /// Returns whether the other strategy would have been cheaper by more than the margin, and the
    /// cost of the period is at least that of the change. This prevents frequent changes back and
    /// forth.
    fn is_worth_a_change(self, pointer: bool) -> bool {
        let copies = self.changes.saturating_mul(self.followers).saturating_mul(WRITE);
        let (paid, other) = if pointer { (self.reads, copies) } else { (copies, self.reads) };
        let change = self.documents.saturating_mul(WRITE).max(WORK_MIN);
        paid >= change && paid / MARGIN > other
    }

    /// Writes the measurements as `listPatterns` shows them.
    pub(crate) fn write(self, out: &mut Writer<'_>) {
        out.doc("rates", |out| {
            out.count("changes", self.changes).count("reads", self.reads);
            out.count("followers", self.followers);
        });
    }
}

/// Decides for the patterns whose period has ended.
pub(super) fn tick(upkeep: &Arc<Maintenance>) {
    let strategies = &upkeep.strategies;
    let period = Duration::from_secs(strategies.period_seconds().unsigned_abs());
    let catalog = upkeep.data.catalog.load_full();
    let mut known = HashMap::new();
    for (db, database) in &catalog.databases {
        for pattern in database.patterns.iter().filter(|p| p.phase == Phase::Ready) {
            let Some(rates) = Rates::of(&upkeep.data, db, pattern) else { continue };
            let begun = PeriodStart { at: Instant::now(), rates };
            let seen = strategies.seen.lock().get(&pattern.id).copied().unwrap_or(begun);
            if seen.at.elapsed() < period {
                known.insert(pattern.id, seen);
                continue;
            }
            known.insert(pattern.id, begun);
            let lately = rates.since(seen.rates);
            if lately.is_worth_a_change(pattern.is_pointer())
                && let Err(error) = change(upkeep, db, pattern, lately)
            {
                // Something requires copies: an index on the fields, or another pattern.
                tracing::info!(%error, db, pattern = pattern.name, "cannot change the strategy of a pattern");
            }
        }
    }
    *strategies.seen.lock() = known;
}

fn change(upkeep: &Arc<Maintenance>, db: &str, pattern: &Pattern, rates: Rates) -> Result<()> {
    let chosen = if pattern.is_pointer() { "copy" } else { "pointer" };
    let command = DocBuf::build(|out| {
        out.str("modifyPattern", &pattern.collection).str("name", &pattern.name);
        out.doc("set", |out| {
            out.str("chosen", chosen);
        });
        out.bool("wait", false);
    });
    upkeep.data.run_command(db, command.as_doc())?;
    tracing::info!(
        db,
        pattern = pattern.name,
        chosen,
        ?rates,
        "changing the strategy of a pattern"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_changes_when_the_other_one_is_much_cheaper_and_not_back_at_once() {
        let rates = |changes, reads| Rates { changes, reads, followers: 100, documents: 10_000 };
        // 1,000 changes are 100,000 writes.
        assert!(rates(1000, 10_000).is_worth_a_change(false));
        assert!(!rates(1000, 10_000).is_worth_a_change(true));
        assert!(!rates(1000, 300_000).is_worth_a_change(false), "nearly as dear");
        assert!(!rates(1000, 300_000).is_worth_a_change(true), "nor the other way");
        assert!(rates(10, 300_000).is_worth_a_change(true));
        assert!(!rates(10, 40_000).is_worth_a_change(true), "the change itself costs more");
        assert!(!rates(0, 0).is_worth_a_change(true) && !rates(0, 0).is_worth_a_change(false));
        let small = Rates { changes: 2, reads: 0, followers: 100, documents: 100 };
        assert!(!small.is_worth_a_change(false), "hardly anything happens");
    }
}
