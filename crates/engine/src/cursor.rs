//! Open cursors between `getMore` commands.
//!
//! A cursor holds a stream over a stable snapshot. Between two batches it is in the registry. A
//! `getMore` takes it out, so that only one command at a time uses it. An idle cursor is closed
//! after a timeout, unless it was opened with `noCursorTimeout`.
//!
//! Layer: queries.

use crate::catalog::Collection;
use crate::change_streams::Changes;
use crate::exec::find::FindStream;
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::report::{PlanSummary, ShapeHashes};
use crate::slot::CursorFacts;
use parking_lot::Mutex;
use patterns::shape::Reader;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::Seqno;
use value::{Code, DocBuf, Error, Result, Val, limits};

/// The source of a cursor's documents.
pub enum Source {
    /// Any stream.
    Stream(Box<dyn Stream>),
    /// A tailable cursor over a capped collection.
    Tail(Box<Tail>),
    /// A reader of the change log.
    Changes(Box<Changes>),
}

/// A tailable cursor over a capped collection.
pub struct Tail {
    /// The documents up to the end that was seen last.
    pub stream: FindStream,
    /// The key of the record returned last.
    pub last: Vec<u8>,
    /// The collection.
    pub collection: Arc<Collection>,
    /// Whether `getMore` waits for new documents.
    pub await_data: bool,
}

/// An open cursor.
pub struct Cursor {
    /// Its identifier.
    pub id: i64,
    /// The namespace it was opened on.
    pub namespace: String,
    /// The documents.
    pub source: Source,
    /// A document that did not fit into the last batch.
    pub pending: Option<Doc>,
    /// The session that opened it.
    pub session: Option<[u8; 16]>,
    /// The user who opened it, as `name@db`.
    pub owner: Option<Box<str>>,
    /// Who opened it, if the form of documents may depend on that.
    pub reader: Option<Arc<Reader>>,
    /// The number of the transaction that opened it, within its session.
    pub transaction: Option<i64>,
    /// Whether it is exempt from the idle timeout.
    pub no_timeout: bool,
    /// The collection that it reads. The cursor ends when the collection is dropped.
    pub collection: Option<Arc<Collection>>,
    /// The command that opened it.
    pub command: Arc<DocBuf>,
    /// How it finds its documents.
    pub plan: PlanSummary,
    /// The shape of its query, if it was opened while a database was profiled.
    pub shape: Option<ShapeHashes>,
    /// The commit that it reads, if it reads from a snapshot of the store.
    pub snapshot: Option<Seqno>,
    /// When it was opened.
    pub opened: Instant,
    /// When it was last used.
    pub last_used: Instant,
    /// Documents returned so far.
    pub returned: u64,
    /// Batches returned so far.
    pub batches: u64,
    /// The remaining part of the time limit of the command that opened it.
    pub time_left: Option<Duration>,
}

impl Cursor {
    /// The next document.
    ///
    /// # Errors
    /// Any error of the stream; QueryPlanKilled when the collection was dropped.
    pub fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        if let Some(doc) = self.pending.take() {
            return Ok(Some(doc));
        }
        let dropped = |c: &Arc<Collection>| c.dropped.load(Ordering::Relaxed);
        // A transaction reads from its snapshot, even after the collection was dropped.
        if self.transaction.is_none() && self.collection.as_ref().is_some_and(dropped) {
            return Err(Error::new(
                Code::QUERY_PLAN_KILLED,
                "collection dropped between getMore calls",
            ));
        }
        let next = match &mut self.source {
            Source::Stream(stream) => stream.next(op),
            Source::Tail(tail) => match tail.stream.next_row(op) {
                Ok(Some((record, doc))) => {
                    tail.last = record;
                    Ok(Some(doc))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
            Source::Changes(changes) => changes.next(op),
        };
        next.map_err(|error| self.in_own_terms(error))
    }

    /// A cursor that was not asked to read a snapshot does not fail because of one.
    #[cold]
    fn in_own_terms(&self, error: Error) -> Error {
        let concern = self.command.as_doc().get("readConcern").and_then(Val::as_doc);
        let level = concern.and_then(|concern| concern.get("level")).and_then(Val::as_str);
        if error.code() != Code::SNAPSHOT_TOO_OLD
            || self.transaction.is_some()
            || level == Some("snapshot")
        {
            return error;
        }
        Error::new(
            Code::QUERY_PLAN_KILLED,
            "the cursor was open for too long, or kept too much: the data that it reads is no \
             longer kept",
        )
    }

    /// Whether the cursor stays open after its last document.
    #[must_use]
    pub fn is_tailable(&self) -> bool {
        match &self.source {
            Source::Stream(_) => false,
            Source::Tail(tail) => !tail.stream.has_reached_limit(),
            Source::Changes(changes) => !changes.has_ended() || self.pending.is_some(),
        }
    }

    /// Whether this is a tailable cursor on an empty collection, which is closed at once, as in
    /// MongoDB.
    #[must_use]
    pub fn tails_nothing(&self) -> bool {
        matches!(&self.source, Source::Tail(tail) if tail.collection.counters.documents() == 0)
    }

    /// Whether `getMore` waits when there are no documents.
    #[must_use]
    pub fn waits(&self) -> bool {
        match &self.source {
            Source::Stream(_) => false,
            Source::Tail(tail) => tail.await_data,
            Source::Changes(changes) => changes.waits(),
        }
    }

    /// Writes the resume token of a change stream after a batch. Other cursors have none.
    pub fn write_token(&self, out: &mut value::Writer<'_>) {
        if let Source::Changes(changes) = &self.source {
            changes.write_token(out, self.pending.is_some());
        }
    }

    /// Whether the cursor certainly has no further document.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let source = match &self.source {
            Source::Stream(stream) => stream.is_done(),
            Source::Tail(tail) => tail.stream.has_reached_limit(),
            Source::Changes(changes) => changes.has_ended(),
        };
        source && self.pending.is_none()
    }

    /// What `currentOp` shows of it.
    #[must_use]
    pub fn facts(&self) -> CursorFacts {
        CursorFacts {
            id: self.id,
            opened: self.opened,
            last_used: self.last_used,
            returned: self.returned,
            batches: self.batches,
            no_timeout: self.no_timeout,
            tailable: self.is_tailable(),
            waits: self.waits(),
            command: self.command.clone(),
        }
    }

    /// Index entries and documents examined so far.
    #[must_use]
    pub fn examined(&self) -> Examined {
        let mut total = Examined::default();
        match &self.source {
            Source::Stream(stream) => stream.examined(&mut total),
            Source::Tail(tail) => tail.stream.examined(&mut total),
            Source::Changes(changes) => changes.examined(&mut total),
        }
        total
    }
}

/// How one batch ends.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum BatchEnd {
    /// The cursor may have more documents.
    More,
    /// The cursor has no more documents.
    Exhausted,
}

/// Writes documents of a cursor until the batch is full.
///
/// # Errors
/// Any error of the stream.
pub fn fill_batch(
    cursor: &mut Cursor,
    op: &Operation,
    documents_max: usize,
    out: &mut value::writer::ArrayWriter<'_>,
) -> Result<BatchEnd> {
    let bytes_max = op.batch_bytes_max();
    while out.count() < documents_max {
        let Some(doc) = cursor.next(op)? else { return Ok(BatchEnd::Exhausted) };
        if !out.is_empty() && out.len() + doc.len() + 16 > bytes_max {
            cursor.pending = Some(doc);
            return Ok(BatchEnd::More);
        }
        if doc.len() > limits::DOCUMENT_BYTES_MAX_INTERNAL {
            // Documents inside a pipeline may be larger than a client can receive.
            let layouts = cursor.collection.as_ref().and_then(|c| c.layouts.as_ref());
            if let Some((array, _)) = layouts.and_then(|layouts| layouts.headed().next()) {
                return Err(large_array(&doc, array));
            }
            return Err(Error::new(
                Code::BSON_OBJECT_TOO_LARGE,
                format!(
                    "BSONObj size: {} is invalid. Size must be between 0 and {}(16MB)",
                    doc.len(),
                    limits::DOCUMENT_BYTES_MAX_INTERNAL
                ),
            ));
        }
        out.push_doc_bytes(&doc);
        cursor.returned += 1;
    }
    if cursor.is_done() {
        return Ok(BatchEnd::Exhausted);
    }
    Ok(BatchEnd::More)
}

/// The error for a document that is too large for a reply because of an array in chunks.
#[cold]
fn large_array(doc: &[u8], array: &str) -> Error {
    Error::new(
        Code::BSON_OBJECT_TOO_LARGE,
        format!(
            "a document has {} bytes with all elements of '{array}', and a reply takes {}: read them with \
             {{$unwind: '${array}'}} or in parts with $slice, or the document with read: 'head'",
            doc.len(),
            limits::DOCUMENT_BYTES_MAX
        ),
    )
}

/// All open cursors.
pub struct Cursors {
    open: Mutex<HashMap<i64, CursorSlot>>,
    /// Milliseconds after which an idle cursor is closed.
    pub timeout_ms: AtomicI64,
    /// The most cursors that may be open.
    pub open_max: AtomicUsize,
    /// Cursors ever opened.
    pub opened: AtomicU64,
}

enum CursorSlot {
    Idle(Box<Cursor>),
    /// In use by a running `getMore`. Holds the data that `killCursors` needs.
    Busy {
        namespace: String,
        owner: Option<Box<str>>,
        killed: Arc<AtomicBool>,
    },
}

/// The default of `Cursors::open_max`.
const CURSORS_MAX: usize = 100_000;

impl Cursors {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Cursors {
        Cursors {
            open: Mutex::new(HashMap::new()),
            timeout_ms: AtomicI64::new(600_000),
            open_max: AtomicUsize::new(CURSORS_MAX),
            opened: AtomicU64::new(0),
        }
    }

    /// A random identifier for a new cursor: positive and not in use.
    pub fn new_id(&self) -> i64 {
        loop {
            let id = value::random::u64() as i64 & i64::MAX;
            if id != 0 && !self.open.lock().contains_key(&id) {
                return id;
            }
        }
    }

    /// Puts a cursor into the registry.
    ///
    /// # Errors
    /// When too many are open.
    pub fn insert(&self, cursor: Box<Cursor>) -> Result<()> {
        let mut open = self.open.lock();
        let most = self.open_max.load(Ordering::Relaxed);
        if open.len() >= most {
            return Err(Error::new(
                Code::EXCEEDED_MEMORY_LIMIT,
                format!("cannot open a cursor: {most} are open, which is the most that may be"),
            ));
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        open.insert(cursor.id, CursorSlot::Idle(cursor));
        Ok(())
    }

    /// Takes a cursor out of the registry to use it, if its owner is `allowed`. Also returns the
    /// flag that is set when the cursor is killed while it is in use.
    ///
    /// # Errors
    /// CursorNotFound, CursorInUse, Unauthorized.
    pub fn take(
        &self,
        id: i64,
        namespace: &str,
        allowed: impl Fn(Option<&str>) -> bool,
    ) -> Result<(Box<Cursor>, Arc<AtomicBool>)> {
        let mut open = self.open.lock();
        match open.get_mut(&id) {
            None => Err(not_found(id)),
            Some(CursorSlot::Busy { .. }) => {
                Err(Error::new(Code::CURSOR_IN_USE, format!("cursor id {id} is already in use")))
            }
            Some(state @ CursorSlot::Idle(_)) => {
                if let CursorSlot::Idle(cursor) = &*state
                    && cursor.namespace != namespace
                {
                    return Err(Error::new(
                        Code::UNAUTHORIZED,
                        format!(
                            "Requested getMore on namespace '{namespace}', but cursor belongs to \
                             a different namespace {}",
                            cursor.namespace
                        ),
                    ));
                }
                let owner = match &*state {
                    CursorSlot::Idle(cursor) => cursor.owner.clone(),
                    CursorSlot::Busy { owner, .. } => owner.clone(),
                };
                if !allowed(owner.as_deref()) {
                    return Err(Error::new(
                        Code::UNAUTHORIZED,
                        format!("cursor id {id} was not created by the authenticated user"),
                    ));
                }
                let killed = Arc::new(AtomicBool::new(false));
                let namespace = namespace.to_owned();
                let busy = CursorSlot::Busy { namespace, owner, killed: killed.clone() };
                match std::mem::replace(state, busy) {
                    CursorSlot::Idle(cursor) => Ok((cursor, killed)),
                    CursorSlot::Busy { .. } => Err(not_found(id)),
                }
            }
        }
    }

    /// Returns a cursor to the registry. Returns false, and closes the cursor, if it was killed
    /// meanwhile.
    pub fn give_back(&self, mut cursor: Box<Cursor>) -> bool {
        cursor.last_used = Instant::now();
        let mut open = self.open.lock();
        match open.get(&cursor.id) {
            Some(CursorSlot::Busy { killed, .. }) if !killed.load(Ordering::Relaxed) => {
                open.insert(cursor.id, CursorSlot::Idle(cursor));
                true
            }
            _ => {
                open.remove(&cursor.id);
                false
            }
        }
    }

    /// Removes a cursor that was taken out and has ended.
    pub fn remove(&self, id: i64) {
        self.open.lock().remove(&id);
    }

    /// The user who opened a cursor; `None` if there is no such cursor.
    #[must_use]
    pub fn owner(&self, id: i64) -> Option<Option<Box<str>>> {
        match self.open.lock().get(&id)? {
            CursorSlot::Idle(cursor) => Some(cursor.owner.clone()),
            CursorSlot::Busy { owner, .. } => Some(owner.clone()),
        }
    }

    /// Closes a cursor of this namespace. Returns false if there is none.
    pub fn kill(&self, id: i64, namespace: &str) -> bool {
        let mut open = self.open.lock();
        let closed = match open.get_mut(&id) {
            Some(CursorSlot::Idle(cursor)) if cursor.namespace == namespace => open.remove(&id),
            Some(CursorSlot::Busy { namespace: own, killed, .. }) if own == namespace => {
                killed.store(true, Ordering::Relaxed);
                return true;
            }
            _ => None,
        };
        drop(open);
        closed.is_some()
    }

    /// Closes the cursors that `close` selects, outside the lock. Returns their number.
    pub fn close_where(&self, close: impl Fn(&Cursor) -> bool) -> usize {
        let closed: Vec<CursorSlot> = {
            let mut open = self.open.lock();
            let ids: Vec<i64> = open
                .iter()
                .filter(|(_, state)| matches!(state, CursorSlot::Idle(cursor) if close(cursor)))
                .map(|(id, _)| *id)
                .collect();
            ids.iter().filter_map(|id| open.remove(id)).collect()
        };
        closed.len()
    }

    /// Closes cursors that were idle for too long. Returns their number.
    pub fn close_idle(&self) -> usize {
        let timeout = self.timeout_ms.load(Ordering::Relaxed);
        let timeout = Duration::from_millis(u64::try_from(timeout).unwrap_or(0));
        self.close_where(|cursor| !cursor.no_timeout && cursor.last_used.elapsed() >= timeout)
    }

    /// Calls `look` with every cursor that no command is using.
    pub fn for_each_idle(&self, mut look: impl FnMut(&Cursor)) {
        for state in self.open.lock().values() {
            if let CursorSlot::Idle(cursor) = state {
                look(cursor);
            }
        }
    }

    /// The number of open cursors, and of those without a timeout.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let open = self.open.lock();
        let pinned = |s: &&CursorSlot| matches!(s, CursorSlot::Idle(cursor) if cursor.no_timeout);
        (open.len(), open.values().filter(pinned).count())
    }
}

impl Default for Cursors {
    fn default() -> Cursors {
        Cursors::new()
    }
}

/// The error for a cursor that does not exist.
#[must_use]
pub fn not_found(id: i64) -> Error {
    Error::new(Code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}
