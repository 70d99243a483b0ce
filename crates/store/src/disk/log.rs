//! The write-ahead log. Records are appended to a buffer in memory. The first thread that waits
//! for the disk writes and flushes the whole buffer for all waiting threads (group commit).
//!
//! Each round writes the pending bytes and flushes them before the next round begins. So a record
//! on disk proves that all earlier rounds are on disk, and a torn tail is always the last round.
//!
//! Own code, because no crate has a log whose segments are preallocated and shared by several
//! trees.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::file::sync_folder;
use super::record::{Payload, SEGMENT_HEADER, SegmentHeader, encode_record};
use super::segment::{NewestNote, Pool, ReleaseNote, Segment, SegmentFile};
use crate::error::is_full;
use crate::{Result, Seqno, StoreError};

/// With more pending bytes than this, the writer itself waits for the disk.
const MAX_PENDING: usize = 2 << 20;
/// Buffers larger than this are freed after use. The limit is above `MAX_PENDING` because the
/// buffer of a blocked writer may have grown to twice its content, and allocating new memory for
/// each round costs more than copying.
const KEEP_BUFFER: usize = 3 * MAX_PENDING;
/// How many free buffers are kept: a round that ends a segment writes two.
const SPARE_BUFFERS: usize = 2;

pub(super) struct Log {
    pool: Pool,
    pending: Mutex<Pending>,
    rounds: Mutex<Rounds>,
    round_ended: Condvar,
    /// Earlier segments that are still needed, oldest first.
    closed: Mutex<VecDeque<Arc<Segment>>>,
    note: Mutex<ReleaseNote>,
    newest: NewestNote,
    /// The last appended commit.
    last: AtomicU64,
    poisoned: AtomicBool,
    pub(super) counters: Counters,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) syncs: AtomicU64,
    pub(super) synced_batches: AtomicU64,
    pub(super) written_bytes: AtomicU64,
}

/// Bytes that were appended and not written yet.
struct Pending {
    segment: Arc<Segment>,
    /// Offset of the buffer in the segment.
    start: u64,
    buffer: Vec<u8>,
    /// Pending ends of earlier segments, oldest first.
    older: Vec<Chunk>,
    last: Seqno,
    batches: u64,
    /// Free buffers of earlier rounds.
    spares: Vec<Vec<u8>>,
}

/// Bytes for one offset of one segment.
struct Chunk {
    segment: Arc<Segment>,
    start: u64,
    bytes: Vec<u8>,
}

struct Rounds {
    durable: Seqno,
    running: bool,
    poison: Option<String>,
}

/// A segment that recovery has read. It is needed until its records are in tables.
pub(super) struct Recovered {
    pub(super) segments: Vec<Arc<Segment>>,
    /// The generation of the first segment to write, and where the previous one ended.
    pub(super) next_generation: u64,
    pub(super) previous_end: u64,
    pub(super) last: Seqno,
}

impl Log {
    /// Starts the log after the recovered records, in a new segment.
    pub(super) fn start(pool: Pool, note: ReleaseNote, recovered: Recovered) -> Result<Log> {
        let generation = recovered.next_generation;
        let (segment, header) = make_segment(&pool, generation, recovered.previous_end, 0, true)
            .map_err(|error| StoreError::io("create", &pool.path(generation), &error))?;
        Ok(Log {
            pool,
            pending: Mutex::new(Pending {
                segment,
                start: 0,
                buffer: header.to_vec(),
                older: Vec::new(),
                last: recovered.last,
                batches: 0,
                spares: Vec::new(),
            }),
            rounds: Mutex::new(Rounds { durable: recovered.last, running: false, poison: None }),
            round_ended: Condvar::new(),
            closed: Mutex::new(recovered.segments.into()),
            newest: note.newest(),
            note: Mutex::new(note),
            last: AtomicU64::new(recovered.last),
            poisoned: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    /// Appends a record; makes room for it first. Calls `seqno` for the record's number only when
    /// nothing can fail any more. The caller holds the commit lock.
    pub(super) fn append(
        &self,
        payload: &Payload<'_>,
        seqno: impl FnOnce() -> Seqno,
    ) -> Result<Seqno> {
        self.check_poison()?;
        let mut pending = self.pending.lock();
        let bytes = payload.record_bytes();
        if pending.position() + bytes > pending.segment.size {
            self.roll(&mut pending, bytes)?;
        }
        let seqno = seqno();
        let (salt, position) = (pending.segment.salt, pending.position());
        let synced = pending.segment.synced.load(Ordering::Acquire);
        encode_record(&mut pending.buffer, payload, salt, position, synced, seqno);
        pending.last = seqno;
        pending.batches += 1;
        self.last.store(seqno, Ordering::Release);
        self.counters.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(seqno)
    }

    /// Whether so many bytes are pending that the writer should wait for the disk.
    pub(super) fn is_behind(&self) -> bool {
        self.pending_bytes() > MAX_PENDING
    }

    /// Whether a quarter of the limit of `is_behind` is pending.
    pub(super) fn is_filling(&self) -> bool {
        self.pending_bytes() > MAX_PENDING / 4
    }

    fn pending_bytes(&self) -> usize {
        let pending = self.pending.lock();
        let older: usize = pending.older.iter().map(|chunk| chunk.bytes.len()).sum();
        pending.buffer.len() + older
    }

    /// Begins a new segment, so that earlier ones hold nothing newer. Returns the generation in
    /// which, or after which, all later records are written. If there is no room for a new
    /// segment, the current one is continued. The caller holds the commit lock.
    pub(super) fn cut(&self) -> u64 {
        let mut pending = self.pending.lock();
        if pending.position() > SEGMENT_HEADER as u64
            && let Err(error) = self.roll(&mut pending, 0)
        {
            tracing::debug!("no new log segment yet: {error}");
        }
        pending.segment.generation
    }

    fn roll(&self, pending: &mut Pending, bytes: u64) -> Result<()> {
        let generation = pending.segment.generation + 1;
        let position = pending.position();
        let (segment, header) = make_segment(&self.pool, generation, position, bytes, false)
            .map_err(|error| {
                if is_full(&error) {
                    StoreError::Full
                } else {
                    StoreError::io("create", &self.pool.path(generation), &error)
                }
            })?;
        let old = std::mem::replace(&mut pending.segment, segment);
        old.end.store(position, Ordering::Release);
        let mut next = pending.spares.pop().unwrap_or_default();
        next.extend_from_slice(&header);
        let buffer = std::mem::replace(&mut pending.buffer, next);
        let start = std::mem::replace(&mut pending.start, 0);
        if !buffer.is_empty() {
            pending.older.push(Chunk { segment: old.clone(), start, bytes: buffer });
        }
        self.closed.lock().push_back(old);
        Ok(())
    }

    /// Waits until every commit up to `seqno` is on disk.
    pub(super) fn sync(&self, seqno: Seqno) -> Result<()> {
        // Seqnos without a log record (see `Shared::advance`) need no flush.
        let target = seqno.min(self.last.load(Ordering::Acquire));
        let mut rounds = self.rounds.lock();
        loop {
            if rounds.durable >= target {
                return Ok(());
            }
            if let Some(reason) = &rounds.poison {
                return Err(StoreError::Poisoned { reason: reason.clone() });
            }
            if rounds.running {
                self.round_ended.wait(&mut rounds);
                continue;
            }
            rounds.running = true;
            drop(rounds);
            let outcome = self.run_round();
            rounds = self.rounds.lock();
            rounds.running = false;
            match outcome {
                Ok(durable) => rounds.durable = durable,
                Err(reason) => {
                    tracing::error!("the log cannot be written, writing stops: {reason}");
                    self.poisoned.store(true, Ordering::Release);
                    rounds.poison.get_or_insert(reason);
                }
            }
            self.round_ended.notify_all();
        }
    }

    /// Writes and flushes the pending bytes. Only one round runs at a time.
    fn run_round(&self) -> std::result::Result<Seqno, String> {
        let (chunks, last, batches) = {
            let mut pending = self.pending.lock();
            let mut chunks = std::mem::take(&mut pending.older);
            let spare = pending.spares.pop().unwrap_or_default();
            let bytes = std::mem::replace(&mut pending.buffer, spare);
            let start = pending.start;
            pending.start += bytes.len() as u64;
            chunks.push(Chunk { segment: pending.segment.clone(), start, bytes });
            (chunks, pending.last, std::mem::take(&mut pending.batches))
        };
        for chunk in chunks {
            self.write_chunk(&chunk)
                .map_err(|error| format!("{}: {error}", chunk.segment.file.path().display()))?;
            self.pending.lock().keep(chunk.bytes);
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.counters.synced_batches.fetch_add(batches, Ordering::Relaxed);
        Ok(last)
    }

    fn write_chunk(&self, chunk: &Chunk) -> io::Result<()> {
        if chunk.bytes.is_empty() {
            return Ok(());
        }
        if chunk.start == 0 && !chunk.segment.is_listed.load(Ordering::Acquire) {
            // The directory entry of a new segment must be on disk before its records count as
            // durable.
            sync_folder(self.pool.folder())?;
        }
        chunk.segment.file.write(&chunk.bytes, chunk.start)?;
        chunk.segment.file.sync()?;
        let end = chunk.start + chunk.bytes.len() as u64;
        chunk.segment.synced.store(end, Ordering::Release);
        if chunk.start == 0 {
            self.newest.write(chunk.segment.generation)?;
        }
        Ok(())
    }

    /// Releases segments before `generation`: their records are in tables.
    pub(super) fn release(&self, generation: u64) -> Result<()> {
        self.note.lock().advance(generation)?;
        loop {
            let segment = {
                let mut closed = self.closed.lock();
                match closed.front() {
                    Some(oldest) if oldest.generation < generation => closed.pop_front(),
                    _ => None,
                }
            };
            let Some(segment) = segment else { return Ok(()) };
            let path = segment.file.path();
            self.pool
                .give_back(path, segment.size)
                .map_err(|error| StoreError::io("release", path, &error))?;
        }
    }

    /// Prepares the next segment, and creates a spare one if there is none. Called by a background
    /// thread.
    pub(super) fn refill(&self) -> io::Result<()> {
        self.pool.prepare()?;
        self.pool.refill()?;
        self.pool.prepare()
    }

    /// Called when the store closes, after its background threads have ended.
    pub(super) fn end_preparing(&self) {
        if let Err(error) = self.pool.put_prepared_back() {
            tracing::debug!("the prepared log segment keeps its name: {error}");
        }
    }

    /// Removes spare segments, to make room for tables.
    pub(super) fn remove_spares(&self) {
        if let Err(error) = self.pool.remove_spares() {
            tracing::warn!("spare log segments could not be removed: {error}");
        }
    }

    pub(super) fn check_poison(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            let reason = self.rounds.lock().poison.clone().unwrap_or_default();
            return Err(StoreError::Poisoned { reason });
        }
        Ok(())
    }

    pub(super) fn last(&self) -> Seqno {
        self.last.load(Ordering::Acquire)
    }

    pub(super) fn durable(&self) -> Seqno {
        self.rounds.lock().durable
    }

    /// Returns the bytes and the number of needed segments, and the bytes of spare ones.
    pub(super) fn sizes(&self) -> (u64, u64, u64) {
        let (position, current) = {
            let pending = self.pending.lock();
            (pending.position(), pending.segment.size)
        };
        let closed = self.closed.lock();
        let bytes = closed.iter().map(|segment| segment.size).sum::<u64>();
        let live = closed.len() as u64 + u64::from(position > SEGMENT_HEADER as u64);
        (bytes + current, live, self.pool.spare_bytes())
    }

    /// Returns every needed segment with the offset up to which its records must be valid.
    pub(super) fn segments(&self) -> Vec<(Arc<Segment>, u64)> {
        let current = self.pending.lock().segment.clone();
        let mut segments: Vec<_> = self.closed.lock().iter().cloned().collect();
        segments.push(current);
        segments
            .into_iter()
            .map(|segment| {
                let synced = segment.synced.load(Ordering::Acquire);
                (segment, synced)
            })
            .collect()
    }
}

impl Pending {
    fn position(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Keeps a written buffer for later rounds. The largest is used first.
    fn keep(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > KEEP_BUFFER {
            return;
        }
        buffer.clear();
        self.spares.push(buffer);
        self.spares.sort_unstable_by_key(Vec::capacity);
        if self.spares.len() > SPARE_BUFFERS {
            self.spares.remove(0);
        }
    }
}

/// Creates a segment and the bytes of its header, which are written with its first records.
fn make_segment(
    pool: &Pool,
    generation: u64,
    previous_end: u64,
    bytes: u64,
    first: bool,
) -> io::Result<(Arc<Segment>, [u8; SEGMENT_HEADER])> {
    let SegmentFile { file, size, is_listed } =
        pool.take(generation, bytes + SEGMENT_HEADER as u64, first)?;
    // Records of the file's earlier use must not pass as new ones: the salt must be unique.
    let mut salt = [0; 8];
    getrandom::fill(&mut salt)?;
    let salt = u64::from_le_bytes(salt);
    let header = SegmentHeader { generation, salt, previous_end }.encode();
    let (synced, end) = (AtomicU64::new(0), AtomicU64::new(0));
    let segment = Segment { file, generation, salt, size, synced, end, is_listed };
    Ok((Arc::new(segment), header))
}
