//! Logical sessions: the registry, retryable writes (`retry`) and multi-statement transactions
//! (`transaction`).
//!
//! Each transaction number of a session is used for either a retryable write or a transaction. The
//! result of the newest one is stored with its writes, so that a command that arrives again, even
//! after a restart, gets the stored reply and is not repeated.
//!
//! Layer: service.

mod history;
mod retry;
mod transaction;

pub use history::Done;
pub use retry::Retryable;
pub use transaction::{OpenTransaction, Transactions};

use crate::args::Args;
use crate::cursor::Cursors;
use crate::store_failed;
use crate::txn::Data;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::{Batch, Direction, Space, Store};
use value::{Code, Error, RawDoc, RawVal, Result, Val};

/// The time after which an unused session expires.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The space of session records. Not that of the change log: its keys only grow, so its tables are
/// never rewritten, but records of sessions are replaced all the time.
const RECORDS: Space = Space::Catalog;
/// First byte of session records; no record of the catalog begins with it.
const SESSION_RECORD: u8 = b's';

/// The length of the key of a session's own record; its chunks have longer keys.
const RECORD_KEY_BYTES: usize = 17;

/// The default of `known_max`.
const SESSIONS_MAX: usize = 1_000_000;

/// The registry of sessions.
pub struct Sessions {
    known: Mutex<HashMap<[u8; 16], SessionEntry>>,
    next_sweep_ms: AtomicI64,
    /// The most sessions that may exist at once.
    pub known_max: AtomicUsize,
    /// The transactions of the sessions.
    pub transactions: Transactions,
}

/// A session in the registry.
struct SessionEntry {
    used: Instant,
    /// Its owner; `None` without authentication.
    owner: Option<Box<str>>,
}

impl Sessions {
    /// An empty registry; stored records are read when they are needed.
    #[must_use]
    pub fn new(cursors: Arc<Cursors>) -> Sessions {
        Sessions {
            known: Mutex::new(HashMap::new()),
            next_sweep_ms: AtomicI64::new(0),
            known_max: AtomicUsize::new(SESSIONS_MAX),
            transactions: Transactions::new(cursors),
        }
    }

    /// Records the use of a session; a new one belongs to `owner` from then on.
    ///
    /// # Errors
    /// Unauthorized when it belongs to another user; TooManyLogicalSessions when it is new and
    /// there are too many.
    pub fn touch(&self, id: [u8; 16], owner: Option<&str>) -> Result<()> {
        let mut known = self.known.lock();
        if let Some(session) = known.get_mut(&id) {
            if session.owner.as_deref() != owner {
                return Err(Error::new(
                    Code::UNAUTHORIZED,
                    "not authorized to use the session of another user",
                ));
            }
            session.used = Instant::now();
            return Ok(());
        }
        if known.len() >= self.known_max.load(Ordering::Relaxed) {
            return Err(Error::new(
                Code::TOO_MANY_LOGICAL_SESSIONS,
                "cannot add session into the cache: too many sessions are known",
            ));
        }
        known.insert(id, SessionEntry { used: Instant::now(), owner: owner.map(Into::into) });
        Ok(())
    }

    /// Removes a session.
    pub fn end(&self, id: [u8; 16]) {
        self.known.lock().remove(&id);
    }

    /// The known sessions, each with its owner and the milliseconds since its last use.
    #[must_use]
    pub fn list(&self) -> Vec<([u8; 16], Option<Box<str>>, i64)> {
        let idle = |used: &Instant| i64::try_from(used.elapsed().as_millis()).unwrap_or(i64::MAX);
        let known = self.known.lock();
        known.iter().map(|(id, known)| (*id, known.owner.clone(), idle(&known.used))).collect()
    }

    /// The sessions of an owner.
    #[must_use]
    pub fn of(&self, owner: Option<&str>) -> HashSet<[u8; 16]> {
        let known = self.known.lock();
        let own = known.iter().filter(|(_, known)| known.owner.as_deref() == owner);
        own.map(|(id, _)| *id).collect()
    }

    /// The number of known sessions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.lock().len()
    }

    /// Removes expired sessions, and periodically their stored records.
    pub fn forget_old(&self, data: &Data) {
        let now = crate::clock::now_ms();
        if now < self.next_sweep_ms.load(Ordering::Relaxed) {
            return;
        }
        self.next_sweep_ms.store(now + 300_000, Ordering::Relaxed);
        self.known.lock().retain(|_, known| known.used.elapsed() < SESSION_TIMEOUT);
        self.transactions.forget_old(SESSION_TIMEOUT);
        if let Err(error) = sweep_records(data, now) {
            tracing::warn!(%error, "cannot remove the records of old sessions");
        }
    }
}

/// The number of sessions whose records one commit of the sweep checks.
const SWEPT_SESSIONS: usize = 1000;

/// Deletes the records of expired sessions. If a session is used meanwhile, the sweep conflicts
/// with it and the records are kept.
fn sweep_records(data: &Data, now_ms: i64) -> Result<()> {
    let timeout_ms = SESSION_TIMEOUT.as_millis() as i64;
    let mut from = vec![SESSION_RECORD];
    while !from.is_empty() {
        let start = from.clone();
        (from, _) = data.transact_alone(&|| Ok(()), false, |txn| {
            let mut old = Vec::new();
            let mut rest = Vec::new();
            let (mut sessions, mut is_old) = (0, true);
            let mut range = txn.range(RECORDS, &start, &[SESSION_RECORD + 1])?;
            while let Some((key, record)) = range.next().map_err(store_failed)? {
                // The chunks of a session follow its own record.
                if key.len() == RECORD_KEY_BYTES {
                    if sessions == SWEPT_SESSIONS {
                        rest = key.to_vec();
                        break;
                    }
                    sessions += 1;
                    let used = RawDoc::new(record).get("at");
                    is_old = !matches!(used, Some(Val::DateTime(at)) if now_ms - at < timeout_ms);
                }
                if is_old {
                    old.push(key.to_vec());
                }
            }
            drop(range);
            for key in old {
                if key.len() == RECORD_KEY_BYTES {
                    txn.guard(RECORDS, &key);
                }
                txn.delete(RECORDS, key.into());
            }
            Ok(rest)
        })?;
    }
    Ok(())
}

/// The session of a command.
///
/// # Errors
/// When `lsid` does not have the form `{id: UUID}`.
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

/// Moves records that earlier versions kept beside the change log. Called when a folder is opened.
///
/// # Errors
/// When the store fails.
pub(crate) fn move_old_records(store: &dyn Store) -> Result<()> {
    const OLD: Space = Space::Log;
    let (from, to) = ([SESSION_RECORD], [SESSION_RECORD + 1]);
    let snapshot = store.snapshot();
    let mut range = snapshot
        .range(OLD, Bound::Included(&from), Bound::Excluded(&to), Direction::Forward)
        .map_err(store_failed)?;
    let mut batch = Batch::new();
    while let Some((key, record)) = range.next().map_err(store_failed)? {
        batch.put(RECORDS, key, record);
        batch.delete(OLD, key);
        if batch.len() >= SWEPT_SESSIONS {
            store.write(&batch).map_err(store_failed)?;
            batch.clear();
        }
    }
    store.write(&batch).map_err(store_failed)?;
    Ok(())
}

/// The key of a session's record.
fn record_key(session: [u8; 16]) -> [u8; RECORD_KEY_BYTES] {
    let mut key = [SESSION_RECORD; RECORD_KEY_BYTES];
    for (slot, byte) in key.iter_mut().skip(1).zip(session) {
        *slot = byte;
    }
    key
}

/// The key of a chunk of a session: results for which its own record has no room. It follows the
/// session's own record.
fn chunk_key(session: [u8; 16], chunk: u32) -> [u8; 21] {
    let mut key = [0; 21];
    let bytes = record_key(session).into_iter().chain(chunk.to_be_bytes());
    for (slot, byte) in key.iter_mut().zip(bytes) {
        *slot = byte;
    }
    key
}

/// The transaction number of a command.
///
/// # Errors
/// InvalidOptions for a number without a session, TypeMismatch.
pub fn number_of(args: &Args<'_>, session: Option<[u8; 16]>) -> Result<Option<i64>> {
    let Some(number) = args.find("txnNumber").map(RawVal::get) else { return Ok(None) };
    let Val::Int64(number) = number else {
        return Err(Error::type_mismatch(format!(
            "BSON field 'OperationSessionInfo.txnNumber' is the wrong type '{}', expected type \
             'long'",
            number.kind().name()
        )));
    };
    if session.is_none() {
        return Err(Error::new(
            Code::INVALID_OPTIONS,
            "Transaction number requires a session ID to also be specified",
        ));
    }
    if number < 0 {
        return Err(Error::new(Code::INVALID_OPTIONS, "Transaction number cannot be negative"));
    }
    Ok(Some(number))
}
