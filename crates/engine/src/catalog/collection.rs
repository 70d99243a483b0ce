//! One collection and its indexes, as the engine holds them in memory.

use crate::index_keys::text::TextFields;
use crate::index_keys::{Index, IndexKind, IndexState};
use crate::validation::Validator;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use value::{Collation, DocBuf, RawDoc, Result};

/// The collection of users, in the database `admin`.
pub const USERS: &str = "system.users";
/// The collection of roles, in the database `admin`.
pub const ROLES: &str = "system.roles";

/// A collection or view. Immutable but for its counters: a change makes a new one.
#[derive(Clone)]
pub struct Collection {
    /// Prefix of its documents in the store; never used again after a drop.
    pub id: u32,
    /// The identity that clients see.
    pub uuid: [u8; 16],
    /// Name of the database.
    pub db: Box<str>,
    /// Name in the database.
    pub name: Box<str>,
    /// The options that it was created with, as `listCollections` shows them.
    pub options: DocBuf,
    /// What kind of collection it is.
    pub kind: Kind,
    /// The indexes, `_id_` first; empty for views.
    pub indexes: Vec<Arc<Index>>,
    /// Documents and bytes.
    pub counters: Arc<Counters>,
    /// Changes with every change of the collection; unique in the process.
    pub version: u64,
    /// Set when it was dropped: open cursors stop.
    pub dropped: Arc<AtomicBool>,
    /// What its documents must match, if anything.
    pub validator: Option<Arc<Validator>>,
    /// What decides over text unless an operation says otherwise; also the order of its `_id`s.
    pub collation: Option<Arc<Collation>>,
    /// The patterns that maintain or read its documents, if there are any.
    pub patterns: Option<Arc<patterns::CollectionPatterns>>,
    /// What readers of its documents have to resolve, if anything.
    pub pointers: Option<Arc<super::Pointers>>,
    /// How its documents are stored, if not each as one record (`layout`).
    pub layouts: Option<Arc<super::Layouts>>,
}

/// What kind of collection it is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Documents clustered by `_id`.
    Plain,
    /// Documents in the order of insertion, the oldest dropped beyond a size.
    Capped(Capped),
    /// A stored pipeline over another collection.
    View(View),
}

/// The bounds of a capped collection.
#[derive(Clone, Copy, Debug)]
pub struct Capped {
    /// Most bytes of documents.
    pub bytes_max: i64,
    /// Most documents, if bounded.
    pub documents_max: Option<i64>,
}

/// A view's definition.
#[derive(Clone, Debug)]
pub struct View {
    /// The collection or view below, in the same database.
    pub on: Box<str>,
    /// The stages, as an array.
    pub pipeline: DocBuf,
}

/// Documents and bytes of a collection; changed in the commit section only.
#[derive(Default)]
pub struct Counters {
    /// Documents.
    pub documents: AtomicI64,
    /// Bytes of the documents.
    pub bytes: AtomicI64,
    /// Next sequence number of a capped collection.
    pub next_sequence: AtomicU64,
    /// How often all documents were read, for `$collStats`.
    pub scans: AtomicU64,
    /// How long operations took.
    pub usage: crate::usage::Usage,
    /// The plans that are kept for its queries.
    pub plans: crate::plan_cache::PlanCache,
    /// Some of its documents, for the planner.
    pub sample: Mutex<Option<Arc<crate::plan_cache::Sample>>>,
    /// No record key above this one was ever committed; `None` until that is known. An insert
    /// above it need not look whether its key is there: most `_id`s grow.
    pub top: Mutex<Option<Vec<u8>>>,
}

impl Counters {
    /// Documents, never negative.
    #[must_use]
    pub fn documents(&self) -> u64 {
        u64::try_from(self.documents.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes, never negative.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

impl Collection {
    /// `db.collection`.
    #[must_use]
    pub fn namespace(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    /// The prefix of its documents.
    #[must_use]
    pub fn prefix(&self) -> [u8; 4] {
        self.id.to_be_bytes()
    }

    /// A document's key in the store: the collection's prefix and the record's key.
    #[must_use]
    pub fn document_key(&self, record: &[u8]) -> store::Bytes {
        store::Bytes::copy_prefixed(self.prefix(), record)
    }

    /// Whether it holds users or roles.
    #[must_use]
    pub fn holds_users_or_roles(&self) -> bool {
        &*self.db == "admin" && matches!(&*self.name, USERS | ROLES)
    }

    /// Whether its writes run inside of the commit lock: the records of capped collections have
    /// one order, and patterns see the newest state.
    #[must_use]
    pub fn is_written_locked(&self) -> bool {
        self.patterns.is_some() || self.capped().is_some()
    }

    /// Whether its documents belong to a pattern as a whole.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        let owns =
            |bound: &patterns::CollectionPatterns| bound.targets.iter().any(|p| p.owns_documents());
        self.patterns.as_deref().is_some_and(owns)
    }

    /// The bounds, if it is capped.
    #[must_use]
    pub fn capped(&self) -> Option<Capped> {
        if let Kind::Capped(capped) = self.kind { Some(capped) } else { None }
    }

    /// The definition, if it is a view.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        if let Kind::View(view) = &self.kind { Some(view) } else { None }
    }

    /// The index of this name, in any state.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| &*index.name == name)
    }

    /// The text index, if there is one that can be read.
    #[must_use]
    pub fn text_index(&self) -> Option<(&Arc<Index>, &TextFields)> {
        self.indexes.iter().find_map(|index| match &index.kind {
            IndexKind::Text(text) if index.state == IndexState::Ready => Some((index, text)),
            _ => None,
        })
    }

    /// Checks a document that is about to be inserted against the collection's validator.
    ///
    /// # Errors
    /// DocumentValidationFailure.
    #[inline]
    pub fn validate(&self, doc: RawDoc<'_>, bypass: bool) -> Result<()> {
        match &self.validator {
            Some(validator) if !bypass => validator.check(&self.db, &self.name, None, doc),
            _ => Ok(()),
        }
    }

    /// Checks a document that is about to replace another one against the collection's validator.
    ///
    /// # Errors
    /// DocumentValidationFailure.
    #[inline]
    pub fn validate_update(&self, old: RawDoc<'_>, new: RawDoc<'_>, bypass: bool) -> Result<()> {
        match &self.validator {
            Some(validator) if !bypass => validator.check(&self.db, &self.name, Some(old), new),
            _ => Ok(()),
        }
    }
}
