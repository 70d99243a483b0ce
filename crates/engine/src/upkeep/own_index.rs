//! The indexes that patterns keep for themselves. They are maintained like any other, and are
//! created and dropped with the pattern only.

use crate::catalog::{Catalog, Index, change};
use crate::index::{build, spec, spec::IndexSpec};
use crate::operation::Operation;
use crate::txn::Data;
use ::patterns::Pattern;
use std::sync::Arc;
use store::Batch;
use value::{DocBuf, Error, RawDoc, Result, Val, compare};

/// The fields in which an index and the specification of one agree, if they are the same.
const FIELDS: &[&str] = &["name", "key", "unique", "partialFilterExpression", "wildcardProjection"];

/// Whether two specifications are of the same index.
fn is_same(one: RawDoc<'_>, other: RawDoc<'_>) -> bool {
    FIELDS.iter().all(|name| match (one.get(name), other.get(name)) {
        (None, None) => true,
        (Some(a), Some(b)) => compare::equal(a, b),
        _ => false,
    })
}

/// Returns the specification of an index that a pattern keeps.
fn specification(own: RawDoc<'_>) -> Result<IndexSpec> {
    if own.find("wildcardProjection").is_none() {
        return spec::parse(own, false);
    }
    // Fields below a wildcard are left out in a form that clients cannot ask for.
    let name = own.get("name").and_then(Val::as_str).unwrap_or_default().to_owned();
    let doc = DocBuf::build(|out| {
        out.i32("v", 2).extend(own);
    });
    Ok(IndexSpec { name, doc, names_collation: false })
}

/// Returns whether an index of a pattern's target is one that the pattern keeps.
pub(super) fn is_of(pattern: &Pattern, index: &Index) -> bool {
    pattern.own_indexes().iter().any(|own| is_same(own.as_doc(), index.spec.as_doc()))
}

/// Creates the indexes that patterns keep. What an earlier declaration of such a pattern kept and
/// the new one does not is dropped before.
///
/// # Errors
/// When another index has the name or the key; errors of the specification and of the build.
pub(super) fn create(data: &Data, op: &Operation, db: &str, patterns: &[Pattern]) -> Result<()> {
    for pattern in patterns {
        let wanted = pattern.own_indexes();
        let mut specs = Vec::new();
        for own in &wanted {
            let named = |error: Error| error.context(format!("pattern '{}': ", pattern.name));
            specs.push(specification(own.as_doc()).map_err(named)?);
        }
        let known =
            super::declare::find(&data.catalog.load(), db, &pattern.collection, &pattern.name);
        let stays = |own: &DocBuf| wanted.iter().any(|one| is_same(one.as_doc(), own.as_doc()));
        if let Ok(known) = known
            && !known.own_indexes().iter().all(stays)
        {
            await_writers(data, op, std::slice::from_ref(&known), db)?;
            let gone = data.change_catalog(|catalog, batch| {
                Ok(remove_some(catalog, batch, db, &known, &|index| {
                    !wanted.iter().any(|own| is_same(own.as_doc(), index.spec.as_doc()))
                }))
            })?;
            discard(data, &gone);
        }
        if !specs.is_empty() {
            build::create(data, op, db, &pattern.target, &specs)?;
        }
    }
    Ok(())
}

/// Waits for the open transactions that write entries of the indexes that patterns keep.
///
/// # Errors
/// When the operation is stopped.
pub fn await_writers(data: &Data, op: &Operation, gone: &[Arc<Pattern>], db: &str) -> Result<()> {
    for pattern in gone.iter().filter(|p| !p.own_indexes().is_empty()) {
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
    let all = gone.iter().flat_map(|pattern| remove_some(catalog, batch, db, pattern, &|_| true));
    all.collect()
}

/// Removes the indexes that a pattern keeps and that `goes` selects.
fn remove_some(
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    pattern: &Pattern,
    goes: &dyn Fn(&Index) -> bool,
) -> Vec<Arc<Index>> {
    let Some(target) = catalog.get(db, &pattern.target).cloned() else { return Vec::new() };
    let all = target.indexes.iter().filter(|index| is_of(pattern, index) && goes(index));
    let removed: Vec<Arc<Index>> = all.cloned().collect();
    if removed.is_empty() {
        return removed;
    }
    removed.iter().for_each(|index| change::forget_index(batch, index));
    let left = change::altered(&target, |target| {
        target.indexes.retain(|other| !removed.iter().any(|index| other.id == index.id));
    });
    change::put(catalog, batch, left);
    removed
}

/// Frees the space of removed indexes.
pub fn discard(data: &Data, gone: &[Arc<Index>]) {
    change::discard_indexes(&data.trash, gone.iter());
}
