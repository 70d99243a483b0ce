//! Queries that are about one type without naming it: a field that only documents of this type have
//! must exist in what they find. With the type in the filter they use the indexes of the type.

use super::{Type, Types, tallies};
use crate::answers::{Question, conditions};
use crate::paths::meet;
use value::{DocBuf, RawDoc, RawVal, Result, Val};

impl Types {
    /// The filter with the type that it implies.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn implied(
        &self,
        question: &Question<'_>,
        filter: RawDoc<'_>,
    ) -> Result<Option<DocBuf>> {
        if *question.pattern.target != *question.collection {
            return Ok(None);
        }
        let mut all = Vec::new();
        conditions(filter, &mut all);
        let names_type = |path: &str| meet(path, self.discriminator.text());
        if let Some((_, value)) = all.iter().find(|(path, _)| names_type(path)) {
            return self.by_path(question, filter, *value);
        }
        for (path, value) in all {
            let field = path.split('.').next().unwrap_or(path);
            let Some(of) = self.only_type_with(field).filter(|_| requires_value(value)) else {
                continue;
            };
            let begins = |index: &super::options::Indexed| {
                index.key.as_doc().first().is_some_and(|(first, _)| first == path)
            };
            // Documents that are not valid may have the field, too.
            if of.indexes.iter().any(begins)
                && question.snapshot.state(question.pattern.id, &tallies::foreign(field))?.is_none()
            {
                return Ok(Some(DocBuf::build(|out| {
                    out.extend(filter).extend(of.condition.as_doc());
                })));
            }
        }
        Ok(None)
    }

    /// The filter of documents of one type with the path of the type, which has an index.
    fn by_path(
        &self,
        question: &Question<'_>,
        filter: RawDoc<'_>,
        value: RawVal<'_>,
    ) -> Result<Option<DocBuf>> {
        let wanted = crate::answers::equal_to(value).and_then(Val::as_str);
        let of = wanted.and_then(|name| self.by_name.get(name)).and_then(|at| self.at(*at));
        let (Some(of), Some(field)) = (of, &self.path_field) else { return Ok(None) };
        let mut read = Vec::new();
        crate::paths::of_filter(filter, &mut read);
        // Arrays of names match, too, and have no path.
        let unknown = question.snapshot.state(question.pattern.id, &tallies::unknown())?;
        if unknown.is_some() || read.iter().any(|path| meet(path, field.text())) {
            return Ok(None);
        }
        Ok(Some(DocBuf::build(|out| {
            out.extend(filter).extend(of.condition.as_doc());
        })))
    }

    /// The type whose documents, with those of the types below it, alone have a field.
    fn only_type_with(&self, field: &str) -> Option<&Type> {
        let owners = self.owners.get(field)?;
        let same = |of: &&Type| {
            of.members.len() == owners.len() && of.members.iter().all(|at| owners.contains(at))
        };
        self.all.iter().find(same)
    }

    /// The number of documents that a filter matches, if it names nothing but a type.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn counted(
        &self,
        question: &Question<'_>,
        filter: RawDoc<'_>,
    ) -> Result<Option<u64>> {
        if *question.pattern.target != *question.collection {
            return Ok(None);
        }
        let mut all = Vec::new();
        conditions(filter, &mut all);
        let [(path, value)] = all.as_slice() else { return Ok(None) };
        let Some(wanted) = crate::answers::equal_to(*value) else { return Ok(None) };
        let is_condition = |of: &&Type| {
            let condition = of.condition.as_doc().first();
            condition.is_some_and(|(name, value)| name == *path && value.get() == wanted)
        };
        let Some(of) = self.all.iter().find(is_condition) else { return Ok(None) };
        let read = |key: &[u8]| question.snapshot.state(question.pattern.id, key);
        // Arrays of names match, too, and are not counted by name.
        if read(&tallies::unknown())?.is_some() {
            return Ok(None);
        }
        let mut count = 0;
        for member in of.members.iter().filter_map(|at| self.at(*at)) {
            let record = read(&tallies::known(&member.name))?;
            count += record.map_or(0, |record| tallies::documents(record.as_doc()));
        }
        Ok(u64::try_from(count).ok())
    }
}

/// Whether a condition on a path is met only by documents with a value there.
fn requires_value(condition: RawVal<'_>) -> bool {
    let Some(operators) = condition.as_doc() else { return is_value(condition.get()) };
    if operators.first().is_none_or(|(name, _)| !name.starts_with('$')) {
        return true;
    }
    operators.iter().any(|(name, operand)| match name {
        "$eq" | "$gt" | "$gte" | "$lt" | "$lte" => is_value(operand.get()),
        "$in" => operand
            .as_array()
            .is_some_and(|list| list.iter().all(|(_, value)| is_value(value.get()))),
        "$exists" => operand.get().truthy(),
        "$regex" | "$elemMatch" | "$size" => true,
        _ => false,
    })
}

/// Whether a comparison with a value is not met by a missing one.
fn is_value(value: Val<'_>) -> bool {
    !matches!(value, Val::Null | Val::Undefined | Val::Missing | Val::MinKey | Val::MaxKey)
}
