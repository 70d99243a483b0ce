//! Logical sessions, and writes that clients may send twice.
//!
//! A retryable write carries a session and a transaction number. What each statement of the
//! newest number did is stored in the transaction that did it, so that a write that arrives again,
//! even after a restart, is answered and not repeated.

use crate::engine::Inner;
use crate::store_failed;
use crate::txn::Transaction;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use store::{Batch, Direction, Space};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// How long a session lives without being used.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// First byte of session records in the log space.
const SESSION_RECORD: u8 = b's';

/// The sessions that are known.
pub struct Sessions {
    used: Mutex<HashMap<[u8; 16], Instant>>,
    next_sweep_ms: AtomicI64,
}

impl Sessions {
    /// No sessions; stored records are read when they are needed.
    #[must_use]
    pub fn new() -> Sessions {
        Sessions { used: Mutex::new(HashMap::new()), next_sweep_ms: AtomicI64::new(0) }
    }

    /// Notes that a session was used.
    pub fn touch(&self, id: [u8; 16]) {
        self.used.lock().insert(id, Instant::now());
    }

    /// Forgets a session.
    pub fn end(&self, id: [u8; 16]) {
        self.used.lock().remove(&id);
    }

    /// The sessions that are known, each with the milliseconds since it was used.
    #[must_use]
    pub fn list(&self) -> Vec<([u8; 16], i64)> {
        let idle = |used: &Instant| i64::try_from(used.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.used.lock().iter().map(|(id, used)| (*id, idle(used))).collect()
    }

    /// How many sessions are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.used.lock().len()
    }

    /// Forgets sessions that were not used for long; now and then also their stored records.
    pub fn forget_old(&self, engine: &Inner) {
        let now = crate::clock::now_ms();
        if now < self.next_sweep_ms.load(Ordering::Relaxed) {
            return;
        }
        self.next_sweep_ms.store(now + 300_000, Ordering::Relaxed);
        self.used.lock().retain(|_, used| used.elapsed() < SESSION_TIMEOUT);
        if let Err(error) = sweep_records(engine, now) {
            tracing::warn!(%error, "cannot remove the records of old sessions");
        }
    }
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions::new()
    }
}

fn sweep_records(engine: &Inner, now_ms: i64) -> Result<()> {
    let snapshot = engine.store.snapshot();
    let (from, to) = ([SESSION_RECORD], [SESSION_RECORD + 1]);
    let mut range = snapshot
        .range(Space::Log, Bound::Included(&from), Bound::Excluded(&to), Direction::Forward)
        .map_err(store_failed)?;
    let mut batch = Batch::new();
    let timeout_ms = SESSION_TIMEOUT.as_millis() as i64;
    while let Some((key, record)) = range.next().map_err(store_failed)? {
        let used = RawDoc::new(record).get("at");
        if !matches!(used, Some(Val::DateTime(at)) if now_ms - at < timeout_ms) {
            batch.delete(Space::Log, key);
        }
    }
    if !batch.is_empty() {
        engine.store.write(&batch).map_err(store_failed)?;
    }
    Ok(())
}

/// The session of a command.
///
/// # Errors
/// When `lsid` has not the form `{id: UUID}`.
pub fn session_of(body: RawDoc<'_>) -> Result<Option<[u8; 16]>> {
    let Some(lsid) = body.find("lsid") else { return Ok(None) };
    let wrong = |name: &str, found: Val<'_>, expected: &str| {
        Error::type_mismatch(format!(
            "BSON field '{name}' is the wrong type '{}', expected type '{expected}'",
            found.kind().name()
        ))
    };
    let Some(doc) = lsid.as_doc() else { return Err(wrong("lsid", lsid.get(), "object")) };
    match doc.get("id") {
        Some(Val::Binary(4, bytes)) if bytes.len() == 16 => Ok(bytes.first_chunk().copied()),
        Some(Val::Binary(..)) => Err(Error::new(
            Code::INVALID_UUID,
            "uuid must be a 16-byte binary field with UUID (4) subtype",
        )),
        Some(other) => Err(wrong("lsid.id", other, "binData")),
        None => {
            Err(Error::new(Code(40414), "BSON field 'lsid.id' is missing but a required field"))
        }
    }
}

/// A write that may arrive twice.
#[derive(Clone, Copy, Debug)]
pub struct Retryable {
    session: [u8; 16],
    number: i64,
}

/// What one statement did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// First statement.
    pub first: i32,
    /// Last statement: inserts of a batch share an entry.
    pub last: i32,
    /// Documents found or inserted, each.
    pub n: i64,
    /// Documents changed.
    pub modified: i64,
    /// `_id` of an upserted document, or the reply of a findAndModify, wrapped in a document.
    pub detail: Option<DocBuf>,
}

/// What the statements of the newest number did so far.
#[derive(Default)]
pub struct History {
    entries: Vec<Done>,
}

impl History {
    /// What a statement did, if it ran already.
    #[must_use]
    pub fn find(&self, statement: i32) -> Option<&Done> {
        self.entries.iter().find(|done| (done.first..=done.last).contains(&statement))
    }

    /// Adds a statement; inserts in a row become one entry.
    pub fn add(&mut self, done: Done) {
        if let Some(last) = self.entries.last_mut()
            && done.detail.is_none()
            && last.detail.is_none()
            && (last.n, last.modified) == (done.n, done.modified)
            && last.last.checked_add(1) == Some(done.first)
        {
            last.last = done.last;
            return;
        }
        self.entries.push(done);
    }
}

impl Retryable {
    /// The retryable write that a command asks for: a session, a number, no transaction.
    ///
    /// # Errors
    /// InvalidOptions for a number without a session.
    pub fn of(body: RawDoc<'_>, session: Option<[u8; 16]>) -> Result<Option<Retryable>> {
        let Some(number) = body.get("txnNumber") else { return Ok(None) };
        let Val::Int64(number) = number else {
            return Err(Error::type_mismatch(format!(
                "BSON field 'OperationSessionInfo.txnNumber' is the wrong type '{}', expected \
                 type 'long'",
                number.kind().name()
            )));
        };
        let Some(session) = session else {
            return Err(Error::new(
                Code::INVALID_OPTIONS,
                "Transaction number requires a session ID to also be specified",
            ));
        };
        if number < 0 {
            return Err(Error::new(Code::INVALID_OPTIONS, "Transaction number cannot be negative"));
        }
        Ok(Some(Retryable { session, number }))
    }

    fn key(&self) -> [u8; 17] {
        let mut key = [SESSION_RECORD; 17];
        for (slot, byte) in key.iter_mut().skip(1).zip(self.session) {
            *slot = byte;
        }
        key
    }

    /// What was done under this number, as the transaction sees it. Two arrivals of one write
    /// conflict at commit, so that the second sees the first.
    ///
    /// # Errors
    /// TransactionTooOld when a newer number was used in the session.
    pub fn history(&self, txn: &mut Transaction<'_>) -> Result<History> {
        let key = self.key();
        txn.guard(Space::Log, &key);
        let Some(record) = txn.get(Space::Log, &key)? else { return Ok(History::default()) };
        let record = RawDoc::new(&record);
        let newest = record.get("txn").and_then(Val::as_i64_exact).unwrap_or(-1);
        if newest > self.number {
            return Err(Error::new(
                Code::TRANSACTION_TOO_OLD,
                format!(
                    "Retryable write with txnNumber {} is prohibited on this session because a \
                     newer retryable write with txnNumber {newest} has already started on it.",
                    self.number
                ),
            ));
        }
        let mut history = History::default();
        if newest < self.number {
            return Ok(history);
        }
        for (_, entry) in record.get("done").and_then(Val::as_array).unwrap_or(RawDoc::empty()) {
            let Some(entry) = entry.as_doc() else { continue };
            let number = |name| entry.get(name).and_then(Val::as_i64_exact).unwrap_or(0);
            history.entries.push(Done {
                first: number("f") as i32,
                last: number("l") as i32,
                n: number("n"),
                modified: number("m"),
                detail: entry.get("d").and_then(Val::as_doc).map(DocBuf::from),
            });
        }
        Ok(history)
    }

    /// Stores what was done, in the transaction that did it.
    pub fn store(&self, txn: &mut Transaction<'_>, history: &History) {
        let record = DocBuf::build(|out| {
            out.i64("txn", self.number);
            out.append("at", Val::DateTime(crate::clock::now_ms()));
            out.array("done", |entries| {
                for done in &history.entries {
                    entries.push_doc(|out| {
                        out.i32("f", done.first).i32("l", done.last);
                        out.i64("n", done.n).i64("m", done.modified);
                        if let Some(detail) = &done.detail {
                            out.append("d", Val::Document(detail.as_doc()));
                        }
                    });
                }
            });
        });
        txn.put(Space::Log, self.key().as_slice().into(), record.into_bytes().into());
    }
}
