//! The reader side of the log: records in commit order, the newest from memory, and a notification
//! when there are new ones.
//!
//! Readers get records only after they are durable. Everything that a reader has seen, and the
//! position that it keeps, survives a crash, and times are never reused.

use super::notes::{Notes, Records};
use super::record;
use crate::clock::Clock;
use crate::store_failed;
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Batch, Bytes, Direction, Seqno, Snapshot, Space, Store};
use value::Result;

/// First byte of the records' keys in the log space.
const CHANGE_RECORD: u8 = b'c';
/// The message of a log's first record: nothing was dropped before it.
pub(crate) const INITIATING: &str = "initiating set";
/// Bytes of the newest records that are kept in memory.
const MEMORY_BYTES: usize = 16 * 1024 * 1024;
/// The most records returned by one read.
const READ_RECORDS: usize = 256;
/// The most bytes returned by one read.
const READ_BYTES: usize = 1024 * 1024;

/// The key of the record whose first change has this time.
pub(crate) fn key(first: u64) -> [u8; 9] {
    let mut key = [CHANGE_RECORD; 9];
    if let Some(room) = key.last_chunk_mut() {
        *room = first.to_be_bytes();
    }
    key
}

/// The time of the first change of the record with this key.
pub(crate) fn time_of(key: &[u8]) -> Option<u64> {
    match key {
        [CHANGE_RECORD, time @ ..] => time.first_chunk().map(|time| u64::from_be_bytes(*time)),
        _ => None,
    }
}

/// Begins a log whose earlier records are lost: readers cannot resume from before it. Its first record
/// is later than the time `after`.
///
/// # Errors
/// When the store fails.
pub(crate) fn begin_anew(store: &dyn Store, after: u64) -> Result<()> {
    let clock = Clock::new();
    clock.begin_after(after);
    let mut notes = Notes::default();
    notes.nothing("repaired");
    let mut batch = Batch::new();
    for (record, times) in notes.finish(&mut batch) {
        let first = clock.reserve(times);
        batch.put_owned(Space::Log, key(first).as_slice(), record);
    }
    store.write(&batch).map_err(store_failed)?;
    Ok(())
}

/// One record.
#[derive(Clone)]
pub(crate) struct Entry {
    /// The time of its first change.
    pub(crate) first: u64,
    pub(crate) record: Bytes,
    seqno: Seqno,
}

/// Records that have their times and wait until their batch is applied.
pub(crate) type Stamped = SmallVec<[(u64, Bytes); 1]>;

/// The change log.
pub(crate) struct ChangeLog {
    ring: Mutex<Ring>,
    grown: Condvar,
    /// The approximate size of all records in bytes.
    pub(crate) bytes: AtomicU64,
    /// Changes up to this time were dropped; 0 if none were.
    pub(crate) lost: AtomicU64,
    pub(crate) limits: super::limits::Limits,
}

struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Records up to this time are not in memory.
    floor: u64,
    /// The time of the newest change, and its commit.
    newest: u64,
    newest_commit: Seqno,
    /// The wall time of the newest change.
    wall_ms: i64,
}

impl ChangeLog {
    /// Opens the log of a store and advances the clock past it.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn open(store: &dyn Store, clock: &Clock, read_only: bool) -> Result<ChangeLog> {
        let log = ChangeLog {
            ring: Mutex::new(Ring {
                entries: VecDeque::new(),
                bytes: 0,
                floor: 0,
                newest: 0,
                newest_commit: 0,
                wall_ms: 0,
            }),
            grown: Condvar::new(),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            limits: super::limits::Limits::default(),
        };
        log.limits.load(store)?;
        let snapshot = store.snapshot();
        let end = |direction| -> Result<Option<(u64, Bytes)>> {
            let (from, to) = (key(0), key(u64::MAX));
            let mut range = snapshot
                .range(Space::Log, Bound::Included(&from), Bound::Included(&to), direction)
                .map_err(store_failed)?;
            let entry = range.next_entry().map_err(store_failed)?;
            Ok(entry.and_then(|(key, record)| Some((time_of(&key)?, record))))
        };
        match (end(Direction::Forward)?, end(Direction::Reverse)?) {
            (Some((first, oldest)), Some((time, newest))) => {
                if !begins_the_log(&oldest) {
                    log.lost.store(first.saturating_sub(1), Ordering::Relaxed);
                }
                let last = record::last_time(&newest, time);
                clock.begin_after(last);
                let mut ring = log.ring.lock();
                ring.floor = time;
                ring.newest = last;
                ring.newest_commit = snapshot.seqno();
                ring.wall_ms = record::wall_ms(&newest);
                let bytes = store.approximate_range_bytes(Space::Log, &key(0), &key(u64::MAX));
                log.bytes.store(bytes, Ordering::Relaxed);
            }
            _ if !read_only => {
                let mut notes = Notes::default();
                notes.nothing(INITIATING);
                let mut batch = Batch::new();
                let records = notes.finish(&mut batch);
                let stamped = log.stamp(clock, &mut batch, records);
                let seqno = store.write(&batch).map_err(store_failed)?;
                log.publish(stamped, seqno);
            }
            _ => {}
        }
        Ok(log)
    }

    /// Assigns times to records and adds them to the batch. Runs inside the commit lock.
    pub(crate) fn stamp(&self, clock: &Clock, batch: &mut Batch, records: Records) -> Stamped {
        let mut stamped = Stamped::new();
        for (record, times) in records {
            let first = clock.reserve(times);
            batch.put_owned(Space::Log, key(first).as_slice(), record.clone());
            stamped.push((first, record));
        }
        stamped
    }

    /// Makes records visible whose batch was applied. Runs inside the commit lock.
    pub(crate) fn publish(&self, stamped: Stamped, seqno: Seqno) {
        if stamped.is_empty() {
            return;
        }
        let mut ring = self.ring.lock();
        for (first, record) in stamped {
            self.bytes.fetch_add(record.len() as u64 + 32, Ordering::Relaxed);
            ring.newest = record::last_time(&record, first);
            ring.newest_commit = seqno;
            ring.wall_ms = record::wall_ms(&record);
            ring.bytes += record.len();
            ring.entries.push_back(Entry { first, record, seqno });
        }
        while ring.bytes > MEMORY_BYTES {
            let Some(oldest) = ring.entries.pop_front() else { break };
            ring.bytes -= oldest.record.len();
            ring.floor = oldest.first;
        }
        drop(ring);
        self.grown.notify_all();
    }

    /// The average size of the newest changes in bytes.
    pub(crate) fn average_bytes(&self) -> u64 {
        let ring = self.ring.lock();
        let newest = ring.entries.iter().rev().take(1000);
        let (bytes, changes) = newest.fold((0, 0), |(bytes, changes), entry| {
            let count = record::last_time(&entry.record, entry.first) - entry.first + 1;
            (bytes + entry.record.len() as u64 + 32, changes + count)
        });
        bytes.checked_div(changes).unwrap_or(200)
    }

    /// Removes the records up to a time from memory, before they are dropped.
    pub(crate) fn forget(&self, last: u64) {
        self.lost.fetch_max(last, Ordering::Relaxed);
        let mut ring = self.ring.lock();
        while ring.entries.front().is_some_and(|entry| entry.first <= last) {
            let Some(oldest) = ring.entries.pop_front() else { break };
            ring.bytes -= oldest.record.len();
            ring.floor = oldest.first;
        }
    }

    /// The time of the newest change, and its wall time.
    pub(crate) fn newest(&self) -> (u64, i64) {
        let ring = self.ring.lock();
        (ring.newest, ring.wall_ms)
    }

    /// The time of the newest change, after making it durable.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn newest_durable(&self, store: &dyn Store) -> Result<u64> {
        let (newest, commit) = {
            let ring = self.ring.lock();
            (ring.newest, ring.newest_commit)
        };
        store.sync(commit).map_err(store_failed)?;
        Ok(newest)
    }

    /// The next records that begin after a time, in order; none at the end of the log.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn read_after(&self, store: &dyn Store, after: u64) -> Result<Vec<Entry>> {
        let ring = self.ring.lock();
        if after >= ring.newest {
            return Ok(Vec::new());
        }
        if after < ring.floor {
            drop(ring);
            return read_stored(store, after);
        }
        let start = ring.entries.partition_point(|entry| entry.first <= after);
        let mut bytes = 0;
        let take = |entry: &&Entry| {
            let before = bytes;
            bytes += entry.record.len();
            before < READ_BYTES
        };
        let found: Vec<Entry> =
            ring.entries.range(start..).take(READ_RECORDS).take_while(take).cloned().collect();
        drop(ring);
        if let Some(last) = found.last() {
            store.sync(last.seqno).map_err(store_failed)?;
        }
        Ok(found)
    }

    /// The time after which to start reading, so that the change at `time` and all later ones are
    /// read.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn start_of(&self, store: &dyn Store, time: u64) -> Result<u64> {
        let (from, to) = (key(0), key(time));
        let mut range = store
            .snapshot()
            .range(Space::Log, Bound::Included(&from), Bound::Included(&to), Direction::Reverse)
            .map_err(store_failed)?;
        let holding = range.next().map_err(store_failed)?.and_then(|(key, _)| time_of(key));
        Ok(holding.unwrap_or(time).saturating_sub(1))
    }

    /// The first commit with changes after a time, if there is one.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn commit_after(&self, snapshot: &Snapshot, time: u64) -> Result<Option<Seqno>> {
        let (from, to) = (key(time), key(u64::MAX));
        let (from, to) = (Bound::Excluded(from.as_slice()), Bound::Included(to.as_slice()));
        snapshot.commit_of_first(Space::Log, from, to).map_err(store_failed)
    }

    /// The time up to which changes were dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until there is a change after a time. Returns false if there is none yet.
    pub(crate) fn wait(&self, after: u64, until: Instant) -> bool {
        let mut ring = self.ring.lock();
        if ring.newest <= after {
            self.grown.wait_until(&mut ring, until);
        }
        ring.newest > after
    }

    /// Wakes all waiting readers, so that they check whether to stop.
    pub(crate) fn wake(&self) {
        self.grown.notify_all();
    }
}

/// How long a reader waits before it checks whether to stop.
pub(crate) const WAIT_STEP: Duration = Duration::from_millis(100);

fn read_stored(store: &dyn Store, after: u64) -> Result<Vec<Entry>> {
    let snapshot = store.snapshot();
    let (from, to) = (key(after), key(u64::MAX));
    let mut range = snapshot
        .range(Space::Log, Bound::Excluded(&from), Bound::Included(&to), Direction::Forward)
        .map_err(store_failed)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while found.len() < READ_RECORDS && bytes < READ_BYTES {
        let Some((key, record)) = range.next_entry().map_err(store_failed)? else { break };
        let Some(first) = time_of(&key) else { break };
        bytes += record.len();
        found.push(Entry { first, record, seqno: snapshot.seqno() });
    }
    store.sync(snapshot.seqno()).map_err(store_failed)?;
    Ok(found)
}

/// Whether a record is the first one ever written to the log.
fn begins_the_log(oldest: &Bytes) -> bool {
    let mut reader = record::Reader::new(oldest.clone(), 1);
    reader.next().is_some_and(|step| {
        let change = reader.change(&step);
        let message = change.doc.get("msg").and_then(value::Val::as_str);
        change.kind == record::Kind::Nothing && message == Some(INITIATING)
    })
}
