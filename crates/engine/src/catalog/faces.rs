//! Which faces a statement names: fields that documents have only for statements that name them
//! (`patterns::shape::Shape::face`). Only the text of a statement is looked at. A text that means
//! something else counts too; then documents are shown with a field that the statement ignores.

use super::Collection;
use patterns::shape::{Named, Reader};
use std::sync::Arc;
use value::{DocBuf, RawDoc, RawVal, Result, Val, writer};

/// Whether a path, or a reference to one in an expression, begins with a field.
fn begins_with(text: &str, field: &str) -> bool {
    let text = text.strip_prefix("$$ROOT.").or(text.strip_prefix("$$CURRENT.")).unwrap_or(text);
    let text = text.strip_prefix('$').unwrap_or(text);
    text.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns whether a field is named anywhere in a part of a statement.
#[must_use]
pub fn names(value: RawVal<'_>, field: &str) -> bool {
    if let Some(inner) = value.as_doc().or(value.as_array()) {
        let is_doc = value.as_doc().is_some();
        return inner
            .iter()
            .any(|(name, value)| (is_doc && begins_with(name, field)) || names(value, field));
    }
    value.get().as_str().is_some_and(|text| begins_with(text, field))
}

/// The number of stages at the beginning of a pipeline that only find documents.
fn leading(pipeline: RawDoc<'_>) -> usize {
    let finds = |(_, stage): &(&str, RawVal<'_>)| {
        let name = stage.as_doc().and_then(RawDoc::first).map(|(name, _)| name);
        matches!(name, Some("$match" | "$sort" | "$limit" | "$skip"))
    };
    pipeline.iter().take_while(finds).count()
}

/// Returns the faces of a collection that a pipeline over it names.
#[must_use]
pub fn of_pipeline(collection: &Collection, pipeline: RawDoc<'_>, field: Option<&str>) -> Named {
    let mut named = Named::default();
    let Some(shapes) = &collection.shapes else { return named };
    let leading = leading(pipeline);
    for face in shapes.faces() {
        let mut stages = pipeline.iter().enumerate();
        let by_field = field.is_some_and(|field| begins_with(field, face));
        let shown =
            by_field || stages.clone().skip(leading).any(|(_, (_, stage))| names(stage, face));
        if shown || stages.any(|(_, (_, stage))| names(stage, face)) {
            named.add(face, shown);
        }
    }
    named
}

/// Returns the pipeline without the faces that only its first stages name, to find documents.
#[must_use]
pub fn hidden(collection: &Collection, pipeline: RawDoc<'_>) -> Option<DocBuf> {
    let faces = collection.form.as_ref()?.only_to_find();
    if faces.is_empty() {
        return None;
    }
    let at = leading(pipeline);
    let next = pipeline.iter().nth(at).and_then(|(_, stage)| stage.as_doc()?.first());
    // Such stages make documents of their own.
    if matches!(next, Some(("$count" | "$group" | "$sortByCount", _))) {
        return None;
    }
    let mut joined = Vec::new();
    writer::write_array(&mut joined, |out| {
        pipeline.iter().take(at).for_each(|(_, stage)| out.push_raw(stage));
        out.push_doc(|out| {
            out.array("$unset", |out| faces.iter().for_each(|face| out.push(Val::String(face))));
        });
        pipeline.iter().skip(at).for_each(|(_, stage)| out.push_raw(stage));
    });
    Some(DocBuf::from_bytes(joined))
}

impl Collection {
    /// Returns the collection as a reader sees it that names these faces; `None` if that is the
    /// canonical form.
    ///
    /// # Errors
    /// As `seen_by`.
    pub fn seen_naming(
        &self,
        reader: Option<&Arc<Reader>>,
        named: Named,
    ) -> Result<Option<Arc<Collection>>> {
        match reader {
            Some(reader) if reader.named == named => self.seen_by(reader),
            Some(reader) => self.seen_by(&Reader { named, ..(**reader).clone() }),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    #[test]
    fn a_field_is_found_where_statements_name_fields() {
        for (text, expected) in [
            ("{filter: {kv: {$elemMatch: {k: 'a'}}}}", true),
            ("{filter: {$or: [{a: 1}, {'kv.k': 'a'}]}}", true),
            ("{pipeline: [{$unwind: '$kv'}]}", true),
            ("{pipeline: [{$project: {x: {$size: '$$ROOT.kv.v'}}}]}", true),
            ("{key: 'kv.k'}", true),
            ("{filter: {kvs: 1, 'a.kv': 1, b: '$kva'}}", false),
            ("{filter: {a: ['k', 'v']}}", false),
        ] {
            let doc = ejson::parse_doc(text).expect("test text");
            let doc = value::OwnedVal::new(Val::Document(doc.as_doc()));
            assert_eq!(names(doc.raw(), "kv"), expected, "{text}");
        }
    }
}
