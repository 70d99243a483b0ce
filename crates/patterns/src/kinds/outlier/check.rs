//! Looks for records that contradict each other.

use super::layout::Overflow;
use super::stand_in::{chunk_key, directory_key};
use crate::layout::{Area, Records, Span};
use std::collections::BTreeSet;
use value::{RawDoc, Result};

/// Compares the stand-ins, directories and chunks of all documents.
pub(super) fn check(
    layout: &Overflow,
    records: &dyn Records,
    find: &mut dyn FnMut(String),
) -> Result<()> {
    let mut known: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut stored = records.scan(Area::Documents, &Span::all())?;
    while let Some((key, doc)) = stored.next()? {
        let Some(spilled) = layout.spilled(records, key, RawDoc::new(doc))? else { continue };
        known.insert(directory_key(key));
        let stand_in = spilled.stand_in;
        let ends = [stand_in.head, stand_in.tail];
        let mut count: usize = ends.iter().map(|part| RawDoc::new(part).count()).sum();
        for chunk in &spilled.chunks {
            let own = chunk_key(key, chunk.id);
            match records.get(Area::Own, &own)? {
                None => find(format!("the chunk {} of the document {key:?} is missing", chunk.id)),
                Some(packed) => {
                    let found = RawDoc::new(&packed).count();
                    if found != chunk.count || packed.len() != chunk.bytes {
                        find(format!(
                            "the chunk {} of the document {key:?} has {found} elements, not {}",
                            chunk.id, chunk.count
                        ));
                    }
                    count += found;
                }
            }
            if !known.insert(own) {
                find(format!("the document {key:?} has the chunk {} twice", chunk.id));
            }
        }
        if count != stand_in.array.count {
            find(format!(
                "the spilled array of the document {key:?} has {count} elements, not {}",
                stand_in.array.count
            ));
        }
    }
    let mut own = records.scan(Area::Own, &Span::all())?;
    while let Some((key, _)) = own.next()? {
        if !known.contains(key) {
            find(format!("the record {key:?} belongs to no spilled array"));
        }
    }
    Ok(())
}
