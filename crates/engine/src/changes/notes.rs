//! The changes of a transaction, in the form of log records. The bytes are made while documents are
//! written, so that a commit only adds its time. A document that is whole in a record is kept once:
//! the value written under its key shares the bytes of the record, in memory and in the write-ahead
//! log.

use super::record;
use crate::catalog::Collection;
use smallvec::SmallVec;
use std::ops::Range;
use store::{Batch, Bytes, Space};
use value::{DocBuf, RawDoc, Val};

/// The size at which a record is closed, so that large commits need no large buffers. A
/// multi-document transaction stays in one record, because it has one time.
const RECORD_BYTES: usize = 64 * 1024;

/// Shorter documents do not share their bytes with the record.
const SHARED_BYTES_MIN: usize = 128;

/// Records, each with the number of cluster times that it takes.
pub(crate) type Records = SmallVec<[(Bytes, u64); 1]>;

/// The changes of a transaction. Nothing is allocated before the first one.
#[derive(Default)]
pub(crate) struct Notes {
    full: Records,
    bytes: Vec<u8>,
    /// Keys of documents that are whole in the buffer, and their positions.
    whole: Vec<(Bytes, Range<usize>)>,
    /// The same for closed records, with the bytes themselves.
    shared: Vec<(Bytes, Bytes)>,
    session: Option<([u8; 16], i64)>,
    /// Collections named in the record, by identity, and the positions of their names.
    known: SmallVec<[([u8; 16], Range<usize>); 2]>,
    count: u32,
    statement: Option<i32>,
    transaction: bool,
    /// Whether the next changes are made by a pattern.
    derived: bool,
    /// Whether changes of documents are left out.
    silent: bool,
}

/// Whether changes of a collection are not logged, because they concern only this server.
pub(crate) fn is_private(collection: &Collection) -> bool {
    &*collection.db == "local" || &*collection.name == "system.profile"
}

/// Whether a collection keeps pre- and post-images of changed documents.
pub(crate) fn keeps_images(collection: &Collection) -> bool {
    let images = collection.options.as_doc().get("changeStreamPreAndPostImages");
    images.and_then(Val::as_doc).and_then(|doc| doc.get("enabled")).is_some_and(Val::truthy)
}

/// Whether the log has the documents before and after a change of a collection. With a shape it has,
/// because what a watcher sees of a change follows from both documents.
pub(crate) fn logs_images(collection: &Collection) -> bool {
    collection.shapes.as_ref().is_some_and(|shapes| shapes.depend_on_reader())
        || keeps_images(collection)
}

impl Notes {
    /// Assigns the following changes to a retryable write of a session; `set_statement` sets their
    /// statements.
    pub(crate) fn set_session(&mut self, session: [u8; 16], number: i64) {
        self.session = Some((session, number));
        if !self.bytes.is_empty() {
            record::write_session(&mut self.bytes, session, number);
        }
    }

    /// Assigns all changes to one multi-document transaction.
    pub(crate) fn set_transaction(&mut self, session: [u8; 16], number: i64) {
        self.transaction = true;
        self.set_session(session, number);
    }

    /// Empty notes for the same transaction.
    pub(crate) fn again(&self) -> Notes {
        let mut notes = Notes::default();
        if let Some((session, number)) = self.session {
            notes.set_transaction(session, number);
        }
        notes
    }

    /// Sets the number of the statement that makes the next changes.
    pub(crate) fn set_statement(&mut self, statement: i32) {
        self.statement = Some(statement);
    }

    /// Sets whether a pattern makes the next changes.
    pub(crate) fn set_derived(&mut self, derived: bool) {
        self.derived = derived;
    }

    /// Leaves changes of documents out from here on: the collection is a copy that the log
    /// announces otherwise.
    pub(crate) fn set_silent(&mut self) {
        self.silent = true;
    }

    /// Records an inserted document and the key it is stored under. `key` is `None` if the stored
    /// bytes are not those that clients see.
    pub(crate) fn insert(&mut self, collection: &Collection, key: Option<Bytes>, doc: RawDoc<'_>) {
        if !is_private(collection) && !self.silent {
            self.start(record::INSERT, collection, None, None);
            self.whole_document(key, doc);
        }
    }

    /// Records a changed document: by its delta, or by the whole new document. `key` is as in
    /// `insert`.
    pub(crate) fn replace(
        &mut self,
        collection: &Collection,
        key: Option<Bytes>,
        old: RawDoc<'_>,
        new: RawDoc<'_>,
        delta: Option<&[u8]>,
    ) {
        if is_private(collection) || self.silent {
            return;
        }
        let images = logs_images(collection);
        let before = images.then_some(old);
        match delta {
            None => {
                self.start(record::REPLACE, collection, before, None);
                self.whole_document(key, new);
            }
            Some(delta) => {
                self.start(record::UPDATE, collection, before, images.then_some(new));
                self.key(new);
                self.bytes.extend_from_slice(delta);
            }
        }
    }

    /// Records a deleted document.
    pub(crate) fn delete(&mut self, collection: &Collection, old: RawDoc<'_>) {
        if !is_private(collection) && !self.silent {
            self.start(record::DELETE, collection, keeps_images(collection).then_some(old), None);
            self.key(old);
        }
    }

    /// Records a catalog change, in the form of an oplog entry.
    pub(crate) fn command(
        &mut self,
        db: &str,
        uuid: Option<[u8; 16]>,
        command: &DocBuf,
        details: Option<&DocBuf>,
    ) {
        if db == "local" {
            return;
        }
        let place = self.collection(uuid.unwrap_or_default(), db, "$cmd");
        let kind = if details.is_some() { record::COMMAND_2 } else { record::COMMAND };
        record::write_start(&mut self.bytes, kind, place, None, None, None);
        self.count += 1;
        self.bytes.extend_from_slice(command.bytes());
        if let Some(details) = details {
            self.bytes.extend_from_slice(details.bytes());
        }
    }

    /// Records an entry without a change.
    pub(crate) fn nothing(&mut self, message: &str) {
        self.note(&DocBuf::build(|out| {
            out.str("msg", message);
        }));
    }

    /// Records an entry without a change, with any content.
    pub(crate) fn note(&mut self, content: &DocBuf) {
        let place = self.collection([0; 16], "", "");
        record::write_start(&mut self.bytes, record::NOTHING, place, None, None, None);
        self.count += 1;
        self.bytes.extend_from_slice(content.bytes());
    }

    /// Whether nothing was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.full.is_empty()
    }

    /// The records. Documents of the batch that are whole in them share their bytes from here on.
    pub(crate) fn finish(mut self, batch: &mut Batch) -> Records {
        if self.count > 0 {
            self.seal();
        }
        if !self.shared.is_empty() {
            batch.share(Space::Documents, self.shared);
        }
        self.full
    }

    /// Closes the buffer as a record.
    fn seal(&mut self) {
        let times = if self.transaction { 1 } else { u64::from(self.count) };
        record::write_head(&mut self.bytes, crate::clock::now_ms(), self.count, self.transaction);
        let places = self.whole.iter().map(|(_, place)| place.clone());
        let (record, parts) = Bytes::copy_with_parts(&self.bytes, places);
        self.shared
            .extend(self.whole.iter().zip(parts).map(|((key, _), part)| (key.clone(), part)));
        self.full.push((record, times));
        self.whole.clear();
        self.bytes.clear();
        self.known.clear();
        self.count = 0;
    }

    fn begin(&mut self) {
        if self.bytes.len() > RECORD_BYTES && !self.transaction {
            self.seal();
        }
        if self.bytes.is_empty() {
            self.bytes.reserve(512);
            self.bytes.extend_from_slice(&[0; record::HEAD]);
            if let Some((session, number)) = self.session {
                record::write_session(&mut self.bytes, session, number);
            }
        }
    }

    fn start(
        &mut self,
        kind: u8,
        collection: &Collection,
        before: Option<RawDoc<'_>>,
        after: Option<RawDoc<'_>>,
    ) {
        let place = self.collection(collection.uuid, &collection.db, &collection.name);
        let kind = if self.derived { kind | record::DERIVED } else { kind };
        record::write_start(&mut self.bytes, kind, place, self.statement, before, after);
        self.count += 1;
    }

    /// The number of a collection within the record.
    fn collection(&mut self, uuid: [u8; 16], db: &str, name: &str) -> u16 {
        self.begin();
        // Usually there is one. A collection that is renamed within a transaction gets a new
        // number.
        let same = |(known, place): &([u8; 16], Range<usize>)| {
            let namespace = self.bytes.get(place.clone()).unwrap_or(&[]);
            *known == uuid
                && namespace.len() == db.len() + 1 + name.len()
                && namespace.starts_with(db.as_bytes())
                && namespace.ends_with(name.as_bytes())
        };
        if let Some(place) = self.known.iter().position(same) {
            return place as u16;
        }
        let namespace = record::write_collection(&mut self.bytes, uuid, db, name);
        self.known.push((uuid, namespace));
        (self.known.len() - 1) as u16
    }

    /// Writes a document that is also stored under a key.
    fn whole_document(&mut self, key: Option<Bytes>, doc: RawDoc<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(doc.bytes());
        if let Some(key) = key.filter(|_| doc.bytes().len() >= SHARED_BYTES_MIN) {
            self.whole.push((key, start..self.bytes.len()));
        }
    }

    /// Writes `{_id: ..}` of a document.
    fn key(&mut self, doc: RawDoc<'_>) {
        value::writer::write_doc(&mut self.bytes, |out| {
            if let Some(id) = doc.find("_id") {
                out.raw("_id", id);
            }
        });
    }
}
