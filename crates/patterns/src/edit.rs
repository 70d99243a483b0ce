//! Writing values into documents by dotted paths, without touching anything else.

use query::update::delta::LoggedUpdate;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::ops::Range;
use value::path::Path;
use value::{Code, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Type, Val, Writer, writer};

/// One change: a path and its new value; `None` removes it.
pub type Assignment = (Path, Option<OwnedVal>);

/// A document that was changed.
#[derive(Debug)]
pub struct Edited {
    /// The document afterwards.
    pub image: DocBuf,
    /// The log form of the change, if it is known already.
    pub logged: Option<LoggedUpdate>,
}

/// Like `assign`; `None` if nothing changes.
///
/// # Errors
/// As `assign`.
pub fn edited<P: Borrow<Path>>(
    doc: RawDoc<'_>,
    changes: &[(P, Option<OwnedVal>)],
) -> Result<Option<Edited>> {
    if let Some((image, logged)) = overwritten(doc, changes) {
        return Ok(logged.map(|logged| Edited { image, logged: Some(logged) }));
    }
    let image = assign(doc, changes)?;
    Ok((image.bytes() != doc.bytes()).then_some(Edited { image, logged: None }))
}

/// Overwrites plain values at the top level of a document, and returns the log form if any of them
/// changed. It needs one pass, which is sufficient for sums and counts. `None` if the changes need
/// more than that.
fn overwritten<P: Borrow<Path>>(
    doc: RawDoc<'_>,
    changes: &[(P, Option<OwnedVal>)],
) -> Option<(DocBuf, Option<LoggedUpdate>)> {
    let mut left: u32 = 1_u32.checked_shl(changes.len().try_into().ok()?)?.checked_sub(1)?;
    let mut patch = Patch::new(doc);
    let mut delta = Vec::with_capacity(96);
    let start = writer::open(&mut delta);
    delta.extend_from_slice(&[0x03, b'u', 0]);
    let inner = writer::open(&mut delta);
    let empty = delta.len();
    let mut elements = doc.iter();
    while left != 0 {
        let (name, old) = elements.next_bytes()?;
        let is_here = |(at, change): &(usize, &(P, Option<OwnedVal>))| {
            let path: &Path = change.0.borrow();
            left & (1 << at) != 0 && path.is_single() && path.first().as_bytes() == name
        };
        let Some((at, (_, value))) = changes.iter().enumerate().find(is_here) else { continue };
        left &= !(1 << at);
        let new = value.as_ref()?.raw();
        if old == new {
            continue;
        }
        if matches!(new.kind, 0x03 | 0x04) {
            return None;
        }
        patch.set(old, new)?;
        delta.push(new.kind);
        delta.extend_from_slice(name);
        delta.push(0);
        delta.extend_from_slice(new.bytes);
    }
    let changed = delta.len() > empty;
    writer::close(&mut delta, inner);
    writer::close(&mut delta, start);
    let shorter = delta.len() < doc.bytes().len();
    let logged = if shorter { LoggedUpdate::Delta(delta) } else { LoggedUpdate::Replacement };
    Some((patch.finish(), changed.then_some(logged)))
}

/// Returns the document with the changes applied: existing fields in place, new ones at the end.
/// Creates documents that a path needs, and removes them with their last field.
///
/// # Errors
/// PatternViolation if a value other than a document is in the way of a path.
pub fn assign<P: Borrow<Path>>(
    doc: RawDoc<'_>,
    changes: &[(P, Option<OwnedVal>)],
) -> Result<DocBuf> {
    if let Some(patched) = patch(doc, changes) {
        return Ok(patched);
    }
    let mut bytes = Vec::with_capacity(doc.bytes().len() + 64);
    let mut writer = Writer::start(&mut bytes);
    let changes: Vec<PendingChange<'_>> =
        changes.iter().map(|(path, value)| (path.borrow(), 0, value.as_ref())).collect();
    level(doc, &changes, &mut writer)?;
    writer.finish();
    Ok(DocBuf::from_bytes(bytes))
}

/// Returns the document with each value overwritten; `None` unless all of them have the type and
/// the length of the old value, as sums and counts usually do.
fn patch<P: Borrow<Path>>(doc: RawDoc<'_>, changes: &[(P, Option<OwnedVal>)]) -> Option<DocBuf> {
    let mut patch: Option<Patch<'_>> = None;
    for (path, value) in changes {
        let (old, new) = (path.borrow().find(doc)?, value.as_ref()?.raw());
        overwrite_range(doc, old, new)?;
        patch.get_or_insert_with(|| Patch::new(doc)).set(old, new)?;
    }
    patch.map(Patch::finish)
}

/// A copy of a document whose values are overwritten in place.
pub struct Patch<'d> {
    doc: RawDoc<'d>,
    bytes: Image,
}

/// The bytes of a document that is usually small and copied elsewhere at once.
pub type Image = SmallVec<[u8; 128]>;

/// Converts the bytes to a vector. `into_vec` would move inline bytes one by one.
#[must_use]
pub fn vector(image: Image) -> Vec<u8> {
    if image.spilled() { image.into_vec() } else { image.to_vec() }
}

impl<'d> Patch<'d> {
    /// Copies the document.
    #[must_use]
    pub fn new(doc: RawDoc<'d>) -> Patch<'d> {
        Patch { doc, bytes: SmallVec::from_slice(doc.bytes()) }
    }

    /// Overwrites a value of the document; `None` if the new one has another type or length.
    pub fn set(&mut self, old: RawVal<'d>, new: RawVal<'_>) -> Option<()> {
        let at = overwrite_range(self.doc, old, new)?;
        self.bytes.get_mut(at)?.copy_from_slice(new.bytes);
        Some(())
    }

    /// Like `set`, for a 64-bit number.
    pub fn set_i64(&mut self, old: RawVal<'d>, new: i64) -> Option<()> {
        self.set(old, RawVal { kind: Type::Int64 as u8, bytes: &new.to_le_bytes() })
    }

    /// The patched document.
    #[must_use]
    pub fn finish(self) -> DocBuf {
        DocBuf::from_bytes(vector(self.bytes))
    }

    /// The bytes of the patched document.
    #[must_use]
    pub fn into_image(self) -> Image {
        self.bytes
    }
}

/// Returns the byte range of a value in a document, if the new value fits there.
fn overwrite_range(doc: RawDoc<'_>, old: RawVal<'_>, new: RawVal<'_>) -> Option<Range<usize>> {
    if old.kind != new.kind || old.bytes.len() != new.bytes.len() {
        return None;
    }
    let at = old.bytes.as_ptr().addr().checked_sub(doc.bytes().as_ptr().addr())?;
    let end = at.checked_add(old.bytes.len())?;
    (end <= doc.bytes().len()).then_some(at..end)
}

/// A change, and how many parts of its path are processed.
type PendingChange<'s> = (&'s Path, usize, Option<&'s OwnedVal>);

fn part<'s>(step: &PendingChange<'s>) -> &'s str {
    step.0.parts().get(step.1).map_or("", |part| &part.name)
}

fn is_last(step: &PendingChange<'_>) -> bool {
    step.1 + 1 >= step.0.parts().len()
}

fn level(doc: RawDoc<'_>, steps: &[PendingChange<'_>], out: &mut Writer<'_>) -> Result<()> {
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
        let here: Vec<PendingChange<'_>> =
            steps.iter().filter(|step| part(step) == name).copied().collect();
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
            let here: Vec<PendingChange<'_>> =
                steps.iter().filter(|step| part(step) == name).copied().collect();
            nested(name, RawDoc::empty(), &here, out)?;
        }
    }
    Ok(())
}

fn nested(
    name: &str,
    doc: RawDoc<'_>,
    here: &[PendingChange<'_>],
    out: &mut Writer<'_>,
) -> Result<()> {
    let deeper: Vec<PendingChange<'_>> =
        here.iter().map(|step| (step.0, step.1 + 1, step.2)).collect();
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
    fn what_is_edited_is_told_as_the_difference_of_the_images() {
        let doc = ejson::parse_doc(
            "{_id: 1, text: 'longer than the change', n: {s: 5}, c: 6, d: 7, a: [7], c: 8}",
        )
        .expect("test text");
        let (one, two) = (Some(Val::Int32(1)), Some(Val::Int32(2)));
        let list = ejson::parse_doc("{l: [8]}").expect("test text");
        let list = list.as_doc().get("l");
        for (changes, known) in [
            (vec![("c", one)], true),
            (vec![("d", two), ("c", one)], true),
            (vec![("d", two), ("c", Some(Val::Int32(6)))], true),
            (vec![("c", Some(Val::Int64(1)))], false),
            (vec![("c", one), ("e", two)], false),
            (vec![("c", one), ("d", None)], false),
            (vec![("c", one), ("n.s", two)], false),
            (vec![("a", list)], false),
            (vec![("c", Some(Val::Int32(6)))], false),
            (vec![], false),
        ] {
            let changes: Vec<Assignment> = changes
                .iter()
                .map(|(path, value)| (Path::new(path), value.map(OwnedVal::new)))
                .collect();
            let all = assign(doc.as_doc(), &changes).expect("can be assigned");
            let edited = edited(doc.as_doc(), &changes).expect("can be edited");
            assert_eq!(edited.is_some(), all != doc, "{changes:?}");
            let Some(edited) = edited else { continue };
            assert_eq!(edited.image, all, "{changes:?}");
            assert_eq!(edited.logged.is_some(), known, "{changes:?}");
            let logged = query::update::delta::between(doc.as_doc(), all.as_doc());
            assert!(edited.logged.is_none_or(|known| known == logged), "{changes:?}");
        }
        let short = ejson::parse_doc("{c: 6}").expect("test text");
        let changes = [(Path::new("c"), Some(OwnedVal::new(Val::Int32(7))))];
        let edited = edited(short.as_doc(), &changes).expect("can be edited").expect("changes");
        assert_eq!(edited.logged, Some(LoggedUpdate::Replacement));
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
