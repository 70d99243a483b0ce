//! One collection and its indexes, as the engine holds them in memory.

use crate::index_keys::text::TextFields;
use crate::index_keys::{Index, IndexKind, IndexState};
use crate::validation::Validator;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use value::{Collation, DocBuf, RawDoc, Result, Val};

/// The name of the collection of users, in the database `admin`.
pub const USERS: &str = "system.users";
/// The name of the collection of roles, in the database `admin`.
pub const ROLES: &str = "system.roles";

/// A collection or view. Immutable except for its counters: a change creates a new one.
#[derive(Clone)]
pub struct Collection {
    /// Prefix of its documents in the store; never reused after a drop.
    pub id: u32,
    /// The UUID that clients see.
    pub uuid: [u8; 16],
    /// Name of the database.
    pub db: Box<str>,
    /// Name in the database.
    pub name: Box<str>,
    /// The options that it was created with, as `listCollections` shows them.
    pub options: DocBuf,
    /// The kind of collection.
    pub kind: Kind,
    /// The indexes, `_id_` first; empty for views.
    pub indexes: Vec<Arc<Index>>,
    /// Documents and bytes.
    pub counters: Arc<Counters>,
    /// Changes with every change of the collection; unique in the process.
    pub version: u64,
    /// Set if it was dropped: open cursors stop.
    pub dropped: Arc<AtomicBool>,
    /// The validator of its documents, if there is one.
    pub validator: Option<Arc<Validator>>,
    /// The fields and the spans, if it is a time-series collection.
    pub time_series: Option<Arc<super::TimeSeries>>,
    /// The default collation of operations; also determines the order of `_id`s.
    pub collation: Option<Arc<Collation>>,
    /// The patterns that maintain or read its documents, if there are any.
    pub patterns: Option<Arc<patterns::CollectionPatterns>>,
    /// The values that readers of its documents resolve, if there are any.
    pub pointers: Option<Arc<super::Pointers>>,
    /// How its documents are stored, if not each as one record (`layout`).
    pub layouts: Option<Arc<super::Layouts>>,
    /// How readers see its documents, if that depends on the reader.
    pub shapes: Option<Arc<super::Shapes>>,
    /// The form in which the reader sees its documents; `None` for the canonical form, in the
    /// catalog always.
    pub form: Option<Arc<super::ReaderForm>>,
    /// The view through which the statement writes; `None` in the catalog always.
    pub written_through: Option<Arc<super::WriteView>>,
}

/// The kind of a collection.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Documents clustered by `_id`.
    Plain,
    /// Documents in insertion order; the oldest are deleted beyond a limit.
    Capped(Capped),
    /// A stored pipeline over another collection.
    View(View),
}

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug)]
pub struct Capped {
    /// Maximum size of all documents in bytes.
    pub bytes_max: i64,
    /// Maximum number of documents, if limited.
    pub documents_max: Option<i64>,
}

/// A view's definition.
#[derive(Clone, Debug)]
pub struct View {
    /// The collection or view that it reads, in the same database.
    pub on: Box<str>,
    /// The stages, as an array.
    pub pipeline: DocBuf,
}

/// Counters and statistics of a collection; the numbers of documents and bytes change only in the
/// commit section.
#[derive(Default)]
pub struct Counters {
    /// Number of documents.
    pub documents: AtomicI64,
    /// Size of the documents in bytes.
    pub bytes: AtomicI64,
    /// Next sequence number of a capped collection.
    pub next_sequence: AtomicU64,
    /// Number of full scans, for `$collStats`.
    pub scans: AtomicU64,
    /// Latencies of operations.
    pub usage: crate::usage::Usage,
    /// Cached plans of its queries.
    pub plans: crate::plan_cache::PlanCache,
    /// A sample of its documents, for the planner.
    pub sample: Mutex<Option<Arc<crate::plan_cache::Sample>>>,
    /// The commit that wrote to it last; 0 if none did in this process.
    pub written_at: AtomicU64,
    /// An upper bound of all committed record keys; `None` if unknown. An insert above it need not
    /// check whether its key exists, which is usual because most `_id`s grow.
    pub top: Mutex<Option<Vec<u8>>>,
}

impl Counters {
    /// Returns the number of documents, never negative.
    #[must_use]
    pub fn documents(&self) -> u64 {
        u64::try_from(self.documents.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Returns the size in bytes, never negative.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

impl Collection {
    /// Returns `db.collection`.
    #[must_use]
    pub fn namespace(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    /// Returns the prefix of its documents.
    #[must_use]
    pub fn prefix(&self) -> [u8; 4] {
        self.id.to_be_bytes()
    }

    /// Returns a document's key in the store: the collection's prefix and the record key.
    #[must_use]
    pub fn document_key(&self, record: &[u8]) -> store::Bytes {
        store::Bytes::copy_prefixed(self.prefix(), record)
    }

    /// Returns whether it holds users or roles.
    #[must_use]
    pub fn holds_users_or_roles(&self) -> bool {
        &*self.db == "admin" && matches!(&*self.name, USERS | ROLES)
    }

    /// Returns whether its writes run under the commit lock: the records of capped collections
    /// follow the commit order, and patterns need the newest state.
    #[must_use]
    pub fn is_written_locked(&self) -> bool {
        self.patterns.is_some() || self.capped().is_some()
    }

    /// Returns whether a pattern owns its documents as a whole.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        let owns =
            |bound: &patterns::CollectionPatterns| bound.targets.iter().any(|p| p.owns_documents());
        self.patterns.as_deref().is_some_and(owns)
    }

    /// Returns the limits, if it is capped.
    #[must_use]
    pub fn capped(&self) -> Option<Capped> {
        if let Kind::Capped(capped) = self.kind { Some(capped) } else { None }
    }

    /// Returns the definition, if it is a view.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        if let Kind::View(view) = &self.kind { Some(view) } else { None }
    }

    /// Returns the index with this name, in any state.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| &*index.name == name)
    }

    /// Returns whether a pattern keeps an index for itself.
    #[must_use]
    pub fn keeps(&self, index: &Index) -> bool {
        let bound = self.patterns.as_deref();
        bound.is_some_and(|bound| {
            let mut targets = bound.targets.iter();
            targets.any(|pattern| {
                let mut own = pattern.own_indexes().into_iter();
                own.any(|own| own.as_doc().get("name") == Some(Val::String(&index.name)))
            })
        })
    }

    /// Returns the text index, if there is one that is ready and that queries may use.
    #[must_use]
    pub fn text_index(&self) -> Option<(&Arc<Index>, &TextFields)> {
        self.readable_indexes().find_map(|index| match &index.kind {
            IndexKind::Text(text) if index.state == IndexState::Ready => Some((index, text)),
            _ => None,
        })
    }

    /// Checks a document before its insertion against the collection's validator; a time-series
    /// collection needs its date.
    ///
    /// # Errors
    /// DocumentValidationFailure; BadValue without the date.
    #[inline]
    pub fn validate(&self, doc: RawDoc<'_>, bypass: bool) -> Result<()> {
        if let Some(series) = &self.time_series {
            series.check(doc)?;
        }
        match &self.validator {
            Some(validator) if !bypass => validator.check(&self.db, &self.name, None, doc),
            _ => Ok(()),
        }
    }

    /// Checks the new image of a document as `validate` does.
    ///
    /// # Errors
    /// As `validate`.
    #[inline]
    pub fn validate_update(&self, old: RawDoc<'_>, new: RawDoc<'_>, bypass: bool) -> Result<()> {
        if let Some(series) = &self.time_series {
            series.check(new)?;
        }
        match &self.validator {
            Some(validator) if !bypass => validator.check(&self.db, &self.name, Some(old), new),
            _ => Ok(()),
        }
    }
}
