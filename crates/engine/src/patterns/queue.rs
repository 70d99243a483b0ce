//! Following what was too much for one commit: sources whose followers are queued, a batch at a
//! time, each in a commit of its own. The queue is part of the pattern's state, so that it is
//! written with the change that caused it and survives a crash.

use super::Opened;
use crate::engine::Inner;
use ::patterns::pattern::Behaviour;
use ::patterns::{Pattern, Phase};
use std::sync::Arc;
use std::time::{Duration, Instant};
use value::{Code, Result};

/// Documents of one commit.
const BATCH: usize = 200;
/// How long one round may take.
const ROUND: Duration = Duration::from_millis(400);

/// Works at the queues for some time. Called again and again.
pub fn run(engine: &Inner) {
    let started = Instant::now();
    let catalog = engine.catalog.load_full();
    for (db, database) in &catalog.databases {
        for pattern in &database.patterns {
            if !matches!(pattern.behaviour, Behaviour::Reference(_))
                || pattern.phase != Phase::Ready
            {
                continue;
            }
            loop {
                match work(engine, db, pattern) {
                    Ok(true) if started.elapsed() < ROUND => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(true) => return,
                    Ok(false) => break,
                    Err(error) if error.code() == Code::SHUTDOWN_IN_PROGRESS => return,
                    Err(error) => {
                        tracing::warn!(%error, pattern = pattern.name, "cannot follow a source");
                        break;
                    }
                }
            }
        }
    }
}

/// Follows one batch; false when nothing waits.
fn work(engine: &Inner, db: &str, known: &Arc<Pattern>) -> Result<bool> {
    let waits = {
        let mut waits = false;
        let mut txn = engine.reader();
        let mut documents = Opened::new(&mut txn, db);
        if let Behaviour::Reference(reference) = &known.behaviour {
            waits = reference.is_waiting(known, &mut documents)?;
        }
        waits
    };
    if !waits {
        return Ok(false);
    }
    let (more, _) = engine.transact_alone(&|| engine.check_open(), true, |txn| {
        let Some(pattern) = txn.catalog.patterns(db).iter().find(|p| p.id == known.id).cloned()
        else {
            return Ok(false);
        };
        match &pattern.behaviour {
            Behaviour::Reference(reference) => {
                reference.work(&pattern, &mut Opened::new(txn, db), BATCH)
            }
            _ => Ok(false),
        }
    })?;
    Ok(more)
}
