//! Commit of a session's transaction on collections with patterns: its writes are repeated on the
//! newest state, under the commit lock, so that all derived values are current.
//!
//! The transaction holds intents on the documents that it wrote, so only patterns can have changed
//! them. The fields of patterns are taken from the newest version.

use super::write;
use crate::txn::{DocumentWrite, Effect, Transaction, write_conflict};
use ::patterns::{CollectionPatterns, Pattern, Phase};
use query::update::delta::{LoggedUpdate, between};
use value::{RawDoc, Result};

/// Repeats the statements of a transaction, each with its pattern updates, because a statement may
/// have read values that the previous one derived.
pub(super) fn replay(again: &mut Transaction, effects: &[Effect]) -> Result<()> {
    for statement in effects.chunk_by(|a, b| a.statement == b.statement) {
        statement.iter().try_for_each(|effect| apply(again, effect))?;
        super::settle(again)?;
    }
    Ok(())
}

/// Returns whether the patterns whose values a collection's documents had are still in place:
/// maintained ones must still be maintained, others must still exist or be maintained again.
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
    // Images that are kept do not contain values that are being cleared.
    known.targets.iter().filter(|p| p.phase != Phase::Clearing).all(|pattern| stays(pattern))
}

fn apply(txn: &mut Transaction, effect: &Effect) -> Result<()> {
    let known = &effect.collection;
    let found = txn.catalog.get(&known.db, &known.name).cloned();
    let collection = found.filter(|now| now.id == known.id).ok_or_else(write_conflict)?;
    if let Some(known) = &known.patterns
        && !keeps_all(known, collection.patterns.as_deref())
    {
        // Values of a pattern that no longer exists would become client data.
        return Err(write_conflict());
    }
    let key = write::document_key(&collection, &effect.record);
    match &effect.write {
        DocumentWrite::Insert(doc) => write::insert(txn, &collection, doc.as_doc()),
        DocumentWrite::Replace(new, logged) => {
            let old = txn.document(&collection, &key)?.ok_or_else(write_conflict)?;
            let old = RawDoc::new(&old);
            let is_maintained =
                |bound: &CollectionPatterns| bound.targets.iter().any(|p| !p.kept.is_empty());
            let derived;
            let logged = match logged {
                // Patterns may have changed other fields meanwhile.
                LoggedUpdate::Delta(_)
                    if collection.patterns.as_deref().is_some_and(is_maintained) =>
                {
                    derived = between(old, new.as_doc());
                    &derived
                }
                logged => logged,
            };
            write::replace(txn, &collection, &effect.record, old, new, logged).map(drop)
        }
        DocumentWrite::Delete => {
            let old = txn.document(&collection, &key)?.ok_or_else(write_conflict)?;
            write::delete(txn, &collection, &effect.record, RawDoc::new(&old))
        }
    }
}
