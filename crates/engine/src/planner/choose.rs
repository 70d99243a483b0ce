//! Chooses the best of several plans by the number of entries that each reads. Small numbers are
//! counted; larger ones are estimated from a sample of the documents.

use super::{Access, Candidate, Either, Question, bounds, cache_key, candidates, sample};
use crate::catalog::{Collection, Index, IndexKind};
use crate::layout;
use crate::plan_cache::PlanCache;
use patterns::layout::Demand;
use query::filter::Node;
use std::ops::Bound;
use store::{Direction, Snapshot, Space};
use value::keys;

/// The most entries that are counted exactly.
const COUNTED: u64 = 128;

/// Collections with fewer documents are not sampled.
const SMALL: u64 = 1000;

/// The cost of fetching a document by an index entry, relative to reading one in a collection scan.
const FETCH: f64 = 3.0;

/// The position of the best of several candidates.
pub(super) fn best(question: &Question<'_>, node: &Node, found: &mut [Candidate]) -> Option<usize> {
    match found {
        [] => return None,
        [_] => return Some(0),
        _ => {}
    }
    let unique = |c: &Candidate| c.index.unique && c.equalities == c.index.fields.len();
    if let Some(at) = found.iter().position(|c| unique(c) && c.ranges.len() == 1) {
        return Some(at);
    }
    let (plans, version) = (&question.collection.counters.plans, question.collection.version);
    let shape = question.shape_of(node);
    let serves = |index: &Index| found.iter().any(|candidate| candidate.index.id == index.id);
    let key = cache_key::plan_key(question.collection, shape, node, serves, false);
    let look = |candidate: &mut Candidate| {
        let entries = estimate(question.snapshot, question.collection, candidate);
        candidate.estimate = Some(entries);
        entries
    };
    if let Some((at, before)) =
        plans.find(key, version, found.iter().map(|candidate| candidate.index.id))
        && let Some(kept) = found.get_mut(at)
        && PlanCache::holds(before, look(kept))
    {
        return Some(at);
    }
    for candidate in found.iter_mut() {
        look(candidate);
    }
    let better = |a: &Candidate, b: &Candidate| {
        (cost(a).total_cmp(&cost(b)))
            .then(b.equalities.cmp(&a.equalities))
            .then(b.sorted.cmp(&a.sorted))
            .then(b.bounded.cmp(&a.bounded))
            .then(a.index.fields.len().cmp(&b.index.fields.len()))
            .then(a.index.id.cmp(&b.index.id))
    };
    let best = (0..found.len()).min_by(|&a, &b| match (found.get(a), found.get(b)) {
        (Some(a), Some(b)) => better(a, b),
        _ => std::cmp::Ordering::Equal,
    });
    if let Some(chosen) = best.and_then(|best| found.get(best)) {
        let estimate = chosen.estimate.unwrap_or(0);
        let describe = || question.described(node, chosen, found);
        plans.keep((key, shape), version, &chosen.index, estimate, describe);
    }
    best
}

/// The cost of a candidate, in entries read.
pub(super) fn cost(candidate: &Candidate) -> f64 {
    let entries = candidate.estimate.unwrap_or(u64::MAX) as f64;
    entries * sorting(candidate.sorted, entries)
}

/// The cost of reading entries and fetching their documents, in documents of a collection scan.
pub(super) fn fetched(entries: u64) -> f64 {
    entries as f64 * FETCH
}

/// The additional cost of a blocking sort, which reads and orders all entries.
fn sorting(sorted: bool, entries: f64) -> f64 {
    if sorted { 1.0 } else { 1.2 + entries.max(1.0).log2() * 0.05 }
}

/// Whether a collection scan is cheaper than a candidate that fetches many documents. Candidates
/// that give the requested order are kept.
pub(super) fn is_worse_than_all(question: &Question<'_>, candidate: &mut Candidate) -> bool {
    let documents = question.collection.counters.documents();
    let points = |(_, intervals): &(String, Vec<bounds::Interval>)| {
        intervals.iter().all(|interval| interval.point)
    };
    let ordered = question.sort.is_some() && candidate.sorted;
    let free = candidate.index.is_clustered() || candidate.index.kind.is_special();
    if documents < SMALL || ordered || free || candidate.columns.first().is_none_or(points) {
        return false;
    }
    let entries = match candidate.estimate {
        Some(known) => known,
        None => estimate(question.snapshot, question.collection, candidate),
    };
    candidate.estimate = Some(entries);
    fetched(entries) > documents as f64
}

/// Whether the branches of an `$or` read fewer entries in total than a candidate.
pub(super) fn is_better_apart(
    question: &Question<'_>,
    either: &Either,
    candidate: &mut Candidate,
) -> bool {
    if candidate.bounded > 0 {
        return false;
    }
    let of = |c: &Candidate| {
        c.estimate.unwrap_or_else(|| estimate(question.snapshot, question.collection, c))
    };
    let entries = of(candidate);
    candidate.estimate = Some(entries);
    let apart = either.branches.iter().map(of).fold(0_u64, u64::saturating_add) as f64;
    let sorted = question.sort.is_none() || either.merge.is_some();
    apart * sorting(sorted, apart) < entries as f64
}

/// Whether branches of an `$or` that have the requested order each read few enough entries to save
/// the sort of others.
pub(super) fn is_better_merged(
    question: &Question<'_>,
    ordered: &[Candidate],
    plain: &[Candidate],
) -> bool {
    let of = |c: &Candidate| {
        c.estimate.unwrap_or_else(|| estimate(question.snapshot, question.collection, c))
    };
    let sum = |all: &[Candidate]| all.iter().map(of).fold(0_u64, u64::saturating_add) as f64;
    let (merged, sorted) = (sum(ordered), sum(plain));
    merged <= sorted * sorting(false, sorted)
}

/// An index whose leading field is not bounded while later ones are, if the leading field has so
/// few values that a skip scan is cheaper than reading everything.
pub(super) fn skipping(question: &Question<'_>) -> Option<Access> {
    const VALUES: u64 = 20;
    let documents = question.collection.counters.documents();
    if documents < SMALL {
        return None;
    }
    let mut best: Option<(u64, Candidate)> = None;
    for candidate in candidates::unbounded(question) {
        let Some(values) = leading_values(question.snapshot, &candidate, VALUES) else { continue };
        if best.as_ref().is_none_or(|(known, _)| values < *known) {
            best = Some((values, candidate));
        }
    }
    let (values, mut candidate) = best?;
    let sample = sample::of(question.snapshot, question.collection);
    let entries = sample.entries(&candidate, documents)?.saturating_add(values * 32);
    candidate.estimate = Some(entries);
    (entries as f64 * FETCH < documents as f64).then_some(Access::Index(candidate))
}

/// The number of values of an index's first field; `None` if there are more than `most`.
fn leading_values(snapshot: &Snapshot, candidate: &Candidate, most: u64) -> Option<u64> {
    let index = &candidate.index;
    if !matches!(index.kind, IndexKind::Ordered) || index.is_clustered() {
        return None;
    }
    let descending = *index.columns.first()?;
    let mut from = index.prefix().to_vec();
    let to = bounds::after(&from);
    for count in 0..=most {
        let (low, high) = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
        let mut range = snapshot.range(Space::Indexes, low, high, Direction::Forward).ok()?;
        let Some((key, _)) = range.next().ok()? else { return Some(count) };
        let length = keys::skip(key.get(4..)?, descending)?;
        from = bounds::after(key.get(..4 + length)?);
    }
    None
}

/// The estimated number of entries that a candidate reads.
pub(super) fn estimate(snapshot: &Snapshot, collection: &Collection, candidate: &Candidate) -> u64 {
    let clustered = candidate.index.is_clustered();
    if clustered && collection.layouts.is_some() {
        return estimate_documents(snapshot, collection, candidate);
    }
    let space = if clustered { Space::Documents } else { Space::Indexes };
    let documents = collection.counters.documents();
    let most = if documents < SMALL { SMALL } else { COUNTED };
    let mut count = 0;
    for range in &candidate.ranges {
        let from = Bound::Included(range.from.as_slice());
        let to = Bound::Excluded(range.to.as_slice());
        let Ok(mut entries) = snapshot.range(space, from, to, Direction::Forward) else { break };
        while let Ok(Some(_)) = entries.next() {
            count += 1;
            if count >= most {
                let estimate = sample::of(snapshot, collection).entries(candidate, documents);
                return estimate.unwrap_or(documents).max(most);
            }
        }
    }
    count
}

/// The same for ranges of documents where not every record is a document.
fn estimate_documents(snapshot: &Snapshot, collection: &Collection, candidate: &Candidate) -> u64 {
    let documents = collection.counters.documents();
    let most = if documents < SMALL { SMALL } else { COUNTED };
    let mut count = 0;
    for range in &candidate.ranges {
        let between = (&*range.from, &*range.to);
        let counted = || Demand::of(Vec::new());
        let range = layout::range_part(collection, snapshot, between, Direction::Forward, counted);
        let Ok(mut range) = range else { break };
        while let Ok(Some(_)) = range.next() {
            count += 1;
            if count >= most {
                return documents.max(most);
            }
        }
    }
    count
}
