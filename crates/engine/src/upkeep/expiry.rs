//! Removes sources that have left a pattern's time window: a batch at a time, each in its own
//! commit. Runs on the queue thread, or for a reader that requests up-to-date values.

use super::TransactionDocuments;
use crate::txn::Data;
use ::patterns::Pattern;
use std::sync::Arc;
use value::{Code, Result};

/// Maximum number of sources per commit.
const BATCH: usize = 200;

/// Removes one batch of expired sources of every pattern. Returns whether there may be more.
pub(super) fn tick(data: &Data) -> bool {
    let catalog = data.catalog.load_full();
    let mut busy = false;
    for (db, database) in &catalog.databases {
        for pattern in database.patterns.iter().filter(|p| p.traits.expires && p.phase.is_built()) {
            match step(data, db, pattern) {
                Ok(more) => busy |= more,
                Err(error) if error.code() == Code::SHUTDOWN_IN_PROGRESS => return false,
                Err(error) => tracing::warn!(
                    code = error.code().0,
                    pattern = pattern.name,
                    "cannot remove sources that have left a window"
                ),
            }
        }
    }
    busy
}

/// Removes all expired sources of a pattern.
///
/// # Errors
/// When a target cannot be written, or when `stop` returns an error.
pub(super) fn flush(
    data: &Data,
    db: &str,
    pattern: &Arc<Pattern>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    while pattern.traits.expires && step(data, db, pattern)? {
        stop()?;
    }
    Ok(())
}

/// Removes one batch in one commit, if any source has expired. Returns whether there may be more.
fn step(data: &Data, db: &str, known: &Arc<Pattern>) -> Result<bool> {
    {
        let mut txn = data.reader();
        if !known.kind.has_expired(known, &mut TransactionDocuments::new(&mut txn, db))? {
            return Ok(false);
        }
    }
    let (left, _) = data.transact_alone(&|| data.check_open(), true, |txn| {
        let found = txn.catalog.patterns(db).iter().find(|p| p.id == known.id).cloned();
        let Some(pattern) = found.filter(|pattern| pattern.phase.is_built()) else {
            return Ok(false);
        };
        let gone = pattern.kind.expire(&pattern, &mut TransactionDocuments::new(txn, db), BATCH)?;
        for delta in gone {
            txn.work.pending_in(db, |pending| pending.add_delta(&pattern, delta));
        }
        Ok(true)
    })?;
    Ok(left)
}
