//! What views depend on: the collection or view that they show, and those that stages of their
//! pipelines read. It has no cycles, a limited depth, and one collation.

use crate::catalog::{Catalog, persist};
use std::collections::BTreeSet;
use value::{Code, Error, RawDoc, Result, Val};

/// The maximum depth of views on views.
const DEPTH_MAX: usize = 20;

/// Refuses a view that depends on itself, on too many others or on one of another collation, or that
/// a view of another collation depends on.
///
/// # Errors
/// GraphContainsCycle, ViewDepthLimitExceeded, OptionNotSupportedOnView.
pub(super) fn check(
    catalog: &Catalog,
    db: &str,
    name: &str,
    on: &str,
    options: RawDoc<'_>,
) -> Result<()> {
    let collation = persist::collation_of(options)?;
    let pipeline = options.get("pipeline").and_then(Val::as_array).unwrap_or(RawDoc::empty());
    let mut below = BTreeSet::new();
    below.insert(on.to_owned());
    read_by(pipeline, &mut below);
    let conflict = |one: &str, other: &str| {
        Error::new(
            Code::OPTION_NOT_SUPPORTED_ON_VIEW,
            format!("View {db}.{one} has conflicting collation with view {db}.{other}"),
        )
    };
    for view in &below {
        let found = catalog.get(db, view).filter(|found| found.view().is_some());
        if view != name && found.is_some_and(|found| found.collation != collation) {
            return Err(conflict(name, view));
        }
    }
    let mut trail = vec![name.to_owned()];
    let mut done = BTreeSet::new();
    for next in &below {
        walk(catalog, db, next, &mut trail, &mut done)?;
    }
    let views = catalog.databases.get(db).into_iter().flat_map(|db| db.collections.values());
    for other in views.filter(|other| *other.name != *name && other.collation != collation) {
        let Some(view) = other.view() else { continue };
        let mut read = BTreeSet::new();
        read.insert(view.on.to_string());
        read_by(view.pipeline.as_doc(), &mut read);
        if read.contains(name) {
            return Err(conflict(&other.name, name));
        }
    }
    Ok(())
}

/// Visits what a view reads. `trail` are the views on the way from the checked view to it, `done` the
/// views that were visited.
fn walk(
    catalog: &Catalog,
    db: &str,
    name: &str,
    trail: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Result<()> {
    if trail.first().is_some_and(|first| first == name) {
        let shown: Vec<String> = trail
            .iter()
            .map(String::as_str)
            .chain([name])
            .map(|view| format!("{db}.{view}"))
            .collect();
        return Err(Error::new(
            Code::GRAPH_CONTAINS_CYCLE,
            format!("View cycle detected: {}", shown.join(" => ")),
        ));
    }
    let Some(view) = catalog.get(db, name).and_then(|found| found.view()) else { return Ok(()) };
    if trail.len() >= DEPTH_MAX {
        return Err(Error::new(
            Code::VIEW_DEPTH_LIMIT_EXCEEDED,
            format!("View depth limit exceeded; maximum depth is {DEPTH_MAX}"),
        ));
    }
    if !done.insert(name.to_owned()) {
        return Ok(());
    }
    let mut below = BTreeSet::new();
    below.insert(view.on.to_string());
    read_by(view.pipeline.as_doc(), &mut below);
    trail.push(name.to_owned());
    for next in &below {
        walk(catalog, db, next, trail, done)?;
    }
    trail.pop();
    Ok(())
}

/// Adds the names of collections and views that the stages of a pipeline read.
fn read_by(pipeline: RawDoc<'_>, names: &mut BTreeSet<String>) {
    for (_, stage) in pipeline {
        let Some((stage, argument)) = stage.as_doc().and_then(RawDoc::first) else { continue };
        match (stage, argument.get()) {
            ("$unionWith", Val::String(name)) => {
                names.insert(name.to_owned());
            }
            ("$lookup" | "$graphLookup" | "$unionWith", Val::Document(options)) => {
                for field in ["from", "coll"] {
                    if let Some(Val::String(name)) = options.get(field) {
                        names.insert(name.to_owned());
                    }
                }
                if let Some(inner) = options.get("pipeline").and_then(Val::as_array) {
                    read_by(inner, names);
                }
            }
            ("$facet", Val::Document(facets)) => {
                for (_, facet) in facets {
                    if let Some(inner) = facet.get().as_array() {
                        read_by(inner, names);
                    }
                }
            }
            _ => {}
        }
    }
}
