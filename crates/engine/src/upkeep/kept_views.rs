//! The views that patterns keep: ordinary views of the target that are created, renamed and dropped
//! with the pattern, and that take writes.

use crate::catalog::{Catalog, Collection, Ids, WriteView, change};
use ::patterns::{Pattern, Phase};
use std::sync::Arc;
use store::Batch;
use value::{Code, DocBuf, Error, RawDoc, Result, Val, compare};

/// The options of the view that shows the documents of a filter.
fn options(on: &str, filter: RawDoc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        out.str("viewOn", on);
        out.array("pipeline", |stages| {
            stages.push_doc(|out| {
                out.append("$match", Val::Document(filter));
            });
        });
    })
}

fn has_options(view: &Collection, on: &str, filter: RawDoc<'_>) -> bool {
    let wanted = options(on, filter);
    compare::equal(Val::Document(view.options.as_doc()), Val::Document(wanted.as_doc()))
}

/// Refuses views whose names are taken. `known` is the version that the pattern replaces.
///
/// # Errors
/// NamespaceExists, InvalidNamespace.
pub(super) fn check(
    catalog: &Catalog,
    db: &str,
    pattern: &Pattern,
    known: Option<&Pattern>,
) -> Result<()> {
    let earlier = known.map(Pattern::views).unwrap_or_default();
    for (name, filter) in pattern.views() {
        crate::namespace::check_new_collection(db, &name)?;
        let taken = catalog.get(db, &name).is_some_and(|found| {
            let is_kept = |(known, of): &(String, DocBuf)| {
                *known == name && has_options(found, &pattern.target, of.as_doc())
            };
            !has_options(found, &pattern.target, filter.as_doc()) && !earlier.iter().any(is_kept)
        });
        if taken {
            return Err(Error::new(
                Code::NAMESPACE_EXISTS,
                format!(
                    "pattern '{}': its view '{name}' cannot be created, because '{db}.{name}' \
                     already exists",
                    pattern.name
                ),
            ));
        }
    }
    Ok(())
}

/// Creates the views of a pattern that do not exist.
///
/// # Errors
/// As `check`.
pub(super) fn add(
    ids: &Ids,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    pattern: &Pattern,
) -> Result<()> {
    check(catalog, db, pattern, None)?;
    for (name, filter) in pattern.views() {
        if catalog.get(db, &name).is_none() {
            let options = options(&pattern.target, filter.as_doc());
            change::create(ids, catalog, batch, db, &name, options)?;
        }
    }
    Ok(())
}

/// Removes the views of patterns.
pub fn remove(catalog: &mut Catalog, batch: &mut Batch, db: &str, gone: &[Arc<Pattern>]) {
    for pattern in gone {
        for (name, filter) in pattern.views() {
            let kept =
                |found: &&Arc<Collection>| has_options(found, &pattern.target, filter.as_doc());
            if let Some(view) = catalog.get(db, &name).filter(kept).cloned() {
                change::remove(catalog, batch, &view);
            }
        }
    }
}

/// The pattern that keeps a view, as its writers need it.
#[must_use]
pub fn of(catalog: &Catalog, db: &str, name: &str) -> Option<(WriteView, DocBuf)> {
    let on = catalog.get(db, name)?.view()?.on.clone();
    let view = name.strip_prefix(&*on)?.strip_prefix('.')?;
    let keeps = |pattern: &&Arc<Pattern>| {
        pattern.target == *on
            && pattern.phase.is_current()
            && pattern.phase != Phase::Clearing
            && pattern.kind.views().is_some()
    };
    catalog.patterns(db).iter().filter(keeps).find_map(|pattern| {
        let (_, filter) = pattern.views().into_iter().find(|(kept, _)| kept == name)?;
        let found = catalog.get(db, name)?;
        let (pattern, view) = (pattern.clone(), view.to_owned());
        has_options(found, &on, filter.as_doc()).then(|| (WriteView { pattern, view }, filter))
    })
}
