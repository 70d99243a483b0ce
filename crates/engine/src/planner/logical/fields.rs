//! The fields that filters read and stages change.

use super::stage::{Kind, Stage};
use value::{RawDoc, RawVal, Val};

/// Whether a filter has operators that are allowed only in the first stage, or that must not move.
pub fn is_tied_to_front(filter: RawDoc<'_>) -> bool {
    filter.iter().any(|(name, value)| {
        matches!(name, "$text" | "$near" | "$nearSphere" | "$geoNear" | "$where")
            || value.as_doc().or(value.as_array()).is_some_and(is_tied_to_front)
    })
}

/// Adds the top-level fields that a filter reads. Returns false if they cannot be determined.
pub fn read_by<'f>(filter: RawDoc<'f>, fields: &mut Vec<&'f str>) -> bool {
    filter.iter().all(|(name, value)| match name {
        "$and" | "$or" | "$nor" => value.as_array().is_some_and(|list| {
            list.iter().all(|(_, part)| part.as_doc().is_some_and(|part| read_by(part, fields)))
        }),
        name if name.starts_with('$') => false,
        name => {
            fields.push(first_part(name));
            true
        }
    })
}

/// Whether a stage certainly does not change these top-level fields.
pub fn are_kept(stage: &Stage<'_>, fields: &[&str]) -> bool {
    let untouched = |path: &str| !fields.contains(&first_part(path));
    match (stage.kind, stage.spec()) {
        (Kind::AddFields, Val::Document(doc)) => doc.iter().all(|(name, _)| untouched(name)),
        (Kind::Unset, Val::String(path)) => untouched(path),
        (Kind::Unset, Val::Array(list)) => {
            list.iter().all(|(_, path)| path.get().as_str().is_some_and(untouched))
        }
        (Kind::Unwind, _) => stage
            .unwind()
            .is_some_and(|unwind| untouched(unwind.path) && unwind.index.is_none_or(untouched)),
        (Kind::Lookup | Kind::GraphLookup, _) => stage.joined_field().is_some_and(untouched),
        (Kind::Project, Val::Document(doc)) => are_projected(doc, fields),
        _ => false,
    }
}

/// Whether a projection does not change these fields.
fn are_projected(projection: RawDoc<'_>, fields: &[&str]) -> bool {
    let switch = |value: RawVal<'_>| match value.get() {
        Val::Bool(on) => Some(on),
        value if value.is_number() => Some(value.truthy()),
        _ => None,
    };
    let others = || projection.iter().filter(|(name, _)| *name != "_id");
    let excludes = others().all(|(_, value)| switch(value) == Some(false)) && others().count() > 0;
    fields.iter().all(|field| {
        let exact = projection.find(field).map(switch);
        match (exact, *field) {
            (Some(Some(true)), _) => true,
            (Some(_), _) => false,
            (None, "_id") => !projection.iter().any(|(name, _)| name.starts_with("_id.")),
            (None, field) => excludes && others().all(|(name, _)| first_part(name) != field),
        }
    })
}

fn first_part(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}
