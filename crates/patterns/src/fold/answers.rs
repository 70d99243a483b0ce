//! Queries that a fold answers: `$group` from the documents of its groups or from the record of one
//! key, and counts from that record.

use super::{Fold, Keys, Unwind};
use crate::answers::{
    GroupAnswer, GroupQuery, Question, asked_key, conditions, required_key, same_conditions,
    written,
};
use crate::pattern::Pattern;
use value::{DocBuf, OwnedVal, RawDoc, RawVal, Result, Val};

impl Fold {
    /// The result of a `$group` over the children, with the filter before it.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn answer_group(
        &self,
        question: &Question<'_>,
        query: &GroupQuery<'_>,
    ) -> Result<Option<GroupAnswer>> {
        if *self.source != *question.collection || self.skips() {
            return Ok(None);
        }
        let unwound = self.unwind.as_ref().map(Unwind::path);
        let Some(asked) = query.conditions(unwound) else { return Ok(None) };
        let group = query.group;
        match &self.keys {
            Keys::Groups(_) => {
                let found = self.all_groups(question, asked, group);
                Ok(if found.is_some() && question.is_behind()? { None } else { found })
            }
            Keys::Parents { foreign, .. } => {
                match required_key(question.pattern, &asked, foreign.text()) {
                    Some(key) => self.one_group(question, key, group),
                    None => Ok(None),
                }
            }
        }
    }

    /// The collection of groups, and the stage that converts its documents to the requested form.
    fn all_groups(
        &self,
        question: &Question<'_>,
        asked: Vec<(&str, RawVal<'_>)>,
        group: RawDoc<'_>,
    ) -> Option<GroupAnswer> {
        let declared = question.pattern.declaration.as_doc();
        let mut counted = Vec::new();
        let own = declared.get("filter").and_then(Val::as_doc);
        conditions(own.unwrap_or(RawDoc::empty()), &mut counted);
        if !same_conditions(asked, counted) || group.find("_id") != declared.find("groupBy") {
            return None;
        }
        let fields = fields(question.pattern, self, group)?;
        let stage = DocBuf::build(|out| {
            out.doc("$project", |out| {
                out.i32("_id", 1);
                for (name, source) in &fields {
                    if let Source::Field(at) = source
                        && let Some(field) = self.fields.get(*at)
                    {
                        out.str(name, &format!("${}", field.path.text()));
                    }
                }
            });
        });
        // Without a count among its fields, the pattern does not know the number of a group's
        // children.
        let all = fields.iter().all(|(_, source)| matches!(source, Source::Field(_)));
        let there = question.snapshot.has_collection(&self.target);
        (all && there).then(|| GroupAnswer { collection: Some(self.target.clone()), stage })
    }

    /// The document of one group, as a stage that returns it.
    fn one_group(
        &self,
        question: &Question<'_>,
        key: Val<'_>,
        group: RawDoc<'_>,
    ) -> Result<Option<GroupAnswer>> {
        let constant = match group.get("_id") {
            Some(Val::String(text)) => !text.starts_with('$'),
            Some(value) => value.is_number() || matches!(value, Val::Null | Val::Bool(_)),
            None => false,
        };
        let Some(fields) = fields(question.pattern, self, group).filter(|_| constant) else {
            return Ok(None);
        };
        let (children, values) = self.group(question, key)?;
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
        Ok(Some(GroupAnswer { collection: None, stage }))
    }

    /// The number of children of a parent, if that is what a filter selects.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn answer_count(
        &self,
        question: &Question<'_>,
        filter: RawDoc<'_>,
    ) -> Result<Option<u64>> {
        let Keys::Parents { foreign, .. } = &self.keys else { return Ok(None) };
        // Elements are not documents.
        let exact = !self.skips() && self.counts_children() && self.unwind.is_none();
        if *self.source != *question.collection || !exact {
            return Ok(None);
        }
        let Some(key) = asked_key(question.pattern, filter, foreign.text()) else {
            return Ok(None);
        };
        let (children, _) = self.group(question, key)?;
        Ok(Some(u64::try_from(children).unwrap_or(0)))
    }

    /// The number of children of a group, if known, and the values of its fields.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn group(
        &self,
        question: &Question<'_>,
        key: Val<'_>,
    ) -> Result<(i64, Vec<OwnedVal>)> {
        let record = question.snapshot.state(question.pattern.id, &Fold::record_key(key))?;
        let record = record.as_ref().map(DocBuf::as_doc);
        let Some((record, key)) = record.and_then(|doc| Some((doc, Fold::target_key(doc)?))) else {
            return Ok(self.group_values(record));
        };
        if !question.snapshot.has_collection(&self.target) {
            return Ok(self.group_values(None));
        }
        let target = question.snapshot.get(&self.target, key)?;
        Ok(self.values_in_target(record, target.as_ref().map(DocBuf::as_doc)))
    }
}

/// The source of a field's value.
pub(super) enum Source {
    /// The pattern's field with this index.
    Field(usize),
    /// The number of children.
    Children,
}

/// The sources of the fields of a `$group`; `None` if one is not maintained, or if its value may
/// depend on the order in which documents are read.
pub(super) fn fields<'g>(
    pattern: &Pattern,
    grouped: &Fold,
    group: RawDoc<'g>,
) -> Option<Vec<(&'g str, Source)>> {
    let declared = pattern.declaration.as_doc();
    let maintained = declared.get("fields").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let mut fields = Vec::new();
    for (name, asked) in group.iter().filter(|(name, _)| *name != "_id") {
        let same =
            |(_, known): (&str, RawVal<'_>)| known == asked || (counts(known) && counts(asked));
        let field = maintained.iter().position(same).filter(|at| {
            grouped.fields.get(*at).is_some_and(|field| field.accumulator.is_deterministic())
        });
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
