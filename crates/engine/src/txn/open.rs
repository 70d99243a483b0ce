//! The open transaction of a session: statements join it, and it owns the keys it wrote until it
//! ends.

use super::Data;
use super::commit::{CommitError, Open, WAIT_STEP};
use super::{Effect, Transaction};
use crate::catalog::{Catalog, Collection, persist};
use crate::changes::{Cause, note_catalog};
use patterns::shape::Reader;
use query::interrupt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use store::{Batch, Seqno, Snapshot, Space};
use value::{Code, Error, Result};

/// The state that a command reads: one catalog and one snapshot.
#[derive(Clone)]
pub struct View {
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// The data.
    pub snapshot: Snapshot,
    /// Who reads; `None` if the catalog has no collection whose form depends on it, or for readers
    /// of the canonical form.
    pub reader: Option<Arc<Reader>>,
    /// The data itself, for stages that report on collections; `None` where there are none.
    pub(crate) data: Option<Weak<Data>>,
}

impl View {
    /// A view for readers of the canonical form.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>, snapshot: Snapshot) -> View {
        View { catalog, snapshot, reader: None, data: None }
    }

    /// A collection of the catalog as the reader sees it; `None` if that is the canonical form.
    ///
    /// # Errors
    /// BadValue for a pinned form that the collection does not have, and errors of its shapes.
    #[inline]
    pub fn seen(&self, collection: &Collection) -> Result<Option<Arc<Collection>>> {
        match (&self.reader, &collection.shapes) {
            (Some(reader), Some(_)) => collection.seen_by(reader),
            _ => Ok(None),
        }
    }
}

/// The most bytes that one transaction may write.
const TRANSACTION_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The error for two transactions that write the same key.
#[cold]
pub(crate) fn write_conflict() -> Error {
    Error::new(
        Code::WRITE_CONFLICT,
        "WriteConflict error: this operation conflicted with another operation. Please retry your operation or multi-document transaction.",
    )
}

impl Data {
    /// The newest state.
    #[must_use]
    pub fn newest(&self) -> View {
        loop {
            // If an index was dropped between loading the catalog and taking the snapshot, it would
            // lack entries of documents that the snapshot contains.
            let catalog = self.catalog.load_full();
            let snapshot = self.store.snapshot();
            if Arc::ptr_eq(&catalog, &self.catalog.load()) {
                return View::new(catalog, snapshot);
            }
        }
    }

    /// A transaction on a view that is never committed: only one reader sees its writes.
    pub(crate) fn private(&self, view: View) -> Transaction {
        let mut txn = Transaction::new(view.catalog, view.snapshot);
        txn.locked = true;
        txn
    }

    /// Begins the transaction of a session, on the newest state or on the given view.
    pub(crate) fn open_transaction(&self, on: Option<View>) -> Transaction {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let owner = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut state = self.commit.lock();
        // Inside the lock, so that nothing is committed in between.
        let View { catalog, snapshot, .. } = on.unwrap_or_else(|| self.newest());
        let mut txn = Transaction::new(catalog, snapshot);
        txn.owner = Some(owner);
        txn.share = Some(self.resources.memory().share());
        state.open.insert(owner, Open::new(txn.snapshot.seqno()));
        txn
    }

    /// Claims the keys that a statement of an open transaction wrote, until the transaction ends.
    ///
    /// # Errors
    /// WriteConflict when another transaction has committed or written the same key;
    /// TransactionTooLarge.
    pub(crate) fn claim(&self, txn: &mut Transaction) -> Result<()> {
        let Some(owner) = txn.owner else { return Ok(()) };
        if txn.snapshot.written_bytes() > TRANSACTION_BYTES_MAX {
            return Err(Error::new(
                Code::TRANSACTION_TOO_LARGE,
                format!(
                    "Total size of all transaction operations must be less than {TRANSACTION_BYTES_MAX}"
                ),
            ));
        }
        let written = txn.snapshot.written_bytes();
        if txn.share.as_mut().is_some_and(|share| !share.covers(written)) {
            return Err(Error::new(
                Code::TEMPORARILY_UNAVAILABLE,
                "all memory for operations is in use; try the transaction again",
            )
            .with_label("TransientTransactionError"));
        }
        let new = txn.guards.get(txn.claimed..).unwrap_or(&[]);
        if new.is_empty() {
            return Ok(());
        }
        let mut state = self.lock()?;
        let taken = state.intents.foreign(Some(owner), new).is_some();
        if taken || state.conflicts(txn.snapshot.seqno(), new) {
            self.write_conflicts.fetch_add(1, Ordering::Relaxed);
            return Err(write_conflict());
        }
        let current = self.catalog.load();
        for gain in &txn.gains {
            let collection = &gain.collection;
            let now = current.get(&collection.db, &collection.name).map(|now| now.version);
            let own = txn.created.iter().any(|own| own.id == collection.id);
            if !own && now != Some(collection.version) {
                return Err(write_conflict());
            }
        }
        state.intents.add(owner, new);
        if let Some(open) = state.open.get_mut(&owner) {
            for gain in &txn.gains {
                if !open.collections.iter().any(|known| known.id == gain.collection.id) {
                    open.collections.push(gain.collection.clone());
                }
            }
        }
        txn.claimed = txn.guards.len();
        drop(state);
        self.show_multikey(txn)
    }

    /// Sets the multikey flags of arrays that a transaction indexed, so that plans of its own
    /// statements consider them.
    fn show_multikey(&self, txn: &mut Transaction) -> Result<()> {
        let mut batch = Batch::new();
        let created = &txn.created;
        txn.multikey.retain(|(index, bits)| {
            let bits = index.multikey.fetch_or(*bits, Ordering::Relaxed) | *bits;
            let own = created.iter().any(|made| made.indexes.iter().any(|i| i.id == index.id));
            if !own {
                // Written at once: other transactions that see the bit in memory assume that it is
                // on disk.
                batch.put(Space::Catalog, &persist::multikey_key(index.id), &bits.to_be_bytes());
            }
            own
        });
        if !batch.is_empty() {
            self.write(&batch)?;
        }
        Ok(())
    }

    /// Waits until no open transaction has written to the collections that a catalog change
    /// affects. `check` is called periodically to decide whether to continue waiting.
    ///
    /// # Errors
    /// Interrupted and MaxTimeMSExpired.
    pub(crate) fn wait_for_writers(
        &self,
        check: &dyn Fn() -> Result<()>,
        concerned: impl Fn(&Collection) -> bool,
    ) -> Result<()> {
        let mut state = self.lock()?;
        while state.open.values().any(|open| open.collections.iter().any(|c| concerned(c))) {
            self.ended.wait_for(&mut state, WAIT_STEP);
            check()?;
            self.check_open()?;
        }
        Ok(())
    }

    /// Commits the transaction of a session and releases its keys. If there are patterns, its
    /// writes are repeated on the newest state by `replay`.
    ///
    /// WriteConflict when a collection that it wrote was changed; errors of the store.
    pub(crate) fn commit_session(
        &self,
        mut txn: Transaction,
        replay: impl FnOnce(&mut Transaction, &[Effect]) -> Result<()>,
    ) -> Result<Seqno> {
        // The guards of the session's record were added after the last statement.
        let guards = txn.guards.clone();
        let owner = txn.owner;
        let result = match self.claim(&mut txn) {
            Ok(()) => match self.commit_newest(txn, replay) {
                Ok(seqno) => Ok(seqno),
                Err(CommitError::Failed(error)) => Err(error),
                Err(CommitError::Conflict | CommitError::Claimed(_)) => Err(write_conflict()),
            },
            Err(error) => Err(error),
        };
        self.release(owner, &guards);
        result
    }

    /// Commits the transaction of a session.
    fn commit_newest(
        &self,
        mut txn: Transaction,
        replay: impl FnOnce(&mut Transaction, &[Effect]) -> Result<()>,
    ) -> Result<Seqno, CommitError> {
        let effects = txn.work.take_effects();
        if effects.is_empty() {
            return self.commit(txn, None);
        }
        let bytes = txn.snapshot.written_bytes();
        let _admission = self.admit(bytes).map_err(CommitError::Failed)?;
        let lock = self.lock().map_err(CommitError::Failed)?;
        // A pattern accepted the write when the statement ran, so a refusal now is a conflict with
        // another transaction.
        let again = self.again(txn, |again| replay(again, &effects)).map_err(|error| {
            if interrupt::ends_operation(&error) {
                return CommitError::Failed(error);
            }
            tracing::debug!(
                code = error.code().0,
                "cannot reapply a transaction to the newest state"
            );
            CommitError::Conflict
        })?;
        self.commit(again, Some(lock))
    }

    /// The same transaction on the newest state. Runs inside the commit lock.
    fn again(
        &self,
        txn: Transaction,
        replay: impl FnOnce(&mut Transaction) -> Result<()>,
    ) -> Result<Transaction> {
        let Transaction { mut snapshot, guards, notes, created, owner, claimed, .. } = txn;
        let mut catalog = Catalog::clone(&self.catalog.load());
        for collection in &created {
            if catalog.get(&collection.db, &collection.name).is_some() {
                return Err(write_conflict());
            }
            catalog.set(collection.clone());
        }
        let mut notes = notes.again();
        note_catalog(&mut notes, &self.catalog.load(), &catalog, Cause::Plain);
        let mut again = Transaction::new(Arc::new(catalog), self.store.snapshot());
        again.locked = true;
        again.notes = notes;
        // Documents and index entries are written again by `replay`; other writes are copied.
        for operation in snapshot.take_writes().operations() {
            let (space, key) = (operation.space, operation.key.clone());
            match &operation.value {
                _ if matches!(space, Space::Documents | Space::Indexes) => {}
                Some(value) => again.put(space, key, value.clone()),
                None => again.delete(space, key),
            }
        }
        replay(&mut again)?;
        again.guards.extend(guards);
        again.created = created;
        again.owner = owner;
        again.claimed = claimed;
        Ok(again)
    }

    /// Aborts the transaction of a session.
    pub(crate) fn abort_transaction(&self, txn: Transaction) {
        self.release(txn.owner, &txn.guards);
    }

    fn release(&self, owner: Option<u64>, guards: &[u64]) {
        let Some(owner) = owner else { return };
        let mut state = self.commit.lock();
        state.open.remove(&owner);
        state.intents.release(owner, guards);
        drop(state);
        self.ended.notify_all();
    }
}

impl Transaction {
    /// Adds a catalog change to the transaction: `catalog` is its catalog with the new collection
    /// `collection`, `batch` has the records.
    pub(crate) fn adopt(&mut self, catalog: Catalog, batch: &Batch, collection: Arc<Collection>) {
        let mut name = collection.db.as_bytes().to_vec();
        name.push(0);
        name.extend_from_slice(collection.name.as_bytes());
        self.guard(Space::Catalog, &name);
        for operation in batch.operations() {
            let (space, key) = (operation.space, operation.key.clone());
            match &operation.value {
                Some(value) => self.put(space, key, value.clone()),
                None => self.delete(space, key),
            }
        }
        note_catalog(&mut self.notes, &self.catalog, &catalog, Cause::Plain);
        self.catalog = Arc::new(catalog);
        self.created.retain(|made| made.id != collection.id);
        self.created.push(collection);
    }

    /// Whether it belongs to a session and can span several commands.
    #[must_use]
    pub(crate) fn is_of_session(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether the transaction created this collection.
    #[must_use]
    pub(crate) fn has_created(&self, collection: &Collection) -> bool {
        self.created.iter().any(|made| made.id == collection.id)
    }
}
