//! Committing the transaction of a session where there are patterns: what it did is done again on
//! the newest state, inside of the commit lock, so that everything follows as it is by then.
//!
//! The documents that it wrote are its own until it ends, so nobody else changed them but patterns,
//! whose fields are taken from the newest version.

use super::write;
use crate::txn::{DocumentWrite, Effect, Transaction, write_conflict};
use ::patterns::{CollectionPatterns, Pattern, Phase};
use query::update::delta::{LoggedUpdate, between};
use value::{RawDoc, Result};

/// Does again what the statements of a transaction did, each with what patterns make of it: what one
/// statement derived, the next one found.
pub(super) fn replay(again: &mut Transaction, effects: &[Effect]) -> Result<()> {
    for statement in effects.chunk_by(|a, b| a.statement == b.statement) {
        statement.iter().try_for_each(|effect| apply(again, effect))?;
        super::settle(again)?;
    }
    Ok(())
}

/// Whether the patterns whose values a collection's documents had still have them there: those that
/// maintained them still do, and one that was suspended is there or maintains again.
fn keeps_all(known: &CollectionPatterns, now: Option<&CollectionPatterns>) -> bool {
    let stays = |pattern: &Pattern| {
        let mut targets = now.into_iter().flat_map(|now| &now.targets);
        targets.any(|p| match pattern.phase.is_maintained() {
            true => p.id == pattern.id && p.phase.is_maintained(),
            false => {
                let same = p.name == pattern.name && p.collection == pattern.collection;
                p.id == pattern.id || (same && p.phase.is_maintained())
            }
        })
    };
    // What is being cleared is not in the images that are kept.
    known.targets.iter().filter(|p| p.phase != Phase::Clearing).all(|pattern| stays(pattern))
}

fn apply(txn: &mut Transaction, effect: &Effect) -> Result<()> {
    let known = &effect.collection;
    let found = txn.catalog.get(&known.db, &known.name).cloned();
    let collection = found.filter(|now| now.id == known.id).ok_or_else(write_conflict)?;
    if let Some(known) = &known.patterns
        && !keeps_all(known, collection.patterns.as_deref())
    {
        // What a pattern maintained that is no more would become the client's.
        return Err(write_conflict());
    }
    let key = write::document_key(&collection, &effect.record);
    match &effect.write {
        DocumentWrite::Insert(doc) => write::insert(txn, &collection, doc.as_doc()),
        DocumentWrite::Replace(new, told) => {
            let old = txn.document(&collection, &key)?.ok_or_else(write_conflict)?;
            let old = RawDoc::new(&old);
            let is_maintained =
                |bound: &CollectionPatterns| bound.targets.iter().any(|p| !p.kept.is_empty());
            let derived;
            let told = match told {
                // Patterns may have changed other fields meanwhile.
                LoggedUpdate::Delta(_)
                    if collection.patterns.as_deref().is_some_and(is_maintained) =>
                {
                    derived = between(old, new.as_doc());
                    &derived
                }
                told => told,
            };
            write::replace(txn, &collection, &effect.record, old, new, told).map(drop)
        }
        DocumentWrite::Delete => {
            let old = txn.document(&collection, &key)?.ok_or_else(write_conflict)?;
            write::delete(txn, &collection, &effect.record, RawDoc::new(&old))
        }
    }
}
