//! A sample of a collection's documents. The number of entries in key ranges is estimated from the
//! number of sampled documents with keys in them.
//!
//! It is taken when a query could read much, and kept while the size of the collection stays
//! similar. Its cost is about that of reading its documents.

use super::{Candidate, KeyRange};
use crate::catalog::Collection;
use crate::index_keys::keys;
use crate::layout;
pub use crate::plan_cache::Sample;
use patterns::layout::Demand;
use std::sync::Arc;
use store::{Direction, Snapshot, Space};
use value::keys::{self as keys_of_values, Number};
use value::path::{Part, Path};
use value::{RawDoc, Val};

/// The number of keys in the collection at which documents are sampled.
const SAMPLE_KEYS: usize = 50;
/// The number of documents read at each place.
const DOCUMENTS: usize = 3;
/// Larger documents are not sampled.
const BYTES_MAX: usize = 4096;

/// The sample of a collection. It is taken again when the collection has doubled or halved in size.
#[must_use]
pub fn of(snapshot: &Snapshot, collection: &Collection) -> Arc<Sample> {
    let mut kept = collection.counters.sample.lock();
    let now = collection.counters.documents();
    match &*kept {
        Some(sample) if now / 2 <= sample.of && sample.of <= now.saturating_mul(2) => {
            sample.clone()
        }
        _ => {
            let sample = Arc::new(Sample { documents: take(snapshot, collection), of: now });
            *kept = Some(sample.clone());
            sample
        }
    }
}

fn take(snapshot: &Snapshot, collection: &Collection) -> Vec<Vec<u8>> {
    let first = collection.prefix().to_vec();
    let end = (collection.id + 1).to_be_bytes();
    let cuts = sample_keys(snapshot, collection, &first, &end);
    let mut documents = Vec::new();
    for from in std::iter::once(&first).chain(&cuts).map(Vec::as_slice) {
        let range = layout::range(collection, snapshot, from, &end, Direction::Forward);
        let Ok(mut range) = range else { continue };
        for _ in 0..DOCUMENTS {
            let Ok(Some((_, doc))) = range.next() else { break };
            if doc.len() <= BYTES_MAX {
                documents.push(doc.to_vec());
            }
        }
    }
    documents
}

/// Keys distributed evenly over the collection. Numbers are distributed by value: their keys begin
/// with their length, so most byte strings between two of them are not numbers.
fn sample_keys(
    snapshot: &Snapshot,
    collection: &Collection,
    from: &[u8],
    to: &[u8],
) -> Vec<Vec<u8>> {
    let end = |direction| {
        let keys = || Demand { ordered: true, ..Demand::of(Vec::new()) };
        let range = layout::range_part(collection, snapshot, (from, to), direction, keys);
        let mut range = range.ok()?;
        let (key, _) = range.next().ok()??;
        match keys_of_values::number(key.get(4..)?, false)? {
            Number::Whole(n) => Some(n as f64),
            Number::Double(n) => Some(n).filter(|n| n.is_finite()),
        }
    };
    if collection.capped().is_none()
        && let (Some(low), Some(high)) = (end(Direction::Forward), end(Direction::Reverse))
    {
        let place = |part: usize| {
            let value = low + (high - low) * part as f64 / SAMPLE_KEYS as f64;
            [from, &keys_of_values::key(Val::Double(value))].concat()
        };
        return (1..SAMPLE_KEYS).map(place).collect();
    }
    let cuts = snapshot.split(Space::Documents, from, to, SAMPLE_KEYS).unwrap_or_default();
    cuts.iter().map(|cut| cut.as_slice().to_vec()).collect()
}

impl Sample {
    /// The estimated number of entries that a candidate reads, in a collection of so many
    /// documents; `None` without a sample.
    #[must_use]
    pub fn entries(&self, candidate: &Candidate, documents: u64) -> Option<u64> {
        let index = &candidate.index;
        let prefix = index.prefix();
        let inside = |values: &[u8]| {
            let key = [prefix.as_slice(), values].concat();
            is_inside(&candidate.ranges, &key)
                && candidate.check.as_ref().is_none_or(|check| check.holds(&key))
        };
        let mut found = 0_u64;
        for doc in &self.documents {
            let doc = RawDoc::new(doc);
            if index.is_clustered() {
                let id = doc.get("_id")?;
                let key = keys_of_values::key_with(id, index.collation.as_deref());
                let first = candidate.ranges.first()?.from.get(..4)?;
                found += u64::from(is_inside(&candidate.ranges, &[first, &key].concat()));
                continue;
            }
            let Ok(keys) = keys::stored_keys(index, doc) else { continue };
            found += keys.keys.iter().filter(|key| inside(&key.values)).count() as u64;
        }
        let sampled = u64::try_from(self.documents.len()).ok().filter(|count| *count > 0)?;
        // A range without sampled documents may still contain many, so at least one is assumed.
        Some(documents.saturating_mul(found.max(1)) / sampled)
    }
}

impl Sample {
    /// The prefixes of a path at which some document has an array, shortest first.
    #[must_use]
    pub fn arrays_on(&self, path: &Path) -> Vec<String> {
        let mut found = vec![false; path.parts().len()];
        for doc in &self.documents {
            note_arrays(RawDoc::new(doc), path.parts(), &mut found);
        }
        let names: Vec<&str> = path.text().split('.').collect();
        let beginnings = (1..=names.len()).filter_map(|end| names.get(..end));
        let marked = beginnings.zip(found).filter(|(_, array)| *array);
        marked.map(|(names, _)| names.join(".")).collect()
    }
}

/// Marks the steps of a path at which a document has an array.
fn note_arrays(doc: RawDoc<'_>, parts: &[Part], found: &mut [bool]) {
    let (Some((part, rest)), Some((first, later))) = (parts.split_first(), found.split_first_mut())
    else {
        return;
    };
    match doc.get(&part.name) {
        Some(Val::Array(array)) => {
            *first = true;
            for (_, element) in array {
                if let Some(inner) = element.as_doc() {
                    note_arrays(inner, rest, later);
                }
            }
        }
        Some(Val::Document(inner)) => note_arrays(inner, rest, later),
        _ => {}
    }
}

/// Whether a key is in one of several sorted ranges.
fn is_inside(ranges: &[KeyRange], key: &[u8]) -> bool {
    let at = ranges.partition_point(|range| range.to.as_slice() <= key);
    ranges.get(at).is_some_and(|range| range.from.as_slice() <= key)
}
