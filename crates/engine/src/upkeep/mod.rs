//! Upkeep of patterns: every write of a document that a pattern reads or maintains goes through
//! this module.
//!
//! `insert`, `replace` and `delete` set the maintained fields of a document and record its deltas;
//! `settle` writes the affected targets before the statement commits. Such statements hold the
//! commit lock, so patterns see the newest state. The kind of a pattern, in the crate `patterns`,
//! determines what it does; nothing here names a kind.
//!
//! - `transaction_documents`: access of patterns to the documents of a transaction.
//! - `declare`, `modify`: declarations in the catalog.
//! - `new_forms`: patterns that change the form of existing documents.
//! - `own_index`, `kept_views`: the indexes and views that patterns keep for themselves.
//! - `preview`: what a declaration does to existing documents.
//! - `backfill`: derives the values of existing documents, and clears those of a dropped pattern.
//! - `catch_up`: writes the targets that are updated after the commit of their source.
//! - `expiry`: removes sources that have left a pattern's time window.
//! - `pointer_writes`: writes documents with resolved fields.
//! - `reading`: makes readers wait or refuses them; `staleness`: the age of maintained values.
//! - `verification`: compares values with a recomputation; `scrub` does so in the background.
//! - `strategy`: revises the strategy of patterns declared with `auto`.
//! - `rewriting`: answers queries from maintained values.
//!
//! Layer: patterns.

pub mod backfill;
pub mod catch_up;
pub mod declare;
mod expiry;
pub mod kept_views;
pub mod modify;
pub mod new_forms;
pub mod own_index;
mod pointer_writes;
pub mod preview;
pub mod reading;
mod replay;
pub mod rewriting;
pub mod scrub;
pub mod staleness;
pub(crate) mod strategy;
mod transact;
mod transaction_documents;
pub mod verification;
pub mod write;

pub use transaction_documents::TransactionDocuments;

use crate::catalog::Collection;
use crate::txn::{Data, Trace, Transaction};
use ::patterns::maintain::Settlement;
use ::patterns::stats::Stats;
use ::patterns::{CollectionPatterns, Origin, Pattern, Phase, clearing};
use query::update::delta::{LoggedUpdate, between, of_whole};
use std::sync::Arc;
use std::time::Instant;
use value::{Code, DocBuf, Error, RawDoc, RawVal, Result, limits};

/// State shared by the background work of patterns: the data, and the work in progress or due.
pub struct Maintenance {
    /// The data.
    pub(crate) data: Arc<Data>,
    /// The patterns that are being built.
    pub(crate) builds: backfill::Builds,
    /// When patterns are checked.
    pub(crate) scrubs: scrub::Scrubs,
    /// Measurements of patterns whose strategy the database chooses.
    pub(crate) strategies: strategy::Strategies,
}

impl Maintenance {
    /// Creates the state with no work in progress.
    pub(crate) fn new(data: Arc<Data>) -> Maintenance {
        Maintenance {
            data,
            builds: backfill::Builds::default(),
            scrubs: scrub::Scrubs::default(),
            strategies: strategy::Strategies::default(),
        }
    }
}

/// A stored document that is about to change.
pub struct Change<'c> {
    /// The key of its record.
    pub record: &'c [u8],
    /// The document.
    pub old: RawDoc<'c>,
    /// How the log of changes records it, if the client's image is stored as it is.
    pub logged: Option<&'c LoggedUpdate>,
}

#[cold]
fn no_append() -> Error {
    Error::internal("an update of an array that was not read does more than to add elements")
}

/// Returns an error where patterns would not see the newest state. A session's transaction may
/// derive values for its own reads; they are derived again at commit.
fn check_locked(txn: &mut Transaction) -> Result<()> {
    if !txn.locked && !txn.is_of_session() {
        txn.work.wants_lock = true;
        return Err(Error::internal("patterns need the newest state"));
    }
    Ok(())
}

/// Returns whether a client's write bypasses the patterns of its collection. Before the first such
/// write the patterns are marked as degraded, so that readers do not rely on their values. `old` is
/// the document before the write.
///
/// # Errors
/// An internal error when patterns have to be marked first: the statement then runs again.
pub fn bypasses_patterns(
    txn: &mut Transaction,
    collection: &Collection,
    bound: &CollectionPatterns,
    old: Option<RawDoc<'_>>,
) -> Result<bool> {
    if !txn.work.bypass || txn.work.derived {
        return Ok(false);
    }
    if collection.pointers.is_some() {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            format!(
                "'bypassPatterns' is not possible in '{}': with 'strategy: pointer' nothing is stored \
                 that could be wrong",
                collection.namespace()
            ),
        ));
    }
    check_locked(txn)?;
    // A layout or a shape is not a value, so it cannot be wrong.
    let right = |pattern: &&Arc<Pattern>| {
        let has_values = !pattern.kept.is_empty();
        (has_values || (pattern.layout().is_none() && pattern.shape().is_none()))
            && matches!(pattern.phase, Phase::Ready | Phase::Building | Phase::Preparing)
    };
    let right = bound.targets.iter().chain(&bound.sources).filter(right);
    let right: Vec<u32> = right.map(|pattern| pattern.id).collect();
    if right.is_empty() {
        // Counted under the commit lock, so that `verification::mark` sees every such write.
        let all = bound.targets.iter().chain(&bound.sources);
        all.for_each(|pattern| Stats::add(&pattern.stats.passed, 1));
        if let Some(old) = old {
            bound.before_bypass(&mut TransactionDocuments::new(txn, &collection.db), old)?;
        }
        return Ok(true);
    }
    txn.work.passed = Some((collection.db.clone(), right));
    Err(Error::internal("a write that bypasses patterns must be announced"))
}

/// Inserts a document with its maintained fields and records its deltas. Returns the document as
/// clients see it, if it differs from `doc`.
///
/// # Errors
/// Errors of the collection, its indexes or its patterns.
pub fn insert(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    bound: &CollectionPatterns,
    doc: RawDoc<'_>,
    origin: Origin,
) -> Result<Option<DocBuf>> {
    check_locked(txn)?;
    let mut documents = TransactionDocuments::new(txn, &collection.db);
    if bound.targets.is_empty() {
        let notes = bound.note(&mut documents, None, Some(doc), origin)?;
        write::insert_plain(txn, collection, doc)?;
        txn.work.note(&collection.db, notes);
        return Ok(None);
    }
    let image = bound.fill(&mut documents, None, doc, origin)?;
    if image.bytes().len() > limits::DOCUMENT_BYTES_MAX {
        return Err(Error::new(
            Code::BSON_OBJECT_TOO_LARGE,
            format!("the document with its maintained fields has {} bytes", image.bytes().len()),
        ));
    }
    let notes = bound.note(&mut documents, None, Some(image.as_doc()), origin)?;
    let resolved = match collection.pointers.is_some() {
        false => {
            write::insert_plain(txn, collection, image.as_doc())?;
            None
        }
        true => Some(pointer_writes::insert(txn, collection, image.as_doc())?),
    };
    bound.note_written(
        &mut TransactionDocuments::new(txn, &collection.db),
        image.as_doc(),
        origin,
    )?;
    txn.work.note(&collection.db, notes);
    Ok(Some(resolved.unwrap_or(image)))
}

/// Replaces a document, with its maintained fields, and records its deltas. Returns the document as
/// clients see it.
///
/// # Errors
/// Errors of the collection, its indexes or its patterns.
pub fn replace(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    bound: &CollectionPatterns,
    change: &Change<'_>,
    new: &DocBuf,
    origin: Origin,
) -> Result<DocBuf> {
    check_locked(txn)?;
    let stored;
    let old = match collection.pointers.is_some() {
        false => change.old,
        true => {
            stored = pointer_writes::stored(txn, collection, change.record)?;
            RawDoc::new(&stored)
        }
    };
    let mut documents = TransactionDocuments::new(txn, &collection.db);
    let image = bound.fill(&mut documents, Some(old), new.as_doc(), origin)?;
    if image.bytes() == old.bytes() {
        return Ok(change.old.into());
    }
    let notes = bound.note(&mut documents, Some(old), Some(image.as_doc()), origin)?;
    if collection.pointers.is_some() {
        let change = Change { old, ..*change };
        let resolved = pointer_writes::replace(txn, collection, &change, &image, new)?;
        bound.note_written(
            &mut TransactionDocuments::new(txn, &collection.db),
            image.as_doc(),
            origin,
        )?;
        txn.work.note(&collection.db, notes);
        return Ok(resolved);
    }
    let derived;
    let logged = match (change.logged, txn.hidden_of(collection, change.record)) {
        (Some(logged), _) if image == *new || *logged == LoggedUpdate::Replacement => logged,
        (Some(LoggedUpdate::Delta(delta)), Some(hidden)) => {
            let kept = bound.targets.iter().flat_map(|pattern| &pattern.kept);
            let changed = kept.filter(|path| path.find(old) != path.find(image.as_doc()));
            let values: Vec<(&str, RawVal<'_>)> = changed
                .filter_map(|path| Some((path.text(), path.find(image.as_doc())?)))
                .collect();
            let whole = of_whole(delta, &hidden.path, 0, &values);
            derived = LoggedUpdate::Delta(whole.ok_or_else(no_append)?);
            &derived
        }
        _ => {
            derived = between(old, image.as_doc());
            &derived
        }
    };
    write::replace_plain(txn, collection, change.record, old, &image, logged)?;
    bound.note_written(
        &mut TransactionDocuments::new(txn, &collection.db),
        image.as_doc(),
        origin,
    )?;
    txn.work.note(&collection.db, notes);
    Ok(image)
}

/// Returns the image that a session's transaction keeps of a replacement, to repeat it at commit.
/// Fields left by a dropped pattern are removed, because they may be cleared by then.
///
/// # Errors
/// When the store fails.
pub fn replayed_image(
    txn: &mut Transaction,
    collection: &Collection,
    old: RawDoc<'_>,
    new: &DocBuf,
) -> Result<DocBuf> {
    let mut image = new.clone();
    let Some(bound) = &collection.patterns else { return Ok(image) };
    for pattern in bound.targets.iter().filter(|p| p.phase == Phase::Clearing) {
        let mut documents = TransactionDocuments::new(txn, &collection.db);
        image =
            clearing::stripped(pattern, &bound.targets, &mut documents, Some(old), image.as_doc())?;
    }
    Ok(image)
}

/// Deletes a document and records its deltas.
///
/// # Errors
/// Errors of its patterns.
pub fn delete(
    txn: &mut Transaction,
    collection: &Arc<Collection>,
    bound: &CollectionPatterns,
    record: &[u8],
    old: RawDoc<'_>,
    origin: Origin,
) -> Result<()> {
    check_locked(txn)?;
    let stored;
    let old = match collection.pointers.is_some() {
        false => old,
        true => {
            stored = pointer_writes::stored(txn, collection, record)?;
            RawDoc::new(&stored)
        }
    };
    let mut documents = TransactionDocuments::new(txn, &collection.db);
    let notes = bound.note(&mut documents, Some(old), None, origin)?;
    match collection.pointers.is_some() {
        false => write::delete_plain(txn, collection, record, old)?,
        true => pointer_writes::delete(txn, collection, record, old)?,
    }
    txn.work.note(&collection.db, notes);
    Ok(())
}

/// Runs all pending pattern updates of a statement.
///
/// # Errors
/// Errors of a pattern or a target. The statement must not be committed then.
pub(crate) fn settle(txn: &mut Transaction) -> Result<()> {
    txn.work.statement = txn.work.statement.saturating_add(1);
    while let Some((db, mut pending)) = txn.work.pending.pop() {
        while let Some(settlement) = pending.pop() {
            settle_one(txn, &db, &settlement)?;
            // Settling may have produced deltas for patterns later in the order.
            if let Some(more) = txn.work.take_pending(&db) {
                pending.merge(more);
            }
        }
    }
    Ok(())
}

/// Runs the pending updates of one pattern, and counts them.
fn settle_one(txn: &mut Transaction, db: &str, settlement: &Settlement) -> Result<()> {
    let started = txn.work.trace.is_some().then(Instant::now);
    let before = txn.work.writes;
    settlement.settle(&mut TransactionDocuments::new(txn, db))?;
    let (pattern, deltas) = (settlement.pattern(), settlement.deltas());
    let writes = txn.work.writes.saturating_sub(before);
    if let Some(started) = started {
        let micros = started.elapsed().as_micros() as u64;
        txn.work.note_trace(Trace { pattern: pattern.clone(), deltas, writes, micros });
    } else if txn.locked && pattern.phase.is_built() {
        // A session's transaction derives these values again at commit, which counts them.
        Stats::add(&pattern.stats.deltas, deltas);
        Stats::add(&pattern.stats.writes, writes);
    }
    Ok(())
}
