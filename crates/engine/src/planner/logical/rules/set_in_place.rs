//! A field that an exclusion removes and the next `$addFields` adds again is only set: it keeps its
//! position in the document, as in MongoDB.

use crate::planner::logical::pipeline::Pipeline;
use crate::planner::logical::stage::{Kind, Stage};
use crate::planner::logical::{Apply, Rule};
use value::{DocBuf, RawDoc, Val};

pub(super) static RULE: Rule = Rule {
    name: "set_in_place",
    help: "Does not exclude a field that the next stage sets.",
    apply: Apply::Written(apply),
};

fn apply(pipeline: &mut Pipeline<'_>, at: usize) -> bool {
    let Some((before, stage)) = pipeline.pair(at) else { return false };
    let Val::Document(set) = stage.spec() else { return false };
    if stage.kind != Kind::AddFields {
        return false;
    }
    let Some(excluded) = excluded(before) else { return false };
    let is_set = |name: &str| set.get(name).is_some_and(replaces);
    let names: Vec<&str> = excluded.iter().copied().filter(|name| is_set(name)).collect();
    let dotted = set
        .iter()
        .any(|(path, _)| path.split_once('.').is_some_and(|(first, _)| names.contains(&first)));
    if names.is_empty() || dotted || reads(set, &names) {
        return false;
    }
    let left: Vec<&str> = excluded.into_iter().filter(|name| !names.contains(name)).collect();
    if left.is_empty() {
        pipeline.stages.remove(at - 1);
        return true;
    }
    let unset = Stage::new_unset(DocBuf::build(|out| {
        out.array("$unset", |list| left.iter().for_each(|name| list.push(Val::String(name))));
    }));
    pipeline.replace(at - 1, unset);
    true
}

/// The top-level fields that a stage excludes; `None` for a stage that does anything else.
fn excluded<'s>(stage: &'s Stage<'_>) -> Option<Vec<&'s str>> {
    let plain = |name: &str| !name.is_empty() && !name.contains('.') && !name.starts_with('$');
    let names: Vec<&str> = match (stage.kind, stage.spec()) {
        (Kind::Unset, Val::String(name)) => vec![name],
        (Kind::Unset, Val::Array(list)) => {
            list.iter().map(|(_, name)| name.get().as_str()).collect::<Option<_>>()?
        }
        (Kind::Project, Val::Document(spec)) => {
            let zero = |value: Val<'_>| match value {
                Val::Bool(on) => !on,
                value => value.is_number() && !value.truthy(),
            };
            spec.iter()
                .map(|(name, value)| zero(value.get()).then_some(name))
                .collect::<Option<_>>()?
        }
        _ => return None,
    };
    let twice =
        names.iter().enumerate().any(|(at, name)| names.iter().skip(at + 1).any(|n| n == name));
    (!twice && names.iter().all(|name| plain(name))).then_some(names)
}

/// Whether a new value takes the place of the old one. A document without an operator only sets
/// fields inside of it.
fn replaces(value: Val<'_>) -> bool {
    match value {
        Val::Document(doc) => doc.first().is_some_and(|(name, _)| name.starts_with('$')),
        _ => true,
    }
}

/// Whether an expression may read one of these fields, or the whole document.
fn reads(spec: RawDoc<'_>, names: &[&str]) -> bool {
    spec.iter().any(|(name, value)| match value.get() {
        _ if matches!(name, "$getField" | "$function") => true,
        Val::String(text) => match text.strip_prefix('$') {
            Some(path) => {
                path.starts_with("$ROOT")
                    || path.starts_with("$CURRENT")
                    || names.contains(&path.split('.').next().unwrap_or(path))
            }
            None => false,
        },
        Val::Document(inner) | Val::Array(inner) => reads(inner, names),
        _ => false,
    })
}
