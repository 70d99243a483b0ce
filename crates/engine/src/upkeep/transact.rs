//! Running statements: in a transaction of their own, or in the open one of a session, with what
//! patterns derive from them, and committing.

use crate::operation::Operation;
use crate::txn::{CommitError, Data, Transaction};
use query::interrupt;
use std::sync::atomic::Ordering;
use store::Seqno;
use value::Result;

impl Data {
    /// Runs a statement in a transaction of its own and commits it, again and again until nobody
    /// was in the way. Returns what the statement returned and the commit to wait for. `check`
    /// is asked now and then, while it waits for an open transaction, whether to go on.
    pub(crate) fn transact_alone<T>(
        &self,
        check: &dyn Fn() -> Result<()>,
        locked: bool,
        mut statement: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<(T, Seqno)> {
        const TRIES_WITHOUT_LOCK: usize = 3;
        let mut tries = 0;
        loop {
            let inside = locked || tries >= TRIES_WITHOUT_LOCK;
            let lock = inside.then(|| self.commit.lock());
            let mut txn = self.begin();
            txn.locked = inside;
            let outcome = statement(&mut txn);
            if txn.work.wants_lock() {
                // Patterns see the newest state or none.
                tries = TRIES_WITHOUT_LOCK;
                continue;
            }
            if let Some((db, passed)) = txn.work.take_passed() {
                // What writes go past must not look right: that is noted before the first of them.
                drop((txn, lock));
                super::declare::pass(self, &db, &passed)?;
                continue;
            }
            let outcome = outcome?;
            super::settle(&mut txn)?;
            // What was computed after a kill is not committed, even if nobody passed the error on.
            interrupt::confirm()?;
            match self.commit(txn, lock) {
                Ok(seqno) => return Ok((outcome, seqno)),
                Err(CommitError::Failed(error)) => return Err(error),
                Err(CommitError::Conflict) => tries += 1,
                Err(CommitError::Claimed(key)) => self.wait_for_end(key, check)?,
            }
            self.write_conflicts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs a statement: in the open transaction of the command's session, or else in one of its
    /// own that commits. Returns what the statement returned and the commit to wait for.
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
    /// WriteConflict when a collection that it wrote was changed; what the store gives.
    pub(crate) fn commit_transaction(&self, txn: Transaction) -> Result<Seqno> {
        self.commit_session(txn, super::replay::replay)
    }
}
