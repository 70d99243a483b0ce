//! One collection and its indexes, as the engine holds them in memory.

use crate::index::geo::GeoFields;
use crate::index::hashed::Hashed;
use crate::index::text::TextFields;
use crate::index::wildcard::Wildcard;
use crate::validation::Validator;
use parking_lot::Mutex;
use query::filter::Filter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use value::path::Path;
use value::{Collation, DocBuf};

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
    pub patterns: Option<Arc<patterns::Bound>>,
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
    pub plans: crate::planner::cache::PlanCache,
    /// Some of its documents, for the planner.
    pub sample: Mutex<Option<Arc<crate::planner::sample::Sample>>>,
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

/// Whether an index can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexState {
    /// Kept up to date by writes, not complete yet.
    Building,
    /// Complete.
    Ready,
}

/// What the keys of an index are made of; `index::keys` and `planner::candidates` tell the kinds
/// apart.
#[derive(Clone, Debug)]
pub enum IndexKind {
    /// The values of the fields.
    Ordered,
    /// The values of the fields, of one of them a hash.
    Hashed(Hashed),
    /// Every path below a root, and the value there.
    Wildcard(Wildcard),
    /// The values of the fields, of some of them the cells of a location.
    Geo(GeoFields),
    /// Terms, between the values of the other fields.
    Text(TextFields),
}

impl IndexKind {
    /// Whether a document may have several entries though none of its fields is an array.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        matches!(self, IndexKind::Wildcard(_) | IndexKind::Geo(_) | IndexKind::Text(_))
    }

    /// Whether only a question of its own kind can be answered by such an index: it lacks
    /// documents that have no location or no text.
    #[must_use]
    pub fn is_special(&self) -> bool {
        matches!(self, IndexKind::Geo(_) | IndexKind::Text(_))
    }
}

/// An index.
#[derive(Clone)]
pub struct Index {
    /// Prefix of its entries in the store; 0 for the `_id` index of a clustered collection,
    /// which has no entries of its own.
    pub id: u32,
    /// Its name.
    pub name: Box<str>,
    /// The key pattern.
    pub key: DocBuf,
    /// The whole specification, as `listIndexes` shows it.
    pub spec: DocBuf,
    /// The fields of the key pattern.
    pub fields: Vec<IndexField>,
    /// What its keys are made of.
    pub kind: IndexKind,
    /// For each encoded value of a key, whether it runs from largest to smallest.
    pub columns: Vec<bool>,
    /// Only documents that match have entries.
    pub partial: Option<Arc<Filter>>,
    /// What text is replaced by in its keys; `None` for its bytes.
    pub collation: Option<Arc<Collation>>,
    /// No two documents with equal keys.
    pub unique: bool,
    /// No new ones with equal keys: `prepareUnique` of `collMod`, on the way to `unique`.
    pub prepare_unique: bool,
    /// Documents without any of the fields have no entry.
    pub sparse: bool,
    /// The planner does not use it, though writes keep it.
    pub hidden: bool,
    /// Whether it can be read.
    pub state: IndexState,
    /// Bit n is set when field n ever held an array. Bits are never cleared.
    pub multikey: Arc<AtomicU32>,
    /// Whether entries keep what keys lose of types. Wildcard indexes of earlier versions do not.
    pub typed: bool,
    /// Reads that used the index, and since when, for `$indexStats`.
    pub uses: Arc<AtomicU64>,
}

/// One field of an index.
#[derive(Clone, Debug)]
pub struct IndexField {
    /// Where the value stands.
    pub path: Path,
    /// Largest first.
    pub descending: bool,
}

impl Index {
    /// Whether this is the `_id` index.
    #[must_use]
    pub fn is_id(&self) -> bool {
        self.is_clustered() || &*self.name == "_id_"
    }

    /// Whether this is the clustered `_id` index, whose entries are the documents themselves.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.id == 0
    }

    /// Whether any field ever held an array.
    #[must_use]
    pub fn is_multikey(&self) -> bool {
        self.multikey.load(Ordering::Relaxed) != 0
    }

    /// Whether a document may have several entries.
    #[must_use]
    pub fn repeats(&self) -> bool {
        let several = IndexKind::may_repeat;
        several(&self.kind) || self.is_multikey()
    }

    /// Whether writes that would make equal keys are refused.
    #[must_use]
    pub fn refuses_equal_keys(&self) -> bool {
        self.unique || self.prepare_unique
    }

    /// Whether field `at` ever held an array.
    #[must_use]
    pub fn is_multikey_at(&self, at: usize) -> bool {
        at < 32 && self.multikey.load(Ordering::Relaxed) & (1 << at) != 0
    }

    /// Whether the collection was created with this index as its `clusteredIndex`, which then has
    /// rules of its own.
    #[must_use]
    pub fn is_named_clustered(&self) -> bool {
        self.spec.as_doc().find("clustered").is_some()
    }

    /// The prefix of its entries.
    #[must_use]
    pub fn prefix(&self) -> [u8; 4] {
        self.id.to_be_bytes()
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

    /// Whether its writes run inside of the commit lock: the records of capped collections have
    /// one order, and patterns see the newest state.
    #[must_use]
    pub fn is_written_locked(&self) -> bool {
        self.patterns.is_some() || self.capped().is_some()
    }

    /// Whether its documents belong to a pattern as a whole.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        let owns = |bound: &patterns::Bound| bound.targets.iter().any(|p| p.owns_documents());
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
}
