//! `returnKey` of a find: returns the index key through which a document was found instead of the
//! document.

use crate::catalog::{Index, IndexKind};
use crate::index_keys::{keys, ordered};
use crate::planner::{Access, Candidate};
use store::Direction;
use value::key_types::{Decoded, Decoder};
use value::{DocBuf, RawDoc, RawVal, Result, Val};

/// Returns the key through which an access finds a document; empty if it uses no index.
///
/// # Errors
/// Never for documents that are in the index.
pub fn key_of(access: &Access, doc: RawDoc<'_>) -> Result<DocBuf> {
    match access {
        Access::Nothing | Access::Collection(_) | Access::Near(_) | Access::Walk(_) => {
            Ok(DocBuf::new())
        }
        Access::Id(_) => Ok(id_of(doc)),
        Access::Index(candidate) if candidate.index.is_clustered() => Ok(id_of(doc)),
        Access::Index(candidate) => Ok(first_key(candidate, doc)?.unwrap_or_default()),
        Access::Either(either) => {
            for candidate in &either.branches {
                if let Some(key) = first_key(candidate, doc)? {
                    return Ok(key);
                }
            }
            Ok(DocBuf::new())
        }
    }
}

fn id_of(doc: RawDoc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        if let Some(id) = doc.get("_id") {
            out.append("_id", id);
        }
    })
}

/// Returns the first key that a scan of the ranges finds. Terms of a text index are not returned as
/// keys.
fn first_key(candidate: &Candidate, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
    let index: &Index = &candidate.index;
    if matches!(index.kind, IndexKind::Text(_)) {
        return Ok(Some(DocBuf::new()));
    }
    let all = keys::stored_keys(index, doc)?;
    let inside = |values: &[u8]| {
        let entry = [index.prefix().as_slice(), values].concat();
        candidate.ranges.iter().any(|range| range.from <= entry && entry < range.to)
            && candidate.check.as_ref().is_none_or(|check| check.holds(&entry))
    };
    let mut found = all.keys.iter().filter(|key| inside(&key.values));
    let key = match candidate.direction {
        Direction::Forward => found.next(),
        Direction::Reverse => found.next_back(),
    };
    let Some(key) = key else { return Ok(None) };
    if matches!(index.kind, IndexKind::Ordered) {
        return Ok(Some(ordered::key_values(index, doc, &key.values)));
    }
    Ok(Some(decoded(candidate, key)))
}

/// Returns a key whose values are computed by the index, such as hashes, as they are stored.
fn decoded(candidate: &Candidate, key: &keys::Key) -> DocBuf {
    let mut decoder = Decoder::new(&key.values, &key.types);
    DocBuf::build(|out| {
        for ((name, _), descending) in candidate.columns.iter().zip(&candidate.index.columns) {
            let mut bytes = Vec::new();
            match decoder.next(*descending, &mut bytes) {
                Some(Decoded::Value(kind)) => {
                    out.raw(name, RawVal { kind: kind as u8, bytes: &bytes });
                }
                _ => {
                    out.append(name, Val::Null);
                }
            }
        }
    })
}
