//! Cached plans, one per query shape.
//!
//! Two queries have the same shape when they differ only in values. The index chosen for one query
//! is tried first for the next query of the same shape, without comparing the others. Because
//! values differ in frequency, the number of entries that the cached plan reads is estimated again.
//! If it differs greatly from the first estimate, all plans are compared again.
//!
//! Index filters (`planCacheSetFilter`) are kept here too. Neither is stored on disk.
//!
//! Layer: catalog.

pub mod shape;

use crate::index_keys::Index;
use parking_lot::Mutex;
use query::filter::Filter;
use query::sort::SortSpec;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use value::{DocBuf, OwnedVal, Val};

/// A sample of a collection's documents, which the planner uses for estimates.
pub struct Sample {
    /// The documents.
    pub documents: Vec<Vec<u8>>,
    /// How many documents the collection had when the sample was taken.
    pub of: u64,
}

/// The cached plans of one collection.
#[derive(Default)]
pub struct PlanCache {
    kept: Mutex<HashMap<u64, CachedPlan>>,
    filters: Mutex<Vec<IndexFilter>>,
    /// Whether any index filter is set, so that queries need no lock to check.
    filtered: AtomicBool,
}

/// The indexes that queries of one shape may use: `planCacheSetFilter`.
pub struct IndexFilter {
    /// The shape.
    pub shape: u64,
    /// An example of a query of the shape, as the client gave it.
    pub query: DocBuf,
    /// Its sort.
    pub sort: DocBuf,
    /// Its projection.
    pub projection: DocBuf,
    /// Its collation, if any.
    pub collation: DocBuf,
    /// The indexes, by name or key pattern.
    pub indexes: Vec<OwnedVal>,
}

struct CachedPlan {
    index: u32,
    name: Box<str>,
    version: u64,
    estimate: u64,
    uses: u64,
    since_ms: i64,
}

/// The most shapes cached per collection.
const SHAPES_MAX: usize = 1000;

/// The factor by which the number of entries may differ from the first estimate.
const FACTOR: u64 = 10;

/// Plans that read fewer entries are never replaced.
const FEW: u64 = 16;

impl PlanCache {
    /// The position of the cached plan among candidates, given by the ids of their indexes, and the
    /// number of entries that it read at first. `version` is that of the collection: a change of
    /// indexes invalidates cached plans.
    #[must_use]
    pub fn find(
        &self,
        shape: u64,
        version: u64,
        mut candidates: impl Iterator<Item = u32>,
    ) -> Option<(usize, u64)> {
        let mut kept = self.kept.lock();
        let plan = kept.get_mut(&shape).filter(|plan| plan.version == version)?;
        let at = candidates.position(|index| index == plan.index)?;
        plan.uses += 1;
        Some((at, plan.estimate))
    }

    /// Whether a cached plan is still good when it reads so many entries.
    #[must_use]
    pub fn holds(before: u64, now: u64) -> bool {
        now <= FEW || now <= before.saturating_mul(FACTOR)
    }

    /// Caches the plan chosen for a shape: its index and the estimated number of entries.
    pub fn keep(&self, shape: u64, version: u64, chosen: &Index, estimate: u64) {
        let mut kept = self.kept.lock();
        if kept.len() >= SHAPES_MAX {
            kept.clear();
        }
        kept.insert(
            shape,
            CachedPlan {
                index: chosen.id,
                name: chosen.name.clone(),
                version,
                estimate,
                uses: 0,
                since_ms: crate::clock::now_ms(),
            },
        );
    }

    /// Removes all cached plans.
    pub fn clear(&self) {
        self.kept.lock().clear();
    }

    /// Removes the cached plan of one shape.
    pub fn forget(&self, shape: u64) {
        self.kept.lock().remove(&shape);
    }

    /// Whether any index filter is set for the collection.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.filtered.load(Ordering::Relaxed)
    }

    /// Whether an index filter is set for this shape.
    #[must_use]
    pub fn filter_of(&self, filter: &Filter, sort: Option<&SortSpec>) -> bool {
        let shape = shape::of(filter.root(), sort);
        self.filters.lock().iter().any(|known| known.shape == shape)
    }

    /// Whether a query may use an index.
    #[must_use]
    pub fn filter_allows(&self, filter: &Filter, sort: Option<&SortSpec>, index: &Index) -> bool {
        let shape = shape::of(filter.root(), sort);
        let filters = self.filters.lock();
        let Some(known) = filters.iter().find(|known| known.shape == shape) else { return true };
        known.indexes.iter().any(|wanted| match wanted.get() {
            Val::String(name) => name == &*index.name,
            Val::Document(key) => value::compare::documents(key, index.key.as_doc()).is_eq(),
            _ => false,
        })
    }

    /// Sets the index filter of a shape, replacing an earlier one.
    pub fn set_filter(&self, filter: IndexFilter) {
        let mut filters = self.filters.lock();
        filters.retain(|known| known.shape != filter.shape);
        self.forget(filter.shape);
        filters.push(filter);
        self.filtered.store(true, Ordering::Relaxed);
    }

    /// Removes the index filter of one shape, or all.
    pub fn clear_filters(&self, shape: Option<u64>) {
        let mut filters = self.filters.lock();
        filters.retain(|known| shape.is_some_and(|shape| known.shape != shape));
        self.filtered.store(!filters.is_empty(), Ordering::Relaxed);
        self.clear();
    }

    /// Calls `show` with each index filter.
    pub fn each_filter(&self, mut show: impl FnMut(&IndexFilter)) {
        self.filters.lock().iter().for_each(&mut show);
    }

    /// One document per cached plan, for `$planCacheStats`.
    #[must_use]
    pub fn list(&self, host: &str) -> Vec<DocBuf> {
        let kept = self.kept.lock();
        let row = |(key, plan): (&u64, &CachedPlan)| {
            let hash = shape::text(*key);
            DocBuf::build(|out| {
                out.str("version", "1").str("queryHash", &hash).str("planCacheKey", &hash);
                out.bool("isActive", true).count("works", plan.estimate);
                out.append("timeOfCreation", Val::DateTime(plan.since_ms));
                out.doc("cachedPlan", |out| {
                    out.str("stage", "FETCH");
                    out.doc("inputStage", |out| {
                        out.str("stage", "IXSCAN").str("indexName", &plan.name);
                    });
                });
                out.count("uses", plan.uses).bool("indexFilterSet", false).str("host", host);
            })
        };
        kept.iter().map(row).collect()
    }
}
