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

/// A query and its plan, as `$planCacheStats` shows them.
pub struct Described {
    /// The key of the query, which depends on its shape and on indexes.
    pub key: u64,
    /// The filter.
    pub query: DocBuf,
    /// The sort; empty without one.
    pub sort: DocBuf,
    /// The projection; empty without one.
    pub projection: DocBuf,
    /// The collation, if any.
    pub collation: Option<DocBuf>,
    /// The plan, as explain shows it.
    pub plan: DocBuf,
}

impl Described {
    fn bytes(&self) -> usize {
        let docs = [&self.query, &self.sort, &self.projection, &self.plan];
        let collation = self.collation.as_ref().map_or(0, |doc| doc.bytes().len());
        docs.iter().map(|doc| doc.bytes().len()).sum::<usize>() + collation
    }
}

struct CachedPlan {
    shape: u64,
    index: u32,
    version: u64,
    estimate: u64,
    uses: u64,
    since_ms: i64,
    described: Described,
}

/// The most shapes cached per collection.
const SHAPES_MAX: usize = 1000;

/// The factor by which the number of entries may differ from the first estimate.
const FACTOR: u64 = 10;

/// Plans that read fewer entries are never replaced.
const FEW: u64 = 16;

impl PlanCache {
    /// The position of the cached plan among candidates, given by the ids of their indexes, and the
    /// number of entries that it read at first. `key` depends on the shape of the query and on
    /// indexes. `version` is that of the collection: a change of indexes invalidates cached plans.
    #[must_use]
    pub fn find(
        &self,
        key: u64,
        version: u64,
        mut candidates: impl Iterator<Item = u32>,
    ) -> Option<(usize, u64)> {
        let mut kept = self.kept.lock();
        let plan = kept.get_mut(&key).filter(|plan| plan.version == version)?;
        let at = candidates.position(|index| index == plan.index)?;
        plan.uses += 1;
        Some((at, plan.estimate))
    }

    /// Whether a cached plan is still good when it reads so many entries.
    #[must_use]
    pub fn holds(before: u64, now: u64) -> bool {
        now <= FEW || now <= before.saturating_mul(FACTOR)
    }

    /// Caches the plan chosen for a query: its index and the estimated number of entries. Calls
    /// `describe` if another plan was cached before, or none.
    pub fn keep(
        &self,
        (key, shape): (u64, u64),
        version: u64,
        chosen: &Index,
        estimate: u64,
        describe: impl FnOnce() -> Described,
    ) {
        if let Some(plan) = self.kept.lock().get_mut(&key)
            && plan.index == chosen.id
            && plan.version == version
        {
            plan.estimate = estimate;
            return;
        }
        let plan = CachedPlan {
            shape,
            index: chosen.id,
            version,
            estimate,
            uses: 0,
            since_ms: crate::clock::now_ms(),
            described: describe(),
        };
        let mut kept = self.kept.lock();
        if kept.len() >= SHAPES_MAX {
            kept.clear();
        }
        kept.insert(key, plan);
    }

    /// Removes all cached plans.
    pub fn clear(&self) {
        self.kept.lock().clear();
    }

    /// Removes the cached plans of one shape.
    pub fn forget(&self, shape: u64) {
        self.kept.lock().retain(|_, plan| plan.shape != shape);
    }

    /// Whether any index filter is set for the collection.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.filtered.load(Ordering::Relaxed)
    }

    /// Whether an index filter is set for a shape.
    #[must_use]
    pub fn has_filter(&self, shape: u64) -> bool {
        self.filters.lock().iter().any(|known| known.shape == shape)
    }

    /// Whether queries of a shape may use an index.
    #[must_use]
    pub fn filter_allows(&self, shape: u64, index: &Index) -> bool {
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

    /// Removes the index filter of one shape, or all, and the plans that were chosen under them.
    pub fn clear_filters(&self, shape: Option<u64>) {
        let mut filters = self.filters.lock();
        filters.retain(|known| shape.is_some_and(|shape| known.shape != shape));
        self.filtered.store(!filters.is_empty(), Ordering::Relaxed);
        match shape {
            Some(shape) => self.forget(shape),
            None => self.clear(),
        }
    }

    /// Calls `show` with each index filter.
    pub fn each_filter(&self, mut show: impl FnMut(&IndexFilter)) {
        self.filters.lock().iter().for_each(&mut show);
    }

    /// One document per cached plan, for `$planCacheStats`.
    #[must_use]
    pub fn list(&self, host: &str) -> Vec<DocBuf> {
        let kept = self.kept.lock();
        let row = |plan: &CachedPlan| {
            let described = &plan.described;
            DocBuf::build(|out| {
                out.str("version", "1");
                out.str("queryHash", &shape::text(plan.shape));
                out.str("planCacheKey", &shape::text(described.key));
                out.bool("isActive", true).i64("works", plan.estimate as i64);
                out.append("timeOfCreation", Val::DateTime(plan.since_ms));
                out.doc("createdFromQuery", |out| {
                    out.append("query", Val::Document(described.query.as_doc()));
                    out.append("sort", Val::Document(described.sort.as_doc()));
                    out.append("projection", Val::Document(described.projection.as_doc()));
                    if let Some(collation) = &described.collation {
                        out.append("collation", Val::Document(collation.as_doc()));
                    }
                });
                out.append("cachedPlan", Val::Document(described.plan.as_doc()));
                out.bool("indexFilterSet", self.has_filters() && self.has_filter(plan.shape));
                let bytes = described.bytes() + size_of::<CachedPlan>();
                out.i64("estimatedSizeBytes", bytes as i64);
                out.count("uses", plan.uses).str("host", host);
            })
        };
        kept.values().map(row).collect()
    }
}
