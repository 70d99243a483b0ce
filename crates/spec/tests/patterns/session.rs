//! A connection with a session: commands as text, errors that are expected, transactions.

use spec::connection::Connection;
use value::{DocBuf, RawDoc, Val, ejson};

/// Expected error codes: refused by a pattern, duplicate key, conflicts, a transaction that an error has
/// aborted, a tree with a cycle, an operator on a value of the wrong type, a missing collection, `$out`
/// to a collection with patterns or while they change, a build that was stopped by a drop.
static EXPECTED: &[i64] =
    &[96001, 11000, 112, 175, 251, 246, 24, 96, 125, 14, 2, 26, 28, 238, 239, 276];

/// A connection.
pub(crate) struct Session {
    connection: Box<dyn Connection>,
    id: u8,
    number: i64,
    /// Whether a transaction is open, and whether its first statement is still to come.
    open: Option<bool>,
    /// The newest cluster time that a reply named.
    pub(crate) time: u64,
    /// Whether the connection broke.
    pub(crate) broken: bool,
}

/// What a command came to.
pub(crate) enum Outcome {
    /// It worked.
    Done(DocBuf),
    /// It was refused, with this code.
    Refused(i64),
}

impl Session {
    pub(crate) fn new(connection: Box<dyn Connection>, id: u8) -> Session {
        // Greater than all transaction numbers that the session has used.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let number = now.map_or(0, |now| now.as_micros() as i64);
        Session { connection, id, number, open: None, time: 0, broken: false }
    }

    /// Whether a transaction is open.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Runs a command.
    pub(crate) fn run(&mut self, text: &str) -> Outcome {
        let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let body = DocBuf::build(|out| {
            out.extend(command.as_doc());
            if let Some(first) = self.open {
                self.write_place(out, first);
            }
            let first = command.as_doc().first().map_or("", |(name, _)| name);
            let admin = matches!(first, "bulkWrite" | "setParameter" | "renameCollection");
            out.str("$db", if admin { "admin" } else { "t" });
        });
        if self.open == Some(true) {
            self.open = Some(false);
        }
        self.exchange(&body, text)
    }

    fn write_place(&self, out: &mut value::Writer<'_>, first: bool) {
        out.doc("lsid", |out| {
            out.append("id", Val::Binary(4, &[self.id; 16]));
        });
        out.i64("txnNumber", self.number).bool("autocommit", false);
        if first {
            out.bool("startTransaction", true).doc("readConcern", |out| {
                out.str("level", "snapshot");
            });
        }
    }

    fn exchange(&mut self, body: &DocBuf, text: &str) -> Outcome {
        if self.broken {
            return Outcome::Refused(0);
        }
        let Ok(reply) = self.connection.run(body.as_doc()) else {
            self.broken = true;
            return Outcome::Refused(0);
        };
        if let Some(Val::Timestamp(time)) = reply.as_doc().get("operationTime") {
            self.time = self.time.max(time);
        }
        let code = code_of(reply.as_doc());
        if code == 11600 || code == 91 {
            self.broken = true;
            return Outcome::Refused(0);
        }
        if code == 0 {
            return Outcome::Done(reply);
        }
        assert!(EXPECTED.contains(&code), "{text}: {reply:?}");
        Outcome::Refused(code)
    }

    /// Runs a command that must work, unless the connection breaks.
    pub(crate) fn must(&mut self, text: &str) -> Option<DocBuf> {
        match self.run(text) {
            Outcome::Done(reply) => Some(reply),
            Outcome::Refused(code) => {
                assert!(self.broken, "{text}: refused with {code}");
                None
            }
        }
    }

    /// All documents of a collection; `None` when the connection breaks.
    pub(crate) fn all(&mut self, collection: &str, more: &str) -> Option<Vec<DocBuf>> {
        let found = self.maybe_all(collection, more);
        assert!(found.is_some() || self.broken, "{collection} cannot be read");
        found
    }

    /// The same; `None` too when the moment cannot be read, because its collection was another one.
    pub(crate) fn maybe_all(&mut self, collection: &str, more: &str) -> Option<Vec<DocBuf>> {
        let text = format!("{{find: '{collection}', batchSize: 100000, sort: {{_id: 1}}{more}}}");
        // A read that fails because `$out` replaces the collection is repeated, as clients do.
        let reply = loop {
            match self.run(&text) {
                Outcome::Done(reply) => break reply,
                Outcome::Refused(175) if self.open.is_none() => {}
                Outcome::Refused(_) => return None,
            }
        };
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        assert_eq!(cursor.get("id").and_then(Val::as_i64_exact), Some(0), "a second batch");
        let batch = cursor.get("firstBatch").and_then(Val::as_array).expect("a batch");
        Some(batch.iter().filter_map(|(_, doc)| doc.as_doc()).map(DocBuf::from).collect())
    }

    /// Begins a transaction; the next command is its first statement.
    pub(crate) fn begin(&mut self) {
        self.number += 1;
        self.open = Some(true);
    }

    /// Ends the transaction. Returns whether it was committed.
    pub(crate) fn end(&mut self, commit: bool) -> bool {
        let Some(first) = self.open.take() else { return false };
        if first {
            return false;
        }
        let name = if commit { "commitTransaction" } else { "abortTransaction" };
        let body = DocBuf::build(|out| {
            out.i32(name, 1);
            self.write_place(out, false);
            out.str("$db", "admin");
        });
        matches!(self.exchange(&body, name), Outcome::Done(_)) && commit
    }
}

/// The code of a reply: of the command, or of its first statement that failed.
fn code_of(reply: RawDoc<'_>) -> i64 {
    if let Some(code) = reply.get("code").and_then(Val::as_i64_exact) {
        return code;
    }
    let errors = reply.get("writeErrors").and_then(Val::as_array);
    let first = errors.and_then(RawDoc::first).and_then(|(_, error)| error.as_doc());
    if let Some(code) = first.and_then(|error| error.get("code")).and_then(Val::as_i64_exact) {
        return code;
    }
    // What `bulkWrite` says of each statement.
    let cursor = reply.get("cursor").and_then(Val::as_doc);
    let rows = cursor.filter(|_| reply.get("nErrors").is_some()).and_then(|c| c.get("firstBatch"));
    let rows = rows.and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let codes = rows.iter().filter_map(|(_, row)| row.as_doc()?.get("code")?.as_i64_exact());
    codes.into_iter().next().unwrap_or(0)
}
