//! `local.oplog.rs`: the log as a capped collection of entries in MongoDB's form, which are built
//! when they are read.

use super::log_reader::LogReader;
use crate::changes::log::{key, time_of};
use crate::changes::record::{Change, ChangeOffsets, Kind, Reader};
use crate::exec::{Doc, Examined, Stream};
use crate::operation::Operation;
use crate::store_failed;
use crate::txn::Data;
use std::ops::Bound;
use std::sync::Weak;
use store::{Direction, Range, Space};
use value::{DocBuf, RawDoc, Result, Val, Writer};

/// The UUID of the oplog as a collection.
pub(crate) const UUID: [u8; 16] = *b"motifdb\x40\x8Eoplogrs";

/// The user part of a session's identity when no user has logged in.
const NOBODY: [u8; 32] = [
    0xE3, 0xB0, 0xC4, 0x42, 0x98, 0xFC, 0x1C, 0x14, 0x9A, 0xFB, 0xF4, 0xC8, 0x99, 0x6F, 0xB9, 0x24,
    0x27, 0xAE, 0x41, 0xE4, 0x64, 0x9B, 0x93, 0x4C, 0xA4, 0x95, 0x99, 0x1B, 0x78, 0x52, 0xB8, 0x55,
];

/// Writes the fields of a session's identity.
pub(super) fn write_lsid(out: &mut Writer<'_>, session: &[u8; 16]) {
    out.append("id", Val::Binary(4, session)).append("uid", Val::Binary(0, &NOBODY));
}

/// Entries of the oplog in log order, up to its current end.
pub(crate) struct Forward {
    data: Weak<Data>,
    reader: LogReader,
    from: u64,
    examined: u64,
}

impl Forward {
    /// Entries from a time on, or from the oldest one if earlier ones were dropped.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn open(data: &Data, shared: Weak<Data>, from: u64) -> Result<Forward> {
        let reader = match from {
            0 => LogReader::from_the_beginning(),
            from => LogReader::starting_at(data, from)
                .unwrap_or_else(|_| LogReader::from_the_beginning()),
        };
        Ok(Forward { data: shared, reader, from, examined: 0 })
    }

    fn entry(&mut self, first: &ChangeOffsets) -> Result<Option<Vec<u8>>> {
        let mut made = Vec::new();
        let Some(change) = self.reader.change(first) else { return Ok(None) };
        if change.time < self.from {
            return Ok(None);
        }
        if !change.transaction {
            write_entry(&mut made, &change);
            return Ok(Some(made));
        }
        let (time, wall_ms, session) = (change.time, change.wall_ms, change.session);
        let mut parts = Vec::new();
        write_part(&mut parts, &change);
        // The remaining changes of the transaction have the same time.
        while let Some(step) = self.reader.next_of_record() {
            if let Some(change) = self.reader.change(&step) {
                write_part(&mut parts, &change);
            }
        }
        Ok(Some(transaction_entry(&parts, time, wall_ms, session)))
    }
}

impl Stream for Forward {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        let Some(data) = self.data.upgrade() else { return Ok(None) };
        while let Some(step) = self.reader.next(&data)? {
            op.check()?;
            self.examined += 1;
            if let Some(entry) = self.entry(&step)? {
                return Ok(Some(Doc::Made(entry)));
            }
        }
        Ok(None)
    }

    fn examined(&self, total: &mut Examined) {
        total.documents += self.examined;
    }
}

/// Entries of the oplog from the newest to the oldest.
pub(crate) struct Backward {
    range: Range,
    ready: Vec<Vec<u8>>,
    examined: u64,
}

impl Backward {
    /// All current entries.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn open(data: &Data) -> Result<Backward> {
        let (from, to) = (key(0), key(u64::MAX));
        let snapshot = data.store.snapshot();
        let range = snapshot
            .range(Space::Log, Bound::Included(&from), Bound::Included(&to), Direction::Reverse)
            .map_err(store_failed)?;
        data.store.sync(snapshot.seqno()).map_err(store_failed)?;
        Ok(Backward { range, ready: Vec::new(), examined: 0 })
    }
}

impl Stream for Backward {
    fn next(&mut self, op: &Operation) -> Result<Option<Doc>> {
        loop {
            op.check()?;
            if let Some(entry) = self.ready.pop() {
                self.examined += 1;
                return Ok(Some(Doc::Made(entry)));
            }
            let Some((key, record)) = self.range.next_entry().map_err(store_failed)? else {
                return Ok(None);
            };
            let Some(first) = time_of(&key) else { return Ok(None) };
            self.ready = entries(Reader::new(record, first));
        }
    }

    fn examined(&self, total: &mut Examined) {
        total.documents += self.examined;
    }
}

/// The entries of one record.
fn entries(mut reader: Reader) -> Vec<Vec<u8>> {
    let mut made = Vec::new();
    let mut parts = Vec::new();
    let mut common = None;
    while let Some(step) = reader.next() {
        let change = reader.change(&step);
        if change.transaction {
            common = Some((change.time, change.wall_ms, change.session));
            write_part(&mut parts, &change);
        } else {
            let mut entry = Vec::new();
            write_entry(&mut entry, &change);
            made.push(entry);
        }
    }
    if let Some((time, wall_ms, session)) = common {
        made.push(transaction_entry(&parts, time, wall_ms, session));
    }
    made
}

/// The one entry of a transaction.
fn transaction_entry(
    parts: &[DocBuf],
    time: u64,
    wall_ms: i64,
    session: Option<([u8; 16], i64)>,
) -> Vec<u8> {
    let mut made = Vec::new();
    value::writer::write_doc(&mut made, |out| {
        write_session(out, session);
        out.str("op", "c").str("ns", "admin.$cmd").doc("o", |out| {
            out.array("applyOps", |list| {
                parts.iter().for_each(|part| list.push_doc_bytes(part.bytes()));
            });
        });
        write_times(out, time, wall_ms);
        write_previous(out, session.is_some());
    });
    made
}

fn write_entry(bytes: &mut Vec<u8>, change: &Change<'_>) {
    let mut out = Writer::start(bytes);
    write_session(&mut out, change.session);
    write_operation(&mut out, change);
    if let Some(statement) = change.statement {
        out.i32("stmtId", statement);
    }
    write_times(&mut out, change.time, change.wall_ms);
    write_previous(&mut out, change.session.is_some());
    out.finish();
}

fn write_part(parts: &mut Vec<DocBuf>, change: &Change<'_>) {
    parts.push(DocBuf::build(|out| write_operation(out, change)));
}

fn write_operation(out: &mut Writer<'_>, change: &Change<'_>) {
    let op = match change.kind {
        Kind::Insert => "i",
        Kind::Update | Kind::Replace => "u",
        Kind::Delete => "d",
        Kind::Command => "c",
        Kind::Nothing => "n",
    };
    out.str("op", op);
    out.str("ns", if change.kind == Kind::Nothing { "" } else { change.namespace });
    if change.uuid != [0; 16] {
        out.append("ui", Val::Binary(4, &change.uuid));
    }
    match (change.kind, change.more) {
        (Kind::Update, Some(delta)) => {
            out.doc("o", |out| {
                out.i32("$v", 2).append("diff", Val::Document(delta));
            });
        }
        _ => {
            out.append("o", Val::Document(change.doc));
        }
    }
    match change.kind {
        Kind::Insert | Kind::Update | Kind::Replace => change.write_key(out, "o2"),
        Kind::Command => {
            out.append("o2", change.more.map_or(Val::Missing, Val::Document));
        }
        Kind::Delete | Kind::Nothing => {}
    }
}

fn write_session(out: &mut Writer<'_>, session: Option<([u8; 16], i64)>) {
    if let Some((session, number)) = session {
        out.doc("lsid", |out| write_lsid(out, &session)).i64("txnNumber", number);
    }
}

fn write_times(out: &mut Writer<'_>, time: u64, wall_ms: i64) {
    out.append("ts", Val::Timestamp(time)).i64("t", 1).i64("v", 2);
    out.append("wall", Val::DateTime(wall_ms));
}

/// Entries of sessions are not chained. MongoDB also writes an empty link in this case.
fn write_previous(out: &mut Writer<'_>, session: bool) {
    if session {
        out.doc("prevOpTime", |out| {
            out.append("ts", Val::Timestamp(0)).i64("t", -1);
        });
    }
}

/// A lower bound of the times that a filter can match, from its condition on `ts`.
#[must_use]
pub(crate) fn earliest(filter: RawDoc<'_>) -> u64 {
    let bound = |value: Val<'_>| match value {
        Val::Timestamp(time) => Some(time),
        Val::Document(operators) => operators
            .iter()
            .filter(|(name, _)| matches!(*name, "$gt" | "$gte" | "$eq"))
            .filter_map(|(_, value)| match value.get() {
                Val::Timestamp(time) => Some(time),
                _ => None,
            })
            .max(),
        _ => None,
    };
    let own = filter.get("ts").and_then(bound).unwrap_or(0);
    let all = filter.get("$and").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let others = all.iter().filter_map(|(_, part)| part.as_doc()?.get("ts").and_then(bound));
    others.fold(own, u64::max)
}
