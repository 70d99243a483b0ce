//! Documents as patterns see them: those of one database, in one transaction.

use super::Change;
use crate::catalog::Collection;
use crate::records::pattern_reads::{
    count_entries, state_bytes, visit_matching, visit_states, visit_states_before,
};
use crate::records::write;
use crate::txn::Transaction;
use ::patterns::edit::{Edited, Image};
use ::patterns::error_context::on_document;
use ::patterns::layout::Hidden;
use ::patterns::{Documents, Find, Key, Origin};
use query::interrupt;
use query::update::delta::between;
use std::sync::Arc;
use store::{Bytes, Space};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// What reading and writing a document count as, for stopping a statement with many followers.
const READ_STEPS: usize = 16;
const WRITE_STEPS: usize = 128;

/// The documents of a database in a transaction.
pub struct TransactionDocuments<'t> {
    txn: &'t mut Transaction,
    db: &'t str,
}

impl<'t> TransactionDocuments<'t> {
    /// The documents of a database.
    pub fn new(txn: &'t mut Transaction, db: &'t str) -> TransactionDocuments<'t> {
        TransactionDocuments { txn, db }
    }

    fn collection(&self, name: &str) -> Option<Arc<Collection>> {
        self.txn.catalog.get(self.db, name).cloned()
    }

    fn existing(&self, name: &str) -> Result<Arc<Collection>> {
        self.collection(name).ok_or_else(|| {
            Error::new(
                Code::NAMESPACE_NOT_FOUND,
                format!("a pattern maintains {}.{name}, which does not exist", self.db),
            )
        })
    }

    /// Replaces a document by the image that a pattern computed.
    fn write(
        &mut self,
        pattern: u32,
        collection: &Arc<Collection>,
        key: Bytes,
        change: &Change<'_>,
        after: &DocBuf,
    ) -> Result<()> {
        let alone = collection.pointers.is_none()
            && collection.patterns.as_ref().is_none_or(|bound| bound.is_independent(pattern));
        if alone {
            super::check_locked(self.txn)?;
            let derived;
            let logged = match change.logged {
                Some(logged) => logged,
                None => {
                    derived = between(change.old, after.as_doc());
                    &derived
                }
            };
            let (record, old) = (change.record, change.old);
            return self.derive(|txn| {
                write::replace_under(txn, collection, key, record, old, after, logged)
                    .map_err(|error| on_document(old, error))
            });
        }
        let bound = collection.patterns.clone().unwrap_or_default();
        let origin = Origin::Pattern(pattern);
        self.derive(|txn| super::replace(txn, collection, &bound, change, after, origin).map(drop))
            .map_err(|error| on_document(change.old, error))
    }

    /// Runs a write of a pattern.
    fn derive<T>(&mut self, write: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        interrupt::charge(WRITE_STEPS)?;
        self.txn.work.derived = true;
        self.txn.work.writes += 1;
        self.txn.notes.set_derived(true);
        let outcome = write(self.txn);
        self.txn.work.derived = false;
        self.txn.notes.set_derived(false);
        outcome
    }
}

impl Documents for TransactionDocuments<'_> {
    fn get(&mut self, collection: &str, id: Val<'_>) -> Result<Option<DocBuf>> {
        interrupt::charge(READ_STEPS)?;
        let Some(collection) = self.collection(collection) else { return Ok(None) };
        let record = write::record_of_id(&collection, id);
        let key = write::document_key(&collection, &record);
        let found = self.txn.document(&collection, &key)?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }

    fn hidden(&self, path: &str) -> Option<&Hidden> {
        let hidden = self.txn.part.as_ref()?.hidden.as_ref()?;
        (hidden.path == path).then_some(hidden)
    }

    fn find(
        &mut self,
        find: &Find<'_>,
        visit: &mut dyn FnMut(RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        let Some(collection) = self.collection(find.collection) else { return Ok(()) };
        let documents = (collection.id, collection.layouts.as_ref());
        visit_matching(&self.txn.snapshot, documents, &collection.indexes, find, &mut |doc| {
            interrupt::charge(READ_STEPS)?;
            visit(doc)
        })
    }

    fn count_unread(&mut self, find: &Find<'_>, most: usize) -> Result<Option<usize>> {
        let Some(collection) = self.collection(find.collection) else { return Ok(Some(0)) };
        count_entries(&self.txn.snapshot, &collection.indexes, find, most)
    }

    fn insert(&mut self, pattern: u32, collection: &str, doc: &DocBuf) -> Result<()> {
        let collection = self.existing(collection)?;
        let bound = collection.patterns.clone().unwrap_or_default();
        let doc = write::prepare(doc.as_doc())?.into_owned();
        let origin = Origin::Pattern(pattern);
        self.derive(|txn| {
            super::insert(txn, &collection, &bound, RawDoc::new(&doc), origin).map(drop)
        })
    }

    fn replace(
        &mut self,
        pattern: u32,
        collection: &str,
        before: RawDoc<'_>,
        after: &DocBuf,
    ) -> Result<()> {
        let collection = self.existing(collection)?;
        let id = before.get("_id").unwrap_or(Val::Null);
        let record = write::record_of_id(&collection, id);
        let key = write::document_key(&collection, &record);
        let change = Change { record: &record, old: before, logged: None };
        self.write(pattern, &collection, key, &change, after)
    }

    fn edit(
        &mut self,
        pattern: u32,
        collection: &str,
        id: Key<'_>,
        edit: &mut dyn FnMut(RawDoc<'_>) -> Result<Option<Edited>>,
    ) -> Result<bool> {
        interrupt::charge(READ_STEPS)?;
        let Some(collection) = self.collection(collection) else { return Ok(false) };
        let collated;
        let record = match &collection.collation {
            None => id.encoded,
            Some(_) => {
                collated = write::record_of_id(&collection, id.value);
                &collated
            }
        };
        let key = write::document_key(&collection, record);
        let Some(doc) = self.txn.document(&collection, &key)? else { return Ok(false) };
        let old = RawDoc::new(&doc);
        if let Some(edited) = edit(old)? {
            // The delta refers to stored fields, which may differ from what clients see.
            let logged = edited.logged.as_ref().filter(|_| collection.pointers.is_none());
            let change = Change { record, old, logged };
            self.write(pattern, &collection, key, &change, &edited.image)?;
        }
        Ok(true)
    }

    fn alter(
        &mut self,
        pattern: u32,
        collection: &str,
        before: RawDoc<'_>,
        after: &DocBuf,
    ) -> Result<()> {
        let known = self.existing(collection)?;
        let record = write::record_of_id(&known, before.get("_id").unwrap_or(Val::Null));
        let key = write::document_key(&known, &record);
        self.txn.guard(Space::Documents, &key);
        self.replace(pattern, collection, before, after)
    }

    fn delete(&mut self, pattern: u32, collection: &str, before: RawDoc<'_>) -> Result<()> {
        let collection = self.existing(collection)?;
        let bound = collection.patterns.clone().unwrap_or_default();
        let id = before.get("_id").unwrap_or(Val::Null);
        let record = write::record_of_id(&collection, id);
        let origin = Origin::Pattern(pattern);
        self.derive(|txn| super::delete(txn, &collection, &bound, &record, before, origin))
    }

    fn state(&mut self, pattern: u32, key: &[u8]) -> Result<Option<DocBuf>> {
        let found = self.txn.get(Space::Documents, &state_bytes(pattern, key))?;
        Ok(found.map(|bytes| DocBuf::from_bytes(bytes.to_vec())))
    }

    fn now(&self) -> i64 {
        crate::clock::now_ms()
    }

    fn set_state(&mut self, pattern: u32, key: &[u8], state: Option<DocBuf>) -> Result<()> {
        self.txn.work.queued |= state.is_some() && ::patterns::queue::is_entry(key);
        let key = state_bytes(pattern, key);
        match state {
            Some(state) => self.txn.put(Space::Documents, key, state.into_bytes().into()),
            None => self.txn.delete(Space::Documents, key),
        }
        Ok(())
    }

    fn change_state(
        &mut self,
        pattern: u32,
        key: &[u8],
        change: &mut dyn FnMut(Option<RawDoc<'_>>) -> Option<Image>,
    ) -> Result<()> {
        let stored = state_bytes(pattern, key);
        let found = self.txn.get(Space::Documents, &stored)?;
        if let Some(state) = change(found.as_deref().map(RawDoc::new)) {
            self.txn.work.queued |= ::patterns::queue::is_entry(key);
            self.txn.put(Space::Documents, stored, Bytes::copy_from(&state));
        }
        Ok(())
    }

    fn states(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        after: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        visit_states(&self.txn.snapshot, pattern, prefix, after, &mut |key, state| {
            interrupt::charge(READ_STEPS)?;
            visit(key, state)
        })
    }

    fn states_before(
        &mut self,
        pattern: u32,
        prefix: &[u8],
        before: &[u8],
        visit: &mut dyn FnMut(&[u8], RawDoc<'_>) -> Result<bool>,
    ) -> Result<()> {
        visit_states_before(&self.txn.snapshot, pattern, prefix, before, &mut |key, state| {
            interrupt::charge(READ_STEPS)?;
            visit(key, state)
        })
    }
}
