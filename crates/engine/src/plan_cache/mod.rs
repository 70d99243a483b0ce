//! Plans that are kept for queries of one shape.
//!
//! Two queries have one shape when they differ in values only. Which of several indexes was best
//! for one of them is tried first for the next, without looking at the others. The values may be
//! rarer or more common there: how many entries the kept plan reads is looked at again, and
//! when that is far from what it was, all plans are compared anew.
//!
//! Index filters (`planCacheSetFilter`) are kept beside them, and like them only in memory.
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

/// Some documents of a collection, by which the planner estimates.
pub struct Sample {
    /// The documents.
    pub documents: Vec<Vec<u8>>,
    /// How many documents the collection had when the sample was taken.
    pub of: u64,
}

/// The plans of one collection.
#[derive(Default)]
pub struct PlanCache {
    kept: Mutex<HashMap<u64, Kept>>,
    filters: Mutex<Vec<IndexFilter>>,
    /// Whether there are any filters, so that no query has to lock to know.
    filtered: AtomicBool,
}

/// Which indexes queries of one shape may use: `planCacheSetFilter`.
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

struct Kept {
    index: u32,
    name: Box<str>,
    version: u64,
    estimate: u64,
    uses: u64,
    since_ms: i64,
}

/// Shapes that are kept for one collection.
const SHAPES_MAX: usize = 1000;

/// How far the number of entries may be from what it was.
const FACTOR: u64 = 10;

/// Fewer entries than these never are a reason to look further.
const FEW: u64 = 16;

impl PlanCache {
    /// The place of the kept plan among candidates, given by the numbers of their indexes, and the
    /// entries that it read at first. `version` is that of the collection: new indexes make kept
    /// plans worthless.
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

    /// Whether a kept plan still is a good one, now that it reads so many entries.
    #[must_use]
    pub fn holds(before: u64, now: u64) -> bool {
        now <= FEW || now <= before.saturating_mul(FACTOR)
    }

    /// Keeps the plan that was chosen for a shape: its index, and the entries that it reads.
    pub fn keep(&self, shape: u64, version: u64, chosen: &Index, estimate: u64) {
        let mut kept = self.kept.lock();
        if kept.len() >= SHAPES_MAX {
            kept.clear();
        }
        kept.insert(
            shape,
            Kept {
                index: chosen.id,
                name: chosen.name.clone(),
                version,
                estimate,
                uses: 0,
                since_ms: crate::clock::now_ms(),
            },
        );
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        self.kept.lock().clear();
    }

    /// Forgets the plan of one shape.
    pub fn forget(&self, shape: u64) {
        self.kept.lock().remove(&shape);
    }

    /// Whether any query of the collection is restricted to some indexes.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.filtered.load(Ordering::Relaxed)
    }

    /// Whether queries of this shape are restricted to some indexes.
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

    /// Restricts queries of a shape, in place of what was said of it before.
    pub fn set_filter(&self, filter: IndexFilter) {
        let mut filters = self.filters.lock();
        filters.retain(|known| known.shape != filter.shape);
        self.forget(filter.shape);
        filters.push(filter);
        self.filtered.store(true, Ordering::Relaxed);
    }

    /// Lifts the restriction of one shape, or all.
    pub fn clear_filters(&self, shape: Option<u64>) {
        let mut filters = self.filters.lock();
        filters.retain(|known| shape.is_some_and(|shape| known.shape != shape));
        self.filtered.store(!filters.is_empty(), Ordering::Relaxed);
        self.clear();
    }

    /// Shows each restriction.
    pub fn each_filter(&self, mut show: impl FnMut(&IndexFilter)) {
        self.filters.lock().iter().for_each(&mut show);
    }

    /// One document for each kept plan, for `$planCacheStats`.
    #[must_use]
    pub fn list(&self, host: &str) -> Vec<DocBuf> {
        let kept = self.kept.lock();
        let row = |(key, plan): (&u64, &Kept)| {
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
