//! Letting children leave the windows of patterns as time passes: a batch at a time, each in a commit
//! of its own, by the thread of the queues, or by a reader who wants what is up to date.

use super::Opened;
use crate::txn::Data;
use ::patterns::Pattern;
use ::patterns::pattern::Behaviour;
use std::sync::Arc;
use value::{Code, Result};

/// Children of one commit.
const BATCH: usize = 200;

/// Lets some children leave every window that they have become too old for. Returns whether there may
/// be more.
pub(super) fn tick(data: &Data) -> bool {
    let catalog = data.catalog.load_full();
    let mut busy = false;
    for (db, database) in &catalog.databases {
        for pattern in database.patterns.iter().filter(|p| p.has_window() && p.phase.is_built()) {
            match step(data, db, pattern) {
                Ok(more) => busy |= more,
                Err(error) if error.code() == Code::SHUTDOWN_IN_PROGRESS => return false,
                Err(error) => tracing::warn!(
                    code = error.code().0,
                    pattern = pattern.name,
                    "cannot remove expired children from a window"
                ),
            }
        }
    }
    busy
}

/// Works until nobody is in a window who has become too old for it.
///
/// # Errors
/// When a target cannot be written, or `stop` says so.
pub(super) fn flush(
    data: &Data,
    db: &str,
    pattern: &Arc<Pattern>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    while pattern.has_window() && step(data, db, pattern)? {
        stop()?;
    }
    Ok(())
}

/// One commit, if anybody has become too old. Returns whether there may be more.
fn step(data: &Data, db: &str, known: &Arc<Pattern>) -> Result<bool> {
    let Behaviour::Grouped(grouped) = &known.behaviour else { return Ok(false) };
    {
        let mut txn = data.reader();
        if !grouped.has_expired(known, &mut Opened::new(&mut txn, db))? {
            return Ok(false);
        }
    }
    let (left, _) = data.transact_alone(&|| data.check_open(), true, |txn| {
        let found = txn.catalog.patterns(db).iter().find(|p| p.id == known.id).cloned();
        let Some(pattern) = found.filter(|pattern| pattern.phase.is_built()) else {
            return Ok(false);
        };
        let Behaviour::Grouped(grouped) = &pattern.behaviour else { return Ok(false) };
        let gone = grouped.expired(&pattern, &mut Opened::new(txn, db), BATCH)?;
        for child in gone {
            txn.work.waiting(db, |pending| pending.remove_child(&pattern, child));
        }
        Ok(true)
    })?;
    Ok(left)
}
