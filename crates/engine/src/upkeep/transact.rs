//! Running and committing statements with their pattern updates: in their own transaction, or in
//! the open one of a session.

use crate::operation::Operation;
use crate::txn::{CommitError, Data, Transaction};
use query::interrupt;
use std::sync::atomic::Ordering;
use store::Seqno;
use value::Result;

impl Data {
    /// Runs a statement in its own transaction and commits it. Retries after conflicts. Returns the
    /// result of the statement and the commit to wait for. `check` is called periodically while
    /// this waits for an open transaction; its error ends the wait.
    pub(crate) fn transact_alone<T>(
        &self,
        check: &dyn Fn() -> Result<()>,
        locked: bool,
        mut statement: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<(T, Seqno)> {
        const TRIES_WITHOUT_LOCK: usize = 3;
        let mut tries = 0;
        let mut bytes = 0;
        loop {
            let inside = locked || tries >= TRIES_WITHOUT_LOCK;
            // What it will write is not known before; an attempt that failed says it.
            let admission = inside.then(|| self.admit(bytes)).transpose()?;
            let lock = inside.then(|| self.lock()).transpose()?;
            let mut txn = self.begin();
            txn.locked = inside;
            let outcome = statement(&mut txn);
            if txn.work.wants_lock() {
                // Patterns require the newest state, so the lock is taken at once.
                tries = TRIES_WITHOUT_LOCK;
                continue;
            }
            if let Some((db, passed)) = txn.work.take_passed() {
                // Patterns are marked before the first write that bypasses them.
                drop((txn, lock));
                super::declare::pass(self, &db, &passed)?;
                continue;
            }
            let outcome = outcome?;
            super::settle(&mut txn)?;
            // Results computed after a kill are not committed, even if the error was not passed on.
            interrupt::confirm()?;
            bytes = txn.snapshot.written_bytes();
            match self.commit(txn, lock) {
                Ok(seqno) => return Ok((outcome, seqno)),
                Err(CommitError::Failed(error)) => return Err(error),
                Err(CommitError::Conflict) => {
                    tries += 1;
                    self.note_conflict();
                }
                Err(CommitError::Claimed(key)) => {
                    // Its owner may need the memory in order to commit.
                    drop(admission);
                    self.note_conflict();
                    self.wait_for_end(key, check)?;
                }
            }
        }
    }

    /// Counts a write that another one prevented from committing.
    fn note_conflict(&self) {
        self.write_conflicts.fetch_add(1, Ordering::Relaxed);
        interrupt::conflicted();
    }

    /// Runs statements in one transaction of their own and commits it. Returns `None`, with nothing
    /// committed, if that conflicts or patterns are concerned: then each is to run alone.
    pub(crate) fn transact_once<T>(
        &self,
        op: &Operation,
        statements: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<Option<(T, Seqno)>> {
        let mut txn = self.begin();
        txn.work.set_bypass(op.bypasses_patterns.get());
        let outcome = statements(&mut txn);
        if txn.work.wants_lock() || txn.work.take_passed().is_some() {
            return Ok(None);
        }
        let outcome = outcome?;
        super::settle(&mut txn)?;
        interrupt::confirm()?;
        match self.commit(txn, None) {
            Ok(seqno) => Ok(Some((outcome, seqno))),
            Err(CommitError::Failed(error)) => Err(error),
            Err(CommitError::Conflict | CommitError::Claimed(_)) => {
                self.note_conflict();
                Ok(None)
            }
        }
    }

    /// Runs a statement in the open transaction of the command's session, or in its own transaction
    /// and commits it. Returns the result of the statement and the commit to wait for.
    pub(crate) fn transact<T>(
        &self,
        op: &Operation,
        locked: bool,
        mut statement: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<(T, Seqno)> {
        if !op.is_in_transaction() {
            return self.transact_alone(&|| op.check_now(), locked, |txn| {
                txn.work.set_bypass(op.bypasses_patterns.get());
                statement(txn)
            });
        }
        op.with_transaction(|txn| {
            let outcome = statement(txn)?;
            interrupt::confirm()?;
            super::settle(txn)?;
            self.claim(txn)?;
            Ok((outcome, txn.snapshot.seqno()))
        })
    }

    /// Commits the transaction of a session and frees its keys.
    ///
    /// # Errors
    /// WriteConflict if a collection that it wrote was changed, or errors of the store.
    pub(crate) fn commit_transaction(&self, txn: Transaction) -> Result<Seqno> {
        self.commit_session(txn, super::replay::replay)
    }
}
