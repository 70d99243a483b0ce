//! Writes that clients may send twice.
//!
//! A retryable write carries a session and a transaction number. What each statement of the
//! newest number did is stored in the transaction that did it, so that a write that arrives again,
//! even after a restart, is answered and not repeated.

use super::record_key;
use crate::txn::Data;
use crate::txn::Transaction;
use store::Space;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// The error for a retryable write under the number of a transaction.
pub(super) fn became_transaction() -> Error {
    Error::new(
        Code::INCOMPLETE_TRANSACTION_HISTORY,
        "Cannot retry a retryable write that has been converted into a transaction",
    )
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
        if body.find("autocommit").is_some() {
            return Ok(None);
        }
        let number = super::number_of(body, session)?;
        Ok(session.zip(number).map(|(session, number)| Retryable { session, number }))
    }

    /// What was done under this number, as the transaction sees it. Two arrivals of one write
    /// conflict at commit, so that the second sees the first.
    ///
    /// # Errors
    /// TransactionTooOld when a newer number was used in the session.
    pub fn history(&self, txn: &mut Transaction) -> Result<History> {
        let key = record_key(self.session);
        txn.guard(Space::Log, &key);
        txn.notes.set_session(self.session, self.number);
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
        if record.find("committed").is_some() {
            return Err(became_transaction());
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

    /// Whether the first statement of a command was done before.
    #[must_use]
    pub fn was_done(&self, data: &Data, body: RawDoc<'_>) -> bool {
        let snapshot = data.store.snapshot();
        let Ok(Some(record)) = snapshot.get(Space::Log, &record_key(self.session)) else {
            return false;
        };
        let record = RawDoc::new(&record);
        let first = body.get("stmtId").and_then(Val::as_i64_exact).unwrap_or(0);
        let done = record.get("done").and_then(Val::as_array).unwrap_or(RawDoc::empty());
        record.get("txn").and_then(Val::as_i64_exact) == Some(self.number)
            && done.iter().filter_map(|(_, entry)| entry.as_doc()).any(|entry| {
                let number = |name| entry.get(name).and_then(Val::as_i64_exact).unwrap_or(-1);
                (number("f")..=number("l")).contains(&first)
            })
    }

    /// Stores what was done, in the transaction that did it.
    pub fn store(&self, txn: &mut Transaction, history: &History) {
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
        txn.put(Space::Log, record_key(self.session).as_slice().into(), record.into_bytes().into());
    }
}
