//! The results of the statements of a retryable write, in memory and as bytes of records.
//!
//! Entries are small documents, one after another. The newest ones, the tail, are in the session's
//! record and are written again with each commit. When the tail has reached `TAIL_BYTES_MAX`, the
//! next commit makes it a chunk, a separate record that is never written again. `retry` writes the
//! records.

use std::collections::BTreeMap;
use value::{DocBuf, RawDoc, Val};

/// The length at which the tail becomes a chunk. A commit of one statement writes half of it on
/// average; each chunk costs a record that the session's next write must delete.
const TAIL_BYTES_MAX: usize = 256;

/// The result of one statement, or of several consecutive ones with equal results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// First statement.
    pub first: i32,
    /// Last statement.
    pub last: i32,
    /// Documents matched or inserted by each statement.
    pub n: i64,
    /// Documents changed by each statement.
    pub modified: i64,
    /// `_id` of an upserted document, or the reply of a findAndModify, wrapped in a document.
    pub detail: Option<DocBuf>,
}

impl Done {
    /// The result of one statement.
    #[must_use]
    pub fn one(statement: i32, n: i64, modified: i64, detail: Option<DocBuf>) -> Done {
        Done { first: statement, last: statement, n, modified, detail }
    }

    /// Reads an entry, including those of earlier versions.
    pub(super) fn read(entry: RawDoc<'_>) -> Done {
        let number = |name| entry.get(name).and_then(Val::as_i64_exact);
        let id = |name| number(name).and_then(|id| i32::try_from(id).ok());
        let first = id("f").unwrap_or(0);
        Done {
            first,
            last: id("l").unwrap_or(first),
            n: number("n").unwrap_or(0),
            modified: number("m").unwrap_or(0),
            detail: entry.get("d").and_then(Val::as_doc).map(DocBuf::from),
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        value::writer::write_doc(bytes, |out| {
            out.i32("f", self.first);
            if self.last != self.first {
                out.i32("l", self.last);
            }
            if self.n != 0 {
                out.count("n", self.n.unsigned_abs());
            }
            if self.modified != 0 {
                out.count("m", self.modified.unsigned_abs());
            }
            if let Some(detail) = &self.detail {
                out.append("d", Val::Document(detail.as_doc()));
            }
        });
    }

    /// Whether `next` follows with an equal result, so that both can be one entry.
    fn joins(&self, next: &Done) -> bool {
        self.detail.is_none()
            && next.detail.is_none()
            && (self.n, self.modified) == (next.n, next.modified)
            && self.last.checked_add(1) == Some(next.first)
    }
}

/// The newest entries as bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    entries: Vec<u8>,
    /// The position of the newest entry in `entries`, and its content.
    newest: Option<(usize, Done)>,
    /// The number of chunks before the tail.
    chunks: u32,
}

impl Tail {
    /// The entries, one document after another.
    pub(super) fn entries(&self) -> &[u8] {
        &self.entries
    }

    /// The number of chunks before the tail.
    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Empties the tail if it is full: it becomes a chunk. Returns its number and entries.
    pub(super) fn cut(&mut self) -> Option<(u32, Vec<u8>)> {
        if self.entries.len() < TAIL_BYTES_MAX {
            return None;
        }
        let chunk = (self.chunks, std::mem::take(&mut self.entries));
        self.chunks += 1;
        self.newest = None;
        Some(chunk)
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, done: &Done) {
        if let Some((start, newest)) = &mut self.newest
            && newest.joins(done)
        {
            newest.last = done.last;
            self.entries.truncate(*start);
            newest.write(&mut self.entries);
            return;
        }
        self.newest = Some((self.entries.len(), done.clone()));
        done.write(&mut self.entries);
    }
}

/// The results of the statements of one transaction number so far.
#[derive(Debug, Default)]
pub(super) struct History {
    /// By the first statement of each entry.
    entries: BTreeMap<i32, Done>,
    tail: Tail,
}

impl History {
    /// The result of a statement, if it has already run.
    pub(super) fn find(&self, statement: i32) -> Option<&Done> {
        let (_, done) = self.entries.range(..=statement).next_back()?;
        (statement <= done.last).then_some(done)
    }

    /// The newest entries, as in the session's record.
    pub(super) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Adds the results of statements; `tail` has them already.
    pub(super) fn append(&mut self, all: Vec<Done>, tail: Tail) {
        self.tail = tail;
        for done in all {
            self.enter(done);
        }
    }

    /// Reads the entries of a chunk.
    pub(super) fn read_chunk(&mut self, entries: &[u8]) {
        for done in read_entries(entries) {
            self.enter(done);
        }
        self.tail.chunks += 1;
    }

    /// Reads the entries of the tail, after those of all chunks.
    pub(super) fn read_tail(&mut self, entries: impl Iterator<Item = Done>) {
        for done in entries {
            let start = self.tail.entries.len();
            done.write(&mut self.tail.entries);
            self.tail.newest = Some((start, done.clone()));
            self.enter(done);
        }
    }

    fn enter(&mut self, done: Done) {
        if let Some((_, before)) = self.entries.range_mut(..=done.first).next_back()
            && before.joins(&done)
        {
            before.last = done.last;
            return;
        }
        self.entries.insert(done.first, done);
    }
}

/// The entries in a byte string, up to the first incomplete one.
pub(super) fn read_entries(mut bytes: &[u8]) -> impl Iterator<Item = Done> {
    std::iter::from_fn(move || {
        let length = bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize)?;
        let (entry, rest) = bytes.split_at_checked(length.max(5))?;
        bytes = rest;
        Some(Done::read(RawDoc::new(entry)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Statements of a batch, some with equal results in a row.
    fn any_done() -> impl Strategy<Value = Vec<Done>> {
        let one = (0..2i64, 0..2i64, prop::option::weighted(0.3, 0..100i32), 1..3i32);
        prop::collection::vec(one, 0..200).prop_map(|all| {
            let mut next = 0;
            let entry = |(n, modified, id, step): (i64, i64, Option<i32>, i32)| {
                next += step;
                let detail = id.map(|id| DocBuf::build(|out| _ = out.i32("_id", id)));
                Done::one(next, n, modified, detail)
            };
            all.into_iter().map(entry).collect()
        })
    }

    proptest! {
        #[test]
        fn what_is_read_back_is_what_was_added(all in any_done(), commit in 1..30usize) {
            let mut history = History::default();
            let mut tail = Tail::default();
            let mut chunks = Vec::new();
            for commit in all.chunks(commit) {
                chunks.extend(tail.cut().map(|(_, entries)| entries));
                commit.iter().for_each(|done| tail.add(done));
                prop_assert!(tail.entries().len() < TAIL_BYTES_MAX + 64 * commit.len());
            }
            history.append(all.clone(), tail.clone());
            let mut again = History::default();
            for chunk in &chunks {
                again.read_chunk(chunk);
            }
            again.read_tail(read_entries(tail.entries()));
            prop_assert_eq!(again.tail.chunks(), chunks.len() as u32);
            prop_assert_eq!(again.tail.entries(), history.tail.entries());
            for statement in 0..=all.last().map_or(0, |done| done.first) + 1 {
                let expected = all.iter().find(|done| done.first == statement);
                for found in [history.find(statement), again.find(statement)] {
                    prop_assert_eq!(found.map(|f| (f.n, f.modified, &f.detail)),
                        expected.map(|e| (e.n, e.modified, &e.detail)));
                }
            }
        }
    }
}
