//! Transactions: every statement reads from one snapshot and commits its writes at once.
//!
//! A transaction is a snapshot with private writes above it, so that whatever reads from the
//! snapshot sees them too. `commit` publishes them in a short section under one lock. A statement
//! outside of a session's transaction runs in a transaction of its own, again and again until
//! nobody was in the way (`transact`); inside of one it joins that (`open`). `intents` tells which
//! keys the open transactions have written.
//!
//! Layer: transactions.

mod commit;
mod data;
mod intents;
mod open;
mod past;
mod pattern_work;

pub(crate) use commit::CommitError;
pub(crate) use commit::CommitState;
pub use data::Data;
pub use open::View;
pub(crate) use open::write_conflict;
pub(crate) use past::Past;
pub use pattern_work::{DocumentWrite, Effect, PatternWork, Trace};

use crate::catalog::{Catalog, Collection, Index};
use crate::changes::Notes;
use crate::memory::Share;
use crate::store_failed;
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hasher};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Bytes, Direction, Range, Seqno, Snapshot, Space};
use value::Result;

fn guard_hash(space: Space, key: &[u8]) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write_u8(space as u8);
    hasher.write(key);
    hasher.finish()
}

/// What a collection gains by a transaction.
struct Gain {
    collection: Arc<Collection>,
    documents: i64,
    bytes: i64,
    /// The highest record key that was inserted.
    inserted_max: Option<Vec<u8>>,
}

/// A snapshot with private writes.
pub struct Transaction {
    /// The catalog that the transaction works with, its own collections included.
    pub catalog: Arc<Catalog>,
    /// What it reads, own writes included.
    pub snapshot: Snapshot,
    /// Hashes of the keys that nobody else may have written since the snapshot.
    guards: SmallVec<[u64; 8]>,
    /// The commit as of which documents were read that are older than the snapshot.
    read_at: Option<Seqno>,
    gains: SmallVec<[Gain; 1]>,
    multikey: SmallVec<[(Arc<Index>, u32); 1]>,
    /// What the log of changes will say.
    pub(crate) notes: Notes,
    /// Collections that it made, in their newest form; others see them once it commits.
    created: Vec<Arc<Collection>>,
    /// Its number in the table of intents, if it is one of a session.
    owner: Option<u64>,
    /// How many of the guards stand in the table of intents.
    claimed: usize,
    /// What the writes of a session's transaction hold of the memory that operations share.
    share: Option<Share>,
    /// Whether nobody else can commit before it does.
    pub(crate) locked: bool,
    /// What patterns have to do before it commits.
    pub(crate) work: PatternWork,
}

impl Transaction {
    fn new(catalog: Arc<Catalog>, snapshot: Snapshot) -> Transaction {
        Transaction {
            catalog,
            snapshot,
            guards: SmallVec::new(),
            read_at: None,
            gains: SmallVec::new(),
            multikey: SmallVec::new(),
            notes: Notes::default(),
            created: Vec::new(),
            owner: None,
            claimed: 0,
            share: None,
            locked: false,
            work: PatternWork::default(),
        }
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.snapshot.has_writes()
    }

    /// The value of a key, own writes included. What a transaction reads by its key it mostly
    /// writes next.
    ///
    /// # Errors
    /// When the store fails.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.snapshot.get_to_write(space, key).map_err(store_failed)
    }

    /// A document by its key, own writes included.
    ///
    /// # Errors
    /// When the store fails.
    pub fn document(&self, collection: &Collection, key: &[u8]) -> Result<Option<Bytes>> {
        crate::layout::get_to_write(collection, &self.snapshot, key)
    }

    /// Writes a key.
    pub fn put(&mut self, space: Space, key: Bytes, value: Bytes) {
        self.snapshot.put(space, key, value);
    }

    /// Deletes a key.
    pub fn delete(&mut self, space: Space, key: Bytes) {
        self.snapshot.delete(space, key);
    }

    /// Makes the commit fail when somebody else guarded the same key after the snapshot. What
    /// patterns do to documents conflicts with nobody.
    pub fn guard(&mut self, space: Space, key: &[u8]) {
        if !self.work.is_derived() || space != Space::Documents {
            self.guards.push(guard_hash(space, key));
        }
    }

    /// Says that what is written was read as of an earlier commit: guarded keys that others wrote
    /// since then make the commit fail. False where nobody would notice.
    pub(crate) fn read_at(&mut self, seqno: Seqno) -> bool {
        let noticed = !self.locked && !self.is_of_session();
        if noticed {
            self.read_at = Some(seqno);
        }
        noticed
    }

    /// Counts documents and bytes that a collection gains.
    pub fn count(&mut self, collection: &Arc<Collection>, documents: i64, bytes: i64) {
        // What a pattern writes inside of the commit lock it found in the newest catalog.
        let is_settled = self.locked && self.work.is_derived() && collection.capped().is_none();
        if is_settled && documents == 0 && bytes == 0 {
            return;
        }
        let known = self.gains.iter_mut().find(|gain| gain.collection.id == collection.id);
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
        let gain = self.gains.iter().find(|gain| gain.collection.id == collection.id);
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
        let gain = self.gains.iter_mut().find(|gain| gain.collection.id == collection.id);
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
        let gain = self.gains.iter().find(|gain| gain.collection.id == collection.id);
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
    pub fn range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<Range> {
        let (from, to) = (Bound::Included(from), Bound::Excluded(to));
        self.snapshot.range(space, from, to, Direction::Forward).map_err(store_failed)
    }
}
