//! Transactions: every statement reads from one snapshot and commits its writes atomically.
//!
//! A transaction is a snapshot with private writes on top, so that all its reads see them. `commit`
//! publishes them in a short section under one lock. A statement outside a session's transaction
//! runs in its own transaction, and is repeated until it does not conflict (`transact`); inside one
//! it joins it (`open`). `intents` records the keys that open transactions have written.
//!
//! Layer: transactions.

mod clean_up;
mod commit;
mod data;
mod fsync_lock;
mod intents;
mod later;
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
use patterns::layout::{Demand, Hidden};
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

/// The changes of a collection's counters by a transaction.
struct Gain {
    collection: Arc<Collection>,
    documents: i64,
    bytes: i64,
    /// The highest inserted record key.
    inserted_max: Option<Vec<u8>>,
}

/// A snapshot with private writes.
pub struct Transaction {
    /// The catalog that the transaction uses, including collections it created.
    pub catalog: Arc<Catalog>,
    /// The state that it reads, including its own writes.
    pub snapshot: Snapshot,
    /// Hashes of the keys that no other transaction may have written since the snapshot.
    guards: SmallVec<[u64; 8]>,
    /// The commit at which documents were read, if that is older than the snapshot.
    read_at: Option<Seqno>,
    gains: SmallVec<[Gain; 1]>,
    multikey: SmallVec<[(Arc<Index>, u64); 1]>,
    /// The changes for the change log.
    pub(crate) notes: Notes,
    /// The collections that it created, in their newest form; visible to others after the commit.
    created: Vec<Arc<Collection>>,
    /// Its number in the table of intents, if it belongs to a session.
    owner: Option<u64>,
    /// The number of guards that are in the table of intents.
    claimed: usize,
    /// The memory share of the writes, for a session's transaction.
    share: Option<Share>,
    /// Whether it holds the commit lock, so that no other commit can come first.
    pub(crate) locked: bool,
    /// The work of patterns to do before it commits.
    pub(crate) work: PatternWork,
    /// The document that is being replaced by an image of which only a part was read.
    pub(crate) part: Option<PartWrite>,
    /// Documents of the current statement that are stored or removed together at its end.
    later: Option<Box<later::Later>>,
}

/// A document that is written as it was read: in part.
pub(crate) struct PartWrite {
    /// The prefix of its collection.
    pub(crate) collection: u32,
    /// Its record key.
    pub(crate) record: Bytes,
    /// What was read of it.
    pub(crate) demand: Arc<Demand>,
    /// What its images lack of an array.
    pub(crate) hidden: Option<Hidden>,
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
            part: None,
            later: None,
        }
    }

    /// What was read of a document that is being replaced, if that was only a part.
    #[must_use]
    pub(crate) fn part_of(&self, collection: &Collection, record: &[u8]) -> Option<Arc<Demand>> {
        let part = self.part.as_ref()?;
        let same = part.collection == collection.id && *part.record == *record;
        same.then(|| part.demand.clone())
    }

    /// What the images of a document that is being replaced lack of an array.
    #[must_use]
    pub(crate) fn hidden_of(&self, collection: &Collection, record: &[u8]) -> Option<&Hidden> {
        self.part_of(collection, record)?;
        self.part.as_ref()?.hidden.as_ref()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.snapshot.has_writes()
    }

    /// The value of a key, including own writes. A key that is read this way is usually written
    /// next.
    ///
    /// # Errors
    /// When the store fails.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.snapshot.get_to_write(space, key).map_err(store_failed)
    }

    /// A document by its key, including own writes.
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

    /// Makes the commit fail if another transaction guarded the same key after the snapshot. Writes
    /// of patterns to documents are not guarded.
    pub fn guard(&mut self, space: Space, key: &[u8]) {
        if !self.work.is_derived() || space != Space::Documents {
            self.guards.push(guard_hash(space, key));
        }
    }

    /// Declares that the written data was read at an earlier commit: guarded keys that others wrote
    /// since then make the commit fail. Returns false if such conflicts can no longer be detected.
    pub(crate) fn read_at(&mut self, seqno: Seqno) -> bool {
        let noticed = !self.locked && !self.is_of_session();
        if noticed {
            self.read_at = Some(seqno);
        }
        noticed
    }

    /// Adds to the counts of documents and bytes of a collection.
    pub fn count(&mut self, collection: &Arc<Collection>, documents: i64, bytes: i64) {
        // A pattern that writes inside the commit lock uses collections of the newest catalog.
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

    /// Whether a record key is above every key of the collection, including own inserts. False if
    /// that is not known.
    #[must_use]
    pub fn is_above_all(&self, collection: &Arc<Collection>, record: &[u8]) -> bool {
        let gain = self.gains.iter().find(|gain| gain.collection.id == collection.id);
        let above_own = gain
            .and_then(|gain| gain.inserted_max.as_ref())
            .is_none_or(|own| record > own.as_slice());
        // Read after the snapshot was taken, so it is not below any key in the snapshot. Later
        // commits conflict with the guard on the key.
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

    /// The counts of documents and bytes of a collection after this transaction commits.
    #[must_use]
    pub fn counted(&self, collection: &Arc<Collection>) -> (i64, i64) {
        let counters = &collection.counters;
        let gain = self.gains.iter().find(|gain| gain.collection.id == collection.id);
        (
            counters.documents.load(Ordering::Relaxed) + gain.map_or(0, |gain| gain.documents),
            counters.bytes.load(Ordering::Relaxed) + gain.map_or(0, |gain| gain.bytes),
        )
    }

    /// Records that fields of an index contain arrays.
    pub fn mark_multikey(&mut self, index: &Arc<Index>, bits: u64) {
        if index.multikey.load(Ordering::Relaxed) & bits != bits {
            self.multikey.push((index.clone(), bits));
        }
    }

    /// The entries between two keys, including own writes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn range(&self, space: Space, from: &[u8], to: &[u8]) -> Result<Range> {
        let (from, to) = (Bound::Included(from), Bound::Excluded(to));
        self.snapshot.range(space, from, to, Direction::Forward).map_err(store_failed)
    }
}
