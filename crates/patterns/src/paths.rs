//! The fields that an expression or filter reads, and whether two paths overlap.
//!
//! Only the source text of expressions and filters is analyzed: if it does not determine the
//! paths, they count as reading the whole document (the empty path). `values_at` reads the values
//! at a path.

use std::ops::ControlFlow;
use value::path::{Path, walk};
use value::{Code, Error, OwnedVal, RawDoc, Result, Val, keys};

/// Whether two dotted paths name the same field, or one a part of the other.
#[must_use]
pub fn meet(a: &str, b: &str) -> bool {
    is_within(a, b) || is_within(b, a)
}

/// Whether `inner` is `outer` or a path below it. The empty path is the whole document.
#[must_use]
pub fn is_within(inner: &str, outer: &str) -> bool {
    outer.is_empty()
        || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Adds the paths that an expression reads.
pub fn of_expression(value: Val<'_>, out: &mut Vec<String>) {
    match value {
        Val::String(text) => {
            if let Some(variable) = text.strip_prefix("$$") {
                let (name, path) = variable.split_once('.').unwrap_or((variable, ""));
                if matches!(name, "ROOT" | "CURRENT") {
                    out.push(path.to_owned());
                }
            } else if let Some(path) = text.strip_prefix('$') {
                out.push(path.to_owned());
            }
        }
        Val::Array(array) => array.iter().for_each(|(_, value)| of_expression(value.get(), out)),
        Val::Document(doc) => {
            for (name, value) in doc {
                match name {
                    "$literal" => {}
                    // Their field names are computed values, which may be any.
                    "$getField" | "$setField" | "$unsetField" => {
                        out.push(String::new());
                    }
                    "sortBy" => {
                        if let Some(sort) = value.as_doc() {
                            out.extend(sort.iter().map(|(path, _)| path.to_owned()));
                        }
                    }
                    _ => of_expression(value.get(), out),
                }
            }
        }
        _ => {}
    }
}

/// Adds the paths that a filter reads.
pub fn of_filter(doc: RawDoc<'_>, out: &mut Vec<String>) {
    for (name, value) in doc {
        match name {
            "$and" | "$or" | "$nor" => {
                let list = value.as_array().unwrap_or(RawDoc::empty());
                list.iter().filter_map(|(_, one)| one.as_doc()).for_each(|one| of_filter(one, out));
            }
            "$expr" => of_expression(value.get(), out),
            "$comment" => {}
            other if other.starts_with('$') => out.push(String::new()),
            path => out.push(path.to_owned()),
        }
    }
}

/// Operators and variables, besides random expressions, that return another value each time.
/// Maintained values may not use them.
static NONDETERMINISTIC: &[&str] = &[
    "$function",
    "$accumulator",
    "$where",
    "$sampleRate",
    "$meta",
    "$text",
    "$near",
    "$nearSphere",
];
static NONDETERMINISTIC_VARIABLES: &[&str] = &["NOW", "CLUSTER_TIME", "USER_ROLES", "SEARCH_META"];

/// Refuses expressions that are not deterministic. `place` is their location, for the message.
///
/// # Errors
/// BadValue that names the place.
pub fn check_deterministic(value: Val<'_>, place: &str) -> Result<()> {
    match value {
        Val::String(text) => {
            let variable = text.strip_prefix("$$").unwrap_or("");
            let name = variable.split('.').next().unwrap_or("");
            if NONDETERMINISTIC_VARIABLES.contains(&name) {
                return Err(nondeterministic(&format!("$${name}"), place));
            }
            Ok(())
        }
        Val::Array(array) => array.iter().try_for_each(|(name, value)| {
            check_deterministic(value.get(), &format!("{place}.{name}"))
        }),
        Val::Document(doc) => doc.iter().try_for_each(|(name, value)| {
            if name == "$literal" {
                return Ok(());
            }
            if NONDETERMINISTIC.contains(&name) || !query::expr::is_deterministic(name) {
                return Err(nondeterministic(name, place));
            }
            check_deterministic(value.get(), &format!("{place}.{name}"))
        }),
        _ => Ok(()),
    }
}

fn nondeterministic(what: &str, place: &str) -> Error {
    Error::new(
        Code::BAD_VALUE,
        format!(
            "'{place}' uses {what}, which does not always give the same value: a maintained value cannot depend on it"
        ),
    )
}

/// The distinct values at a path, through arrays; null and missing do not count.
#[must_use]
pub fn values_at(doc: RawDoc<'_>, path: &Path) -> Vec<(Vec<u8>, OwnedVal)> {
    // Usually there is one.
    if let [part] = path.parts() {
        match doc.find(&part.name) {
            None => return Vec::new(),
            Some(value) if value.as_array().is_some() => {}
            Some(value) => {
                let value = value.get();
                return match value.is_nullish() {
                    true => Vec::new(),
                    false => vec![(keys::key(value), OwnedVal::new(value))],
                };
            }
        }
    }
    let mut found: Vec<(Vec<u8>, OwnedVal)> = Vec::new();
    let _ = walk::<()>(doc, path.parts(), true, &mut |value| {
        let value = value.value;
        if !value.is_nullish() && !matches!(value, Val::Array(_)) {
            let encoded = keys::key(value);
            if found.iter().all(|(known, _)| *known != encoded) {
                found.push((encoded, OwnedVal::new(value)));
            }
        }
        ControlFlow::Continue(())
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn paths_meet_when_one_is_in_the_other() {
        assert!(meet("a", "a.b") && meet("a.b", "a") && meet("", "x") && meet("a", "a"));
        assert!(!meet("a", "ab") && !meet("a.b", "a.c"));
    }

    #[test]
    fn expressions_and_filters_tell_what_they_read() {
        let mut found = Vec::new();
        let doc =
            ejson::parse_doc("{e: {$add: ['$a.b', {$literal: '$no'}, '$$ROOT.c', '$$this.x']}}")
                .expect("test text");
        of_expression(Val::Document(doc.as_doc()), &mut found);
        assert_eq!(found, ["a.b", "c"]);
        found.clear();
        let doc = ejson::parse_doc("{s: 1, $or: [{t: 2}, {$expr: {$gt: ['$u', 1]}}]}")
            .expect("test text");
        of_filter(doc.as_doc(), &mut found);
        assert_eq!(found, ["s", "t", "u"]);
    }

    #[test]
    fn clocks_and_dice_are_refused_with_their_place() {
        let doc = ejson::parse_doc("{a: {$subtract: ['$$NOW', '$b']}}").expect("test text");
        let error = check_deterministic(Val::Document(doc.as_doc()), "fields")
            .expect_err("is nondeterministic");
        assert!(
            error.message().contains("fields.a.$subtract.0") && error.message().contains("$$NOW"),
            "{error}"
        );
        for name in ["$rand", "$createObjectId", "$createUUID", "$currentDate"] {
            let doc = ejson::parse_doc(&format!("{{a: [{{{name}: {{}}}}]}}")).expect("test text");
            let error = check_deterministic(Val::Document(doc.as_doc()), "fields").expect_err(name);
            assert!(error.message().contains(&format!("'fields.a.0' uses {name}")), "{error}");
        }
    }
}
