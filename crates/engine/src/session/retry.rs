//! Retryable writes.
//!
//! A retryable write carries a session and a transaction number. The result of each statement of
//! the newest number is stored in the transaction that executed it. A write that arrives again,
//! even after a restart, gets the stored result and is not repeated.
//!
//! A session has one record: its newest number and the results of its last statements (`history`).
//! When that part is full it moves to a separate record, so that each statement writes a bounded
//! number of bytes. A command reads the records once. Later it compares the session's record with
//! the one it has read, and reads all of them again only if another command has written it.

use super::history::{Done, History, Tail, read_entries};
use super::{RECORDS, chunk_key, record_key};
use crate::args::Args;
use crate::metrics::{self, Metrics};
use crate::txn::Data;
use crate::txn::Transaction;
use store::Bytes;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The error for a retryable write that uses the number of a transaction.
pub(super) fn became_transaction() -> Error {
    Error::new(
        Code::INCOMPLETE_TRANSACTION_HISTORY,
        "Cannot retry a retryable write that has been converted into a transaction",
    )
}

/// A retryable write command, with the known results of its statements.
pub struct Retryable {
    session: [u8; 16],
    number: i64,
    /// The content of the stored records; `None` before they were read.
    stored: Option<Stored>,
    /// The changes to them by the transaction that wrote last, if it commits.
    pending: Option<Pending>,
}

/// The session's records as they were read or written.
struct Stored {
    /// The session's own record, of any number.
    record: Option<Bytes>,
    /// The results under the command's number.
    history: History,
    /// The number of chunks of an older number; they are deleted with the first record of this one.
    stale_chunks: u32,
}

/// Results of a transaction that may or may not have committed.
struct Pending {
    record: Bytes,
    done: Vec<Done>,
    /// The newest entries, with those of `done`.
    tail: Tail,
}

impl Retryable {
    /// The retryable write of a command that has a session and a number, but no transaction.
    ///
    /// # Errors
    /// InvalidOptions for a number without a session.
    pub fn of(args: &Args<'_>, session: Option<[u8; 16]>) -> Result<Option<Retryable>> {
        if args.has("autocommit") {
            return Ok(None);
        }
        let number = super::number_of(args, session)?;
        Ok(session.zip(number).map(|(session, number)| Retryable {
            session,
            number,
            stored: None,
            pending: None,
        }))
    }

    /// Begins a statement, in each attempt of its transaction. Returns its result if it ran before.
    /// If one write arrives twice, the second conflicts at commit and then sees the first.
    ///
    /// TransactionTooOld when a newer number was used in the session; IncompleteTransactionHistory
    /// when the number belongs to a transaction.
    pub fn begin(
        &mut self,
        metrics: &Metrics,
        txn: &mut Transaction,
        statement: i32,
    ) -> Result<Option<&Done>> {
        self.load(txn)?;
        Ok(self.next(metrics, txn, statement))
    }

    /// Begins a statement in a transaction for which `load` was called. Returns its result if it ran
    /// before.
    pub fn next(&self, metrics: &Metrics, txn: &mut Transaction, statement: i32) -> Option<&Done> {
        txn.notes.set_statement(statement);
        let done = self.find(statement);
        if done.is_some() {
            metrics::add(&metrics.retried_writes, 1);
        }
        done
    }

    /// Reads the session's records again, if they are not those that the transaction sees.
    ///
    /// # Errors
    /// As `begin`.
    pub fn load(&mut self, txn: &mut Transaction) -> Result<()> {
        let key = record_key(self.session);
        txn.guard(RECORDS, &key);
        txn.notes.set_session(self.session, self.number);
        let record = txn.get(RECORDS, &key)?;
        let pending = self.pending.take();
        if let Some(stored) = &mut self.stored {
            if stored.record == record {
                return Ok(());
            }
            if let Some(pending) = pending
                && record.as_ref() == Some(&pending.record)
            {
                stored.append(pending);
                return Ok(());
            }
        }
        self.stored = None;
        let (history, stale_chunks) =
            read(self.session, self.number, record.as_deref(), |key| txn.get(RECORDS, key))?;
        self.stored = Some(Stored { record, history, stale_chunks });
        Ok(())
    }

    /// The result of a statement, if it ran before. Call it after `load` or `begin`.
    #[must_use]
    pub fn find(&self, statement: i32) -> Option<&Done> {
        self.stored.as_ref()?.history.find(statement)
    }

    /// Stores the results of statements in the transaction that executed them. Call it at most once
    /// per transaction. As in MongoDB, statements that wrote nothing are not stored; when they
    /// arrive again they are executed again.
    pub fn store(&mut self, metrics: &Metrics, txn: &mut Transaction, done: Vec<Done>) {
        if txn.is_empty() || done.is_empty() {
            return;
        }
        let Some(stored) = &self.stored else { return };
        for chunk in 0..stored.stale_chunks {
            txn.delete(RECORDS, chunk_key(self.session, chunk).as_slice().into());
        }
        let mut bytes = 0;
        let mut tail = stored.history.tail().clone();
        if let Some((chunk, entries)) = tail.cut() {
            let record = DocBuf::build(|out| {
                out.i64("txn", self.number);
                out.append("done", Val::Binary(0, &entries));
            });
            bytes += record.bytes().len();
            let key = chunk_key(self.session, chunk);
            txn.put(RECORDS, key.as_slice().into(), record.into_bytes().into());
        }
        done.iter().for_each(|done| tail.add(done));
        let record = DocBuf::build(|out| {
            out.i64("txn", self.number);
            out.append("at", Val::DateTime(crate::clock::now_ms()));
            if tail.chunks() > 0 {
                out.i64("chunks", i64::from(tail.chunks()));
            }
            out.append("done", Val::Binary(0, tail.entries()));
        });
        bytes += record.bytes().len();
        metrics::add(&metrics.retry_bytes, bytes as u64);
        let record: Bytes = record.into_bytes().into();
        txn.put(RECORDS, record_key(self.session).as_slice().into(), record.clone());
        self.pending = Some(Pending { record, done, tail });
    }

    /// Whether the first statement of a command has been executed before.
    #[must_use]
    pub fn was_done(&self, data: &Data, body: RawDoc<'_>) -> bool {
        let snapshot = data.store.snapshot();
        let get = |key: &[u8]| snapshot.get(RECORDS, key).map_err(crate::store_failed);
        let first = body.get("stmtId").and_then(Val::as_i64_exact).unwrap_or(0);
        let history = get(&record_key(self.session))
            .and_then(|record| read(self.session, self.number, record.as_deref(), get));
        let first = i32::try_from(first).ok();
        history.is_ok_and(|(history, _)| first.and_then(|id| history.find(id)).is_some())
    }
}

impl Stored {
    /// Adds the results of a transaction that committed.
    fn append(&mut self, pending: Pending) {
        self.history.append(pending.done, pending.tail);
        self.record = Some(pending.record);
        self.stale_chunks = 0;
    }
}

/// The number of chunks that belong to a session's record.
pub(super) fn chunks_of(record: RawDoc<'_>) -> u32 {
    let chunks = record.get("chunks").and_then(Val::as_i64_exact);
    chunks.and_then(|chunks| u32::try_from(chunks).ok()).unwrap_or(0)
}

/// The results in a session's records for a number, and the number of chunks of an older number.
fn read(
    session: [u8; 16],
    number: i64,
    record: Option<&[u8]>,
    get: impl Fn(&[u8]) -> Result<Option<Bytes>>,
) -> Result<(History, u32)> {
    let mut history = History::default();
    let Some(record) = record.map(RawDoc::new) else { return Ok((history, 0)) };
    let newest = record.get("txn").and_then(Val::as_i64_exact).unwrap_or(-1);
    if newest > number {
        return Err(Error::new(
            Code::TRANSACTION_TOO_OLD,
            format!(
                "Retryable write with txnNumber {number} is prohibited on this session because a \
                 newer retryable write with txnNumber {newest} has already started on it."
            ),
        ));
    }
    let chunks = chunks_of(record);
    if newest < number {
        return Ok((history, chunks));
    }
    if record.find("committed").is_some() {
        return Err(became_transaction());
    }
    for chunk in 0..chunks {
        let entries = get(&chunk_key(session, chunk))?
            .ok_or_else(|| Error::internal("a part of a session's record is missing"))?;
        if let Some(Val::Binary(_, entries)) = RawDoc::new(&entries).get("done") {
            history.read_chunk(entries);
        }
    }
    match record.get("done") {
        Some(Val::Binary(_, entries)) => history.read_tail(read_entries(entries)),
        // The format of earlier versions.
        Some(Val::Array(entries)) => {
            let entries = entries.iter().filter_map(|(_, entry)| entry.as_doc());
            history.read_tail(entries.map(Done::read));
        }
        _ => {}
    }
    Ok((history, 0))
}
