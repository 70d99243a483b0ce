//! Changing the declaration of an existing pattern.
//!
//! Options that do not affect maintained values are replaced immediately. All others create a new
//! version. If the new version has records, they are filled while the old version stays in use
//! (`Phase::Preparing`). Then the new version replaces the old one in one step. From then on it is
//! a build whose targets readers see as if it were complete (`reading`), so a reader never sees
//! values of both versions. Values that only the old version maintained are cleared as for a
//! dropped pattern.

use super::declare::{self, Reason};
use super::kept_views;
use crate::catalog::{Catalog, persist};
use crate::operation::Operation;
use crate::records::pattern_reads::state_key;
use crate::txn::Data;
use ::patterns::paths::meet;
use ::patterns::pattern::PROGRESS;
use ::patterns::{Pattern, Phase};
use std::sync::Arc;
use store::{Batch, Space};
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

/// Options that do not affect maintained values.
static LIGHT: &[&str] = &[
    "backfill",
    "changeEvents",
    "clientWrites",
    "duringBuild",
    "fanoutLimit",
    "maxStalenessMS",
    "mode",
    "overLimit",
    "rewrite",
    "verify",
];

/// Merges `set` into the declaration of a pattern. A null removes an option.
fn merged(known: &Pattern, set: RawDoc<'_>) -> DocBuf {
    let declaration = known.declaration.as_doc();
    DocBuf::build(|out| {
        for (option, value) in declaration.iter().filter(|(option, _)| *option != "chosen") {
            out.raw(option, set.find(option).unwrap_or(value));
        }
        for (option, value) in set {
            if declaration.find(option).is_none() || option == "chosen" {
                out.raw(option, value);
            }
        }
        // A strategy that becomes `auto` starts from the current one.
        let strategy = set.get("strategy").or(declaration.get("strategy"));
        let automatic = strategy == Some(Val::String("auto")) && set.find("chosen").is_none();
        if let Some(chosen) = known.kind.current_strategy().filter(|_| automatic) {
            out.str("chosen", chosen);
        }
    })
}

/// Returns the pattern with the changed declaration, and whether its maintained values are the
/// same.
///
/// # Errors
/// When the pattern does not exist, or the new declaration is invalid.
pub fn redeclare(
    data: &Data,
    db: &str,
    collection: &str,
    name: &str,
    set: RawDoc<'_>,
) -> Result<(Pattern, bool)> {
    if let Some(fixed) = ["name", "kind"].into_iter().find(|fixed| set.find(fixed).is_some()) {
        return Err(Error::bad_value(format!(
            "'{fixed}' of a pattern cannot be changed: drop it and create another one"
        )));
    }
    let known = declare::find(&data.catalog.load(), db, collection, name)?;
    let wanted = known.redeclared(collection, merged(&known, set).as_doc(), |_| {})?;
    let same_strategy = wanted.is_pointer() == known.is_pointer();
    let of_kind = known.kind.options_without_rebuild();
    let is_light = |option: &str| {
        LIGHT.contains(&option)
            || of_kind.contains(&option)
            || (option == "strategy" && same_strategy)
    };
    let light = set.iter().all(|(option, _)| is_light(option));
    if !light && !known.kind.reforms().is_empty() {
        let fixed = set.iter().map(|(option, _)| option).find(|option| !is_light(option));
        return Err(Error::bad_value(format!(
            "'{}' of the pattern '{name}' cannot be changed: documents are stored by it already; drop \
             it and create another one",
            fixed.unwrap_or_default()
        )));
    }
    if !light {
        check_paths(&known, &wanted)?;
    }
    Ok((wanted, light))
}

/// Changes options of a pattern. Returns the number under which a new version is built, if one is
/// needed.
///
/// # Errors
/// When the new declaration is invalid, or another new version is in progress.
pub fn modify(
    data: &Data,
    op: &Operation,
    db: &str,
    collection: &str,
    name: &str,
    set: RawDoc<'_>,
) -> Result<Option<u32>> {
    let (wanted, light) = redeclare(data, db, collection, name, set)?;
    let refuse_second = |catalog: &Catalog, known: &Pattern| match preparing(catalog, db, known) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            Code::CONFLICTING_OPERATION_IN_PROGRESS,
            format!("a new version of the pattern '{name}' is being built already"),
        )),
    };
    if !light {
        let catalog = data.catalog.load();
        refuse_second(&catalog, &*declare::find(&catalog, db, collection, name)?)?;
        let wanted = std::slice::from_ref(&wanted);
        declare::prepare(data, op, db, collection, wanted, Reason::Request)?;
    }
    data.change_catalog(|catalog, batch| {
        let known = declare::find(catalog, db, collection, name)?;
        refuse_second(catalog, &known)?;
        let mut new = known.redeclared(collection, merged(&known, set).as_doc(), |_| {})?;
        if light && new.kind.converts_stored() && !known.kind.converts_stored() {
            // The number stays, because documents are stored under it.
            new.phase = Phase::Building;
            batch.delete(Space::Documents, &state_key(known.id, PROGRESS));
            declare::put(catalog, batch, db, new)?;
            return Ok(Some((known.id, None)));
        }
        if light || new.declaration == known.declaration {
            declare::put(catalog, batch, db, new)?;
            return Ok(None);
        }
        if known.phase == Phase::Suspended && known.layout().is_none() {
            // It is built with the new declaration when it is resumed.
            clear_rest(data, catalog, batch, db, &known, &new)?;
            replace_views(data, catalog, batch, db, &known, &new)?;
            declare::put(catalog, batch, db, new)?;
            return Ok(None);
        }
        new.failure.clear();
        new.id = data.ids.fresh(batch);
        let id = new.id;
        if known.layout().is_some() {
            // Both layouts are stacked until all documents are in the new form.
            declare::begin_clearing(data, catalog, batch, db, (&known, false))?;
            new.phase = Phase::Building;
            declare::put(catalog, batch, db, new)?;
            return Ok(Some((id, None)));
        }
        // A layout keeps no records of its own before documents are in its form.
        let beside = known.phase.is_built() && new.layout().is_none();
        new.phase = if beside { Phase::Preparing } else { Phase::Building };
        if !beside {
            clear_rest(data, catalog, batch, db, &known, &new)?;
            declare::remove(catalog, batch, db, std::slice::from_ref(&known))?;
            replace_views(data, catalog, batch, db, &known, &new)?;
        }
        declare::put(catalog, batch, db, new)?;
        Ok(Some((id, (!beside).then_some(known))))
    })
    .map(|done| {
        done.map(|(id, gone)| {
            declare::discard(data, gone.as_slice());
            id
        })
    })
}

/// Refuses a new path that is a prefix of an old one, or the reverse: the values of the two
/// versions would overlap.
fn check_paths(old: &Pattern, new: &Pattern) -> Result<()> {
    let kept = new.maintains();
    for path in old.maintains().iter().filter(|_| old.target == new.target) {
        if let Some(other) = kept.iter().find(|other| *other != path && meet(path, other)) {
            return Err(Error::bad_value(format!(
                "'{other}' would conflict with '{path}', which the pattern '{}' maintains: \
                 drop it and create another one",
                old.name
            )));
        }
    }
    Ok(())
}

/// Returns the new version of a pattern that is being prepared, if there is one.
fn preparing(catalog: &Catalog, db: &str, known: &Pattern) -> Option<Arc<Pattern>> {
    let same = |p: &&Arc<Pattern>| p.collection == known.collection && p.name == known.name;
    let mut all = catalog.patterns(db).iter().filter(same);
    all.find(|p| p.phase == Phase::Preparing).cloned()
}

/// Returns the new versions of patterns that are being prepared.
#[must_use]
pub fn versions(catalog: &Catalog, db: &str, patterns: &[Arc<Pattern>]) -> Vec<Arc<Pattern>> {
    patterns.iter().filter_map(|known| preparing(catalog, db, known)).collect()
}

/// Replaces the old version by the new one, once its records are filled.
///
/// # Errors
/// When the catalog cannot be written.
pub(super) fn swap(data: &Data, db: &str, id: u32) -> Result<()> {
    let gone = data.change_catalog(|catalog, batch| {
        let new = catalog.patterns(db).iter().find(|p| p.id == id).cloned();
        let Some(new) = new.filter(|new| new.phase == Phase::Preparing) else { return Ok(None) };
        let old = declare::find(catalog, db, &new.collection, &new.name).ok();
        let Some(old) = old.filter(|old| old.phase.is_built()) else {
            // The pattern to replace no longer exists.
            declare::remove(catalog, batch, db, std::slice::from_ref(&new))?;
            return Ok(Some(new));
        };
        clear_rest(data, catalog, batch, db, &old, &new)?;
        declare::remove(catalog, batch, db, std::slice::from_ref(&old))?;
        replace_views(data, catalog, batch, db, &old, &new)?;
        let built = new.altered(|new| new.phase = Phase::Building)?;
        declare::put(catalog, batch, db, built)?;
        Ok(Some(old))
    })?;
    declare::discard(data, gone.as_slice());
    Ok(())
}

/// Replaces the views that the old version keeps by those of the new one.
fn replace_views(
    data: &Data,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    old: &Arc<Pattern>,
    new: &Pattern,
) -> Result<()> {
    if old.views() == new.views() {
        return Ok(());
    }
    kept_views::remove(catalog, batch, db, std::slice::from_ref(old));
    kept_views::add(&data.ids, catalog, batch, db, new)
}

/// Discards a new version that cannot be filled. The old one stays and reports the reason.
///
/// # Errors
/// When the catalog cannot be written.
pub(super) fn give_up(data: &Data, db: &str, id: u32, why: &str) -> Result<()> {
    let gone = data.change_catalog(|catalog, batch| {
        let Some(new) = catalog.patterns(db).iter().find(|p| p.id == id).cloned() else {
            return Ok(None);
        };
        declare::remove(catalog, batch, db, std::slice::from_ref(&new))?;
        if let Ok(old) = declare::find(catalog, db, &new.collection, &new.name) {
            let explained = old.altered(|old| old.failure = format!("modifyPattern: {why}"))?;
            declare::put(catalog, batch, db, explained)?;
        }
        Ok(Some(new))
    })?;
    declare::discard(data, gone.as_slice());
    Ok(())
}

/// Starts clearing the values that only the old version maintains.
///
/// # Errors
/// When the catalog cannot be written.
pub(super) fn clear_rest(
    data: &Data,
    catalog: &mut Catalog,
    batch: &mut Batch,
    db: &str,
    old: &Arc<Pattern>,
    new: &Pattern,
) -> Result<()> {
    let kept = new.maintains();
    let same = old.target == new.target;
    let covered = |path: &String| same && kept.iter().any(|other| other == path);
    if old.maintains().iter().all(covered) {
        return Ok(());
    }
    // Documents that both versions own are rewritten by the new one.
    if same && old.owns_documents() && new.owns_documents() {
        return Ok(());
    }
    let mut cleared = old.altered(|old| old.phase = Phase::Clearing)?;
    cleared.id = data.ids.fresh(batch);
    let record = persist::encode_pattern(db, &cleared);
    batch.put(Space::Catalog, &persist::pattern_key(cleared.id), record.bytes());
    crate::catalog::change::add_pattern(catalog, db, cleared)
}
