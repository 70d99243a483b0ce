//! `returnKey` of a find: the index key through which a document was found, in its place.

use crate::catalog::{Index, IndexKind};
use crate::index::{keys, ordered};
use crate::planner::{Access, Candidate};
use store::Direction;
use value::{Code, DocBuf, Error, RawDoc, Result};

/// The key through which an access finds a document; empty when it uses no index.
///
/// # Errors
/// When the index holds something else than values.
pub fn key_of(access: &Access, doc: RawDoc<'_>) -> Result<DocBuf> {
    match access {
        Access::Nothing | Access::Collection(_) | Access::Near(_) => Ok(DocBuf::new()),
        Access::Id(_) => Ok(id_of(doc)),
        Access::Index(candidate) if candidate.index.is_clustered() => Ok(id_of(doc)),
        Access::Index(candidate) => Ok(through(candidate, doc)?.unwrap_or_default()),
        Access::Either(accesses) => {
            for access in accesses {
                if let Access::Index(candidate) = access
                    && let Some(key) = through(candidate, doc)?
                {
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

/// The key that a scan of the ranges meets first.
fn through(candidate: &Candidate, doc: RawDoc<'_>) -> Result<Option<DocBuf>> {
    let index: &Index = &candidate.index;
    if !matches!(index.kind, IndexKind::Ordered) {
        return Err(Error::new(
            Code::NOT_IMPLEMENTED,
            format!("returnKey is not available with index '{}'", index.name),
        ));
    }
    let all = keys::keys(index, doc)?;
    let inside = |values: &[u8]| {
        let entry = [index.prefix().as_slice(), values].concat();
        candidate.ranges.iter().any(|range| range.from <= entry && entry < range.to)
    };
    let mut found = all.keys.iter().filter(|key| inside(&key.values));
    let key = match candidate.direction {
        Direction::Forward => found.next(),
        Direction::Reverse => found.next_back(),
    };
    Ok(key.map(|key| ordered::key_values(index, doc, &key.values)))
}
