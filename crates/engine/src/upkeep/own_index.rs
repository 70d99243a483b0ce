//! The indexes that patterns keep for themselves. Such an index has the name of its pattern, is
//! maintained like any other, and is created and dropped with the pattern only.

use crate::catalog::{Catalog, Index, change};
use crate::index::{build, spec::IndexSpec};
use crate::operation::Operation;
use crate::txn::Data;
use ::patterns::Pattern;
use std::sync::Arc;
use store::Batch;
use value::{DocBuf, Result, compare};

/// Returns the specification of a pattern's index, if it keeps one.
fn spec(pattern: &Pattern) -> Option<IndexSpec> {
    let own = pattern.own_index()?;
    let doc = DocBuf::build(|out| {
        out.i32("v", 2).extend(own.as_doc()).str("name", &pattern.name);
    });
    Some(IndexSpec { name: pattern.name.clone(), doc, names_collation: false })
}

/// Returns whether an index of a pattern's target is the one that the pattern keeps.
pub(super) fn is_of(pattern: &Pattern, index: &Index) -> bool {
    let same =
        |name: &str, own: &DocBuf| match (own.as_doc().get(name), index.spec.as_doc().get(name)) {
            (None, None) => true,
            (Some(a), Some(b)) => compare::equal(a, b),
            _ => false,
        };
    *index.name == *pattern.name
        && pattern
            .own_index()
            .is_some_and(|own| same("key", &own) && same("wildcardProjection", &own))
}

/// Creates the indexes that patterns keep. What an earlier declaration of such a pattern kept is
/// dropped before.
///
/// # Errors
/// When another index has the name or the key; errors of the build.
pub(super) fn create(data: &Data, op: &Operation, db: &str, patterns: &[Pattern]) -> Result<()> {
    for pattern in patterns {
        let wanted = spec(pattern);
        let known =
            super::declare::find(&data.catalog.load(), db, &pattern.collection, &pattern.name);
        if let Ok(known) = known
            && spec(&known).map(|spec| spec.doc) != wanted.as_ref().map(|spec| spec.doc.clone())
        {
            await_writers(data, op, std::slice::from_ref(&known), db)?;
            let gone = data.change_catalog(|catalog, batch| {
                Ok(remove(catalog, batch, db, std::slice::from_ref(&known)))
            })?;
            discard(data, &gone);
        }
        if let Some(spec) = wanted {
            build::create(data, op, db, &pattern.target, &[spec])?;
        }
    }
    Ok(())
}

/// Waits for the open transactions that write entries of the indexes that patterns keep.
///
/// # Errors
/// When the operation is stopped.
pub fn await_writers(data: &Data, op: &Operation, gone: &[Arc<Pattern>], db: &str) -> Result<()> {
    for pattern in gone.iter().filter(|p| p.own_index().is_some()) {
        data.wait_for_writers(&|| op.check_now(), |c| *c.db == *db && *c.name == *pattern.target)?;
    }
    Ok(())
}

/// Removes the indexes that patterns keep from the catalog. `discard` frees their space.
pub fn remove(
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    gone: &[Arc<Pattern>],
) -> Vec<Arc<Index>> {
    let mut removed = Vec::new();
    for pattern in gone {
        let Some(target) = catalog.get(db, &pattern.target).cloned() else { continue };
        let Some(index) = target.indexes.iter().find(|index| is_of(pattern, index)).cloned() else {
            continue;
        };
        change::forget_index(batch, &index);
        let left = change::altered(&target, |target| {
            target.indexes.retain(|other| other.id != index.id);
        });
        change::put(catalog, batch, left);
        removed.push(index);
    }
    removed
}

/// Frees the space of removed indexes.
pub fn discard(data: &Data, gone: &[Arc<Index>]) {
    change::discard_indexes(&data.trash, gone.iter());
}
