//! Commit: a short section under one lock.
//!
//! It compares the keys that the transaction guards with commits after its snapshot and with the
//! intents of open transactions. Then it updates the counters, passes one batch to the store and
//! publishes it. The flush to disk happens outside the lock, as a group commit (`Store::sync`). A
//! statement whose commit conflicts runs again on a new snapshot. After a few attempts it runs
//! inside the lock, so that it always finishes.

use super::Data;
use super::intents::{Intents, KeepHash};
use super::{Gain, Transaction};
use crate::catalog::{Catalog, Collection, change, persist};
use crate::changes::{Cause, Notes, note_catalog};
use crate::layout;
use crate::store_failed;
use parking_lot::MutexGuard;
use query::interrupt;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{Admission, Batch, Direction, Seqno, Space, StoreError};
use value::{DocBuf, Error, Result};

/// Why a commit did not happen.
pub(crate) enum CommitError {
    /// Another commit wrote the same keys; run the statement again.
    Conflict,
    /// An open transaction has written this key; wait for its end, then run the statement again.
    Claimed(u64),
    /// The commit failed for good.
    Failed(Error),
}

/// The state under the commit lock: keys of recent commits, and keys that open transactions have
/// written.
pub(crate) struct CommitState {
    recent: HashMap<u64, Seqno, BuildHasherDefault<KeepHash>>,
    order: VecDeque<(Seqno, u64)>,
    /// Commits up to here are forgotten: a transaction that began earlier always conflicts.
    floor: Seqno,
    pub(super) intents: Intents,
    /// The open transactions of sessions.
    pub(super) open: BTreeMap<u64, Open>,
}

/// The state of an open transaction that others need.
pub(super) struct Open {
    snapshot: Seqno,
    /// Collections that it has written to.
    pub(super) collections: SmallVec<[Arc<Collection>; 2]>,
}

impl Open {
    pub(super) fn new(snapshot: Seqno) -> Open {
        Open { snapshot, collections: SmallVec::new() }
    }
}

/// The number of recent keys that are remembered. A transaction older than all of them runs again.
const RECENT_MAX: usize = 1 << 18;
/// The number while transactions of sessions are open, which cannot run again on their own.
const RECENT_MAX_OPEN: usize = 1 << 22;

/// The number of emptied databases that are remembered.
const EMPTIED_MAX: usize = 10_000;

/// What a change of the catalog takes in memory, about.
const CATALOG_CHANGE_BYTES: usize = 4 << 10;

/// How long a statement waits for an open transaction or the commit lock before it checks whether to stop.
pub(super) const WAIT_STEP: Duration = Duration::from_millis(20);

impl CommitState {
    pub(crate) fn new(floor: Seqno) -> CommitState {
        CommitState {
            recent: HashMap::default(),
            order: VecDeque::new(),
            floor,
            intents: Intents::default(),
            open: BTreeMap::new(),
        }
    }

    pub(super) fn conflicts(&self, snapshot: Seqno, guards: &[u64]) -> bool {
        if snapshot < self.floor {
            return !guards.is_empty();
        }
        guards.iter().any(|key| self.recent.get(key).is_some_and(|seqno| *seqno > snapshot))
    }

    /// Whether all commits after this one are remembered.
    fn has_commits_after(&self, seqno: Seqno) -> bool {
        self.floor <= seqno
    }

    fn record(&mut self, seqno: Seqno, guards: &[u64]) {
        for &key in guards {
            self.recent.insert(key, seqno);
            self.order.push_back((seqno, key));
        }
        if self.order.len() <= RECENT_MAX {
            return;
        }
        let needed = self.open.values().map(|open| open.snapshot).min().unwrap_or(Seqno::MAX);
        while self.order.len() > RECENT_MAX {
            let first = self.order.front().map_or(0, |(seqno, _)| *seqno);
            if first > needed && self.order.len() <= RECENT_MAX_OPEN {
                break;
            }
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((seqno, key)) = self.order.pop_front() else { return };
        if self.recent.get(&key) == Some(&seqno) {
            self.recent.remove(&key);
        }
        self.floor = self.floor.max(seqno);
    }
}

impl Data {
    /// Begins a transaction on the newest state.
    pub(crate) fn begin(&self) -> Transaction {
        // The catalog is loaded first: it is never newer than the data, and a commit checks that it
        // has not changed.
        let catalog = self.catalog.load_full();
        Transaction::new(catalog, self.store.snapshot())
    }

    /// Whether the keys of all commits after this one are known.
    pub(crate) fn has_commits_after(&self, seqno: Seqno) -> bool {
        self.commit.lock().has_commits_after(seqno)
    }

    /// A read-only transaction on the newest state.
    pub(crate) fn reader(&self) -> Transaction {
        self.begin()
    }

    /// Takes the commit lock, for a commit. A statement may run inside it, and `fsync` may keep
    /// commits out, so this can take long.
    ///
    /// # Errors
    /// If the operation of this thread must stop.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, CommitState>> {
        loop {
            if let Some(state) = self.commit.try_lock_for(WAIT_STEP) {
                if !self.fsync_lock.is_held() {
                    return Ok(state);
                }
                drop(state);
                self.wait_for_fsync_lock()?;
            }
            interrupt::check_now()?;
        }
    }

    /// Waits until the store has memory for a commit of so many bytes. Call it before taking the
    /// commit lock, and keep the result until the commit is written.
    ///
    /// # Errors
    /// If the operation of this thread must stop.
    pub(crate) fn admit(&self, bytes: usize) -> Result<Admission<'_>> {
        let admission = self.store.admit(bytes, &goes_on);
        if admission.is_none() {
            interrupt::check_now()?;
        }
        Ok(admission.unwrap_or_default())
    }

    /// Writes a batch to the store. Waits for memory, if it was not admitted, and for the end of
    /// `fsync` with lock.
    ///
    /// # Errors
    /// If the operation of this thread must stop, and those of the store. Nothing is written then.
    pub(crate) fn write(&self, batch: &Batch) -> Result<Seqno> {
        self.store.write_while(batch, &goes_on).map_err(stopped_or_failed)
    }

    /// Frees the space of deleted and replaced entries of a space; returns the bytes.
    ///
    /// # Errors
    /// As for [`Data::write`].
    pub(crate) fn compact(&self, space: Space) -> Result<u64> {
        if self.fsync_lock.is_held() {
            self.wait_for_fsync_lock()?;
        }
        self.store.compact(space, &goes_on).map_err(stopped_or_failed)
    }

    /// Waits until no open transaction has written the key.
    pub(crate) fn wait_for_end(&self, key: u64, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let _waiting = interrupt::waiting();
        let mut state = self.lock()?;
        while state.intents.holds(key) {
            self.ended.wait_for(&mut state, WAIT_STEP);
            check()?;
            self.check_open()?;
        }
        Ok(())
    }

    /// Changes the catalog: `change` edits a copy and adds records to the batch, inside the commit
    /// lock. The change is durable when this returns.
    pub(crate) fn change_catalog<T>(
        &self,
        change: impl FnOnce(&mut Catalog, &mut Batch) -> Result<T>,
    ) -> Result<T> {
        self.change_catalog_for(Cause::Plain, change)
    }

    /// The same, with a cause that the change log records.
    pub(crate) fn change_catalog_for<T>(
        &self,
        cause: Cause<'_>,
        change: impl FnOnce(&mut Catalog, &mut Batch) -> Result<T>,
    ) -> Result<T> {
        self.check_writable()?;
        let admission = self.admit(CATALOG_CHANGE_BYTES)?;
        let lock = self.lock()?;
        let mut catalog = Catalog::clone(&self.catalog.load());
        let mut batch = Batch::new();
        let outcome = change(&mut catalog, &mut batch)?;
        let logged_alone = match cause {
            Cause::Plain => false,
            Cause::Modify { .. } => true,
            Cause::DropDatabase(db) => self.emptied.lock().remove(db),
        };
        if batch.is_empty() && !logged_alone {
            return Ok(outcome);
        }
        let mut notes = Notes::default();
        note_catalog(&mut notes, &self.catalog.load(), &catalog, cause);
        if !matches!(cause, Cause::DropDatabase(_)) {
            self.note_emptied(&catalog);
        }
        let records = notes.finish(&mut batch);
        let changes = self.changes.stamp(&self.clock, &mut batch, records);
        let seqno = self.write(&batch)?;
        self.past.note(&self.catalog.load(), &catalog, self.clock.now(), seqno);
        self.catalog.store(Arc::new(catalog));
        self.changes.publish(changes, seqno);
        drop((lock, admission));
        self.store.pace(&goes_on);
        self.store.sync(seqno).map_err(store_failed)?;
        Ok(outcome)
    }

    /// Adds an entry without a change to the change log. It is on disk when this returns.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn append_note(&self, content: &DocBuf) -> Result<()> {
        self.check_writable()?;
        let admission = self.admit(content.bytes().len())?;
        let lock = self.lock()?;
        let mut batch = Batch::new();
        let mut notes = Notes::default();
        notes.note(content);
        let records = notes.finish(&mut batch);
        let changes = self.changes.stamp(&self.clock, &mut batch, records);
        let seqno = self.store.write(&batch).map_err(store_failed)?;
        self.changes.publish(changes, seqno);
        drop((lock, admission));
        self.store.sync(seqno).map_err(store_failed)
    }

    /// Remembers the databases whose last collection a catalog change removes. Runs inside the
    /// commit lock.
    fn note_emptied(&self, new: &Catalog) {
        let old = self.catalog.load();
        if old.databases.len() <= new.databases.len() {
            return;
        }
        let gone = old.databases.keys().filter(|db| !new.databases.contains_key(*db));
        let mut emptied = self.emptied.lock();
        for db in gone {
            if emptied.len() >= EMPTIED_MAX {
                emptied.pop_first();
            }
            emptied.insert(db.clone());
        }
    }

    /// Commits atomically. The writes are visible at once, but not yet durable: see `Store::sync`.
    pub(crate) fn commit(
        &self,
        txn: Transaction,
        lock: Option<MutexGuard<'_, CommitState>>,
    ) -> Result<Seqno, CommitError> {
        if txn.is_empty() {
            return Ok(txn.snapshot.seqno());
        }
        self.check_writable().map_err(CommitError::Failed)?;
        let Transaction {
            mut snapshot,
            guards,
            read_at,
            gains,
            multikey,
            notes,
            created,
            owner,
            work,
            ..
        } = txn;
        let mut batch = snapshot.take_writes();
        let records = notes.finish(&mut batch);
        let had_lock = lock.is_some();
        // Before the lock: the store may have to wait for its disk.
        let admission = match had_lock {
            true => Admission::default(),
            false => self.admit(batch.bytes()).map_err(CommitError::Failed)?,
        };
        let mut state = match lock {
            Some(state) => state,
            None => self.lock().map_err(CommitError::Failed)?,
        };
        if let Some(key) = state.intents.foreign(owner, &guards) {
            return Err(CommitError::Claimed(key));
        }
        let read_at = read_at.map_or(snapshot.seqno(), |read_at| read_at.min(snapshot.seqno()));
        if !had_lock && state.conflicts(read_at, &guards) {
            return Err(CommitError::Conflict);
        }
        let catalog = self.catalog_with(&created).map_err(CommitError::Failed)?;
        let current = catalog.clone().unwrap_or_else(|| self.catalog.load_full());
        for gain in &gains {
            let collection = &gain.collection;
            let same = current.get(&collection.db, &collection.name).is_some_and(|now| {
                now.version == collection.version || created.iter().any(|own| own.id == now.id)
            });
            if !same {
                return Err(CommitError::Conflict);
            }
        }
        // Unchanged counters are not written again. Capped collections also count their inserts.
        let idle = |gain: &&Gain| {
            gain.documents == 0 && gain.bytes == 0 && gain.collection.capped().is_none()
        };
        for gain in gains.iter().filter(|gain| !idle(gain)) {
            let counters = &gain.collection.counters;
            let record = persist::encode_counters(
                counters.documents.load(Ordering::Relaxed) + gain.documents,
                counters.bytes.load(Ordering::Relaxed) + gain.bytes,
                counters.next_sequence.load(Ordering::Relaxed),
            );
            batch.put(Space::Catalog, &persist::counters_key(gain.collection.id), &record);
        }
        for (index, bits) in &multikey {
            // Set before the entries become visible; setting a bit too early is harmless.
            let bits = index.multikey.fetch_or(*bits, Ordering::Relaxed) | bits;
            batch.put(Space::Catalog, &persist::multikey_key(index.id), &bits.to_be_bytes());
        }
        if catalog.is_some() {
            // Other transactions may have taken ids since, so the values that this one saw are
            // outdated.
            self.ids.persist(&mut batch);
        }
        for gain in &gains {
            raise_top(self, gain).map_err(CommitError::Failed)?;
        }
        let changes = self.changes.stamp(&self.clock, &mut batch, records);
        let seqno = self.write(&batch).map_err(CommitError::Failed)?;
        let mut capped = false;
        for gain in &gains {
            gain.collection.counters.documents.fetch_add(gain.documents, Ordering::Relaxed);
            gain.collection.counters.bytes.fetch_add(gain.bytes, Ordering::Relaxed);
            gain.collection.counters.written_at.store(seqno, Ordering::Relaxed);
            capped |= gain.collection.capped().is_some();
            if gain.collection.holds_users_or_roles() {
                self.directory_generation.fetch_add(1, Ordering::Release);
            }
        }
        if let Some(catalog) = catalog {
            self.past.note(&self.catalog.load(), &catalog, self.clock.now(), seqno);
            self.catalog.store(catalog);
        }
        state.record(seqno, &guards);
        self.changes.publish(changes, seqno);
        drop((state, admission));
        // Outside the lock: only this thread waits if the store is behind with its work.
        self.store.pace(&goes_on);
        if work.writes() > 0 {
            self.pattern_writes.fetch_add(work.writes(), Ordering::Relaxed);
        }
        if work.has_queued() {
            self.pattern_bell.ring();
        }
        if capped {
            self.wake_tailing_cursors();
        }
        Ok(seqno)
    }

    /// The newest catalog with the collections that a transaction created; `None` if it created
    /// none. Runs inside the commit lock.
    fn catalog_with(&self, created: &[Arc<Collection>]) -> Result<Option<Arc<Catalog>>> {
        if created.is_empty() {
            return Ok(None);
        }
        let mut catalog = Catalog::clone(&self.catalog.load());
        for collection in created {
            if catalog.get(&collection.db, &collection.name).is_some() {
                return Err(super::write_conflict());
            }
            change::check_database_case(&catalog, &collection.db)?;
            catalog.set(collection.clone());
        }
        Ok(Some(Arc::new(catalog)))
    }
}

/// Whether the operation of this thread may continue to wait.
pub(super) fn goes_on() -> bool {
    interrupt::current().is_none_or(|watch| watch.check().is_ok())
}

/// The error of an operation that ended while it waited for the store is the reason of its end.
pub(super) fn stopped_or_failed(error: StoreError) -> Error {
    let reason = match error {
        StoreError::Interrupted => interrupt::check_now().err(),
        _ => None,
    };
    reason.unwrap_or_else(|| store_failed(error))
}

/// Records the highest inserted key before it becomes visible. Runs inside the commit lock, so that
/// the first read of the highest stored key misses no commit.
fn raise_top(data: &Data, gain: &Gain) -> Result<()> {
    let Some(inserted) = &gain.inserted_max else { return Ok(()) };
    let mut top = gain.collection.counters.top.lock();
    if top.is_none() {
        let from = gain.collection.prefix();
        let to = (gain.collection.id + 1).to_be_bytes();
        let snapshot = data.store.snapshot();
        let mut stored =
            layout::range(&gain.collection, &snapshot, &from, &to, Direction::Reverse)?;
        let highest = stored.next()?;
        *top = Some(highest.and_then(|(key, _)| key.get(4..)).unwrap_or(&[]).to_vec());
    }
    if top.as_ref().is_some_and(|top| inserted > top) {
        *top = Some(inserted.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Options};
    use value::{DocBuf, RawDoc, Val, ejson};

    #[test]
    fn what_is_forgotten_conflicts_with_whoever_began_before() {
        let mut state = CommitState::new(0);
        let commits = RECENT_MAX as u64 + 100;
        for seqno in 1..=commits {
            state.record(seqno, &[seqno]);
        }
        assert!(state.has_commits_after(100) && !state.has_commits_after(99));
        assert!(state.conflicts(100, &[101]) && !state.conflicts(100, &[100]));
        assert!(state.conflicts(99, &[commits + 1]) && !state.conflicts(99, &[]));
        assert_eq!(state.order.len(), state.recent.len());
    }

    #[test]
    fn a_key_that_was_written_again_is_not_forgotten_with_its_first_write() {
        let mut state = CommitState::new(0);
        state.record(1, &[7]);
        for seqno in 2..=RECENT_MAX as u64 + 10 {
            state.record(seqno, &[7, 1000 + seqno]);
        }
        let newest = RECENT_MAX as u64 + 10;
        assert!(state.conflicts(newest - 1, &[7]) && !state.conflicts(newest, &[7]));
    }

    /// The operation that runs with a comment, if there is one.
    fn running(engine: &Engine, comment: &str) -> Option<i64> {
        let command = ejson::parse_doc("{currentOp: 1}").expect("a command");
        let reply = engine.run_command("admin", command.as_doc()).expect("works");
        let list = reply.as_doc().get("inprog").and_then(Val::as_array).expect("a list");
        let found = list.iter().filter_map(|(_, one)| one.as_doc()).find(|one| {
            let command = one.get("command").and_then(Val::as_doc);
            command.and_then(|command| command.get("comment")) == Some(Val::String(comment))
        })?;
        found.get("opid").and_then(Val::as_i64_exact)
    }

    #[test]
    fn a_wait_for_the_commit_lock_ends_with_the_operation() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |text: &str| {
            let command = ejson::parse_doc(text).expect("test text");
            engine.run_command("t", command.as_doc()).map_err(|error| error.code().0)
        };
        run("{insert: 'c', documents: [{_id: 1}]}").expect("works");
        let lock = engine.inner().data.commit.lock();
        for text in [
            "{create: 'other'",
            "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]",
            "{drop: 'c'",
            "{insert: 'c', documents: [{_id: 2}]",
            "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {a: 1}}}]",
            "{findAndModify: 'c', query: {_id: 1}, remove: true",
        ] {
            let failed = |reply: Result<DocBuf, i32>| match reply {
                Err(code) => code,
                // A write reports it with its statement.
                Ok(reply) => {
                    let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
                    let first = errors.and_then(RawDoc::first).and_then(|(_, one)| one.as_doc());
                    let code = first.and_then(|one| one.get("code")).and_then(Val::as_i64_exact);
                    code.unwrap_or(0) as i32
                }
            };
            assert_eq!(failed(run(&format!("{text}, maxTimeMS: 10}}"))), 50, "{text}");
            std::thread::scope(|scope| {
                let command = format!("{text}, comment: 'waits'}}");
                let waiting = scope.spawn(move || failed(run(&command)));
                let operation = loop {
                    if let Some(operation) = running(&engine, "waits") {
                        break operation;
                    }
                    assert!(!waiting.is_finished(), "{text}: it did not wait");
                    std::thread::yield_now();
                };
                let kill = ejson::parse_doc(&format!("{{killOp: 1, op: {operation}}}"));
                let kill = kill.expect("a command");
                engine.run_command("admin", kill.as_doc()).expect("kills");
                assert_eq!(waiting.join().expect("no panic"), 11601, "{text}");
            });
        }
        drop(lock);
        assert_eq!(run("{listIndexes: 'c'}").map(|_| ()), Ok(()));
        assert_eq!(run("{listIndexes: 'other'}").map(|_| ()), Err(26), "nothing was created");
    }
}
