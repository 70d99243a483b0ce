//! Writing values into documents by dotted paths, without touching anything else.

use std::borrow::Borrow;
use std::ops::Range;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Type, Val, Writer};

/// One change: a path, and the value that stands there afterwards; `None` for nothing.
pub type Assignment = (Path, Option<OwnedVal>);

/// The document with the changes made: in place where a field is there, at the end where not.
/// Documents that a path needs are made, and go when their last field does.
///
/// # Errors
/// PatternViolation when something other than a document stands in a path's way.
pub fn assign<P: Borrow<Path>>(
    doc: RawDoc<'_>,
    changes: &[(P, Option<OwnedVal>)],
) -> Result<DocBuf> {
    if let Some(patched) = patch(doc, changes) {
        return Ok(patched);
    }
    let mut bytes = Vec::with_capacity(doc.bytes().len() + 64);
    let mut writer = Writer::start(&mut bytes);
    let changes: Vec<Step<'_>> =
        changes.iter().map(|(path, value)| (path.borrow(), 0, value.as_ref())).collect();
    level(doc, &changes, &mut writer)?;
    writer.finish();
    Ok(DocBuf::from_bytes(bytes))
}

/// The document with each value written over the one that stands there; `None` unless all of them
/// have the type and the length of what they replace, as sums and counts mostly do.
fn patch<P: Borrow<Path>>(doc: RawDoc<'_>, changes: &[(P, Option<OwnedVal>)]) -> Option<DocBuf> {
    let mut patch: Option<Patch<'_>> = None;
    for (path, value) in changes {
        let (old, new) = (path.borrow().find(doc)?, value.as_ref()?.raw());
        room(doc, old, new)?;
        patch.get_or_insert_with(|| Patch::new(doc)).set(old, new)?;
    }
    patch.map(Patch::finish)
}

/// A copy of a document whose values are written over in place.
pub struct Patch<'d> {
    doc: RawDoc<'d>,
    bytes: Vec<u8>,
}

impl<'d> Patch<'d> {
    /// Copies the document.
    #[must_use]
    pub fn new(doc: RawDoc<'d>) -> Patch<'d> {
        Patch { doc, bytes: doc.bytes().to_vec() }
    }

    /// Writes over a value of the document; `None` if the new one has another type or length.
    pub fn set(&mut self, old: RawVal<'d>, new: RawVal<'_>) -> Option<()> {
        let at = room(self.doc, old, new)?;
        self.bytes.get_mut(at)?.copy_from_slice(new.bytes);
        Some(())
    }

    /// As `set`, of a 64-bit number.
    pub fn set_i64(&mut self, old: RawVal<'d>, new: i64) -> Option<()> {
        self.set(old, RawVal { kind: Type::Int64 as u8, bytes: &new.to_le_bytes() })
    }

    /// The patched document.
    #[must_use]
    pub fn finish(self) -> DocBuf {
        DocBuf::from_bytes(self.bytes)
    }
}

/// Where a value of a document stands, if another one fits there.
fn room(doc: RawDoc<'_>, old: RawVal<'_>, new: RawVal<'_>) -> Option<Range<usize>> {
    if old.kind != new.kind || old.bytes.len() != new.bytes.len() {
        return None;
    }
    let at = old.bytes.as_ptr().addr().checked_sub(doc.bytes().as_ptr().addr())?;
    let end = at.checked_add(old.bytes.len())?;
    (end <= doc.bytes().len()).then_some(at..end)
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
        let Some(first) = steps.iter().find(|step| part(step) == name) else {
            out.raw(name, value);
            continue;
        };
        if is_last(first) {
            if let Some(new) = first.2 {
                out.raw(name, new.raw());
            }
            continue;
        }
        let here: Vec<Step<'_>> = steps.iter().filter(|step| part(step) == name).copied().collect();
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
    fn values_of_the_same_width_are_written_over_the_old_ones() {
        let doc = ejson::parse_doc("{_id: 1, n: {s: 5, t: 'x'}, c: 6, a: [7]}").expect("test text");
        let patched = |changes: &[(&str, Option<Val<'_>>)]| {
            let changes: Vec<Assignment> = changes
                .iter()
                .map(|(path, value)| (Path::new(path), value.map(OwnedVal::new)))
                .collect();
            patch(doc.as_doc(), &changes).map(|doc| format!("{doc:?}"))
        };
        let seven = Some(Val::Int32(7));
        let expected = r#"{"_id": Int32(1), "n": Document({"s": Int32(7), "t": String("x")}), "c": Int32(7), "a": Array({"0": Int32(7)})}"#;
        assert_eq!(patched(&[("n.s", seven), ("c", seven)]).as_deref(), Some(expected));
        for other in [
            ("c", Some(Val::Int64(7))),
            ("n.t", Some(Val::String("longer"))),
            ("c", None),
            ("d", seven),
            ("a.0", seven),
        ] {
            assert_eq!(patched(&[("c", seven), other]), None, "{other:?}");
        }
        assert_eq!(patched(&[]), None);
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
