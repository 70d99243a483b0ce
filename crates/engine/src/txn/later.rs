//! New documents of one statement that are stored together at its end, and documents that are
//! removed together, because their layout puts many into one record. Until then no read of the
//! transaction sees that.

use super::Transaction;
use crate::catalog::{Collection, Layouts};
use std::collections::HashSet;
use std::sync::Arc;
use store::Bytes;
use value::{RawDoc, Result};

/// The documents of one collection.
pub(super) struct Later {
    layouts: Arc<Layouts>,
    keys: HashSet<Bytes>,
    documents: Vec<(Bytes, Vec<u8>)>,
    gone: Vec<Bytes>,
}

impl Transaction {
    /// From here on documents of a collection that are inserted or deleted are kept until
    /// `store_now`, if that is better done together and nothing reads them before: no pattern but
    /// its layout, and no check of the layout. A statement does one of the two.
    pub(crate) fn begin_storing_later(&mut self, collection: &Collection) {
        let Some(layouts) = &collection.layouts else { return };
        let Some(bound) = &collection.patterns else { return };
        let is_alone = bound.targets.iter().chain(&bound.sources).all(|p| p.layout().is_some());
        if is_alone && layouts.stores_together() {
            let later = Later {
                layouts: layouts.clone(),
                keys: HashSet::new(),
                documents: Vec::new(),
                gone: Vec::new(),
            };
            self.later = Some(Box::new(later));
        }
    }

    /// Keeps a new document. False if it has to be stored at once.
    pub(crate) fn store_later(
        &mut self,
        collection: &Collection,
        key: &Bytes,
        doc: RawDoc<'_>,
    ) -> bool {
        match &mut self.later {
            Some(later) if later.layouts.id == collection.id => {
                later.keys.insert(key.clone());
                later.documents.push((key.clone(), doc.bytes().to_vec()));
                true
            }
            _ => false,
        }
    }

    /// Keeps the key of a document that is removed. False if it has to be removed at once.
    pub(crate) fn delete_later(&mut self, collection: &Collection, key: &Bytes) -> bool {
        match &mut self.later {
            Some(later) if later.layouts.id == collection.id => {
                later.gone.push(key.clone());
                true
            }
            _ => false,
        }
    }

    /// Whether a new document with this key is kept.
    pub(crate) fn stores_later(&self, key: &[u8]) -> bool {
        self.later.as_ref().is_some_and(|later| later.keys.contains(key))
    }

    /// Stores or removes the documents that were kept.
    ///
    /// # Errors
    /// When the layout cannot store them, or when the store fails. The transaction must not commit
    /// then.
    pub(crate) fn store_now(&mut self) -> Result<()> {
        match self.later.take() {
            Some(later) if !later.documents.is_empty() => {
                crate::layout::put_new(&later.layouts, &mut self.snapshot, &later.documents)
            }
            Some(later) if !later.gone.is_empty() => {
                crate::layout::delete_many(&later.layouts, &mut self.snapshot, &later.gone)
            }
            _ => Ok(()),
        }
    }
}
