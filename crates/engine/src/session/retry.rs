//! Writes that clients may send twice.
//!
//! A retryable write carries a session and a transaction number. What each statement of the
//! newest number did is stored in the transaction that did it, so that a write that arrives again,
//! even after a restart, is answered and not repeated.
//!
//! A session has one record: its newest number and what the last statements did (`history`). When
//! that part is full it moves to a record of its own, so that a statement writes a bounded number
//! of bytes, however many were before it. A command reads the records once. From then on it
//! compares the session's record with the one that it knows: only when somebody else wrote it,
//! all of them are read again.

use super::history::{Done, History, read_entries};
use super::{chunk_key, record_key};
use crate::metrics::{self, Metrics};
use crate::txn::Data;
use crate::txn::Transaction;
use store::{Bytes, Space};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The error for a retryable write under the number of a transaction.
pub(super) fn became_transaction() -> Error {
    Error::new(
        Code::INCOMPLETE_TRANSACTION_HISTORY,
        "Cannot retry a retryable write that has been converted into a transaction",
    )
}

/// A write command that may arrive twice, with what is known of its statements.
pub struct Retryable {
    session: [u8; 16],
    number: i64,
    /// What the stored records say; `None` before they were read.
    stored: Option<Stored>,
    /// What they will say if the transaction commits that wrote last.
    pending: Option<Pending>,
}

/// The session's records as they were read or written.
struct Stored {
    /// The session's own record, whatever its number is.
    record: Option<Bytes>,
    /// What was done under the command's number.
    history: History,
    /// Records of an older number that are deleted with the first record of this one.
    stale_chunks: u32,
}

/// What a transaction wrote of which nobody knows yet whether it committed.
struct Pending {
    record: Bytes,
    done: Vec<Done>,
}

impl Retryable {
    /// The retryable write that a command asks for: a session, a number, no transaction.
    ///
    /// # Errors
    /// InvalidOptions for a number without a session.
    pub fn of(body: RawDoc<'_>, session: Option<[u8; 16]>) -> Result<Option<Retryable>> {
        if body.find("autocommit").is_some() {
            return Ok(None);
        }
        let number = super::number_of(body, session)?;
        Ok(session.zip(number).map(|(session, number)| Retryable {
            session,
            number,
            stored: None,
            pending: None,
        }))
    }

    /// Begins a statement, in each try of its transaction: what it did if it ran before. Two
    /// arrivals of one write conflict at commit, so that the second sees the first.
    ///
    /// # Errors
    /// TransactionTooOld when a newer number was used in the session;
    /// IncompleteTransactionHistory when the number is that of a transaction.
    pub fn begin(
        &mut self,
        metrics: &Metrics,
        txn: &mut Transaction,
        statement: i32,
    ) -> Result<Option<&Done>> {
        self.load(txn)?;
        txn.notes.set_statement(statement);
        let done = self.find(statement);
        if done.is_some() {
            metrics::add(&metrics.retried_writes, 1);
        }
        Ok(done)
    }

    /// Makes sure that what is known is what the transaction sees.
    ///
    /// # Errors
    /// As `begin`.
    pub fn load(&mut self, txn: &mut Transaction) -> Result<()> {
        let key = record_key(self.session);
        txn.guard(Space::Log, &key);
        txn.notes.set_session(self.session, self.number);
        let record = txn.get(Space::Log, &key)?;
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
            read(self.session, self.number, record.as_deref(), |key| txn.get(Space::Log, key))?;
        self.stored = Some(Stored { record, history, stale_chunks });
        Ok(())
    }

    /// What a statement did, if it ran before. To be asked after `load` or `begin`.
    #[must_use]
    pub fn find(&self, statement: i32) -> Option<&Done> {
        self.stored.as_ref()?.history.find(statement)
    }

    /// Stores what statements did, in the transaction that did it. At most once in a transaction.
    pub fn store(&mut self, metrics: &Metrics, txn: &mut Transaction, done: Vec<Done>) {
        let Some(stored) = &self.stored else { return };
        for chunk in 0..stored.stale_chunks {
            txn.delete(Space::Log, chunk_key(self.session, chunk).as_slice().into());
        }
        let mut bytes = 0;
        let mut tail = stored.history.tail().clone();
        for done in &done {
            if let Some((chunk, entries)) = tail.add(done) {
                let record = DocBuf::build(|out| {
                    out.i64("txn", self.number);
                    out.append("done", Val::Binary(0, &entries));
                });
                bytes += record.bytes().len();
                let key = chunk_key(self.session, chunk);
                txn.put(Space::Log, key.as_slice().into(), record.into_bytes().into());
            }
        }
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
        txn.put(Space::Log, record_key(self.session).as_slice().into(), record.clone());
        self.pending = Some(Pending { record, done });
    }

    /// Whether the first statement of a command was done before.
    #[must_use]
    pub fn was_done(&self, data: &Data, body: RawDoc<'_>) -> bool {
        let snapshot = data.store.snapshot();
        let get = |key: &[u8]| snapshot.get(Space::Log, key).map_err(crate::store_failed);
        let first = body.get("stmtId").and_then(Val::as_i64_exact).unwrap_or(0);
        let history = get(&record_key(self.session))
            .and_then(|record| read(self.session, self.number, record.as_deref(), get));
        let first = i32::try_from(first).ok();
        history.is_ok_and(|(history, _)| first.and_then(|id| history.find(id)).is_some())
    }
}

impl Stored {
    /// Takes over what a transaction wrote that committed.
    fn append(&mut self, pending: Pending) {
        for done in pending.done {
            self.history.add(done);
        }
        self.record = Some(pending.record);
        self.stale_chunks = 0;
    }
}

/// How many further records belong to a session's record.
pub(super) fn chunks_of(record: RawDoc<'_>) -> u32 {
    let chunks = record.get("chunks").and_then(Val::as_i64_exact);
    chunks.and_then(|chunks| u32::try_from(chunks).ok()).unwrap_or(0)
}

/// What a session's records say of a number, and how many records of an older number there are.
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
        // As earlier versions wrote it.
        Some(Val::Array(entries)) => {
            let entries = entries.iter().filter_map(|(_, entry)| entry.as_doc());
            history.read_tail(entries.map(Done::read));
        }
        _ => {}
    }
    Ok((history, 0))
}
