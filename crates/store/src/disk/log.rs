//! The write-ahead log: records are appended to a buffer in memory, and whoever waits for the disk
//! first writes and flushes the whole buffer for everybody (group commit).
//!
//! Each round writes what is pending, then flushes it, before the next round begins. So a record
//! on disk proves that every earlier round is on disk, and a torn tail is always the last round.
//!
//! By hand, because no crate has a log whose segments are preallocated and shared by several trees.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::file::sync_folder;
use super::record::{Payload, SEGMENT_HEADER, SegmentHeader, encode_record};
use super::segment::{Pool, ReleaseNote, Segment};
use crate::error::is_full;
use crate::{Result, Seqno, StoreError};

/// More than this waiting in memory makes the writer itself wait for the disk.
const MAX_PENDING: usize = 2 << 20;
/// Buffers that grew above this are given back to the system. What a writer that is held back
/// leaves must stay, and it may have grown to twice of what it holds: fresh memory for every round
/// costs more than all copying.
const KEEP_BUFFER: usize = 3 * MAX_PENDING;
/// So many buffers wait to be used again: a round that ends a segment writes two.
const SPARE_BUFFERS: usize = 2;

pub(super) struct Log {
    pool: Pool,
    pending: Mutex<Pending>,
    rounds: Mutex<Rounds>,
    round_ended: Condvar,
    /// Segments before the current one that are still needed, oldest first.
    closed: Mutex<VecDeque<Arc<Segment>>>,
    note: Mutex<ReleaseNote>,
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

/// What was appended and not written yet.
struct Pending {
    segment: Arc<Segment>,
    /// Where the buffer begins in the segment.
    start: u64,
    buffer: Vec<u8>,
    /// Ends of earlier segments, oldest first.
    older: Vec<Chunk>,
    last: Seqno,
    batches: u64,
    /// Buffers of earlier rounds, to be used again.
    spares: Vec<Vec<u8>>,
}

/// Bytes for one place of one segment.
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

/// A segment that recovery has read and that is needed until its records are in tables.
pub(super) struct Recovered {
    pub(super) segments: Vec<Arc<Segment>>,
    /// The generation of the first segment to write, and where the one before it ended.
    pub(super) next_generation: u64,
    pub(super) previous_end: u64,
    pub(super) last: Seqno,
}

impl Log {
    /// Goes on behind what was recovered, in a segment of its own.
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
            note: Mutex::new(note),
            last: AtomicU64::new(recovered.last),
            poisoned: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    /// Appends a record, making room for it first. `seqno` is asked for its number only when
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

    /// Whether so much waits in memory that the writer should wait for the disk.
    pub(super) fn is_behind(&self) -> bool {
        self.pending_bytes() > MAX_PENDING
    }

    /// Whether that is not far any more.
    pub(super) fn is_filling(&self) -> bool {
        self.pending_bytes() > MAX_PENDING / 4
    }

    fn pending_bytes(&self) -> usize {
        let pending = self.pending.lock();
        let older: usize = pending.older.iter().map(|chunk| chunk.bytes.len()).sum();
        pending.buffer.len() + older
    }

    /// Begins a new segment, so that the ones before it hold nothing newer. Returns the
    /// generation that everything from now on is written to or behind. Without room for a new
    /// segment the current one goes on. The caller holds the commit lock.
    pub(super) fn cut(&self) -> u64 {
        let mut pending = self.pending.lock();
        if pending.position() > SEGMENT_HEADER as u64
            && let Err(error) = self.roll(&mut pending, 0)
        {
            tracing::warn!("no new log segment yet: {error}");
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

    /// Returns when everything up to `seqno` is on disk.
    pub(super) fn sync(&self, seqno: Seqno) -> Result<()> {
        // Numbers without a record of their own (see `Shared::advance`) need no disk.
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

    /// Writes and flushes what is pending. Only one round runs at a time.
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
        if chunk.start == 0 {
            // The name of a new segment must be on disk before anything in it counts.
            sync_folder(self.pool.folder())?;
        }
        chunk.segment.file.write(&chunk.bytes, chunk.start)?;
        chunk.segment.file.sync()?;
        let end = chunk.start + chunk.bytes.len() as u64;
        chunk.segment.synced.store(end, Ordering::Release);
        if chunk.start == 0 {
            self.note.lock().note_newest(chunk.segment.generation)?;
        }
        Ok(())
    }

    /// Gives up segments before `generation`: what they hold is in tables now.
    pub(super) fn release(&self, generation: u64) -> Result<()> {
        let mut note = self.note.lock();
        note.advance(generation)?;
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

    /// Makes a spare segment if there is none; for a background thread.
    pub(super) fn refill(&self) -> io::Result<()> {
        self.pool.refill()
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

    /// Bytes of segments that are needed, how many those are, and bytes of spare ones.
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

    /// Every needed segment with the point up to which its records must be valid.
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

    /// Keeps a buffer that was written, for later rounds. The largest is used first.
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

/// A new segment and the bytes of its header, which are written with its first records.
fn make_segment(
    pool: &Pool,
    generation: u64,
    previous_end: u64,
    bytes: u64,
    first: bool,
) -> io::Result<(Arc<Segment>, [u8; SEGMENT_HEADER])> {
    let (file, size) = pool.take(generation, bytes + SEGMENT_HEADER as u64, first)?;
    // Records of a file's former life must not fit the new one: the salt has to be unique.
    let mut salt = [0; 8];
    getrandom::fill(&mut salt)?;
    let salt = u64::from_le_bytes(salt);
    let header = SegmentHeader { generation, salt, previous_end }.encode();
    let segment =
        Segment { file, generation, salt, size, synced: AtomicU64::new(0), end: AtomicU64::new(0) };
    Ok((Arc::new(segment), header))
}
