//! What a transaction did so far, in the form of log records. The bytes are made while documents
//! are written, so that a commit only adds its time. A document that a record has whole is kept once:
//! what is written under its key shares the bytes of the record, in memory and in the log of the store.

use super::record;
use crate::catalog::Collection;
use smallvec::SmallVec;
use std::ops::Range;
use store::{Batch, Bytes, Space};
use value::{DocBuf, RawDoc, Val};

/// From so many bytes on a record is full, so that large commits need no large buffers. What a
/// multi-document transaction does stays in one record: it has one time.
const RECORD_BYTES: usize = 64 * 1024;

/// Shorter documents are not worth sharing their bytes with the record that tells of them.
const SHARED_BYTES_MIN: usize = 128;

/// Records, each with the number of cluster times that it takes.
pub(crate) type Records = SmallVec<[(Bytes, u64); 1]>;

/// Notes of a transaction. Nothing is allocated before the first one.
#[derive(Default)]
pub(crate) struct Notes {
    full: Records,
    bytes: Vec<u8>,
    /// Keys of documents that stand whole in the buffer, and where.
    whole: Vec<(Bytes, Range<usize>)>,
    /// The same of full records, with the bytes themselves.
    shared: Vec<(Bytes, Bytes)>,
    session: Option<([u8; 16], i64)>,
    /// Collections that are named in the record, by their identity, and where.
    known: SmallVec<[([u8; 16], Range<usize>); 2]>,
    count: u32,
    statement: Option<i32>,
    transaction: bool,
    /// Whether a pattern makes the next changes.
    derived: bool,
}

/// Which collections leave no traces in the log: what concerns this server alone.
pub(crate) fn is_private(collection: &Collection) -> bool {
    &*collection.db == "local" || &*collection.name == "system.profile"
}

/// Whether a collection keeps the images of changed documents.
pub(crate) fn keeps_images(collection: &Collection) -> bool {
    let images = collection.options.as_doc().get("changeStreamPreAndPostImages");
    images.and_then(Val::as_doc).and_then(|doc| doc.get("enabled")).is_some_and(Val::truthy)
}

impl Notes {
    /// Notes that what follows belongs to a retryable write of a session, and later `statement`s.
    pub(crate) fn set_session(&mut self, session: [u8; 16], number: i64) {
        self.session = Some((session, number));
        if !self.bytes.is_empty() {
            record::write_session(&mut self.bytes, session, number);
        }
    }

    /// Notes that all changes are those of one multi-document transaction.
    pub(crate) fn set_transaction(&mut self, session: [u8; 16], number: i64) {
        self.transaction = true;
        self.set_session(session, number);
    }

    /// Empty notes of the same transaction.
    pub(crate) fn again(&self) -> Notes {
        let mut notes = Notes::default();
        if let Some((session, number)) = self.session {
            notes.set_transaction(session, number);
        }
        notes
    }

    /// The number of the statement that makes the next changes.
    pub(crate) fn set_statement(&mut self, statement: i32) {
        self.statement = Some(statement);
    }

    /// Says whether a pattern makes the next changes.
    pub(crate) fn set_derived(&mut self, derived: bool) {
        self.derived = derived;
    }

    /// Notes an inserted document, which is written under a key; without one, what is written is
    /// not what clients see.
    pub(crate) fn insert(&mut self, collection: &Collection, key: Option<Bytes>, doc: RawDoc<'_>) {
        if !is_private(collection) {
            self.start(record::INSERT, collection, None, None);
            self.whole_document(key, doc);
        }
    }

    /// Notes a changed document: by what changed, or by the whole new document. The key is as in
    /// `insert`.
    pub(crate) fn replace(
        &mut self,
        collection: &Collection,
        key: Option<Bytes>,
        old: RawDoc<'_>,
        new: RawDoc<'_>,
        delta: Option<&[u8]>,
    ) {
        if is_private(collection) {
            return;
        }
        let images = keeps_images(collection);
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

    /// Notes a deleted document.
    pub(crate) fn delete(&mut self, collection: &Collection, old: RawDoc<'_>) {
        if !is_private(collection) {
            self.start(record::DELETE, collection, keeps_images(collection).then_some(old), None);
            self.key(old);
        }
    }

    /// Notes a change of the catalog, as an entry of the oplog has it.
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

    /// Notes something that changes nothing.
    pub(crate) fn nothing(&mut self, message: &str) {
        let place = self.collection([0; 16], "", "");
        record::write_start(&mut self.bytes, record::NOTHING, place, None, None, None);
        self.count += 1;
        let doc = DocBuf::build(|out| {
            out.str("msg", message);
        });
        self.bytes.extend_from_slice(doc.bytes());
    }

    /// Whether nothing was noted.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.full.is_empty()
    }

    /// The records. Documents of the batch that stand in them share their bytes from here on.
    pub(crate) fn finish(mut self, batch: &mut Batch) -> Records {
        if self.count > 0 {
            self.seal();
        }
        if !self.shared.is_empty() {
            batch.share(Space::Documents, self.shared);
        }
        self.full
    }

    /// Makes a record of what stands in the buffer.
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

    /// The number under which a collection is named in the record.
    fn collection(&mut self, uuid: [u8; 16], db: &str, name: &str) -> u16 {
        self.begin();
        // Usually there is one; a collection that is renamed within a transaction counts anew.
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

    /// Writes a document that is also written under a key.
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
