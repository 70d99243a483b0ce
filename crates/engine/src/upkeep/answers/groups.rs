//! `$group` and counts from folds: of all groups, when they have a collection of their own, or of
//! one parent, from its record.

use super::{Pipeline, Rewrites, asked_key, conditions, same_conditions, written};
use crate::catalog::Collection;
use ::patterns::Pattern;
use ::patterns::fold::{Grouped, Keys};
use ::patterns::pattern::Behaviour;
use std::sync::Arc;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

impl Rewrites<'_> {
    /// The pipeline in place of one that begins with a `$group`, behind a `$match` or not.
    pub(super) fn grouped(
        &mut self,
        collection: &Arc<Collection>,
        stages: &[(&str, RawVal<'_>)],
    ) -> Result<Option<Pipeline>> {
        let (filter, group, rest) = match stages {
            [("$group", group), rest @ ..] => (RawDoc::empty(), group, rest),
            [("$match", filter), ("$group", group), rest @ ..] => {
                let Some(filter) = filter.as_doc() else { return Ok(None) };
                (filter, group, rest)
            }
            _ => return Ok(None),
        };
        let Some(group) = group.as_doc() else { return Ok(None) };
        for pattern in self.usable(collection) {
            let Behaviour::Grouped(grouped) = &pattern.behaviour else { continue };
            if *grouped.source != *collection.name || grouped.skips() {
                continue;
            }
            let found = match &grouped.keys {
                Keys::Groups(_) => self.all_groups(pattern, grouped, filter, group),
                Keys::Parents { foreign, .. } => match asked_key(pattern, filter, foreign.text()) {
                    Some(key) => self.one_group(pattern, grouped, key, group)?,
                    None => None,
                },
            };
            let Some((collection, first)) = found else { continue };
            if matches!(grouped.keys, Keys::Groups(_)) && self.is_behind(pattern)? {
                continue;
            }
            self.note(pattern, "$group");
            let stages = written(|list| {
                list.push_doc_bytes(first.bytes());
                for (name, value) in rest {
                    list.push_doc(|out| {
                        out.raw(name, *value);
                    });
                }
            });
            return Ok(Some(Pipeline { collection, stages }));
        }
        Ok(None)
    }

    /// The collection of groups, and the stage that gives its documents the shape that is asked
    /// for.
    fn all_groups(
        &self,
        pattern: &Pattern,
        grouped: &Grouped,
        filter: RawDoc<'_>,
        group: RawDoc<'_>,
    ) -> Option<(Option<Arc<Collection>>, DocBuf)> {
        let declared = pattern.declaration.as_doc();
        let (mut asked, mut counted) = (Vec::new(), Vec::new());
        conditions(filter, &mut asked);
        let own = declared.get("filter").and_then(Val::as_doc);
        conditions(own.unwrap_or(RawDoc::empty()), &mut counted);
        if !same_conditions(asked, counted) || group.find("_id") != declared.find("groupBy") {
            return None;
        }
        let fields = fields(pattern, grouped, group)?;
        let shape = DocBuf::build(|out| {
            out.doc("$project", |out| {
                out.i32("_id", 1);
                for (name, source) in &fields {
                    if let Source::Field(at) = source
                        && let Some(field) = grouped.fields.get(*at)
                    {
                        out.str(name, &format!("${}", field.path.text()));
                    }
                }
            });
        });
        // Nobody counts the children of a group whose count is not among its fields.
        let all = fields.iter().all(|(_, source)| matches!(source, Source::Field(_)));
        let collection = self.scope.catalog.get(self.db, &grouped.target)?;
        all.then(|| (Some(collection.clone()), shape))
    }

    /// The document of one group, as a pipeline that brings it.
    fn one_group(
        &self,
        pattern: &Pattern,
        grouped: &Grouped,
        key: Val<'_>,
        group: RawDoc<'_>,
    ) -> Result<Option<(Option<Arc<Collection>>, DocBuf)>> {
        let constant = match group.get("_id") {
            Some(Val::String(text)) => !text.starts_with('$'),
            Some(value) => value.is_number() || matches!(value, Val::Null | Val::Bool(_)),
            None => false,
        };
        let Some(fields) = fields(pattern, grouped, group).filter(|_| constant) else {
            return Ok(None);
        };
        let (children, values) = self.group(pattern, grouped, key)?;
        let docs = written(|list| {
            if children <= 0 {
                return;
            }
            list.push_doc(|out| {
                out.append("_id", group.get("_id").unwrap_or(Val::Null));
                for (name, source) in &fields {
                    match source {
                        Source::Field(at) => {
                            if let Some(value) = values.get(*at) {
                                out.raw(name, value.raw());
                            }
                        }
                        Source::Children => {
                            let count = i32::try_from(children);
                            out.append(name, count.map_or(Val::Int64(children), Val::Int32));
                        }
                    }
                }
            });
        });
        let stage = DocBuf::build(|out| {
            out.doc("$documents", |out| {
                out.append("$literal", Val::Array(docs.as_doc()));
            });
        });
        Ok(Some((None, stage)))
    }

    /// How many children a parent has, when that is what a filter asks for.
    pub(super) fn counted(
        &mut self,
        collection: &Collection,
        filter: RawDoc<'_>,
    ) -> Result<Option<u64>> {
        for pattern in self.usable(collection) {
            let Behaviour::Grouped(grouped) = &pattern.behaviour else { continue };
            let Keys::Parents { foreign, .. } = &grouped.keys else { continue };
            let exact = !grouped.skips() && grouped.counts_children();
            if *grouped.source != *collection.name || !exact {
                continue;
            }
            let Some(key) = asked_key(pattern, filter, foreign.text()) else { continue };
            let (children, _) = self.group(pattern, grouped, key)?;
            self.note(pattern, "count");
            return Ok(Some(u64::try_from(children).unwrap_or(0)));
        }
        Ok(None)
    }
}

/// Where the value of a field comes from.
enum Source {
    /// The pattern's field of this number.
    Field(usize),
    /// How many children there are.
    Children,
}

/// Where the fields of a `$group` come from; `None` when one is not maintained, or when its value
/// may depend on the order in which documents are read.
fn fields<'g>(
    pattern: &Pattern,
    grouped: &Grouped,
    group: RawDoc<'g>,
) -> Option<Vec<(&'g str, Source)>> {
    let declared = pattern.declaration.as_doc();
    let maintained = declared.get("fields").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let mut fields = Vec::new();
    for (name, asked) in group.iter().filter(|(name, _)| *name != "_id") {
        let same =
            |(_, known): (&str, RawVal<'_>)| known == asked || (counts(known) && counts(asked));
        let field = maintained
            .iter()
            .position(same)
            .filter(|at| grouped.fields.get(*at).is_some_and(|field| field.fold.is_steady()));
        let source = match field {
            Some(at) => Source::Field(at),
            None if counts(asked) && grouped.counts_children() => Source::Children,
            None => return None,
        };
        fields.push((name, source));
    }
    Some(fields)
}

/// Whether an accumulator counts documents.
fn counts(spec: RawVal<'_>) -> bool {
    let Some(doc) = spec.as_doc().filter(|doc| doc.count() == 1) else { return false };
    match doc.first().map(|(name, value)| (name, value.get())) {
        Some(("$count", Val::Document(empty))) => empty.is_empty(),
        Some(("$sum", Val::Int32(1))) => true,
        _ => false,
    }
}
