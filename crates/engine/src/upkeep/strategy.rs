//! Strategies that are left to the database (`strategy: "auto"`): revised from time to time by what was
//! read and written meanwhile, and changed as `modifyPattern` changes them.
//!
//! A change of a source costs a write of each follower where copies are stored; a document that is read
//! costs a look at its source where they are not. Both are counted anyway.

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

/// Writing a follower costs as much as so many look-ups of a source.
const WRITE: u64 = 5;
/// By so much the other strategy must have been cheaper.
const MARGIN: u64 = 2;
/// Less than so many look-ups are not worth a change, however small the collection is.
const WORK_MIN: u64 = 10_000;
/// How long the database looks on before it decides, unless the parameter says otherwise.
const PERIOD_SECONDS: i64 = 3600;

/// What is known of patterns whose strategy is left to the database.
pub struct Strategies {
    seen: Mutex<HashMap<u32, PeriodStart>>,
    period_seconds: AtomicI64,
}

/// What had been counted when a period began.
#[derive(Clone, Copy)]
struct PeriodStart {
    at: Instant,
    rates: Rates,
}

/// What decides.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rates {
    /// Changes of what is copied of a source.
    changes: u64,
    /// Documents of the target that queries looked at.
    reads: u64,
    /// Followers of a source, on average.
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
    /// For how many seconds the database looks on before it decides.
    pub(crate) fn period_seconds(&self) -> i64 {
        self.period_seconds.load(Ordering::Relaxed)
    }

    /// Sets for how many seconds it looks on.
    pub(crate) fn set_period_seconds(&self, seconds: i64) {
        self.period_seconds.store(seconds, Ordering::Relaxed);
    }
}

impl Rates {
    /// What has been counted of a pattern; `None` for one whose strategy is declared.
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

    /// What has been counted since.
    fn since(self, before: Rates) -> Rates {
        Rates {
            changes: self.changes.saturating_sub(before.changes),
            reads: self.reads.saturating_sub(before.reads),
            ..self
        }
    }

    /// Whether the other strategy would have been so much cheaper that the change is worth it: what is
    /// paid in a period must exceed what the change costs, so that nothing goes to and fro.
    fn is_worth_a_change(self, pointer: bool) -> bool {
        let copies = self.changes.saturating_mul(self.followers).saturating_mul(WRITE);
        let (paid, other) = if pointer { (self.reads, copies) } else { (copies, self.reads) };
        let change = self.documents.saturating_mul(WRITE).max(WORK_MIN);
        paid >= change && paid / MARGIN > other
    }

    /// Appends what `listPatterns` shows of it.
    pub(crate) fn write(self, out: &mut Writer<'_>) {
        out.doc("rates", |out| {
            out.count("changes", self.changes).count("reads", self.reads);
            out.count("followers", self.followers);
        });
    }
}

/// Decides for the patterns whose period is over.
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
                // Something needs copies: an index on the fields, another pattern.
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
