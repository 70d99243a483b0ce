//! The format of one log record: all changes of one commit.
//!
//! A head (version, whether it is a transaction, wall time, number of changes) and items: names of
//! collections, to which changes refer by number, a session, and changes. Documents are stored
//! unchanged. Reading checks the bytes: damaged bytes end the record and never panic.

use smallvec::SmallVec;
use std::ops::Range;
use store::Bytes;
use value::{RawDoc, Writer};

/// Bytes before the first item.
pub(crate) const HEAD: usize = 14;
const VERSION: u8 = 1;

const COLLECTION: u8 = 1;
const SESSION: u8 = 2;
pub(crate) const INSERT: u8 = 8;
pub(crate) const UPDATE: u8 = 9;
pub(crate) const REPLACE: u8 = 10;
pub(crate) const DELETE: u8 = 11;
pub(crate) const COMMAND: u8 = 12;
/// A command with a second document.
pub(crate) const COMMAND_2: u8 = 13;
pub(crate) const NOTHING: u8 = 14;
const KIND: u8 = 0x0F;
/// A pattern made the change.
pub(crate) const DERIVED: u8 = 0x10;
const HAS_STATEMENT: u8 = 0x20;
const HAS_BEFORE: u8 = 0x40;
const HAS_AFTER: u8 = 0x80;

/// Writes the head into the space reserved at the front.
pub(crate) fn write_head(bytes: &mut [u8], wall_ms: i64, count: u32, transaction: bool) {
    let mut head = [0; HEAD];
    head[0] = VERSION;
    head[1] = u8::from(transaction);
    head[2..10].copy_from_slice(&wall_ms.to_le_bytes());
    head[10..14].copy_from_slice(&count.to_le_bytes());
    if let Some(room) = bytes.get_mut(..HEAD) {
        room.copy_from_slice(&head);
    }
}

/// Writes the name of a collection; the first is number 0. Returns the position of its namespace.
pub(crate) fn write_collection(
    bytes: &mut Vec<u8>,
    uuid: [u8; 16],
    db: &str,
    name: &str,
) -> Range<usize> {
    bytes.push(COLLECTION);
    bytes.extend_from_slice(&uuid);
    bytes.push(db.len() as u8);
    bytes.extend_from_slice(&((db.len() + 1 + name.len()) as u16).to_le_bytes());
    let start = bytes.len();
    bytes.extend_from_slice(db.as_bytes());
    bytes.push(b'.');
    bytes.extend_from_slice(name.as_bytes());
    start..bytes.len()
}

/// Writes the session of the changes that follow.
pub(crate) fn write_session(bytes: &mut Vec<u8>, session: [u8; 16], number: i64) {
    bytes.push(SESSION);
    bytes.extend_from_slice(&session);
    bytes.extend_from_slice(&number.to_le_bytes());
}

/// Writes the start of a change; its documents follow.
pub(crate) fn write_start(
    bytes: &mut Vec<u8>,
    kind: u8,
    collection: u16,
    statement: Option<i32>,
    before: Option<RawDoc<'_>>,
    after: Option<RawDoc<'_>>,
) {
    let flag = |flag, is: bool| if is { flag } else { 0 };
    bytes.push(
        kind | flag(HAS_STATEMENT, statement.is_some())
            | flag(HAS_BEFORE, before.is_some())
            | flag(HAS_AFTER, after.is_some()),
    );
    bytes.extend_from_slice(&collection.to_le_bytes());
    if let Some(statement) = statement {
        bytes.extend_from_slice(&statement.to_le_bytes());
    }
    for image in [before, after].into_iter().flatten() {
        bytes.extend_from_slice(image.bytes());
    }
}

/// The operation of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Insert,
    Update,
    Replace,
    Delete,
    Command,
    Nothing,
}

/// A decoded change.
pub(crate) struct Change<'r> {
    pub(crate) kind: Kind,
    /// Whether it was made by a pattern.
    pub(crate) derived: bool,
    pub(crate) namespace: &'r str,
    /// The length of the database name within the namespace, in bytes.
    pub(crate) db: usize,
    pub(crate) uuid: [u8; 16],
    pub(crate) statement: Option<i32>,
    /// The new document, the key of the changed one, or the command.
    pub(crate) doc: RawDoc<'r>,
    /// The delta of an update, or the second document of a command.
    pub(crate) more: Option<RawDoc<'r>>,
    pub(crate) before: Option<RawDoc<'r>>,
    pub(crate) after: Option<RawDoc<'r>>,
    /// The cluster time.
    pub(crate) time: u64,
    /// The position within a transaction, whose changes share one time.
    pub(crate) place: u32,
    pub(crate) wall_ms: i64,
    /// The session and its transaction number.
    pub(crate) session: Option<([u8; 16], i64)>,
    pub(crate) transaction: bool,
}

impl<'r> Change<'r> {
    /// Names of the database and the collection.
    pub(crate) fn names(&self) -> (&'r str, &'r str) {
        let (db, rest) = self.namespace.split_at_checked(self.db).unwrap_or((self.namespace, ""));
        (db, rest.strip_prefix('.').unwrap_or(""))
    }

    /// Writes `{_id: ..}` of the document under a name.
    pub(crate) fn write_key(&self, out: &mut Writer<'_>, name: &str) {
        out.doc(name, |out| {
            if let Some(id) = self.doc.find("_id") {
                out.raw("_id", id);
            }
        });
    }
}

/// The positions of the parts of a change in its record.
pub(crate) struct ChangeOffsets {
    kind: Kind,
    derived: bool,
    collection: usize,
    statement: Option<i32>,
    doc: Range<usize>,
    more: Option<Range<usize>>,
    before: Option<Range<usize>>,
    after: Option<Range<usize>>,
    place: u32,
}

struct Named {
    uuid: [u8; 16],
    db: usize,
    namespace: Range<usize>,
}

/// Reads the changes of a record in order.
pub(crate) struct Reader {
    record: Bytes,
    first: u64,
    at: usize,
    next: u32,
    count: u32,
    transaction: bool,
    wall_ms: i64,
    collections: SmallVec<[Named; 1]>,
    session: Option<([u8; 16], i64)>,
}

impl Reader {
    /// Reads a record whose first change has the time `first`.
    pub(crate) fn new(record: Bytes, first: u64) -> Reader {
        let head = record.first_chunk::<HEAD>().copied().unwrap_or_default();
        let [version, transaction, wall @ .., a, b, c, d] = head;
        let count = if version == VERSION { u32::from_le_bytes([a, b, c, d]) } else { 0 };
        Reader {
            record,
            first,
            at: HEAD,
            next: 0,
            count,
            transaction: transaction == 1,
            wall_ms: i64::from_le_bytes(wall),
            collections: SmallVec::new(),
            session: None,
        }
    }

    /// The time of the last change.
    pub(crate) fn last(&self) -> u64 {
        last_time(&self.record, self.first)
    }

    /// The positions of the next change; decode it with `change`.
    pub(crate) fn next(&mut self) -> Option<ChangeOffsets> {
        while self.next < self.count {
            let tag = self.take(1)?.start;
            let tag = *self.record.get(tag)?;
            match tag & KIND {
                COLLECTION => {
                    let uuid = self.take(16)?;
                    let uuid = *self.record.get(uuid)?.first_chunk::<16>()?;
                    let lengths = self.take(3)?;
                    let [db, low, high] = *self.record.get(lengths)?.first_chunk::<3>()?;
                    let namespace = self.take(usize::from(u16::from_le_bytes([low, high])))?;
                    self.collections.push(Named { uuid, db: usize::from(db), namespace });
                }
                SESSION => {
                    let session = self.take(16)?;
                    let session = *self.record.get(session)?.first_chunk::<16>()?;
                    let number = self.take(8)?;
                    let number = i64::from_le_bytes(*self.record.get(number)?.first_chunk()?);
                    self.session = Some((session, number));
                }
                kind => return self.take_change(tag, kind),
            }
        }
        None
    }

    fn take_change(&mut self, tag: u8, kind: u8) -> Option<ChangeOffsets> {
        let collection = self.take(2)?;
        let collection = u16::from_le_bytes(*self.record.get(collection)?.first_chunk()?);
        let statement = if tag & HAS_STATEMENT == 0 {
            None
        } else {
            let statement = self.take(4)?;
            Some(i32::from_le_bytes(*self.record.get(statement)?.first_chunk()?))
        };
        let before = if tag & HAS_BEFORE == 0 { None } else { Some(self.take_doc()?) };
        let after = if tag & HAS_AFTER == 0 { None } else { Some(self.take_doc()?) };
        let doc = self.take_doc()?;
        let (kind, two) = match kind {
            INSERT => (Kind::Insert, false),
            UPDATE => (Kind::Update, true),
            REPLACE => (Kind::Replace, false),
            DELETE => (Kind::Delete, false),
            COMMAND => (Kind::Command, false),
            COMMAND_2 => (Kind::Command, true),
            NOTHING => (Kind::Nothing, false),
            _ => return None,
        };
        let more = if two { Some(self.take_doc()?) } else { None };
        let place = self.next;
        self.next += 1;
        let collection = usize::from(collection);
        let derived = tag & DERIVED != 0;
        Some(ChangeOffsets {
            kind,
            derived,
            collection,
            statement,
            doc,
            more,
            before,
            after,
            place,
        })
    }

    fn take(&mut self, length: usize) -> Option<Range<usize>> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.record.len())?;
        let range = self.at..end;
        self.at = end;
        Some(range)
    }

    fn take_doc(&mut self) -> Option<Range<usize>> {
        let length = self.record.get(self.at..)?.first_chunk::<4>()?;
        let length = usize::try_from(i32::from_le_bytes(*length)).ok().filter(|n| *n >= 5)?;
        self.take(length)
    }

    fn doc(&self, range: &Range<usize>) -> RawDoc<'_> {
        RawDoc::new(self.record.get(range.clone()).unwrap_or(value::raw::EMPTY))
    }

    /// Decodes the change at these positions.
    pub(crate) fn change(&self, step: &ChangeOffsets) -> Change<'_> {
        let named = self.collections.get(step.collection);
        let namespace = named
            .and_then(|named| self.record.get(named.namespace.clone()))
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or("");
        let offset = if self.transaction { 0 } else { u64::from(step.place) };
        Change {
            kind: step.kind,
            derived: step.derived,
            namespace,
            db: named.map_or(0, |named| named.db),
            uuid: named.map(|named| named.uuid).unwrap_or_default(),
            statement: step.statement,
            doc: self.doc(&step.doc),
            more: step.more.as_ref().map(|range| self.doc(range)),
            before: step.before.as_ref().map(|range| self.doc(range)),
            after: step.after.as_ref().map(|range| self.doc(range)),
            time: self.first.saturating_add(offset),
            place: if self.transaction { step.place } else { 0 },
            wall_ms: self.wall_ms,
            session: self.session,
            transaction: self.transaction,
        }
    }
}

/// The time of the last change of a record.
pub(crate) fn last_time(record: &[u8], first: u64) -> u64 {
    let head = record.first_chunk::<HEAD>().copied().unwrap_or_default();
    let [_, transaction, .., a, b, c, d] = head;
    let count = if transaction == 1 { 1 } else { u32::from_le_bytes([a, b, c, d]).max(1) };
    first.saturating_add(u64::from(count) - 1)
}

/// The wall time of a record.
pub(crate) fn wall_ms(record: &[u8]) -> i64 {
    record.get(2..10).and_then(|wall| wall.first_chunk()).map_or(0, |w| i64::from_le_bytes(*w))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Notes;
    use value::{DocBuf, Val};

    fn sample() -> Bytes {
        let doc = |n| {
            DocBuf::build(|out| {
                out.i32("n", n);
            })
        };
        let mut notes = Notes::default();
        notes.set_session([7; 16], 9);
        notes.command("db", Some([1; 16]), &doc(1), None);
        notes.command("db", Some([1; 16]), &doc(2), Some(&doc(3)));
        notes.command("other", None, &doc(4), None);
        notes.nothing("text");
        let records = notes.finish(&mut store::Batch::new());
        records.first().expect("something was noted").0.clone()
    }

    #[test]
    fn changes_are_read_back_as_noted() {
        let record = sample();
        assert_eq!(last_time(&record, 10), 13);
        let mut reader = Reader::new(record, 10);
        let mut seen = Vec::new();
        while let Some(step) = reader.next() {
            let change = reader.change(&step);
            assert_eq!(change.session, Some(([7; 16], 9)));
            assert!(!change.transaction);
            let number = change.doc.get("n").and_then(Val::as_i64_exact).unwrap_or(0);
            seen.push((change.time, change.names().0.to_owned(), number, change.more.is_some()));
        }
        let expected = [(10, "db", 1, false), (11, "db", 2, true), (12, "other", 4, false)];
        let expected = expected.map(|(time, db, n, more)| (time, db.to_owned(), n, more));
        assert_eq!(seen.get(..3), Some(expected.as_slice()));
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn large_commits_make_several_records() {
        let doc = DocBuf::build(|out| {
            out.str("text", &"x".repeat(1000));
        });
        let mut notes = Notes::default();
        notes.set_session([7; 16], 9);
        for _ in 0..200 {
            notes.command("db", Some([1; 16]), &doc, None);
        }
        let records = notes.finish(&mut store::Batch::new());
        assert!((3..=4).contains(&records.len()), "{}", records.len());
        let mut changes = 0;
        for (record, times) in records {
            let mut reader = Reader::new(record, 1);
            while let Some(step) = reader.next() {
                let change = reader.change(&step);
                assert_eq!(change.session, Some(([7; 16], 9)));
                assert_eq!(change.namespace, "db.$cmd");
                changes += 1;
            }
            assert_eq!(reader.last(), times);
        }
        assert_eq!(changes, 200);
    }

    #[test]
    fn damaged_records_end_and_never_panic() {
        let record = sample();
        for end in 0..record.len() {
            let mut reader = Reader::new(Bytes::copy_from(&record[..end]), u64::MAX);
            while let Some(step) = reader.next() {
                let _ = reader.change(&step).names();
            }
        }
        for at in 0..record.len() {
            for flip in [0x01, 0x80, 0xFF] {
                let mut damaged = record.to_vec();
                damaged[at] ^= flip;
                let mut reader = Reader::new(damaged.into(), 1);
                let mut steps = 0;
                while let Some(step) = reader.next() {
                    let _ = reader.change(&step).names();
                    steps += 1;
                    assert!(steps < 1000);
                }
            }
        }
    }
}
