//! What an index is: its fields, its kind and its options.

use super::geo::GeoFields;
use super::hashed::Hashed;
use super::text::TextFields;
use super::wildcard::Wildcard;
use query::filter::Filter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use value::path::Path;
use value::{Collation, DocBuf};

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
