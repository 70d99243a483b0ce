//! The work of patterns in a transaction before it commits. `upkeep` fills and settles it.

use crate::catalog::Collection;
use ::patterns::maintain::Notes;
use ::patterns::{Pattern, Pending};
use query::update::delta::LoggedUpdate;
use std::sync::Arc;
use value::DocBuf;

/// The work of patterns in a transaction. Nothing is allocated before the first entry.
#[derive(Default)]
pub struct PatternWork {
    /// Deltas that are not settled yet, by database; usually of one database.
    pub(crate) pending: Vec<(Box<str>, Pending)>,
    /// Whether a pattern is writing.
    pub(crate) derived: bool,
    /// Whether the statement must run again inside the commit lock.
    pub(crate) wants_lock: bool,
    /// Whether targets were queued, to be updated after the commit.
    pub(crate) queued: bool,
    /// Documents that patterns wrote.
    pub(crate) writes: u64,
    /// The writes of a session's transaction. They are replayed on the newest state when the
    /// transaction commits.
    pub(crate) effects: Vec<Effect>,
    /// The number of statements that have been settled.
    pub(crate) statement: u32,
    /// Statistics of each pattern, for explain.
    pub(crate) trace: Option<Vec<Trace>>,
    /// Whether clients' writes bypass patterns.
    pub(crate) bypass: bool,
    /// Patterns that must be marked as degraded before writes bypass them, with their database.
    pub(crate) passed: Option<(Box<str>, Vec<u32>)>,
}

/// Statistics of a pattern in a transaction.
pub struct Trace {
    /// The pattern.
    pub pattern: Arc<Pattern>,
    /// Changes of its sources.
    pub deltas: u64,
    /// Documents that it wrote.
    pub writes: u64,
    /// The time that this took, including its writes, in microseconds.
    pub micros: u64,
}

/// A write of a statement.
pub struct Effect {
    /// The collection.
    pub collection: Arc<Collection>,
    /// The key of the record.
    pub record: Vec<u8>,
    /// The write.
    pub write: DocumentWrite,
    /// The number of the statement within the transaction.
    pub statement: u32,
}

/// The kind of a write to a document.
pub enum DocumentWrite {
    /// It was inserted.
    Insert(DocBuf),
    /// It was replaced by this document, with this entry for the change log.
    Replace(DocBuf, LoggedUpdate),
    /// It was deleted.
    Delete,
}

impl PatternWork {
    /// Whether a pattern is writing.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        self.derived
    }

    /// Whether the statement must run again inside the commit lock.
    #[must_use]
    pub fn wants_lock(&self) -> bool {
        self.wants_lock
    }

    /// The number of documents that patterns wrote.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Whether targets were queued, to be updated after the commit.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.queued
    }

    /// Records a write of a session's transaction, to be replayed when it commits.
    pub fn record(&mut self, collection: &Arc<Collection>, record: &[u8], write: DocumentWrite) {
        let (collection, record) = (collection.clone(), record.to_vec());
        self.effects.push(Effect { collection, record, write, statement: self.statement });
    }

    /// Takes the recorded writes of a session's transaction.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Sets whether clients' writes bypass patterns.
    pub fn set_bypass(&mut self, bypass: bool) {
        self.bypass = bypass;
    }

    /// Whether clients' writes bypass patterns.
    #[must_use]
    pub fn bypasses(&self) -> bool {
        self.bypass
    }

    /// The patterns that must be marked as degraded before the statement runs again.
    pub fn take_passed(&mut self) -> Option<(Box<str>, Vec<u32>)> {
        self.passed.take()
    }

    /// Starts to collect statistics of each pattern.
    pub fn begin_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// Takes the statistics collected since `begin_trace`.
    pub fn take_trace(&mut self) -> Vec<Trace> {
        self.trace.take().unwrap_or_default()
    }

    /// Adds statistics of a pattern.
    pub(crate) fn note_trace(&mut self, done: Trace) {
        let Some(trace) = &mut self.trace else { return };
        match trace.iter_mut().find(|known| known.pattern.id == done.pattern.id) {
            Some(known) => {
                known.deltas += done.deltas;
                known.writes += done.writes;
                known.micros += done.micros;
            }
            None => trace.push(done),
        }
    }

    /// Adds the deltas of a write.
    pub(crate) fn note(&mut self, db: &str, notes: Notes) {
        if !notes.is_empty() {
            self.pending_in(db, |pending| pending.add(notes));
        }
    }

    /// Calls `add` with the pending deltas of a database.
    pub(crate) fn pending_in(&mut self, db: &str, add: impl FnOnce(&mut Pending)) {
        match self.pending.iter_mut().find(|(known, _)| **known == *db) {
            Some((_, pending)) => add(pending),
            None => {
                let mut pending = Pending::default();
                add(&mut pending);
                self.pending.reserve_exact(1);
                self.pending.push((db.into(), pending));
            }
        }
    }

    /// Takes out the pending deltas of a database.
    pub(crate) fn take_pending(&mut self, db: &str) -> Option<Pending> {
        let at = self.pending.iter().position(|(known, _)| **known == *db)?;
        Some(self.pending.swap_remove(at).1)
    }
}
