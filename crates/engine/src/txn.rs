//! Transactions: every statement reads from one snapshot and commits its writes at once.
//!
//! A transaction keeps a private write set. `commit` takes the commit lock for a short section:
//! it compares what the transaction wrote with what others committed after its snapshot, adds the
//! counters, hands one batch to the store and publishes it. The flush to disk happens outside, in
//! groups (`Store::sync`). A statement whose commit conflicts runs again on a new snapshot; after
//! a few tries it runs inside the lock, so that it always ends.

use crate::catalog::{Catalog, Collection, Index, persist};
use crate::engine::Inner;
use parking_lot::MutexGuard;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Batch, Bytes, Direction, Range, Seqno, Snapshot, Space, StoreError};
use value::{Code, Error, Result};

/// A new collection version, unique in the process.
pub(crate) fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What the store reports, as clients see it.
#[cold]
pub fn store_failed(error: StoreError) -> Error {
    let code = match &error {
        StoreError::Full => Code::OUT_OF_DISK_SPACE,
        StoreError::Corrupt { .. } => Code::DATA_CORRUPTION_DETECTED,
        StoreError::TooLarge { .. } => Code::OBSOLETE_KEY_TOO_LONG,
        _ => Code::INTERNAL_ERROR,
    };
    Error::new(code, error.to_string())
}

/// Why a commit did not happen.
pub(crate) enum CommitError {
    /// Another commit came between; run the statement again.
    Conflict,
    /// It can't be done.
    Failed(Error),
}

/// The commit lock's content: what was committed of late, by key.
pub(crate) struct CommitState {
    recent: HashMap<u64, Seqno, BuildHasherDefault<KeepHash>>,
    order: VecDeque<(Seqno, u64)>,
    /// Commits up to here are forgotten: a transaction that began before conflicts for safety.
    floor: Seqno,
}

/// How many recent keys are remembered. A transaction that is older than all of them runs again.
const RECENT_MAX: usize = 1 << 18;

impl CommitState {
    pub(crate) fn new(floor: Seqno) -> CommitState {
        CommitState { recent: HashMap::default(), order: VecDeque::new(), floor }
    }

    fn conflicts(&self, snapshot: Seqno, guards: &[u64]) -> bool {
        if snapshot < self.floor {
            return !guards.is_empty();
        }
        guards.iter().any(|key| self.recent.get(key).is_some_and(|seqno| *seqno > snapshot))
    }

    fn record(&mut self, seqno: Seqno, guards: &[u64]) {
        for &key in guards {
            self.recent.insert(key, seqno);
            self.order.push_back((seqno, key));
        }
        while self.order.len() > RECENT_MAX {
            let Some((seqno, key)) = self.order.pop_front() else { break };
            if self.recent.get(&key) == Some(&seqno) {
                self.recent.remove(&key);
            }
            self.floor = self.floor.max(seqno);
        }
    }
}

/// Keys of the table are hashes already.
#[derive(Default)]
pub(crate) struct KeepHash(u64);

impl Hasher for KeepHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

fn guard_hash(space: Space, key: &[u8]) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write_u8(space as u8);
    hasher.write(key);
    hasher.finish()
}

type Writes = [BTreeMap<Bytes, Option<Bytes>>; 4];

/// What a collection gains by a transaction.
struct Gain {
    collection: Arc<Collection>,
    documents: i64,
    bytes: i64,
    /// The highest record key that was inserted.
    inserted_max: Option<Vec<u8>>,
}

/// A private write set over one snapshot.
pub struct Transaction<'e> {
    engine: &'e Inner,
    /// The catalog that the transaction works with.
    pub catalog: Arc<Catalog>,
    /// What it reads.
    pub snapshot: Snapshot,
    writes: Writes,
    /// Hashes of the keys that nobody else may have written since the snapshot.
    guards: SmallVec<[u64; 8]>,
    gains: SmallVec<[Gain; 1]>,
    multikey: SmallVec<[(Arc<Index>, u32); 1]>,
    lock: Option<MutexGuard<'e, CommitState>>,
}

impl Inner {
    /// Begins a transaction on the newest state.
    pub(crate) fn begin(&self) -> Transaction<'_> {
        self.transaction(None)
    }

    /// Begins a transaction that nothing can come between: all other commits wait.
    pub(crate) fn begin_locked(&self) -> Transaction<'_> {
        let lock = self.commit.lock();
        self.transaction(Some(lock))
    }

    fn transaction<'e>(&'e self, lock: Option<MutexGuard<'e, CommitState>>) -> Transaction<'e> {
        // The catalog first: it is never newer than the data, and a commit checks that it did
        // not change meanwhile.
        let catalog = self.catalog.load_full();
        Transaction {
            engine: self,
            catalog,
            snapshot: self.store.snapshot(),
            writes: Writes::default(),
            guards: SmallVec::new(),
            gains: SmallVec::new(),
            multikey: SmallVec::new(),
            lock,
        }
    }

    /// Runs a statement in a transaction and commits it, again and again until nobody was in
    /// the way. Returns what the statement returned and the commit to wait for.
    pub(crate) fn transact<T>(
        &self,
        locked: bool,
        mut statement: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Seqno)> {
        const TRIES_WITHOUT_LOCK: usize = 3;
        let mut tries = 0;
        loop {
            let inside = locked || tries >= TRIES_WITHOUT_LOCK;
            let mut txn = if inside { self.begin_locked() } else { self.begin() };
            let outcome = statement(&mut txn)?;
            match txn.commit() {
                Ok(seqno) => return Ok((outcome, seqno)),
                Err(CommitError::Failed(error)) => return Err(error),
                Err(CommitError::Conflict) => {
                    tries += 1;
                    self.metrics.write_conflicts.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Changes the catalog: `change` edits a copy and adds records to the batch, inside the
    /// commit lock. The change is on disk when this returns.
    pub(crate) fn change_catalog<T>(
        &self,
        change: impl FnOnce(&mut Catalog, &mut Batch) -> Result<T>,
    ) -> Result<T> {
        self.check_writable()?;
        let lock = self.commit.lock();
        let mut catalog = Catalog::clone(&self.catalog.load());
        let mut batch = Batch::new();
        let outcome = change(&mut catalog, &mut batch)?;
        if batch.is_empty() {
            return Ok(outcome);
        }
        let seqno = self.store.write(&batch).map_err(store_failed)?;
        self.clock.tick();
        self.catalog.store(Arc::new(catalog));
        drop(lock);
        self.store.sync(seqno).map_err(store_failed)?;
        Ok(outcome)
    }
}

impl Transaction<'_> {
    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.iter().all(BTreeMap::is_empty)
    }

    /// The value of a key, own writes included.
    ///
    /// # Errors
    /// When the store fails.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(own) = self.writes(space).get(key) {
            return Ok(own.clone());
        }
        self.snapshot.get(space, key).map_err(store_failed)
    }

    /// Writes a key.
    pub fn put(&mut self, space: Space, key: Bytes, value: Bytes) {
        self.writes_mut(space).insert(key, Some(value));
    }

    /// Deletes a key.
    pub fn delete(&mut self, space: Space, key: Bytes) {
        self.writes_mut(space).insert(key, None);
    }

    /// Makes the commit fail when somebody else guarded the same key after the snapshot.
    pub fn guard(&mut self, space: Space, key: &[u8]) {
        self.guards.push(guard_hash(space, key));
    }

    /// Counts documents and bytes that a collection gains.
    pub fn count(&mut self, collection: &Arc<Collection>, documents: i64, bytes: i64) {
        let known = self.gains.iter_mut().find(|gain| Arc::ptr_eq(&gain.collection, collection));
        if let Some(gain) = known {
            gain.documents += documents;
            gain.bytes += bytes;
        } else {
            self.gains.push(Gain {
                collection: collection.clone(),
                documents,
                bytes,
                inserted_max: None,
            });
        }
    }

    /// Whether a record key is above every key of the collection, own inserts included. False
    /// when that is not known.
    #[must_use]
    pub fn is_above_all(&self, collection: &Arc<Collection>, record: &[u8]) -> bool {
        let gain = self.gains.iter().find(|gain| Arc::ptr_eq(&gain.collection, collection));
        let above_own = gain
            .and_then(|gain| gain.inserted_max.as_ref())
            .is_none_or(|own| record > own.as_slice());
        // Read after the snapshot was taken, so it is not below anything that the snapshot sees;
        // what others commit later conflicts with the guard on the key.
        let top = collection.counters.top.lock();
        above_own && top.as_ref().is_some_and(|top| record > top.as_slice())
    }

    /// Counts an inserted document.
    pub fn count_insert(&mut self, collection: &Arc<Collection>, record: Vec<u8>, bytes: i64) {
        self.count(collection, 1, bytes);
        let gain = self.gains.iter_mut().find(|gain| Arc::ptr_eq(&gain.collection, collection));
        if let Some(gain) = gain
            && gain.inserted_max.as_ref().is_none_or(|max| record > *max)
        {
            gain.inserted_max = Some(record);
        }
    }

    /// Documents and bytes of a collection once this transaction commits.
    #[must_use]
    pub fn counted(&self, collection: &Arc<Collection>) -> (i64, i64) {
        let counters = &collection.counters;
        let gain = self.gains.iter().find(|gain| Arc::ptr_eq(&gain.collection, collection));
        (
            counters.documents.load(Ordering::Relaxed) + gain.map_or(0, |gain| gain.documents),
            counters.bytes.load(Ordering::Relaxed) + gain.map_or(0, |gain| gain.bytes),
        )
    }

    /// Notes that fields of an index hold arrays.
    pub fn mark_multikey(&mut self, index: &Arc<Index>, bits: u32) {
        if index.multikey.load(Ordering::Relaxed) & bits != bits {
            self.multikey.push((index.clone(), bits));
        }
    }

    /// The entries between two keys, own writes included.
    ///
    /// # Errors
    /// When the store fails.
    pub fn range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<MergedRange<'_>> {
        let base = self
            .snapshot
            .range(space, Bound::Included(from), Bound::Excluded(to), Direction::Forward)
            .map_err(store_failed)?;
        let own = self.writes(space);
        let own = if own.is_empty() || from >= to {
            None
        } else {
            Some(own.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))))
        };
        Ok(MergedRange { base, own, next_base: None, next_own: None, started: false })
    }

    fn writes(&self, space: Space) -> &BTreeMap<Bytes, Option<Bytes>> {
        let [catalog, documents, indexes, log] = &self.writes;
        match space {
            Space::Catalog => catalog,
            Space::Documents => documents,
            Space::Indexes => indexes,
            Space::Log => log,
        }
    }

    fn writes_mut(&mut self, space: Space) -> &mut BTreeMap<Bytes, Option<Bytes>> {
        let [catalog, documents, indexes, log] = &mut self.writes;
        match space {
            Space::Catalog => catalog,
            Space::Documents => documents,
            Space::Indexes => indexes,
            Space::Log => log,
        }
    }

    /// Commits: all or nothing, visible to everybody at once. Not yet on disk: `Store::sync`.
    pub(crate) fn commit(self) -> Result<Seqno, CommitError> {
        if self.is_empty() {
            return Ok(self.snapshot.seqno());
        }
        self.engine.check_writable().map_err(CommitError::Failed)?;
        let Transaction { engine, snapshot, writes, guards, gains, multikey, lock, .. } = self;
        let mut batch = Batch::new();
        for (space, own) in Space::ALL.into_iter().zip(writes) {
            for (key, value) in own {
                match value {
                    Some(value) => batch.put_owned(space, key, value),
                    None => batch.delete_owned(space, key),
                }
            }
        }
        let had_lock = lock.is_some();
        let mut state = lock.unwrap_or_else(|| engine.commit.lock());
        if !had_lock && state.conflicts(snapshot.seqno(), &guards) {
            return Err(CommitError::Conflict);
        }
        let current = engine.catalog.load();
        for gain in &gains {
            let collection = &gain.collection;
            let same = current
                .get(&collection.db, &collection.name)
                .is_some_and(|now| now.version == collection.version);
            if !same {
                return Err(CommitError::Conflict);
            }
        }
        for gain in &gains {
            let counters = &gain.collection.counters;
            let record = persist::encode_counters(
                counters.documents.load(Ordering::Relaxed) + gain.documents,
                counters.bytes.load(Ordering::Relaxed) + gain.bytes,
                counters.next_sequence.load(Ordering::Relaxed),
            );
            batch.put(Space::Catalog, &persist::counters_key(gain.collection.id), &record);
        }
        for (index, bits) in &multikey {
            // Set before the entries become visible; a bit that is set too early is harmless.
            let bits = index.multikey.fetch_or(*bits, Ordering::Relaxed) | bits;
            batch.put(Space::Catalog, &persist::multikey_key(index.id), &bits.to_be_bytes());
        }
        for gain in &gains {
            raise_top(engine, gain).map_err(CommitError::Failed)?;
        }
        let seqno = engine.store.write(&batch).map_err(|e| CommitError::Failed(store_failed(e)))?;
        let mut capped = false;
        for gain in &gains {
            gain.collection.counters.documents.fetch_add(gain.documents, Ordering::Relaxed);
            gain.collection.counters.bytes.fetch_add(gain.bytes, Ordering::Relaxed);
            capped |= gain.collection.capped().is_some();
        }
        state.record(seqno, &guards);
        engine.clock.tick();
        drop(state);
        if capped {
            engine.wake_tailing_cursors();
        }
        Ok(seqno)
    }
}

/// Notes the highest inserted key before it becomes visible. Runs inside the commit lock, so that
/// the first look at the highest stored key misses no commit.
fn raise_top(engine: &Inner, gain: &Gain) -> Result<()> {
    let Some(inserted) = &gain.inserted_max else { return Ok(()) };
    let mut top = gain.collection.counters.top.lock();
    if top.is_none() {
        let from = gain.collection.prefix();
        let to = (gain.collection.id + 1).to_be_bytes();
        let snapshot = engine.store.snapshot();
        let (from, to) = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
        let mut stored =
            snapshot.range(Space::Documents, from, to, Direction::Reverse).map_err(store_failed)?;
        let highest = stored.next().map_err(store_failed)?;
        *top = Some(highest.and_then(|(key, _)| key.get(4..)).unwrap_or(&[]).to_vec());
    }
    if top.as_ref().is_some_and(|top| inserted > top) {
        *top = Some(inserted.clone());
    }
    Ok(())
}

/// Entries of the snapshot and of the own writes, in key order; own ones win.
pub struct MergedRange<'t> {
    base: Range,
    own: Option<std::collections::btree_map::Range<'t, Bytes, Option<Bytes>>>,
    next_base: Option<(Bytes, Bytes)>,
    next_own: Option<(&'t Bytes, &'t Option<Bytes>)>,
    started: bool,
}

impl MergedRange<'_> {
    /// The next entry.
    ///
    /// # Errors
    /// When the store fails.
    pub fn next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let Some(own) = &mut self.own else {
            return self.base.next_entry().map_err(store_failed);
        };
        if !self.started {
            self.started = true;
            self.next_base = self.base.next_entry().map_err(store_failed)?;
            self.next_own = own.next();
        }
        loop {
            let own_first = match (&self.next_base, &self.next_own) {
                (None, None) => return Ok(None),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((base, _)), Some((key, _))) => {
                    if base.as_slice() == key.as_slice() {
                        self.next_base = self.base.next_entry().map_err(store_failed)?;
                        true
                    } else {
                        key.as_slice() < base.as_slice()
                    }
                }
            };
            if !own_first {
                let next = self.base.next_entry().map_err(store_failed)?;
                return Ok(std::mem::replace(&mut self.next_base, next));
            }
            let Some((key, value)) = std::mem::replace(&mut self.next_own, own.next()) else {
                return Ok(None);
            };
            if let Some(value) = value {
                return Ok(Some((key.clone(), value.clone())));
            }
        }
    }
}
