//! Writing values into documents by dotted paths, without touching anything else.

use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, Result, Val, Writer};

/// One change: a path, and the value that stands there afterwards; `None` for nothing.
pub type Assignment = (Path, Option<OwnedVal>);

/// The document with the changes made: in place where a field is there, at the end where not.
/// Documents that a path needs are made, and go when their last field does.
///
/// # Errors
/// PatternViolation when something other than a document stands in a path's way.
pub fn assign(doc: RawDoc<'_>, changes: &[Assignment]) -> Result<DocBuf> {
    let mut bytes = Vec::with_capacity(doc.bytes().len() + 64);
    let mut writer = Writer::start(&mut bytes);
    let changes: Vec<Step<'_>> =
        changes.iter().map(|(path, value)| (path, 0, value.as_ref())).collect();
    level(doc, &changes, &mut writer)?;
    writer.finish();
    Ok(DocBuf::from_bytes(bytes))
}

/// A change and how many parts of its path lie behind.
type Step<'s> = (&'s Path, usize, Option<&'s OwnedVal>);

fn part<'s>(step: &Step<'s>) -> &'s str {
    step.0.parts().get(step.1).map_or("", |part| &part.name)
}

fn is_last(step: &Step<'_>) -> bool {
    step.1 + 1 >= step.0.parts().len()
}

fn level(doc: RawDoc<'_>, steps: &[Step<'_>], out: &mut Writer<'_>) -> Result<()> {
    for (name, value) in doc {
        let here: Vec<Step<'_>> = steps.iter().filter(|step| part(step) == name).copied().collect();
        let Some(first) = here.first() else {
            out.raw(name, value);
            continue;
        };
        if is_last(first) {
            if let Some(new) = first.2 {
                out.raw(name, new.raw());
            }
            continue;
        }
        match value.as_doc() {
            Some(inner) => nested(name, inner, &here, out)?,
            None if here.iter().all(|step| step.2.is_none()) => {
                out.raw(name, value);
            }
            None => {
                return Err(Error::new(
                    Code::PATTERN_VIOLATION,
                    format!(
                        "'{name}' must be a document, because a pattern maintains '{}'",
                        first.0.text()
                    ),
                ));
            }
        }
    }
    let mut made: Vec<&str> = Vec::new();
    for step in steps {
        let name = part(step);
        if step.2.is_none() || made.contains(&name) || doc.find(name).is_some() {
            continue;
        }
        made.push(name);
        if is_last(step) {
            if let Some(new) = step.2 {
                out.raw(name, new.raw());
            }
        } else {
            let here: Vec<Step<'_>> =
                steps.iter().filter(|step| part(step) == name).copied().collect();
            nested(name, RawDoc::empty(), &here, out)?;
        }
    }
    Ok(())
}

fn nested(name: &str, doc: RawDoc<'_>, here: &[Step<'_>], out: &mut Writer<'_>) -> Result<()> {
    let deeper: Vec<Step<'_>> = here.iter().map(|step| (step.0, step.1 + 1, step.2)).collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::start(&mut bytes);
    level(doc, &deeper, &mut writer)?;
    writer.finish();
    let inner = RawDoc::new(&bytes);
    let emptied = inner.is_empty() && here.iter().all(|step| step.2.is_none()) && !doc.is_empty();
    if !emptied {
        out.append(name, Val::Document(inner));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn assigned(doc: &str, changes: &[(&str, Option<Val<'_>>)]) -> String {
        let doc = ejson::parse_doc(doc).expect("test text");
        let changes: Vec<Assignment> = changes
            .iter()
            .map(|(path, value)| (Path::new(path), value.map(OwnedVal::new)))
            .collect();
        assign(doc.as_doc(), &changes)
            .map_or_else(|e| e.message().to_owned(), |doc| format!("{doc:?}"))
    }

    #[test]
    fn values_are_set_in_place_or_at_the_end() {
        let one = Some(Val::Int32(1));
        assert_eq!(
            assigned("{a: 5, b: 6}", &[("a", one), ("c", one)]),
            r#"{"a": Int32(1), "b": Int32(6), "c": Int32(1)}"#
        );
        assert_eq!(
            assigned("{a: {x: 1}, b: 2}", &[("a.y", one), ("n.m", one), ("n.k", one)]),
            r#"{"a": Document({"x": Int32(1), "y": Int32(1)}), "b": Int32(2), "n": Document({"m": Int32(1), "k": Int32(1)})}"#
        );
    }

    #[test]
    fn documents_go_with_their_last_field() {
        assert_eq!(
            assigned(
                "{a: {x: 1}, b: {y: 1, z: 2}}",
                &[("a.x", None), ("b.y", None), ("c.d", None)]
            ),
            r#"{"b": Document({"z": Int32(2)})}"#
        );
        assert!(assigned("{a: 1}", &[("a.x", Some(Val::Null))]).contains("must be a document"));
        assert_eq!(assigned("{a: 1}", &[("a.x", None)]), r#"{"a": Int32(1)}"#);
    }
}
