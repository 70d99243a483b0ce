//! `$lookup`, `$unwind`, `$match`: conditions on joined documents move into the pipeline of the
//! `$lookup`, where an index of the other collection can answer them.

use crate::planner::logical::pipeline::Pipeline;
use crate::planner::logical::stage::{Kind, Stage};
use crate::planner::logical::{Apply, Rule};
use value::{DocBuf, RawDoc, RawVal};

pub(super) static RULE: Rule = Rule {
    name: "match_into_lookup",
    help: "Moves conditions on joined documents into the pipeline of $lookup.",
    apply: Apply::Written(apply),
};

fn apply(pipeline: &mut Pipeline<'_>, at: usize) -> bool {
    let Some((unwind, stage)) = pipeline.pair(at) else { return false };
    let lookup = at.checked_sub(2).and_then(|at| pipeline.stages.get(at));
    let (Some(lookup), Some(filter)) = (lookup, stage.movable_filter()) else { return false };
    let Some((joined, rest)) = moved(lookup, unwind, filter) else { return false };
    pipeline.replace(at - 2, joined);
    match rest {
        Some(rest) => pipeline.replace(at, rest),
        None => drop(pipeline.stages.remove(at)),
    }
    true
}

/// The `$lookup` with the conditions on joined documents, and a `$match` with the others, if there
/// are any.
fn moved<'p>(
    lookup: &Stage<'_>,
    unwind: &Stage<'_>,
    filter: RawDoc<'_>,
) -> Option<(Stage<'p>, Option<Stage<'p>>)> {
    let spec = lookup.spec().as_doc().filter(|_| lookup.kind == Kind::Lookup)?;
    let field = lookup.joined_field()?;
    // With array positions or preserved empty arrays, documents that do not match affect the
    // result.
    let unwind = unwind.unwind().filter(|unwind| !unwind.has_options)?;
    if unwind.path != field {
        return None;
    }
    let prefix = format!("{field}.");
    let mut inside = Vec::new();
    let mut kept = Vec::new();
    for (name, value) in filter {
        match without_prefix(name, value, &prefix) {
            Some(part) => inside.push(part),
            None => kept.push((name, value)),
        }
    }
    if inside.is_empty() {
        return None;
    }
    let pipeline = match spec.get("pipeline") {
        None => RawDoc::empty(),
        Some(pipeline) => pipeline.as_array()?,
    };
    let joined = DocBuf::build(|out| {
        out.doc("$lookup", |out| {
            for (name, value) in spec {
                if name != "pipeline" {
                    out.raw(name, value);
                }
            }
            out.array("pipeline", |list| {
                pipeline.iter().for_each(|(_, stage)| list.push_raw(stage));
                list.push_doc(|out| {
                    out.doc("$match", |out| {
                        out.array("$and", |list| {
                            inside.iter().for_each(|part| list.push_doc_bytes(part.bytes()));
                        });
                    });
                });
            });
        });
    });
    let rest = (!kept.is_empty()).then(|| {
        Stage::new_match(DocBuf::build(|out| {
            out.doc("$match", |out| {
                kept.iter().for_each(|(name, value)| {
                    out.raw(name, *value);
                });
            });
        }))
    });
    Some((Stage::new_lookup(joined), rest))
}

/// The condition with the prefix removed, if all its paths begin with the prefix.
fn without_prefix(name: &str, value: RawVal<'_>, prefix: &str) -> Option<DocBuf> {
    if let Some(path) = name.strip_prefix(prefix).filter(|path| !path.is_empty()) {
        return Some(DocBuf::build(|out| {
            out.raw(path, value);
        }));
    }
    if !matches!(name, "$and" | "$or" | "$nor") {
        return None;
    }
    let mut parts = Vec::new();
    for (_, part) in value.as_array()? {
        let mut conditions = Vec::new();
        for (name, value) in part.as_doc()? {
            conditions.push(without_prefix(name, value, prefix)?);
        }
        if conditions.is_empty() {
            return None;
        }
        parts.push(conditions);
    }
    Some(DocBuf::build(|out| {
        out.array(name, |list| {
            for conditions in &parts {
                list.push_doc(|out| {
                    out.array("$and", |list| {
                        conditions.iter().for_each(|part| list.push_doc_bytes(part.bytes()));
                    });
                });
            }
        });
    }))
}
