//! The definition of an index: its fields, its kind and its options.

use super::geo::GeoFields;
use super::hashed::Hashed;
use super::multikey;
use super::text::TextFields;
use super::wildcard::Wildcard;
use query::filter::Filter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use value::path::Path;
use value::{Collation, DocBuf};

/// Whether an index can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexState {
    /// Maintained by writes, not complete yet.
    Building,
    /// Complete.
    Ready,
}

/// The kind of an index, which determines its keys. `index_keys::keys` and `planner::candidates`
/// distinguish the kinds.
#[derive(Clone, Debug)]
pub enum IndexKind {
    /// The values of the fields.
    Ordered,
    /// The values of the fields; one of them is hashed.
    Hashed(Hashed),
    /// Every path below a root, with its value.
    Wildcard(Wildcard),
    /// The values of the fields; for locations, their cells.
    Geo(GeoFields),
    /// Terms, between the values of the other fields.
    Text(TextFields),
}

impl IndexKind {
    /// Returns whether a document may have several entries although none of its fields is an array.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        matches!(self, IndexKind::Wildcard(_) | IndexKind::Geo(_) | IndexKind::Text(_))
    }

    /// Returns whether such an index answers only queries of its own kind: it lacks documents
    /// without a location or text.
    #[must_use]
    pub fn is_special(&self) -> bool {
        matches!(self, IndexKind::Geo(_) | IndexKind::Text(_))
    }
}

/// An index.
#[derive(Clone)]
pub struct Index {
    /// Prefix of its entries in the store; 0 for the `_id` index of a clustered collection, which
    /// has no separate entries.
    pub id: u32,
    /// Its name.
    pub name: Box<str>,
    /// The key pattern.
    pub key: DocBuf,
    /// The key pattern as a plan summary shows it.
    pub summary: Arc<str>,
    /// The whole specification, as `listIndexes` shows it.
    pub spec: DocBuf,
    /// The fields of the key pattern.
    pub fields: Vec<IndexField>,
    /// Its kind.
    pub kind: IndexKind,
    /// For each encoded value of a key, whether it is descending.
    pub columns: Vec<bool>,
    /// The filter of a partial index: only documents that match have entries.
    pub partial: Option<Arc<Filter>>,
    /// The collation of text in its keys; `None` for binary comparison.
    pub collation: Option<Arc<Collation>>,
    /// Whether equal keys of two documents are refused.
    pub unique: bool,
    /// Whether new equal keys are refused: `prepareUnique` of `collMod`, before `unique`.
    pub prepare_unique: bool,
    /// Whether documents without any of the fields have no entry.
    pub sparse: bool,
    /// Whether the planner ignores it. Writes still maintain it.
    pub hidden: bool,
    /// Whether it can be read.
    pub state: IndexState,
    /// The paths that ever held arrays, as bits of `super::multikey`. Bits are never cleared.
    pub multikey: Arc<AtomicU64>,
    /// Whether entries store type information that keys lack. Wildcard indexes of earlier versions
    /// do not.
    pub typed: bool,
    /// Number of reads that used the index, and since when, for `$indexStats`.
    pub uses: Arc<AtomicU64>,
}

/// One field of an index.
#[derive(Clone, Debug)]
pub struct IndexField {
    /// The path of the value.
    pub path: Path,
    /// Whether the order is descending.
    pub descending: bool,
}

impl Index {
    /// Returns whether this is the `_id` index.
    #[must_use]
    pub fn is_id(&self) -> bool {
        self.is_clustered() || &*self.name == "_id_"
    }

    /// Returns the paths that make its entries; `None` if they depend on whole documents. A partial
    /// filter reads more.
    #[must_use]
    pub fn read_fields(&self) -> Option<Vec<String>> {
        let by_fields = matches!(self.kind, IndexKind::Ordered | IndexKind::Hashed(_));
        let paths = || self.fields.iter().map(|field| field.path.text().to_owned()).collect();
        by_fields.then(paths)
    }

    /// Returns whether this is the clustered `_id` index, whose entries are the documents
    /// themselves.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.id == 0
    }

    /// Returns whether any field ever held an array.
    #[must_use]
    pub fn is_multikey(&self) -> bool {
        self.multikey.load(Ordering::Relaxed) != 0
    }

    /// Returns whether a document may have several entries.
    #[must_use]
    pub fn repeats(&self) -> bool {
        let several = IndexKind::may_repeat;
        several(&self.kind) || self.is_multikey()
    }

    /// Returns whether writes that would create equal keys are refused.
    #[must_use]
    pub fn refuses_equal_keys(&self) -> bool {
        self.unique || self.prepare_unique
    }

    /// Returns whether field `at` ever held an array.
    #[must_use]
    pub fn is_multikey_at(&self, at: usize) -> bool {
        multikey::has_field(self.multikey.load(Ordering::Relaxed), at)
    }

    /// Returns whether the first `depth` names of field `at` ever led to an array. Kinds other
    /// than ordered ones know it for whole fields only.
    #[must_use]
    pub fn is_multikey_up_to(&self, at: usize, depth: usize) -> bool {
        let bits = self.multikey.load(Ordering::Relaxed);
        match self.kind {
            IndexKind::Ordered => multikey::has_component(bits, &self.fields, at, depth),
            _ => multikey::has_field(bits, at),
        }
    }

    /// Returns whether the collection was created with this index as its `clusteredIndex`, which
    /// has special rules.
    #[must_use]
    pub fn is_named_clustered(&self) -> bool {
        self.spec.as_doc().find("clustered").is_some()
    }

    /// Returns the prefix of its entries.
    #[must_use]
    pub fn prefix(&self) -> [u8; 4] {
        self.id.to_be_bytes()
    }
}
