//! Uses copies instead of a `$lookup`, if the later stages need nothing else of the other
//! document. A document without one of the copies is looked up as usual.

use super::{LOST, Reference};
use crate::answers::{Question, StageAnswer};
use crate::paths;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

impl Reference {
    /// The `$lookup` that uses copies, in place of stage `at`.
    pub(super) fn answer_lookup(
        &self,
        question: &Question<'_>,
        stages: &[(&str, RawVal<'_>)],
        at: usize,
    ) -> Result<Option<StageAnswer>> {
        // The output of other stages may lack the copies.
        let passes = |name: &str| matches!(name, "$match" | "$sort" | "$limit" | "$skip");
        let whole = stages.iter().take(at).all(|(name, _)| passes(name));
        let Some(("$lookup", spec)) = stages.get(at).copied().filter(|_| whole) else {
            return Ok(None);
        };
        let Some(spec) = spec.as_doc().filter(|spec| spec.count() == 4) else { return Ok(None) };
        let text = |name| spec.get(name).and_then(Val::as_str).unwrap_or("");
        let (from, local, place) = (text("from"), text("localField"), text("as"));
        if text("foreignField") != "_id" || place.is_empty() || place.contains('.') {
            return Ok(None);
        }
        let Some(needed) = needed(stages.get(at + 1..).unwrap_or(&[]), place) else {
            return Ok(None);
        };
        let fits = self.source == from
            && self.place.reference.text() == local
            && self.matched.text() == "_id"
            && self.live;
        let declaration = question.pattern.declaration.as_doc();
        let Some(copies) = copies(declaration, self, &needed).filter(|_| fits) else {
            return Ok(None);
        };
        // Copies may differ from their sources while some are queued, and once one has outlived
        // its source.
        if question.snapshot.has_states(question.pattern.id, &[LOST])? || question.is_behind()? {
            return Ok(None);
        }
        let stage = DocBuf::build(|out| {
            out.doc("$lookup", |out| {
                out.extend(spec).doc("$copied", |out| {
                    out.str("ref", local).doc("fields", |out| {
                        for (name, path) in &copies {
                            out.str(name, path);
                        }
                    });
                });
            });
        });
        Ok(Some(StageAnswer { stage, from: "$lookup", keeps_documents: false }))
    }
}

/// The fields of the joined document that the stages after a `$lookup` need; `None` if that may be
/// all of it, or if the order of its fields matters.
fn needed(stages: &[(&str, RawVal<'_>)], place: &str) -> Option<Vec<String>> {
    let unwound = |value: RawVal<'_>| {
        let path = match value.get() {
            Val::Document(doc) => doc.get("path")?.as_str()?,
            other => other.as_str()?,
        };
        path.strip_prefix('$').map(|path| path == place)
    };
    let rest = match stages {
        [("$unwind", value), rest @ ..] if unwound(*value) == Some(true) => rest,
        stages => stages,
    };
    let (name, spec) = rest.first()?;
    let spec = spec.as_doc()?;
    let mut read = Vec::new();
    let mut shown = 0;
    match *name {
        "$group" => paths::of_expression(Val::Document(spec), &mut read),
        "$project" => {
            for (path, value) in spec {
                match value.get() {
                    Val::Bool(_) | Val::Int32(_) | Val::Int64(_) | Val::Double(_)
                        if path == "_id" => {}
                    included @ (Val::Bool(_) | Val::Int32(_) | Val::Int64(_) | Val::Double(_)) => {
                        if !included.truthy() {
                            return None;
                        }
                        shown += usize::from(paths::is_within(path, place));
                        read.push(path.to_owned());
                    }
                    _ if paths::meet(path, place) => return None,
                    expression => paths::of_expression(expression, &mut read),
                }
            }
        }
        _ => return None,
    }
    let mut needed: Vec<String> = Vec::new();
    for path in read.iter().filter(|path| paths::meet(path, place)) {
        let inner = path.strip_prefix(place)?.strip_prefix('.')?;
        let field = inner.split('.').next().unwrap_or(inner);
        if !needed.iter().any(|known| known == field) {
            needed.push(field.to_owned());
        }
    }
    (!needed.is_empty() && shown <= 1).then_some(needed)
}

/// The paths of the copies of fields; `None` if one is not copied unchanged.
fn copies(
    declaration: RawDoc<'_>,
    reference: &Reference,
    needed: &[String],
) -> Option<Vec<(String, String)>> {
    let declared = declaration.get("fields").and_then(Val::as_array)?;
    let copy_of = |field: &String| {
        declared.iter().find_map(|(_, copy)| match copy.get() {
            Val::String(path) => (path == field).then_some(path),
            Val::Document(doc) => {
                let source = doc.get("expr").and_then(Val::as_str)?.strip_prefix('$')?;
                (source == field).then(|| doc.get("as").and_then(Val::as_str))?
            }
            _ => None,
        })
    };
    let into = reference.place.into.text();
    needed
        .iter()
        .map(|field| Some((field.clone(), format!("{into}.{}", copy_of(field)?))))
        .collect()
}
