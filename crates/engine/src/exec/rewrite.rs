//! Rewriting pipelines before they are compiled: a `$match` moves in front of stages that do not
//! touch its fields, neighbours become one, and what counts documents comes before what computes
//! their fields, so that the planner sees as much as possible.

use value::{DocBuf, RawDoc, RawVal, Val, writer};

/// A stage as it was sent, or one that was put together.
#[derive(Clone)]
struct Step {
    name: String,
    bytes: DocBuf,
    /// Whether it is an `$and` of filters that were put together here.
    joined: bool,
}

impl Step {
    fn value(&self) -> Val<'_> {
        self.bytes.as_doc().get(&self.name).unwrap_or(Val::Missing)
    }

    fn filter(&self) -> Option<RawDoc<'_>> {
        let filter = if self.name == "$match" { self.value().as_doc()? } else { return None };
        (!is_special(filter)).then_some(filter)
    }
}

/// The pipeline in a better order; `None` when nothing can move. Stages that are not understood
/// stay where they are: compiling them tells what is wrong.
pub(super) fn rewritten(pipeline: RawDoc<'_>) -> Option<DocBuf> {
    let mut steps = Vec::new();
    for (_, stage) in pipeline {
        let doc = stage.as_doc()?;
        let (name, _) = doc.first()?;
        if doc.count() != 1 {
            return None;
        }
        steps.push(Step { name: name.to_owned(), bytes: doc.into(), joined: false });
    }
    let mut changed = false;
    let mut at = 1;
    while at < steps.len() {
        let (Some(before), Some(step)) = (steps.get(at - 1), steps.get(at)) else { break };
        if is_sort(before) && is_sort(step) {
            // Only the last of two orders is seen.
            steps.remove(at - 1);
            changed = true;
            at = (at - 1).max(1);
            continue;
        }
        if counts(step) && KEEP_COUNT.contains(&before.name.as_str()) {
            // What is left out need not be computed.
            steps.swap(at - 1, at);
            changed = true;
            at = (at - 1).max(1);
            continue;
        }
        let Some(filter) = step.filter() else {
            at += 1;
            continue;
        };
        let lookup = at.checked_sub(2).and_then(|at| steps.get(at));
        if let Some((joined, rest)) = lookup.and_then(|lookup| into_lookup(lookup, before, filter))
        {
            if let Some(slot) = steps.get_mut(at - 2) {
                *slot = joined;
            }
            match (rest, steps.get_mut(at)) {
                (Some(rest), Some(slot)) => *slot = rest,
                _ => {
                    steps.remove(at);
                }
            }
            changed = true;
        } else if let Some(first) = before.filter() {
            let both = joined(first, before.joined, filter);
            steps.remove(at);
            if let Some(slot) = steps.get_mut(at - 1) {
                *slot = both;
            }
            changed = true;
            at = (at - 1).max(1);
        } else if may_pass(before, filter) {
            steps.swap(at - 1, at);
            changed = true;
            at = (at - 1).max(1);
        } else {
            at += 1;
        }
    }
    if !changed {
        return None;
    }
    let mut bytes = Vec::new();
    writer::write_array(&mut bytes, |out| {
        steps.iter().for_each(|step| out.push_doc_bytes(step.bytes.bytes()));
    });
    Some(DocBuf::from_bytes(bytes))
}

/// Stages that give one document for each.
const KEEP_COUNT: &[&str] =
    &["$addFields", "$project", "$replaceRoot", "$replaceWith", "$set", "$unset"];

/// Whether a stage is an order that can be compiled.
fn is_sort(step: &Step) -> bool {
    step.name == "$sort"
        && step.value().as_doc().is_some_and(|doc| {
            !doc.is_empty()
                && query::sort::SortSpec::parse(doc).is_ok_and(|sort| !sort.needs_score())
        })
}

/// Whether a stage passes some documents by their count alone.
fn counts(step: &Step) -> bool {
    matches!(step.name.as_str(), "$skip" | "$limit") && step.value().as_i64_exact().is_some()
}

fn joined(first: RawDoc<'_>, is_list: bool, second: RawDoc<'_>) -> Step {
    // A list grows, so that many filters do not nest.
    let list_of_first = first.get("$and").and_then(Val::as_array).filter(|_| is_list);
    let bytes = DocBuf::build(|out| {
        out.doc("$match", |out| {
            out.array("$and", |list| {
                match list_of_first {
                    Some(parts) => parts.iter().for_each(|(_, part)| list.push_raw(part)),
                    None => list.push_doc_bytes(first.bytes()),
                }
                list.push_doc_bytes(second.bytes());
            });
        });
    });
    Step { name: "$match".to_owned(), bytes, joined: true }
}

/// What a filter behind a `$lookup` and the `$unwind` of its result asks of the joined documents,
/// put into the pipeline of the `$lookup`; and what is left of the filter.
fn into_lookup(lookup: &Step, unwind: &Step, filter: RawDoc<'_>) -> Option<(Step, Option<Step>)> {
    let spec = lookup.value().as_doc().filter(|_| lookup.name == "$lookup")?;
    let place = spec.get("as").and_then(Val::as_str)?;
    let path = match unwind.value() {
        Val::String(path) => path,
        // With places or empty ones kept, what is joined counts also where it does not match.
        Val::Document(doc) if doc.count() == 1 => doc.get("path").and_then(Val::as_str)?,
        _ => return None,
    };
    if unwind.name != "$unwind" || path.strip_prefix('$') != Some(place) {
        return None;
    }
    let prefix = format!("{place}.");
    let mut moved = Vec::new();
    let mut kept = Vec::new();
    for (name, value) in filter {
        match without_prefix(name, value, &prefix) {
            Some(part) => moved.push(part),
            None => kept.push((name, value)),
        }
    }
    if moved.is_empty() {
        return None;
    }
    let pipeline = match spec.get("pipeline") {
        None => RawDoc::empty(),
        Some(pipeline) => pipeline.as_array()?,
    };
    let bytes = DocBuf::build(|out| {
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
                            moved.iter().for_each(|part| list.push_doc_bytes(part.bytes()));
                        });
                    });
                });
            });
        });
    });
    let joined = Step { name: lookup.name.clone(), bytes, joined: false };
    let rest = (!kept.is_empty()).then(|| {
        let bytes = DocBuf::build(|out| {
            out.doc("$match", |out| {
                kept.iter().for_each(|(name, value)| {
                    out.raw(name, *value);
                });
            });
        });
        Step { name: "$match".to_owned(), bytes, joined: false }
    });
    Some((joined, rest))
}

/// A condition on paths that all begin with a prefix, without it.
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

/// Filters whose place matters, because only the first stage may have them.
fn is_special(filter: RawDoc<'_>) -> bool {
    filter.iter().any(|(name, value)| {
        matches!(name, "$text" | "$near" | "$nearSphere" | "$geoNear" | "$where")
            || value.as_doc().or(value.as_array()).is_some_and(is_special)
    })
}

/// Adds the top-level fields that a filter looks at. False when that is not known.
fn fields_of<'f>(filter: RawDoc<'f>, fields: &mut Vec<&'f str>) -> bool {
    filter.iter().all(|(name, value)| match name {
        "$and" | "$or" | "$nor" => value.as_array().is_some_and(|list| {
            list.iter().all(|(_, part)| part.as_doc().is_some_and(|part| fields_of(part, fields)))
        }),
        name if name.starts_with('$') => false,
        name => {
            fields.push(first_part(name));
            true
        }
    })
}

fn first_part(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// Whether a filter gives the same in front of a stage as behind it.
fn may_pass(stage: &Step, filter: RawDoc<'_>) -> bool {
    let value = stage.value();
    if stage.name == "$sort" {
        return value.as_doc().is_some_and(|doc| !doc.is_empty());
    }
    let mut fields = Vec::new();
    if !fields_of(filter, &mut fields) {
        return false;
    }
    let untouched = |path: &str| !fields.contains(&first_part(path));
    match (stage.name.as_str(), value) {
        ("$addFields" | "$set", Val::Document(doc)) => doc.iter().all(|(name, _)| untouched(name)),
        ("$unset", Val::String(path)) => untouched(path),
        ("$unset", Val::Array(list)) => {
            list.iter().all(|(_, path)| path.get().as_str().is_some_and(untouched))
        }
        ("$unwind", Val::String(path)) => path.strip_prefix('$').is_some_and(untouched),
        ("$unwind", Val::Document(doc)) => {
            let path =
                doc.get("path").and_then(Val::as_str).and_then(|path| path.strip_prefix('$'));
            let index = match doc.get("includeArrayIndex") {
                None => true,
                Some(name) => name.as_str().is_some_and(untouched),
            };
            path.is_some_and(untouched) && index
        }
        ("$lookup" | "$graphLookup", Val::Document(doc)) => {
            doc.get("as").and_then(Val::as_str).is_some_and(untouched)
        }
        ("$project", Val::Document(doc)) => keeps(doc, &fields),
        _ => false,
    }
}

/// Whether a projection leaves fields as they are.
fn keeps(projection: RawDoc<'_>, fields: &[&str]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn order(text: &str) -> String {
        let doc = ejson::parse_doc(&format!("{{p: {text}}}")).expect("test text");
        let Some(Val::Array(pipeline)) = doc.as_doc().get("p") else { panic!("an array") };
        let new = rewritten(pipeline).unwrap_or_else(|| pipeline.into());
        let names: Vec<String> = new
            .as_doc()
            .iter()
            .filter_map(|(_, stage)| Some(stage.as_doc()?.first()?.0.to_owned()))
            .collect();
        names.join(" ")
    }

    #[test]
    fn a_filter_moves_in_front_of_what_does_not_touch_it() {
        assert_eq!(order("[{$sort: {a: 1}}, {$match: {a: 1}}]"), "$match $sort");
        assert_eq!(order("[{$match: {a: 1}}, {$sort: {a: 1}}, {$match: {b: 1}}]"), "$match $sort");
        assert_eq!(order("[{$set: {x: 1}}, {$match: {'a.b': 1}}]"), "$match $set");
        assert_eq!(order("[{$set: {'a.c': 1}}, {$match: {'a.b': 1}}]"), "$set $match");
        assert_eq!(order("[{$unwind: '$t'}, {$match: {$or: [{a: 1}, {b: 2}]}}]"), "$match $unwind");
        assert_eq!(order("[{$unwind: '$t'}, {$match: {t: 1}}]"), "$unwind $match");
        assert_eq!(order("[{$unwind: '$t'}, {$match: {$expr: true}}]"), "$unwind $match");
        assert_eq!(order("[{$project: {a: 1}}, {$match: {a: 1}}]"), "$match $project");
        assert_eq!(order("[{$project: {a: 1}}, {$match: {_id: 1}}]"), "$match $project");
        assert_eq!(order("[{$project: {a: 1}}, {$match: {b: 1}}]"), "$project $match");
        assert_eq!(order("[{$project: {a: '$b'}}, {$match: {a: 1}}]"), "$project $match");
        assert_eq!(order("[{$project: {a: 0}}, {$match: {b: 1}}]"), "$match $project");
        assert_eq!(order("[{$project: {a: 0, _id: 0}}, {$match: {_id: 1}}]"), "$project $match");
        assert_eq!(order("[{$limit: 1}, {$match: {a: 1}}]"), "$limit $match");
        assert_eq!(order("[{$sort: {a: 1}}, {$match: {$text: {$search: 'x'}}}]"), "$sort $match");
    }

    #[test]
    fn a_filter_of_joined_documents_moves_into_the_join() {
        let lookup = "{$lookup: {from: 'b', localField: 'k', foreignField: 'k', as: 'x'}}";
        let behind = |unwind: &str, filter: &str| {
            order(&format!("[{lookup}, {{$unwind: {unwind}}}, {{$match: {filter}}}]"))
        };
        assert_eq!(behind("'$x'", "{'x.a': 1}"), "$lookup $unwind");
        assert_eq!(behind("{path: '$x'}", "{$or: [{'x.a': 1}, {'x.b': 2}]}"), "$lookup $unwind");
        assert_eq!(behind("'$x'", "{'x.a': 1, k: 1}"), "$match $lookup $unwind");
        assert_eq!(behind("'$x'", "{$or: [{'x.a': 1}, {k: 2}]}"), "$lookup $unwind $match");
        assert_eq!(behind("'$x'", "{x: 1}"), "$lookup $unwind $match");
        assert_eq!(behind("'$y'", "{'x.a': 1}"), "$lookup $match $unwind");
        let keeping = "{path: '$x', preserveNullAndEmptyArrays: true}";
        assert_eq!(behind(keeping, "{'x.a': 1}"), "$lookup $unwind $match");
    }

    #[test]
    fn many_filters_do_not_nest() {
        let many = vec!["{$match: {a: 1}}"; 300].join(", ");
        let doc = ejson::parse_doc(&format!("{{p: [{many}]}}")).expect("test text");
        let Some(Val::Array(pipeline)) = doc.as_doc().get("p") else { panic!("an array") };
        let new = rewritten(pipeline).expect("they become one");
        let filter = new.as_doc().first().and_then(|(_, stage)| stage.as_doc()?.get("$match"));
        let parts = filter.and_then(Val::as_doc).and_then(|doc| doc.get("$and"));
        let parts = parts.and_then(Val::as_array).expect("a list");
        assert_eq!(parts.count(), 300);
        assert!(
            parts.iter().all(|(_, part)| part.as_doc().is_some_and(|doc| doc.get("a").is_some()))
        );
    }

    #[test]
    fn what_is_not_understood_stays() {
        assert_eq!(order("[{$sort: 1}, {$match: {a: 1}}]"), "$sort $match");
        assert_eq!(order("[{$match: 1}, {$match: {a: 1}}]"), "$match $match");
        assert_eq!(order("[{$match: {a: 1}, b: 1}, {$match: {a: 1}}]"), "$match $match");
    }
}
